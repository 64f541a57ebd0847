"""Which process to start, signal or kill, and when: the decisions of `--workers N`, without a process in sight.

Places 0 to count - 1 are workers, the last one is the admin process. A place whose process ends is filled again, at
once after a long life, later and later after short ones. A first worker that never became ready ends everything: the
fault is in the settings or the machine, and a supervisor further up should see it.
"""

from __future__ import annotations

import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from vecsieve.proxy.worker_board import Board, Phase

LONG_LIFE_SECONDS = 10.0
FIRST_WAIT_SECONDS = 0.5
LONGEST_WAIT_SECONDS = 30.0
STUCK_SECONDS = 60.0  # as a liveness probe would: ten seconds' period, six failures
NOW_SECONDS = 1.0  # what a second signal leaves
GRACE_SECONDS = 2.0  # for a worker to end after its own drain time is over


class Processes(Protocol):
    """What the supervisor does to the world."""

    def start(self, place: int) -> int:
        """Start the place's process; returns its id. Raises OSError when the machine has none to give."""
        ...

    def send(self, pid: int, number: int) -> None:
        """Signal a process that may be gone already."""
        ...

    def ended(self, place: int) -> None:
        """Clean up after a place's process, before the next one starts."""
        ...

    def stop_accepting(self) -> None:
        """Close the parent's own copy of the data sockets: no new worker will need them."""
        ...


@dataclass(slots=True)
class _Place:
    """One place. ``pid`` is None while nobody is in it, and then ``due`` is when the next one starts."""

    pid: int | None = None
    started: float = 0.0
    due: float = 0.0
    short_lives: int = 0


class Supervisor:
    """Decides. ``clock``: monotonic seconds. ``drain_seconds``: how long workers may take to end after SIGTERM."""

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
        """Whether everything was told to stop and has ended."""
        return self._deadline is not None and all(place.pid is None for place in self._places)

    @property
    def pids(self) -> list[int]:
        """The processes that have not ended."""
        return [place.pid for place in self._places if place.pid is not None]

    def start(self) -> None:
        """Fill every place."""
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
        """Drain; told a second time, end within a second."""
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
        """Ask every worker for new settings."""
        for place in self._workers:
            self._send(place, signal.SIGHUP)

    def tick(self) -> None:
        """Do what is due: start the next process of a place, end stuck ones, end late ones. At least twice a second."""
        self._was_ready = self._was_ready or any(
            self._board.phase(number) is Phase.READY for number in range(len(self._places) - 1)
        )
        if self._deadline is None:
            self._keep_full()
        elif not any(place.pid is not None for place in self._workers):
            # Last, so that health and metrics can be read until the last worker is gone.
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
