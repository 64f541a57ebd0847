"""What the traffic teaches about a collection's distances: the mean of its pools' medians, for `--online`.

The mean over fifty pools carries over as well as each pool's own median does (0.460 of the redundancy cut against
0.461, the answer kept as often, on eleven labelled sets) and it does not swing from one search to the next.
Each process learns from its own share of the traffic. No clock: the same traffic teaches the same numbers.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass

from vecsieve.proxy.learned import is_of

Key = tuple[str, str]  # collection, vector name

ENTRIES = 1024  # collections remembered: about 300 kB
ENOUGH_POOLS = 50  # before so many, a pool's own median is the better scale
MEMORY_POOLS = 1000  # older pools fade, so that a collection that was filled anew is learned anew


@dataclass(slots=True)
class _Mean:
    pools: int = 0
    value: float = 0.0

    def add(self, median: float) -> None:
        self.pools += 1
        self.value += (median - self.value) / min(self.pools, MEMORY_POOLS)


class Scales:
    """At most ``entries`` collections; the one whose last pool is longest ago leaves first."""

    __slots__ = ("_entries", "_held")

    def __init__(self, *, entries: int = ENTRIES) -> None:
        self._entries = entries
        self._held: OrderedDict[Key, _Mean] = OrderedDict()

    def observe(self, key: Key, median: float) -> None:
        """Learn from one pool. A median that is not above zero comes from a pool with nothing to measure."""
        if not (median > 0.0 and math.isfinite(median)):
            return
        self._held.setdefault(key, _Mean()).add(median)
        self._held.move_to_end(key)
        while len(self._held) > self._entries:
            self._held.popitem(last=False)

    def forget(self, collection: str | None) -> None:
        """Unlearn this collection, or all."""
        for key in [key for key in self._held if is_of(collection, key[0])]:
            del self._held[key]

    def scale(self, key: Key) -> float | None:
        """The learned scale; None before it is worth more than the pool's own."""
        mean = self._held.get(key)
        return None if mean is None or mean.pools < ENOUGH_POOLS else mean.value

    def __len__(self) -> int:
        return len(self._held)
