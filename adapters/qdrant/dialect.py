"""How Qdrant words its errors, and how its strict mode refuses a limit."""

from __future__ import annotations

import json
import re

import msgspec

from vecsieve.adapters.contract import NativeAnswer, is_exhausted, is_too_many

# What the words of Qdrant's refusals say. They are the same over both of its interfaces.

# `Bad request: Limit exceeded 50 > 10 for "limit". Help: ..`: max_query_limit, for the root or for a prefetch.
_REFUSED = re.compile(r'Limit exceeded \d+ > (\d{1,18}) for "limit"')

_UNKNOWN_VECTOR = "Not existing vector name"


def refused_limit(words: str) -> int | None:
    """The largest ``limit`` strict mode takes, when these words are its refusal of a larger one; else None."""
    match = _REFUSED.search(words)
    return int(match[1]) if match else None


def names_unknown_vector(words: str) -> bool:
    """Whether the server says that a named vector does not exist: dropped, or never there."""
    return _UNKNOWN_VECTOR in words


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
        return refused_limit(_words(status, body))

    def names_unknown_vector(self, status: int, body: bytes) -> bool:
        """Whether the server says that a named vector does not exist: dropped, or never there."""
        return names_unknown_vector(_words(status, body))

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


# How Qdrant words its errors over gRPC: a status code, and the same words as over REST.

INVALID_ARGUMENT = 3


class QdrantGrpcDialect:
    """Qdrant's own words. A status is the number of a gRPC code, a body the details."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """An error of this code; all methods word theirs alike."""
        return NativeAnswer(status=status, content_type="", body=message.encode(errors="replace"))

    def refused_limit(self, status: int, body: bytes) -> int | None:
        """The largest ``limit`` strict mode takes, when this error is its refusal of a larger one; else None."""
        return refused_limit(_grpc_words(status, body))

    def names_unknown_vector(self, status: int, body: bytes) -> bool:
        """Whether the server says that a named vector does not exist: dropped, or never there."""
        return names_unknown_vector(_grpc_words(status, body))

    def is_quota(self, status: int, body: bytes) -> bool:
        """Whether this says that too much was asked for in a while."""
        return is_exhausted(status, body)

    def is_quota_in_success(self, body: bytes) -> bool:
        """False: a success is one."""
        return False


def _grpc_words(status: int, body: bytes) -> str:
    """What a refusal of the request says; nothing for every other answer."""
    return body.decode(errors="replace") if status == INVALID_ARGUMENT else ""
