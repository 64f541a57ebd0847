"""What is known of a collection: asked once, kept for a minute, and never in the way of a search."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from prometheus_client import CollectorRegistry

from support.milvus.bodies import request
from support.milvus.messages import message_type
from vecsieve.adapters.contract import Adapter, Operation, Question
from vecsieve.adapters.milvus.grpc import MilvusGrpc
from vecsieve.adapters.milvus.rest import MilvusRest
from vecsieve.adapters.milvus.search import Schema
from vecsieve.adapters.qdrant.grpc import QdrantGrpc
from vecsieve.proxy.search.collections.learned import LEARNED_ENTRIES, Description, Expiring
from vecsieve.proxy.search.errors import LostReplyError, RefusedReplyError
from vecsieve.proxy.search.exchange import ASK_SECONDS, DESCRIPTION_BYTES, KNOWN_SECONDS, QUESTION_BYTES, CollectionInfo
from vecsieve.proxy.telemetry.labels import FailOpen
from vecsieve.proxy.telemetry.metrics import Metrics


def description() -> bytes:
    message = message_type("DescribeCollectionResponse")(collectionID=1)
    message.schema.fields.add(name="vec", data_type=101)
    raw: bytes = message.SerializeToString()
    return raw


DOCS = Operation(backend="milvus", name="search", collection="default/docs")


@dataclass
class Asking:
    """An exchange that answers its questions itself."""

    answer: bytes | Exception = field(default_factory=description)
    operation: Operation = DOCS
    plain: bytes = request("vec", 1, [], 3, None)
    client_timeout_seconds: float | None = None
    asked: list[tuple[Question, float]] = field(default_factory=list)

    async def ask(self, question: Question, *, seconds: float) -> bytes:
        self.asked.append((question, seconds))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


@dataclass
class Time:
    now: float = 0.0

    def __call__(self) -> float:
        return self.now


def knowing(clock: Time, adapter: Adapter | None = None) -> CollectionInfo:
    metrics = Metrics(CollectorRegistry(), backend="milvus")
    return CollectionInfo(
        MilvusGrpc() if adapter is None else adapter,
        metrics,
        clock,
        Expiring[tuple[str, str], Description](entries=LEARNED_ENTRIES, clock=clock),
    )


async def test_it_is_asked_once_and_again_after_a_minute() -> None:
    clock, exchange = Time(), Asking()
    held = knowing(clock)
    for _ in range(3):
        assert await held.of(exchange) == Schema(vectors=frozenset({"vec"}), scalars=frozenset())
    assert len(exchange.asked) == 1
    clock.now = KNOWN_SECONDS
    assert await held.of(exchange) is not None
    assert len(exchange.asked) == 2


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
    held, exchange = knowing(Time()), Asking(answer=failure)
    assert await held.of(exchange) is None
    assert await held.of(exchange) is None
    assert len(exchange.asked) == 1


async def test_a_description_that_takes_long_to_read_is_not_read() -> None:
    message = message_type("DescribeCollectionResponse")(collectionID=1)
    for number in range(20):
        message.schema.fields.add(name=f"{number}" + "x" * (DESCRIPTION_BYTES // 20), data_type=101)
    exchange = Asking(answer=message.SerializeToString())
    assert await knowing(Time()).of(exchange) is None


async def test_names_of_any_length_are_not_remembered() -> None:
    """Over REST, a client's body has the names of database and collection: a thousand of 64 kB took 64 MB."""
    held = Expiring[tuple[str, str], Description](entries=LEARNED_ENTRIES, clock=Time())
    info = CollectionInfo(MilvusRest(), Metrics(CollectorRegistry(), backend="milvus"), Time(), held)
    for length in (10, QUESTION_BYTES):
        operation = Operation(backend="milvus", name="search", collection="", partition="2")
        exchange = Asking(operation=operation, plain=b'{"collectionName":"%s"}' % (b"x" * length), answer=b"{}")
        assert await info.of(exchange) is None
        assert len(exchange.asked) == (length < QUESTION_BYTES)
    assert len(held) == 1


async def test_collections_and_databases_are_told_apart() -> None:
    held = knowing(Time())
    one = Asking()
    other = Asking(operation=Operation(backend="milvus", name="search", collection="own/docs"))
    await held.of(one)
    await held.of(other)
    assert len(other.asked) == 1


async def test_it_takes_half_a_second_at_most_and_a_quarter_of_the_clients_time() -> None:
    patient, hasty = Asking(), Asking(client_timeout_seconds=0.4)
    await knowing(Time()).of(patient)
    await knowing(Time()).of(hasty)
    assert [exchange.asked[0][1] for exchange in (patient, hasty)] == [ASK_SECONDS, pytest.approx(0.1)]


async def test_nobody_is_asked_where_the_adapter_no_question_or_the_transport_cannot() -> None:
    exchange = Asking()
    assert await knowing(Time(), QdrantGrpc()).of(exchange) is None
    assert await knowing(Time()).of(Asking(plain=b"")) is None
    assert exchange.asked == []
