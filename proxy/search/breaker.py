"""The breaker on the widened path: when upstream keeps failing our larger requests, stop sending them for a while.

There is one upstream, so nothing is ever refused here: an open breaker means that searches go through as they came. The
numbers are Envoy's for outlier detection: five failures in a row, or more than half of at least twenty in ten seconds.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from vecsieve.proxy.telemetry.labels import BreakerState

CONSECUTIVE = 5
WINDOW_SECONDS = 10
WINDOW_CALLS = 20
OPEN_SECONDS = 30.0  # times the number of openings in a row
LONGEST_OPEN_SECONDS = 300.0
JITTER = 0.2  # workers and replicas must not come back in step
PROBE_SECONDS = 30.0  # a probe whose outcome is never told (its client went away) is given up after this
GOLDEN_RATIO = 0.618033988749895

Jitter = Callable[[int], float]
"""From the number of openings in a row to a number in [-1, 1]."""


def spread(seed: int) -> Jitter:
    """Jitter without randomness: multiples of the golden ratio lie evenly, so different seeds come out apart."""

    def jitter(openings: int) -> float:
        return 2 * ((seed * GOLDEN_RATIO + openings * GOLDEN_RATIO) % 1.0) - 1

    return jitter


@dataclass(slots=True)
class _Second:
    """Outcomes within one second of the window."""

    number: int
    calls: int = 0
    failures: int = 0


class Breaker:
    """Closed, open, or letting one probe through. ``clock``: monotonic seconds. Not for several threads.

    Ask ``allow`` before a widened request, then tell ``succeeded`` or ``failed``; ``abandoned`` when neither will come
    (the client went away). ``changed`` hears of each new state.
    """

    __slots__ = ("_changed", "_clock", "_in_a_row", "_jitter", "_openings", "_state", "_until", "_window")

    def __init__(
        self, clock: Callable[[], float], *, jitter: Jitter, changed: Callable[[BreakerState], None] = lambda _: None
    ) -> None:
        self._clock = clock
        self._jitter = jitter
        self._changed = changed
        self._state = BreakerState.CLOSED
        self._window: deque[_Second] = deque(maxlen=WINDOW_SECONDS)
        self._in_a_row = 0
        self._openings = 0
        self._until = 0.0

    @property
    def state(self) -> BreakerState:
        """The state as of the last call that changed it: an open breaker whose time is up is open until asked."""
        return self._state

    def allow(self) -> bool:
        """Whether to send a widened request now. A True while not closed makes this request the probe."""
        if self._state is BreakerState.CLOSED:
            return True
        now = self._clock()
        if now < self._until:
            return False
        self._until = now + PROBE_SECONDS
        self._become(BreakerState.PROBING)
        return True

    def succeeded(self) -> None:
        """A widened request was answered."""
        if self._state is BreakerState.PROBING:
            self._close()
        elif self._state is BreakerState.CLOSED:
            self._in_a_row = 0
            self._count(failures=0)

    def failed(self) -> None:
        """A widened request failed, where the original might not have."""
        if self._state is BreakerState.PROBING:
            self._open()
        elif self._state is BreakerState.CLOSED:
            self._in_a_row += 1
            self._count(failures=1)
            if self._in_a_row >= CONSECUTIVE or self._mostly_failing():
                self._open()

    def abandoned(self) -> None:
        """A widened request ended without a verdict on upstream: if it was the probe, the next one is."""
        if self._state is BreakerState.PROBING:
            self._until = self._clock()

    def _count(self, *, failures: int) -> None:
        second = int(self._clock())
        if not self._window or self._window[-1].number != second:
            self._window.append(_Second(second))
        self._window[-1].calls += 1
        self._window[-1].failures += failures

    def _mostly_failing(self) -> bool:
        oldest = int(self._clock()) - WINDOW_SECONDS
        recent = [second for second in self._window if second.number > oldest]
        calls = sum(second.calls for second in recent)
        return calls >= WINDOW_CALLS and 2 * sum(second.failures for second in recent) > calls

    def _open(self) -> None:
        self._openings += 1
        planned = OPEN_SECONDS * self._openings * (1 + JITTER * self._jitter(self._openings))
        self._until = self._clock() + min(planned, LONGEST_OPEN_SECONDS)
        self._become(BreakerState.OPEN)

    def _close(self) -> None:
        self._in_a_row = self._openings = 0
        self._window.clear()
        self._become(BreakerState.CLOSED)

    def _become(self, state: BreakerState) -> None:
        if state is not self._state:
            self._state = state
            self._changed(state)
