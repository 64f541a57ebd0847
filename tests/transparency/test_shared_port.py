"""HTTP/1.1 and gRPC on one port, plain and over TLS, with the clients that people use."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import aiohttp
import grpc
import pytest

from support.network.certificates import Certificates, make_certificates
from support.network.faulty_upstream import RawClient
from support.network.loops import on_both_loops, run
from support.network.shared_ports import ALONE, METHOD, MIB, BothServers, both_servers, called
from vecsieve.proxy.grpc.shared_port import PREFACE
from vecsieve.proxy.http.tls import server_context

SECONDS = 30.0
SECURED = pytest.mark.parametrize("secured", [False, True], ids=["plain", "tls"])


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("ca"))


class Clients:
    """Ways to ask one port."""

    def __init__(self, both: BothServers, files: Certificates | None) -> None:
        self.both = both
        self.files = files
        self.trust = None if files is None else ssl.create_default_context(cafile=files.authority)

    def channel(self) -> grpc.aio.Channel:
        if self.files is None:
            return grpc.aio.insecure_channel(self.both.address, options=ALONE)
        credentials = grpc.ssl_channel_credentials(self.files.authority.read_bytes())
        return grpc.aio.secure_channel(self.both.address, credentials, options=ALONE)

    async def call(self, message: bytes) -> bytes:
        async with self.channel() as channel:
            return await called(channel, message)

    async def post(self, session: aiohttp.ClientSession, body: bytes) -> bytes:
        url = f"{'http' if self.trust is None else 'https'}://{self.both.address}/some/path"
        async with session.post(url, data=body, ssl=self.trust if self.trust is not None else True) as reply:
            assert (reply.status, reply.version) == (200, aiohttp.HttpVersion11)
            return await reply.read()


@asynccontextmanager
async def clients_of(files: Certificates, *, secured: bool) -> AsyncIterator[Clients]:
    tls = server_context(files.leaf, files.key, with_grpc=True) if secured else None
    async with both_servers(tls=tls) as both:
        yield Clients(both, files if secured else None)


@on_both_loops
@SECURED
async def test_both_are_answered_at_once(files: Certificates, secured: bool) -> None:
    async with clients_of(files, secured=secured) as clients, aiohttp.ClientSession() as session:
        channel = clients.channel()
        messages = [bytes([number]) * 1000 for number in range(40)]
        answers = await asyncio.gather(
            *(called(channel, message) for message in messages),
            *(clients.post(session, message) for message in messages),
        )
        assert answers == messages * 2
        assert len(clients.both.shared) == 1, "one gRPC connection"
        assert len(clients.both.served) == 40
        await channel.close()


@on_both_loops
@SECURED
async def test_8_mib_go_both_ways(files: Certificates, secured: bool) -> None:
    message = bytes(range(256)) * 4096 * 8
    assert len(message) == 8 * MIB
    async with clients_of(files, secured=secured) as clients, aiohttp.ClientSession() as session:
        answers = await asyncio.gather(clients.call(message), clients.post(session, b"meanwhile"))
        assert tuple(answers) == (message, b"meanwhile")


@SECURED
def test_200_connections_are_served(files: Certificates, secured: bool) -> None:
    async def story() -> None:
        async with clients_of(files, secured=secured) as clients:
            channels = [clients.channel() for _ in range(200)]
            answers = await asyncio.gather(*(called(channel, b"%d" % n) for n, channel in enumerate(channels)))
            assert answers == [b"%d" % number for number in range(200)]
            assert len(clients.both.shared) == clients.both.connections == 200
            await asyncio.gather(*(channel.close() for channel in channels))
            async with asyncio.timeout(SECONDS):
                while clients.both.connections:
                    await asyncio.sleep(0.01)

    run(asyncio.new_event_loop, story())


async def test_a_deadline_and_a_cancelled_call_leave_the_connection_usable() -> None:
    async def sleeps(message: bytes) -> bytes:
        await asyncio.sleep(60 if message == b"sleep" else 0)
        return message

    async with both_servers(echo=sleeps) as both, Clients(both, None).channel() as channel:
        method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
        with pytest.raises(grpc.aio.AioRpcError) as late:
            await method(b"sleep", timeout=0.1)
        assert late.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
        cancelled = method(b"sleep")
        await asyncio.sleep(0.05)
        cancelled.cancel()
        assert await called(channel, b"on") == b"on"
        assert len(both.shared) == 1


@pytest.mark.parametrize("offered", [["h2"], ["h2", "http/1.1"], ["http/1.1"], []])
async def test_http_1_is_served_whatever_was_agreed_on(files: Certificates, offered: list[str]) -> None:
    trust = ssl.create_default_context(cafile=files.authority)
    trust.set_alpn_protocols(offered)
    async with clients_of(files, secured=True) as clients:
        streams = await asyncio.open_connection("127.0.0.1", clients.both.port, ssl=trust)
        client = RawClient(*streams)
        await client.send(b"GET / HTTP/1.1\r\nHost: c\r\n\r\n")
        assert (await client.reply()).body == b"http"
        await client.close()


async def test_http_2_is_served_without_having_been_agreed_on(files: Certificates) -> None:
    trust = ssl.create_default_context(cafile=files.authority)
    async with clients_of(files, secured=True) as clients:
        client = RawClient(*await asyncio.open_connection("127.0.0.1", clients.both.port, ssl=trust))
        await client.send(PREFACE + b"\0\0\0\4\0\0\0\0\0")  # and empty SETTINGS
        assert (await client.reader.readexactly(9))[3] == 4, "the server's SETTINGS"
        await client.close()


async def test_tls_without_grpc_serves_http_1_alone(files: Certificates) -> None:
    tls = server_context(files.leaf, files.key, with_grpc=False)
    async with both_servers(tls=tls, with_grpc=False) as both, aiohttp.ClientSession() as session:
        clients = Clients(both, files)
        assert await clients.post(session, b"hello") == b"hello"
        with pytest.raises(grpc.aio.AioRpcError):
            await clients.call(b"")
        assert len(both.shared) == 0


async def test_an_upgrade_to_h2c_is_left_to_http_1_which_answers_the_request() -> None:
    upgrade = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAAP__\r\n\r\n"
    async with both_servers() as both:
        client = await RawClient.connect(both.port)
        await client.send(b"GET / HTTP/1.1\r\nHost: c\r\n" + upgrade)
        reply = await client.reply()
        assert (reply.status, reply.body) == (200, b"http")
        await client.close()


async def test_a_pipelined_request_in_the_first_segment_is_not_lost() -> None:
    async with both_servers() as both:
        client = await RawClient.connect(both.port)
        await client.send(
            b"POST /1 HTTP/1.1\r\nHost: c\r\nContent-Length: 2\r\n\r\nabGET /2 HTTP/1.1\r\nHost: c\r\n\r\n"
        )
        assert [(await client.reply()).body, (await client.reply()).body] == [b"ab", b"http"]
        assert [path for path, _ in both.served] == ["/1", "/2"]
        await client.close()
