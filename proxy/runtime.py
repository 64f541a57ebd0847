"""From the first request to the last: ready, told to stop, draining, stopped.

    starting ── started ──► ready ── SIGTERM, SIGINT ──► draining ── accept time over ──► finishing ── idle, or time over ──► stopped
                                        (readiness off at once)                 second signal: at once ──────────────────► stopped

While draining, connections are still accepted, because a load balancer needs a moment to hear that readiness is off;
each answer ends its connection. SIGHUP asks for new settings.
"""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from enum import IntEnum, StrEnum
from functools import partial
from types import FrameType
from typing import Protocol, TypeVar

from vecsieve.proxy.selection.values import Steps

LOOK_SECONDS = 0.05  # between two looks at what is in flight: a drained process ends within a blink
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

Pause = Callable[[float], Awaitable[None]]
"""Waits for that many seconds."""


class State(StrEnum):
    """Where in its life the process is."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    FINISHING = "finishing"
    STOPPED = "stopped"


class Plane(Protocol):
    """What is drained."""

    @property
    def in_flight(self) -> int:
        """Requests being answered now."""
        ...

    def drain(self) -> None:
        """From now on every answer ends its connection."""
        ...

    def stop_accepting(self) -> None:
        """Close the listening socket; open connections live on."""
        ...


class Lifecycle:
    """The state machine. ``reload`` is called for each SIGHUP while ready, and must not raise.

    Lives in one event loop: make it inside. ``pause`` waits, by default on the loop's clock.
    """

    __slots__ = ("_accept_seconds", "_drain_seconds", "_now", "_pause", "_reload", "_state", "_stop")

    def __init__(
        self,
        *,
        drain_accept_seconds: float,
        drain_seconds: float,
        reload: Callable[[], None],
        pause: Pause = asyncio.sleep,
    ) -> None:
        self._accept_seconds = drain_accept_seconds
        self._drain_seconds = drain_seconds
        self._reload = reload
        self._pause = pause
        self._state = State.STARTING
        self._stop = asyncio.Event()
        self._now = asyncio.Event()

    @property
    def state(self) -> State:
        """The present state."""
        return self._state

    @property
    def is_ready(self) -> bool:
        """Whether new requests should come here."""
        return self._state is State.READY

    def started(self) -> None:
        """The listeners are open. A process that was told to stop before stays told."""
        if self._state is State.STARTING:
            self._state = State.READY

    def told(self, number: int) -> None:
        """Take a signal, as if the process had received it."""
        if number == signal.SIGHUP:
            if self.is_ready:
                self._reload()
        elif self._stop.is_set():
            self._now.set()
        else:
            self._state = State.DRAINING
            self._stop.set()

    def listen_to_signals(self) -> None:
        """Take SIGTERM, SIGINT and SIGHUP of this process from now on."""
        loop = asyncio.get_running_loop()
        for number in (*STOP_SIGNALS, signal.SIGHUP):
            loop.add_signal_handler(number, self.told, number)

    def ignore_signals(self) -> None:
        """Give the signals back to their default."""
        loop = asyncio.get_running_loop()
        for number in (*STOP_SIGNALS, signal.SIGHUP):
            loop.remove_signal_handler(number)

    async def finish(self, plane: Plane) -> bool:
        """Wait until told to stop, then drain. True when nothing was in flight at the end, False when it was cut."""
        await self._stop.wait()
        plane.drain()
        if self._accept_seconds > 0:
            await self._unless_told_again(self._pause(self._accept_seconds))
        plane.stop_accepting()
        self._state = State.FINISHING
        await self._unless_told_again(self._idle(plane), self._pause(self._drain_seconds))
        self._state = State.STOPPED
        return plane.in_flight == 0

    async def _idle(self, plane: Plane) -> None:
        while plane.in_flight:
            await self._pause(LOOK_SECONDS)

    async def _unless_told_again(self, *waits: Awaitable[None]) -> None:
        """Return when the first of them does, or at the second signal; the others are cancelled and awaited."""
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


# How a command ends: SIGTERM and a closed terminal do what Ctrl-C does, so that blocks are left in order.


@contextmanager
def ended_by_signals() -> Iterator[None]:
    """Within the block both raise KeyboardInterrupt. Signals are the main thread's business: elsewhere nothing is done."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    wanted = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, _interrupt) for number in wanted]
    try:
        yield
    finally:
        for number, handler in zip(wanted, before, strict=True):
            signal.signal(number, handler)


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


# Work that takes tens of milliseconds, in one thread beside the loop: reading a large reply, comparing a large pool.
#
# It is pure, so a thread may do it. Python gives the loop its turn every SWITCH_SECONDS meanwhile, and numpy gives up the interpreter's
# lock while it multiplies. One thread, because two would only take turns from one another and from the loop.

T = TypeVar("T")

# Python's own is 5 ms. uvloop takes the lock for each callback, so that one turn of the loop waited several times as long.
SWITCH_SECONDS = 0.001
# For the works before it, which take some 0.1 s each, and its own: one that waits longer is given up, and a lower rung answers.
WAIT_SECONDS = 5.0


class LongWork:
    """The thread of one process; it starts with the first work."""

    __slots__ = ("_executor",)

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "vecsieve-long-work", initializer=_take_turns)

    async def run(self, work: Callable[[], T]) -> T:
        """What ``work`` returns or raises. It must be pure: when the caller is cancelled it runs to its end, and its result is dropped.

        Raises TimeoutError when it is not done in time. Works begin in the order in which they came.
        """
        # One future instead of run_in_executor's two: once it is handed out, nothing here refers to what was found.
        loop, over = asyncio.get_running_loop(), asyncio.Event()

        def tell(_: object) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits
                loop.call_soon_threadsafe(over.set)

        job = self._executor.submit(work)
        job.add_done_callback(tell)
        try:
            async with asyncio.timeout(WAIT_SECONDS):
                await over.wait()
            return job.result()
        finally:
            job.cancel()
            del job  # an error refers to this frame

    async def done(self, work: Callable[[], T], *, is_long: bool) -> T:
        """The same where it is long; else it is done here."""
        return await self.run(work) if is_long else work()

    async def finished(self, steps: Steps[T], timed: AbstractContextManager[object], *, is_long: bool) -> T:
        """What all steps come to, a turn of the loop for each: a list may be a thousand ranks long, and texts long and many."""
        while True:
            with timed:
                end = await self.done(partial(_end, steps), is_long=is_long)
            if end is not None:
                found: T = end.value
                return found
            await asyncio.sleep(0)

    def close(self) -> None:
        """Begin no other work."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def _end(steps: Steps[T]) -> StopIteration | None:
    """Take one step; the end behind the last. It is returned, because no future takes it for an exception."""
    try:
        next(steps)
    except StopIteration as end:
        return end
    return None


def _take_turns() -> None:
    sys.setswitchinterval(SWITCH_SECONDS)


# What the processes of one proxy tell each other: a page of numbers that parent and children share.
#
# Memory instead of messages: writing a number can neither block nor fail, so a stuck worker is seen by what it no longer
# writes. Every number is one aligned machine word, written by one process.

WORD = 8
BOARD_FIELDS = 4  # per place: process id, phase, restarts, heartbeat
PID, PHASE, RESTARTS, HEARTBEAT = range(BOARD_FIELDS)


class Phase(IntEnum):
    """What a place's process is doing."""

    EMPTY = 0  # there is none: it ended, and the next one is due
    STARTING = 1
    READY = 2


class Board:
    """Numbers per place, 0 at first. Made before the first fork; heartbeats are milliseconds of the monotonic clock."""

    __slots__ = ("_memory", "_words", "places")

    def __init__(self, places: int) -> None:
        self.places = places
        self._memory = mmap.mmap(-1, (1 + places * BOARD_FIELDS) * WORD)
        self._words = memoryview(self._memory).cast("q")

    @property
    def is_draining(self) -> bool:
        """Whether the whole proxy was told to stop."""
        return self._words[0] != 0

    def drain(self) -> None:
        """Say that the whole proxy was told to stop."""
        self._words[0] = 1

    def begin(self, place: int, pid: int, *, now_ms: int) -> None:
        """A process took the place."""
        self._put(place, PID, pid)
        self._put(place, HEARTBEAT, now_ms)

    def set_phase(self, place: int, phase: Phase) -> None:
        """What the place's process is doing now."""
        self._put(place, PHASE, phase)

    def beat(self, place: int, now_ms: int) -> None:
        """The place's loop runs."""
        self._put(place, HEARTBEAT, now_ms)

    def count_restart(self, place: int) -> None:
        """The place is filled anew."""
        self._put(place, RESTARTS, self.restarts(place) + 1)

    def pid(self, place: int) -> int:
        """The process in the place, or the last one that was."""
        return self._get(place, PID)

    def phase(self, place: int) -> Phase:
        """What the place's process is doing."""
        return Phase(self._get(place, PHASE))

    def restarts(self, place: int) -> int:
        """How often the place was filled anew."""
        return self._get(place, RESTARTS)

    def heartbeat_ms(self, place: int) -> int:
        """When the place's loop last ran."""
        return self._get(place, HEARTBEAT)

    def _put(self, place: int, field: int, number: int) -> None:
        self._words[1 + place * BOARD_FIELDS + field] = number

    def _get(self, place: int, field: int) -> int:
        return self._words[1 + place * BOARD_FIELDS + field]


# How late the event loop wakes, measured ten times a second: the first sign of a decode that is too large.

PERIOD_SECONDS = 0.1


class LoopLag:
    """A task that sleeps, and reports by how much it overslept. ``clock``: monotonic seconds.

    ``observe`` gets seconds, never negative. ``beat`` is called at each waking: it proves that the loop runs. Whoever
    starts it closes it.
    """

    __slots__ = ("_beat", "_clock", "_observe", "_pause", "_task")

    def __init__(
        self,
        observe: Callable[[float], None],
        *,
        clock: Callable[[], float],
        pause: Pause = asyncio.sleep,
        beat: Callable[[], None] = lambda: None,
    ) -> None:
        self._observe = observe
        self._clock = clock
        self._pause = pause
        self._beat = beat
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to measure. Raises RuntimeError when it already does."""
        if self._task is not None:
            raise RuntimeError("the loop's lag is already being measured")
        self._task = asyncio.create_task(self._run(), name="vecsieve-loop-lag")

    async def close(self) -> None:
        """End the task. Raises what ended it before."""
        task, self._task = self._task, None
        if task is None:
            return
        task.cancel()
        try:
            await task
        except asyncio.CancelledError:
            current = asyncio.current_task()
            if current is not None and current.cancelling():
                raise

    async def _run(self) -> None:
        while True:
            before = self._clock()
            await self._pause(PERIOD_SECONDS)
            self._observe(max(0.0, self._clock() - before - PERIOD_SECONDS))
            self._beat()
