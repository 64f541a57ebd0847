"""Measurements beside the answer: sampled evenly, bounded, owned, and without any way to hurt."""

from __future__ import annotations

import asyncio
import weakref

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
from vecsieve.proxy.search.exchange import Measure, Shadow
from vecsieve.proxy.search.fetch import Attempt
from vecsieve.proxy.telemetry.metrics import Metrics
from vecsieve.proxy.telemetry.reports import Report
from vecsieve.proxy.telemetry.requests import RequestRecorder


def attempt() -> Attempt:
    made = toys().service.prepare(ToyExchange())
    assert isinstance(made, Attempt)
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


@pytest.mark.parametrize(
    ("sample", "due"),
    [(1.0, [1] * 8), (0.5, [1, 0] * 4), (0.25, [1, 0, 0, 0] * 2), (0.05, [1, *[0] * 19] * 5), (0.0, [0] * 8)],
)
def test_the_first_search_is_measured_and_every_so_manieth_after_it(sample: float, due: list[int]) -> None:
    watched = shadow(CollectorRegistry())
    assert [watched.is_due(sample) for _ in due] == [bool(each) for each in due]


@given(sample=st.floats(0.001, 1.0), searches=st.integers(1, 500))
def test_the_share_that_is_measured_is_the_sample(sample: float, searches: int) -> None:
    """Never more than one search off the share."""
    watched = shadow(CollectorRegistry())
    due = sum(watched.is_due(sample) for _ in range(searches))
    assert abs(due - sample * searches) <= 1


async def test_no_more_than_the_limit_are_measured_at_once_and_one_is_made_up_for() -> None:
    go_on = asyncio.Event()

    async def waits() -> None:
        await go_on.wait()

    watched, found = shadow(CollectorRegistry(), limit=2), []
    for _ in range(4):
        found.append(watched.is_due(1.0))
        if found[-1]:
            watched.start(waits, attempt())
    assert (found, watched.running) == ([True, True, False, False], 2)
    go_on.set()
    await settle()
    assert [watched.is_due(0.25) for _ in range(4)] == [True, False, False, False]
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
        watched.start(measure, attempt())
    assert watched.running == 3
    await settle()
    assert (watched.running, most, failed) == (0, 1, [])


@pytest.mark.parametrize(("size", "waits"), [(LARGE_MESSAGE_BYTES - 1, False), (LARGE_MESSAGE_BYTES, True)])
async def test_behind_a_large_reply_the_next_waits_until_its_memory_is_given_back(
    size: int, waits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing of the large one is held meanwhile."""
    monkeypatch.setattr("vecsieve.proxy.search.exchange.REST_SECONDS", 0.05)
    started: list[bool] = []

    def follow() -> weakref.ref[Measure]:
        made = attempt()

        async def measure() -> None:
            made.fetched_bytes = size
            started.append(True)

        watched.start(measure, made)
        return weakref.ref(measure)

    watched = shadow(CollectorRegistry())
    first = follow()
    follow()
    await settle()
    assert (len(started), first()) == (1 if waits else 2, None)
    await asyncio.sleep(0.2)
    assert (len(started), watched.running) == (2, 0)


async def test_a_measurement_starts_when_the_answer_is_on_its_way_and_counts_when_it_ends() -> None:
    registry = CollectorRegistry()
    watched = shadow(registry)
    watched.start(measuring(REPORT), attempt())
    assert measured(registry) == 0
    await settle()
    assert measured(registry) == 1


@pytest.mark.parametrize("outcome", [None, ValueError("secret")])
async def test_one_that_came_to_nothing_or_broke_is_not_counted(
    outcome: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    registry = CollectorRegistry()
    watched = shadow(registry)
    watched.start(measuring(outcome), attempt())
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
    watched.start(endless, attempt())
    await settle()
    await watched.close()
    assert ended == [True]
