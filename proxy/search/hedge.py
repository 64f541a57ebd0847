"""Whether and when the client's own search is sent beside a widened one: what is known of a collection's pace, and what the
budget has room for.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from vecsieve.adapters.contract import Operation
from vecsieve.proxy.search.budgets import OwnReads
from vecsieve.proxy.search.exchange import Exchange, Gate, TransportAnswer
from vecsieve.proxy.search.fetch import Attempt
from vecsieve.proxy.telemetry.labels import AttemptKind, OwnRead
from vecsieve.proxy.telemetry.tracing import Clock

# The client's own search, sent beside a widened one that is late: the first usable answer is the client's.
#
# Only a search is hedged, and a search reads. What loses is cancelled: its connection is closed, and nothing of it counts as a
# failure of the database. A refusal or an error of the original waits until the widened request has ended too, or for the last
# moment.

R = TypeVar("R")
T = TypeVar("T")


class Timer(Protocol):
    """Something that will be called."""

    def cancel(self) -> None:
        """It will not."""
        ...


class May(Protocol):
    """Whether the original may go out now."""

    def __call__(self, *, is_last: bool) -> bool:
        """``is_last``: whether it is not asked again."""
        ...


Later = Callable[[float, Callable[[], None]], Timer]
"""Calls a function after so many seconds."""


def later(seconds: float, call: Callable[[], None]) -> Timer:
    """By the running loop."""
    return asyncio.get_running_loop().call_later(seconds, call)


class Race(Generic[R]):
    """Of one search. ``send``: sends the original through the gate. ``may``: whether to, asked ``first`` and, where it was no, at ``last``."""

    def __init__(self, send: Callable[[Gate], Awaitable[R]], may: May, later: Later) -> None:
        self._send = send
        self._may = may
        self._later = later
        self._task: asyncio.Future[R] | None = None
        self._limit: asyncio.Timeout | None = None
        self._wanted = asyncio.Event()
        self._is_over = self._is_here = self._is_lapsed = False
        self.is_first = False

    @property
    def is_sent(self) -> bool:
        """Whether the original has gone out."""
        return self._task is not None

    async def run(self, climb: Callable[[], Awaitable[T | None]], *, first: float, last: float) -> T | None:
        """What ``climb`` comes to; None also where the original was first (``is_first``)."""
        rest = max(0.0, last - first)

        def due() -> None:
            if self._may(is_last=False):
                self._start()
                timers.append(self._later(rest, self._lapse))
            else:
                timers.append(self._later(rest, overdue))

        def overdue() -> None:
            if self._may(is_last=True):
                self._start()
                self._lapse()

        timers = [self._later(first, due)]
        try:
            async with asyncio.timeout(None) as self._limit:
                return await climb()
        except TimeoutError:
            return None  # only the gate ends the block like this: what climbs lets no exception out
        finally:
            for timer in timers:
                timer.cancel()
            self._is_over = True

    async def answer(self) -> R:
        """The original's, when it is over."""
        assert self._task is not None  # noqa: S101 - asked only of one that was sent
        self._wanted.set()
        return await self._task

    async def drop(self) -> None:
        """Cancel the original where it is still under way."""
        if self._task is None:
            return
        if self._task.done():
            # No turn of the loop: the client has its answer, and a handler whose connection it closes is cancelled at the next one.
            if not self._task.cancelled():
                self._task.exception()  # read, or asyncio would log an error that was never retrieved
            return
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    def _start(self) -> None:
        if not self._is_over:
            self._task = asyncio.ensure_future(self._send(self._pass))

    async def _pass(self, is_success: bool) -> None:
        self._is_here = True
        if is_success or self._is_lapsed:
            self._win()
        await self._wanted.wait()

    def _lapse(self) -> None:
        """From now on any answer of the original will do."""
        self._is_lapsed = True
        if self._is_here:
            self._win()

    def _win(self) -> None:
        if not self._is_over:
            self.is_first = True
            assert self._limit is not None  # noqa: S101 - nothing is sent before the race begins
            self._limit.reschedule(asyncio.get_running_loop().time())


# When the client's own search is sent beside a widened one that is late, so that nobody's timeout is missed because of us.
#
# Learned per collection: how long widened requests take, how long clients' own take, and after how long clients went away. A
# direct call takes d seconds; with the original begun after h the client waits at most h + d. So h is small while nothing is
# known of the client's timeout, and at most a quarter of it where it is.

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


# How many searches may be asked again at once: our only retry, and a database in trouble must not get twice the load.
#
# A widened request that fails is followed by the client's own. That one is never refused: it is what the client would have sent.
# When too many of them are under way, new searches go as the client's own from the start, so that nothing is left to ask again.

# Envoy's retry budget: a fifth of what is in flight, and at least three.
SHARE = 0.2
LEAST = 3


class Replays:
    """Of one process. ``in_flight``: how many requests are."""

    __slots__ = ("_in_flight", "_under_way")

    def __init__(self, in_flight: Callable[[], int]) -> None:
        self._in_flight = in_flight
        self._under_way = 0

    @property
    def is_spent(self) -> bool:
        """Whether no more searches should be sent that may have to be asked again."""
        return self._under_way >= LEAST and self._under_way >= SHARE * self._in_flight()

    @contextmanager
    def one(self) -> Iterator[None]:
        """One is under way."""
        self._under_way += 1
        try:
            yield
        finally:
            self._under_way -= 1


A = TypeVar("A", bound=TransportAnswer)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hedging:
    """Of one process."""

    patience: Patience
    own: OwnReads
    replays: Replays
    later: Later = later

    def may_widen(self, operation: Operation, attempt: Attempt) -> bool:
        """Whether to send a widened request at all: where it may be slower than the client's own, only with room for both."""
        if self.patience.is_doubtful(operation):
            attempt.is_reserved = self.own.reserve(operation, len(attempt.call.searches))
            return attempt.is_reserved
        return True

    def race(self, exchange: Exchange[A], attempt: Attempt) -> Race[A]:
        """The race of one search: at the last moment the original goes out whatever the budget."""
        operation, reads = exchange.operation, len(attempt.call.searches)

        def may(*, is_last: bool) -> bool:
            if attempt.reply is not None:
                return False  # there is something to answer from
            if not attempt.is_late:
                self.patience.was_late(operation, is_late=True)
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
        """How long the next widened request may take. The first of a search is raced by the original; what follows it has what is
        left of the time that the first would have had alone.
        """
        timeout, is_first = exchange.client_timeout_seconds, not attempt.has_asked
        if is_first:
            attempt.deadline = now + self.patience.attempt_seconds(exchange.operation, timeout)
        if is_first and attempt.is_raced:
            return self.patience.longest_seconds(timeout)
        return max(HEDGE_LEAST_SECONDS, attempt.deadline - now)

    def timely(self, operation: Operation, attempt: Attempt, seconds: float) -> None:
        """A widened request was answered."""
        self.patience.answered(operation, seconds)
        if attempt.reply is None and not attempt.is_late:
            self.patience.was_late(operation, is_late=False)
        self.done(operation, attempt)

    def done(self, operation: Operation, attempt: Attempt) -> None:
        """What was reserved for a hedge is free again."""
        if attempt.is_reserved:
            self.own.give_back(operation, len(attempt.call.searches))
            attempt.is_reserved = False
