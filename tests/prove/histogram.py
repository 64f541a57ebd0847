"""A histogram in HDR's manner: 1 % of precision from a microsecond to minutes, in fixed memory, mergeable."""

from __future__ import annotations

from collections import Counter

HALF = 128  # steps within each doubling: at most 1/128 = 0.8 % off
TICKS_PER_SECOND = 1_000_000


class Histogram:
    """Durations in seconds. ``percentile`` answers the upper edge of the bucket, so it never flatters."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()
        self.count = 0

    def record(self, seconds: float) -> None:
        """Note one duration; below zero counts as zero."""
        ticks = max(0, int(seconds * TICKS_PER_SECOND))
        shift = max(0, ticks.bit_length() - HALF.bit_length())
        self._counts[((ticks >> shift) + 1 << shift) - 1] += 1
        self.count += 1

    def percentile(self, share: float) -> float:
        """The duration in seconds that ``share`` (0 to 1) of all did not exceed. Raises ValueError when empty."""
        if not self.count:
            raise ValueError("a percentile of nothing")
        seen, edge = 0, 0
        for edge in sorted(self._counts):
            seen += self._counts[edge]
            if seen >= share * self.count:
                break
        return edge / TICKS_PER_SECOND
