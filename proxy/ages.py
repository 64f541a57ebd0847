"""How old a connection may become: long ones do not spread over replicas that come, and do not leave addresses that go.

Not all at once: they were often opened together, and would come back together.
"""

from __future__ import annotations

from collections.abc import Callable

from vecsieve.proxy.breaker import spread

JITTER = 0.1  # as gRPC's core spreads its own
NEVER = float("inf")


class Ages:
    """Tells each new connection when it is to end. ``seconds``: None is never; ``clock``: monotonic seconds."""

    __slots__ = ("_clock", "_count", "_seconds", "_spread")

    def __init__(self, seconds: float | None, *, clock: Callable[[], float]) -> None:
        self._seconds = seconds
        self._clock = clock
        self._count = 0
        self._spread = spread(0)

    def end(self) -> float:
        """When a connection that is made now is to end, by the clock."""
        if self._seconds is None:
            return NEVER
        self._count += 1
        return self._clock() + self._seconds * (1 + JITTER * self._spread(self._count))

    def is_over(self, end: float) -> bool:
        """Whether that time has come."""
        return end != NEVER and self._clock() >= end
