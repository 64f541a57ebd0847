"""`--workers N` through the command line: one socket, added-up metrics, replaced workers, one end."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support.deploy.expositions import counted
from support.network.http_scripts import Script, in_a_thread
from support.process.stack import command, eventually, exchange
from vecsieve.proxy.search.context.canary import BOUNDS
from vecsieve.proxy.telemetry.labels import CanaryState

RELOADED = "config_last_reload_timestamp_seconds"


class Quick(Script):
    def do_GET(self) -> None:
        self.answer(b"ok")

    def do_POST(self) -> None:
        """A search of a database that is out of order."""
        SEARCHES.append(self.content())
        self.answer(status=500)


SEARCHES: list[bytes] = []  # that have reached the database


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with in_a_thread(Quick) as url:
        yield url


def arguments(database: str) -> tuple[str, ...]:
    return ("serve", "--upstream", database, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--workers", "2")


def until_ready(admin: str) -> dict[str, object]:
    for _ in range(300):
        try:
            status: dict[str, object] = json.loads(exchange(admin, "GET", "/status").body)
        except OSError:
            time.sleep(0.02)
            continue
        workers = status["workers"]
        assert isinstance(workers, list)
        if len(workers) == 2 and all(worker["state"] == "ready" for worker in workers):
            return status
        time.sleep(0.02)
    raise AssertionError("the workers never became ready")


def until_answered(admin: str, count: int) -> float:
    """A request is counted when it ends, which is just after its client has the answer."""
    return eventually(lambda: counted(admin, "requests_total"), lambda seen: seen >= count)


def test_two_workers_answer_on_one_socket_and_their_metrics_add_up(database: str) -> None:
    with command(*arguments(database)) as running:
        urls = running.addresses(2)
        until_ready(urls["admin"])
        for _ in range(40):
            assert exchange(urls["serve"], "GET", "/").body == b"ok"
        assert until_answered(urls["admin"], 40) == 40
        assert exchange(urls["admin"], "GET", "/readyz").status == 200
        assert running.close() == 0


def test_no_two_workers_give_one_id_to_their_requests(database: str) -> None:
    with command(*arguments(database)) as running:
        urls = running.addresses(2)
        until_ready(urls["admin"])
        for _ in range(30):
            exchange(
                urls["serve"], "POST", "/collections/c/points/query", b'{"query": [0.5], "limit": 3}'
            )  # a 500 is logged
        assert until_answered(urls["admin"], 30) == 30
        ids = eventually(
            lambda: re.findall(r'"request_id":"([0-9a-f]{16})"', running.output()), lambda seen: len(seen) == 30
        )
    assert len(set(ids)) == 30


def test_a_killed_worker_is_replaced_and_its_counts_stay(database: str) -> None:
    with command(*arguments(database)) as running:
        urls = running.addresses(2)
        workers = until_ready(urls["admin"])["workers"]
        assert isinstance(workers, list)
        for _ in range(10):
            exchange(urls["serve"], "GET", "/")
        assert until_answered(urls["admin"], 10) == 10
        os.kill(workers[0]["pid"], signal.SIGKILL)
        fresh: Any = eventually(
            lambda: until_ready(urls["admin"])["workers"],
            lambda seen: isinstance(seen, list) and seen[0]["pid"] != workers[0]["pid"],
        )
        assert fresh[0]["restarts"] == 1
        assert fresh[1]["pid"] == workers[1]["pid"], "the other one was left alone"
        for _ in range(10):
            assert exchange(urls["serve"], "GET", "/").body == b"ok"
        assert until_answered(urls["admin"], 20) == 20


def test_one_sigterm_ends_every_process_of_the_crew(database: str) -> None:
    with command(*arguments(database)) as running:
        urls = running.addresses(2)
        workers = until_ready(urls["admin"])["workers"]
        assert isinstance(workers, list)
        assert running.close() == 0
        assert not [worker["pid"] for worker in workers if Path(f"/proc/{worker['pid']}").exists()]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_sighup_while_a_process_starts_ends_none(database: str, workers: str) -> None:
    """The ports are announced before the workers are forked."""
    with command(*arguments(database)[:-1], workers) as running:
        admin = running.addresses(2)["admin"]
        for _ in range(40):
            running.process.send_signal(signal.SIGHUP)
            time.sleep(0.005)
        assert workers == "1" or until_ready(admin)
        assert exchange(admin, "GET", "/readyz").status == 200
        assert "process ended" not in running.output()


def test_sighup_reaches_every_worker_and_the_first_one_writes_it_to_the_log(database: str) -> None:
    with command(*arguments(database)) as running:
        admin = running.addresses(2)["admin"]
        workers = until_ready(admin)["workers"]
        assert isinstance(workers, list)
        before = counted(admin, RELOADED)
        os.kill(workers[0]["pid"], signal.SIGSTOP)
        running.process.send_signal(signal.SIGHUP)
        eventually(lambda: counted(admin, RELOADED), lambda seen: seen > before)
        assert "settings reloaded" not in running.output()
        os.kill(workers[0]["pid"], signal.SIGCONT)
        running.wait_for("settings reloaded")


def test_a_canary_that_one_worker_stops_is_stopped_in_all_until_its_settings_change(
    database: str, tmp_path: Path
) -> None:
    file = tmp_path / "vecsieve.yaml"
    file.write_text("{mode: shadow, canary: {share: 1.0}, shadow: {sample: 0.0}}")

    def search() -> bool:
        """Whether a search of one client was widened."""
        before = len(SEARCHES)
        body = b'{"query": [0.5, 0.25], "limit": 3}'
        answer = exchange(urls["serve"], "POST", "/collections/c/points/query", body)
        assert (answer.status, answer.body) == (500, b""), "the database's own"
        return any(search != body for search in SEARCHES[before:])

    def until(words: str) -> object:
        """Returns since when it is stopped."""
        status: Any = eventually(
            lambda: json.loads(exchange(urls["admin"], "GET", "/status").body),
            lambda seen: seen["canary"].startswith(words),
        )
        since: object = status["canary_stopped_since"]
        return since

    with command(*arguments(database), "--config", str(file)) as running:
        urls = running.addresses(2)
        until_ready(urls["admin"])
        until("on")
        widened = [search() for _ in range(2 * BOUNDS[CanaryState.ERRORS])]  # one of two workers has seen enough
        assert any(widened)
        since = until("back in shadow: ")
        assert since is not None
        assert "canary back in shadow" in running.output()
        assert not [None for _ in range(20) if search()]
        file.touch()
        running.wait_for("settings reloaded")
        assert not [None for _ in range(20) if search()]
        assert until("back in shadow: ") == since
        file.write_text("{mode: shadow, canary: {share: 0.9}, shadow: {sample: 0.0}}")
        assert until("on") is None
