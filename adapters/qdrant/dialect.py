"""Qdrant's errors, and the refusal of a limit by its strict mode."""

from __future__ import annotations

import re

import msgspec

from vecsieve.adapters.base import GrpcDialect, RestDialect, json_text
from vecsieve.adapters.contract import NativeAnswer

# `Bad request: Limit exceeded 50 > 10 for "limit". Help: ..`: max_query_limit, for the root or for a prefetch.
_REFUSED = re.compile(r'Limit exceeded \d+ > (\d{1,18}) for "limit"')

_UNKNOWN_VECTOR = "Not existing vector name"


def refused_limit(words: str) -> int | None:
    """The largest ``limit`` that strict mode takes, from the text of its refusal; None for other texts."""
    match = _REFUSED.search(words)
    return int(match[1]) if match else None


def names_unknown_vector(words: str) -> bool:
    """Whether an error's text says that a named vector does not exist."""
    return _UNKNOWN_VECTOR in words


class _Status(msgspec.Struct):
    error: str


class _Error(msgspec.Struct):
    status: _Status


_DECODER = msgspec.json.Decoder(_Error)


class QdrantDialect(RestDialect):
    """Over REST."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """The body of errors that the server finds before it starts the clock: ``"time":0.0``."""
        body = b'{"status":{"error":%s},"time":0.0}' % json_text(message)
        return NativeAnswer(status=status, content_type="application/json", body=body)

    def refused_limit(self, status: int, body: bytes) -> int | None:
        """From strict mode's refusal."""
        return refused_limit(_words(status, body))

    def names_unknown_vector(self, status: int, body: bytes) -> bool:
        """From the error's text."""
        return names_unknown_vector(_words(status, body))


def _words(status: int, body: bytes) -> str:
    """The text of a refusal of the request; "" for every other answer."""
    if status != 400:
        return ""
    try:
        return _DECODER.decode(body).status.error
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return ""


INVALID_ARGUMENT = 3


class QdrantGrpcDialect(GrpcDialect):
    """Over gRPC: a status code, and the same texts as over REST."""

    def refused_limit(self, status: int, body: bytes) -> int | None:
        """From strict mode's refusal."""
        return refused_limit(_grpc_words(status, body))

    def names_unknown_vector(self, status: int, body: bytes) -> bool:
        """From the error's text."""
        return names_unknown_vector(_grpc_words(status, body))


def _grpc_words(status: int, body: bytes) -> str:
    return body.decode(errors="replace") if status == INVALID_ARGUMENT else ""
