"""The client's answer from a wider Chroma reply: upstream's cells, without the other rows and without what was added.

A column that was asked for by us alone is null again, as the server writes what nobody asked for, and its name is gone
from the list that repeats what was included. Everything else stays as it came: the order of the members, white space.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.chroma_reply import ReplyDocument
from vecsieve.adapters.chroma_request import Document
from vecsieve.adapters.json_kept import kept_inside
from vecsieve.adapters.json_spans import Span

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
