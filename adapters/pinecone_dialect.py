"""How Pinecone words its errors on the data plane: gRPC's status as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping

from vecsieve.adapters.contract import NativeAnswer

# HTTP status -> gRPC code, as the service's edge maps them.
_CODES: Mapping[int, int] = {
    400: 3,  # INVALID_ARGUMENT
    401: 16,  # UNAUTHENTICATED
    403: 7,  # PERMISSION_DENIED
    404: 5,  # NOT_FOUND
    408: 4,  # DEADLINE_EXCEEDED
    409: 6,  # ALREADY_EXISTS
    413: 8,  # RESOURCE_EXHAUSTED
    429: 8,
    500: 13,  # INTERNAL
    501: 12,  # UNIMPLEMENTED
    502: 14,  # UNAVAILABLE
    503: 14,
    504: 4,
}
_UNKNOWN = 2


class PineconeDialect:
    """Pinecone's own words."""

    def error(self, status: int, message: str) -> NativeAnswer:
        """An error in the shape of gRPC's status, which every client reads."""
        words = json.dumps(message, ensure_ascii=False).encode(errors="replace")
        body = b'{"code":%d,"message":%s,"details":[]}' % (_CODES.get(status, _UNKNOWN), words)
        return NativeAnswer(status=status, content_type="application/json", body=body)

    def refused_limit(self, status: int, body: bytes) -> int | None:
        """None: how the service words a result that is too large is not documented, and no words are guessed."""
        return None

    def names_unknown_vector(self, status: int, body: bytes) -> bool:
        """False: a record has one vector, and it has no name."""
        return False
