"""Statistics of the write gate: sums of counters, and a query that anyone may write."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from vecsieve.proxy.api.points import Points, Statistics
from vecsieve.proxy.api.problems import ProblemError
from vecsieve.proxy.telemetry.labels import CopiesResult, PointResult, WriteTier
from vecsieve.proxy.telemetry.metrics import Metrics


def statistics_of(registry: CollectorRegistry, query: bytes = b"") -> dict[str, Any]:
    content: dict[str, Any] = json.loads(asyncio.run(Statistics(registry, None).answer(query, None)))
    return content


def test_statistics_are_the_counters_of_the_gate() -> None:
    registry = CollectorRegistry()
    metrics = Metrics(registry, backend="qdrant")
    assert set(statistics_of(registry).values()) == {0, None}
    for count, tier in enumerate(WriteTier, 1):
        metrics.write_points_total.labels(tier).inc(count)
    metrics.write_copies_total.inc(5)
    metrics.write_points_settled_total.labels(PointResult.ADDED).inc(7)
    metrics.write_points_settled_total.labels(PointResult.LEFT_OUT).inc(8)
    metrics.write_points_settled_total.labels(PointResult.MERGED).inc(9)
    metrics.write_points_settled_total.labels(PointResult.REMOVED).inc(10)
    metrics.writes_with_copies_total.labels(CopiesResult.REJECTED).inc(11)
    metrics.write_wait_seconds.observe(0.25)
    metrics.write_wait_seconds.observe(0.75)
    assert statistics_of(registry) == {
        "totalEntries": None,
        "totalChecks": 10,
        "exact": 1,
        "semantic": 2,
        "related": 3,
        "unique": 4,
        "duplicates": 5,
        "added": 7,
        "skipped": 8,
        "merged": 9,
        "evicted": 10,
        "rejectedWrites": 11,
        "durationMs": 500.0,
    }


def test_a_backend_without_a_gate_has_none_to_tell() -> None:
    registry = CollectorRegistry()
    Metrics(registry, backend="weaviate")
    assert statistics_of(registry)["totalChecks"] == 0


class PointCounts:
    """Points of which each collection has one; ``names``: that were asked for."""

    def __init__(self) -> None:
        self.names: list[str] = []

    async def count(self, collection: str, _key: str | None) -> int:
        self.names.append(collection)
        return 1


@pytest.mark.parametrize("name", ["", ".", "..", "%2E%2e"])
def test_a_name_that_would_be_another_path_is_not_asked_for(name: str) -> None:
    """Servers resolve segments of dots differently."""
    points = PointCounts()
    registry = CollectorRegistry()
    Metrics(registry, backend="qdrant")
    statistics = Statistics(registry, cast(Points, points))
    with pytest.raises(ProblemError):
        asyncio.run(statistics.answer(b"collection=" + name.encode(), None))
    assert points.names == []
    asyncio.run(statistics.answer(b"collection=..a", None))
    assert points.names == ["..a"]


@given(query=st.binary(max_size=40) | st.sampled_from([b"collection=", b"collection=a&collection=b", b"%ff=%"]))
def test_any_query_is_answered_or_a_problem(query: bytes) -> None:
    """Invariant: an answer or a ProblemError, nothing else."""
    registry = CollectorRegistry()
    Metrics(registry, backend="qdrant")
    with suppress(ProblemError):
        assert statistics_of(registry, query)["totalChecks"] == 0


@pytest.mark.parametrize("query", [b"collection=c", b"other=1"])
def test_a_query_that_cannot_be_answered_is_a_problem(query: bytes) -> None:
    with pytest.raises(ProblemError):
        statistics_of(CollectorRegistry(), query)
