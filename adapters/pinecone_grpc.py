"""Pinecone over gRPC: the adapter, composed of the files beside it.

Spoken: ``/VectorService/Query``, the one method that ranks. Everything else is passed through.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from vecsieve.adapters import pinecone_grpc_reply, pinecone_grpc_request, proto_size
from vecsieve.adapters.contract import Bounds, Needs, Operation, Reply, RequestHead, SearchCall
from vecsieve.adapters.pinecone_grpc_reply import ReplyDocument
from vecsieve.adapters.pinecone_grpc_request import Document
from vecsieve.adapters.pinecone_paths import BACKEND, QUERY, index_of

PATH = "/VectorService/Query"
# Its service has no streams; a method that is not here is passed on as one.
UNARY = frozenset(
    f"/VectorService/{name}"
    for name in (
        "Upsert",
        "Delete",
        "Fetch",
        "List",
        "Query",
        "Update",
        "DescribeIndexStats",
        "ListNamespaces",
        "DescribeNamespace",
        "DeleteNamespace",
        "CreateNamespace",
        "FetchByMetadata",
    )
)


class PineconeGrpc:
    """The six verbs. Holds nothing: one instance serves any number of callers."""

    def classify(self, head: RequestHead) -> Operation | None:
        """Name the ranked search, or None. Total. The index is told by the host, as over REST."""
        if head.method != "POST" or head.path != PATH:
            return None
        return Operation(backend=BACKEND, name=QUERY, collection=index_of(head.host))

    def check_size(self, operation: Operation, body: bytes, bounds: Bounds) -> None:
        """Count the fields of a message. Raises Unsupported where there are too many, nothing else."""
        proto_size.check_size(body, operation.name, pinecone_grpc_request.MESSAGES, bounds)

    def parse_request(self, operation: Operation, body: bytes, needs: Needs) -> SearchCall:
        """Read what the client wants. Raises Unsupported, nothing else."""
        search, document = pinecone_grpc_request.parse(body, needs)
        return SearchCall(operation=operation, searches=(search,), needs=needs, document=document)

    def widen(self, call: SearchCall, fetch_k: Sequence[int]) -> bytes:
        """The client's message, asking for ``fetch_k[0]`` candidates with what selection compares."""
        return pinecone_grpc_request.widen(_request(call), fetch_k)

    def parse_reply(self, call: SearchCall, body: bytes) -> Reply:
        """Read a successful reply to a widened request. Raises Malformed, nothing else."""
        pool, document = pinecone_grpc_reply.parse_reply(_request(call), call.needs, body)
        return Reply(pools=(pool,), document=document)

    def trim(self, call: SearchCall, reply: Reply, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
        """The native answer: kept matches are upstream's own bytes, what was added is gone."""
        if not isinstance(reply.document, ReplyDocument):
            raise TypeError("the reply was parsed by another adapter")
        return pinecone_grpc_reply.trim(_request(call), reply.document, keep)


def _request(call: SearchCall) -> Document:
    if not isinstance(call.document, Document):
        raise TypeError("the call was parsed by another adapter")
    return call.document
