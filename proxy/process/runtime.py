"""The life of one process: its states, its worker thread, the board of workers, the lag of its loop.

    starting ── started ──► ready ── SIGTERM, SIGINT ──► draining ── accept time over ──► finishing ── idle, or time over ──► stopped
                                        (readiness off at once)                 second signal: at once ──────────────────► stopped

While draining, connections are still accepted, because a load balancer needs a moment to see that readiness is off;
each answer closes its connection. SIGHUP reloads the settings.
"""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import signal
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from enum import IntEnum, StrEnum
from functools import partial
from types import FrameType
from typing import Protocol, TypeVar

from vecsieve.proxy.selection.values import Steps

POLL_SECONDS = 0.05  # how often the drain checks what is in flight
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)

Pause = Callable[[float], Awaitable[None]]
"""Waits for that many seconds."""


class State(StrEnum):
    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    FINISHING = "finishing"
    STOPPED = "stopped"


class Plane(Protocol):
    """What the lifecycle drains."""

    @property
    def in_flight(self) -> int: ...

    def drain(self) -> None:
        """From now on every answer closes its connection."""

    def stop_accepting(self) -> None:
        """Close the listening socket; open connections stay."""


class Lifecycle:
    """The state machine; make it inside the event loop. ``reload`` is called for each SIGHUP while ready and must not raise."""

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
        return self._state

    @property
    def is_ready(self) -> bool:
        return self._state is State.READY

    def started(self) -> None:
        """The listeners are open. An earlier stop request still applies."""
        if self._state is State.STARTING:
            self._state = State.READY

    def told(self, number: int) -> None:
        """Handle a signal as if the process had received it."""
        if number == signal.SIGHUP:
            if self.is_ready:
                self._reload()
        elif self._stop.is_set():
            self._now.set()
        else:
            self._state = State.DRAINING
            self._stop.set()

    def listen_to_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (*STOP_SIGNALS, signal.SIGHUP):
            loop.add_signal_handler(number, self.told, number)

    def ignore_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (*STOP_SIGNALS, signal.SIGHUP):
            loop.remove_signal_handler(number)

    async def stopping(self) -> None:
        """Returns at the first stop signal."""
        await self._stop.wait()

    async def finish(self, plane: Plane) -> bool:
        """Wait for the stop signal, then drain. False when requests were still in flight at the end and are cut."""
        await self.stopping()
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
            await self._pause(POLL_SECONDS)

    async def _unless_told_again(self, *waits: Awaitable[None]) -> None:
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
    """Within the block SIGTERM and SIGHUP raise KeyboardInterrupt. Outside the main thread nothing changes."""
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


# Long work runs in one thread beside the loop: reading a large reply or comparing a large pool takes tens of milliseconds.
# It is pure, so a thread may do it. Python switches to the loop every SWITCH_SECONDS, and numpy releases the GIL while it
# multiplies. One thread, because two would compete with each other and with the loop.

T = TypeVar("T")

# Python's default is 5 ms. uvloop takes the GIL for each callback, so one turn of the loop waited several times as long.
SWITCH_SECONDS = 0.001
# Includes the queue, where each work takes about 0.1 s. After this the search falls back.
WAIT_SECONDS = 5.0
# Of steps in the thread, which others wait for meanwhile.
STRETCH_SECONDS = 0.02


class LongWork:
    """One worker thread per process; it starts with the first work."""

    __slots__ = ("_executor",)

    def __init__(self) -> None:
        self._executor = ThreadPoolExecutor(1, "vecsieve-long-work", initializer=_take_turns)

    async def run(self, work: Callable[[], T]) -> T:
        """What ``work`` returns or raises. Works run in order. ``work`` must be pure: cancelling drops its result, not its run.

        Raises TimeoutError after WAIT_SECONDS.
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
        """Run ``work`` in the thread when it is long, else here."""
        return await self.run(work) if is_long else work()

    async def finished(self, steps: Steps[T], timed: AbstractContextManager[object], *, is_long: bool) -> T:
        """The result of all steps, with a turn of the loop after each; in the thread, of which each turn costs two switches, after several."""
        while True:
            with timed:
                end = await self.run(partial(_several, steps)) if is_long else _end(steps)
            if end is not None:
                found: T = end.value
                return found
            await asyncio.sleep(0)

    def close(self) -> None:
        """Start no other work."""
        self._executor.shutdown(wait=False, cancel_futures=True)


def _end(steps: Steps[T]) -> StopIteration | None:
    """Take one step. Returns the StopIteration behind the last one: a future cannot carry it as an exception."""
    try:
        next(steps)
    except StopIteration as end:
        return end
    return None


def _several(steps: Steps[T]) -> StopIteration | None:
    """Take steps for STRETCH_SECONDS, at least one."""
    until = time.monotonic() + STRETCH_SECONDS
    while (end := _end(steps)) is None and time.monotonic() < until:
        pass
    return end


def _take_turns() -> None:
    sys.setswitchinterval(SWITCH_SECONDS)


# The processes of one proxy share a page of numbers instead of messages: writing a number can neither block nor fail, so a
# stuck worker is noticed by its heartbeat. Every number is one aligned machine word, written by one process.

WORD = 8
BOARD_FIELDS = 4  # per place: process id, phase, restarts, heartbeat
PID, PHASE, RESTARTS, HEARTBEAT = range(BOARD_FIELDS)


class Phase(IntEnum):
    EMPTY = 0  # the process ended, and the next one is due
    STARTING = 1
    READY = 2


class Board:
    """Numbers per place, initially 0. Make it before the first fork; heartbeats are milliseconds of the monotonic clock."""

    __slots__ = ("_memory", "_words", "places")

    def __init__(self, places: int) -> None:
        self.places = places
        self._memory = mmap.mmap(-1, (1 + places * BOARD_FIELDS) * WORD)
        self._words = memoryview(self._memory).cast("q")

    @property
    def is_draining(self) -> bool:
        return self._words[0] != 0

    def drain(self) -> None:
        """The whole proxy was told to stop."""
        self._words[0] = 1

    def begin(self, place: int, pid: int, *, now_ms: int) -> None:
        """A process took the place."""
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
        """The current or the last process of the place."""
        return self._get(place, PID)

    def phase(self, place: int) -> Phase:
        return Phase(self._get(place, PHASE))

    def restarts(self, place: int) -> int:
        return self._get(place, RESTARTS)

    def heartbeat_ms(self, place: int) -> int:
        return self._get(place, HEARTBEAT)

    def _put(self, place: int, field: int, number: int) -> None:
        self._words[1 + place * BOARD_FIELDS + field] = number

    def _get(self, place: int, field: int) -> int:
        return self._words[1 + place * BOARD_FIELDS + field]


PERIOD_SECONDS = 0.1  # how often the lag of the loop is measured


class LoopLag:
    """A task that sleeps and reports how much it overslept. ``clock``: monotonic seconds.

    ``observe`` gets seconds, never negative. ``beat`` is called at each wake-up: it proves that the loop runs.
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
        """Raises RuntimeError when it already runs."""
        if self._task is not None:
            raise RuntimeError("the loop's lag is already being measured")
        self._task = asyncio.create_task(self._run(), name="vecsieve-loop-lag")

    async def close(self) -> None:
        """Cancel the task. Raises what ended it before."""
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
