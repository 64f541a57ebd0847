from __future__ import annotations

import asyncio
import itertools
from typing import Any, Self

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.network.relay_server import Invalidation, PlainDialect
from support.network.streams import serving_at
from vecsieve.proxy.grpc.connections import InnerSocket, SharedConnections
from vecsieve.proxy.grpc.frames import Calls
from vecsieve.proxy.grpc.shared_port import PREFACE, Detecting
from vecsieve.proxy.http.answers import LocalAnswers
from vecsieve.proxy.http.connections import Connections
from vecsieve.proxy.http.protocol import ConnectionRules


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
