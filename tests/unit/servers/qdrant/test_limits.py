"""Strict mode's rate limits, over time and over both transports."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client import QdrantClient, models
from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
from servers.embedded.fields import RefusalError
from servers.qdrant import catalogue, points, searches
from servers.qdrant.limits import Kind, RateExceededError, Rates

from support.grpc.clients import over_grpc
from support.qdrant.core import Core, full_core
from support.qdrant.embedded import start_embedded_grpc_process
from support.qdrant.refusals import refusal_of


def limited(**limits: Any) -> dict[str, Any]:
    return {"strict_mode_config": {"enabled": True, **limits}}


def test_what_is_spent_comes_back_within_a_minute() -> None:
    rates = Rates(limited(read_rate_limit=30))
    for _ in range(30):
        rates.take("read", 1, at_seconds=5.0)
    with pytest.raises(RateExceededError) as caught:
        rates.take("read", 1, at_seconds=5.5)
    assert caught.value.status == 429
    assert caught.value.retry_after_seconds == 2
    assert caught.value.message == (
        "Rate limiting exceeded: Read rate limit exceeded: "
        "Operation requires 1 tokens but only 0.2 were available. Retry after 2s"
    )
    rates.take("read", 1, at_seconds=7.0)
    rates.take("write", 1_000, at_seconds=7.0)


@pytest.mark.parametrize(
    "settings",
    [{}, {"strict_mode_config": {"read_rate_limit": 1}}, limited(write_rate_limit=1), limited(read_rate_limit=None)],
)
def test_without_a_limit_nothing_is_counted(settings: dict[str, Any]) -> None:
    rates = Rates(settings)
    for _ in range(3):
        rates.take("read", 10, at_seconds=0.0)


def test_what_never_fits_has_no_time_to_wait() -> None:
    with pytest.raises(RateExceededError, match="Write rate limit exceeded, operation requires 6 tokens") as caught:
        Rates(limited(write_rate_limit=5)).take("write", 6, at_seconds=0.0)
    assert caught.value.retry_after_seconds is None


@given(st.integers(1, 50), st.lists(st.tuples(st.integers(0, 60), st.floats(0, 30)), max_size=30))
def test_never_more_goes_through_than_the_limit_and_waiting_as_told_is_enough(
    limit: int, steps: list[tuple[int, float]]
) -> None:
    """Over any time, at most the size plus what came in is spent; asking again after the told wait succeeds."""
    rates, now, spent = Rates(limited(read_rate_limit=limit)), 0.0, 0
    kind: Kind = "read"
    for cost, pause in steps:
        now += pause
        refused = _refusal(rates, kind, cost, now)
        if isinstance(refused, RateExceededError) and refused.retry_after_seconds is not None:
            now += refused.retry_after_seconds + 1e-6
            refused = _refusal(rates, kind, cost, now)
            assert refused is None
        spent += 0 if refused is not None else cost
        assert spent <= limit + now * limit / 60 + 1e-6


def _refusal(rates: Rates, kind: Kind, cost: int, now: float) -> RefusalError | None:
    return refusal_of(lambda: rates.take(kind, cost, at_seconds=now))


def filled(running: Core, **limits: Any) -> None:
    running.call(catalogue.create, {"vectors": {"size": 2, "distance": "Dot"}, **limited(**limits)})


QUERY = {"query": [1, 0], "limit": 1}


@pytest.mark.parametrize(
    ("verb", "body", "cost"),
    [
        (searches.query, QUERY, 1),
        (searches.query_batch, {"searches": [QUERY, QUERY]}, 2),
        (searches.search, {"vector": [1, 0], "limit": 1}, 1),
        (searches.query_groups, {**QUERY, "group_by": "g"}, 1),
        (points.retrieve, {"ids": [1, 2, 3]}, 3),
        (points.scroll, {}, 1),
        (points.count, {}, 1),
    ],
)
def test_each_read_costs_what_it_is(verb: Any, body: dict[str, Any], cost: int) -> None:
    with full_core() as running:
        filled(running, read_rate_limit=cost + 1)
        running.call(verb, body)
        assert running.call(points.count, {}) == {"count": 0}
        with pytest.raises(RefusalError, match="Read rate limit exceeded"):
            running.call(points.count, {})


def one(number: int) -> dict[str, Any]:
    return {"points": [{"id": number, "vector": [1, 0]}]}


def test_a_refused_write_is_not_done_and_new_settings_start_anew() -> None:
    with full_core() as running:
        filled(running, write_rate_limit=1)
        running.call(points.upsert, one(1))
        with pytest.raises(RefusalError, match="Write rate limit exceeded"):
            running.call(points.upsert, one(2))
        assert running.call(points.count, {}) == {"count": 1}
        running.call(catalogue.change, limited(write_rate_limit=2))
        running.call(points.upsert, one(2))
        assert running.call(points.count, {}) == {"count": 2}


def test_the_official_client_is_told_when_to_ask_again_over_both_transports() -> None:
    with start_embedded_grpc_process() as (url, grpc_url):
        rpc, rest = over_grpc(url, grpc_url), QdrantClient(url=url, check_compatibility=False)
        strict = models.StrictModeConfig(enabled=True, read_rate_limit=1)
        vectors = models.VectorParams(size=2, distance=models.Distance.DOT)
        rpc.create_collection("c", vectors, strict_mode_config=strict)
        rpc.count("c")
        for client in (rpc, rest):
            with pytest.raises(ResourceExhaustedResponse) as caught:
                client.count("c")
            assert 1 <= caught.value.retry_after_s <= 60
            client.close()
