"""When the client's own search is sent beside a widened one that is late, so that nobody's timeout is missed because of us.

Learned per collection: how long widened requests take, how long clients' own take, and after how long clients went away. A
direct call takes d seconds; with the original begun after h the client waits at most h + d. So h is small while nothing is
known of the client's timeout, and at most a quarter of it where it is.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from vecsieve.adapters.contract import Operation
from vecsieve.proxy.stopwatch import Clock

SAMPLES = 32  # enough for a 95th percentile of the last seconds under load; sorting them costs 3 microseconds
ENTRIES = 1024  # collections remembered: at most 3 MB
LEAST_SECONDS = 1.0  # our own loop's queue counts too: at 32 busy connections 1 in 100 searches fell back at 250 ms
TIMES_P95 = 4.0
# Twice the 95th percentile, so that a steady database sees almost no hedges; between these.
HEDGE_TIMES_P95 = 2.0
HEDGE_LEAST_SECONDS = 0.25
HEDGE_MOST_SECONDS = 0.5  # of a timeout nobody knows: clients' shortest defaults are 5 s (httpx, qdrant-client), databases take less than 4
GAVE_UP_LEAST_SECONDS = 1.0  # who leaves earlier had other reasons
GAVE_UP_SECONDS = 600.0  # remembered so long
LATES = 4  # of the last so many widened requests half must have been late


@dataclass(slots=True)
class _Pace:
    """Of one collection."""

    widened: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    plain: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    lates: deque[bool] = field(default_factory=lambda: deque(maxlen=LATES))
    gave_up_seconds: float | None = None
    gave_up_at: float = 0.0


class Patience:
    """Of one process; remembers seconds alone. At most ``entries`` collections; the one used longest ago begins anew."""

    __slots__ = ("_clock", "_entries", "_held", "_longest_seconds")

    def __init__(self, *, longest_seconds: float, clock: Clock, entries: int = ENTRIES) -> None:
        self._longest_seconds = longest_seconds
        self._clock = clock
        self._entries = entries
        self._held: OrderedDict[str, _Pace] = OrderedDict()

    def answered(self, operation: Operation, seconds: float) -> None:
        """A widened request was answered."""
        self._of(operation).widened.append(seconds)

    def answered_plainly(self, operation: Operation, seconds: float) -> None:
        """A client's own request was, as far as its head."""
        self._of(operation).plain.append(seconds)

    def was_late(self, operation: Operation, *, is_late: bool) -> None:
        """Whether a widened request was still under way when a hedge was due."""
        self._of(operation).lates.append(is_late)

    def gave_up(self, operation: Operation, seconds: float) -> None:
        """A client went away without an answer: perhaps its timeout."""
        if seconds >= GAVE_UP_LEAST_SECONDS:
            pace = self._of(operation)
            pace.gave_up_seconds, pace.gave_up_at = seconds, self._clock()

    def is_doubtful(self, operation: Operation) -> bool:
        """Whether a search should be widened only if a hedge can follow it: nothing is known yet, or widened requests were late
        where clients' own would not have been.
        """
        pace = self._of(operation)
        if not pace.lates:
            return True
        if 2 * sum(pace.lates) < len(pace.lates):
            return False
        return not pace.widened or not pace.plain or _middle(pace.widened) > _middle(pace.plain) + HEDGE_LEAST_SECONDS

    def hedge_seconds(self, operation: Operation, client_timeout_seconds: float | None) -> float:
        """After how long the client's own search is sent as well."""
        pace, limit = self._of(operation), self._timeout(operation, client_timeout_seconds)
        usual = HEDGE_TIMES_P95 * _p95(pace.widened) if pace.widened else HEDGE_MOST_SECONDS
        most = HEDGE_MOST_SECONDS if limit is None else limit / 4
        seconds = min(max(usual, HEDGE_LEAST_SECONDS), most, self.attempt_seconds(operation, client_timeout_seconds))
        if limit is not None and pace.plain:
            seconds = min(seconds, max(0.0, limit - 1.5 * _p95(pace.plain)))
        return seconds

    def attempt_seconds(self, operation: Operation, client_timeout_seconds: float | None) -> float:
        """After how long it is sent whatever the budget: min(half the client's own timeout, max(1 s, 4 x p95), the longest); half
        the longest while nothing is known.
        """
        pace, limit = self._of(operation), self._timeout(operation, client_timeout_seconds)
        bounds = [self._longest_seconds]
        if limit is not None:
            bounds.append(limit / 2)
        bounds.append(max(LEAST_SECONDS, TIMES_P95 * _p95(pace.widened)) if pace.widened else self._longest_seconds / 2)
        return min(bounds)

    def longest_seconds(self, client_timeout_seconds: float | None) -> float:
        """After how long a widened request is of no use to anybody."""
        limit = client_timeout_seconds
        return self._longest_seconds if limit is None else min(self._longest_seconds, limit)

    def __len__(self) -> int:
        return len(self._held)

    def _timeout(self, operation: Operation, said: float | None) -> float | None:
        """The client's, as it says or as others of this collection have shown; None where neither is known."""
        pace = self._of(operation)
        if said is None and pace.gave_up_seconds is not None and self._clock() < pace.gave_up_at + GAVE_UP_SECONDS:
            return pace.gave_up_seconds
        return said

    def _of(self, operation: Operation) -> _Pace:
        pace = self._held.setdefault(operation.collection, _Pace())
        self._held.move_to_end(operation.collection)
        while len(self._held) > self._entries:
            self._held.popitem(last=False)
        return pace


def _p95(samples: Sequence[float]) -> float:
    return sorted(samples)[int(0.95 * (len(samples) - 1))]


def _middle(samples: Sequence[float]) -> float:
    return sorted(samples)[len(samples) // 2]
