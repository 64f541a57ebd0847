"""What a call is given, and what it gives back. Free of transport."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from servers.pinecone import shapes
from servers.pinecone.errors import invalid

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

    def asked(self, *names: str) -> str | None:
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
