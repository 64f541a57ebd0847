"""Too much at once over gRPC: features go first, then calls, and the database's own answers are never replaced by errors of ours
while there is room.
"""

from __future__ import annotations

import asyncio

import grpc
import pytest

from support.grpc.calls import ask, ask_on
from support.grpc.upstream import Arrived, Context, echo, grpc_upstream
from support.qdrant.scripted_grpc import (
    QUERY,
    UPSERT,
    Misbehaviour,
    answering,
    before,
    honest,
    ids,
    in_front,
    messages,
    query,
    say,
    search,
    upsert,
    widened,
)
from vecsieve.proxy.runtime.memory import MemoryGuard, Pressure
from vecsieve.proxy.search.service import SearchService
from vecsieve.proxy.telemetry.labels import FailOpen


def under(pressure: Pressure, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryGuard, "pressure", lambda _: pressure)


async def test_when_memory_is_gone_calls_are_told_to_come_back_and_none_reaches_the_database(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    under(Pressure.CRITICAL, monkeypatch)
    async with in_front() as (database, proxy):
        calls = (("/qdrant.Points/Query", search()), (UPSERT, upsert(1)), ("/no.Such/Method", b""))
        for method, message in calls:
            through = await ask(f"127.0.0.1:{proxy.port}", "unary_unary", (message,), method=method)
            assert (through.code, through.details) == (grpc.StatusCode.UNAVAILABLE, "Too many requests are in flight")
            assert through.trailing == (("x-vecsieve-origin", "proxy"),)
        assert not database.calls
        assert proxy.count("requests_shed_total", reason="memory") == 3
        assert proxy.count("local_errors_total", backend="qdrant", kind="shed") == 3


def waiting_for(event: asyncio.Event) -> Misbehaviour:
    async def waits(_: Arrived, context: Context, message: bytes) -> None:
        await asyncio.wait_for(event.wait(), 10)
        await say(context, honest(message))

    return waits


async def test_more_searches_than_selection_takes_on_pass_through() -> None:
    all_here = asyncio.Event()
    async with in_front(waiting_for(all_here), limits={"searches_in_flight": 1}) as (database, proxy):
        first = asyncio.create_task(query(proxy.port))
        await database.next_call()
        answers = [await query(proxy.port) for _ in range(3)]
        all_here.set()
        assert [ids(answer) for answer in answers] == [[0, 1, 2]] * 3
        assert ids(await first) == [0, 2, 3]
        assert proxy.failed_open() == {"overload": 3.0}


async def test_calls_that_nobody_has_looked_at_count_as_in_flight(monkeypatch: pytest.MonkeyPatch) -> None:
    """grpcio looks at one call after the other: of a hundred at once few are ever in a handler, and the loop does not lag."""
    waiting: list[int] = []
    no_room = SearchService.no_room

    def watched(self: SearchService) -> FailOpen | None:
        assert self._waiting is not None
        waiting.append(self._waiting())
        return no_room(self)

    monkeypatch.setattr(SearchService, "no_room", watched)
    async with (
        in_front(limits={"searches_in_flight": 30}) as (_, proxy),
        grpc.aio.insecure_channel(f"127.0.0.1:{proxy.port}") as channel,
    ):
        calls = [ask_on(channel, "unary_unary", (search(),), method=QUERY) for _ in range(100)]
        answers = await asyncio.gather(*calls)
        assert {answer.code for answer in answers} == {grpc.StatusCode.OK}
        plain = sum(ids(answer) == [0, 1, 2] for answer in answers)
        assert max(waiting) > 30
        reasons = proxy.failed_open()
        assert plain == reasons["overload"] + reasons.get("slow", 0) > 0, (
            "slow: more at once than can be hedged at first"
        )
        assert reasons["overload"] > 0
        assert ids(await ask_on(channel, "unary_unary", (search(),), method=QUERY)) == [0, 2, 3]
        assert waiting[-1] == 0, "nobody is forgotten"


async def test_while_the_replies_of_others_fill_the_room_searches_pass_through() -> None:
    all_here = asyncio.Event()
    async with in_front(waiting_for(all_here), limits={"bytes_in_flight": 1}) as (database, proxy):
        first = asyncio.create_task(query(proxy.port))
        await database.next_call()
        assert proxy.count("selection_bytes_in_flight") > 1, "what one search alone may hold"
        assert ids(await query(proxy.port)) == [0, 1, 2]
        all_here.set()
        assert ids(await first) == [0, 2, 3]
        assert proxy.failed_open() == {"overload": 1.0}
        assert proxy.count("selection_bytes_in_flight") == 0
        assert proxy.count("selection_bytes_in_flight_limit") == 1


async def test_more_calls_than_the_process_takes_on_are_told_to_come_back() -> None:
    go_on = asyncio.Event()

    async def waits(call: Arrived, context: Context) -> None:
        await echo(call, context)
        await go_on.wait()

    limits = {"in_flight": 1, "in_flight_queue_seconds": 0.05}
    async with (
        grpc_upstream(Upsert=waits) as database,
        before(database.address, limits=limits) as proxy,
        grpc.aio.insecure_channel(f"127.0.0.1:{proxy.port}") as channel,
    ):
        first = asyncio.create_task(ask_on(channel, "unary_unary", (upsert(1),), method=UPSERT))
        await database.next_call()
        refused = await ask_on(channel, "unary_unary", (upsert(2),), method=UPSERT)
        go_on.set()
        assert refused.code is grpc.StatusCode.UNAVAILABLE
        assert (await first).code is grpc.StatusCode.OK
        assert messages(database) == [upsert(1)]
        assert proxy.count("requests_shed_total", reason="in_flight") == 1
        assert proxy.process.in_flight == 0


async def test_a_message_larger_than_is_held_for_searches_passes_through_whole() -> None:
    large = search() + b"\xfa\x7f" + b"\x88\x27" + b"x" * 5000  # field 2047, which nobody knows
    async with in_front(limits={"request_body_bytes": 4096}) as (database, proxy):
        through = await query(proxy.port, large)
        assert ids(through) == [0, 1, 2]
        assert messages(database) == [large]
        assert proxy.count("bypass_total", backend="qdrant", reason="too_large") == 1


async def test_a_widened_answer_beyond_its_bound_is_dropped_and_not_asked_for_again() -> None:
    flood = answering(b"\xfa\x7f\x80\x89\x7a" + b" " * 2_000_000)
    async with in_front(flood, limits={"reply_body_bytes": 1_000_000}) as (database, proxy):
        for _ in range(3):
            assert ids(await query(proxy.port)) == [0, 1, 2]
        assert len(widened(database)) == 1, "for a minute no larger search than the client's own"
        assert proxy.failed_open() == {"too_large": 1.0}


async def test_a_message_beyond_its_bound_is_refused_before_it_is_held_and_reaches_nobody() -> None:
    async with in_front(grpc={"message_bytes": 1000}) as (database, proxy):
        through = await ask(f"127.0.0.1:{proxy.port}", "unary_unary", (bytes(1001),), method=UPSERT)
        assert through.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert not database.calls
        assert ids(await query(proxy.port)) == [0, 2, 3]


@pytest.mark.parametrize("method", [QUERY, UPSERT])
async def test_a_call_whose_message_never_comes_holds_its_place_for_a_while_only(
    method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vecsieve.proxy.grpc.exchange.MESSAGE_SECONDS", 3.0)
    async with (
        in_front(limits={"body_timeout_seconds": 3.0, "in_flight": 1, "in_flight_queue_seconds": 0.05}) as (
            database,
            proxy,
        ),
        grpc.aio.insecure_channel(f"127.0.0.1:{proxy.port}") as channel,
    ):
        silent: grpc.aio.StreamUnaryCall[bytes, bytes] = channel.stream_unary(method)()
        await silent.wait_for_connection()
        await asyncio.sleep(0.05)
        assert (await query(proxy.port)).code is grpc.StatusCode.UNAVAILABLE, "the one place is taken"
        assert await silent.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        assert await silent.details() == "The request body stopped arriving"
        assert ids(await query(proxy.port)) == [0, 2, 3]
        assert len(database.calls) == 1


@pytest.mark.parametrize("method", [QUERY, UPSERT])
async def test_calls_of_a_head_alone_leave_most_places_to_calls_that_are_here(method: str) -> None:
    async with (
        in_front(limits={"in_flight": 16, "in_flight_queue_seconds": 0.05}) as (_, proxy),
        grpc.aio.insecure_channel(f"127.0.0.1:{proxy.port}") as channel,
    ):
        silent: list[grpc.aio.StreamUnaryCall[bytes, bytes]] = [channel.stream_unary(method)() for _ in range(40)]
        async with asyncio.timeout(10):
            while proxy.requests_in_flight < len(silent):
                await asyncio.sleep(0.01)
        assert ids(await query(proxy.port)) == [0, 2, 3]
        assert proxy.count("requests_shed_total", reason="in_flight") == 0
        for call in silent:
            call.cancel()
