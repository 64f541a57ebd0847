"""How Qdrant words its errors over gRPC: a status code, and the same words as over REST."""

from __future__ import annotations

from vecsieve.adapters import qdrant_refusals
from vecsieve.adapters.contract import NativeAnswer
from vecsieve.adapters.quota import is_exhausted

INVALID_ARGUMENT = 3


class QdrantGrpcDialect:
    """Qdrant's own words. A status is the number of a gRPC code, a body the details."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """An error of this code; all methods word theirs alike."""
        return NativeAnswer(status=status, content_type="", body=message.encode(errors="replace"))

    def refused_limit(self, status: int, body: bytes) -> int | None:
        """The largest ``limit`` strict mode takes, when this error is its refusal of a larger one; else None."""
        return qdrant_refusals.refused_limit(_words(status, body))

    def names_unknown_vector(self, status: int, body: bytes) -> bool:
        """Whether the server says that a named vector does not exist: dropped, or never there."""
        return qdrant_refusals.names_unknown_vector(_words(status, body))

    def is_quota(self, status: int, body: bytes) -> bool:
        """Whether this says that too much was asked for in a while."""
        return is_exhausted(status, body)

    def is_quota_in_success(self, body: bytes) -> bool:
        """False: a success is one."""
        return False


def _words(status: int, body: bytes) -> str:
    """What a refusal of the request says; nothing for every other answer."""
    return body.decode(errors="replace") if status == INVALID_ARGUMENT else ""
