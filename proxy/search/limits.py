"""Bounds the requests in flight: a fixed number, a short bounded queue, then a refusal.

There are two bounds: a number, for a slow database; and the lag of the event loop, for a process with more work than time. Without the
second, 1,024 requests share one loop, and each is answered after 2 s or more (measured at twice the searches that a process can do).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from vecsieve.adapters.contract import Operation

from ..telemetry.labels import BreakerState
from ..telemetry.tracing import Clock
from .collections.learned import LEARNED_ENTRIES, Expiring

# The minimum of three turns, as CoDel (RFC 8289) takes the minimum delay of an interval: one large decode is no standing queue.
TURNS = 3
FORGOTTEN_SECONDS = 0.25  # older measurements are ignored

Soon = Callable[[Callable[[], None]], object]
"""Runs a function at the loop's next turn."""


class Turns:
    """Measures how long the event loop takes for one turn, while requests arrive. ``clock``: monotonic seconds.

    A slow database leaves turns short; too much work of our own makes every turn long.
    """

    __slots__ = ("_clock", "_last", "_measured_at", "_soon", "_started")

    def __init__(self, clock: Callable[[], float], soon: Soon) -> None:
        self._clock = clock
        self._soon = soon
        self._last: deque[float] = deque((0.0,) * TURNS, maxlen=TURNS)
        self._measured_at = clock()
        self._started: float | None = None

    @property
    def lag_seconds(self) -> float:
        """The shortest of the last turns; 0 when none is recent."""
        if self._clock() - self._measured_at > FORGOTTEN_SECONDS + self._last[-1]:
            return 0.0
        return min(self._last)

    def measure(self) -> None:
        """Measure the turn that begins now, unless one is being measured."""
        if self._started is None:
            self._started = self._clock()
            self._soon(self._turned)

    def _turned(self) -> None:
        assert self._started is not None  # noqa: S101 - only ``measure`` asks for this call
        now = self._clock()
        if now - self._measured_at > FORGOTTEN_SECONDS + self._last[-1]:
            self._last.extend((0.0,) * TURNS)
        self._last.append(now - self._started)
        self._measured_at, self._started = now, None


# Size of a candidate whose vector's length is unknown: the text of 1,200 numbers and a payload.
CANDIDATE_BYTES = 16 * 1024
# Size of a candidate without its vector, whose length is known: identifier, score, and a passage of text.
PAYLOAD_BYTES = 2 * 1024
# Bytes of one number of a vector: float32 as text, with its comma; float32 over gRPC.
TEXT_NUMBER_BYTES, BINARY_NUMBER_BYTES = 12, 4
LEARNED_SECONDS = 600.0  # payloads grow slowly


@dataclass(slots=True)
class Hold:
    """The reply bytes that one search holds or expects."""

    _in_flight: BytesInFlight
    _expected: int
    _kept: int = 0
    _arriving: int = 0

    def arriving(self) -> Callable[[int], bool]:
        """Returns a function for one reply, with others beside it: whether at least this many bytes of it may be held."""
        seen = 0

        def fits(size: int) -> bool:
            nonlocal seen
            size_in_all = self._kept + self._arriving - seen + size
            more = size_in_all - self._expected
            if more > 0 and not self._in_flight.has_room(more, reserved=self._expected):
                return False
            self._arriving, seen = self._arriving - seen + size, size
            if more > 0:
                self._expect(size_in_all)
            return True

        return fits

    def came(self, size: int) -> None:
        """A whole reply has arrived."""
        self._kept += size
        self._arriving = max(self._arriving - size, 0)
        self._expect(self._kept + self._arriving)

    def release(self) -> None:
        self._expect(0)
        self._kept = self._arriving = 0

    def _expect(self, size: int) -> None:
        self._in_flight.total += size - self._expected
        self._expected = size


class BytesInFlight:
    """The bytes of widened replies in this process. ``reply_bytes``: the largest reply. ``clock``: monotonic seconds.

    A search that would exceed the bound passes through at once. A reply's size is estimated from the last one of its
    collection, corrected when its length is known and as it arrives. A reply that does not fit is dropped, and the
    client's own request is sent.
    """

    __slots__ = ("_limit", "_per_candidate", "reply_bytes", "total")

    def __init__(self, limit_bytes: int, *, reply_bytes: int, clock: Clock) -> None:
        self._limit = limit_bytes
        self.reply_bytes = reply_bytes
        self.total = 0
        self._per_candidate = Expiring[str, int](entries=LEARNED_ENTRIES, clock=clock)

    def candidate_bytes(self, operation: Operation, *, vector_bytes: int | None) -> int:
        """The expected size of a candidate: the last reply's average, else derived from its vector.

        ``vector_bytes``: of the query vector; None where the request carries none.
        """
        known = self._per_candidate.get(operation.collection)
        if known is not None:
            return known
        return CANDIDATE_BYTES if vector_bytes is None else vector_bytes + PAYLOAD_BYTES

    def hold(self, sizes: Sequence[int | None], candidate_bytes: int) -> Hold | None:
        """Reserve a reply with this many candidates per search; None when there is no room. The caller must release it."""
        expected = sum(filter(None, sizes)) * candidate_bytes
        if self.total and self.total + expected > self._limit:
            return None
        self.total += expected
        return Hold(self, expected)

    def learn(self, operation: Operation, sizes: Sequence[int | None], reply_bytes: int) -> None:
        """Record the size of a reply with this many candidates."""
        candidates = sum(filter(None, sizes))
        if candidates and reply_bytes:
            self._per_candidate.put(operation.collection, -(-reply_bytes // candidates), seconds=LEARNED_SECONDS)

    def has_room(self, more: int, *, reserved: int) -> bool:
        """Whether ``more`` bytes may be held. A single search is always allowed; otherwise a bound below the size of one reply would end
        selection.

        ``reserved``: the part of the total that this search holds.
        """
        return self.total == reserved or self.total + more <= self._limit


# Share of the places while the loop lags. A request's own work takes half a millisecond, so a quarter of 1,024 is done in 0.2 s on a whole
# core. With fewer places the loop would idle between two turns when other processes compete for the core.
LAGGING_SHARE = 0.25
# At how many times `limits.lag_seconds`, where searches pass through, requests are refused.
REFUSES_AT = 2.0
# Share of the wait while the loop lags: an admitted or refused request still needs about ten turns.
LAGGING_WAIT_SHARE = 0.5
# Share of the places for requests whose bodies are still arriving. It is smaller than the share while the loop lags, so that slow clients,
# malicious or on radio links, never block clients whose requests have arrived.
UNFINISHED_SHARE = 0.125
# Share of the places for searches only: hundreds of large answers hold all other places for seconds.
SEARCH_SHARE = 0.125


class Admission:
    """Admits at most ``limit`` requests; as many more wait, for up to ``wait_seconds``. ``unfinished``: beyond so many, places are for requests
    whose bodies have arrived.

    Searches and all other requests wait in two queues, which take turns; other requests do not get the last eighth of the places. A queue
    is FIFO. After one timeout it is LIFO until it is empty: the number of refusals is the same, but served requests are served soon. While
    loop turns take longer than ``lag_seconds``, a quarter of the places is used, and the wait is halved.
    """

    def __init__(self, *, limit: int, wait_seconds: float, turns: Turns, lag_seconds: float) -> None:
        self._limit = limit
        self.unfinished = max(1, int(limit * UNFINISHED_SHARE))
        self._wait_seconds = wait_seconds
        self._turns = turns
        self._lag_seconds = lag_seconds
        self._inside = {True: 0, False: 0}  # searches, and other requests
        self.in_flight = 0
        # Arrival times, oldest first. Cancelled and admitted entries stay until they are reached.
        self._waiting = {True: _Queue(), False: _Queue()}
        self._is_turn_of_searches = True
        self._sweep: asyncio.TimerHandle | None = None

    async def enter(self, *, is_search: bool = True) -> bool:
        """Take a place, waiting if needed; False when the request is to be refused.

        Paired with `leave`: as an async context manager it cost 9 of a request's 250 microseconds.
        """
        self._turns.measure()
        queue = self._waiting[is_search]
        if self._has_room(is_search) and (queue.is_late or not queue.size):
            self._inside[is_search] += 1
            self.in_flight += 1
            return True
        return queue.size < self._limit and await self._waited(is_search)

    def leave(self, *, is_search: bool = True) -> None:
        self._inside[is_search] -= 1
        self.in_flight -= 1
        if self._waiting[True].size or self._waiting[False].size:
            self._admit()

    def _has_room(self, is_search: bool) -> bool:
        """Whether one more may enter. Other requests above their share, because the loop lags now, do not block searches."""
        is_quick = self._turns.lag_seconds <= self._lag_seconds
        places = self._limit if is_quick else max(1, int(self._limit * LAGGING_SHARE))
        most_others = places - int(places * SEARCH_SHARE)
        others = min(self._inside[False], most_others)
        if self._inside[True] + others >= places or self.in_flight >= self._limit:
            return False
        return is_search or others < most_others

    async def _waited(self, is_search: bool) -> bool:
        loop = asyncio.get_running_loop()
        place: asyncio.Future[bool] = loop.create_future()
        queue = self._waiting[is_search]
        queue.places.append((loop.time(), place))
        queue.size += 1
        if self._sweep is None:
            self._sweep = loop.call_later(self._wait_seconds * LAGGING_WAIT_SHARE, self._expire)
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.result():
                self.leave(is_search=is_search)  # the place was given at the same turn
            raise
        finally:
            queue.size -= 1

    def _admit(self) -> None:
        """Give free places to searches and other requests in turn."""
        while True:
            order = (self._is_turn_of_searches, not self._is_turn_of_searches)
            served = next(
                (is_search for is_search in order if self._waiting[is_search].places and self._has_room(is_search)),
                None,
            )
            if served is None:
                return
            if self._waiting[served].admit():
                self._inside[served] += 1
                self.in_flight += 1
                self._is_turn_of_searches = not served

    def _expire(self) -> None:
        """Refuse the waiting requests that have timed out, and schedule the next check."""
        loop = asyncio.get_running_loop()
        now, short = loop.time(), self._wait_seconds * LAGGING_WAIT_SHARE
        longest_wait = self._wait_seconds if self._turns.lag_seconds <= self._lag_seconds else short
        self._sweep = None
        for queue in self._waiting.values():
            queue.expire(now - longest_wait)
        came = min((queue.places[0][0] for queue in self._waiting.values() if queue.places), default=None)
        if came is not None:
            # Between the short wait and the full wait the loop may begin to lag: check from time to time.
            again = came + short if now < came + short else min(came + self._wait_seconds, now + short / 5)
            self._sweep = loop.call_at(again, self._expire)


class _Queue:
    """Requests of one kind that wait for a place. ``size``: those not yet cancelled or admitted."""

    __slots__ = ("is_late", "places", "size")

    def __init__(self) -> None:
        self.places: deque[tuple[float, asyncio.Future[bool]]] = deque()
        self.size = 0
        self.is_late = False

    def admit(self) -> bool:
        """Admit the next one; return whether it was still waiting."""
        _, place = self.places.pop() if self.is_late else self.places.popleft()
        is_there = not place.done()
        if is_there:
            place.set_result(True)
        self.is_late = self.is_late and bool(self.places)
        return is_there

    def expire(self, came: float) -> None:
        """Refuse those that arrived then or earlier."""
        while self.places and (self.places[0][1].done() or self.places[0][0] <= came):
            _, place = self.places.popleft()
            if not place.done():
                place.set_result(False)
                self.is_late = True


@dataclass(slots=True)
class Place:
    """A place that is given back once, however often `leave` is called."""

    _admission: Admission | None
    _is_search: bool = True

    def leave(self) -> None:
        """Give the place back early: a request that only waits for its client to read needs none."""
        if self._admission is not None:
            admission, self._admission = self._admission, None
            admission.leave(is_search=self._is_search)


# The breaker stops widened requests while upstream keeps failing them.
#
# An open breaker refuses nothing: searches are then sent unchanged. The numbers are Envoy's for outlier detection: five failures in a row,
# or more than half of at least twenty calls in ten seconds.

CONSECUTIVE = 5
WINDOW_SECONDS = 10
WINDOW_CALLS = 20
OPEN_SECONDS = 30.0  # the first wait; later ones are multiplied by the number of consecutive openings
LONGEST_OPENINGS = 10  # no wait is longer than this many times the first
BREAKER_JITTER = 0.2  # workers and replicas must not retry at the same time
PROBE_SECONDS = 30.0  # after this time a probe without an outcome (its client disconnected) is abandoned
GOLDEN_RATIO = 0.618033988749895

Jitter = Callable[[int], float]
"""From the number of consecutive openings to a number in [-1, 1]."""


def spread(seed: int) -> Jitter:
    """Return jitter without randomness: multiples of the golden ratio are evenly spread, so different seeds give different values."""

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
    """Closed, open, or probing with one request. ``clock``: monotonic seconds. Not thread-safe.

    Call ``allow`` before a widened request, then ``succeeded`` or ``failed``, or ``abandoned`` if the client disconnected before the
    outcome. ``changed`` is called with each new state. ``open_seconds``: the first wait.
    """

    __slots__ = (
        "_changed",
        "_clock",
        "_in_a_row",
        "_jitter",
        "_open_seconds",
        "_openings",
        "_state",
        "_until",
        "_window",
    )

    def __init__(
        self,
        clock: Callable[[], float],
        *,
        jitter: Jitter,
        changed: Callable[[BreakerState], None] = lambda _: None,
        open_seconds: float = OPEN_SECONDS,
    ) -> None:
        self._clock = clock
        self._open_seconds = open_seconds
        self._jitter = jitter
        self._changed = changed
        self._state = BreakerState.CLOSED
        self._window: deque[_Second] = deque(maxlen=WINDOW_SECONDS)
        self._in_a_row = 0
        self._openings = 0
        self._until = 0.0

    @property
    def state(self) -> BreakerState:
        """The state after the last call; an open breaker stays open until ``allow`` is called again."""
        return self._state

    def allow(self) -> bool:
        """Whether to send a widened request now. True while not closed makes this request the probe."""
        if self._state is BreakerState.CLOSED:
            return True
        now = self._clock()
        if now < self._until:
            return False
        self._until = now + PROBE_SECONDS
        self._become(BreakerState.PROBING)
        return True

    def succeeded(self) -> None:
        if self._state is BreakerState.PROBING:
            self._close()
        elif self._state is BreakerState.CLOSED:
            self._in_a_row = 0
            self._count(failures=0)

    def failed(self) -> None:
        if self._state is BreakerState.PROBING:
            self._open()
        elif self._state is BreakerState.CLOSED:
            self._in_a_row += 1
            self._count(failures=1)
            if self._in_a_row >= CONSECUTIVE or self._mostly_failing():
                self._open()

    def abandoned(self) -> None:
        """The request ended without an outcome. If it was the probe, the next request probes."""
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
        planned = self._openings * (1 + BREAKER_JITTER * self._jitter(self._openings))
        self._until = self._clock() + self._open_seconds * min(planned, LONGEST_OPENINGS)
        self._become(BreakerState.OPEN)

    def _close(self) -> None:
        self._in_a_row = self._openings = 0
        self._window.clear()
        self._become(BreakerState.CLOSED)

    def _become(self, state: BreakerState) -> None:
        if state is not self._state:
            self._state = state
            self._changed(state)
