"""How many requests are in flight at once: a bounded number, a short bounded queue, then a refusal.

Bounded twice: by a number, for a database that is slow; and by the lag of the event loop, for a process that has more work than
time. Without the second 1,024 requests share one loop, and each is answered after 2 s or more (measured: searches at twice
of what a process can do).
"""

from __future__ import annotations

import asyncio
from collections import deque

from vecsieve.proxy.turns import Turns

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
