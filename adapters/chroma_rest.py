"""Chroma over REST: the adapter, composed of the files beside it.

Spoken: query of version 2 of the interface, and of version 1, which servers before 0.6 had. Everything else (search, which
only Chroma Cloud answers, get, writes, collections) is passed through.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from vecsieve.adapters import chroma_paths, chroma_reply, chroma_request, chroma_restore, json_size
from vecsieve.adapters.chroma_reply import ReplyDocument
from vecsieve.adapters.chroma_request import Document
from vecsieve.adapters.contract import Bounds, Needs, Operation, Reply, RequestHead, SearchCall


class ChromaRest:
    """The six verbs. Holds nothing: one instance serves any number of callers."""

    def classify(self, head: RequestHead) -> Operation | None:
        """Name the ranked search, or None. Total."""
        return chroma_paths.classify(head)

    def check_size(self, operation: Operation, body: bytes, bounds: Bounds) -> None:
        """Count the parts of a body. Raises Unsupported where there are too many, nothing else."""
        json_size.check_size(body, bounds)

    def parse_request(self, operation: Operation, body: bytes, needs: Needs) -> SearchCall:
        """Read what the client wants, a search for each query embedding. Raises Unsupported, nothing else."""
        searches, document = chroma_request.parse(body, needs)
        return SearchCall(operation=operation, searches=searches, needs=needs, document=document)

    def widen(self, call: SearchCall, fetch_k: Sequence[int]) -> bytes:
        """The client's bytes, asking for the largest of ``fetch_k`` for every search, with what selection compares."""
        return chroma_request.widen(_request(call), fetch_k)

    def parse_reply(self, call: SearchCall, body: bytes) -> Reply:
        """Read a successful reply to a widened request. Raises Malformed, nothing else."""
        pools, document = chroma_reply.parse_reply(_request(call), call.searches, call.needs, body)
        return Reply(pools=pools, document=document)

    def trim(self, call: SearchCall, reply: Reply, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
        """The native answer: kept cells are upstream's own bytes, what was added is gone."""
        return chroma_restore.trim(_request(call), _document(reply), keep)


def _request(call: SearchCall) -> Document:
    if not isinstance(call.document, Document):
        raise TypeError("the call was parsed by another adapter")
    return call.document


def _document(reply: Reply) -> ReplyDocument:
    if not isinstance(reply.document, ReplyDocument):
        raise TypeError("the reply was parsed by another adapter")
    return reply.document
