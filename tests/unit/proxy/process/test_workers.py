"""Real processes on one socket: they share the work, come back when killed, add up, and end together."""

from __future__ import annotations

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

from support.deploy.expositions import Exposed, exposed
from support.process.forked import Forked, forking

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


def until(is_so: Callable[[], bool], *, seconds: float = SECONDS) -> None:
    deadline = time.monotonic() + seconds
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
