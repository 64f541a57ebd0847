"""Reads of our own never make the database refuse a client who would not be refused directly."""

from __future__ import annotations

import grpc
import pytest

from support.grpc.calls import ask
from support.grpc.upstream import Arrived, Context, grpc_upstream
from support.qdrant import scripted_grpc
from support.qdrant.limited import Limited, ended, limited, status, statuses
from support.qdrant.scripted_grpc import before, query, search, widened


@pytest.mark.parametrize("copies", [1, 10])
@pytest.mark.parametrize("mode", ["on", "shadow"])
async def test_a_client_who_keeps_a_tenth_below_the_limit_is_never_refused(
    mode: str, copies: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In mode shadow behind the first searches, of which all are measured; here they are a twelfth as many, as the limit is."""
    monkeypatch.setattr("vecsieve.proxy.search.exchange.FIRST", 4)
    searches = 90
    database = Limited(reads=100, copies=copies)
    async with limited(database, mode=mode) as (_, proxy):
        assert set(await statuses(proxy.port, searches)) == {200}
        await ended(proxy)
        assert database.refused == 0
        extra = 0 if (mode, copies) == ("on", 1) else 1
        assert searches + extra <= database.served <= searches + extra * (1 + searches // 10)


async def test_the_first_measurements_of_shadow_end_at_the_first_refusal() -> None:
    """They come at once, so a database that limits reads closely may refuse one request; from then on the client has it to itself."""
    database = Limited(reads=20)
    async with limited(database, mode="shadow") as (_, proxy):
        answers = await statuses(proxy.port, 30)
        await ended(proxy)
        assert 200 in answers
        assert database.refused >= 1
        served, reads = database.served, proxy.count("own_reads_total", kind="shadow")
        database.reads = None
        assert await statuses(proxy.port, 5) == [200] * 5
        await ended(proxy)
        assert (database.served, proxy.count("own_reads_total", kind="shadow")) == (served + 5, reads)


async def test_a_refusal_of_a_clients_own_request_ends_reads_of_ours_and_searches_go_as_they_came() -> None:
    database = Limited(reads=2)
    async with limited(database, mode="on") as (_, proxy):
        scroll = b"/collections/c/points/scroll"
        assert [await status(proxy.port, target=scroll) for _ in range(3)] == [200, 200, 429]
        database.reads = None
        assert await statuses(proxy.port, 5) == [200] * 5
        assert database.widened == 0
        assert proxy.count("bypass_total", backend="qdrant", reason="quota") == 5
        assert await status(proxy.port, target=b"/collections/other/points/query") == 200
        assert database.widened == 1, "another collection has limits of its own"


async def test_a_refused_search_is_the_clients_answer_and_the_next_ones_go_as_they_came() -> None:
    database = Limited(reads=1)
    async with limited(database, mode="on") as (_, proxy):
        assert await statuses(proxy.port, 4) == [200, 429, 429, 429]
        assert (database.served, database.refused, database.widened) == (1, 3, 2)


async def test_over_grpc_a_refusal_of_another_call_to_the_collection_counts_as_well() -> None:
    async def refuse(call: Arrived, context: Context) -> None:
        await call.read(context)
        await context.abort(grpc.StatusCode.RESOURCE_EXHAUSTED, "Rate limiting exceeded")

    async with (
        grpc_upstream(Query=scripted_grpc.scripted(), Scroll=refuse) as database,
        before(database.address) as proxy,
    ):
        scrolled = await ask(f"127.0.0.1:{proxy.port}", "unary_unary", (search(),), method="/qdrant.Points/Scroll")
        assert scrolled.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert (await query(proxy.port)).code is grpc.StatusCode.OK
        assert widened(database) == []


async def test_a_client_who_keeps_a_tenth_below_the_limit_is_not_refused_because_of_what_memory_lacks() -> None:
    database = Limited(reads=100)
    async with limited(database, mode="on") as (_, proxy):
        for number in range(90):  # every fifth pool has three new points
            database.first = 3 * (number // 5)
            assert await status(proxy.port) == 200
        assert database.refused == 0
        assert proxy.count("own_reads_total", kind="recall") > 0
        reads = sum(proxy.count("own_reads_total", kind=kind) for kind in ("recall", "grow"))
        assert database.served == 90 + reads <= 90 + 1 + 90 // 10
