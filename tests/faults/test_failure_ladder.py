"""Whatever happens to the widened request, the client sees exactly what a direct call would have shown, and a counter says why."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from support.exchanges.widened_faults import ERRORS, FAULTS, STAGES, STRICT, limits_of, points, resets, stays_silent
from support.network.faulty_upstream import FaultyUpstream, Received, Talk, raw_exchange, reply
from support.process.running import running, until
from support.qdrant.scripted import JSON, answering, honest, is_widened, request, scripted, search


async def direct(upstream: FaultyUpstream, body: bytes) -> bytes:
    return comparable(await raw_exchange(upstream.port, request(body)))


def comparable(answer: bytes) -> bytes:
    """An answer without the field that is about the connection, and without the one that says why VecSieve did nothing."""
    return re.sub(rb"(Connection: close|x-vecsieve: fail_open=\w+)\r\n", b"", answer)


@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_of_the_widened_request_is_never_the_clients(name: str) -> None:
    misbehaviour, reason = FAULTS[name]
    async with (
        FaultyUpstream(scripted(misbehaviour)) as upstream,
        running(upstream.url, limits=limits_of(reason)) as proxy,
    ):
        expected = await direct(upstream, search())
        answer = await raw_exchange(proxy.port, request(search()))
        assert comparable(answer) == expected
        is_success = answer.startswith(b"HTTP/1.1 200 ")
        assert re.findall(rb"x-vecsieve: (\S+)", answer) == [f"fail_open={reason}".encode()] * is_success
        assert await until(proxy.failed_open) == {reason: 1.0}
        widened = [received for received in upstream.requests if is_widened(received)]
        originals = [received for received in upstream.requests if received.content == search()]
        assert len(widened) == 1, "one attempt"
        assert len(originals) == 2, "the direct one, and the replay: once"


@pytest.mark.parametrize(
    ("vectors", "expected"),
    [
        ([[0.0] * 4] * 6, {}),
        ([None] * 6, {"no_vectors": 1.0}),
        ([{}] * 6, {"no_vectors": 1.0}),
        ([[1.0] * 4, [1.0] * 3, [1.0] * 2, None, [1.0] * 4, [0.0] * 4], {}),
    ],
)
async def test_vectors_that_cannot_be_compared_leave_the_backends_own_page(
    vectors: list[object], expected: dict[str, float]
) -> None:
    async with FaultyUpstream(scripted(answering(points(vectors)))) as upstream, running(upstream.url) as proxy:
        answer = await raw_exchange(proxy.port, request(search(2)))
        assert b"200 OK" in answer
        hits = json.loads(answer.split(b"\r\n\r\n", 1)[1])["result"]["points"]
        assert [point["id"] for point in hits] == [0, 1]
        assert all(point.get("vector") is None for point in hits), "what was asked for on our account is gone"
        counted = await until(proxy.failed_open) if expected else proxy.failed_open()
        assert counted == expected


async def test_429_is_the_answer_and_the_original_is_not_sent_on_top() -> None:
    refusal = reply(
        b'{"status":{"error":"slow down"},"time":0}',
        status=b"429 Too Many Requests",
        headers=[(b"Retry-After", b"7"), JSON],
    )
    async with FaultyUpstream(scripted(answering(refusal))) as upstream, running(upstream.url) as proxy:
        assert comparable(await raw_exchange(proxy.port, request(search()))) == refusal
        assert len(upstream.requests) == 1


async def test_an_upstream_that_is_gone_is_a_native_502_that_says_who_spoke() -> None:
    async with FaultyUpstream(scripted(resets)) as upstream:
        url = upstream.url
    async with running(url) as proxy:
        answer = await raw_exchange(proxy.port, request(search()))
        assert answer.startswith(b"HTTP/1.1 502 ")
        assert b"x-vecsieve-origin: proxy" in answer
        assert json.loads(answer.split(b"\r\n\r\n", 1)[1])["status"]["error"]


async def test_a_named_limit_is_learned_and_the_next_search_asks_for_no_more() -> None:
    async with (
        FaultyUpstream(scripted(answering(reply(STRICT, status=b"400 Bad Request")))) as upstream,
        running(upstream.url) as proxy,
    ):
        for _ in range(2):
            await raw_exchange(proxy.port, request(search()))
        limits = [json.loads(received.content)["limit"] for received in upstream.requests]
        assert limits == [24, 3, 10, 3]


async def test_a_mistake_of_the_clients_own_teaches_nothing_and_is_no_fallback() -> None:
    async def refuses(talk: Talk) -> None:
        while await talk.request() is not None:
            await talk.send(reply(b'{"status":{"error":"no such collection"},"time":0}', status=b"404 Not Found"))

    count = 10  # more than the budget for second requests
    async with FaultyUpstream(refuses) as upstream, running(upstream.url) as proxy:
        for _ in range(count):
            assert (await raw_exchange(proxy.port, request(search()))).startswith(b"HTTP/1.1 404 ")
        assert [json.loads(received.content)["limit"] for received in upstream.requests][:4] == [24, 3, 24, 3]
        assert proxy.failed_open() == {}
        assert proxy.count("bypass_total", backend="qdrant", reason="refused") == count


async def test_a_client_that_goes_away_cancels_the_search_upstream() -> None:
    async with FaultyUpstream(scripted(stays_silent)) as upstream, running(upstream.url) as proxy:
        _, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        writer.write(request(search()))
        await writer.drain()
        while not upstream.requests:
            await asyncio.sleep(0.01)
        writer.close()
        assert await until(lambda: not proxy.process.in_flight)
        assert len(upstream.requests) == 1, "no replay for a client that is gone"


async def test_an_exception_of_our_own_at_any_stage_is_the_plain_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    for place, replays in STAGES.items():
        for error in ERRORS:
            async with FaultyUpstream(scripted(answer_honestly)) as upstream, running(upstream.url) as proxy:
                expected = await direct(upstream, search())
                with monkeypatch.context() as patched:
                    patched.setattr(place, _raising(error))
                    through = comparable(await raw_exchange(proxy.port, request(search())))
                assert _body(through) == _body(expected), (place, error)
                assert through.startswith(b"HTTP/1.1 200 OK"), (place, error)
                assert sum((await until(proxy.failed_open)).values()) == 1, (place, error)
                assert len([received for received in upstream.requests if received.content == search()]) == 1 + replays


async def answer_honestly(talk: Talk, received: Received) -> bool:
    await talk.send(honest(received))
    return True


def _raising(error: type[Exception]) -> object:
    def broken(*_: object, **__: object) -> object:
        raise error("a fault of ours")

    return broken


def _body(answer: bytes) -> bytes:
    return answer.split(b"\r\n\r\n", 1)[1]


async def test_without_faults_the_copies_are_gone_and_one_header_reports_it() -> None:
    async with FaultyUpstream(scripted(answer_honestly)) as upstream, running(upstream.url) as proxy:
        answer = await raw_exchange(proxy.port, request(search()))
        hits = json.loads(_body(answer))["result"]["points"]
        assert [point["id"] for point in hits] == [0, 2, 3]
        assert re.search(rb"x-vecsieve: pool=8;clusters=4;returned=3;collapsed=\d+;added_ms=\d+\.\d\r\n", answer)
        assert proxy.failed_open() == {}
