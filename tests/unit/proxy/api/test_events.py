"""The stream over real sockets: events come while lines are still being written."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import httpx
import pytest
from msgspec import Raw

from support.network.api import Served, served
from support.network.faulty_upstream import RawClient
from support.process.running import until
from vecsieve.config.applications import ApiSettings
from vecsieve.proxy.api import events as module
from vecsieve.proxy.api.events import event
from vecsieve.proxy.api.routes import routes_of
from vecsieve.proxy.writes.events import MOST_READERS, EventName, EventPoint, Feed

STABLE = {"cluster_linkage": "leader", "representative_strategy": "score", "enable_mmr": False}
HEAD = {"Content-Type": "application/x-ndjson", "Accept": "text/event-stream"}
Event = tuple[str, Any]


def line(value: object) -> bytes:
    return json.dumps(value).encode() + b"\n"


def chunk(number: int, text: str, **members: object) -> bytes:
    return line({"id": number, "text": text, **members})


def events_of(body: str) -> list[Event]:
    events = []
    for block in body.split("\n\n")[:-1]:
        name, data = block.split("\n")
        events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
    return events


async def stream(api: Served, *lines: bytes, **options: object) -> list[Event]:
    answer = await post(api, line({**STABLE, **options}) + b"".join(lines))
    assert answer.status_code == 200, answer.text
    assert answer.headers["Content-Type"] == "text/event-stream"
    return events_of(answer.text)


async def post(api: Served, body: bytes, **head: str) -> httpx.Response:
    return await api.client.post("/v1/optimize", content=body, headers={**HEAD, **head})


async def test_kept_chunks_are_events_and_the_last_one_has_the_figures() -> None:
    async with served() as api:
        events = await stream(api, chunk(1, "alpha one", metadata={"p": 1}), chunk(2, "alpha one"), chunk(3, "beta"))
        assert events[:2] == [
            ("chunk", {"id": 1, "text": "alpha one", "score": 0.0, "metadata": {"p": 1}}),
            ("chunk", {"id": 3, "text": "beta", "score": 0.0, "metadata": {}}),
        ]
        name, done = events[2]
        assert (name, done["removed"]) == (
            "done",
            [{"id": 2, "stage": "equal_text", "covered_by": [1], "reason": "says the same as 1"}],
        )
        assert (done["stats"]["input_count"], done["stats"]["output_count"]) == (3, 2)


async def test_a_stream_gives_what_the_same_chunks_give_at_once() -> None:
    texts = ["the red fox jumps", "the red fox jumps over", "opening hours", "the red fox jumps over it", "x" * 99]
    chunks = [{"id": n, "text": text, "score": 1 - n / 10, "embedding": [1, n % 3, 0]} for n, text in enumerate(texts)]
    options = {**STABLE, "token_budget": 12, "target_k": 4}
    async with served() as api:
        events = await stream(api, *map(line, chunks), **options)
        whole = (await api.client.post("/v1/optimize", json={"chunks": chunks, **options})).json()
        for stats in (whole["stats"], events[-1][1]["stats"]):
            stats.pop("latency_ms")
        assert [data for name, data in events if name == "chunk"] == whole["chunks"]
        assert events[-1][1] == {"removed": whole["removed"], "stats": whole["stats"]}


async def test_events_are_read_while_lines_are_still_written() -> None:
    """Each further line is written only when the event of the line before has been read."""
    seen: asyncio.Queue[str] = asyncio.Queue()
    order: list[str] = []

    async def lines() -> AsyncIterator[bytes]:
        yield line(STABLE)
        for number in range(5):
            order.append(f"write {number}")
            yield chunk(number, f"text number{number}")
            assert await asyncio.wait_for(seen.get(), 10) == f"text number{number}"

    async with served() as api, aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{api.port}/v1/optimize"
        async with session.post(url, data=lines(), headers=HEAD) as answer:
            async for raw in answer.content:
                if raw.startswith(b'data: {"id"'):
                    text = json.loads(raw[6:])["text"]
                    order.append(f"read {text[-1]}")
                    seen.put_nowait(text)
    assert order == [f"{what} {number}" for number in range(5) for what in ("write", "read")]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\n\n \n"])
async def test_line_ends_may_be_any_and_the_last_may_lack_one(end: bytes) -> None:
    lines = end.join([line(STABLE).strip(), chunk(1, "a b").strip(), chunk(2, "c\nd").strip()])
    async with served() as api:
        answer = await post(api, lines)
        assert [name for name, _ in events_of(answer.text)] == ["chunk", "chunk", "done"]


async def test_a_line_that_comes_in_pieces_is_one_line() -> None:
    body = line(STABLE) + chunk(1, "zażółć gęślą jaźń")

    async def pieces() -> AsyncIterator[bytes]:
        for byte in body:
            yield bytes([byte])

    async with served() as api:
        answer = await api.client.post("/v1/optimize", content=pieces(), headers=HEAD)
        assert events_of(answer.text)[0][1]["text"] == "zażółć gęślą jaźń"


@pytest.mark.parametrize(
    "options",
    [
        {"cluster_linkage": "average"},
        {"representative_strategy": "auto"},
        {"enable_mmr": True},
        {"target": 3},
        {"embedding_model": "x"},
        {"chunks": []},
    ],
)
async def test_options_that_a_stream_cannot_have_are_a_problem_before_any_event(options: dict[str, object]) -> None:
    async with served() as api:
        answer = await post(api, line({**STABLE, **options}) + chunk(1, "a"))
        assert answer.status_code == 400
        assert answer.json()["where"].startswith("line 1")


async def test_the_defaults_of_a_whole_list_are_refused_with_what_to_send() -> None:
    async with served() as api:
        assert '"cluster_linkage": "leader"' in (await post(api, b"{}\n")).json()["detail"]


@pytest.mark.parametrize("body", [b"", b"\n \n", b"not json\n", b"[]\n", b"{"])
async def test_a_first_line_that_is_no_options_is_a_problem(body: bytes) -> None:
    async with served() as api:
        answer = await post(api, body)
        assert (answer.status_code, answer.headers["Content-Type"]) == (400, "application/problem+json")


@pytest.mark.parametrize(
    ("bad", "where", "status"),
    [
        (b"not json\n", "line 3 $", 400),
        (line({"id": 1}), "line 3 $", 400),
        (chunk(2, "b", score=0.6), "line 3 $.score", 400),
        (chunk(2, "b", embedding="x"), "line 3 $.embedding", 400),
        (chunk(2, "b", metadata=[]), "line 3 $.metadata", 400),
    ],
)
async def test_a_line_that_cannot_be_used_ends_the_stream_with_a_problem(bad: bytes, where: str, status: int) -> None:
    async with served() as api:
        first, (name, problem) = await stream(api, chunk(1, "a", score=0.5), bad, chunk(3, "c"))
        assert first[0] == "chunk"
        assert (name, problem["where"], problem["status"]) == ("error", where, status)
        await api.until_exposed('vecsieve_api_requests_total{route="optimize",status="4xx"} 1.0')


async def test_more_than_five_hundred_chunks_end_the_stream() -> None:
    async with served() as api:
        events = await stream(api, *(chunk(number, f"w{number}") for number in range(501)), target_k=2)
        assert [name for name, _ in events] == ["chunk", "chunk", "error"]
        assert events[-1][1]["wanted"] == "500 at most"


@pytest.mark.parametrize(("setting", "size"), [("body", 3000), ("line", 3000)])
async def test_a_body_or_a_line_beyond_its_limit_ends_the_stream(
    setting: str, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    if setting == "line":
        monkeypatch.setattr(module, "LINE_BYTES", 1000)
    begun = asyncio.Event()

    async def lines() -> AsyncIterator[bytes]:
        yield line(STABLE)
        await begun.wait()
        yield b"x" * size

    async with served(body_bytes=1000 if setting == "body" else 10_000) as api, aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{api.port}/v1/optimize"
        async with session.post(url, data=lines(), headers=HEAD) as answer:
            begun.set()
            ((name, problem),) = events_of(await answer.text())
        assert (name, problem["status"]) == ("error", 413)


async def test_lines_need_a_client_that_takes_events() -> None:
    async with served() as api:
        assert (await post(api, line(STABLE), Accept="application/json")).status_code == 406
        assert (await api.client.post("/health", content=b"", headers=HEAD)).status_code == 405


async def test_a_line_that_does_not_come_ends_the_stream_with_a_problem() -> None:
    async with served(limits={"body_timeout_seconds": 0.2}) as api:
        client = await RawClient.connect(api.port)
        options = line(STABLE)
        head = "".join(f"{name}: {value}\r\n" for name, value in HEAD.items())
        await client.send(
            b"POST /v1/optimize HTTP/1.1\r\nHost: localhost\r\n%sContent-Length: 999\r\n\r\n" % head.encode() + options
        )
        reply = await client.reply()
        ((name, problem),) = events_of(reply.body.decode())
        assert (name, problem["status"]) == ("error", 408)
        await client.close()


async def test_a_stream_ends_at_its_last_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LONGEST_SECONDS", 0.2)

    async def lines() -> AsyncIterator[bytes]:
        yield line(STABLE)
        await asyncio.sleep(5)

    async with served() as api, aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{api.port}/v1/optimize"
        with pytest.raises(aiohttp.ClientError):
            async with session.post(url, data=lines(), headers=HEAD) as answer:
                await answer.read()
        assert api.api.in_flight == 0


async def test_a_client_that_reads_no_events_is_not_read_from_and_loses_its_connection() -> None:
    async with served(limits={"stream_idle_timeout_seconds": 0.5}, body_bytes=2**30) as api:
        client = await RawClient.connect(api.port)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # - a transport of a socket has it
        head = "".join(f"{name}: {value}\r\n" for name, value in HEAD.items()) + "Transfer-Encoding: chunked\r\n"
        first = line({**STABLE, "target_k": 500})
        sent = b"POST /v1/optimize HTTP/1.1\r\nHost: localhost\r\n%s\r\n%x\r\n%s\r\n" % (
            head.encode(),
            len(first),
            first,
        )

        async def written() -> None:
            await client.send(sent)
            for number in range(400):
                chunk_line = chunk(number, f"word{number} " + "x" * 200_000)
                await client.send(b"%x\r\n%s\r\n" % (len(chunk_line), chunk_line))

        with pytest.raises(ConnectionError):
            await asyncio.wait_for(written(), 20)
        await client.close()
        assert await until(lambda: not api.api.in_flight)


async def test_a_stream_holds_a_place_until_it_ends() -> None:
    go = asyncio.Event()

    async def lines() -> AsyncIterator[bytes]:
        yield line(STABLE)
        yield chunk(1, "a")
        await go.wait()

    async with served(in_flight=1, limits={"in_flight_queue_seconds": 0.1}) as api, aiohttp.ClientSession() as session:
        url = f"http://127.0.0.1:{api.port}/v1/optimize"
        async with session.post(url, data=lines(), headers=HEAD) as answer:
            assert (await answer.content.readline()).startswith(b"event: chunk")
            assert (await api.client.post("/v1/optimize", json={"chunks": []})).status_code == 503
            go.set()
            await answer.read()
        assert (await api.client.post("/v1/optimize", json={"chunks": []})).status_code == 200


def feed_of() -> Feed:
    return Feed(now=lambda: 1.0, dropped=lambda _sink, _count: None)


def emit(feed: Feed, number: int, count: int = 1) -> None:
    feed.emit(EventName.ADDED, "c", [EventPoint(id=Raw(b"%d" % number))] * count)


async def test_a_feed_begins_at_once_and_a_silent_one_is_kept_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEARTBEAT_SECONDS", 0.02)
    feed = feed_of()
    async with served(routes_of(ApiSettings(), feed=feed)) as api, api.client.stream("GET", "/v1/events") as answer:
        lines = answer.aiter_lines()
        first_lines = [await anext(lines) for _ in range(4)]
        assert first_lines == [": listening", "", ": alive", ""]
        emit(feed, 7)
        data = [line async for line in _until(lines, "data: ")]
        assert json.loads(data[-1].removeprefix("data: "))["points"] == [{"id": 7}]


async def _until(lines: AsyncIterator[str], start: str) -> AsyncIterator[str]:
    async for line in lines:
        yield line
        if line.startswith(start):
            return


async def test_further_readers_are_refused_and_one_that_leaves_makes_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "HEARTBEAT_SECONDS", 0.02)
    feed = feed_of()
    async with served(routes_of(ApiSettings(), feed=feed)) as api:
        readers = [await RawClient.connect(api.port) for _ in range(MOST_READERS)]
        for reader in readers:
            await reader.send(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(20):
            while feed.readers < MOST_READERS:
                await asyncio.sleep(0.01)
            assert (await api.client.get("/v1/events")).status_code == 503
            assert (await api.client.get("/health")).status_code == 200
            await readers[0].close()
            while feed.readers == MOST_READERS:
                await asyncio.sleep(0.01)
        for reader in readers[1:]:
            await reader.close()


async def test_under_memory_pressure_there_is_no_feed() -> None:
    async with served(routes_of(ApiSettings(), feed=feed_of()), resident_bytes=90) as api:
        assert (await api.client.get("/v1/events")).status_code == 503


async def test_a_reader_that_does_not_read_loses_events_and_then_its_connection() -> None:
    dropped: list[int] = []
    feed = Feed(now=lambda: 1.0, dropped=lambda _sink, count: dropped.append(count))
    async with served(routes_of(ApiSettings(), feed=feed), limits={"stream_idle_timeout_seconds": 0.5}) as api:
        client = await RawClient.connect(api.port)
        client.writer.transport.pause_reading()  # type: ignore[attr-defined]  # - a transport of a socket has it
        await client.send(b"GET /v1/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        async with asyncio.timeout(30):
            while not feed.readers:
                await asyncio.sleep(0.01)
            while feed.readers:
                emit(feed, 1, count=20_000)
                await asyncio.sleep(0.005)
        assert dropped
        await client.close()


async def test_who_lost_events_is_told_how_many() -> None:
    feed = feed_of()
    async with served(routes_of(ApiSettings(), feed=feed)) as api, api.client.stream("GET", "/v1/events") as answer:
        lines = answer.aiter_lines()
        assert await anext(lines) == ": listening"
        for number in range(9):
            emit(feed, number, count=20_000)
        received = [line async for line in _until(lines, 'data: {"events":')]
        kept = sum(line == "event: added" for line in received)
        assert received[-2:] == ["event: dropped", f'data: {{"events":{9 - kept}}}']
        assert 0 < kept < 9


def test_the_data_of_an_event_has_no_line_end() -> None:
    assert event("chunk", b'{"a":\r1,\n"b": 2}\n') == b'event: chunk\ndata: {"a": 1, "b": 2}\n\n'
