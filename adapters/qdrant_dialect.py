"""How Qdrant words its errors, and how its strict mode refuses a limit."""

from __future__ import annotations

import json

import msgspec

from vecsieve.adapters import qdrant_refusals
from vecsieve.adapters.contract import NativeAnswer
from vecsieve.adapters.quota import is_too_many


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
        return qdrant_refusals.refused_limit(_words(status, body))

    def names_unknown_vector(self, status: int, body: bytes) -> bool:
        """Whether the server says that a named vector does not exist: dropped, or never there."""
        return qdrant_refusals.names_unknown_vector(_words(status, body))

    def is_quota(self, status: int, body: bytes) -> bool:
        """Whether this says that too much was asked for in a while."""
        return is_too_many(status)

    def is_quota_in_success(self, body: bytes) -> bool:
        """False: a success is one."""
        return False


def _words(status: int, body: bytes) -> str:
    """What a refusal of the request says; nothing for every other answer."""
    if status != 400:
        return ""
    try:
        return _DECODER.decode(body).status.error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ""
