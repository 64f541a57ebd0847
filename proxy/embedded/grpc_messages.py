"""The one door to the official client's messages and to its conversions between them and the REST models.

Both are loaded on first use: `serve` starts without the client.
"""

from __future__ import annotations

import importlib
from typing import Any

from pydantic import TypeAdapter

from vecsieve.proxy.embedded.fields import Json

_CLAUSES = frozenset({"must", "should", "must_not"})


def messages() -> Any:
    """The message classes. `Any`, because they are generated: this file is where their types end."""
    return importlib.import_module("qdrant_client.grpc")


def rest_models() -> Any:
    """The classes of the REST interface's values."""
    return importlib.import_module("qdrant_client.http.models")


def to_rest() -> Any:
    """Conversions from messages to REST models. They raise ValueError for a message that lacks what it must have."""
    return importlib.import_module("qdrant_client.conversions.conversion").GrpcToRest


def to_grpc() -> Any:
    """Conversions from REST models to messages."""
    return importlib.import_module("qdrant_client.conversions.conversion").RestToGrpc


def decoded(name: str, raw: bytes) -> Any:
    """The message of that class. Raises ValueError for bytes that are none."""
    error = importlib.import_module("google.protobuf.message").DecodeError
    try:
        return getattr(messages(), name).FromString(raw)
    except error:
        raise ValueError(f"failed to decode Protobuf message: {name}") from None


def said(model: Any) -> Json:
    """A REST model, or lists and dicts of them, as the JSON a client would send."""
    return _pruned(TypeAdapter(Any).dump_python(model, mode="json", by_alias=True, exclude_none=True))


def _pruned(value: Json) -> Json:
    """Without the clauses that hold no condition.

    The conversions make an empty clause of an absent one. qdrant-edge-py 0.9.0 tells them apart: inside a nested
    condition an empty `should` matches nothing.
    """
    if isinstance(value, dict):
        return {name: _pruned(item) for name, item in value.items() if item != [] or name not in _CLAUSES}
    if isinstance(value, list) and value and isinstance(value[0], dict | list):
        return [_pruned(item) for item in value]
    return value
