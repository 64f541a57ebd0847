"""Milvus over gRPC: the adapter, composed of the files beside it.

Spoken: Search and HybridSearch by dense vectors, servers 2.3 and later. Messages are walked and cut, never decoded and encoded
again. Groups, iterators, ranges, sparse and binary vectors, texts and searches by ids are passed through.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from vecsieve.adapters import (
    milvus_grpc_methods,
    milvus_grpc_pools,
    milvus_grpc_request,
    milvus_grpc_restore,
    proto_size,
)
from vecsieve.adapters.contract import Bounds, Needs, Operation, Reply, RequestHead, SearchCall
from vecsieve.adapters.first_step import Question
from vecsieve.adapters.milvus_grpc_reply import ReplyDocument
from vecsieve.adapters.milvus_grpc_request import Document
from vecsieve.adapters.milvus_schema import Schema, read_description


class MilvusGrpc:
    """The six verbs, over single messages, and the two of the first step. Holds nothing."""

    def classify(self, head: RequestHead) -> Operation | None:
        """Name the ranked search, or None. Total."""
        return milvus_grpc_methods.classify(head)

    def check_size(self, operation: Operation, body: bytes, bounds: Bounds) -> None:
        """Count the fields of a message. Raises Unsupported where there are too many, nothing else."""
        proto_size.check_size(body, operation.name, milvus_grpc_request.MESSAGES, bounds)

    def parse_request(self, operation: Operation, body: bytes, needs: Needs) -> SearchCall:
        """Read what the client wants. Raises Unsupported, nothing else."""
        return milvus_grpc_request.parse_request(operation, body, needs)

    def widen(self, call: SearchCall, fetch_k: Sequence[int]) -> bytes:
        """The client's message, asking for the largest of ``fetch_k`` from rank 0 with the fields that are compared."""
        return milvus_grpc_request.widen(_request(call), fetch_k)

    def parse_reply(self, call: SearchCall, body: bytes) -> Reply:
        """Read a successful reply to a widened request. Raises Malformed, nothing else."""
        pools, document = milvus_grpc_pools.parse_reply(_request(call), call.needs, body)
        return Reply(pools=pools, document=document)

    def trim(self, call: SearchCall, reply: Reply, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
        """The native answer: kept rows are upstream's own bytes, what was added is gone."""
        if not isinstance(reply.document, ReplyDocument):
            raise TypeError("the reply was parsed by another adapter")
        return milvus_grpc_restore.trim(_request(call), reply.document, keep)

    def question(self, operation: Operation, body: bytes) -> Question | None:
        """What describes the collection of a search. Total."""
        return milvus_grpc_methods.question(body)

    def told(self, body: bytes) -> Schema:
        """Read a description. Raises Malformed, nothing else."""
        return read_description(body)


def _request(call: SearchCall) -> Document:
    if not isinstance(call.document, Document):
        raise TypeError("the call was parsed by another adapter")
    return call.document
