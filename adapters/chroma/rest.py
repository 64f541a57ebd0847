"""Chroma over REST: the adapter, composed of the files beside it.

Spoken: query of version 2 of the interface, and of version 1, which servers before 0.6 had. Everything else (search, which
only Chroma Cloud answers, get, writes, collections) is passed through.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.chroma import calls, request
from vecsieve.adapters.chroma import reply as chroma_reply
from vecsieve.adapters.chroma.reply import ReplyDocument
from vecsieve.adapters.chroma.request import Document
from vecsieve.adapters.contract import Bounds, Needs, Operation, Reply, RequestHead, SearchCall
from vecsieve.adapters.wire import json as wire_json
from vecsieve.adapters.wire.json import Span
from vecsieve.adapters.wire.json_vectors import kept_inside

# The client's answer from a wider Chroma reply: upstream's cells, without the other rows and without what was added.
#
# A column that was asked for by us alone is null again, as the server writes what nobody asked for, and its name is gone
# from the list that repeats what was included. Everything else stays as it came: the order of the members, white space.

Replacement = tuple[Span, list[bytes]]


def trim(request: Document, reply: ReplyDocument, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
    """The client's answer: of search i the rows ``keep[i]`` in that order, in every column that the client asked for."""
    rows = [kept.tolist() for kept in keep]
    replacements: list[Replacement] = []
    for column in reply.columns.values():
        if column.name in request.added:
            replacements.append((column.span, [b"null"]))
            continue
        for cells, kept in zip(column.cells, rows, strict=True):
            replacements.append(_kept(reply, cells.array, cells.spans, kept))
    if reply.echo is not None:
        said = [place for place, name in enumerate(reply.echo.said) if name not in request.added]
        replacements.append(_kept(reply, reply.echo.array, reply.echo.spans, said))
    return _assembled(reply, sorted(replacements, key=lambda each: each[0]))


def _kept(reply: ReplyDocument, array: Span, spans: Sequence[Span], kept: Sequence[int]) -> Replacement:
    """The inside of an array, with some of its elements."""
    return (array[0] + 1, array[1] - 1), kept_inside(reply.source, array, spans, kept, lambda _: [])


def _assembled(reply: ReplyDocument, replacements: Sequence[Replacement]) -> bytes:
    pieces: list[bytes] = []
    position = 0
    for (start, end), replacement in replacements:
        pieces += [reply.source.cut(position, start), *replacement]
        position = end
    pieces.append(reply.source.cut(position, len(reply.text)))
    return b"".join(pieces)


class ChromaRest:
    """The six verbs. Holds nothing: one instance serves any number of callers."""

    def classify(self, head: RequestHead) -> Operation | None:
        """Name the ranked search, or None. Total."""
        return calls.classify(head)

    def check_size(self, operation: Operation, body: bytes, bounds: Bounds) -> None:
        """Count the parts of a body. Raises UnsupportedError where there are too many, nothing else."""
        wire_json.check_size(body, bounds)

    def parse_request(self, operation: Operation, body: bytes, needs: Needs) -> SearchCall:
        """Read what the client wants, a search for each query embedding. Raises UnsupportedError, nothing else."""
        searches, document = request.parse(body, needs)
        return SearchCall(operation=operation, searches=searches, needs=needs, document=document)

    def widen(self, call: SearchCall, fetch_k: Sequence[int]) -> bytes:
        """The client's bytes, asking for the largest of ``fetch_k`` for every search, with what selection compares."""
        return request.widen(_request(call), fetch_k)

    def parse_reply(self, call: SearchCall, body: bytes) -> Reply:
        """Read a successful reply to a widened request. Raises MalformedReplyError, nothing else."""
        pools, document = chroma_reply.parse_reply(_request(call), call.searches, call.needs, body)
        return Reply(pools=pools, document=document)

    def trim(self, call: SearchCall, reply: Reply, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
        """The native answer: kept cells are upstream's own bytes, what was added is gone."""
        return trim(_request(call), _document(reply), keep)


def _request(call: SearchCall) -> Document:
    if not isinstance(call.document, Document):
        raise TypeError("the call was parsed by another adapter")
    return call.document


def _document(reply: Reply) -> ReplyDocument:
    if not isinstance(reply.document, ReplyDocument):
        raise TypeError("the reply was parsed by another adapter")
    return reply.document
