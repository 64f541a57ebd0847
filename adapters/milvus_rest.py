"""Milvus over REST: the adapter, composed of the files beside it.

Spoken: the search of version 1, and of version 2 from its description, by one dense vector. Everything else, hybrid searches
among it, is passed through.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from vecsieve.adapters import json_size, milvus_rest_paths, milvus_rest_reply, milvus_rest_request, milvus_rest_schema
from vecsieve.adapters.contract import Bounds, Needs, Operation, Reply, RequestHead, SearchCall
from vecsieve.adapters.first_step import Question
from vecsieve.adapters.milvus_rest_reply import ReplyDocument
from vecsieve.adapters.milvus_rest_request import Document
from vecsieve.adapters.milvus_schema import Schema


class MilvusRest:
    """The six verbs, and the two of the first step. Holds nothing: one instance serves any number of callers."""

    def classify(self, head: RequestHead) -> Operation | None:
        """Name the ranked search, or None. Total."""
        return milvus_rest_paths.classify(head)

    def check_size(self, operation: Operation, body: bytes, bounds: Bounds) -> None:
        """Count the parts of a body. Raises Unsupported where there are too many, nothing else."""
        json_size.check_size(body, bounds)

    def parse_request(self, operation: Operation, body: bytes, needs: Needs) -> SearchCall:
        """Read what the client wants. Raises Unsupported, nothing else."""
        return milvus_rest_request.parse_request(operation, body, needs)

    def widen(self, call: SearchCall, fetch_k: Sequence[int]) -> bytes:
        """The client's bytes, asking for ``fetch_k[0]`` candidates with the fields that are compared."""
        return milvus_rest_request.widen(_request(call), fetch_k)

    def parse_reply(self, call: SearchCall, body: bytes) -> Reply:
        """Read a successful reply to a widened request. Raises Malformed, nothing else."""
        pool, document = milvus_rest_reply.parse_reply(_request(call), call.needs, body)
        return Reply(pools=(pool,), document=document)

    def trim(self, call: SearchCall, reply: Reply, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
        """The native answer: kept rows are upstream's own bytes, what was added is gone."""
        if not isinstance(reply.document, ReplyDocument):
            raise TypeError("the reply was parsed by another adapter")
        return milvus_rest_reply.trim(_request(call), reply.document, keep)

    def question(self, operation: Operation, body: bytes) -> Question | None:
        """What describes the collection of a search. Total."""
        return milvus_rest_request.question(operation.partition, body)

    def told(self, body: bytes) -> Schema:
        """Read a description. Raises Malformed, nothing else."""
        return milvus_rest_schema.read_description(body)


def _request(call: SearchCall) -> Document:
    if not isinstance(call.document, Document):
        raise TypeError("the call was parsed by another adapter")
    return call.document
