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
from typing import Generic, Protocol, TypeVar

from vecsieve.adapters.contract import Operation

from ..telemetry.labels import AttemptKind, OwnRead
from ..telemetry.tracing import Clock
from .budgets import OwnReads
from .collections.learned import Lru
from .exchange import Exchange, Gate, TransportAnswer
from .fetch import Attempt

R = TypeVar("R")
T = TypeVar("T")


class Timer(Protocol):
    def cancel(self) -> None: ...


class May(Protocol):
    def __call__(self, *, is_last: bool) -> bool:
        """Whether to send the original now. ``is_last``: the function is not called again."""
        ...


Later = Callable[[float, Callable[[], None]], Timer]
"""Calls a function after this many seconds."""


def later(seconds: float, call: Callable[[], None]) -> Timer:
    return asyncio.get_running_loop().call_later(seconds, call)


class Race(Generic[R]):
    """Runs one search's widened request against its original.

    ``send``: sends the original through the gate. ``may``: decides whether to send it; called at ``first``, and again at ``last`` if it
    returned False.
    """

    def __init__(self, send: Callable[[Gate], Awaitable[R]], may: May, later: Later) -> None:
        self._send = send
        self._may = may
        self._later = later
        self._task: asyncio.Future[R] | None = None
        self._limit: asyncio.Timeout | None = None
        self._wanted = asyncio.Event()
        self._is_over = self._is_here = self._is_any_accepted = False
        self.is_first = False

    @property
    def is_sent(self) -> bool:
        return self._task is not None

    async def run(self, improve: Callable[[], Awaitable[T | None]], *, first: float, last: float) -> T | None:
        """The result of ``improve``; None if that is None or if the original was first (``is_first``)."""
        rest = max(0.0, last - first)

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

        timers = [self._later(first, due)]
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
        self._wanted.set()
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
        await self._wanted.wait()

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
class _Pace:
    """``slow``: the 95th percentile of ``widened``; None until it is computed."""

    widened: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    slow: float | None = None
    plain: deque[float] = field(default_factory=lambda: deque(maxlen=SAMPLES))
    late: deque[bool] = field(default_factory=lambda: deque(maxlen=LATE_SAMPLES))
    gave_up_seconds: float | None = None
    gave_up_at: float = 0.0


class AttemptTimeout:
    """Learns per collection how long searches take, and when to hedge them. At most ``entries`` collections.

    A direct call takes d seconds; with the original sent after h seconds the client waits at most h + d. So h is small
    while the client's timeout is unknown, and at most a quarter of it when known.
    """

    __slots__ = ("_clock", "_held", "_longest_seconds", "hedge_times")

    def __init__(
        self, *, longest_seconds: float, clock: Clock, hedge_times: HedgeTimes = HEDGE_TIMES, entries: int = ENTRIES
    ) -> None:
        self.hedge_times = hedge_times
        self._longest_seconds = longest_seconds
        self._clock = clock
        self._held = Lru[str, _Pace](entries)

    def answered(self, operation: Operation, seconds: float) -> None:
        """A widened request was answered."""
        pace = self._of(operation)
        pace.widened.append(seconds)
        pace.slow = None

    def answered_plainly(self, operation: Operation, seconds: float) -> None:
        """The head of the answer to a client's own request arrived."""
        self._of(operation).plain.append(seconds)

    def was_late(self, operation: Operation, *, is_late: bool) -> None:
        """Whether a widened request was still under way when a hedge was due."""
        self._of(operation).late.append(is_late)

    def gave_up(self, operation: Operation, seconds: float) -> None:
        """A client disconnected without an answer: probably its timeout."""
        if seconds >= GAVE_UP_LEAST_SECONDS:
            pace = self._of(operation)
            pace.gave_up_seconds, pace.gave_up_at = seconds, self._clock()

    def is_doubtful(self, operation: Operation) -> bool:
        """Whether to widen only with room for a hedge: nothing is known yet, or widened requests were late in cases where the client's own
        would not have been.
        """
        pace = self._of(operation)
        if not pace.late:
            return True
        if 2 * sum(pace.late) < len(pace.late):
            return False
        return (
            not pace.widened
            or not pace.plain
            or _middle(pace.widened) > _middle(pace.plain) + self.hedge_times.hedge_least
        )

    def hedge_seconds(self, operation: Operation, client_timeout_seconds: float | None) -> float:
        """After how long the client's own search is sent as well."""
        pace = self._of(operation)
        limit = self._timeout(pace, client_timeout_seconds)
        usual = HEDGE_TIMES_P95 * _slow(pace) if pace.widened else self.hedge_times.hedge_most
        most = self.hedge_times.hedge_most if limit is None else limit / 4
        seconds = min(max(usual, self.hedge_times.hedge_least), most, self._attempt_seconds(pace, limit))
        if limit is not None and pace.plain:
            seconds = min(seconds, max(0.0, limit - 1.5 * _p95(pace.plain)))
        return seconds

    def attempt_seconds(self, operation: Operation, client_timeout_seconds: float | None) -> float:
        """After how long it is sent regardless of the budget: min(half the client's timeout, max(1 s, 4 × p95), the longest); half the
        longest while nothing is known.
        """
        pace = self._of(operation)
        return self._attempt_seconds(pace, self._timeout(pace, client_timeout_seconds))

    def _attempt_seconds(self, pace: _Pace, limit: float | None) -> float:
        """``limit``: the client's timeout, None when unknown."""
        longest = self._longest_seconds
        usual = max(self.hedge_times.attempt_least, TIMES_P95 * _slow(pace)) if pace.widened else longest / 2
        return min(longest, usual) if limit is None else min(longest, usual, limit / 2)

    def longest_seconds(self, client_timeout_seconds: float | None) -> float:
        """After how long a widened request is useless."""
        limit = client_timeout_seconds
        return self._longest_seconds if limit is None else min(self._longest_seconds, limit)

    def __len__(self) -> int:
        return len(self._held)

    def _timeout(self, pace: _Pace, said: float | None) -> float | None:
        """The client's timeout, as it states or as clients of this collection have shown; None when unknown."""
        if said is None and pace.gave_up_seconds is not None and self._clock() < pace.gave_up_at + GAVE_UP_SECONDS:
            return pace.gave_up_seconds
        return said

    def _of(self, operation: Operation) -> _Pace:
        held, name = self._held, operation.collection
        pace = held.get(name)
        if pace is None:
            return held.use(name, _Pace)
        held.move_to_end(name)
        return pace


def _slow(pace: _Pace) -> float:
    if pace.slow is None:
        pace.slow = _p95(pace.widened)
    return pace.slow


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


A = TypeVar("A", bound=TransportAnswer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hedging:
    attempt_timeout: AttemptTimeout
    own: OwnReads
    replays: Replays
    later: Later = later

    def may_widen(self, operation: Operation, attempt: Attempt) -> bool:
        """Whether to widen at all: if that may be slower than the client's own search, only with room for both."""
        if self.attempt_timeout.is_doubtful(operation):
            attempt.is_reserved = self.own.reserve(operation, len(attempt.call.searches))
            return attempt.is_reserved
        return True

    def race(self, exchange: Exchange[A], attempt: Attempt) -> Race[A]:
        """The race of one search. At the last moment the original is sent regardless of the budget."""
        operation, reads = exchange.operation, len(attempt.call.searches)

        def may(*, is_last: bool) -> bool:
            if attempt.reply is not None:
                return False  # a pool to answer from exists
            if not attempt.is_late:
                self.attempt_timeout.was_late(operation, is_late=True)
                attempt.is_late = True
            if attempt.is_reserved or is_last:
                self.done(operation, attempt)
                self.own.spend(operation, OwnRead.HEDGE, reads)
            elif self.replays.is_spent or not self.own.take(operation, OwnRead.HEDGE, reads):
                return False
            attempt.is_hedged = True
            return True

        async def send(gate: Gate) -> A:
            with self.replays.one():
                return await exchange.original(AttemptKind.HEDGE, gate)

        return Race(send, may, self.later)

    def seconds(self, exchange: Exchange[A], attempt: Attempt, now: float) -> float:
        """The timeout of the next widened request. The first one, and those sent beside it, race against the original; later ones get what
        is left of the time that the first would have had alone.
        """
        timeout = exchange.client_timeout_seconds
        if not attempt.has_asked:
            attempt.deadline = now + self.attempt_timeout.attempt_seconds(exchange.operation, timeout)
        if attempt.reply is None and attempt.is_raced:
            return self.attempt_timeout.longest_seconds(timeout)
        return max(self.attempt_timeout.hedge_times.hedge_least, attempt.deadline - now)

    def timely(self, operation: Operation, attempt: Attempt, seconds: float) -> None:
        """A widened request was answered in time."""
        self.attempt_timeout.answered(operation, seconds)
        if attempt.reply is None and not attempt.is_late:
            self.attempt_timeout.was_late(operation, is_late=False)
        self.done(operation, attempt)

    def done(self, operation: Operation, attempt: Attempt) -> None:
        """Release the hedge's reservation."""
        if attempt.is_reserved:
            self.own.give_back(operation, len(attempt.call.searches))
            attempt.is_reserved = False
