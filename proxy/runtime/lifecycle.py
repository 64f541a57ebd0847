"""The states of one process, its signals, and the board on which the workers of one proxy publish theirs.

    starting ── started ──► ready ── SIGTERM, SIGINT ──► draining ── accept time over ──► finishing ── idle, or time over ──► stopped
                                        (readiness off at once)                 second signal: at once ──────────────────► stopped

While draining, connections are still accepted, because a load balancer needs a moment to see that readiness is off; each answer closes its
connection. SIGHUP reloads the settings.
"""

from __future__ import annotations

import asyncio
import mmap
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from enum import IntEnum, StrEnum
from types import FrameType
from typing import Protocol

from .loop import Pause

POLL_SECONDS = 0.05  # seconds between checks for requests in flight
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)


class State(StrEnum):
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    FINISHING = "finishing"
    STOPPED = "stopped"


class Plane(Protocol):
    """The object that the lifecycle drains."""

    @property
    def in_flight(self) -> int: ...

    def drain(self) -> None:
        """From now on every answer closes its connection."""

    def stop_accepting(self) -> None:
        """Close the listening socket; open connections stay."""


class Lifecycle:
    """The state machine; create it inside the event loop. ``reload`` is awaited after SIGHUP while ready, and again where one came meanwhile. It must
    not raise.
    """

    __slots__ = (
        "_accept_seconds",
        "_drain_seconds",
        "_is_due",
        "_now",
        "_pause",
        "_reload",
        "_reloading",
        "_state",
        "_stop",
    )

    def __init__(
        self,
        *,
        drain_accept_seconds: float,
        drain_seconds: float,
        reload: Callable[[], Awaitable[None]],
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._accept_seconds = drain_accept_seconds
        self._drain_seconds = drain_seconds
        self._reload = reload
        self._is_due = False
        self._reloading: asyncio.Task[None] | None = None
        self._pause = pause
        self._state = State.STARTING
        self._stop = asyncio.Event()
        self._now = asyncio.Event()

    @property
    def state(self) -> State:
        return self._state

    @property
    def is_ready(self) -> bool:
        return self._state is State.READY

    def started(self) -> None:
        """The listeners are open. An earlier stop request still applies."""
        if self._state is State.STARTING:
            self._state = State.READY

    def handle_signal(self, number: int) -> None:
        """Handle a signal as if the process had received it."""
        if number == signal.SIGHUP:
            if self.is_ready:
                self._is_due = True
                if self._reloading is None or self._reloading.done():
                    self._reloading = asyncio.create_task(self._reloads(), name="vecsieve-reload")
        elif self._stop.is_set():
            self._now.set()
        else:
            self._state = State.DRAINING
            self._stop.set()

    async def _reloads(self) -> None:
        while self._is_due:
            self._is_due = False
            await self._reload()

    def listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (*STOP_SIGNALS, signal.SIGHUP):
            loop.add_signal_handler(number, self.handle_signal, number)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})

    def ignore_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (*STOP_SIGNALS, signal.SIGHUP):
            loop.remove_signal_handler(number)

    async def stopping(self) -> None:
        """Returns at the first stop signal."""
        await self._stop.wait()

    async def finish(self, plane: Plane) -> bool:
        """Wait for the stop signal, then drain. False if requests were still in flight at the end and are cut."""
        await self.stopping()
        if self._reloading is not None:
            self._reloading.cancel()
        plane.drain()
        if self._accept_seconds > 0:
            await self._unless_signalled(self._pause(self._accept_seconds))
        plane.stop_accepting()
        self._state = State.FINISHING
        await self._unless_signalled(self._idle(plane), self._pause(self._drain_seconds))
        self._state = State.STOPPED
        return plane.in_flight == 0

    async def _idle(self, plane: Plane) -> None:
        while plane.in_flight:
            await self._pause(POLL_SECONDS)

    async def _unless_signalled(self, *waits: Awaitable[None]) -> None:
        """Return when the first of ``waits`` does, or at the second signal; cancel and await the others."""
        tasks = [asyncio.create_task(_through(wait), name="vecsieve-drain") for wait in (*waits, self._now.wait())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()


async def _through(wait: Awaitable[object]) -> None:
    await wait


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Within the block SIGINT, SIGTERM and SIGHUP raise KeyboardInterrupt. Outside the main thread nothing changes.

    A library may raise an error of its own in its place: DuckDB 1.5 says RuntimeError("Query interrupted").
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    is_interrupted = False

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal is_interrupted
        is_interrupted = True
        raise KeyboardInterrupt

    # What is ignored stays so, such as SIGHUP under nohup.
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handled = [number for number in numbers if signal.getsignal(number) is not signal.SIG_IGN]
    before = [signal.signal(number, interrupt) for number in handled]
    try:
        yield
    except RuntimeError as error:
        if is_interrupted:
            raise KeyboardInterrupt from error
        raise
    finally:
        for number, handler in zip(handled, before, strict=True):
            signal.signal(number, handler)


# The processes of one proxy share a page of numbers instead of messages: writing a number can neither block nor fail, and a stuck worker is
# noticed by its missing heartbeat. Every number is one aligned machine word, written by one process.

WORD = 8
BOARD_FIELDS = 4  # per place: process id, phase, restarts, heartbeat
PID, PHASE, RESTARTS, HEARTBEAT = range(BOARD_FIELDS)


class Phase(IntEnum):
    EMPTY = 0  # the process ended, and the next one is due
    STARTING = 1
    READY = 2


_WHOLE = 4  # words of the whole proxy: whether it drains; what stopped the canary, and when; whose canary that was


class Board:
    """Numbers of the whole proxy and per place, initially 0. Create it before the first fork; heartbeats are milliseconds of the monotonic clock."""

    __slots__ = ("_memory", "_words", "places")

    def __init__(self, places: int) -> None:
        self.places = places
        self._memory = mmap.mmap(-1, (_WHOLE + places * BOARD_FIELDS) * WORD)
        self._words = memoryview(self._memory).cast("q")

    @property
    def is_draining(self) -> bool:
        return self._words[0] != 0

    def drain(self) -> None:
        """The whole proxy was stopped."""
        self._words[0] = 1

    @property
    def canary(self) -> tuple[int, int]:
        """What stopped the canary, as the reader numbers it, 0 if it was not stopped; and when, in milliseconds since the epoch."""
        return self._words[1], self._words[3]

    def stop_canary(self, number: int, *, now_ms: int) -> None:
        """``number``: what stopped it; 0 starts it again."""
        self._words[3], self._words[1] = now_ms, number  # the time is there when the number is

    @property
    def canary_members(self) -> int:
        """A hash of the members of the last canary; 0 before the first one."""
        return self._words[2]

    @canary_members.setter
    def canary_members(self, number: int) -> None:
        self._words[2] = number

    def begin(self, place: int, pid: int, *, now_ms: int) -> None:
        """A process started in the place."""
        self._put(place, PID, pid)
        self._put(place, HEARTBEAT, now_ms)

    def set_phase(self, place: int, phase: Phase) -> None:
        self._put(place, PHASE, phase)

    def beat(self, place: int, now_ms: int) -> None:
        """The loop of the place runs."""
        self._put(place, HEARTBEAT, now_ms)

    def count_restart(self, place: int) -> None:
        self._put(place, RESTARTS, self.restarts(place) + 1)

    def pid(self, place: int) -> int:
        """The current or last process of the place."""
        return self._get(place, PID)

    def phase(self, place: int) -> Phase:
        return Phase(self._get(place, PHASE))

    def restarts(self, place: int) -> int:
        return self._get(place, RESTARTS)

    def heartbeat_ms(self, place: int) -> int:
        return self._get(place, HEARTBEAT)

    def _put(self, place: int, field: int, number: int) -> None:
        self._words[_WHOLE + place * BOARD_FIELDS + field] = number

    def _get(self, place: int, field: int) -> int:
        return self._words[_WHOLE + place * BOARD_FIELDS + field]
