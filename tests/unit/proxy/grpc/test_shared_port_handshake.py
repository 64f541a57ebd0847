from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from support.network.certificates import Certificates, make_certificates
from support.network.loops import on_both_loops
from support.network.relay_server import Invalidation, PlainDialect
from support.network.streams import listening
from vecsieve.proxy.grpc.connections import SharedConnections
from vecsieve.proxy.grpc.shared_port import Handshake
from vecsieve.proxy.http.answers import LocalAnswers
from vecsieve.proxy.http.connections import Connections
from vecsieve.proxy.http.protocol import ConnectionRules
from vecsieve.proxy.http.tls import server_context

PATIENCE = 10.0


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return make_certificates(tmp_path_factory.mktemp("ca"))


class Echo(asyncio.Protocol):
    """Stands behind the handshake. ``guests_seen``: how many there were when it was made."""

    def __init__(self, port: Port) -> None:
        self.port = port
        port.echoes.append(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.guests_seen = len(self.port.connections)

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)  # type: ignore[attr-defined]  # - a socket's transport can


class Port:
    """A TLS port and what it told."""

    def __init__(self, *, seconds: float, limit: int) -> None:
        self.heard, self.echoes, self.number = Invalidation(), list[Echo](), 0
        ledger = Connections(limit=limit, events=self.heard)
        self.rules = ConnectionRules(seconds, ledger, LocalAnswers(PlainDialect()), self.heard)
        self.connections = SharedConnections(ledger)

    async def emptied(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(self.connections):
                await asyncio.sleep(0.005)


@asynccontextmanager
async def secured_port(files: Certificates, *, seconds: float = 10.0, limit: int = 10) -> AsyncIterator[Port]:
    port, context = Port(seconds=seconds, limit=limit), server_context(files.leaf, files.key, with_grpc=True)
    async with listening(lambda: Handshake(port.rules, port.connections, context, lambda: Echo(port))) as server:
        port.number = server.sockets[0].getsockname()[1]
        yield port
        server.close()
        await port.connections.close(grace_seconds=0)


@on_both_loops
async def test_after_it_the_next_protocol_has_the_transport_and_the_place_is_free(files: Certificates) -> None:
    async with secured_port(files) as port:
        trust = ssl.create_default_context(cafile=files.authority)
        reader, writer = await asyncio.open_connection("localhost", port.number, ssl=trust)
        writer.write(b"hello")
        assert await asyncio.wait_for(reader.readexactly(5), PATIENCE) == b"hello"
        (echo,) = port.echoes
        assert (echo.guests_seen, len(port.connections)) == (0, 0)
        own = echo.transport.get_extra_info("socket")
        assert own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()


@on_both_loops
async def test_one_that_says_nothing_is_let_go_at_the_deadline(files: Certificates) -> None:
    async with secured_port(files, seconds=0.1) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
        await port.emptied()
        assert port.heard.rejected == ["silent"]
        writer.close()


@on_both_loops
async def test_plaintext_is_refused_and_counted_nowhere(files: Certificates) -> None:
    async with secured_port(files) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            assert not (await asyncio.wait_for(reader.read(), PATIENCE)).startswith(b"HTTP")
        await port.emptied()
        assert port.heard.rejected == []
        writer.close()


@on_both_loops
async def test_at_the_limit_no_handshake_is_begun(files: Certificates) -> None:
    async with secured_port(files, limit=0) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
        assert (port.heard.rejected, port.echoes) == (["limit"], [])
        writer.close()


@on_both_loops
@pytest.mark.parametrize("turns", [0, 1, 2, 5])
async def test_one_that_is_cut_at_any_moment_leaves_no_socket_open(files: Certificates, turns: int) -> None:
    async with secured_port(files) as port:
        with socket.create_connection(("127.0.0.1", port.number)) as client:
            async with asyncio.timeout(PATIENCE):
                while not len(port.connections):
                    await asyncio.sleep(0)
            for _ in range(turns):
                await asyncio.sleep(0)
            await port.connections.close(grace_seconds=0)
            await asyncio.sleep(0.01)
            client.settimeout(PATIENCE)
            with contextlib.suppress(ConnectionError):
                assert client.recv(1) == b"", "still open on the other side"
        assert len(port.connections) == 0
