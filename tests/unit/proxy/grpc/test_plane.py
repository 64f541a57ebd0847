"""What the plane of a port does with a call, seen from both sides of it; searches have tests of their own in transparency."""

from __future__ import annotations

import asyncio

import grpc
import pytest

from support.grpc.calls import ask, ask_on
from support.grpc.raw import REPLY_HEAD, raw_upstream
from support.grpc.upstream import Arrived, Context, echo, ending, grpc_upstream
from support.process.running import Running
from support.qdrant.scripted_grpc import QUERY, UPSERT, before, ids, in_front, query, search, upsert
from vecsieve.adapters.qdrant.calls import UNARY
from vecsieve.proxy.grpc.plane import LONGEST_METHOD
from vecsieve.proxy.runtime.memory import LARGE_MESSAGE_BYTES
from vecsieve.proxy.search.collections.learned import LONGEST_NAME
from vecsieve.proxy.telemetry.labels import Origin, Outcome

STREAM = "/later.Service/Talk"


def at(proxy: Running) -> str:
    return f"127.0.0.1:{proxy.port}"


def errors(proxy: Running, name: str) -> dict[str, float]:
    return {
        sample.labels["kind"]: sample.value
        for metric in proxy.registry.collect()
        for sample in metric.samples
        if sample.name == f"vecsieve_{name}_total" and sample.value
    }


@pytest.mark.parametrize("shape", ["unary_unary", "unary_stream", "stream_unary", "stream_stream"])
async def test_a_method_of_any_shape_that_nobody_knows_is_relayed_and_counted_once(shape: str) -> None:
    questions = (b"12345",) if shape != "stream_stream" else (b"123", b"45", b"6789")
    async with grpc_upstream(Talk=echo) as database, before(database.address) as proxy:
        direct = await ask(database.address, shape, questions, method=STREAM)
        assert await ask(at(proxy), shape, questions, method=STREAM) == direct
        (entry,) = proxy.log
        size = sum(len(question) for question in questions)
        assert (entry.ended.request_bytes, entry.ended.response_bytes, entry.ended.status) == (size, size, 200)
        assert (entry.operation, entry.outcome) == ("other", Outcome.PASSTHROUGH)
        assert proxy.count("upstream_response_bytes_total", backend="qdrant") == size


def test_what_is_searched_is_known_to_be_of_one_message_each_way() -> None:
    assert {QUERY, UPSERT} <= UNARY


@pytest.mark.parametrize("method", [QUERY, UPSERT, STREAM])
async def test_a_database_that_is_gone_counts_as_our_error_and_as_one_of_connecting(method: str) -> None:
    async with before("127.0.0.1:9") as proxy:
        gone = await ask(at(proxy), "unary_unary", (search(),), method=method)
        assert (gone.code, gone.details) == (grpc.StatusCode.UNAVAILABLE, "The database cannot be reached")
        assert errors(proxy, "local_errors") == {"no_upstream": 1}
        assert errors(proxy, "upstream_errors") == {"connect": 2 if method == QUERY else 1}
        (entry,) = proxy.log
        assert (entry.ended.status, entry.ended.origin) == (503, Origin.PROXY)


async def test_an_answer_without_a_message_counts_as_one_that_breaks_the_protocol() -> None:
    bare = [(b"grpc-status", b"0")]
    async with raw_upstream(REPLY_HEAD, bare) as database, before(database.address) as proxy:
        seen = await ask(at(proxy), "unary_unary", (upsert(1),), method=UPSERT)
        assert seen.code is grpc.StatusCode.INTERNAL
        assert errors(proxy, "upstream_errors") == {"protocol": 1}
        assert errors(proxy, "local_errors") == {"no_upstream": 1}


async def test_a_collection_that_cannot_exist_is_not_remembered() -> None:
    """A name of megabytes in each of a thousand calls would take gigabytes."""
    script = ending(grpc.StatusCode.INVALID_ARGUMENT, "too long")
    async with grpc_upstream(Query=script) as database, before(database.address, mode="on") as proxy:
        for number in range(3):
            seen = await query(proxy.port, search(collection=f"{number}" + "x" * LONGEST_NAME))
            assert (seen.code, seen.details) == (grpc.StatusCode.INVALID_ARGUMENT, "too long")
        assert len(database.calls) == 3
        assert len(proxy.process._services.governor.reads._collections) == 0


async def test_a_method_whose_name_is_longer_than_any_is_refused() -> None:
    """grpcio's client keeps the name of each method that is called, until one is called again."""
    async with grpc_upstream() as database, before(database.address) as proxy:
        seen = await ask(at(proxy), "unary_unary", (b"",), method="/a.B/" + "x" * LONGEST_METHOD)
        assert seen.code is grpc.StatusCode.UNIMPLEMENTED
        assert not database.calls


@pytest.mark.parametrize("method", ["/qdrant.Points/Upsert", "/later.Service/Upsert"])
async def test_what_the_database_says_is_no_error_of_ours(method: str) -> None:
    script = ending(grpc.StatusCode.NOT_FOUND, "no collection", trailing=(("c", "1"),))
    async with grpc_upstream(Upsert=script) as database, before(database.address) as proxy:
        direct = await ask(database.address, "unary_unary", method=method)
        assert await ask(at(proxy), "unary_unary", method=method) == direct
        assert (errors(proxy, "local_errors"), errors(proxy, "upstream_errors")) == ({}, {})
        (entry,) = proxy.log
        assert (entry.ended.status, entry.ended.origin) == (404, Origin.UPSTREAM)


@pytest.mark.parametrize("method", [UPSERT, STREAM])
async def test_a_client_that_goes_away_is_counted_without_a_status(method: str) -> None:
    async def stuck(call: Arrived, context: Context) -> None:
        await call.read(context)
        await asyncio.Event().wait()

    async with (
        grpc_upstream(Upsert=stuck, Talk=stuck) as database,
        before(database.address) as proxy,
        grpc.aio.insecure_channel(at(proxy)) as channel,
    ):
        rpc: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(method)
        call = rpc(b"message")
        arrived = await database.next_call()
        assert proxy.process.in_flight == 1
        call.cancel()
        await asyncio.wait_for(arrived.over.wait(), 5)
        async with asyncio.timeout(5):
            while proxy.process.in_flight:
                await asyncio.sleep(0.01)
        assert arrived.is_cancelled
        assert [entry.ended.status for entry in proxy.log] == [None]


async def test_a_fault_of_ours_on_the_way_of_a_stream_is_told_as_ours(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def broken(*_: object, **__: object) -> None:
        raise ValueError("a secret of the client's")

    monkeypatch.setattr("vecsieve.proxy.grpc.plane.relay", broken)
    async with before("127.0.0.1:9") as proxy:
        seen = await ask(at(proxy), "stream_stream", method=STREAM)
        assert (seen.code, seen.details) == (grpc.StatusCode.INTERNAL, "The proxy failed")
        assert errors(proxy, "local_errors") == {"internal": 1}
        assert "secret" not in caplog.text
        assert proxy.process.in_flight == 0


async def test_many_searches_on_one_connection_keep_their_answers_apart() -> None:
    async with in_front() as (database, proxy), grpc.aio.insecure_channel(at(proxy)) as channel:
        limits = [1 + number % 4 for number in range(40)]
        seen = await asyncio.gather(
            *(ask_on(channel, "unary_unary", (search(limit),), method=QUERY) for limit in limits)
        )
        assert [len(ids(answer)) for answer in seen] == limits
        assert proxy.process.in_flight == proxy.process.searches_in_flight == 0
        # A burst on an unknown collection is widened as far as originals could join: the rest goes plain.
        outcomes = [
            proxy.count("requests_total", backend="qdrant", operation="query", outcome=outcome)
            for outcome in ("dedup", "fail_open")
        ]
        assert outcomes[0] >= 6
        assert sum(outcomes) == 30
        assert len(database.calls) >= 40


async def test_a_call_with_two_messages_where_one_is_due_is_answered_by_the_first() -> None:
    """No client sends it; what matters is that the search is neither lost nor answered twice."""
    async with in_front() as (database, proxy):
        seen = await ask(at(proxy), "stream_unary", (search(), search(2)), method=QUERY)
        assert ids(seen) == [0, 2, 3]
        assert len(database.calls) == 1
        assert ids(await query(proxy.port)) == [0, 2, 3]


@pytest.mark.parametrize(
    ("size", "expected"), [(LARGE_MESSAGE_BYTES - 1, []), (LARGE_MESSAGE_BYTES, [LARGE_MESSAGE_BYTES])]
)
@pytest.mark.parametrize("method", [QUERY, UPSERT])
async def test_what_the_core_held_of_a_large_answer_is_given_back(
    method: str, size: int, expected: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    freed: list[int] = []

    class Noting:
        def __init__(self, *_: object) -> None:
            self.freed = freed.append

    async def answer(call: Arrived, context: Context) -> None:
        await call.read(context)
        await context.write(bytes(size))

    monkeypatch.setattr("vecsieve.proxy.grpc.side.Trimming", Noting)
    question = search() if method == QUERY else upsert(1)
    async with grpc_upstream(Query=answer, Upsert=answer) as database, before(database.address, mode="off") as proxy:
        seen = await ask(at(proxy), "unary_unary", (question,), method=method)
        assert seen.code is grpc.StatusCode.OK
    assert [size_bytes for size_bytes in freed if size_bytes] == expected


@pytest.mark.parametrize("mode", ["on", "off"])
async def test_the_log_says_why_the_database_gave_no_answer_to_a_call(mode: str) -> None:
    async with before("127.0.0.1:9", mode=mode) as proxy:
        assert (await query(proxy.port)).code is grpc.StatusCode.UNAVAILABLE
        assert [access.ended.cause for access in proxy.log] == [
            "VecSieve cannot reach the database at 127.0.0.1:9: no connection"
        ]
