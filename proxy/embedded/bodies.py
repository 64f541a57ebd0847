"""A request's body as JSON: parsed as strictly as the server parses it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NoReturn

import orjson

from vecsieve.proxy.embedded.errors import Refusal, bad_format
from vecsieve.proxy.embedded.fields import Json

MOST_BYTES = 32 * 1024 * 1024
"""`max_request_size_mb`, the server's default."""
_CHECKED_BYTES = 64 * 1024
"""Up to here a body is searched for duplicate keys: query bodies are. Larger ones are uploads, whose keys are payload."""


def read_json(raw: bytes, content_type: str) -> Json:
    """The parsed body. Raises the 400 of a wrong content type, of text that is not JSON and of a key written twice."""
    if content_type != "application/json" and not content_type.endswith("+json"):
        raise Refusal(400, "Content type error", is_timed=False)
    if not raw:
        raise bad_format("EOF while parsing a value at line 1 column 0")
    try:
        value = orjson.loads(raw)
        if len(raw) <= _CHECKED_BYTES:
            json.loads(raw, object_pairs_hook=_unique, parse_constant=_refuse_constant)
    except (orjson.JSONDecodeError, UnicodeDecodeError) as error:
        raise bad_format(f"{error}") from error
    return value


def too_large(length: int) -> Refusal:
    """The 400 for more than the server takes."""
    return Refusal(
        400, f"JSON payload ({length} bytes) is larger than allowed (limit: {MOST_BYTES} bytes).", is_timed=False
    )


def _unique(pairs: Sequence[tuple[str, Json]]) -> None:
    """Refuse a field written twice. Payloads are maps, where the last one wins, but a small upload is not worth telling apart."""
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise bad_format(f"duplicate field `{name}`")
        seen.add(name)


def _refuse_constant(name: str) -> NoReturn:
    raise bad_format(f"expected value, got {name}")
