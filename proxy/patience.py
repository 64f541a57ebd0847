"""How long a widened request may take before the original is sent instead: it must still fit into the client's timeout."""

from __future__ import annotations

from collections import deque

SAMPLES = 64  # enough for a 95th percentile of the last seconds under load; sorting them costs 5 microseconds
LEAST_SECONDS = 1.0  # our own loop's queue counts too: at 32 busy connections 1 in 100 searches fell back at 250 ms
TIMES_P95 = 4.0


class Patience:
    """Learns the upstream's pace from the searches that went through; remembers nothing else of them."""

    __slots__ = ("_longest_seconds", "_seconds")

    def __init__(self, *, longest_seconds: float) -> None:
        self._longest_seconds = longest_seconds
        self._seconds: deque[float] = deque(maxlen=SAMPLES)

    def learn(self, seconds: float) -> None:
        """Note how long an answered search took upstream, widened or original."""
        self._seconds.append(seconds)

    def attempt_seconds(self, client_timeout_seconds: float | None) -> float:
        """min(half the client's own timeout, max(1 s, 4 x p95), the longest); half the longest while nothing is known."""
        bounds = [self._longest_seconds]
        if client_timeout_seconds is not None:
            bounds.append(client_timeout_seconds / 2)
        if self._seconds:
            ordered = sorted(self._seconds)
            bounds.append(max(LEAST_SECONDS, TIMES_P95 * ordered[int(0.95 * (len(ordered) - 1))]))
        else:
            bounds.append(self._longest_seconds / 2)
        return min(bounds)
