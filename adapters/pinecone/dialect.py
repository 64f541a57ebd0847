"""How Pinecone words its errors: gRPC's status as JSON on the data plane, status and a named code on the control plane."""

from __future__ import annotations

import json
from collections.abc import Mapping

from vecsieve.adapters.contract import NativeAnswer, is_exhausted, is_too_many
from vecsieve.adapters.pinecone.calls import is_of_the_control_plane

# HTTP status -> gRPC code, as the service's edge maps them, and its name.
_CODES: Mapping[int, tuple[int, str]] = {
    400: (3, "INVALID_ARGUMENT"),
    401: (16, "UNAUTHENTICATED"),
    403: (7, "PERMISSION_DENIED"),
    404: (5, "NOT_FOUND"),
    408: (4, "DEADLINE_EXCEEDED"),
    409: (6, "ALREADY_EXISTS"),
    413: (8, "RESOURCE_EXHAUSTED"),
    429: (8, "RESOURCE_EXHAUSTED"),
    500: (13, "INTERNAL"),
    501: (12, "UNIMPLEMENTED"),
    502: (14, "UNAVAILABLE"),
    503: (14, "UNAVAILABLE"),
    504: (4, "DEADLINE_EXCEEDED"),
}
_UNKNOWN = (2, "UNKNOWN")


class PineconeDialect:
    """Pinecone's own words."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """An error in the shape that clients read at this path; gRPC's status where the path is unknown."""
        words = json.dumps(message, ensure_ascii=False).encode(errors="replace")
        number, name = _CODES.get(status, _UNKNOWN)
        if is_of_the_control_plane(path):
            body = b'{"status":%d,"error":{"code":"%s","message":%s}}' % (status, name.encode(), words)
        else:
            body = b'{"code":%d,"message":%s,"details":[]}' % (number, words)
        return NativeAnswer(status=status, content_type="application/json", body=body)

    def refused_limit(self, status: int, body: bytes) -> int | None:
        """None: how the service words a result that is too large is not documented, and no words are guessed."""
        return None

    def names_unknown_vector(self, status: int, body: bytes) -> bool:
        """False: a record has one vector, and it has no name."""
        return False

    def is_quota(self, status: int, body: bytes) -> bool:
        """Whether this says that too much was asked for in a while."""
        return is_too_many(status)

    def is_quota_in_success(self, body: bytes) -> bool:
        """False: a success is one."""
        return False


# How Pinecone words its errors over gRPC: a code and a sentence, as everybody does.


class PineconeGrpcDialect:
    """Pinecone's own words. ``status`` is a gRPC code's number."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """The code, and the sentence as its details."""
        return NativeAnswer(status=status, content_type="", body=message.encode(errors="replace"))

    def refused_limit(self, status: int, body: bytes) -> int | None:
        """None: how the service words a result that is too large is not documented, and no words are guessed."""
        return None

    def names_unknown_vector(self, status: int, body: bytes) -> bool:
        """False: a record has one vector, and it has no name."""
        return False

    def is_quota(self, status: int, body: bytes) -> bool:
        """Whether this says that too much was asked for in a while."""
        return is_exhausted(status, body)

    def is_quota_in_success(self, body: bytes) -> bool:
        """False: a success is one."""
        return False
