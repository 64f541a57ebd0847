"""How Weaviate words its errors: over REST a list of messages, over gRPC the details of a status, mostly UNKNOWN."""

from __future__ import annotations

import json
import re

from vecsieve.adapters.contract import NativeAnswer, is_exhausted, is_too_many

_LIMIT = re.compile(rb"QUERY_MAXIMUM_RESULTS '([1-9][0-9]{0,8})'")
_UNKNOWN_VECTOR = b"does not have named vector "
_OK = 0
_TOO_MANY = b"429 too many requests"


class WeaviateDialect:
    """Weaviate's own words over REST."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """A list of one message."""
        words = json.dumps(message, ensure_ascii=False).encode(errors="replace")
        return NativeAnswer(status=status, content_type="application/json", body=b'{"error":[{"message":%s}]}' % words)

    def refused_limit(self, status: int, body: bytes) -> int | None:
        """None: no search over HTTP is widened."""
        return None

    def names_unknown_vector(self, status: int, body: bytes) -> bool:
        """False: no search over HTTP is widened."""
        return False

    def is_quota(self, status: int, body: bytes) -> bool:
        """Whether this says that too much was asked for in a while."""
        return is_too_many(status)

    def is_quota_in_success(self, body: bytes) -> bool:
        """False: a success is one."""
        return False


class WeaviateGrpcDialect:
    """The same over gRPC. A status is the number of a code, a body the details."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """The code, and the sentence as its details."""
        return NativeAnswer(status=status, content_type="", body=message.encode(errors="replace"))

    def refused_limit(self, status: int, body: bytes) -> int | None:
        """The largest sum of offset and limit, when this error says that the search passed it; else None."""
        found = _LIMIT.search(body) if status != _OK else None
        return None if found is None else int(found[1])

    def names_unknown_vector(self, status: int, body: bytes) -> bool:
        """Whether the server says that a named vector does not exist."""
        return status != _OK and _UNKNOWN_VECTOR in body

    def is_quota(self, status: int, body: bytes) -> bool:
        """Whether this says that too much was asked for in a while. MAXIMUM_CONCURRENT_GET_REQUESTS has no code of its own."""
        return is_exhausted(status, body) or (status != _OK and _TOO_MANY in body.lower())

    def is_quota_in_success(self, body: bytes) -> bool:
        """False: a success is one."""
        return False
