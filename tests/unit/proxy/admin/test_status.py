"""The status page tells an operator what runs, and nobody a secret."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.config.policy import PolicySettings
from vecsieve.config.problems import Problem, SettingsError
from vecsieve.config.schema import Settings, UpstreamSettings
from vecsieve.proxy.admin.knowledge import Answer, Question, failed_reload_of
from vecsieve.proxy.admin.status import (
    MOST_PROBLEMS,
    Facts,
    FailedReload,
    Status,
    WorkerStatus,
    read_status,
    settings_hash,
    state_of,
    upstream_address,
    worker_statuses,
)
from vecsieve.proxy.runtime.lifecycle import Board, Phase, State
from vecsieve.proxy.search.context.canary import BOUNDS, in_words
from vecsieve.proxy.telemetry.exposition import process_registry
from vecsieve.proxy.telemetry.labels import BreakerState, CanaryState
from vecsieve.proxy.telemetry.metrics import Metrics

STATUS = Status(
    version="1.2.3",
    state="ready",
    uptime_seconds=12.5,
    backend="qdrant",
    mode="on",
    upstream="qdrant:6333",
    settings_hash="0123456789ab",
    requests_in_flight=3,
    searches_in_flight=1,
    breaker=BreakerState.CLOSED,
    canary="none",
    learned_collections=2,
    index_ports=(8101, 8102),
    workers=(WorkerStatus(index=0, state="ready", pid=7, restarts=1),),
)


def test_a_status_is_one_json_object() -> None:
    assert json.loads(STATUS.as_json()) == {
        "version": "1.2.3",
        "state": "ready",
        "uptime_seconds": 12.5,
        "backend": "qdrant",
        "mode": "on",
        "upstream": "qdrant:6333",
        "settings_hash": "0123456789ab",
        "requests_in_flight": 3,
        "searches_in_flight": 1,
        "breaker": "closed",
        "canary": "none",
        "canary_stopped_since": None,
        "learned_collections": 2,
        "index_ports": [8101, 8102],
        "needs_restart": [],
        "workers": [{"index": 0, "state": "ready", "pid": 7, "restarts": 1}],
        "texts": [],
        "verdict": None,
        "failed_reload": None,
    }


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:6333", "127.0.0.1:6333"),
        ("https://db.example/some/path?api-key=SECRET#SECRET", "db.example"),
        ("http://user:SECRET@db.example:6333", "db.example:6333"),
        ("http://[::1]:6333", "[::1]:6333"),
        ("http://db.example:port", "invalid"),
        ("http://[::1", "invalid"),
        ("no url at all", "invalid"),
        ("", "invalid"),
    ],
)
def test_of_an_upstream_url_only_host_and_port_remain(url: str, address: str) -> None:
    assert upstream_address(url) == address


SECRETS = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ", min_size=8)


@given(SECRETS, SECRETS, SECRETS)
def test_no_user_password_or_query_is_ever_shown(user: str, password: str, query: str) -> None:
    """Invariant: what stands before the @ or behind the port is in no address."""
    assert upstream_address(f"http://{user}:{password}@db:1/{query}?{query}") == "db:1"


def test_the_hash_changes_with_any_setting_and_with_nothing_else() -> None:
    plain = settings_hash(Settings())
    assert re.fullmatch(r"[0-9a-f]{12}", plain)
    assert plain == settings_hash(Settings())
    assert plain != settings_hash(Settings(report_header=False))
    assert plain != settings_hash(Settings(policy=PolicySettings(mode="shadow")))
    assert plain != settings_hash(Settings(upstream=UpstreamSettings(url="http://elsewhere:6333")))


def test_a_password_does_not_enter_the_hash() -> None:
    one, other = (
        Settings(upstream=UpstreamSettings.model_construct(url=f"http://user:{password}@db:6333"))
        for password in ("first", "second")
    )
    assert settings_hash(one) == settings_hash(other)


# A status is read off the metrics and the board, for one process and for several alike.


FACTS = Facts(
    version="1.2", backend="qdrant", mode="shadow", upstream="db:6333", settings_hash="abc", index_ports=(8101,)
)


def test_facts_and_numbers_come_together() -> None:
    registry = process_registry()
    metrics = Metrics(registry, backend="qdrant")
    metrics.in_flight.labels("requests").inc(3)
    metrics.in_flight.labels("searches").inc(2)
    metrics.learned_collections.set(4)
    worker = WorkerStatus(index=0, state="ready", pid=1, restarts=0)
    status = read_status(registry, FACTS, Board(1), state=State.READY, uptime_seconds=1.26, workers=(worker,))
    assert (status.requests_in_flight, status.searches_in_flight, status.learned_collections) == (3, 2, 4)
    assert (status.version, status.backend, status.mode, status.upstream, status.settings_hash) == (
        "1.2",
        "qdrant",
        "shadow",
        "db:6333",
        "abc",
    )
    assert (status.state, status.uptime_seconds, status.workers) == ("ready", 1.3, (worker,))
    assert status.index_ports == (8101,)


@pytest.mark.parametrize("state", CanaryState)
def test_the_canarys_state_is_read_in_words_and_since_when_it_is_stopped(state: CanaryState) -> None:
    """On the board, which every worker shares: the one whose metrics are read may not have looked yet."""
    registry, board = process_registry(), Board(1)
    Metrics(registry, backend="qdrant").canary_is(CanaryState.NONE if state is CanaryState.NONE else CanaryState.ON)
    if state in BOUNDS:
        board.stop_canary([*CanaryState].index(state), now_ms=61_500)
    status = read_status(registry, FACTS, board, state=State.READY, uptime_seconds=0)
    assert status.canary == in_words(state)
    assert status.canary_stopped_since == ("1970-01-01T00:01:01.500Z" if state in BOUNDS else None)


def test_of_several_breakers_the_worst_is_shown() -> None:
    registry = process_registry()
    Metrics(registry, backend="qdrant").breaker_state.labels("open").set(1)  # another worker's is closed still
    assert read_status(registry, FACTS, Board(1), state=State.READY, uptime_seconds=0).breaker is BreakerState.OPEN


def test_nothing_written_yet_reads_as_zero() -> None:
    status = read_status(process_registry(), FACTS, Board(1), state=State.STARTING, uptime_seconds=0)
    assert (status.requests_in_flight, status.breaker) == (0, BreakerState.CLOSED)


def test_the_proxy_is_ready_while_one_worker_is_and_until_it_drains() -> None:
    board = Board(3)
    board.set_phase(2, Phase.READY)
    assert state_of(board) is State.STARTING, "the admin process is no worker"
    board.set_phase(1, Phase.READY)
    assert state_of(board) is State.READY
    board.drain()
    assert state_of(board) is State.DRAINING


def test_every_worker_and_only_workers_are_listed() -> None:
    board = Board(3)
    board.begin(0, 11, now_ms=0)
    board.set_phase(0, Phase.READY)
    board.count_restart(1)
    board.begin(2, 13, now_ms=0)
    assert worker_statuses(board) == (
        WorkerStatus(index=0, state="ready", pid=11, restarts=0),
        WorkerStatus(index=1, state="empty", pid=0, restarts=1),
    )


def test_a_failed_reload_is_shown_since_the_first_one_with_the_problems_of_the_last() -> None:
    error = SettingsError(Problem(f"limits[{number}]", "0", "a number") for number in range(MOST_PROBLEMS + 2))
    first = FailedReload.of(SettingsError([Problem("mode", '"no"', "on")]), None, at=0.0)
    last = FailedReload.of(error, first, at=60.0)
    assert (first.since, first.problems) == ("1970-01-01T00:00:00.000Z", ('mode: wanted on; saw "no"',))
    assert last.since == first.since
    assert last.problems[0] == "limits[0]: wanted a number; saw 0"
    assert last.problems[MOST_PROBLEMS:] == ("and 2 more, which the log has",)


async def test_of_several_processes_the_one_that_failed_is_shown() -> None:
    failed = {"since": "1970-01-01T00:00:00.000Z", "problems": ["tls.certificate: wanted a file"]}

    async def ask(_: Question) -> list[Answer]:
        return [{"rows": []}, {"rows": [{**failed, "since": "1970-01-01T00:00:09.000Z"}]}, {"rows": [failed]}]

    assert await failed_reload_of(ask) == failed
