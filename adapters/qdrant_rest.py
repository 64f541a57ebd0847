"""Qdrant over REST: the adapter, composed of the files beside it.

Paths, request, reply and restoration are a file each. Spoken: query, search, recommend, discover and their batches, servers
1.7 to 1.20. Groups, matrix, scroll, facet and everything else are passed through.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from vecsieve.adapters import json_size, qdrant_paths, qdrant_reply, qdrant_request, qdrant_restore
from vecsieve.adapters.contract import Bounds, Needs, Operation, Reply, RequestHead, SearchCall
from vecsieve.adapters.qdrant_reply import ReplyDocument
from vecsieve.adapters.qdrant_request import Document


class QdrantRest:
    """The six verbs. Holds nothing: one instance serves any number of callers."""

    def classify(self, head: RequestHead) -> Operation | None:
        """Name the ranked search, or None. Total."""
        return qdrant_paths.classify(head)

    def check_size(self, operation: Operation, body: bytes, bounds: Bounds) -> None:
        """Count the parts of a body. Raises Unsupported where there are too many, nothing else."""
        json_size.check_size(body, bounds)

    def parse_request(self, operation: Operation, body: bytes, needs: Needs) -> SearchCall:
        """Read what the client wants. Raises Unsupported, nothing else."""
        return qdrant_request.parse_request(operation, body, needs)

    def widen(self, call: SearchCall, fetch_k: Sequence[int]) -> bytes:
        """The client's bytes, asking for ``fetch_k[i]`` candidates from rank 0 with the vectors to compare."""
        return qdrant_request.widen(_request(call), fetch_k)

    def parse_reply(self, call: SearchCall, body: bytes) -> Reply:
        """Read a successful reply to a widened request. Raises Malformed, nothing else."""
        in_object = call.operation.name.startswith("query")
        pools, document = qdrant_reply.parse_reply(_request(call), call.needs, body, in_object=in_object)
        return Reply(pools=pools, document=document)

    def trim(self, call: SearchCall, reply: Reply, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
        """The native answer: kept points are upstream's own bytes, what was added is gone."""
        if not isinstance(reply.document, ReplyDocument):
            raise TypeError("the reply was parsed by another adapter")
        return qdrant_restore.trim(_request(call), reply.document, keep)


def _request(call: SearchCall) -> Document:
    if not isinstance(call.document, Document):
        raise TypeError("the call was parsed by another adapter")
    return call.document
