from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.grpc.spliced import Spliced, of_a_splice
from support.network.certificates import Certificates, make_certificates
from support.network.loops import on_both_loops
from support.network.relay_server import Invalidation, PlainDialect
from support.network.streams import listening, serving_at
from vecsieve.proxy.grpc.connections import InnerSocket, SharedConnections
from vecsieve.proxy.grpc.frames import Calls
from vecsieve.proxy.grpc.shared_port import PREFACE, Detecting, Handshake, SharedPort
from vecsieve.proxy.grpc.splice import Splice
from vecsieve.proxy.http.answers import LocalAnswers
from vecsieve.proxy.http.connections import Connections
from vecsieve.proxy.http.protocol import ConnectionRules
from vecsieve.proxy.http.tls import server_context


def rules() -> ConnectionRules:
    heard = Invalidation()
    return ConnectionRules(1.0, Connections(limit=10, events=heard), LocalAnswers(PlainDialect()), heard)


@pytest.mark.parametrize(
    ("with_grpc", "with_tls", "first"),
    [
        (False, False, asyncio.Protocol),
        (True, False, Detecting),
        (False, True, Handshake),
        (True, True, Handshake),
    ],
)
async def test_what_a_port_does_not_have_stands_in_nobodys_way(with_grpc: bool, with_tls: bool, first: type) -> None:
    inner = InnerSocket(Calls())
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER) if with_tls else None
    port = SharedPort(rules(), inner=inner if with_grpc else None, tls=tls)
    assert type(port.before(asyncio.Protocol)()) is first
    inner.close()


async def test_closing_an_empty_port_waits_for_nobody() -> None:
    port = SharedPort(rules())
    await asyncio.wait_for(port.close(grace_seconds=60), 1)
    assert len(port) == 0


class Socket:
    """Options are taken and forgotten."""

    def setsockopt(self, *option: object) -> None:
        pass


class Wire(asyncio.Transport):
    """A transport that remembers what was done to it."""

    def __init__(self) -> None:
        super().__init__({"socket": Socket()})
        self.protocol: asyncio.BaseProtocol | None = None
        self.written = b""
        self.end = ""
        self.is_paused = False

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def write(self, data: Any) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return bool(self.end)

    def close(self) -> None:
        self.end = self.end or "closed"

    def abort(self) -> None:
        self.end = self.end or "aborted"
        assert self.protocol is not None
        asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False


class Served(asyncio.Protocol):
    """The HTTP/1 side: every byte and call, in order."""

    def __init__(self) -> None:
        self.calls: list[str] = []
        self.received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.calls.append("made")

    def data_received(self, data: bytes) -> None:
        self.calls.append("data")
        self.received += data


class Scene:
    """One arrival on a wire, with all that stands around it."""

    def __init__(self, *, seconds: float = 60.0, limit: int = 10) -> None:
        self.heard, self.wire, self.served = Invalidation(), Wire(), Served()
        self.ledger = Connections(limit=limit, events=self.heard)
        rules = ConnectionRules(seconds, self.ledger, LocalAnswers(PlainDialect()), self.heard)
        self.connections, self.inner = SharedConnections(self.ledger), InnerSocket(Calls())
        self.made = 0
        self.arrival = Detecting(rules, self.connections, self.inner, self._http)
        self.wire.set_protocol(self.arrival)
        self.arrival.connection_made(self.wire)

    def _http(self) -> Served:
        self.made += 1
        return self.served

    async def comes(self, data: bytes) -> None:
        """Bytes go to whoever has the transport now, as from the loop."""
        while self.wire.is_paused:
            await asyncio.sleep(0)
        assert isinstance(self.wire.protocol, asyncio.Protocol)
        self.wire.protocol.data_received(data)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.connections.close(grace_seconds=0)
        self.inner.close()


def pieces(data: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return [data[start:end] for start, end in itertools.pairwise(places)]


HTTP_1 = st.one_of(
    st.sampled_from([b"GET", b"POST", b"PUT", b"PATCH", b"PROPFIND", b"PRI"]).map(
        lambda name: name + b" / HTTP/1.1\r\n"
    ),
    st.integers(0, 23).map(lambda length: PREFACE[:length] + b"\0"),
    st.binary(min_size=1, max_size=64).filter(lambda data: not PREFACE.startswith(data[:24])),
)


@given(HTTP_1, st.binary(max_size=64), st.lists(st.integers(0, 200), max_size=12))
def test_http_1_gets_every_byte_once_and_in_order_however_they_are_split(
    first: bytes, rest: bytes, cuts: list[int]
) -> None:
    """The HTTP/1 side is made once and receives exactly what was sent, for any split."""

    async def story() -> None:
        async with Scene() as scene:
            for piece in pieces(first + rest, cuts):
                await scene.comes(piece)
            await asyncio.sleep(0)
            assert scene.made == 1
            assert scene.wire.protocol is scene.served
            assert scene.served.calls[:2] == ["made", "data"]
            assert scene.served.received == first + rest
            assert len(scene.ledger) == 0, "the place is HTTP/1's to take"

    asyncio.run(story())


@given(st.binary(max_size=64), st.lists(st.integers(0, 200), max_size=12))
def test_the_preface_leads_to_a_splice_however_it_is_split(rest: bytes, cuts: list[int]) -> None:
    """A connection that begins with the preface never reaches the HTTP/1 side, and is not read before grpc is there."""

    async def story() -> None:
        async with Scene() as scene:
            for piece in pieces(PREFACE, cuts):
                assert scene.wire.protocol is scene.arrival
                assert not scene.wire.is_paused
                await scene.comes(piece)
            assert scene.wire.protocol is not scene.arrival
            assert scene.wire.is_paused
            assert (scene.made, len(scene.ledger)) == (0, 1)

    asyncio.run(story())


async def test_bytes_in_the_segment_of_the_preface_are_kept() -> None:
    received = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        received.set_result(await reader.readexactly(len(PREFACE) + 5))

    async with Scene() as scene, serving_at(scene.inner.path, serve):
        await scene.comes(PREFACE[:3])
        await scene.comes(PREFACE[3:] + b"hello")
        assert await asyncio.wait_for(received, 5) == PREFACE + b"hello"


async def test_a_silent_connection_is_closed_without_a_word() -> None:
    async with Scene(seconds=0.01) as scene:
        await asyncio.sleep(0.05)
        assert (scene.wire.end, scene.wire.written) == ("aborted", b"")
        assert (scene.heard.rejected, scene.heard.answered) == (["silent"], [])
        assert len(scene.ledger) == 0


@pytest.mark.parametrize("beginning", [b"P", PREFACE[:-1]])
async def test_a_beginning_without_an_end_is_a_late_head(beginning: bytes) -> None:
    async with Scene(seconds=0.01) as scene:
        await scene.comes(beginning)
        await asyncio.sleep(0.05)
        assert scene.wire.written.startswith(b"HTTP/1.1 408 ")
        assert scene.wire.end == "closed"
        assert (scene.heard.rejected, scene.heard.answered) == (["head_timeout"], ["head_timeout"])
        assert len(scene.ledger) == 0
        await scene.comes(b"OST / HTTP/1.1\r\n")
        assert scene.made == 0, "bytes after the end are nobody's"


async def test_once_known_the_deadline_is_not_ours() -> None:
    async with Scene(seconds=0.01) as scene:
        await scene.comes(b"G")
        await asyncio.sleep(0.05)
        assert (scene.wire.end, scene.heard.rejected) == ("", [])


async def test_at_the_limit_it_is_turned_away_unread() -> None:
    async with Scene(limit=0) as scene:
        assert scene.wire.end == "aborted"
        await scene.comes(b"GET / HTTP/1.1\r\n")
        assert (scene.made, scene.heard.rejected) == (0, ["limit"])


async def test_one_that_goes_before_it_spoke_gives_its_place_back() -> None:
    async with Scene() as scene:
        assert len(scene.ledger) == 1
        scene.arrival.connection_lost(None)
        assert len(scene.ledger) == 0
        scene.arrival.cut()
        assert scene.wire.end == ""


async def test_neither_crowding_nor_draining_ends_it_but_closing_does() -> None:
    async with Scene() as scene:
        scene.ledger.drain()
        assert scene.wire.end == ""
        await asyncio.wait_for(scene.connections.close(grace_seconds=60), 1)
        assert scene.wire.end == "aborted"


TIMEOUT = 10.0


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
        async with asyncio.timeout(TIMEOUT):
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
        assert await asyncio.wait_for(reader.readexactly(5), TIMEOUT) == b"hello"
        (echo,) = port.echoes
        assert (echo.guests_seen, len(port.connections)) == (0, 0)
        client_socket = echo.transport.get_extra_info("socket")
        assert client_socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
        writer.close()
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await writer.wait_closed()


@on_both_loops
async def test_one_that_says_nothing_is_let_go_at_the_deadline(files: Certificates) -> None:
    async with secured_port(files, seconds=0.1) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), TIMEOUT) == b""
        await port.emptied()
        assert port.heard.rejected == ["silent"]
        writer.close()


@on_both_loops
async def test_plaintext_is_refused_and_counted_nowhere(files: Certificates) -> None:
    async with secured_port(files) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            assert not (await asyncio.wait_for(reader.read(), TIMEOUT)).startswith(b"HTTP")
        await port.emptied()
        assert port.heard.rejected == []
        writer.close()


@on_both_loops
async def test_at_the_limit_no_handshake_is_begun(files: Certificates) -> None:
    async with secured_port(files, limit=0) as port:
        reader, writer = await asyncio.open_connection("127.0.0.1", port.number)
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), TIMEOUT) == b""
        assert (port.heard.rejected, port.echoes) == (["limit"], [])
        writer.close()


@on_both_loops
@pytest.mark.parametrize("turns", [0, 1, 2, 5])
async def test_one_that_is_cut_at_any_moment_leaves_no_socket_open(files: Certificates, turns: int) -> None:
    async with secured_port(files) as port:
        with socket.create_connection(("127.0.0.1", port.number)) as client:
            async with asyncio.timeout(TIMEOUT):
                while not len(port.connections):
                    await asyncio.sleep(0)
            for _ in range(turns):
                await asyncio.sleep(0)
            await port.connections.close(grace_seconds=0)
            await asyncio.sleep(0.01)
            client.settimeout(TIMEOUT)
            with contextlib.suppress(ConnectionError):
                assert client.recv(1) == b"", "still open on the other side"
        assert len(port.connections) == 0


@of_a_splice
async def test_small_answers_wait_for_no_acknowledgement(both: Spliced) -> None:
    """asyncio sets TCP_NODELAY only on sockets that name their protocol. Without it a call beside a cancelled one took 44 ms."""
    (only,) = both.connections._open
    assert isinstance(only, Splice)
    transport = only._client.transport
    assert transport is not None
    assert transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
