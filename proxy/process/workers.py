"""`--workers N`: a parent that supervises, N workers on one listening socket, one admin process.

The parent binds; forked children inherit the socket. It is one shared socket, not SO_REUSEPORT: closing one of several
sockets resets the connections in its queue, and a few long connections hash unevenly. Fork, not spawn: the parent has
neither loop nor thread, so a fork is safe; a worker is back within milliseconds, and memory pages of libraries are shared.
The admin port has its own process because it must answer while a worker is stuck, and because a parent that serves could
not fork safely.

Places 0 to count - 1 are workers, the last one is the admin process. A place whose process ended is filled again: at once
after a long life, with a growing delay after short ones. When the first workers end before any was ready, everything ends:
the cause is the settings or the machine, and the supervisor above this process should see it.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from vecsieve.config.problems import SettingsError

from ..runtime.lifecycle import Board, Phase
from ..runtime.memory import collect_seldom
from ..telemetry.exposition import forget_gauges, metrics_directory
from ..telemetry.log import FIELDS, place_of

LONG_LIFE_SECONDS = 10.0
FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 30.0
STUCK_SECONDS = 60.0  # seconds without a heartbeat: like a liveness probe with a period of 10 s and 6 failures
NOW_SECONDS = 1.0  # time left after a second signal
GRACE_SECONDS = 2.0  # for a worker to end after its drain time


class Processes(Protocol):
    """The supervisor's operations on processes."""

    def start(self, place: int) -> int:
        """Start the process of a place; returns its id. Raises OSError when the machine has no process left."""

    def send(self, pid: int, number: int) -> None:
        """Send a signal to a process; it may be gone already."""

    def ended(self, place: int) -> None:
        """Clean up after a place's process, before the next one starts."""

    def stop_accepting(self) -> None:
        """Close the parent's copy of the data sockets: it starts no new worker."""


@dataclass(slots=True)
class _Place:
    """One place. ``pid`` is None while it is empty; then ``due`` is when the next process starts."""

    pid: int | None = None
    started: float = 0.0
    due: float = 0.0
    short_lives: int = 0


class Supervisor:
    """Decides which process to start, signal or kill, and when. ``clock``: monotonic seconds.

    ``drain_seconds``: how long workers may take to end after SIGTERM.
    """

    __slots__ = (
        "_board",
        "_clock",
        "_deadline",
        "_drain_seconds",
        "_places",
        "_processes",
        "_say",
        "_was_ready",
        "exit_code",
    )

    def __init__(
        self,
        board: Board,
        processes: Processes,
        *,
        drain_seconds: float,
        clock: Callable[[], float],
        say: Callable[[str, int, int], None] = lambda _what, _place, _detail: None,
    ) -> None:
        self._board = board
        self._processes = processes
        self._drain_seconds = drain_seconds
        self._clock = clock
        self._say = say
        self._places = [_Place() for _ in range(board.places)]
        self._deadline: float | None = None
        self._was_ready = False
        self.exit_code = 0

    @property
    def is_finished(self) -> bool:
        """Whether everything was stopped and has ended."""
        return self._deadline is not None and all(place.pid is None for place in self._places)

    @property
    def pids(self) -> list[int]:
        return [place.pid for place in self._places if place.pid is not None]

    def start(self) -> None:
        for number in range(len(self._places)):
            self._fill(number)

    def exited(self, pid: int, code: int) -> None:
        """A process ended. ``code``: its exit code, or minus the signal that killed it."""
        number = next((number for number, place in enumerate(self._places) if place.pid == pid), None)
        if number is None:
            return
        place = self._places[number]
        self._was_ready = self._was_ready or self._board.phase(number) is Phase.READY
        place.pid = None
        self._board.set_phase(number, Phase.EMPTY)
        self._processes.ended(number)
        if self._deadline is not None:
            return
        self._say("process ended", number, code)
        if not self._was_ready:
            self.exit_code = code if code > 0 else 1
            self.stop()
            return
        self._plan(place)

    def stop(self) -> None:
        """Drain; on a second call, end within a second."""
        now = self._clock()
        if self._deadline is None:
            self._board.drain()
            self._processes.stop_accepting()
            self._deadline = now + self._drain_seconds + GRACE_SECONDS
        else:
            self._deadline = min(self._deadline, now + NOW_SECONDS)
        for place in self._workers:
            self._send(place, signal.SIGTERM)

    def reload(self) -> None:
        for place in self._places:
            self._send(place, signal.SIGHUP)

    def tick(self) -> None:
        """Do what is due: start processes, end stuck and late ones. Must be called at least twice a second."""
        self._was_ready = self._was_ready or any(
            self._board.phase(number) is Phase.READY for number in range(len(self._places) - 1)
        )
        if self._deadline is None:
            self._keep_full()
        elif not any(place.pid is not None for place in self._workers):
            # The admin process ends last, so that health and metrics stay readable until the last worker is gone.
            self._send(self._places[-1], signal.SIGKILL if self._is_late else signal.SIGTERM)
        elif self._is_late:
            for place in self._workers:
                self._send(place, signal.SIGKILL)

    @property
    def _workers(self) -> list[_Place]:
        return self._places[:-1]

    @property
    def _is_late(self) -> bool:
        return self._deadline is not None and self._clock() >= self._deadline

    def _keep_full(self) -> None:
        now = self._clock()
        for number, place in enumerate(self._places):
            if place.pid is None:
                if now >= place.due:
                    self._board.count_restart(number)
                    self._fill(number)
            elif now - self._board.heartbeat_ms(number) / 1000 > STUCK_SECONDS:
                self._say("process is stuck", number, place.pid)
                self._send(place, signal.SIGKILL)

    def _fill(self, number: int) -> None:
        place, now = self._places[number], self._clock()
        self._board.set_phase(number, Phase.STARTING)
        place.started = now
        try:
            place.pid = self._processes.start(number)
        except OSError as error:
            self._board.set_phase(number, Phase.EMPTY)
            self._say("process could not be started", number, error.errno or 0)
            self._plan(place)
            return
        self._board.begin(number, place.pid, now_ms=int(now * 1000))

    def _plan(self, place: _Place) -> None:
        now = self._clock()
        if now - place.started >= LONG_LIFE_SECONDS:
            place.short_lives, place.due = 0, now
            return
        place.short_lives += 1
        place.due = now + min(FIRST_WAIT_SECONDS * 2 ** (place.short_lives - 1), LONGEST_WAIT_SECONDS)

    def _send(self, place: _Place, number: int) -> None:
        if place.pid is not None:
            self._processes.send(place.pid, number)


LOGGER = logging.getLogger("vecsieve.workers")
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
TICK_SECONDS = 0.25
UNUSABLE = 2  # as the command line for unusable settings
BROKEN = 70  # EX_SOFTWARE: a child's function raised


@dataclass(slots=True)
class Worker:
    """A child's data about its place. ``metrics_directory``: holds the metric files of all workers. ``parent``: its process id."""

    number: int
    board: Board
    metrics_directory: Path
    parent: int
    _is_orphan: bool = False

    def is_ready(self) -> None:
        self.board.set_phase(self.number, Phase.READY)

    def beat(self) -> None:
        """Report that the loop runs, at least every few seconds. An orphan sends itself SIGTERM."""
        self.board.beat(self.number, time.monotonic_ns() // 1_000_000)
        if os.getppid() != self.parent and not self._is_orphan:
            self._is_orphan = True
            os.kill(os.getpid(), signal.SIGTERM)


Child = Callable[[Worker], int]
"""Runs in a process of its own, and returns its exit code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workers:
    """The functions that ``run_workers`` runs.

    ``worker`` serves ``data_sockets``; it ends within ``drain_seconds`` after SIGTERM, at once after a second one. ``admin`` serves
    ``admin_sockets``; it is stopped after the last worker has ended.
    """

    count: int
    worker: Child
    admin: Child
    data_sockets: tuple[socket.socket, ...]
    admin_sockets: tuple[socket.socket, ...]
    drain_seconds: float


def run_workers(workers: Workers) -> int:
    """Run until SIGTERM or SIGINT; returns the exit code. SIGHUP is forwarded to every process.

    Call it from a process without threads and without a running event loop. Linux only.
    """
    with metrics_directory() as directory:
        board = Board(workers.count + 1)
        before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
        supervisor = Supervisor(
            board,
            _Forks(workers, board, Path(directory)),
            drain_seconds=workers.drain_seconds,
            clock=time.monotonic,
            say=_say,
        )
        collect_seldom()  # applies to every child as well
        try:
            supervisor.start()
            while not supervisor.is_finished:
                _take(supervisor, signal.sigtimedwait(SIGNALS, TICK_SECONDS))
                _reap(supervisor)
                supervisor.tick()
        finally:
            for pid in supervisor.pids:
                _Forks.send(pid, signal.SIGKILL)
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
    return supervisor.exit_code


def _take(supervisor: Supervisor, received: signal.struct_siginfo | None) -> None:
    number = None if received is None else received.si_signo
    if number == signal.SIGHUP:
        supervisor.reload()
    elif number in {signal.SIGTERM, signal.SIGINT}:
        supervisor.stop()


def _reap(supervisor: Supervisor) -> None:
    for pid in supervisor.pids:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            supervisor.exited(pid, os.waitstatus_to_exitcode(status))


def _say(what: str, number: int, detail: int) -> None:
    LOGGER.warning(what, extra={FIELDS: {"place": number, "detail": detail}})


@dataclass(frozen=True, slots=True)
class _Forks:
    """Real processes, by fork."""

    workers: Workers
    board: Board
    directory: Path

    def start(self, place: int) -> int:
        """Fork. Returns in the parent only."""
        _flush()  # otherwise parent and child would both print the buffered output
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._be(Worker(place, self.board, self.directory, parent))
        return pid

    @staticmethod
    def send(pid: int, number: int) -> None:
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    def ended(self, place: int) -> None:
        """Remove the gauges of the ended process."""
        forget_gauges(self.directory, place)

    def stop_accepting(self) -> None:
        for data_socket in self.workers.data_sockets:
            data_socket.close()

    def _be(self, worker: Worker) -> None:
        """Run the child. Never returns, and never unwinds into the frames of the parent."""
        is_admin = worker.number == self.workers.count
        code = BROKEN
        try:
            # Ctrl-C must reach only the parent: a child would count the forwarded signal as the second one.
            os.setpgid(0, 0)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, set(SIGNALS) - {signal.SIGHUP})
            for unneeded in self.workers.data_sockets if is_admin else self.workers.admin_sockets:
                unneeded.close()
            code = (self.workers.admin if is_admin else self.workers.worker)(worker)
        except SettingsError as refused:  # a file that is no longer as it was when the settings were checked
            code = UNUSABLE
            LOGGER.critical("a process cannot start: %s", refused, extra={FIELDS: {"place": worker.number}})
        finally:
            error = sys.exc_info()[1]
            if error is not None:
                LOGGER.critical(
                    "a child process failed", extra={FIELDS: {"place": worker.number, "error": place_of(error)}}
                )
            logging.shutdown()  # writes what a log's thread has queued
            _flush()
            os._exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a closed stream or reader does not prevent the fork
            stream.flush()
