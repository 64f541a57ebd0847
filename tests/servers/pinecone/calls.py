"""One call: the version that it speaks, its body, and its limits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from servers.pinecone import shapes
from servers.pinecone.errors import invalid

# API versions: which one a request speaks, and what that version has. They compare as text: `2025-10` < `2026-04`.


OLDEST = "2024-07"
NAMESPACES = "2025-04"
DEDICATED = "2025-10"
"""`maxCandidates`, `scanFactor`, `fetch_by_metadata`, update by filter."""
ALPHA = "2026-01.alpha"
SCHEMA = "2026-07"
"""Indexes are declared by a schema of fields; documents are there for all; `queries` is gone."""

_VERSION = re.compile(r"20\d\d-\d\d(\.alpha)?")


def version_of(sent: Sequence[str]) -> str:
    """The version a request asks for; the oldest behaviour when it names none, as the TypeScript client 2 does.

    The Python client 8 sends the header twice: the first counts, even if something on the way joined the two.
    """
    first = sent[0].split(",")[0].strip() if sent else ""
    return first if _VERSION.fullmatch(first) else OLDEST


def has_documents(version: str) -> bool:
    """Documents were tried in one alpha, left out of the next version, and came back for all."""
    return version == ALPHA or version >= SCHEMA


def speaks_schema(version: str) -> bool:
    """Whether indexes are described by `schema` and `deployment` instead of `dimension`, `metric` and `spec`."""
    return has_documents(version)


# What a call is given, and what it gives back. Free of transport.


Json = Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Sizes the service refuses above. Bytes of JSON; the service may count protobuf, which is a third of it."""

    upsert: int = 2 * 1024 * 1024
    result: int = 4 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """One request: parameters of the path decoded, the query in its order, the body as it came."""

    version: str
    parameters: Mapping[str, str] = field(default_factory=dict)
    query: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    limits: Limits = field(default_factory=Limits)

    def json(self) -> Mapping[str, Json]:
        """The body, which must be an object; nothing at all stands for an empty one."""
        if not self.body.strip():
            return {}
        try:
            value = orjson.loads(self.body)
        except orjson.JSONDecodeError as error:
            raise invalid(f"invalid JSON in the request body: {error}") from None
        if not isinstance(value, dict):
            raise invalid("the request body must be a JSON object")
        return value

    def requested(self, *names: str) -> str | None:
        """The first value of a query parameter under any of its spellings."""
        return next((value for name, value in self.query if name in names), None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """One answer before the edge adds its headers."""

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


def transcoded(message: Json, headers: Mapping[str, str] | None = None) -> Answer:
    """An answer of the gRPC services."""
    return Answer(body=shapes.transcoded(message), headers={"grpc-status": "0", **(headers or {})})


def plain(value: Json, headers: Mapping[str, str] | None = None, *, status: int = 200) -> Answer:
    """An answer of the services that are no gRPC."""
    return Answer(body=shapes.plain(value), status=status, headers=headers or {})
