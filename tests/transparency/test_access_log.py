"""What the access log says of real requests on either transport, and that nothing of it ever reaches a client or the database."""

from __future__ import annotations

import json
import re

import aiohttp
import pytest

from support.network.faulty_upstream import FaultyUpstream, Received, Talk, raw_exchange, reply
from support.process.running import Running, running, until
from support.qdrant.scripted import JSON, honest, is_widened, request, scripted, search
from support.qdrant.scripted_grpc import in_front, query
from vecsieve.proxy.telemetry.log import Access
from vecsieve.proxy.writes.pipeline import Pipeline


async def answer_honestly(talk: Talk, received: Received) -> bool:
    await talk.send(honest(received))
    return True


async def answer_brokenly(talk: Talk, _: Received) -> bool:
    await talk.send(reply(b'{"result":', headers=[JSON]))
    return True


async def logged(proxy: Running, count: int) -> list[Access]:
    """So many entries: a request ends a moment after its answer."""
    await until(lambda: len(proxy.log) >= count)
    assert len(proxy.log) == count
    return proxy.log


async def test_every_request_of_a_kept_connection_but_the_first_finds_it_used() -> None:
    async with FaultyUpstream(scripted(answer_honestly)) as database, running(database.url) as proxy:
        url = f"http://127.0.0.1:{proxy.port}/collections/c/points/query"
        async with aiohttp.ClientSession() as session:
            for _ in range(3):
                async with session.post(url, data=search(), headers={"Content-Type": "application/json"}) as answer:
                    await answer.read()
        await raw_exchange(proxy.port, request(search()))
        assert [entry.ended.is_reused for entry in await logged(proxy, 4)] == [False, True, True, False]


async def test_ids_are_ours_alone_and_nobody_else_ever_sees_one() -> None:
    claimed = b"x-request-id: 00000000deadbeef\r\n"
    async with FaultyUpstream(scripted(answer_honestly)) as database, running(database.url) as proxy:
        answers = [await raw_exchange(proxy.port, request(search(), headers=claimed)) for _ in range(2)]
        answers.append(await raw_exchange(proxy.port, request(search(), headers=b"x-vecsieve-mode: sideways\r\n")))
        assert b"x-vecsieve-origin: proxy" in answers[-1]
        ids = [entry.request_id for entry in await logged(proxy, 3)]
        assert len(set(ids)) == 3
        assert all(re.fullmatch(r"[0-9a-f]{16}", request_id) and request_id != "00000000deadbeef" for request_id in ids)
        seen = b"".join([*answers, *(value for received in database.requests for _, value in received.headers)])
        assert [request_id for request_id in ids if request_id.encode() in seen] == []


async def test_a_search_says_how_many_results_were_asked_for_and_one_that_nobody_read_does_not() -> None:
    async with FaultyUpstream(scripted(answer_honestly)) as database, running(database.url) as proxy:
        await raw_exchange(proxy.port, request(search(3)))
        await raw_exchange(proxy.port, request(search(), headers=b"x-vecsieve-mode: off\r\n"))
        reports = [entry.report for entry in await logged(proxy, 2)]
        assert [(report.searches, report.top_k) for report in reports if report is not None] == [(1, 3), (None, None)]


async def test_a_search_answered_plainly_says_what_was_asked_for() -> None:
    async with FaultyUpstream(scripted(answer_brokenly)) as database, running(database.url) as proxy:
        answer = await raw_exchange(proxy.port, request(search(3)))
        assert len(json.loads(answer.split(b"\r\n\r\n", 1)[1])["result"]["points"]) == 3
        assert any(is_widened(received) for received in database.requests)
        (entry,) = await logged(proxy, 1)
        assert entry.report is not None
        assert (entry.report.reason, entry.report.searches, entry.report.top_k) == ("malformed", 1, 3)


async def test_over_grpc_a_call_has_an_id_and_a_top_k_and_nobody_knows_its_connection() -> None:
    async with in_front() as (database, proxy):
        seen = [await query(proxy.port, metadata=(("x-request-id", "00000000deadbeef"),)) for _ in range(2)]
        entries = await logged(proxy, 2)
        assert [entry.ended.is_reused for entry in entries] == [None, None]
        assert [entry.report.top_k for entry in entries if entry.report is not None] == [3, 3]
        ids = {entry.request_id for entry in entries}
        assert len(ids) == 2
        words = repr(seen) + repr([call.metadata for call in database.calls])
        assert [identifier for identifier in ids | {"00000000deadbeef"} if identifier in words] == [
            "00000000deadbeef"
        ], "the database gets the client's own word"


async def breaks(*_: object, **__: object) -> None:
    raise RuntimeError


@pytest.mark.parametrize("is_grpc", [False, True])
async def test_an_error_of_ours_is_logged_under_the_id_of_the_request_it_broke(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, *, is_grpc: bool
) -> None:
    async with in_front() as (_, over_grpc), running("http://127.0.0.1:9") as over_http:
        proxy = over_grpc if is_grpc else over_http
        with monkeypatch.context() as patched:
            patched.setattr(Pipeline, "answer", breaks)
            if proxy is over_http:
                await raw_exchange(proxy.port, request(search()))
            else:
                await query(proxy.port)
        (entry,) = await logged(proxy, 1)
    errors = [getattr(record, "fields", {}) for record in caplog.records if record.levelname == "ERROR"]
    assert [fields.get("request_id") for fields in errors] == [entry.request_id]
