"""The values under a payload's keys and dotted paths, as upstream's raw JSON, column by column.

Column by column because a policy looks at a dozen keys of which a collection has three: a column that nobody fills is
told by one call, a cell that is empty costs nothing after that.
"""

from __future__ import annotations

from collections.abc import Sequence

from vecsieve.adapters.json_spans import last_values

Column = tuple[bytes | None, ...]

# How much of one object, and of all the objects of a pool, is looked into, each level of each path anew: 2 ns a byte.
OBJECT_BYTES = 1 << 18
POOL_BYTES = 1 << 22


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
        return last_values(raw, (key,))[0]


def _filled(column: Column) -> Column | None:
    return column if any(raw is not None and raw != b"null" for raw in column) else None
