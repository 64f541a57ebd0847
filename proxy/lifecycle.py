"""From the first request to the last: ready, told to stop, draining, stopped.

    starting ── started ──► ready ── SIGTERM, SIGINT ──► draining ── accept time over ──► finishing ── idle, or time over ──► stopped
                                        (readiness off at once)                 second signal: at once ──────────────────► stopped

While draining, connections are still accepted, because a load balancer needs a moment to hear that readiness is off;
each answer ends its connection. SIGHUP asks for new settings.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from enum import StrEnum
from typing import Protocol

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
