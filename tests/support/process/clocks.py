"""A clock that moves when it is told to."""

from __future__ import annotations


class ManualClock:
    """Seconds since the test began."""

    def __init__(self, now: float = 0.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds
