"""Whatever happens to the widened call, the client sees exactly what a direct call would have shown, and a counter says why."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import grpc
import pytest
from qdrant_client import grpc as pb

from support.exchanges.widened_faults import limits_of
from support.grpc.calls import Pairs, Seen
from support.grpc.upstream import Arrived, Context, GrpcUpstream, grpc_upstream
from support.process.running import until
from support.qdrant.scripted_grpc import (
    INITIAL,
    QUERY,
    TRAILING,
    Misbehaviour,
    answering,
    before,
    honest,
    ids,
    in_front,
    messages,
    parsed,
    query,
    say,
    search,
    widened,
)

STRICT = 'Limit exceeded 24 > 10 for "limit". Help: Reduce the "limit" parameter to or below 10.'
UNKNOWN_VECTOR = "Wrong input: Not existing vector name error: "
RETRY: Pairs = (("retry-after", "7"), ("x-quota-bin", b"\x00\x01"))


def refusing(code: grpc.StatusCode, words: str = "no", trailing: Pairs = ()) -> Misbehaviour:
    async def refuse(_: Arrived, context: Context, __: bytes) -> None:
        await context.abort(code, words, trailing)

    return refuse


async def stays_silent(_: Arrived, __: Context, ___: bytes) -> None:
    await asyncio.sleep(30)


async def refuses_after_message(_: Arrived, context: Context, message: bytes) -> None:
    await say(context, honest(message))
    context.set_code(grpc.StatusCode.DATA_LOSS)


async def says_nothing(_: Arrived, __: Context, ___: bytes) -> None:
    """Status 0 without a message."""


def points(*vectors: list[float] | None) -> bytes:
    """A reply with so many points, a vector each or none."""
    ids_ = []
    for rank, vector in enumerate(vectors):
        point = pb.ScoredPoint(id=pb.PointId(num=rank), version=1, score=0.9)
        if vector is not None:
            point.vectors.vector.dense.data.extend(vector)
        ids_.append(point)
    data: bytes = pb.QueryResponse(result=ids_, time=0.1).SerializeToString()
    return data


WHOLE = points([1.0] * 4, [0.5] * 4)
CODES = [
    *("CANCELLED", "UNKNOWN", "INVALID_ARGUMENT", "NOT_FOUND", "ALREADY_EXISTS", "PERMISSION_DENIED"),
    *("FAILED_PRECONDITION", "ABORTED", "OUT_OF_RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE", "DATA_LOSS"),
    *("UNAUTHENTICATED", "DEADLINE_EXCEEDED"),
]
FAULTS: dict[str, tuple[Misbehaviour, str]] = {
    **{name: (refusing(grpc.StatusCode[name]), "overfetch_status") for name in CODES},
    "strict mode": (refusing(grpc.StatusCode.INVALID_ARGUMENT, STRICT), "overfetch_status"),
    "unknown vector": (refusing(grpc.StatusCode.INVALID_ARGUMENT, UNKNOWN_VECTOR), "not_found_vector"),
    "refused with metadata": (refusing(grpc.StatusCode.INTERNAL, "x", RETRY), "overfetch_status"),
    # What servers in Go, Java and C++ say of a reply that became too large to send: nothing about anybody's quota.
    "too large for go": (
        refusing(grpc.StatusCode.RESOURCE_EXHAUSTED, "grpc: trying to send message larger than max (9 vs. 4)"),
        "overfetch_status",
    ),
    "too large for java": (
        refusing(grpc.StatusCode.RESOURCE_EXHAUSTED, "gRPC message exceeds maximum size 4194304: 5000000"),
        "overfetch_status",
    ),
    "failure behind the message": (refuses_after_message, "overfetch_status"),
    "silence": (stays_silent, "overfetch_timeout"),
    "no message": (says_nothing, "overfetch_reset"),
    "garbage": (answering(bytes(range(256))), "malformed"),
    "html": (answering(b"<html>it works</html>"), "malformed"),
    "cut": (answering(WHOLE[: len(WHOLE) // 2]), "malformed"),
    "one byte short": (answering(WHOLE[:-1]), "malformed"),
    "a point that is none": (answering(b"\x0a\x02\x08\x01"), "malformed"),
    "another shape": (answering(b"\x08\x01"), "malformed"),
    "too large": (answering(WHOLE + b"\xfa\x7f\x80\x89\x7a" + b" " * 2_000_000), "too_large"),
}


async def directly(database: GrpcUpstream) -> Seen:
    return await query(database.port)


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_of_the_widened_call_is_never_the_clients(name: str) -> None:
    misbehaviour, reason = FAULTS[name]
    async with in_front(misbehaviour, limits=limits_of(reason)) as (database, proxy):
        direct = await directly(database)
        through = await query(proxy.port)
        assert through.from_database == direct
        assert dict(through.initial)["x-vecsieve"] == f"fail_open={reason}"
        assert (direct.code, direct.initial, direct.trailing) == (grpc.StatusCode.OK, INITIAL, TRAILING)
        assert proxy.failed_open() == {reason: 1.0}
        assert len(widened(database)) == 1, "one attempt"
        assert messages(database).count(search()) == 2, "the direct one, and the replay: once"


async def test_a_quota_that_is_spent_is_the_answer_and_the_original_is_not_sent_on_top() -> None:
    exhausted = refusing(grpc.StatusCode.RESOURCE_EXHAUSTED, "slow down, 100% ☃", RETRY)
    async with in_front(exhausted) as (database, proxy):
        through = await query(proxy.port)
        assert (through.code, through.details) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "slow down, 100% ☃")
        assert (through.messages, through.initial, through.trailing) == ((), (), RETRY)
        assert len(database.calls) == 1
        assert proxy.failed_open() == {"overfetch_status": 1.0}


async def test_a_database_that_is_gone_is_unavailable_and_says_who_spoke() -> None:
    async with before("127.0.0.1:9") as proxy:
        through = await query(proxy.port)
        assert (through.code, through.details) == (grpc.StatusCode.UNAVAILABLE, "The database cannot be reached")
        assert through.trailing == (("x-vecsieve-origin", "proxy"),)
        assert proxy.failed_open() == {"overfetch_reset": 1.0}


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (grpc.StatusCode.OUT_OF_RANGE, "Error, message length too large: found 5000000 bytes, the limit is: 4194304"),
        (grpc.StatusCode.INVALID_ARGUMENT, "the answer would be too large"),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "Sent message larger than max (5000000 vs. 4194304)"),
    ],
)
async def test_a_refusal_that_may_be_about_the_size_halves_what_the_next_search_asks_for_until_it_fits(
    code: grpc.StatusCode, words: str
) -> None:
    async with in_front(refusing(code, words)) as (database, proxy):
        for _ in range(4):
            assert ids(await query(proxy.port)) == [0, 1, 2]
        assert [parsed(message).limit for message in messages(database)] == [24, 3, 12, 3, 6, 3, 3]


@pytest.mark.parametrize(("code", "is_a_fallback"), [("NOT_FOUND", False), ("UNKNOWN", False), ("INTERNAL", True)])
async def test_a_search_that_its_database_refuses_is_no_fallback(code: str, is_a_fallback: bool) -> None:
    async def refuses(call: Arrived, context: Context) -> None:
        await call.read(context)
        await context.abort(grpc.StatusCode[code], "no such collection")

    async with grpc_upstream(Query=refuses) as database, before(database.address) as proxy:
        assert (await query(proxy.port)).code is grpc.StatusCode[code]
        assert proxy.failed_open() == ({"overfetch_status": 1.0} if is_a_fallback else {})
        assert proxy.count("bypass_total", backend="qdrant", reason="refused") == (not is_a_fallback)


def stages() -> Iterator[tuple[str, bool]]:
    """Where our part can break, and whether the original is then sent."""
    for verb, replays in {"parse_request": True, "widen": True, "parse_reply": True, "trim": True}.items():
        yield f"vecsieve.adapters.qdrant.grpc.QdrantGrpc.{verb}", replays
    yield "vecsieve.proxy.search.searcher.selecting", False
    yield "vecsieve.proxy.search.report.figures", False
    yield "vecsieve.proxy.search.report.header_value", False


@pytest.mark.parametrize(("place", "replays"), list(stages()))
async def test_an_exception_of_our_own_at_any_stage_is_the_plain_answer(
    place: str, replays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without a memory: what it has decided before does not come by every place.
    async with in_front(memory={"bytes": 0}) as (database, proxy):
        expected = await directly(database)
        for error in (ValueError, RecursionError, MemoryError, KeyError):
            with monkeypatch.context() as patched:
                patched.setattr(place, _raising(error))
                through = await query(proxy.port)
            assert through.from_database == expected, error
        assert sum(proxy.failed_open().values()) == 4
        assert messages(database).count(search()) == 1 + 4 * replays


async def test_an_exception_before_the_search_is_known_for_one_is_an_error_that_says_whose_it_is(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async with in_front() as (database, proxy):
        with monkeypatch.context() as patched:
            patched.setattr("vecsieve.adapters.qdrant.grpc.QdrantGrpc.classify", _raising(ValueError))
            through = await query(proxy.port)
        assert (through.code, through.details) == (grpc.StatusCode.INTERNAL, "The proxy failed")
        assert through.trailing == (("x-vecsieve-origin", "proxy"),)
        assert not database.calls
        assert proxy.count("local_errors_total", backend="qdrant", kind="internal") == 1
        assert proxy.process.in_flight == 0
        assert ids(await query(proxy.port)) == [0, 2, 3], "the next one is answered"
    assert "a fault of ours" not in caplog.text


def _raising(error: type[Exception]) -> object:
    def broken(*_: object, **__: object) -> object:
        raise error("a fault of ours")

    return broken


async def test_without_faults_the_copies_are_gone_and_one_member_of_the_metadata_reports_it() -> None:
    async with in_front() as (database, proxy):
        through = await query(proxy.port)
        assert ids(through) == [0, 2, 3]
        assert [pair for pair in through.initial if pair[0] != "x-vecsieve"] == list(INITIAL)
        assert through.trailing == TRAILING
        (report,) = (str(value) for name, value in through.initial if name == "x-vecsieve")
        assert report.startswith("pool=8;clusters=4;returned=3;collapsed=4;added_ms=")
        assert proxy.failed_open() == {}
        assert len(database.calls) == 1


async def test_a_client_that_goes_away_cancels_the_search_upstream() -> None:
    async with (
        in_front(stays_silent) as (database, proxy),
        grpc.aio.insecure_channel(f"127.0.0.1:{proxy.port}") as channel,
    ):
        method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(QUERY)
        call = method(search())
        arrived = await database.next_call()
        call.cancel()
        await asyncio.wait_for(arrived.over.wait(), 5)
        assert arrived.is_cancelled
        assert await until(lambda: not proxy.process.in_flight)
        assert len(database.calls) == 1, "no replay for a client that is gone"
        assert proxy.process.searches_in_flight == 0
        assert [entry.ended.status for entry in proxy.log] == [None]


async def test_a_deadline_that_passes_is_the_clients_own_with_the_same_code_as_directly() -> None:
    async def never(call: Arrived, context: Context) -> None:
        await call.read(context)
        await asyncio.sleep(30)

    limits = {"attempt_timeout_seconds": 0.2}
    async with grpc_upstream(Query=never) as database, before(database.address, limits=limits) as proxy:
        direct = await query(database.port, timeout=0.5)
        through = await query(proxy.port, timeout=3.0)
        assert through == direct
        assert direct.code is grpc.StatusCode.DEADLINE_EXCEEDED
        for call in database.calls:
            await asyncio.wait_for(call.over.wait(), 5)
        assert [call.is_cancelled for call in database.calls] == [True] * 3
        assert await until(lambda: not proxy.process.in_flight)
        _, attempt, replay = database.calls
        assert attempt.deadline_seconds is not None
        assert replay.deadline_seconds is not None
        assert attempt.deadline_seconds <= 0.25, "the limit, which is shorter than the client's own"
        assert replay.deadline_seconds <= 3.0, "what is left of the client's own"


async def test_what_the_database_calls_unknown_opens_no_breaker() -> None:
    async with in_front(refusing(grpc.StatusCode.UNKNOWN, "explorer: no such property")) as (database, proxy):
        for _ in range(7):
            assert ids(await query(proxy.port)) == [0, 1, 2]
        assert [parsed(message).limit for message in widened(database)] == [24, 12, 6]
        assert "breaker" not in proxy.failed_open()
