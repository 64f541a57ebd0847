from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import pytest
from prometheus_client import CollectorRegistry

from support.backends.toy_backend import OPERATION, ToyDialect
from support.backends.toy_exchange import grant, toys
from support.deploy.expositions import value
from support.process.clocks import ManualClock
from vecsieve.adapters.contract import Lookup, Question
from vecsieve.proxy.search.budgets import QUIET_SECONDS, ReadBudget
from vecsieve.proxy.search.errors import LookupFailedError, LostReplyError, RefusedReplyError
from vecsieve.proxy.search.exchange import VectorFetcher
from vecsieve.proxy.search.governor import Grant
from vecsieve.proxy.search.limits import CONSECUTIVE, Breaker
from vecsieve.proxy.telemetry.labels import BreakerState, FailOpen, VectorFetchOutcome
from vecsieve.proxy.telemetry.metrics import Metrics

LOOKUP = Lookup(method="GET", target="/vectors/fetch?ids=a", ids=("a",))
REFUSED = RefusedReplyError(403, b"quota", is_server_error=False, may_be_size=False)


class Transport:
    """Looks up; each answer takes two seconds of the clock. ``seconds``: what each lookup was given."""

    operation = OPERATION
    plain = b""
    client_timeout_seconds = None

    def __init__(self, clock: ManualClock, answer: bytes | BaseException = b"body") -> None:
        self.clock = clock
        self.answer = answer
        self.seconds: list[float] = []

    async def ask(self, question: Question, *, seconds: float) -> bytes:
        assert question == Question(method=LOOKUP.method, target=LOOKUP.target)
        self.seconds.append(seconds)
        self.clock.advance(2.0)
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def vector_fetcher(clock: ManualClock, registry: CollectorRegistry) -> VectorFetcher:
    metrics = Metrics(registry, backend="pinecone")
    reads = ReadBudget(0.1, metrics=metrics, clock=clock)
    return VectorFetcher(Breaker(clock, jitter=lambda _: 0.0), reads, metrics, clock)


def timed(registry: CollectorRegistry) -> float:
    return value(registry, "upstream_request_duration_seconds_sum", backend="pinecone", attempt="lookup")


def granted(vector_fetcher: VectorFetcher, seconds: float = 5.0) -> Grant:
    """Of a search with so much time left."""
    governor = replace(toys().services.governor, metrics=vector_fetcher.metrics)
    return grant(governor, deadline=vector_fetcher.clock() + seconds)


async def failure(vector_fetcher: VectorFetcher, transport: Transport, met: Grant) -> VectorFetchOutcome:
    look = partial(vector_fetcher.send, transport, met, ToyDialect())
    with pytest.raises(LookupFailedError) as failed:
        await look(LOOKUP)
    return failed.value.outcome


async def test_a_lookup_gets_what_its_search_has_left_and_is_timed_and_counted(
    vector_fetcher: VectorFetcher, clock: ManualClock, registry: CollectorRegistry
) -> None:
    transport, met = Transport(clock), granted(vector_fetcher)
    look = partial(vector_fetcher.send, transport, met, ToyDialect())
    assert [await look(LOOKUP), await look(LOOKUP)] == [b"body", b"body"]
    assert transport.seconds == [5.0, 3.0]
    assert met.received_bytes == 8
    assert timed(registry) == 4.0
    assert value(registry, "upstream_response_bytes_total", backend="pinecone") == 8


async def test_when_no_time_is_left_nothing_is_sent(vector_fetcher: VectorFetcher, clock: ManualClock) -> None:
    transport = Transport(clock)
    assert await failure(vector_fetcher, transport, granted(vector_fetcher, 0.0)) is VectorFetchOutcome.TIMEOUT
    assert transport.seconds == []


@pytest.mark.parametrize(
    ("ended", "looked", "received_bytes"),
    [
        (REFUSED, VectorFetchOutcome.STATUS, len(b"quota")),
        (LostReplyError(FailOpen.OVERFETCH_TIMEOUT), VectorFetchOutcome.TIMEOUT, 0),
        (LostReplyError(FailOpen.OVERFETCH_RESET), VectorFetchOutcome.RESET, 0),
        (LostReplyError(FailOpen.TOO_LARGE, received_bytes=70), VectorFetchOutcome.TOO_LARGE, 70),
        (LostReplyError(FailOpen.MALFORMED, received_bytes=7), VectorFetchOutcome.MALFORMED, 7),
    ],
)
async def test_every_failure_has_its_name_and_its_bytes_on_the_account(
    vector_fetcher: VectorFetcher,
    clock: ManualClock,
    registry: CollectorRegistry,
    ended: Exception,
    looked: VectorFetchOutcome,
    received_bytes: int,
) -> None:
    met = granted(vector_fetcher)
    assert await failure(vector_fetcher, Transport(clock, ended), met) is looked
    assert met.received_bytes == received_bytes
    assert timed(registry) == 2.0


async def test_after_five_failures_in_a_row_lookups_are_left_out_until_one_may_try_again(
    vector_fetcher: VectorFetcher, clock: ManualClock
) -> None:
    transport = Transport(clock, REFUSED)
    for _ in range(CONSECUTIVE):
        assert await failure(vector_fetcher, transport, granted(vector_fetcher)) is VectorFetchOutcome.STATUS
    assert await failure(vector_fetcher, transport, granted(vector_fetcher)) is VectorFetchOutcome.BREAKER
    assert len(transport.seconds) == CONSECUTIVE
    clock.advance(60.0)
    transport.answer = b"body"
    look = partial(vector_fetcher.send, transport, granted(vector_fetcher), ToyDialect())
    assert await look(LOOKUP) == b"body"
    assert vector_fetcher.breaker.state is BreakerState.CLOSED


async def test_a_client_that_leaves_says_nothing_about_lookups(
    vector_fetcher: VectorFetcher, clock: ManualClock
) -> None:
    for _ in range(CONSECUTIVE + 1):
        look = partial(
            vector_fetcher.send,
            Transport(clock, asyncio.CancelledError()),
            granted(vector_fetcher),
            ToyDialect(),
        )
        with pytest.raises(asyncio.CancelledError):
            await look(LOOKUP)
    assert vector_fetcher.breaker.state is BreakerState.CLOSED


async def test_a_lookup_refused_for_want_of_quota_is_the_last_for_a_while(
    vector_fetcher: VectorFetcher, clock: ManualClock
) -> None:
    transport = Transport(clock, RefusedReplyError(429, b"quota", is_server_error=False, may_be_size=False))
    assert await failure(vector_fetcher, transport, granted(vector_fetcher)) is VectorFetchOutcome.STATUS
    assert vector_fetcher.reads.is_quiet(OPERATION)
    assert await failure(vector_fetcher, transport, granted(vector_fetcher)) is VectorFetchOutcome.WITHHELD
    assert len(transport.seconds) == 1
    clock.advance(QUIET_SECONDS)
    assert not vector_fetcher.reads.is_quiet(OPERATION)
