"""A least-recently-used cache that is bounded in bytes.

Popular texts occur in many searches, and their words need not be computed again. Keys are contents, never ids, because a point may be
overwritten under its id. An evicted value is computed again, so no result depends on the cache. The loop and the thread of long pools use it at once.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

# A dictionary slot, and the headers of key and value: approximate bytes per entry beside the contents, on CPython.
_OVERHEAD_BYTES = 300


class Memo(Generic[Key, Value]):
    """Values by key, at most ``bound_bytes`` by the sizes that ``size`` gives for a key and its value."""

    __slots__ = ("_bound", "_changing", "_entries", "_size", "_taken")

    def __init__(self, bound_bytes: int, size: Callable[[Key, Value], int]) -> None:
        self._bound = bound_bytes
        self._size = size
        # The least recently used first. Not a dict: finding its first entry skips all that were removed from its front.
        self._entries = OrderedDict[Key, tuple[Value, int]]()
        self._taken = 0
        self._changing = Lock()

    def get(self, key: Key) -> Value | None:
        """The value cached for a key; None if there is none."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        try:
            self._entries.move_to_end(key)
        except KeyError:  # another thread has evicted it since
            self.keep(key, entry[0])
        return entry[0]

    def several(self, keys: Iterable[Key | None]) -> list[Value | None]:
        """As `get`, for many keys."""
        return [None if key is None else self.get(key) for key in keys]

    def keep(self, key: Key, value: Value) -> None:
        """Cache a value; the least recently used values make room. A value larger than the bound is not cached."""
        cost = self._size(key, value) + _OVERHEAD_BYTES
        if cost > self._bound:
            return
        with self._changing:
            _, before = self._entries.pop(key, (None, 0))
            self._taken -= before
            while self._taken + cost > self._bound:
                _, (_, freed) = self._entries.popitem(last=False)
                self._taken -= freed
            self._entries[key] = (value, cost)
            self._taken += cost

    def clear(self) -> None:
        """Drop everything."""
        with self._changing:
            self._entries.clear()
            self._taken = 0

    def __len__(self) -> int:
        return len(self._entries)
