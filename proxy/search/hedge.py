"""Sends the client's own search beside a late widened one, and decides when.

Only searches are hedged, and a search only reads. The slower request is cancelled: its connection is closed, and it does not count as a failure of
the database. An unsuccessful answer of the original waits until the widened request has ended, or until the last moment.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Generic, Protocol, TypeVar

from vecsieve.adapters.contract import Operation

from ..telemetry.tracing import Clock
from .collections.learned import Lru

R = TypeVar("R")
T = TypeVar("T")

Gate = Callable[[bool], Awaitable[None]]
"""Awaited after the head of the original's answer has arrived and before any of it is sent. Argument: whether the answer is a success."""

Fits = Callable[[int], bool]
"""Whether a reply of at least this many bytes may be held."""


class Timer(Protocol):
    def cancel(self) -> None: ...


class May(Protocol):
    def __call__(self, *, is_last: bool) -> bool:
        """Whether to send the original now. ``is_last``: the function is not called again."""
        ...


Later = Callable[[float, Callable[[], None]], Timer]
"""Calls a function after this many seconds."""


@dataclass(slots=True)
class Race(Generic[R]):
    """Runs one search's widened request against its original.

    ``send``: sends the original through the gate. ``may``: decides whether to send it; called after ``first`` seconds, and again after ``last``
    if it returned False.
    """

    _send: Callable[[Gate], Awaitable[R]]
    _may: May
    _later: Later
    _first: float
    last: float
    is_first: bool = False
    _task: asyncio.Future[R] | None = None
    _limit: asyncio.Timeout | None = None
    _awaited: asyncio.Event = field(default_factory=asyncio.Event)
    _is_over: bool = False
    _is_here: bool = False
    _is_any_accepted: bool = False

    @property
    def is_sent(self) -> bool:
        return self._task is not None

    async def run(self, improve: Callable[[], Awaitable[T | None]]) -> T | None:
        """The result of ``improve``; None if that is None or if the original was first (``is_first``)."""
        rest = max(0.0, self.last - self._first)

        def due() -> None:
            if self._may(is_last=False):
                self._start()
                timers.append(self._later(rest, self._accept_any))
            else:
                timers.append(self._later(rest, overdue))

        def overdue() -> None:
            if self._may(is_last=True):
                self._start()
                self._accept_any()

        timers = [self._later(self._first, due)]
        try:
            async with asyncio.timeout(None) as self._limit:
                return await improve()
        except TimeoutError:
            return None  # only the gate ends the block this way: `improve` raises nothing else
        finally:
            for timer in timers:
                timer.cancel()
            self._is_over = True

    async def answer(self) -> R:
        """The original's answer."""
        assert self._task is not None  # noqa: S101 - asked only of one that was sent
        self._awaited.set()
        return await self._task

    async def drop(self) -> None:
        """Cancel the original if it is still in progress."""
        if self._task is None:
            return
        if self._task.done():
            # Does not yield to the loop: the client has its answer, and a handler whose connection it closes is cancelled at the next turn.
            if not self._task.cancelled():
                self._task.exception()  # retrieved, or asyncio would log an exception that was never retrieved
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _start(self) -> None:
        if not self._is_over:
            self._task = asyncio.ensure_future(self._send(self._pass))

    async def _pass(self, is_success: bool) -> None:
        self._is_here = True
        if is_success or self._is_any_accepted:
            self._win()
        await self._awaited.wait()

    def _accept_any(self) -> None:
        """From now on an unsuccessful answer of the original is accepted too."""
        self._is_any_accepted = True
        if self._is_here:
            self._win()

    def _win(self) -> None:
        if not self._is_over:
            self.is_first = True
            assert self._limit is not None  # noqa: S101 - nothing is sent before the race begins
            self._limit.reschedule(asyncio.get_running_loop().time())


SAMPLES = 32  # enough for a 95th percentile of the last seconds under load; sorting them takes 3 microseconds
ENTRIES = 1024  # collections remembered: at most 3 MB
TIMES_P95 = 4.0
HEDGE_TIMES_P95 = 2.0  # a steady database sees almost no hedges
GAVE_UP_LEAST_SECONDS = 1.0  # a shorter wait of a client is no timeout
GAVE_UP_SECONDS = 600.0  # how long it is remembered
LATE_SAMPLES = 4  # half of this many last widened requests must have been late


@dataclass(frozen=True, slots=True, kw_only=True)
class HedgeTimes:
    """Bounds of what is learned, in seconds.

    ``attempt_least``: the queue of our own event loop counts too; with 32 busy connections 1 in 100 searches fell back at 250 ms.
    ``hedge_most``: for an unknown timeout; the shortest defaults of clients are 5 s (httpx, qdrant-client).
    """

    attempt_least: float = 1.0
    hedge_least: float = 0.25
    hedge_most: float = 0.5


HEDGE_TIMES = HedgeTimes()


@dataclass(slots=True)
class Pace:
    """How long the searches of one collection take, and when to hedge them.

    A direct call takes d seconds; with the original sent after h seconds the client waits at most h + d. So h is small
    while the client's timeout is unknown, and at most a quarter of it when known.
    """

    bounds: HedgeTimes
    longest_seconds: float  # of a widened request
    clock: Clock
    widened: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))  # seconds of widened requests
    slow: float | None = None  # their 95th percentile; None until it is computed
    plain: deque[float] = field(
        default_factory=lambda: deque(maxlen=SAMPLES)
    )  # until the head of the answer to a client's own
    late: deque[bool] = field(default_factory=lambda: deque(maxlen=LATE_SAMPLES))  # under way when a hedge was due
    gave_up_seconds: float | None = None  # after which a client disconnected without an answer
    gave_up_at: float = 0.0

    def gave_up(self, seconds: float) -> None:
        """A client disconnected without an answer: probably its timeout."""
        if seconds >= GAVE_UP_LEAST_SECONDS:
            self.gave_up_seconds, self.gave_up_at = seconds, self.clock()

    @property
    def is_doubtful(self) -> bool:
        """Whether to widen only with room for a hedge: nothing is known yet, or widened requests were late in cases where the client's own
        would not have been.
        """
        if not self.late:
            return True
        if 2 * sum(self.late) < len(self.late):
            return False
        return (
            not self.widened or not self.plain or _middle(self.widened) > _middle(self.plain) + self.bounds.hedge_least
        )

    def times(self, client_timeout_seconds: float | None) -> tuple[float, float, float]:
        """After how long the client's own search is sent as well, and after how long regardless of the budget: min(half the client's timeout,
        max(1 s, 4 × p95), the longest); half the longest while nothing is known. Third: after how long a widened request is useless.
        """
        longest = self.longest_seconds
        if client_timeout_seconds is not None:
            longest = min(longest, client_timeout_seconds)
        limit = client_timeout_seconds
        if limit is None and self.gave_up_seconds is not None and self.clock() < self.gave_up_at + GAVE_UP_SECONDS:
            limit = self.gave_up_seconds  # as clients of this collection have shown
        if self.slow is None and self.widened:
            self.slow = _p95(self.widened)
        last, usual, most = self.longest_seconds / 2, self.bounds.hedge_most, self.bounds.hedge_most
        if self.slow is not None:
            last = max(self.bounds.attempt_least, TIMES_P95 * self.slow)
            usual = HEDGE_TIMES_P95 * self.slow
        last = min(last, self.longest_seconds)
        if limit is not None:
            last, most = min(last, limit / 2), limit / 4
        first = min(max(usual, self.bounds.hedge_least), most, last)
        if limit is not None and self.plain:
            first = min(first, max(0.0, limit - 1.5 * _p95(self.plain)))
        return first, last, longest


class AttemptTimeout:
    """The paces of at most ``entries`` collections. ``longest_seconds``: of a widened request."""

    __slots__ = ("_new", "_paces")

    def __init__(
        self, *, longest_seconds: float, clock: Clock, hedge_times: HedgeTimes = HEDGE_TIMES, entries: int = ENTRIES
    ) -> None:
        self._new = partial(Pace, hedge_times, longest_seconds, clock)
        self._paces = Lru[str, Pace](entries)

    def of(self, operation: Operation) -> Pace:
        return self._paces.use(operation.collection, self._new)

    def __len__(self) -> int:
        return len(self._paces)


def _p95(samples: Sequence[float]) -> float:
    return sorted(samples)[int(0.95 * (len(samples) - 1))]


def _middle(samples: Sequence[float]) -> float:
    return sorted(samples)[len(samples) // 2]


# Envoy's retry budget: a fifth of what is in flight, and at least three.
SHARE = 0.2
LEAST = 3


class Replays:
    """Counts the clients' own searches that are sent after a failed widened one. ``in_flight``: requests in flight.

    A replay is never refused. While too many are in progress, new searches are not widened, so that a failing database does not get twice
    the load.
    """

    __slots__ = ("_in_flight", "_under_way")

    def __init__(self, in_flight: Callable[[], int]) -> None:
        self._in_flight = in_flight
        self._under_way = 0

    @property
    def is_spent(self) -> bool:
        """Whether to widen no search, because it may have to be sent again."""
        return self._under_way >= LEAST and self._under_way >= SHARE * self._in_flight()

    @contextmanager
    def one(self) -> Iterator[None]:
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1
