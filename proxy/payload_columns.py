"""The values under a payload's keys and dotted paths, as upstream's raw JSON, column by column.

Column by column because a policy looks at a dozen keys of which a collection has three: a column that nobody fills is
told by one call, a cell that is empty costs nothing after that.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import msgspec

Column = tuple[bytes | None, ...]

# How much of one object, and of all the objects of a pool, is looked into, each level of each path anew: 2 ns a byte.
OBJECT_BYTES = 1 << 18
POOL_BYTES = 1 << 22

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_NO_NAMES = frozenset('"\\') | {chr(code) for code in range(0x20)}  # what msgspec takes no field's name with


class Columns:
    """The columns of one pool. ``rows``: per candidate its raw values, in the order of ``keys``."""

    __slots__ = ("_found", "_left_bytes", "size")

    def __init__(self, keys: Sequence[str], rows: Sequence[Sequence[bytes | None]]) -> None:
        self.size = len(rows)
        self._left_bytes = POOL_BYTES
        columns = zip(*rows, strict=True) if rows else [()] * len(keys)
        self._found: dict[str, Column | None] = dict(zip(keys, map(_filled, columns), strict=True))

    def present(self, paths: Sequence[str]) -> list[Column]:
        """The columns of those paths under which anybody has a value, in the order of ``paths``. Null is no value."""
        columns = [self._column(path) for path in paths]
        return [column for column in columns if column is not None]

    def _column(self, path: str) -> Column | None:
        if path in self._found:
            return self._found[path]
        outer, dot, key = path.rpartition(".")
        above = self._column(outer) if dot else None
        column = None if above is None else _filled(tuple(self._member(raw, key) for raw in above))
        self._found[path] = column
        return column

    def _member(self, raw: bytes | None, key: str) -> bytes | None:
        """One member of an object; None for what is no object, lacks it, is too large, or cannot be read."""
        if raw is None or raw[:1] != b"{" or len(raw) > min(OBJECT_BYTES, self._left_bytes):
            return None
        self._left_bytes -= len(raw)
        return _member(raw, key)


def _filled(column: Column) -> Column | None:
    return column if any(raw is not None and raw != b"null" for raw in column) else None


def _member(raw: bytes, key: str) -> bytes | None:
    try:
        value = _only(key).decode(raw).value if _NO_NAMES.isdisjoint(key) else _OBJECT.decode(raw).get(key, _ABSENT)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # legal for the database, not for a strict reader: a lone surrogate, for one
    return None if value is _ABSENT else bytes(value)


_ABSENT = msgspec.Raw()


@lru_cache(maxsize=256)
def _only(key: str) -> msgspec.json.Decoder[Any]:
    """Reads one member and skips the others, which are never made: a tenth of the time where there are thousands."""
    return msgspec.json.Decoder(msgspec.defstruct("Only", [("value", msgspec.Raw, _ABSENT)], rename={"value": key}))
