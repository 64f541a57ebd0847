"""Weaviate over gRPC: the adapter, composed of the files beside it.

Spoken: searches near a vector, an object, a text or media, hybrid and keyword searches, servers 1.27 and later. Messages are
walked and cut, never decoded and encoded again. Lists, groups, autocut, cursors, boosts, reranking, generated text, several
target vectors, multivector queries and Weaviate's own selection for diversity are passed through.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from vecsieve.adapters import (
    proto_size,
    weaviate_grpc_default,
    weaviate_grpc_methods,
    weaviate_grpc_reply,
    weaviate_grpc_request,
    weaviate_grpc_restore,
)
from vecsieve.adapters.contract import Bounds, Needs, Operation, Reply, RequestHead, SearchCall
from vecsieve.adapters.first_step import Question
from vecsieve.adapters.weaviate_grpc_reply import ReplyDocument
from vecsieve.adapters.weaviate_grpc_request import Document


class WeaviateGrpc:
    """The six verbs, over single messages, and the two of the first step. Holds nothing."""

    def classify(self, head: RequestHead) -> Operation | None:
        """Name the ranked search, or None. Total."""
        return weaviate_grpc_methods.classify(head)

    def check_size(self, operation: Operation, body: bytes, bounds: Bounds) -> None:
        """Count the fields of a message. Raises Unsupported where there are too many, nothing else."""
        proto_size.check_size(body, operation.name, weaviate_grpc_request.MESSAGES, bounds)

    def parse_request(self, operation: Operation, body: bytes, needs: Needs) -> SearchCall:
        """Read what the client wants. Raises Unsupported, nothing else."""
        return weaviate_grpc_request.parse_request(operation, body, needs)

    def widen(self, call: SearchCall, fetch_k: Sequence[int]) -> bytes:
        """The client's bytes, asking for ``fetch_k[0]`` candidates from rank 0 with what selection reads."""
        return weaviate_grpc_request.widen(_request(call), fetch_k)

    def parse_reply(self, call: SearchCall, body: bytes) -> Reply:
        """Read a successful reply to a widened request. Raises Malformed, nothing else."""
        pool, document = weaviate_grpc_reply.parse_reply(_request(call), call.needs, body)
        return Reply(pools=(pool,), document=document)

    def trim(self, call: SearchCall, reply: Reply, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
        """The native answer: kept results are upstream's own bytes, what was added is gone."""
        if not isinstance(reply.document, ReplyDocument):
            raise TypeError("the reply was parsed by another adapter")
        (kept,) = keep
        return weaviate_grpc_restore.trim(_request(call), reply.document, kept)

    def question(self, operation: Operation, body: bytes) -> Question | None:
        """What tells how many results a search without a limit is given. Total."""
        return weaviate_grpc_default.question(body)

    def told(self, body: bytes) -> int:
        """Read that answer. Raises Malformed, nothing else."""
        return weaviate_grpc_default.told(body)


def _request(call: SearchCall) -> Document:
    if not isinstance(call.document, Document):
        raise TypeError("the call was parsed by another adapter")
    return call.document
