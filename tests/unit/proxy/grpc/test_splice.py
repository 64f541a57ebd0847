from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import os
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.http2_frames import GOAWAY_TYPE, frame, frames_of
from support.loops import LoopFactory, both_loops, run
from support.relay_server import Invalidation
from vecsieve.proxy.grpc import splice
from vecsieve.proxy.grpc import splice as grpc_splice
from vecsieve.proxy.grpc.frames import FRAMES, GOAWAY, Calls
from vecsieve.proxy.grpc.guests import Guests
from vecsieve.proxy.grpc.listener import InnerSocket
from vecsieve.proxy.grpc.shared_port import PREFACE
from vecsieve.proxy.grpc.splice import Splice
from vecsieve.proxy.http.connections import Connections

MIB = 1024 * 1024
RESET = struct.pack("ii", 1, 0)
PATIENCE = 10.0
Pipe = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class DataPort(asyncio.Protocol):
    """Splices every connection at its first byte."""

    def __init__(self, guests: Guests, inner: InnerSocket) -> None:
        self.guests = guests
        self.inner = inner

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is no subclass of it

    def data_received(self, data: bytes) -> None:
        made = Splice(self.transport, self.guests, self.inner)
        assert self.guests.enter(made)
        made.begin(data)


@dataclass
class Spliced:
    """A client and a server with a splice between; the client's preface, which opened it, is already read."""

    client: Pipe
    server: Pipe
    guests: Guests

    async def is_over(self) -> None:
        async with asyncio.timeout(PATIENCE):
            while len(self.guests):
                await asyncio.sleep(0.005)


def ledger() -> Guests:
    return Guests(Connections(limit=100, events=Invalidation()))


@asynccontextmanager
async def spliced() -> AsyncIterator[Spliced]:
    loop = asyncio.get_running_loop()
    accepted: asyncio.Future[Pipe] = loop.create_future()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        accepted.set_result((reader, writer))

    guests, inner = ledger(), InnerSocket(Calls())
    behind = await asyncio.start_unix_server(serve, inner.path)
    before = await loop.create_server(lambda: DataPort(guests, inner), "127.0.0.1", 0)
    client = await asyncio.open_connection(*before.sockets[0].getsockname())
    client[1].write(PREFACE)
    server = await asyncio.wait_for(accepted, PATIENCE)
    assert await server[0].readexactly(len(PREFACE)) == PREFACE
    try:
        yield Spliced(client, server, guests)
    finally:
        before.close()
        behind.close()
        await guests.close(grace_seconds=0)
        for _, writer in (client, server):
            writer.transport.abort()
        inner.close()


Case = Callable[[Spliced], Awaitable[None]]


def on(loop: LoopFactory, case: Case) -> None:
    async def story() -> None:
        async with spliced() as both:
            await case(both)

    run(loop, story())


CONTENT = st.binary(min_size=1, max_size=3000).map(lambda data: frame(0, 0, data))


@given(st.lists(st.tuples(st.booleans(), CONTENT), max_size=20))
def test_both_directions_carry_every_byte_once_and_in_order(sent: list[tuple[bool, bytes]]) -> None:
    """What one side writes is what the other reads, whatever the other direction does meanwhile."""

    async def case(both: Spliced) -> None:
        up, down = (b"".join(data for is_up, data in sent if is_up is way) for way in (True, False))
        for is_up, data in sent:
            (both.client if is_up else both.server)[1].write(data)
        assert await asyncio.wait_for(both.server[0].readexactly(len(up)), PATIENCE) == up
        assert await asyncio.wait_for(both.client[0].readexactly(len(down)), PATIENCE) == down

    on(asyncio.new_event_loop, case)


@both_loops
@pytest.mark.parametrize("is_up", [True, False], ids=["up", "down"])
def test_a_slow_reader_stops_the_sender_and_then_gets_everything(loop: LoopFactory, is_up: bool) -> None:
    block, count = bytes(range(256)) * 1024, 256  # 64 MiB

    async def case(both: Spliced) -> None:
        (reader, _), (_, writer) = (both.server, both.client) if is_up else (both.client, both.server)
        sent = 0

        async def send() -> None:
            nonlocal sent
            for _ in range(count):
                writer.write(block)
                await writer.drain()
                sent += len(block)

        sending = asyncio.create_task(send())
        before = -1
        while sent != before:
            before = sent
            await asyncio.sleep(0.1)
        # The kernel's buffers of two hops (tcp_rmem's and tcp_wmem's largest are 6 and 4 MiB) and the few 100 kB of ours.
        assert sent < 16 * MIB, "read on although nobody took it"
        whole = hashlib.sha256()
        left = count * len(block)
        while left:
            piece = await asyncio.wait_for(reader.read(65536), PATIENCE)
            assert piece, "cut"
            whole.update(piece)
            left -= len(piece)
        await sending
        assert whole.digest() == hashlib.sha256(block * count).digest()

    on(loop, case)


@both_loops
def test_what_a_splice_holds_back_is_bounded(loop: LoopFactory) -> None:
    async def case(both: Spliced) -> None:
        sending = asyncio.create_task(_flood(both.client[1]))
        await asyncio.sleep(0.3)
        (only,) = both.guests._open
        assert isinstance(only, Splice)
        inner = only._inner.transport
        assert inner is not None
        assert 0 < inner.get_write_buffer_size() <= 2 * MIB
        sending.cancel()

    on(loop, case)


# As large as data comes: a gRPC server sends no empty frames in thousands.
FRAME = b"\xff" * 65536


async def _flood(writer: asyncio.StreamWriter) -> None:
    while True:
        writer.write(FRAME)
        await writer.drain()


@both_loops
def test_a_half_closed_client_still_hears_the_answer(loop: LoopFactory) -> None:
    async def case(both: Spliced) -> None:
        both.client[1].write(b"question")
        both.client[1].write_eof()
        assert await asyncio.wait_for(both.server[0].read(), PATIENCE) == b"question"
        both.server[1].write(b"answer")
        both.server[1].close()
        assert await asyncio.wait_for(both.client[0].read(), PATIENCE) == b"answer"
        await both.is_over()

    on(loop, case)


@both_loops
def test_a_half_closed_server_still_hears_the_client(loop: LoopFactory) -> None:
    async def case(both: Spliced) -> None:
        both.server[1].write(b"last words")
        both.server[1].write_eof()
        assert await asyncio.wait_for(both.client[0].read(), PATIENCE) == b"last words"
        both.client[1].write(b"goodbye")
        both.client[1].write_eof()
        assert await asyncio.wait_for(both.server[0].read(), PATIENCE) == b"goodbye"
        await both.is_over()

    on(loop, case)


@both_loops
def test_a_clients_reset_reaches_the_server_as_an_end(loop: LoopFactory) -> None:
    async def case(both: Spliced) -> None:
        both.client[1].get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        both.client[1].transport.abort()
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(both.server[0].read(), PATIENCE) == b""
        await both.is_over()

    on(loop, case)


@both_loops
def test_what_the_server_said_before_it_went_is_heard_though_the_client_spoke_last(loop: LoopFactory) -> None:
    """A server at its end closes with the client's frames unread, and ours to it then fail: neither may cost the answer."""

    async def case(both: Spliced) -> None:
        _paused(both.server)
        both.client[1].write(b"never read")
        await asyncio.sleep(0.05)
        answer = bytes(range(256)) * 400
        with _raw(both.server) as server, _raw(both.client) as client:
            # All of it within one turn of the loop: the splice learns of the client's words before the server's.
            client.send(b"too late")
            assert server.send(answer) == len(answer)
            both.server[1].transport.abort()
            server.shutdown(socket.SHUT_RDWR)
        assert await asyncio.wait_for(both.client[0].read(), PATIENCE) == answer
        both.client[1].close()
        await both.is_over()

    on(loop, case)


@both_loops
def test_a_server_that_breaks_off_ends_the_client(loop: LoopFactory) -> None:
    async def case(both: Spliced) -> None:
        _paused(both.server)
        both.client[1].write(b"never read")
        await asyncio.sleep(0.05)
        both.server[1].transport.abort()  # with bytes unread: ECONNRESET on the Unix socket
        assert await asyncio.wait_for(both.client[0].read(), PATIENCE) == b""
        both.client[1].close()
        await both.is_over()

    on(loop, case)


@both_loops
def test_a_cut_splice_resets_the_client_and_ends_the_server(loop: LoopFactory) -> None:
    async def case(both: Spliced) -> None:
        _paused(both.client)
        closing = asyncio.create_task(both.guests.close(grace_seconds=0.01))
        await _is_reset(both)
        assert await asyncio.wait_for(both.server[0].read(), PATIENCE) == b""
        await asyncio.wait_for(closing, PATIENCE)

    on(loop, case)


def _raw(pipe: Pipe) -> socket.socket:
    return socket.socket(fileno=os.dup(pipe[1].get_extra_info("socket").fileno()))


def _paused(pipe: Pipe) -> None:
    cast(asyncio.Transport, pipe[1].transport).pause_reading()


async def _is_reset(both: Spliced) -> None:
    """The client's reading is paused: its socket is asked itself, for uvloop's streams tell a reset as an end."""
    await both.is_over()
    with _raw(both.client) as same:
        same.settimeout(PATIENCE)
        with pytest.raises(ConnectionResetError):
            same.recv(1)


SETTINGS = bytes(3) + b"\x04" + bytes(5)
DATA = b"\x00\x00\x04\x00\x00" + bytes(3) + b"\x01"  # of 4 bytes, which follow


@both_loops
def test_a_goodbye_waits_for_the_end_of_the_servers_frame_and_is_said_once(loop: LoopFactory) -> None:
    async def case(both: Spliced) -> None:
        both.server[1].write(SETTINGS + DATA + b"ab")
        assert await asyncio.wait_for(both.client[0].readexactly(20), PATIENCE) == SETTINGS + DATA + b"ab"
        both.guests.say_goodbye()
        assert both.guests.owed == 1, "what the client sends until it has heard is to be answered"
        both.server[1].write(b"cd" + DATA + b"efgh")
        assert await asyncio.wait_for(both.client[0].readexactly(32), PATIENCE) == b"cd" + GOAWAY + DATA + b"efgh"
        both.server[1].write(DATA + b"ijkl")
        assert await asyncio.wait_for(both.client[0].readexactly(13), PATIENCE) == DATA + b"ijkl"
        both.client[1].write(b"on its way")
        assert await asyncio.wait_for(both.server[0].readexactly(10), PATIENCE) == b"on its way"

    on(loop, case)


@both_loops
def test_a_goodbye_between_two_frames_is_said_at_once(loop: LoopFactory) -> None:
    async def case(both: Spliced) -> None:
        both.server[1].write(SETTINGS)
        assert await asyncio.wait_for(both.client[0].readexactly(9), PATIENCE) == SETTINGS
        both.guests.say_goodbye()
        assert await asyncio.wait_for(both.client[0].readexactly(len(GOAWAY)), PATIENCE) == GOAWAY

    on(loop, case)


@both_loops
def test_a_client_that_does_not_heed_a_goodbye_is_owed_nothing_after_a_while(
    loop: LoopFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splice, "FAREWELL_SECONDS", 0.1)
    monkeypatch.setattr(grpc_splice, "PAUSE_SECONDS", 0.1)

    async def case(both: Spliced) -> None:
        both.guests.say_goodbye()
        assert both.guests.owed == 1
        await _owed(both.guests, 0)

    on(loop, case)


@both_loops
def test_whoever_does_not_go_after_the_last_words_is_cut(loop: LoopFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splice, "LAST_WORDS_SECONDS", 0.1)

    async def case(both: Spliced) -> None:
        _paused(both.client)
        both.server[1].write(b"goodbye")
        both.server[1].close()
        await both.is_over()

    on(loop, case)


@both_loops
def test_whoever_takes_nothing_is_cut_although_the_other_side_has_gone_unnoticed(
    loop: LoopFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(grpc_splice, "STALLED_SECONDS", 0.2)

    async def case(both: Spliced) -> None:
        _paused(both.client)
        flood = asyncio.create_task(_flood(both.server[1]))
        await asyncio.sleep(0.1)
        assert len(both.guests) == 1
        flood.cancel()
        both.server[1].transport.abort()
        await both.is_over()

    on(loop, case)


@both_loops
def test_one_that_stalls_and_goes_on_is_not_cut(loop: LoopFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_splice, "STALLED_SECONDS", 0.4)

    async def case(both: Spliced) -> None:
        _paused(both.client)
        flood = asyncio.create_task(_flood(both.server[1]))
        await asyncio.sleep(0.2)
        cast(asyncio.Transport, both.client[1].transport).resume_reading()
        flood.cancel()
        while await _is_more(both.client[0]):
            pass
        await asyncio.sleep(0.4)
        assert len(both.guests) == 1
        both.client[1].write(b"still here")
        assert await asyncio.wait_for(both.server[0].readexactly(10), PATIENCE) == b"still here"

    on(loop, case)


async def _is_more(reader: asyncio.StreamReader) -> bool:
    try:
        return bool(await asyncio.wait_for(reader.read(MIB), 0.1))
    except TimeoutError:
        return False


@both_loops
def test_a_client_that_only_half_closes_keeps_no_place_for_ever(
    loop: LoopFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splice, "LAST_WORDS_SECONDS", 0.1)

    async def case(both: Spliced) -> None:
        both.client[1].write_eof()
        await both.is_over()

    on(loop, case)


@both_loops
def test_without_a_server_the_client_is_reset_and_one_line_says_so(
    loop: LoopFactory, caplog: pytest.LogCaptureFixture
) -> None:
    async def story() -> None:
        guests, inner = ledger(), InnerSocket(Calls())
        before = await asyncio.get_running_loop().create_server(lambda: DataPort(guests, inner), "127.0.0.1", 0)
        reader, writer = await asyncio.open_connection(*before.sockets[0].getsockname())
        writer.write(b"!")
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), PATIENCE) == b""
        assert len(guests) == 0
        writer.close()
        before.close()
        inner.close()

    caplog.set_level(logging.ERROR, logger="vecsieve.grpc")
    run(loop, story())
    assert caplog.messages == ["a connection could not be handed to the gRPC server: FileNotFoundError"]


@both_loops
def test_a_client_that_goes_while_the_server_lets_nobody_in_leaves_nothing_behind(loop: LoopFactory) -> None:
    async def story() -> None:
        guests, inner = ledger(), InnerSocket(Calls())
        before = await asyncio.get_running_loop().create_server(lambda: DataPort(guests, inner), "127.0.0.1", 0)
        with socket.socket(socket.AF_UNIX) as full, socket.socket(socket.AF_UNIX) as first:
            full.bind(inner.path)
            full.listen(0)
            first.connect(inner.path)
            _, writer = await asyncio.open_connection(*before.sockets[0].getsockname())
            writer.write(b"!")
            await asyncio.sleep(0.05)
            assert len(guests) == 1
            await guests.close(grace_seconds=0)
            assert len(guests) == 0
            writer.close()
        before.close()
        inner.close()

    run(loop, story())


async def _owed(guests: Guests, wanted: int) -> None:
    async with asyncio.timeout(PATIENCE):
        while guests.owed != wanted:
            await asyncio.sleep(0.005)


@both_loops
def test_a_client_is_owed_what_the_kernel_still_keeps_for_it(loop: LoopFactory) -> None:
    async def case(both: Spliced) -> None:
        cast(asyncio.Transport, both.client[1].transport).pause_reading()
        both.server[1].write(bytes(16 * MIB))
        await asyncio.sleep(2 * grpc_splice.PAUSE_SECONDS)
        assert both.guests.owed == 1, "nothing has come for a while, and it has not got all"
        both.client[1].transport.resume_reading()  # type: ignore[attr-defined]  # - as above
        await asyncio.wait_for(both.client[0].readexactly(16 * MIB), PATIENCE)
        await _owed(both.guests, 0)

    on(loop, case)


def test_a_client_is_owed_its_last_words_until_it_closes() -> None:
    async def case(both: Spliced) -> None:
        await _owed(both.guests, 0)
        both.server[1].close()
        assert await asyncio.wait_for(both.client[0].read(), PATIENCE) == b""
        assert both.guests.owed == 1
        both.client[1].close()
        await both.is_over()
        assert both.guests.owed == 0

    on(asyncio.new_event_loop, case)


@both_loops
def test_a_client_that_has_ended_and_was_then_reset_leaves_at_once_with_the_server(loop: LoopFactory) -> None:
    async def case(both: Spliced) -> None:
        faults: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        both.client[1].write_eof()
        assert await asyncio.wait_for(both.server[0].read(), PATIENCE) == b""
        both.client[1].get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        both.client[1].transport.abort()
        await asyncio.sleep(0.05)  # nobody reads a connection that has ended: the reset goes unnoticed
        both.server[1].close()
        async with asyncio.timeout(splice.LAST_WORDS_SECONDS / 2):
            await both.is_over()
        assert not faults

    on(loop, case)


@both_loops
def test_what_a_client_still_sends_to_a_server_that_has_closed_goes_nowhere(loop: LoopFactory) -> None:
    async def case(both: Spliced) -> None:
        faults: list[dict[str, object]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
        both.server[1].close()
        assert await asyncio.wait_for(both.client[0].read(), PATIENCE) == b""
        for _ in range(2):  # the first is answered by the loss of the connection, which is noticed then
            both.client[1].write(b"an acknowledgement")
            await asyncio.sleep(0.05)
        both.client[1].close()
        async with asyncio.timeout(splice.LAST_WORDS_SECONDS / 2):
            await both.is_over()
        assert not faults

    on(loop, case)


PINGS = frame(6, 0, bytes(8), 0) * (2 * FRAMES)


@both_loops
def test_who_is_cut_in_the_middle_of_a_frame_of_the_servers_gets_its_end_and_then_the_reason(loop: LoopFactory) -> None:
    half = frame(0, 0, bytes(100))

    async def case(both: Spliced) -> None:
        (reader, writer), (_, server) = both.client, both.server
        server.write(SETTINGS + half[:50])
        heard = await asyncio.wait_for(reader.readexactly(9 + 50), PATIENCE)
        (only,) = both.guests._open
        assert isinstance(only, Splice)
        writer.write(PINGS)
        while not only.is_cut:
            await asyncio.sleep(0.01)
        server.write(half[50:] + frame(0, 0, b"dropped"))
        heard += await asyncio.wait_for(reader.read(), PATIENCE)
        assert [kind for kind, _, _ in frames_of(heard)] == [4, 0, GOAWAY_TYPE]
        await both.is_over()

    on(loop, case)


@both_loops
def test_who_is_cut_before_the_server_said_anything_hears_settings_first(loop: LoopFactory) -> None:
    async def case(both: Spliced) -> None:
        both.client[1].write(PINGS)
        heard = await asyncio.wait_for(both.client[0].read(), PATIENCE)
        (settings, *_), (goaway, _, said) = frames_of(heard)
        assert (settings, goaway) == (4, GOAWAY_TYPE)
        assert int.from_bytes(said[4:8]) == 11, "ENHANCE_YOUR_CALM"
        await both.is_over()

    on(loop, case)


@both_loops
def test_a_client_that_does_not_read_why_it_is_cut_is_gone_soon_all_the_same(loop: LoopFactory) -> None:
    async def case(both: Spliced) -> None:
        cast(asyncio.Transport, both.client[1].transport).pause_reading()
        both.client[1].write(PINGS * 3)
        await asyncio.wait_for(both.is_over(), splice.CUT_SECONDS + 2)

    on(loop, case)


@both_loops
def test_what_comes_in_one_read_is_carried_over_many_turns_whole_and_in_order(loop: LoopFactory) -> None:
    """Slowly taken, as well: who takes too slowly holds up what is left of a read too."""
    said = b"".join(frame(0, 0, bytes((number % 251,)) * 5) for number in range(40_000))

    async def case(both: Spliced) -> None:
        both.client[1].write(said)
        got = b""
        while len(got) < len(said):
            got += await asyncio.wait_for(both.server[0].read(20_000), PATIENCE)
        assert got == said

    on(loop, case)
