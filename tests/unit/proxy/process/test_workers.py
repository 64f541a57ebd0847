"""Real processes on one socket: they share the work, come back when killed, add up, and end together."""

from __future__ import annotations

import errno
import http.client
import json
import os
import shutil
import signal
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.deploy.expositions import Exposed, exposed
from support.process.clocks import ManualClock
from support.process.forked import Forked, forking
from vecsieve.proxy.process.workers import GRACE_SECONDS, STUCK_SECONDS, Supervisor
from vecsieve.proxy.runtime.lifecycle import Board, Phase

# Longer than any machine stalls; shorter than the workers' time to drain.
SECONDS = 60.0
REQUEST = {"backend": "qdrant", "operation": "other", "outcome": "passthrough"}


@dataclass(frozen=True, slots=True)
class Proxy:
    """Running workers."""

    process: Forked
    data: int
    admin: int

    def ask(self, line: str = "hello") -> int:
        """The process id of whichever worker answered; 0 when it ended instead."""
        with socket.create_connection(("127.0.0.1", self.data), timeout=SECONDS) as connection:
            connection.sendall(line.encode() + b"\n")
            try:
                return int(connection.recv(100) or b"0")
            except ConnectionResetError:
                return 0

    def get(self, path: str) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self.admin, timeout=SECONDS)
        try:
            connection.request("GET", path)
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    @property
    def pids(self) -> list[int]:
        return [worker["pid"] for worker in json.loads(self.get("/status")[1])["workers"]]

    @property
    def phases(self) -> list[str]:
        return [worker["state"] for worker in json.loads(self.get("/status")[1])["workers"]]

    def scrape(self) -> Exposed:
        return exposed(self.get("/metrics")[1])


def until(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@contextmanager
def running(*arguments: str) -> Iterator[Proxy]:
    with forking("workers", *arguments) as (process, printed):
        ports = json.loads(printed.readline())
        try:
            yield Proxy(process, ports["data"], ports["admin"])
        finally:
            process.terminate()
            process.wait(SECONDS)


@contextmanager
def ready(*arguments: str) -> Iterator[Proxy]:
    with running(*arguments) as proxy:
        until(lambda: proxy.phases == ["ready", "ready"])
        yield proxy


def metrics_directory(pid: int) -> Path:
    """Where a worker's files are, by what it has mapped."""
    mapped = Path(f"/proc/{pid}/maps").read_text(encoding="utf-8").split()
    return next(Path(path).parent for path in mapped if "vecsieve-metrics-" in path)


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return False
    return state != "Z"


def test_two_workers_share_the_socket_and_their_metrics_add_up() -> None:
    with ready("2") as proxy:
        answered = [proxy.ask()]
        while len(set(answered)) < 2 and len(answered) < 500:
            answered.append(proxy.ask())
        assert set(answered) == set(proxy.pids)
        assert proxy.get("/readyz")[0] == 200
        until(lambda: proxy.scrape().value("vecsieve_requests_total", REQUEST) == len(answered))
        until(lambda: proxy.scrape().label_values("vecsieve_process_resident").get("worker") == {"w0", "w1"})
        assert proxy.scrape().value("vecsieve_in_flight", {"kind": "requests"}) == 0


def test_a_killed_worker_is_replaced_and_its_counters_continue() -> None:
    with ready("2") as proxy:
        for _ in range(10):
            assert proxy.ask()
        before = proxy.pids
        assert proxy.ask("/die") == 0
        until(lambda: proxy.phases == ["ready", "ready"] and proxy.pids != before)
        assert len(set(before) & set(proxy.pids)) == 1, "the other worker was not touched"
        assert proxy.scrape().value("vecsieve_requests_total", REQUEST) == 10
        assert proxy.scrape().value("vecsieve_in_flight", {"kind": "requests"}) == 0, (
            "what was in flight died with its worker"
        )
        assert proxy.ask()


def test_a_killed_admin_process_is_replaced_and_the_workers_do_not_notice() -> None:
    with ready("2") as proxy:
        children = Path(f"/proc/{proxy.process.pid}/task/{proxy.process.pid}/children").read_text(encoding="ascii")
        [admin] = {int(pid) for pid in children.split()} - set(proxy.pids)
        before = proxy.pids
        os.kill(admin, signal.SIGKILL)
        assert proxy.ask() in before
        until(lambda: proxy.get("/livez")[0] == 200)
        assert proxy.pids == before


def test_a_hangup_reaches_every_worker() -> None:
    with ready("2") as proxy:
        proxy.process.send_signal(signal.SIGHUP)
        until(lambda: proxy.scrape().label_values("vecsieve_config_info").get("hash") == {"reloaded0", "reloaded1"})


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_sigterm_ends_everything_soon_and_leaves_nothing(number: signal.Signals) -> None:
    with ready("2") as proxy:
        children = proxy.pids
        directory = metrics_directory(children[0])
        assert directory.is_dir()
        proxy.process.send_signal(number)
        assert proxy.process.wait(SECONDS) == 0
        assert not [pid for pid in children if is_alive(pid)]
        assert not directory.exists()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", proxy.data), timeout=SECONDS)


def test_workers_that_cannot_start_end_with_an_error_instead_of_trying_forever() -> None:
    with running("2", "crash") as proxy:
        assert proxy.process.wait(SECONDS) == 70


def test_workers_end_when_their_parent_is_killed() -> None:
    with ready("2") as proxy:
        children, directory = proxy.pids, metrics_directory(proxy.pids[0])
        proxy.process.kill()
        until(lambda: not [pid for pid in children if is_alive(pid)])
        shutil.rmtree(directory)  # nobody was left to do it


# The supervisor's decisions, on a manual clock with processes that are only numbers.

TERM, HUP, KILL = signal.SIGTERM, signal.SIGHUP, signal.SIGKILL


class Numbers:
    """Processes that are numbers: 100, 101, ... in the order of their start."""

    def __init__(self) -> None:
        self.started: list[int] = []
        self.sent: list[tuple[int, int]] = []
        self.cleaned: list[int] = []
        self.is_accepting = True
        self.is_machine_full = False

    def start(self, place: int) -> int:
        if self.is_machine_full:
            raise OSError(errno.EAGAIN, "no more processes")
        self.started.append(place)
        return 99 + len(self.started)

    def send(self, pid: int, number: int) -> None:
        self.sent.append((pid, number))

    def ended(self, place: int) -> None:
        self.cleaned.append(place)

    def stop_accepting(self) -> None:
        self.is_accepting = False


class Crewed:
    """Two workers (100, 101) and the admin process (102)."""

    def __init__(self, *, ready: bool = True) -> None:
        self.clock = ManualClock(1000.0)
        self.board = Board(3)
        self.processes = Numbers()
        self.stated: list[tuple[str, int, int]] = []
        self.supervisor = Supervisor(
            self.board,
            self.processes,
            drain_seconds=25.0,
            clock=self.clock,
            say=lambda what, place, detail: self.stated.append((what, place, detail)),
        )
        self.supervisor.start()
        if ready:
            for place in range(3):
                self.board.set_phase(place, Phase.READY)
            self.supervisor.tick()

    def live(self, seconds: float) -> None:
        """Pass time half a second at a time, every process beating."""
        for _ in range(int(seconds * 2)):
            self.clock.advance(0.5)
            for place in range(3):
                self.board.beat(place, int(self.clock.now * 1000))
            self.supervisor.tick()


@pytest.fixture
def workers() -> Crewed:
    return Crewed()


def test_every_place_is_filled_at_the_start(workers: Crewed) -> None:
    assert workers.processes.started == [0, 1, 2]
    assert workers.supervisor.pids == [100, 101, 102]
    assert [workers.board.pid(place) for place in range(3)] == [100, 101, 102]
    assert [workers.board.restarts(place) for place in range(3)] == [0, 0, 0]


def test_a_worker_that_dies_after_a_long_life_is_back_at_the_next_tick(workers: Crewed) -> None:
    workers.live(60)
    workers.supervisor.exited(100, -KILL)
    assert (workers.board.phase(0), workers.processes.cleaned) == (Phase.EMPTY, [0])
    workers.supervisor.tick()
    assert workers.processes.started == [0, 1, 2, 0]
    assert (workers.board.phase(0), workers.board.pid(0), workers.board.restarts(0)) == (Phase.STARTING, 103, 1)
    assert workers.stated == [("process ended", 0, -KILL)]
    assert workers.supervisor.exit_code == 0


def test_a_worker_that_keeps_dying_waits_longer_each_time_up_to_half_a_minute(workers: Crewed) -> None:
    waits = []
    for _ in range(9):
        pid = workers.board.pid(0)
        workers.supervisor.exited(pid, 1)
        died = workers.clock.now
        while workers.board.pid(0) == pid:
            workers.live(0.5)
        waits.append(workers.clock.now - died)
    assert waits == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]


def test_a_long_life_forgives_the_short_ones(workers: Crewed) -> None:
    for _ in range(3):
        workers.supervisor.exited(workers.board.pid(0), 1)
        workers.live(5)
    workers.live(20)
    workers.supervisor.exited(workers.board.pid(0), 1)
    workers.supervisor.tick()
    assert workers.board.phase(0) is Phase.STARTING


def test_the_admin_process_is_restarted_like_a_worker(workers: Crewed) -> None:
    workers.live(60)
    workers.supervisor.exited(102, 1)
    workers.supervisor.tick()
    assert workers.processes.started[-1] == 2


def test_a_crew_whose_first_worker_cannot_start_ends_with_its_code() -> None:
    processes = Crewed(ready=False)
    processes.board.set_phase(2, Phase.READY)  # the admin process being up says nothing
    processes.supervisor.tick()
    processes.supervisor.exited(100, 2)
    assert (101, TERM) in processes.processes.sent
    processes.supervisor.exited(101, -TERM)
    processes.supervisor.tick()
    processes.supervisor.exited(102, 0)
    assert (processes.supervisor.is_finished, processes.supervisor.exit_code) == (True, 2)
    assert processes.processes.started == [0, 1, 2]


def test_a_first_worker_killed_by_a_signal_ends_with_code_one() -> None:
    processes = Crewed(ready=False)
    processes.supervisor.exited(100, -signal.SIGSEGV)
    assert processes.supervisor.exit_code == 1


def test_a_worker_that_became_ready_and_died_between_two_ticks_counts_as_ready() -> None:
    processes = Crewed(ready=False)
    processes.board.set_phase(0, Phase.READY)
    processes.supervisor.exited(100, 1)
    assert processes.supervisor.exit_code == 0
    processes.live(1)
    assert processes.processes.started == [0, 1, 2, 0]


def test_stopping_tells_the_workers_and_closes_the_socket_but_leaves_the_admin_process(workers: Crewed) -> None:
    workers.supervisor.stop()
    assert workers.processes.sent == [(100, TERM), (101, TERM)]
    assert workers.board.is_draining
    assert not workers.processes.is_accepting
    workers.supervisor.tick()
    assert workers.processes.sent == [(100, TERM), (101, TERM)]


def test_the_admin_process_is_told_to_end_after_the_last_worker(workers: Crewed) -> None:
    workers.supervisor.stop()
    workers.supervisor.exited(100, 0)
    workers.supervisor.tick()
    assert (102, TERM) not in workers.processes.sent
    workers.supervisor.exited(101, 0)
    workers.supervisor.tick()
    assert workers.processes.sent[-1] == (102, TERM)
    assert not workers.supervisor.is_finished
    workers.supervisor.exited(102, 0)
    assert (workers.supervisor.is_finished, workers.supervisor.exit_code) == (True, 0)


def test_nobody_is_replaced_while_draining(workers: Crewed) -> None:
    workers.supervisor.stop()
    workers.supervisor.exited(100, -KILL)
    workers.live(20)
    assert workers.processes.started == [0, 1, 2]
    assert workers.stated == []


def test_workers_that_do_not_end_in_time_are_killed(workers: Crewed) -> None:
    workers.supervisor.stop()
    workers.live(25.0 + GRACE_SECONDS - 0.5)
    assert (100, KILL) not in workers.processes.sent
    workers.live(0.5)
    assert {(100, KILL), (101, KILL)} <= set(workers.processes.sent)


def test_a_second_stop_goes_on_to_the_workers_and_leaves_them_a_second(workers: Crewed) -> None:
    workers.supervisor.stop()
    workers.live(2)
    workers.supervisor.stop()
    assert workers.processes.sent == [(100, TERM), (101, TERM)] * 2
    workers.live(0.5)
    assert (100, KILL) not in workers.processes.sent
    workers.live(0.5)
    assert (100, KILL) in workers.processes.sent


def test_new_settings_are_asked_of_every_process(workers: Crewed) -> None:
    """Also of the admin process: the status names the settings."""
    workers.supervisor.reload()
    assert workers.processes.sent == [(100, HUP), (101, HUP), (102, HUP)]


def test_a_process_whose_loop_stands_still_for_a_minute_is_killed(workers: Crewed) -> None:
    workers.clock.advance(STUCK_SECONDS)
    for place in (0, 2):
        workers.board.beat(place, int(workers.clock.now * 1000))
    workers.supervisor.tick()
    assert workers.processes.sent == []
    workers.clock.advance(0.5)
    workers.supervisor.tick()
    assert workers.processes.sent == [(101, KILL)]
    assert workers.stated == [("process is stuck", 1, 101)]


def test_an_exit_of_a_stranger_changes_nothing(workers: Crewed) -> None:
    workers.supervisor.exited(4711, 1)
    assert workers.supervisor.pids == [100, 101, 102]


def test_a_machine_without_room_for_a_process_is_asked_again_later(workers: Crewed) -> None:
    workers.live(60)
    workers.processes.is_machine_full = True
    workers.supervisor.exited(100, -KILL)
    workers.supervisor.tick()
    assert workers.stated[-1] == ("process could not be started", 0, errno.EAGAIN)
    assert workers.board.phase(0) is Phase.EMPTY
    workers.processes.is_machine_full = False
    workers.live(0.5)
    assert workers.board.phase(0) is Phase.STARTING


EVENTS = st.sampled_from(["tick", "wait", "stop", "reload", "die0", "die1", "die2", "ready", "full", "room"])


@given(st.lists(EVENTS, max_size=60))
def test_whatever_happens_a_stopped_crew_ends_and_no_place_holds_two(events: list[str]) -> None:
    """Invariant: at most one process a place; after stop, killing whoever is told to end finishes the crew."""
    processes = Crewed(ready=False)
    for event in events:
        match event:
            case "tick":
                processes.supervisor.tick()
            case "wait":
                processes.live(1)
            case "stop":
                processes.supervisor.stop()
            case "reload":
                processes.supervisor.reload()
            case "ready":
                processes.board.set_phase(0, Phase.READY)
            case "full" | "room":
                processes.processes.is_machine_full = event == "full"
            case _:
                processes.supervisor.exited(processes.board.pid(int(event[-1])), 1)
        pids = processes.supervisor.pids
        assert len(pids) == len(set(pids)) <= 3
    processes.supervisor.stop()
    for _ in range(4):
        for pid in processes.supervisor.pids:
            if (pid, TERM) in processes.processes.sent or (pid, KILL) in processes.processes.sent:
                processes.supervisor.exited(pid, -TERM)
        processes.supervisor.tick()
    assert processes.supervisor.is_finished
