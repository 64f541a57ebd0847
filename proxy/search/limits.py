"""How many requests are in flight at once: a bounded number, a short bounded queue, then a refusal.

Bounded twice: by a number, for a database that is slow; and by the lag of the event loop, for a process that has more work than
time. Without the second 1,024 requests share one loop, and each is answered after 2 s or more (measured: searches at twice
of what a process can do).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence

from vecsieve.adapters.contract import Operation
from vecsieve.proxy.search.breaker import spread
from vecsieve.proxy.search.collections import LEARNED_ENTRIES, Expiring
from vecsieve.proxy.telemetry.tracing import Clock

# How long the event loop takes for one turn now: the first sign that this process has more work than time.
#
# A slow database leaves turns short, however many requests wait for it; too much work of our own makes every turn long,
# because each request that is under way wants a piece of it. A request takes some ten turns from its connection to its answer.

# The least of three counts, as CoDel (RFC 8289) takes the least delay of an interval: one large decode is no standing queue.
TURNS = 3
FORGOTTEN_SECONDS = 0.25  # what was measured longer ago says nothing of now

Soon = Callable[[Callable[[], None]], object]
"""Runs something at the loop's next turn."""


class Turns:
    """Measures turns while it is told that there is something to do. ``clock``: monotonic seconds."""

    __slots__ = ("_clock", "_last", "_measured_at", "_soon", "_started")

    def __init__(self, clock: Callable[[], float], soon: Soon) -> None:
        self._clock = clock
        self._soon = soon
        self._last: deque[float] = deque((0.0,) * TURNS, maxlen=TURNS)
        self._measured_at = clock()
        self._started: float | None = None

    @property
    def lag_seconds(self) -> float:
        """What the last turns took at least; 0 when they are long ago."""
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


# The bytes of widened replies that one process holds: bounded, because so many searches say little of so many megabytes.
#
# A search that would exceed the bound passes through at once: nobody waits here. What a reply will be is estimated from the
# last one of its collection, corrected when its length is known and as it arrives, and given back when its search has ended. What turns out not to fit is
# dropped at once, and the client's own request goes out.

# Of a candidate whose vector's length is not known: the text of 1,200 numbers and a payload.
CANDIDATE_BYTES = 16 * 1024
# Of one whose vector's length is known, beside the vector: identifier, score, and a passage of text.
PAYLOAD_BYTES = 2 * 1024
# Bytes of one number of a vector: float32 as text, with its comma; float32 over gRPC.
TEXT_NUMBER_BYTES, BINARY_NUMBER_BYTES = 12, 4
LEARNED_SECONDS = 600.0  # payloads grow slowly

Changed = Callable[[int], None]
"""Hears of so many bytes more, or fewer."""


class Hold:
    """What one search holds, or expects to. ``came`` and ``fits`` are told of one reply after the other."""

    __slots__ = ("_expected", "_held", "_kept")

    def __init__(self, held: HeldBytes, expected: int) -> None:
        self._held = held
        self._expected = expected
        self._kept = 0
        held.change(expected)

    def fits(self, size: int) -> bool:
        """Whether a reply of at least ``size`` bytes, which is arriving, may be held."""
        more = self._kept + size - self._expected
        if more <= 0:
            return True
        if not self._held.has_room(more, beside=self._expected):
            return False
        self._expect(self._kept + size)
        return True

    def came(self, size: int) -> None:
        """A reply is here, whole."""
        self._kept += size
        self._expect(self._kept)

    def release(self) -> None:
        """The search has ended."""
        self._expect(0)
        self._kept = 0

    def _expect(self, size: int) -> None:
        self._held.change(size - self._expected)
        self._expected = size


class HeldBytes:
    """Of one process. ``reply_bytes``: how large one reply may be. ``clock``: monotonic seconds."""

    __slots__ = ("_changed", "_limit", "_per_candidate", "_total", "reply_bytes")

    def __init__(self, limit_bytes: int, *, reply_bytes: int, changed: Changed, clock: Clock) -> None:
        self._limit = limit_bytes
        self.reply_bytes = reply_bytes
        self._changed = changed
        self._total = 0
        self._per_candidate = Expiring[int](entries=LEARNED_ENTRIES, clock=clock)

    @property
    def total(self) -> int:
        """What all searches hold or expect."""
        return self._total

    def candidate_bytes(self, operation: Operation, *, vector_bytes: int | None) -> int:
        """What a candidate is expected to take: as many as in the collection's last reply, else what its vector tells.

        ``vector_bytes``: of a vector like the one that is searched by; None where the request carries none.
        """
        known = self._per_candidate.get(_key(operation))
        if known is not None:
            return known
        return CANDIDATE_BYTES if vector_bytes is None else vector_bytes + PAYLOAD_BYTES

    def hold(self, sizes: Sequence[int | None], candidate_bytes: int) -> Hold | None:
        """Expect a reply with so many candidates per search; None when there is no room for it. Whoever holds must release."""
        expected = sum(size for size in sizes if size is not None) * candidate_bytes
        return Hold(self, expected) if self.has_room(expected, beside=0) else None

    def learn(self, operation: Operation, sizes: Sequence[int | None], reply_bytes: int) -> None:
        """Remember what a reply with so many candidates came to."""
        candidates = sum(size for size in sizes if size is not None)
        if candidates and reply_bytes:
            self._per_candidate.put(_key(operation), -(-reply_bytes // candidates), seconds=LEARNED_SECONDS)

    def has_room(self, more: int, *, beside: int) -> bool:
        """Whether so many more may be held. One search alone always may, or a bound below one reply would end selection.

        ``beside``: of what is held, the asking search's own.
        """
        return self._total == beside or self._total + more <= self._limit

    def change(self, more: int) -> None:
        """So many more are held, or fewer."""
        self._total += more
        self._changed(more)


def _key(operation: Operation) -> tuple[str, str]:
    return operation.backend, operation.collection


# How old a connection may become: long ones do not spread over replicas that come, and do not leave addresses that go.
#
# Not all at once: they were often opened together, and would come back together.

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


# Of the places, while the loop lags. A request's own work takes half a millisecond, so a quarter of 1,024 is through in 0.2 s on a
# whole core; fewer would leave the loop without work between two turns when others want the core as well.
LAGGING_SHARE = 0.25
# Of the wait, while the loop lags: whoever is let in, or refused, has yet to wait for some ten of its turns.
LAGGING_WAIT_SHARE = 0.5
# Of the places, for requests whose bodies are still on their way: less than what is left while the loop lags, so that clients that
# send slowly, by mischief or by radio, never hold what those whose requests are here need.
UNFINISHED_SHARE = 0.125


class Admission:
    """A gate of ``limit`` places. Whoever finds none waits at most ``wait_seconds``, at most ``limit`` of them.

    They enter in the order in which they came, until one has waited in vain: from then on, until nobody waits, the last enters
    first. As many are refused as in any order, but those served are served soon. ``lag_seconds``: while turns take longer, a quarter
    of the places is given, for half of the wait.
    """

    def __init__(self, *, limit: int, wait_seconds: float, turns: Turns, lag_seconds: float) -> None:
        self._limit = limit
        self._least = max(1, int(limit * LAGGING_SHARE))
        self._unfinished = max(1, int(limit * UNFINISHED_SHARE))
        self._wait_seconds = wait_seconds
        self._turns = turns
        self._lag_seconds = lag_seconds
        self._inside = 0
        # When each came, oldest first. Those that were cancelled or admitted stay until they are met.
        self._waiting: deque[tuple[float, asyncio.Future[bool]]] = deque()
        self._waiters = 0
        self._sweep: asyncio.TimerHandle | None = None
        self._is_late = False

    @property
    def in_flight(self) -> int:
        """How many hold a place."""
        return self._inside

    @property
    def is_for_whole_requests(self) -> bool:
        """Whether what is left is for requests that are here: others do better to wait for their bodies outside."""
        return self._inside >= self._unfinished

    async def enter(self) -> bool:
        """Take a place, waiting a moment if need be; False when there is none, and the request is to be refused.

        A plain pair with `leave`: as an async context manager it cost 9 microseconds of a request's 250.
        """
        self._turns.measure()
        if self._has_room() and (self._is_late or not self._waiters):
            self._inside += 1
            return True
        return self._waiters < self._limit and await self._waited()

    def leave(self) -> None:
        """Give the place back."""
        self._inside -= 1
        if self._waiters:
            self._admit()

    def _has_room(self) -> bool:
        if self._inside < self._least:
            return True
        return self._inside < self._limit and self._turns.lag_seconds <= self._lag_seconds

    async def _waited(self) -> bool:
        loop = asyncio.get_running_loop()
        place: asyncio.Future[bool] = loop.create_future()
        self._waiting.append((loop.time(), place))
        self._waiters += 1
        if self._sweep is None:
            self._sweep = loop.call_later(self._wait_seconds * LAGGING_WAIT_SHARE, self._expire)
        try:
            return await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled() and place.result():
                self.leave()  # it was given at the same turn
            raise
        finally:
            self._waiters -= 1

    def _admit(self) -> None:
        while self._waiting and self._has_room():
            _, place = self._waiting.pop() if self._is_late else self._waiting.popleft()
            if not place.done():
                place.set_result(True)
                self._inside += 1
        self._is_late = self._is_late and bool(self._waiting)

    def _expire(self) -> None:
        """Refuse those whose time is up, and come again for the next."""
        loop = asyncio.get_running_loop()
        now, short = loop.time(), self._wait_seconds * LAGGING_WAIT_SHARE
        patience = self._wait_seconds if self._turns.lag_seconds <= self._lag_seconds else short
        self._sweep = None
        while self._waiting and (self._waiting[0][1].done() or self._waiting[0][0] + patience <= now):
            _, place = self._waiting.popleft()
            if not place.done():
                place.set_result(False)
                self._is_late = True
        if self._waiting:
            came = self._waiting[0][0]
            # Between the short wait and the whole one the loop may begin to lag: look now and then.
            again = came + short if now < came + short else min(came + self._wait_seconds, now + short / 5)
            self._sweep = loop.call_at(again, self._expire)


class Place:
    """A place that was taken, to be given back once, however often it is said."""

    __slots__ = ("_admission",)

    def __init__(self, admission: Admission) -> None:
        self._admission: Admission | None = admission

    def leave(self) -> None:
        """Give the place back, unless that was done: a request that only waits for its client to read needs none."""
        if self._admission is not None:
            admission, self._admission = self._admission, None
            admission.leave()
