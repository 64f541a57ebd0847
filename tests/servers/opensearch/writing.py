"""JSON as Jackson writes it, and the order of members in Java's hash tables: filtered sources have it."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

_CONTROLS = {number: f"\\u{number:04X}" for number in range(0x20)}
_ESCAPES = {**_CONTROLS, 8: "\\b", 9: "\\t", 10: "\\n", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}


class Raw(bytes):
    """A JSON text that is written as it is."""

    __slots__ = ()


def written(value: Any) -> bytes:
    """The compact text."""
    parts: list[bytes] = []
    _write(value, parts)
    return b"".join(parts)


def pretty(value: Any) -> bytes:
    """The text of `?pretty`."""
    text = json.dumps(json.loads(written(value)), indent=2, separators=(",", " : "), ensure_ascii=False)
    return f"{text}\n".encode()


def _write(value: Any, parts: list[bytes]) -> None:
    match value:
        case float() | np.floating():  # the most by far
            parts.append(number(value).encode())
        case Raw():
            parts.append(bytes(value))
        case bool():
            parts.append(b"true" if value else b"false")
        case None:
            parts.append(b"null")
        case str():
            parts.append(f'"{value.translate(_ESCAPES)}"'.encode())
        case int():
            parts.append(str(value).encode())
        case dict():
            _write_members(value, parts)
        case np.ndarray() | list() | tuple():
            for place, item in enumerate(value):
                parts.append(b"," if place else b"[")
                _write(item, parts)
            parts.append(b"]" if len(value) else b"[]")
        case other:
            raise TypeError(type(other))


def _write_members(value: dict[str, Any], parts: list[bytes]) -> None:
    for place, (name, item) in enumerate(value.items()):
        parts.append(b',"' if place else b'{"')
        parts.append(name.translate(_ESCAPES).encode() + b'":')
        _write(item, parts)
    parts.append(b"}" if value else b"{}")


def number(value: Any) -> str:
    """As Float.toString and Double.toString write it."""
    if not math.isfinite(value):
        return f'"{"NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}"'
    return np.format_float_positional(value, unique=True, trim="0") if value == 0 else _digits(value)


@lru_cache(1 << 16, typed=True)  # the same vectors are answered again and again
def _digits(value: Any) -> str:
    if 1e-3 <= abs(value) < 1e7:
        return np.format_float_positional(value, unique=True, trim="0")
    mantissa, _, exponent = np.format_float_scientific(value, unique=True, trim="0").partition("e")
    return f"{mantissa}E{int(exponent)}"


def hashed(names: Iterable[str]) -> list[str]:
    """The names in the order of a HashMap that got them in this order."""
    inserted, slots = list(names), 16
    while len(inserted) > slots * 3 // 4:
        slots *= 2
    return sorted(inserted, key=lambda name: _spread(name) & (slots - 1))


@lru_cache(1 << 10)
def _spread(name: str) -> int:
    code = 0
    encoded = name.encode("utf-16-be")
    for place in range(0, len(encoded), 2):
        code = (31 * code + int.from_bytes(encoded[place : place + 2])) & 0xFFFFFFFF
    return code ^ (code >> 16)
