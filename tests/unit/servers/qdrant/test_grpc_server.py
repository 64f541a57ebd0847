"""The gRPC listener behaves as the real server's: compression by what the client takes, messages of any size, its own port."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import pytest
from grpc.aio import insecure_channel
from servers.qdrant.grpc_messages import messages
from servers.qdrant.grpc_server import authority
from servers.qdrant.server import QdrantServer, start

from support.embedded import embedded_server, exchange, start_embedded_grpc_process
from vecsieve.config.addresses import Address

UNLIMITED = ("grpc.max_receive_message_length", -1)
IDENTITY_ONLY = ("grpc.compression_enabled_algorithms_bitset", 1)


class Counted:
    """A TCP relay that counts what the server sent."""

    def __init__(self) -> None:
        self.received = 0
        self.port = 0

    @asynccontextmanager
    async def to(self, port: int) -> AsyncIterator[None]:
        async with await asyncio.start_server(lambda *ends: self._relay(port, *ends), "127.0.0.1", 0) as server:
            self.port = server.sockets[0].getsockname()[1]
            yield

    async def _relay(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(self._copy(reader, far_writer, False), self._copy(far_reader, writer, True))

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, counts: bool) -> None:
        while piece := await source.read(65_536):
            self.received += len(piece) if counts else 0
            target.write(piece)
        target.close()


def port_of(server: QdrantServer) -> int:
    assert server.grpc_url is not None
    return int(server.grpc_url.rsplit(":", 1)[1])


async def asked(channel: grpc.aio.Channel, path: str, body: bytes = b"") -> bytes:
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
    return await call(body, timeout=20)


async def listed(port: int, *options: tuple[str, int]) -> bytes:
    async with insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        return await asked(channel, "/qdrant.Collections/List")


async def test_answers_are_compressed_for_those_who_take_it_and_for_no_one_else() -> None:
    name = "n" * 200
    async with embedded_server(with_grpc=True) as server:
        settings = {"vectors": {"size": 2, "distance": "Dot"}}
        await asyncio.to_thread(exchange, server.url, "PUT", f"/collections/{name}", settings)
        sizes = []
        for options in ((), (IDENTITY_ONLY,)):
            counted = Counted()
            async with counted.to(port_of(server)):
                reply = await listed(counted.port, *options)
                assert messages().ListCollectionsResponse.FromString(reply).collections[0].name == name
            sizes.append(counted.received)
    assert sizes[1] - sizes[0] > 100


async def test_a_message_may_be_larger_than_grpcs_usual_limit() -> None:
    text = "".join(chr(97 + number % 26) for number in range(6_000_000))
    async with embedded_server(with_grpc=True) as server:
        settings = {"vectors": {"size": 2, "distance": "Dot"}}
        await asyncio.to_thread(exchange, server.url, "PUT", "/collections/c", settings)
        message = messages().UpsertPoints(collection_name="c", wait=True)
        point = message.points.add(id={"num": 1}, vectors={"vector": {"data": [1, 2]}})
        point.payload["text"].string_value = text
        wanted = messages().GetPoints(collection_name="c", ids=[{"num": 1}], with_payload={"enable": True})
        async with insecure_channel(f"127.0.0.1:{port_of(server)}", options=(UNLIMITED,)) as channel:
            await asked(channel, "/qdrant.Points/Upsert", message.SerializeToString())
            reply = await asked(channel, "/qdrant.Points/Get", wanted.SerializeToString())
        assert messages().GetResponse.FromString(reply).result[0].payload["text"].string_value == text


async def test_a_taken_port_is_an_error_and_lets_go_of_everything(tmp_path: Path) -> None:
    async with embedded_server(with_grpc=True) as server:
        taken = Address("127.0.0.1", port_of(server))
        with pytest.raises(OSError, match=rf"cannot listen on 127\.0\.0\.1:{taken.port} for gRPC"):
            await start(host="127.0.0.1", port=0, path=tmp_path, grpc_address=taken)
        async with embedded_server(tmp_path) as later:
            assert later.grpc_url is None


async def test_a_closed_server_takes_no_more_calls() -> None:
    async with embedded_server(with_grpc=True) as server:
        port = port_of(server)
        await listed(port)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await listed(port)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_ipv6_listens_and_says_so_in_brackets() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    server = await start(host="::1", port=0, grpc_address=Address("::1", 0))
    try:
        assert server.grpc_url == f"http://{authority(Address('::1', port_of(server)))}"
        async with insecure_channel(server.grpc_url.removeprefix("http://")) as channel:
            assert await asked(channel, "/qdrant.Qdrant/HealthCheck")
    finally:
        await server.close()


def test_the_process_says_where_both_listen() -> None:
    with start_embedded_grpc_process() as (url, grpc_url):
        assert url != grpc_url
        with grpc.insecure_channel(grpc_url.removeprefix("http://")) as channel:
            call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/qdrant.Qdrant/HealthCheck")
            assert call(b"", timeout=20)
