"""Turns of an event loop as a test says they go."""

from __future__ import annotations

from collections.abc import Callable

from support.process.clocks import ManualClock
from vecsieve.proxy.search.limits import Turns


class Turning:
    """A loop whose turns take what they are told to."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.soon: list[Callable[[], None]] = []
        self.turns = Turns(self.clock, self.soon.append)

    def turn(self, seconds: float) -> None:
        """One turn that was measured."""
        self.turns.measure()
        self.clock.advance(seconds)
        called, self.soon[:] = list(self.soon), []
        for callback in called:
            callback()


def calm() -> Turns:
    """Of a loop that never lags."""
    return Turning().turns
