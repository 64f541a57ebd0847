"""What an exchange's search has met, and the report and the records made of it."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field, replace
from functools import partial

import pytest
from prometheus_client import CollectorRegistry

from support.backends.toy_backend import OPERATION, ToyDialect
from support.backends.toy_exchange import ToyExchange, grant, toys
from support.deploy.expositions import value
from support.milvus.bodies import request
from support.milvus.messages import message_type
from support.process.clocks import ManualClock
from vecsieve.adapters.contract import Adapter, Lookup, MalformedReplyError, Operation, Question
from vecsieve.adapters.milvus.grpc import MilvusGrpc
from vecsieve.adapters.milvus.rest import MilvusRest
from vecsieve.adapters.milvus.search import Schema
from vecsieve.adapters.qdrant.grpc import QdrantGrpc
from vecsieve.proxy.admin.recent import Seen, seen_of
from vecsieve.proxy.search.budgets import QUIET_SECONDS, ReadBudget
from vecsieve.proxy.search.collections.learned import LEARNED_ENTRIES, Description, Expiring
from vecsieve.proxy.search.errors import LookupFailedError, LostReplyError, RefusedReplyError, RejectedReplyError
from vecsieve.proxy.search.exchange import (
    ASK_SECONDS,
    DESCRIPTION_BYTES,
    KNOWN_SECONDS,
    QUESTION_BYTES,
    CollectionInfo,
    VectorFetcher,
)
from vecsieve.proxy.search.governor import Grant
from vecsieve.proxy.search.limits import CONSECUTIVE, Breaker
from vecsieve.proxy.search.pools.source import Source
from vecsieve.proxy.search.report import report_of
from vecsieve.proxy.telemetry.labels import BreakerState, FailOpen, MemoryRecall, Outcome, Stage, VectorFetchOutcome
from vecsieve.proxy.telemetry.metrics import Metrics
from vecsieve.proxy.telemetry.reports import Report


def reported(made: Source) -> Report:
    return report_of(made, outcome=Outcome.DEDUP, selected=made.selected)


def remembered(made: Source) -> list[Seen]:
    assert made.selected is not None
    return list(seen_of(made.selected, reported(made), texts=True))


async def attempted(plain: bytes = b'[{"k": 4}]') -> tuple[ToyExchange, Source]:
    around, exchange = toys(), ToyExchange(plain=plain)
    if plain.count(b"{") > 1:
        exchange.upstream.rankings *= plain.count(b"{")
    made = around.service.prepare(exchange)
    assert isinstance(made, Source)
    await around.service.best_answer(exchange, made)
    return exchange, made


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RejectedReplyError(FailOpen.NO_VECTORS), FailOpen.NO_VECTORS),
        (MalformedReplyError("at 3"), FailOpen.MALFORMED),
        (MemoryError(), FailOpen.MEMORY),
        (ValueError(), FailOpen.INTERNAL),
        (RecursionError(), FailOpen.INTERNAL),
    ],
)
def test_each_fall_has_its_reason(error: Exception, reason: FailOpen) -> None:
    met = grant()
    met.failed(error)
    assert met.reason is reason


def test_the_first_reason_stands_because_later_ones_follow_from_it() -> None:
    met = grant()
    met.failed(RejectedReplyError(FailOpen.OVERFETCH_TIMEOUT))
    met.failed(ValueError())
    assert met.reason is FailOpen.OVERFETCH_TIMEOUT


async def test_rows_and_records_are_one_a_search() -> None:
    _, made = await attempted(b'[{"k": 4}, {"k": 2}]')
    rows = reported(made).figures
    assert [row.returned for row in rows] == [4, 2]
    assert [row.candidates for row in rows] == [16, 16]
    assert [seen.top_k for seen in remembered(made)] == [4, 2]


async def test_a_search_that_was_sent_as_it_came_has_no_record() -> None:
    _, made = await attempted(b'[{"k": 4}, {"k": 2000}]')
    assert [planned is None for planned in made.planned.plan] == [False, True]
    assert len(reported(made).figures) == 2
    assert [seen.top_k for seen in remembered(made)] == [4]


async def test_a_report_tells_what_the_attempt_came_to() -> None:
    _, made = await attempted()
    made.recall = MemoryRecall.WHOLE
    report = reported(made)
    assert (report.backend, report.operation, report.outcome) == ("toy", "nearest", Outcome.DEDUP)
    assert (report.fail_open, report.bypass, report.grown) == (None, None, False)
    assert report.overfetch_bytes == made.fetched_bytes > 0
    assert report.recall is MemoryRecall.WHOLE
    assert (report.vector_fetch, report.extra_read_units) == (None, 0)
    assert Stage.UPSTREAM in dict(report.stages)
    assert [row.returned for row in report.figures] == [4]


async def test_a_report_of_a_fall_has_no_figures() -> None:
    _, made = await attempted()
    report = report_of(made, outcome=Outcome.FAIL_OPEN, reason=FailOpen.MEMORY)
    assert (report.outcome, report.fail_open, report.figures) == (Outcome.FAIL_OPEN, FailOpen.MEMORY, ())
    assert (report.searches, report.top_k) == (1, 4), "what was asked for is known, whatever came of it"


async def test_a_report_of_a_batch_says_how_many_searches_ask_for_how_many_results() -> None:
    _, made = await attempted(b'[{"k": 4}, {"k": 2}]')
    report = report_of(made, outcome=Outcome.DEDUP)
    assert (report.searches, report.top_k) == (2, 6)


def test_what_was_lost_or_refused_says_so_without_a_word_of_upstreams() -> None:
    lost = LostReplyError(FailOpen.TOO_LARGE, received_bytes=7)
    assert (lost.reason, lost.received_bytes, str(lost)) == (FailOpen.TOO_LARGE, 7, "too_large")
    refused = RefusedReplyError(400, b"secret", is_server_error=False, may_be_size=True)
    assert "secret" not in f"{refused} {refused!r}"


# What is known of a collection: asked once, kept for a minute, and never in the way of a search.


def description() -> bytes:
    message = message_type("DescribeCollectionResponse")(collectionID=1)
    message.schema.fields.add(name="vec", data_type=101)
    raw: bytes = message.SerializeToString()
    return raw


DOCS = Operation(backend="milvus", name="search", collection="default/docs")


@dataclass
class AnsweringExchange:
    """An exchange that answers its questions itself."""

    answer: bytes | Exception = field(default_factory=description)
    operation: Operation = DOCS
    plain: bytes = request("vec", 1, [], 3, None)
    client_timeout_seconds: float | None = None
    requested: list[tuple[Question, float]] = field(default_factory=list)

    async def ask(self, question: Question, *, seconds: float) -> bytes:
        self.requested.append((question, seconds))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@dataclass
class Time:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def information(clock: Time, adapter: Adapter | None = None) -> CollectionInfo:
    metrics = Metrics(CollectorRegistry(), backend="milvus")
    return CollectionInfo(
        MilvusGrpc() if adapter is None else adapter,
        metrics,
        clock,
        Expiring[tuple[str, str], Description](entries=LEARNED_ENTRIES, clock=clock),
    )


async def test_it_is_asked_once_and_again_after_a_minute() -> None:
    clock, exchange = Time(), AnsweringExchange()
    info = information(clock)
    for _ in range(3):
        assert await info.of(exchange) == Schema(vectors=frozenset({"vec"}), scalars=frozenset())
    assert len(exchange.requested) == 1
    clock.now = KNOWN_SECONDS
    assert await info.of(exchange) is not None
    assert len(exchange.requested) == 2


@pytest.mark.parametrize(
    "failure",
    [
        LostReplyError(FailOpen.OVERFETCH_TIMEOUT),
        RefusedReplyError(7, b"denied", is_server_error=False, may_be_size=False),
        b"\xff",
    ],
    ids=["lost", "refused", "malformed"],
)
async def test_a_failure_is_nothing_known_and_is_not_repeated_within_the_minute(failure: bytes | Exception) -> None:
    info, exchange = information(Time()), AnsweringExchange(answer=failure)
    assert await info.of(exchange) is None
    assert await info.of(exchange) is None
    assert len(exchange.requested) == 1


async def test_a_description_that_takes_long_to_read_is_not_read() -> None:
    message = message_type("DescribeCollectionResponse")(collectionID=1)
    for number in range(20):
        message.schema.fields.add(name=f"{number}" + "x" * (DESCRIPTION_BYTES // 20), data_type=101)
    exchange = AnsweringExchange(answer=message.SerializeToString())
    assert await information(Time()).of(exchange) is None


async def test_names_of_any_length_are_not_remembered() -> None:
    """Over REST, a client's body has the names of database and collection: a thousand of 64 kB took 64 MB."""
    learned_schemas = Expiring[tuple[str, str], Description](entries=LEARNED_ENTRIES, clock=Time())
    info = CollectionInfo(MilvusRest(), Metrics(CollectorRegistry(), backend="milvus"), Time(), learned_schemas)
    for length in (10, QUESTION_BYTES):
        operation = Operation(backend="milvus", name="search", collection="", partition="2")
        exchange = AnsweringExchange(
            operation=operation, plain=b'{"collectionName":"%s"}' % (b"x" * length), answer=b"{}"
        )
        assert await info.of(exchange) is None
        assert len(exchange.requested) == (length < QUESTION_BYTES)
    assert len(learned_schemas) == 1


async def test_collections_and_databases_are_told_apart() -> None:
    info = information(Time())
    one = AnsweringExchange()
    other = AnsweringExchange(operation=Operation(backend="milvus", name="search", collection="own/docs"))
    await info.of(one)
    await info.of(other)
    assert len(other.requested) == 1


async def test_it_takes_half_a_second_at_most_and_a_quarter_of_the_clients_time() -> None:
    patient, hasty = AnsweringExchange(), AnsweringExchange(client_timeout_seconds=0.4)
    await information(Time()).of(patient)
    await information(Time()).of(hasty)
    assert [exchange.requested[0][1] for exchange in (patient, hasty)] == [ASK_SECONDS, pytest.approx(0.1)]


async def test_nobody_is_asked_where_the_adapter_no_question_or_the_transport_cannot() -> None:
    exchange = AnsweringExchange()
    assert await information(Time(), QdrantGrpc()).of(exchange) is None
    assert await information(Time()).of(AnsweringExchange(plain=b"")) is None
    assert exchange.requested == []


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
