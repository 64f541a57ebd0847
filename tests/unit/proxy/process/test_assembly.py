"""What a process holds is shown as it is now, what it opened as a counter."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest
from prometheus_client import CollectorRegistry
from unit.proxy.admin.test_verdicts import ROWS

from support.deploy.expositions import value
from support.network.faulty_upstream import FaultyUpstream, answering, raw_exchange, reply
from support.process.clocks import ManualClock
from support.process.running import UNHURRIED_ATTEMPT_SECONDS, running
from support.qdrant.scripted_grpc import in_front, query
from vecsieve.config.schema import CanarySettings, Settings
from vecsieve.proxy.http.pools import Census
from vecsieve.proxy.process.levels import Levels
from vecsieve.proxy.runtime.lifecycle import Board
from vecsieve.proxy.search.context.canary import Canary, Members
from vecsieve.proxy.search.limits import Admission, BytesInFlight
from vecsieve.proxy.telemetry.labels import CanaryState, Origin
from vecsieve.proxy.telemetry.log import Ended
from vecsieve.proxy.telemetry.metrics import Metrics
from vecsieve.proxy.telemetry.requests import RequestRecorder
from vecsieve.proxy.writes.events import Feed

ENDED = Ended(
    method="GET",
    status=200,
    origin=Origin.UPSTREAM,
    request_bytes=0,
    response_bytes=0,
    is_relayed=True,
    is_loopback=None,
)
GET = b"GET /collections HTTP/1.1\r\nHost: db\r\nConnection: close\r\n\r\n"


class Doorkeeper:
    """Of an admission the number inside."""

    in_flight = 0


class Holders:
    """Levels whose holders are told what to hold."""

    def __init__(self) -> None:
        self.registry, self.census, self.shared = CollectorRegistry(), Census(0, 0, 0, 0), 0
        metrics = Metrics(self.registry, backend="qdrant")
        self.recorder = RequestRecorder(metrics, log=lambda _: None, clock=ManualClock(0.0))
        self.gate = Doorkeeper()
        admission = cast(Admission, self.gate)
        self.feed = Feed(now=lambda: 0.0, dropped=lambda _sink, _count: None)
        self.board = Board(2)
        self.canary = Canary(self.board, metrics, Members.of(CanarySettings(share=0.5)), now=lambda: 0.0)
        self.bytes_in_flight, self.clients = BytesInFlight(1 << 20, reply_bytes=1 << 20, clock=ManualClock()), 0
        self.levels = Levels(
            metrics,
            self.recorder,
            admission,
            self.bytes_in_flight,
            lambda: self.clients,
            lambda: self.census,
            lambda: self.shared,
            self.feed,
            self.canary,
        )

    def reading(self, name: str, **labels: str) -> float:
        self.levels.look()
        return value(self.registry, name, **labels)


@pytest.fixture
def holders() -> Holders:
    return Holders()


def test_a_canary_that_another_worker_stopped_is_shown_as_stopped(holders: Holders) -> None:
    assert holders.reading("canary_state", state="on") == 1
    holders.board.stop_canary(list(CanaryState).index(CanaryState.ERRORS), now_ms=0)
    assert holders.canary.is_stopped
    assert [holders.reading("canary_state", state=state) for state in ("on", "errors")] == [0, 1]


def test_connections_to_the_database_are_shown_by_what_they_do(holders: Holders) -> None:
    holders.census, holders.shared = Census(busy=3, idle=2, waiting=1, opened=9), 4
    connections = {state: holders.reading("upstream_connections", state=state) for state in ("busy", "idle", "shared")}
    assert connections == {"busy": 3, "idle": 2, "shared": 4}
    assert holders.reading("requests_waiting", wait="connection") == 1
    holders.census, holders.shared = Census(0, 0, 0, 9), 0
    assert [holders.reading("upstream_connections", state=state) for state in connections] == [0, 0, 0]


def test_opened_connections_are_counted_once_however_often_one_looks(holders: Holders) -> None:
    holders.census = Census(busy=0, idle=0, waiting=0, opened=2)
    assert [holders.reading("upstream_connections_opened_total") for _ in range(3)] == [2, 2, 2]
    holders.census = Census(busy=0, idle=0, waiting=0, opened=5)
    assert holders.reading("upstream_connections_opened_total") == 5


def test_what_is_in_flight_is_shown_as_it_is_now(holders: Holders) -> None:
    records = [holders.recorder.begin() for _ in range(3)]
    holders.recorder.searches_in_flight, holders.bytes_in_flight.total, holders.clients = 2, 700, 5
    assert [holders.reading("in_flight", kind=kind) for kind in ("requests", "searches")] == [3, 2]
    assert holders.reading("selection_bytes_in_flight") == 700
    assert holders.reading("connections", side="client") == 5
    for record in records:
        holders.recorder.end(record, ENDED)
    assert holders.reading("in_flight", kind="requests") == 0


def test_who_has_come_and_is_not_inside_waits(holders: Holders) -> None:
    records = [holders.recorder.begin() for _ in range(3)]
    holders.gate.in_flight = 1
    assert holders.reading("requests_waiting", wait="admission") == 2
    holders.gate.in_flight = 3
    assert holders.reading("requests_waiting", wait="admission") == 0
    for record in records:
        holders.recorder.end(record, ENDED)
    assert holders.reading("requests_waiting", wait="admission") == 0, "the last ones are still inside for a moment"


async def test_a_data_plane_over_http_shows_its_pool_and_its_limit() -> None:
    async with FaultyUpstream(answering(reply(b"[]"))) as database, running(database.url) as proxy:
        assert proxy.count("connections_limit") > 0
        await raw_exchange(proxy.port, GET)
        await asyncio.sleep(0)
        proxy.process.levels.look()
        kept = {state: proxy.count("upstream_connections", state=state) for state in ("busy", "idle", "shared")}
        assert kept == {"busy": 0, "idle": 1, "shared": 0}
        assert proxy.count("upstream_connections_opened_total") == 1


async def test_a_data_plane_over_grpc_shows_its_shared_connections() -> None:
    async with in_front() as (_, proxy):
        await query(proxy.port)
        proxy.process.levels.look()
        assert proxy.count("upstream_connections", state="shared") == 1
        assert proxy.count("upstream_connections", state="busy") == 0


def test_pools_that_were_closed_hold_nothing_and_take_nothing_back(holders: Holders) -> None:
    """A look between the end of the pools and that of the process: it ended with status 1 where a collector was silent."""
    holders.census = Census(1, 2, 0, 3)
    holders.levels.look()
    holders.census = Census(0, 0, 0, 0)
    assert holders.reading("upstream_connections_opened_total") == 3
    assert holders.reading("upstream_connections", state="idle") == 0


def test_readers_of_the_feed_are_shown_while_they_read(holders: Holders) -> None:
    reader = holders.feed.reader()
    assert reader is not None
    assert holders.reading("event_readers") == 1
    holders.feed.leave(reader)
    assert holders.reading("event_readers") == 0


async def test_a_reload_of_what_is_measured_begins_the_verdict_again_and_no_other() -> None:
    """A larger canary follows a good verdict, and does not take it away."""
    async with FaultyUpstream(answering(reply())) as upstream, running(upstream.url, mode="shadow") as proxy:
        made = {"listen": "127.0.0.1:0", "upstream": {"url": upstream.url}, "mode": "shadow"}
        limits = {"attempt_timeout_seconds": UNHURRIED_ATTEMPT_SECONDS}
        proxy.process.shadow.rows.extend(ROWS)
        for other in ({}, {"canary": {"share": 0.1}}, {"canary": {"share": 0.5}}, {"log": {"level": "warning"}}):
            proxy.process.reload(Settings.model_validate({**made, "limits": limits, **other}))
            assert [*proxy.process.shadow.rows] == [*ROWS], other
        proxy.process.reload(Settings.model_validate({**made, "limits": limits, "shadow": {"sample": 0.5}}))
        assert not proxy.process.shadow.rows
