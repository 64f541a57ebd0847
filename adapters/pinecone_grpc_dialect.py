"""How Pinecone words its errors over gRPC: a code and a sentence, as everybody does."""

from __future__ import annotations

from vecsieve.adapters.contract import NativeAnswer
from vecsieve.adapters.quota import is_exhausted


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
