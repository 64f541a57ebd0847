"""Measurements beside the answer: sampled evenly, bounded, owned, and without any way to hurt."""

from __future__ import annotations

import asyncio
import weakref
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from support.backends.toy_exchange import ToyExchange, toys
from support.deploy.expositions import value
from support.jobs.reports import REPORT
from support.process.clocks import ManualClock
from support.process.manual_time import settle
from vecsieve.proxy.runtime.memory import LARGE_MESSAGE_BYTES
from vecsieve.proxy.search import exchange
from vecsieve.proxy.search.exchange import COLLECTIONS, FIRST, REST_SECONDS, WARM_AFTER, Measure, Shadow
from vecsieve.proxy.search.pools.source import Source
from vecsieve.proxy.telemetry.metrics import Metrics
from vecsieve.proxy.telemetry.reports import Report
from vecsieve.proxy.telemetry.requests import RequestRecorder
from vecsieve.proxy.telemetry.verdict import Plain

PLAIN = Plain(0.002, 700)


def attempt() -> Source:
    made = toys().service.prepare(ToyExchange())
    assert isinstance(made, Source)
    return made


def shadow(registry: CollectorRegistry, *, limit: int = 4) -> Shadow:
    recorder = RequestRecorder(Metrics(registry, backend="qdrant"), log=lambda _: None, clock=ManualClock())
    return Shadow(recorder=recorder, limit=limit)


def measuring(report: Report | Exception | None) -> Measure:
    async def measure() -> Report | None:
        if isinstance(report, Exception):
            raise report
        return report

    return measure


def measured(registry: CollectorRegistry) -> float:
    return value(registry, "searches_total", backend="qdrant", outcome=REPORT.outcome.value)


def start(watched: Shadow, measure: Measure, collection: str = "c") -> None:
    made = attempt()
    made.planned = replace(made.planned, collection=collection)
    watched.start(measure, made, PLAIN)


async def past_the_first(watched: Shadow) -> None:
    """The first searches of collection "c" were measured."""
    for _ in range(FIRST):
        assert watched.is_due(0.01, "c")
        start(watched, measuring(None))
        await settle()


@pytest.mark.parametrize(
    ("sample", "due"),
    [(1.0, [1] * 8), (0.5, [1, 0] * 4), (0.25, [1, 0, 0, 0] * 2), (0.05, [1, *[0] * 19] * 5)],
)
async def test_the_first_searches_of_a_collection_are_measured_and_then_every_so_manieth(
    sample: float, due: list[int]
) -> None:
    watched = shadow(CollectorRegistry())
    await past_the_first(watched)
    assert [watched.is_due(sample, "c") for _ in due] == [bool(expected) for expected in due]
    assert watched.is_due(sample, "another")


def test_a_sample_of_nothing_measures_nothing() -> None:
    assert not shadow(CollectorRegistry()).is_due(0.0, "c")


@given(sample=st.floats(0.001, 1.0), searches=st.integers(1, 500))
def test_the_share_that_is_measured_is_the_sample(sample: float, searches: int) -> None:
    """Never more than one search off the share, also of collections beyond those whose first searches are measured."""
    watched = shadow(CollectorRegistry())
    for number in range(COLLECTIONS):
        assert watched.is_due(sample, str(number))
    due = sum(watched.is_due(sample, f"further {number}") for number in range(searches))
    assert abs(due - sample * searches) <= 1


async def test_caches_are_warm_when_the_searches_before_were_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "FIRST", WARM_AFTER + 2)
    watched = shadow(CollectorRegistry())
    for _ in range(WARM_AFTER + 2):
        start(watched, measuring(REPORT))
        await settle()
    assert [watched.is_due(0.5, "c") for _ in range(2)] == [True, False]
    start(watched, measuring(REPORT))
    await settle()
    assert [row.is_warm for row in watched.rows] == [*[False] * WARM_AFTER, True, True, False]


async def test_a_measurement_has_the_plain_search_beside_it_and_one_that_failed_its_reason() -> None:
    watched = shadow(CollectorRegistry())
    start(watched, measuring(REPORT), "docs")
    start(watched, measuring(ValueError()), "docs")
    await settle()
    measured, failed = watched.rows
    assert (measured.collection, measured.plain_ms, measured.plain_bytes) == ("docs", 2.0, 700)
    assert measured.added_ms == pytest.approx(REPORT.total_seconds * 1000 - 2.0)
    assert (failed.failed, failed.results) == ("internal", 0)


async def test_other_settings_begin_again() -> None:
    watched = shadow(CollectorRegistry())
    await past_the_first(watched)
    watched.forget()
    assert (len(watched.rows), [watched.is_due(0.01, "c") for _ in range(3)]) == (0, [True] * 3)


async def test_no_more_than_the_limit_are_measured_at_once_and_one_is_made_up_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(exchange, "FIRST", 0)
    go_on = asyncio.Event()

    async def waits() -> None:
        await go_on.wait()

    watched, due = shadow(CollectorRegistry(), limit=2), []
    for _ in range(4):
        due.append(watched.is_due(1.0, "c"))
        if due[-1]:
            start(watched, waits)
    assert (due, watched.running) == ([True, True, False, False], 2)
    go_on.set()
    await settle()
    assert [watched.is_due(0.25, "c") for _ in range(4)] == [True, False, False, False]
    await watched.close()


async def test_measurements_run_one_after_another_whatever_becomes_of_one() -> None:
    """Each holds a reply in memory."""
    under_way, most, failed = 0, 0, [RuntimeError(), None, None]

    async def measure() -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        if (error := failed.pop(0)) is not None:
            raise error

    watched = shadow(CollectorRegistry())
    for _ in range(3):
        start(watched, measure)
    assert watched.running == 3
    await settle()
    assert (watched.running, most, failed) == (0, 1, [])


@pytest.mark.parametrize(("size", "waits"), [(LARGE_MESSAGE_BYTES - 1, False), (LARGE_MESSAGE_BYTES, True)])
async def test_behind_a_large_reply_the_next_waits_until_its_memory_is_given_back(
    size: int, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing of the large one is held meanwhile."""
    started: list[bool] = []
    rested, sleep = asyncio.Event(), asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda pause: rested.wait() if pause == REST_SECONDS else sleep(pause))

    def follow() -> weakref.ref[Measure]:
        made = attempt()

        async def measure() -> None:
            made.fetched_bytes = size
            started.append(True)

        watched.start(measure, made, PLAIN)
        return weakref.ref(measure)

    watched = shadow(CollectorRegistry())
    first = follow()
    follow()
    await settle()
    assert (len(started), first()) == (1 if waits else 2, None)
    rested.set()
    await settle()
    assert (len(started), watched.running) == (2, 0)


async def test_a_measurement_starts_when_the_answer_is_on_its_way_and_counts_when_it_ends() -> None:
    registry = CollectorRegistry()
    watched = shadow(registry)
    start(watched, measuring(REPORT))
    assert measured(registry) == 0
    await settle()
    assert measured(registry) == 1


@pytest.mark.parametrize("outcome", [None, ValueError("secret")])
async def test_one_that_came_to_nothing_or_broke_is_not_counted(
    outcome: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    registry = CollectorRegistry()
    watched = shadow(registry)
    start(watched, measuring(outcome))
    await settle()
    assert measured(registry) == 0
    assert "secret" not in caplog.text
    assert ("ValueError" in caplog.text) is (outcome is not None)


async def test_closing_ends_what_is_under_way() -> None:
    ended = []

    async def endless() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(True)

    watched = shadow(CollectorRegistry())
    start(watched, endless)
    await settle()
    await watched.close()
    assert ended == [True]
