"""A request's body as JSON: parsed as strictly as the server parses it."""

from __future__ import annotations

import json
from collections.abc import Sequence

import orjson

from vecsieve.proxy.embedded.errors import Refusal, bad_format
from vecsieve.proxy.embedded.fields import Json

MOST_BYTES = 32 * 1024 * 1024
"""`max_request_size_mb`, the server's default."""
_CHECKED_BYTES = 64 * 1024
"""Up to here a body is searched for fields written twice: queries are. Past it are uploads, and a second parse would cost."""
_MAPS = frozenset({"payload", "payloads", "metadata", "defaults"})
"""Members that are maps to the server, not fields: there the last of two equal keys wins."""


class _Doubled(str):
    """Stands where an object had this field twice."""

    __slots__ = ()


def read_json(raw: bytes, content_type: str) -> Json:
    """The parsed body. Raises the 400 of a wrong content type, of text that is not JSON and of a field written twice."""
    if content_type != "application/json" and not content_type.endswith("+json"):
        raise Refusal(400, "Content type error", is_timed=False)
    if not raw:
        raise bad_format("EOF while parsing a value at line 1 column 0")
    try:
        value = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise bad_format(f"{error}") from error
    if len(raw) <= _CHECKED_BYTES:
        _refuse_doubled(json.loads(raw, object_pairs_hook=_marked))
    return value


def too_large(length: int) -> Refusal:
    """The 400 for more than the server takes."""
    return Refusal(
        400, f"JSON payload ({length} bytes) is larger than allowed (limit: {MOST_BYTES} bytes).", is_timed=False
    )


def _marked(pairs: Sequence[tuple[str, Json]]) -> Json:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    names = [name for name, _ in pairs]
    return _Doubled(next(name for name in names if names.count(name) > 1))


def _refuse_doubled(value: Json) -> None:
    if isinstance(value, _Doubled):
        raise bad_format(f"duplicate field `{value}`")
    inside = value if isinstance(value, list) else []
    if isinstance(value, dict):
        inside = [item for name, item in value.items() if name not in _MAPS]
    for item in inside:
        _refuse_doubled(item)
