"""How Chroma words its errors, and how Chroma Cloud refuses more results than a tenant's quota allows."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping

import msgspec

from vecsieve.adapters.contract import NativeAnswer, is_too_many

# HTTP status -> the name of the error, by which clients choose the exception they raise.
_NAMES: Mapping[int, str] = {
    400: "InvalidArgumentError",
    401: "AuthorizationError",
    403: "AuthError",
    404: "NotFoundError",
    409: "UniqueConstraintError",
    429: "RateLimitError",
    500: "InternalError",
}
_OTHER = "ChromaError"

# `Quota exceeded: 'Number of results' exceeded quota limit for action 'Query': current usage of 500 exceeds limit of 300`,
# perhaps with more behind it. Other quotas are worded alike and are not about the limit.
_REFUSED = re.compile(
    r"'Number of results' exceeded quota limit for action 'Query': current usage of \d+ exceeds limit of (\d{1,9})\b"
)


class _Error(msgspec.Struct):
    message: str


_DECODER = msgspec.json.Decoder(_Error)


class ChromaDialect:
    """Chroma's own words."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """An error in the one shape that there is, named so that clients raise what they would raise of the server's."""
        words = json.dumps(message, ensure_ascii=False).encode(errors="replace")
        body = b'{"error":"%s","message":%s}' % (_NAMES.get(status, _OTHER).encode(), words)
        return NativeAnswer(status=status, content_type="application/json", body=body)

    def refused_limit(self, status: int, body: bytes) -> int | None:
        """The most results that the tenant's quota allows, when this error is its refusal of more; else None."""
        if status != 422:
            return None
        try:
            words = _DECODER.decode(body).message
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return None
        match = _REFUSED.search(words)
        return int(match[1]) if match else None

    def names_unknown_vector(self, status: int, body: bytes) -> bool:
        """False: a record has one embedding, and it has no name."""
        return False

    def is_quota(self, status: int, body: bytes) -> bool:
        """Whether this says that too much was asked for in a while."""
        return is_too_many(status)

    def is_quota_in_success(self, body: bytes) -> bool:
        """False: a success is one."""
        return False
