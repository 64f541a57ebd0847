"""A shared port under clients that stall, lie or are too many, and at its end."""

from __future__ import annotations

import asyncio
import ssl
from pathlib import Path

import grpc
import pytest

from support.network.certificates import Certificates, make_certificates
from support.network.faulty_upstream import RawClient
from support.network.loops import on_both_loops
from support.network.shared_ports import ALONE, BothServers, as_it_came, both_servers, called
from vecsieve.config.schema import LimitSettings
from vecsieve.proxy.grpc.shared_port import PREFACE
from vecsieve.proxy.http.tls import server_context

HURRIED = LimitSettings(head_timeout_seconds=0.2)
SECONDS = 20.0


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("ca"))


def channel(both: BothServers) -> grpc.aio.Channel:
    return grpc.aio.insecure_channel(both.address, options=ALONE)


async def ended(client: RawClient) -> bytes:
    """What came until the connection ended; nothing when it was reset."""
    try:
        return await client.rest()
    except ConnectionError:
        return b""


async def emptied(both: BothServers) -> None:
    async with asyncio.timeout(SECONDS):
        while both.connections:
            await asyncio.sleep(0.005)


@pytest.mark.parametrize("beginning", [b"P", b"PRI * HTTP/2.0\r\n\r\nS"])
async def test_one_that_begins_and_stalls_is_answered_408_at_the_deadline(beginning: bytes) -> None:
    async with both_servers(limits=HURRIED) as both:
        client = await RawClient.connect(both.port)
        await client.send(beginning)
        answer = await client.rest()
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert (both.heard.rejected, both.connections) == (["head_timeout"], 0)
        await client.close()


async def test_a_stalled_head_of_http_1_meets_http_1s_own_deadline() -> None:
    async with both_servers(limits=HURRIED) as both:
        client = await RawClient.connect(both.port)
        await client.send(b"G")
        assert (await client.rest()).startswith(b"HTTP/1.1 408 ")
        assert both.heard.rejected == ["head_timeout"]
        await client.close()


async def test_one_on_which_nothing_comes_is_closed_without_a_word() -> None:
    async with both_servers(limits=HURRIED) as both:
        client = await RawClient.connect(both.port)
        assert await ended(client) == b""
        assert (both.heard.rejected, both.connections) == (["silent"], 0)
        await client.close()


@pytest.mark.parametrize("rest", [b"X", b"SM\r\n\r\rGET / HTTP/1.1\r\n\r\n"])
async def test_half_a_preface_and_something_else_is_refused_as_http_1(rest: bytes) -> None:
    async with both_servers() as both:
        client = await RawClient.connect(both.port)
        await client.send(PREFACE[:18])
        await client.send(rest)
        assert (await client.rest()).split(b" ")[1] in {b"400", b"505"}
        assert len(both.shared) == 0
        assert both.served == []
        await client.close()


async def test_garbage_after_the_preface_is_the_grpc_servers_to_refuse() -> None:
    async with both_servers() as both:
        client = await RawClient.connect(both.port)
        await client.send(PREFACE + b"\xff" * 64)
        await ended(client)
        await client.close()
        await emptied(both)
        assert both.served == []


async def test_a_spliced_connection_may_idle_past_the_deadline_of_heads() -> None:
    async with both_servers(limits=HURRIED) as both, channel(both) as through:
        assert await called(through, b"1") == b"1"
        await asyncio.sleep(0.5)
        assert await called(through, b"2") == b"2"
        assert (len(both.shared), both.heard.rejected) == (1, [])


async def refused_beyond(count: int, both: BothServers) -> RawClient:
    """A client that comes when there are so many."""
    async with asyncio.timeout(SECONDS):
        while both.connections < count:
            await asyncio.sleep(0.005)
    client = await RawClient.connect(both.port)
    assert await ended(client) == b""
    assert both.heard.rejected == ["limit"]
    return client


async def test_the_limit_counts_the_undecided_the_spliced_and_http_1_together() -> None:
    async with both_servers(limits=LimitSettings(connections=3)) as both, channel(both) as through:
        assert await called(through, b"spliced") == b"spliced"
        undecided, http = await RawClient.connect(both.port), await RawClient.connect(both.port)
        await undecided.send(b"P")
        await http.send(b"POST / HTTP/1.1\r\nHost: c\r\nContent-Length: 1\r\n\r\n")  # its body does not come: busy
        refused = await refused_beyond(3, both)
        assert await called(through, b"lives") == b"lives"
        for client in (undecided, http, refused):
            await client.close()


async def test_handshakes_count_too_and_have_a_deadline(files: Certificates) -> None:
    tls = server_context(files.leaf, files.key, with_grpc=True)
    limits = LimitSettings(connections=2, head_timeout_seconds=3.0)
    async with both_servers(limits=limits, tls=tls) as both:
        waiting = [await RawClient.connect(both.port) for _ in range(2)]
        refused = await refused_beyond(2, both)
        await emptied(both)
        assert both.heard.rejected == ["limit", "silent", "silent"]
        for client in (*waiting, refused):
            await client.close()


@on_both_loops
async def test_a_failed_or_cut_handshake_leaves_nothing_open(files: Certificates) -> None:
    tls = server_context(files.leaf, files.key, with_grpc=True)
    async with both_servers(tls=tls) as both:
        before = _descriptors()
        for _ in range(5):
            client = await RawClient.connect(both.port)
            await client.send(b"GET / HTTP/1.1\r\nHost: plain\r\n\r\n")
            await ended(client)
            await client.close()
            with pytest.raises(ssl.SSLError):
                await asyncio.open_connection("localhost", both.port, ssl=ssl.create_default_context())
            gone = await RawClient.connect(both.port)
            gone.reset()
        await emptied(both)
        await asyncio.sleep(0.05)
        assert _descriptors() <= before
        late = await RawClient.connect(both.port)
        await asyncio.sleep(0.05)
        await both.shared.close(grace_seconds=SECONDS)
        await late.close()
        await asyncio.sleep(0.05)
        assert both.connections == 0
        assert _descriptors() <= before


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


@on_both_loops
async def test_draining_lets_a_call_finish_and_ends_the_connection_by_goaway() -> None:
    begun, may_end = asyncio.Event(), asyncio.Event()

    async def waits(message: bytes) -> bytes:
        begun.set()
        await may_end.wait()
        return message

    async with both_servers(echo=waits) as both, channel(both) as through:
        call = asyncio.ensure_future(called(through, b"in flight"))
        await begun.wait()
        both.listening.close()
        ending = asyncio.gather(both.grpc_server.stop(SECONDS), both.shared.close(grace_seconds=SECONDS))
        await asyncio.sleep(0.1)
        assert not ending.done()
        may_end.set()
        assert await call == b"in flight"
        await asyncio.wait_for(ending, SECONDS)
        assert both.connections == 0


@on_both_loops
async def test_after_the_grace_a_call_is_cut() -> None:
    async def never(message: bytes) -> bytes:
        await asyncio.sleep(600)
        return message

    async with both_servers(echo=never) as both, channel(both) as through:
        call = asyncio.ensure_future(called(through, b"too long"))
        async with asyncio.timeout(SECONDS):
            while not len(both.shared):
                await asyncio.sleep(0.01)
        both.listening.close()
        await asyncio.wait_for(both.shared.close(grace_seconds=0.1), SECONDS)
        with pytest.raises(grpc.aio.AioRpcError) as cut:
            await call
        assert cut.value.code() is grpc.StatusCode.UNAVAILABLE
        assert both.connections == 0


async def test_a_client_that_vanishes_gives_its_place_back() -> None:
    async with both_servers(echo=as_it_came) as both:
        client = await RawClient.connect(both.port)
        await client.send(PREFACE + b"\0\0\0\4\0\0\0\0\0")
        await client.reader.readexactly(9)
        assert both.connections == 1
        client.reset()
        await emptied(both)
