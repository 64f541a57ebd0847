from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from support.network.faulty_upstream import FaultyUpstream, Talk, answering, reply
from support.network.upstream_wire import body_of, sending
from vecsieve.config.schema import UpstreamSettings
from vecsieve.proxy.http.connections import Events
from vecsieve.proxy.http.pools import Census
from vecsieve.proxy.http.upstream import SAFE_METHODS, Upstream
from vecsieve.proxy.runtime.loop import Owner
from vecsieve.proxy.search.errors import LostReplyError
from vecsieve.proxy.telemetry.labels import FailOpen


@pytest.fixture
async def database() -> AsyncIterator[FaultyUpstream]:
    async with FaultyUpstream(answering(reply(b"0123456789"))) as upstream:
        yield upstream


@pytest.fixture
async def upstream(database: FaultyUpstream) -> AsyncIterator[Upstream]:
    made = Upstream(UpstreamSettings(url=database.url))
    yield made
    await made.close()


def test_everything_unknown_is_a_write() -> None:
    assert {"GET", "HEAD", "OPTIONS"} == SAFE_METHODS


@pytest.mark.parametrize(
    "target", ["//evil.example/a", "/@evil.example/", "/a/../../b", "/?x=http://evil/", "/a#b", "/\\evil"]
)
async def test_no_target_leads_anywhere_else(database: FaultyUpstream, upstream: Upstream, target: str) -> None:
    async with sending(upstream, method="GET", raw_target=target, headers=[], body=None) as answer:
        assert answer.status == 200
    assert database.requests[0].line == f"GET {target} HTTP/1.1".encode()
    assert database.requests[0].headers == [(b"Host", f"127.0.0.1:{database.port}".encode())]


@pytest.mark.parametrize(
    ("body", "length", "expected"),
    [
        (b"abc", None, [(b"Content-Length", b"3")]),
        (b"", None, [(b"Content-Length", b"0")]),
        (None, 0, [(b"Content-Length", b"0")]),
        (None, None, []),
    ],
)
async def test_the_body_decides_the_framing_whatever_the_list_says(
    database: FaultyUpstream, upstream: Upstream, body: bytes | None, length: int | None, expected: list[object]
) -> None:
    headers = [(b"Host", b"c"), (b"Transfer-Encoding", b"chunked")]
    async with sending(
        upstream, method="POST", raw_target="/", headers=headers, body=body, content_length=length
    ) as answer:
        assert await answer.read_bounded(10) == b"0123456789"
    assert database.requests[0].headers[1:] == expected
    assert database.requests[0].body == (body or b"")


@pytest.mark.parametrize("length", [None, 6])
async def test_an_iterator_is_chunked_unless_its_length_is_known(
    database: FaultyUpstream, upstream: Upstream, length: int | None
) -> None:
    async def pieces() -> AsyncIterator[bytes]:
        yield b"abc"
        yield b"def"

    async with sending(upstream, method="PUT", raw_target="/", headers=[], body=pieces(), content_length=length):
        pass
    assert database.requests[0].content == b"abcdef"
    assert (database.requests[0].header(b"content-length") is None) is (length is None)


async def test_a_large_body_of_bytes_arrives_whole(database: FaultyUpstream, upstream: Upstream) -> None:
    body = bytes(range(256)) * 10_000
    async with sending(upstream, method="PUT", raw_target="/", headers=[], body=body):
        pass
    assert database.requests[0].body == body


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("answer", "pause_seconds", "announced", "received"),
    [
        (reply(b"0123456789"), 0.0, [10], 10),
        (reply(b"0123456789"), 0.1, [10], 0),
        (CHUNKED, 0.0, [10], 10),
        (CHUNKED, 0.1, [0, 10], 10),
    ],
)
async def test_whether_a_body_may_be_held_is_asked_when_it_is_announced_and_as_it_arrives(
    database: FaultyUpstream,
    upstream: Upstream,
    answer: bytes,
    pause_seconds: float,
    announced: list[int],
    received: int,
) -> None:
    async def script(talk: Talk) -> None:
        await talk.request()
        head, _, body = answer.partition(b"\r\n\r\n")
        if pause_seconds:
            await talk.send(head + b"\r\n\r\n")
            await asyncio.sleep(pause_seconds)
            await talk.send(body)
        else:
            await talk.send(answer)

    database.script = script
    heard = list[int]()

    def fits(size: int) -> bool:
        heard.append(size)
        return size < 10

    async with sending(upstream, method="GET", raw_target="/", headers=[], body=None) as got:
        with pytest.raises(LostReplyError) as dropped:
            await got.read_bounded(100, fits=fits)
    assert heard == announced
    assert (dropped.value.reason, dropped.value.received_bytes) == (FailOpen.OVERLOAD, received)


@pytest.mark.parametrize(
    "answer",
    [reply(b"0123456789"), b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\na\r\n0123456789\r\n0\r\n\r\n"],
)
async def test_reading_is_bounded_by_declared_and_by_real_size(
    database: FaultyUpstream, upstream: Upstream, answer: bytes
) -> None:
    database.script = answering(answer)
    async with sending(upstream, method="GET", raw_target="/", headers=[], body=None) as got:
        assert await got.read_bounded(10) == b"0123456789"
    async with sending(upstream, method="GET", raw_target="/", headers=[], body=None) as got:
        with pytest.raises(LostReplyError) as dropped:
            await got.read_bounded(9)
        assert dropped.value.reason is FailOpen.TOO_LARGE


async def test_a_body_is_read_in_pieces(upstream: Upstream) -> None:
    async with sending(upstream, method="GET", raw_target="/", headers=[], body=None) as answer:
        assert await body_of(answer) == b"0123456789"
        assert answer.is_upload_over


async def test_a_reply_that_was_not_read_does_not_go_back_to_the_pool(
    database: FaultyUpstream, upstream: Upstream
) -> None:
    database.script = answering(reply(b"x" * 3_000_000))
    for _ in range(2):
        async with sending(upstream, method="GET", raw_target="/", headers=[], body=None) as answer:
            assert answer.status == 200
    assert database.connections == 2


async def test_writes_left_behind_are_cut_after_the_grace_period() -> None:
    arrived, over = asyncio.Event(), asyncio.Event()

    async def script(talk: Talk) -> None:
        await talk.request()
        arrived.set()
        await talk.reader.read()
        over.set()

    async with FaultyUpstream(script) as database:
        upstream, writes = Upstream(UpstreamSettings(url=database.url)), Owner()
        opening = upstream.open(
            method="DELETE",
            raw_target="/",
            headers=[],
            body=None,
            content_length=None,
            is_search=False,
            leave=writes.start,
        )
        client = asyncio.create_task(opening)
        await arrived.wait()
        client.cancel()
        await asyncio.gather(client, return_exceptions=True)
        assert len(writes) == 1
        assert not over.is_set()
        await writes.close(grace_seconds=0.05)
        await asyncio.wait_for(over.wait(), 5)
        assert len(writes) == 0
        await upstream.close()


def test_without_metrics_every_event_is_taken() -> None:
    quiet = Events()
    quiet.connection_rejected("limit")
    quiet.answered_locally("internal")
    quiet.upstream_failed("reset")


async def test_the_pools_tell_what_they_hold_and_how_many_connections_they_opened(
    database: FaultyUpstream, upstream: Upstream
) -> None:
    assert upstream.census() == Census(busy=0, idle=0, waiting=0, opened=0)
    async with sending(upstream, method="GET", raw_target="/", headers=[], body=None) as answer:
        await answer.read_bounded(10)
    async with sending(upstream, method="GET", raw_target="/", headers=[], body=None) as answer:
        await answer.read_bounded(10)
    assert upstream.census() == Census(busy=0, idle=1, waiting=0, opened=1), "the second used the first one's"
    async with sending(upstream, method="PUT", raw_target="/", headers=[], body=b"x") as answer:
        await answer.read_bounded(10)
    assert upstream.census() == Census(busy=0, idle=2, waiting=0, opened=2), "writes have a pool of their own"
    await upstream.close()
    assert upstream.census() == Census(busy=0, idle=0, waiting=0, opened=0)


async def test_requests_beyond_the_pool_are_seen_to_wait() -> None:
    may_answer = asyncio.Event()

    async def hesitates(talk: Talk) -> None:
        while await talk.request() is not None:
            await may_answer.wait()
            await talk.send(reply(b"0123456789"))

    async def ask(upstream: Upstream) -> None:
        async with sending(upstream, method="GET", raw_target="/", headers=[], body=None) as answer:
            await answer.read_bounded(10)

    async with FaultyUpstream(hesitates) as database:
        upstream = Upstream(UpstreamSettings(url=database.url, pool_connections=1))
        requests = [asyncio.create_task(ask(upstream)) for _ in range(3)]
        for _ in range(200):
            if upstream.census() == Census(busy=1, idle=0, waiting=2, opened=1):
                break
            await asyncio.sleep(0.01)
        seen = upstream.census()
        may_answer.set()
        await asyncio.gather(*requests)
        left = upstream.census()
        await upstream.close()
    assert seen == Census(busy=1, idle=0, waiting=2, opened=1)
    assert left == Census(busy=0, idle=1, waiting=0, opened=1)


async def test_a_write_that_waits_for_a_connection_goes_with_its_client() -> None:
    may_answer = asyncio.Event()

    async def hesitates(talk: Talk) -> None:
        await talk.request()
        await may_answer.wait()
        await talk.send(reply(b"ok"))

    async with FaultyUpstream(hesitates) as database:
        upstream, writes = Upstream(UpstreamSettings(url=database.url, pool_connections=1)), Owner()
        requests = [
            asyncio.create_task(
                upstream.open(
                    method="DELETE",
                    raw_target=f"/{number}",
                    headers=[],
                    body=None,
                    content_length=None,
                    is_search=False,
                    leave=writes.start,
                )
            )
            for number in range(2)
        ]
        async with asyncio.timeout(30):
            while upstream.census() != Census(busy=1, idle=0, waiting=1, opened=1) or not database.requests:
                await asyncio.sleep(0.01)
        requests[1].cancel()
        may_answer.set()
        await (await requests[0]).close()
        await asyncio.gather(*requests, return_exceptions=True)
        assert len(writes) == 0
        assert [request.line for request in database.requests] == [b"DELETE /0 HTTP/1.1"]
        await upstream.close()
