"""Measurements beside the answer: sampled evenly, bounded, owned, and without any way to hurt."""

from __future__ import annotations

import asyncio

import pytest
from prometheus_client import CollectorRegistry

from support.clocks import ManualClock
from support.manual_time import settle
from support.reports import REPORT
from support.toy_exchange import ToyExchange, toys
from vecsieve.proxy.exposition import value
from vecsieve.proxy.metrics import Metrics
from vecsieve.proxy.report import Report
from vecsieve.proxy.search import Attempt
from vecsieve.proxy.shadow import Measure, Shadow
from vecsieve.proxy.tally import Tally


def attempt() -> Attempt:
    made = toys().ladder.prepare(ToyExchange())
    assert isinstance(made, Attempt)
    return made


def shadow(registry: CollectorRegistry, *, limit: int = 4) -> Shadow:
    tally = Tally(Metrics(registry), log=lambda _: None, clock=ManualClock())
    return Shadow(tally=tally, limit=limit)


def measuring(report: Report | Exception | None) -> Measure:
    async def measure() -> Report | None:
        if isinstance(report, Exception):
            raise report
        return report

    return measure


def measured(registry: CollectorRegistry) -> float:
    return value(registry, "searches_total", backend="qdrant", outcome=REPORT.outcome.value)


@pytest.mark.parametrize(
    ("sample", "followed"),
    [(1.0, [True] * 8), (0.5, [False, True] * 4), (0.25, [False, False, False, True] * 2), (0.0, [False] * 8)],
)
async def test_the_sample_is_taken_evenly(sample: float, followed: list[bool]) -> None:
    watched = shadow(CollectorRegistry())
    found = []
    for _ in followed:
        found.append(watched.follow(measuring(None), attempt(), sample=sample))
        await settle()
    assert found == followed


async def test_no_more_than_the_limit_are_measured_at_once_and_the_next_is_after_one_ends() -> None:
    go_on = asyncio.Event()

    async def waits() -> None:
        await go_on.wait()

    watched = shadow(CollectorRegistry(), limit=2)
    assert [watched.follow(waits, attempt(), sample=1.0) for _ in range(4)] == [True, True, False, False]
    go_on.set()
    await settle()
    owed = [watched.follow(waits, attempt(), sample=0.0) for _ in range(2)]
    assert owed == [True, False], "of those that found no room one is made up for"
    await watched.close()


async def test_a_measurement_starts_when_the_answer_is_on_its_way_and_counts_when_it_ends() -> None:
    registry = CollectorRegistry()
    watched = shadow(registry)
    assert watched.follow(measuring(REPORT), attempt(), sample=1.0)
    assert measured(registry) == 0
    await settle()
    assert measured(registry) == 1


@pytest.mark.parametrize("outcome", [None, ValueError("secret")])
async def test_one_that_came_to_nothing_or_broke_is_not_counted(
    outcome: Exception | None, caplog: pytest.LogCaptureFixture
) -> None:
    registry = CollectorRegistry()
    watched = shadow(registry)
    watched.follow(measuring(outcome), attempt(), sample=1.0)
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
    watched.follow(endless, attempt(), sample=1.0)
    await settle()
    await watched.close()
    assert ended == [True]
