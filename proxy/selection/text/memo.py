"""A least-recently-used cache that is bounded in bytes.

Popular texts come back with every search, and their words need not be found again. Keys are contents, never ids, because a
point may be overwritten under its id. An evicted value is computed again, so no result depends on the cache.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar

Key = TypeVar("Key")
Value = TypeVar("Value")

# A dictionary's slot, the key's and the value's headers: about so much beside their contents, on CPython.
_OVERHEAD_BYTES = 300


class Memo(Generic[Key, Value]):
    """Values by key, at most ``bound_bytes`` by the sizes that ``size`` gives for a key and its value."""

    __slots__ = ("_bound", "_held", "_size", "_taken")

    def __init__(self, bound_bytes: int, size: Callable[[Key, Value], int]) -> None:
        self._bound = bound_bytes
        self._size = size
        # The longest unused first. Not a dict: to find its first entry it walks past all that were taken from its front.
        self._held = OrderedDict[Key, tuple[Value, int]]()
        self._taken = 0

    def get(self, key: Key) -> Value | None:
        """The value kept for a key, None where there is none."""
        found = self._held.get(key)
        if found is None:
            return None
        self._held.move_to_end(key)
        return found[0]

    def keep(self, key: Key, value: Value) -> None:
        """Remember a value; whatever is longest unused makes room. A value larger than the bound is not remembered."""
        cost = self._size(key, value) + _OVERHEAD_BYTES
        if cost > self._bound:
            return
        self.forget(key)
        while self._taken + cost > self._bound:
            _, (_, freed) = self._held.popitem(last=False)
            self._taken -= freed
        self._held[key] = (value, cost)
        self._taken += cost

    def forget(self, key: Key) -> None:
        """Drop a key, kept or not."""
        found = self._held.pop(key, None)
        if found is not None:
            self._taken -= found[1]

    def clear(self) -> None:
        """Drop everything."""
        self._held.clear()
        self._taken = 0

    def __len__(self) -> int:
        return len(self._held)
