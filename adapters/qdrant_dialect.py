"""How Qdrant words its errors, and how its strict mode refuses a limit."""

from __future__ import annotations

import json
import re

import msgspec

from vecsieve.adapters.contract import NativeAnswer

# `Bad request: Limit exceeded 50 > 10 for "limit". Help: ..`: max_query_limit, for the root or for a prefetch.
_REFUSED = re.compile(r'Limit exceeded \d+ > (\d{1,18}) for "limit"')

_UNKNOWN_VECTOR = "Not existing vector name"


class _Status(msgspec.Struct):
    error: str


class _Error(msgspec.Struct):
    status: _Status


_DECODER = msgspec.json.Decoder(_Error)


class QdrantDialect:
    """Qdrant's own words."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """The body the server writes for errors it finds before it starts the clock: ``"time":0.0``."""
        body = b'{"status":{"error":%s},"time":0.0}' % json.dumps(message, ensure_ascii=False).encode(errors="replace")
        return NativeAnswer(status=status, content_type="application/json", body=body)

    def refused_limit(self, status: int, body: bytes) -> int | None:
        """The largest ``limit`` strict mode takes, when this error is its refusal of a larger one; else None."""
        match = _REFUSED.search(_words(status, body))
        return int(match[1]) if match else None

    def names_unknown_vector(self, status: int, body: bytes) -> bool:
        """Whether the server says that a named vector does not exist: dropped, or never there."""
        return _UNKNOWN_VECTOR in _words(status, body)


def _words(status: int, body: bytes) -> str:
    """What a refusal of the request says; nothing for every other answer."""
    if status != 400:
        return ""
    try:
        return _DECODER.decode(body).status.error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ""
