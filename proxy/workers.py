"""`--workers N`: one parent that does nothing but watch, N workers on one listening socket, one admin process.

The parent binds; children are forked and inherit the same socket. One shared socket, not SO_REUSEPORT: closing one of
several resets the connections waiting in its queue, and few long connections hash unevenly. Forked, not spawned: the
parent runs no loop and no thread, so there is nothing a fork could tear, a worker is back within milliseconds, and the
libraries' pages are shared. The admin port has a process of its own because it must answer while any worker is stuck,
and because a parent that serves could no longer be forked from.
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

from vecsieve.proxy.log_lines import FIELDS, place_of
from vecsieve.proxy.memory import collect_seldom
from vecsieve.proxy.supervisor import Supervisor
from vecsieve.proxy.worker_board import Board, Phase
from vecsieve.proxy.worker_metrics import forget_gauges, make_directory, remove_directory

LOGGER = logging.getLogger("vecsieve.workers")
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
TICK_SECONDS = 0.25
BROKEN = 70  # EX_SOFTWARE: a child's function raised


@dataclass(slots=True)
class Worker:
    """What a child knows of its place. ``metrics_directory``: for ``worker_metrics``. ``parent``: its process id."""

    number: int
    board: Board
    metrics_directory: Path
    parent: int
    _is_orphan: bool = False

    def is_ready(self) -> None:
        """Tell the others that it serves."""
        self.board.set_phase(self.number, Phase.READY)

    def beat(self) -> None:
        """Tell the others that its loop runs: at least every few seconds. A worker without its parent tells itself to stop."""
        self.board.beat(self.number, time.monotonic_ns() // 1_000_000)
        if os.getppid() != self.parent and not self._is_orphan:
            self._is_orphan = True
            os.kill(os.getpid(), signal.SIGTERM)


Child = Callable[[Worker], int]
"""Runs in a process of its own, and returns its exit code."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Crew:
    """What ``run_workers`` runs.

    ``worker`` serves ``data_sockets`` and ends itself after SIGTERM within ``drain_seconds``, at once after a second one.
    ``admin`` serves ``admin_sockets`` and shows the board; it is told to end after the last worker has.
    """

    count: int
    worker: Child
    admin: Child
    data_sockets: tuple[socket.socket, ...]
    admin_sockets: tuple[socket.socket, ...]
    drain_seconds: float


def run_workers(crew: Crew) -> int:
    """Run until SIGTERM or SIGINT has ended everything; returns the exit code. SIGHUP goes on to every worker.

    Call it from a process without threads and without a running event loop. Linux only.
    """
    directory = make_directory()
    board = Board(crew.count + 1)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    supervisor = Supervisor(
        board,
        _Forks(crew, board, directory),
        drain_seconds=crew.drain_seconds,
        clock=time.monotonic,
        say=_say,
    )
    collect_seldom()  # for every child as well
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
        remove_directory(directory)
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
    """The real processes."""

    crew: Crew
    board: Board
    directory: Path

    def start(self, place: int) -> int:
        """Fork. Returns in the parent only."""
        _flush()  # what is buffered would be printed by the parent and again by the child
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._be(Worker(place, self.board, self.directory, parent))
        return pid

    @staticmethod
    def send(pid: int, number: int) -> None:
        """Signal a process that may be gone already."""
        with suppress(ProcessLookupError):
            os.kill(pid, number)

    def ended(self, place: int) -> None:
        """Forget what only that process knew."""
        forget_gauges(self.directory, place)

    def stop_accepting(self) -> None:
        """A socket accepts as long as any process holds it."""
        for each in self.crew.data_sockets:
            each.close()

    def _be(self, worker: Worker) -> None:
        """Be the child. Never returns, and never unwinds into the parent's frames."""
        is_admin = worker.number == self.crew.count
        code = BROKEN
        try:
            os.setpgid(
                0, 0
            )  # Ctrl-C reaches the parent alone: a child would take its forwarded signal for a second one
            signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
            for unneeded in self.crew.data_sockets if is_admin else self.crew.admin_sockets:
                unneeded.close()
            code = (self.crew.admin if is_admin else self.crew.worker)(worker)
        finally:
            error = sys.exc_info()[1]
            if error is not None:
                LOGGER.critical("a child broke", extra={FIELDS: {"place": worker.number, "error": place_of(error)}})
            _flush()
            os._exit(code)


def _flush() -> None:
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # a reader who left, or a closed stream: no reason not to fork
            stream.flush()
