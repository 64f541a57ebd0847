"""What a splice carries: every byte once and in order, within bounds."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import logging
import socket
from collections.abc import Callable
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.grpc.http2_frames import DATA, END_HEADERS, GOAWAY_TYPE, HEADERS, RST_STREAM, frame, frames_of
from support.grpc.spliced import (
    CONTENT,
    MIB,
    PINGS,
    RESET,
    SETTINGS,
    WAIT_SECONDS,
    DataPort,
    Spliced,
    flood,
    is_more,
    is_reset,
    is_stuck,
    ledger,
    of_a_splice,
    owed,
    paused,
    raw,
    spliced,
)
from support.grpc.spliced import (
    DATA as SPLICED,
)
from support.network.floods import BEGUN, FLOODS
from support.network.loops import on_both_loops, run
from support.network.streams import listening, serving_at
from vecsieve.proxy.grpc import ends, splice
from vecsieve.proxy.grpc.connections import InnerSocket
from vecsieve.proxy.grpc.frames import GOAWAY, MOST_WAITING_FLOODING, Calls
from vecsieve.proxy.grpc.splice import Splice


@given(st.lists(st.tuples(st.booleans(), CONTENT), max_size=20))
def test_both_directions_carry_every_byte_once_and_in_order(sent: list[tuple[bool, bytes]]) -> None:
    """What one side writes is what the other reads, whatever the other direction does meanwhile."""

    async def story() -> None:
        up, down = (b"".join(data for is_up, data in sent if is_up is way) for way in (True, False))
        async with spliced() as both:
            for is_up, data in sent:
                (both.client if is_up else both.server)[1].write(data)
            assert await asyncio.wait_for(both.server[0].readexactly(len(up)), WAIT_SECONDS) == up
            assert await asyncio.wait_for(both.client[0].readexactly(len(down)), WAIT_SECONDS) == down

    run(asyncio.new_event_loop, story())


@of_a_splice
@pytest.mark.parametrize("is_up", [True, False], ids=["up", "down"])
async def test_a_slow_reader_stops_the_sender_and_then_gets_everything(both: Spliced, is_up: bool) -> None:
    block, count = bytes(range(256)) * 1024, 256  # 64 MiB
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
        piece = await asyncio.wait_for(reader.read(65536), WAIT_SECONDS)
        assert piece, "cut"
        whole.update(piece)
        left -= len(piece)
    await sending
    assert whole.digest() == hashlib.sha256(block * count).digest()


@of_a_splice
async def test_what_a_splice_holds_back_is_bounded(both: Spliced) -> None:
    sending = asyncio.create_task(flood(both.client[1]))
    await asyncio.sleep(0.3)
    (only,) = both.connections._open
    assert isinstance(only, Splice)
    inner = only._inner.transport
    assert inner is not None
    assert 0 < inner.get_write_buffer_size() <= 2 * MIB
    sending.cancel()


@of_a_splice
async def test_a_half_closed_client_still_hears_the_answer(both: Spliced) -> None:
    both.client[1].write(b"question")
    both.client[1].write_eof()
    assert await asyncio.wait_for(both.server[0].read(), WAIT_SECONDS) == b"question"
    both.server[1].write(b"answer")
    both.server[1].close()
    assert await asyncio.wait_for(both.client[0].read(), WAIT_SECONDS) == b"answer"
    await both.is_over()


@of_a_splice
async def test_a_half_closed_server_still_hears_the_client(both: Spliced) -> None:
    both.server[1].write(b"last words")
    both.server[1].write_eof()
    assert await asyncio.wait_for(both.client[0].read(), WAIT_SECONDS) == b"last words"
    both.client[1].write(b"goodbye")
    both.client[1].write_eof()
    assert await asyncio.wait_for(both.server[0].read(), WAIT_SECONDS) == b"goodbye"
    await both.is_over()


@of_a_splice
async def test_what_comes_in_one_read_is_carried_over_many_turns_whole_and_in_order(both: Spliced) -> None:
    """Slowly taken, as well: who takes too slowly holds up what is left of a read too."""
    frames = b"".join(frame(0, 0, bytes((number % 251,)) * 5) for number in range(40_000))
    both.client[1].write(frames)
    got = b""
    while len(got) < len(frames):
        got += await asyncio.wait_for(both.server[0].read(20_000), WAIT_SECONDS)
    assert got == frames


# Ends, resets and stalls: who is told, who is cut, and what is still to be sent.


@of_a_splice
async def test_a_clients_reset_reaches_the_server_as_an_end(both: Spliced) -> None:
    both.client[1].get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    both.client[1].transport.abort()
    with contextlib.suppress(ConnectionError):
        assert await asyncio.wait_for(both.server[0].read(), WAIT_SECONDS) == b""
    await both.is_over()


@of_a_splice
async def test_what_the_server_said_before_it_went_is_heard_though_the_client_spoke_last(both: Spliced) -> None:
    """A server at its end closes with the client's frames unread, and ours to it then fail: neither may cost the answer."""
    paused(both.server)
    both.client[1].write(b"never read")
    await asyncio.sleep(0.05)
    answer = bytes(range(256)) * 400
    with raw(both.server) as server, raw(both.client) as client:
        # All of it within one turn of the loop: the splice learns of the client's words before the server's.
        client.send(b"too late")
        assert server.send(answer) == len(answer)
        both.server[1].transport.abort()
        server.shutdown(socket.SHUT_RDWR)
    assert await asyncio.wait_for(both.client[0].read(), WAIT_SECONDS) == answer
    both.client[1].close()
    await both.is_over()


@of_a_splice
async def test_a_server_that_breaks_off_ends_the_client(both: Spliced) -> None:
    paused(both.server)
    both.client[1].write(b"never read")
    await asyncio.sleep(0.05)
    both.server[1].transport.abort()  # with bytes unread: ECONNRESET on the Unix socket
    assert await asyncio.wait_for(both.client[0].read(), WAIT_SECONDS) == b""
    both.client[1].close()
    await both.is_over()


@of_a_splice
async def test_a_cut_splice_resets_the_client_and_ends_the_server(both: Spliced) -> None:
    paused(both.client)
    closing = asyncio.create_task(both.connections.close(grace_seconds=0.01))
    await is_reset(both)
    assert await asyncio.wait_for(both.server[0].read(), WAIT_SECONDS) == b""
    await asyncio.wait_for(closing, WAIT_SECONDS)


@of_a_splice
async def test_whoever_does_not_go_after_the_last_words_is_cut(both: Spliced, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splice, "CLOSING_SECONDS", 0.1)
    paused(both.client)
    both.server[1].write(b"goodbye")
    both.server[1].close()
    await both.is_over()


@of_a_splice
async def test_whoever_takes_nothing_is_cut_although_the_other_side_has_gone_unnoticed(
    both: Spliced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ends, "STALLED_SECONDS", 0.2)
    paused(both.client)
    flooding = asyncio.create_task(flood(both.server[1]))
    await is_stuck(both.server[1])
    assert len(both.connections) == 1
    flooding.cancel()
    both.server[1].transport.abort()
    await both.is_over()


@of_a_splice
async def test_one_that_stalls_and_goes_on_is_not_cut(both: Spliced, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ends, "STALLED_SECONDS", 0.4)
    paused(both.client)
    flooding = asyncio.create_task(flood(both.server[1]))
    await asyncio.sleep(0.2)
    cast(asyncio.Transport, both.client[1].transport).resume_reading()
    flooding.cancel()
    while await is_more(both.client[0]):
        pass
    await asyncio.sleep(0.4)
    assert len(both.connections) == 1
    both.client[1].write(b"still here")
    assert await asyncio.wait_for(both.server[0].readexactly(10), WAIT_SECONDS) == b"still here"


@of_a_splice
async def test_a_client_that_only_half_closes_keeps_no_place_for_ever(
    both: Spliced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splice, "CLOSING_SECONDS", 0.1)
    both.client[1].write_eof()
    await both.is_over()


@on_both_loops
async def test_without_a_server_the_client_is_reset_and_one_line_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, logger="vecsieve.grpc")
    connections, inner = ledger(), InnerSocket(Calls())
    async with listening(lambda: DataPort(connections, inner)) as before:
        reader, writer = await asyncio.open_connection(*before.sockets[0].getsockname())
        writer.write(b"!")
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(reader.read(), WAIT_SECONDS) == b""
        assert len(connections) == 0
        writer.close()
    inner.close()
    assert caplog.messages == ["a connection could not be handed to the gRPC server: FileNotFoundError"]


@on_both_loops
async def test_a_client_that_goes_while_the_server_lets_nobody_in_leaves_nothing_behind() -> None:
    connections, inner = ledger(), InnerSocket(Calls())
    with socket.socket(socket.AF_UNIX) as full, socket.socket(socket.AF_UNIX) as first:
        full.bind(inner.path)
        full.listen(0)
        first.connect(inner.path)
        async with listening(lambda: DataPort(connections, inner)) as before:
            _, writer = await asyncio.open_connection(*before.sockets[0].getsockname())
            writer.write(b"!")
            await asyncio.sleep(0.05)
            assert len(connections) == 1
            await connections.close(grace_seconds=0)
            assert len(connections) == 0
            writer.close()
    inner.close()


@of_a_splice
async def test_a_client_is_owed_what_may_still_be_between_us_and_the_server(both: Spliced) -> None:
    both.server[1].write(b"answer")
    assert await asyncio.wait_for(both.client[0].readexactly(6), WAIT_SECONDS) == b"answer"
    await asyncio.sleep(ends.ON_ITS_WAY_SECONDS / 5)
    assert both.connections.unsent == 1, "more of the answer may be in the socket between us"
    await owed(both.connections, 0)


@of_a_splice
async def test_a_client_is_owed_what_the_kernel_still_keeps_for_it(both: Spliced) -> None:
    cast(asyncio.Transport, both.client[1].transport).pause_reading()
    both.server[1].write(bytes(16 * MIB))
    await asyncio.sleep(2 * ends.ON_ITS_WAY_SECONDS)
    assert both.connections.unsent == 1, "nothing has come for a while, and it has not got all"
    both.client[1].transport.resume_reading()  # type: ignore[attr-defined]  # - as above
    await asyncio.wait_for(both.client[0].readexactly(16 * MIB), WAIT_SECONDS)
    await owed(both.connections, 0)


async def test_a_client_is_owed_its_last_words_until_it_closes() -> None:
    async with spliced() as both:
        await owed(both.connections, 0)
        both.server[1].close()
        assert await asyncio.wait_for(both.client[0].read(), WAIT_SECONDS) == b""
        assert both.connections.unsent == 1
        both.client[1].close()
        await both.is_over()
        assert both.connections.unsent == 0


@of_a_splice
async def test_a_client_that_has_ended_and_was_then_reset_leaves_at_once_with_the_server(both: Spliced) -> None:
    faults: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    both.client[1].write_eof()
    assert await asyncio.wait_for(both.server[0].read(), WAIT_SECONDS) == b""
    both.client[1].get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    both.client[1].transport.abort()
    await asyncio.sleep(0.05)  # nobody reads a connection that has ended: the reset goes unnoticed
    both.server[1].close()
    async with asyncio.timeout(splice.CLOSING_SECONDS / 2):
        await both.is_over()
    assert not faults


@of_a_splice
async def test_what_a_client_still_sends_to_a_server_that_has_closed_goes_nowhere(both: Spliced) -> None:
    faults: list[dict[str, object]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: faults.append(context))
    both.server[1].close()
    assert await asyncio.wait_for(both.client[0].read(), WAIT_SECONDS) == b""
    for _ in range(2):  # the first is answered by the loss of the connection, which is noticed then
        both.client[1].write(b"an acknowledgement")
        await asyncio.sleep(0.05)
    both.client[1].close()
    async with asyncio.timeout(splice.CLOSING_SECONDS / 2):
        await both.is_over()
    assert not faults


TEN_CALLS = b"".join(frame(HEADERS, END_HEADERS, b"", stream) for stream in range(1, 21, 2))


def broken_off(both: Spliced) -> None:
    both.client[1].get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    both.client[1].transport.abort()


def closed(both: Spliced) -> None:
    both.client[1].close()


def half_closed(both: Spliced) -> None:
    both.client[1].write_eof()


@of_a_splice
@pytest.mark.parametrize("left", [broken_off, closed, half_closed])
async def test_the_calls_of_a_client_that_goes_end_a_few_at_a_time(
    both: Spliced, monkeypatch: pytest.MonkeyPatch, left: Callable[[Spliced], None]
) -> None:
    monkeypatch.setattr(splice, "ENDED_AT_ONCE", 4)
    both.client[1].write(TEN_CALLS)
    assert await both.server[0].readexactly(len(TEN_CALLS)) == TEN_CALLS
    left(both)
    ended = frames_of(await asyncio.wait_for(both.server[0].read(), WAIT_SECONDS))
    assert [kind for kind, _, _ in ended] == [RST_STREAM] * 8, "the last two end with their connection"
    both.server[1].close()
    await both.is_over()


@of_a_splice
async def test_nothing_is_put_into_a_frame_that_a_client_left_unfinished(
    both: Spliced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splice, "ENDED_AT_ONCE", 4)
    sent = TEN_CALLS + frame(DATA, 0, bytes(100), 1)[:50]
    both.client[1].write(sent)
    assert await both.server[0].readexactly(len(sent)) == sent
    broken_off(both)
    assert await asyncio.wait_for(both.server[0].read(), WAIT_SECONDS) == b""
    await both.is_over()


async def test_the_server_never_hears_of_a_connection_that_begins_with_a_flood() -> None:
    """Each connection to it costs both sides, and a peer that is cut comes back."""
    heard: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        heard.append(await reader.read(1))

    connections, inner = ledger(), InnerSocket(Calls())
    fields = next(attack for attack in FLOODS if attack.name == "fields that name a small entry")
    async with serving_at(inner.path, serve), listening(lambda: DataPort(connections, inner)) as port:
        reader, writer = await asyncio.open_connection(*port.sockets[0].getsockname())
        writer.write(fields.beginning + next(fields.more())[:20_000])
        assert b"frames without content" in await asyncio.wait_for(reader.read(), WAIT_SECONDS)
        writer.transport.abort()
        await connections.close(grace_seconds=0)
    inner.close()
    assert heard == []


@pytest.mark.parametrize("has_flooded", [True, False], ids=["flooded", "did not"])
async def test_of_an_address_that_flooded_few_calls_wait_at_once(*, has_flooded: bool) -> None:
    """A call with many fields takes a millisecond: 64 of them kept the next client's waiting for as many."""
    read: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        read.set_result(await reader.read(1 << 16))

    heads = [frame(HEADERS, END_HEADERS, b"", 2 * number + 1) for number in range(2 * MOST_WAITING_FLOODING)]
    connections, inner = ledger(), InnerSocket(Calls())
    async with serving_at(inner.path, serve), listening(lambda: DataPort(connections, inner)) as port:
        fields = next(attack for attack in FLOODS if attack.name == "fields that name a small entry")
        if has_flooded:
            reader, flooding = await asyncio.open_connection(*port.sockets[0].getsockname())
            flooding.write(fields.beginning + next(fields.more())[:20_000])
            assert b"frames without content" in await asyncio.wait_for(reader.read(), WAIT_SECONDS)
            flooding.transport.abort()
            async with asyncio.timeout(WAIT_SECONDS):
                while len(connections):
                    await asyncio.sleep(0.005)
        _, writer = await asyncio.open_connection(*port.sockets[0].getsockname())
        writer.write(BEGUN + b"".join(heads))
        forwarded = await asyncio.wait_for(read, WAIT_SECONDS)
        writer.transport.abort()
        await connections.close(grace_seconds=0)
    inner.close()
    assert forwarded.endswith(b"".join(heads[:MOST_WAITING_FLOODING] if has_flooded else heads))


# GOAWAY and the reason of a cut are inserted between the frames of the server.


@of_a_splice
async def test_a_goodbye_waits_for_the_end_of_the_servers_frame_and_is_said_once(both: Spliced) -> None:
    both.server[1].write(SETTINGS + SPLICED + b"ab")
    assert await asyncio.wait_for(both.client[0].readexactly(20), WAIT_SECONDS) == SETTINGS + SPLICED + b"ab"
    both.connections.send_goaway()
    assert both.connections.unsent == 1, "what the client sends until it has heard is to be answered"
    both.server[1].write(b"cd" + SPLICED + b"efgh")
    assert await asyncio.wait_for(both.client[0].readexactly(32), WAIT_SECONDS) == b"cd" + GOAWAY + SPLICED + b"efgh"
    both.server[1].write(SPLICED + b"ijkl")
    assert await asyncio.wait_for(both.client[0].readexactly(13), WAIT_SECONDS) == SPLICED + b"ijkl"
    both.client[1].write(b"on its way")
    assert await asyncio.wait_for(both.server[0].readexactly(10), WAIT_SECONDS) == b"on its way"


@of_a_splice
async def test_a_goodbye_between_two_frames_is_said_at_once(both: Spliced) -> None:
    both.server[1].write(SETTINGS)
    assert await asyncio.wait_for(both.client[0].readexactly(9), WAIT_SECONDS) == SETTINGS
    both.connections.send_goaway()
    assert await asyncio.wait_for(both.client[0].readexactly(len(GOAWAY)), WAIT_SECONDS) == GOAWAY


@of_a_splice
async def test_a_client_that_does_not_heed_a_goodbye_is_owed_nothing_after_a_while(
    both: Spliced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(splice, "GOAWAY_SECONDS", 0.1)
    monkeypatch.setattr(ends, "ON_ITS_WAY_SECONDS", 0.1)
    both.connections.send_goaway()
    assert both.connections.unsent == 1
    await owed(both.connections, 0)


@of_a_splice
async def test_who_is_cut_in_the_middle_of_a_frame_of_the_servers_gets_its_end_and_then_the_reason(
    both: Spliced,
) -> None:
    half = frame(0, 0, bytes(100))
    (reader, writer), (_, server) = both.client, both.server
    server.write(SETTINGS + half[:50])
    heard = await asyncio.wait_for(reader.readexactly(9 + 50), WAIT_SECONDS)
    (only,) = both.connections._open
    assert isinstance(only, Splice)
    writer.write(PINGS)
    while not only.is_cut:
        await asyncio.sleep(0.01)
    server.write(half[50:] + frame(0, 0, b"dropped"))
    heard += await asyncio.wait_for(reader.read(), WAIT_SECONDS)
    assert [kind for kind, _, _ in frames_of(heard)] == [4, 0, GOAWAY_TYPE]
    await both.is_over()


@of_a_splice
async def test_who_is_cut_before_the_server_said_anything_hears_settings_first(both: Spliced) -> None:
    both.client[1].write(PINGS)
    heard = await asyncio.wait_for(both.client[0].read(), WAIT_SECONDS)
    (settings, *_), (goaway, _, payload) = frames_of(heard)
    assert (settings, goaway) == (4, GOAWAY_TYPE)
    assert int.from_bytes(payload[4:8]) == 11, "ENHANCE_YOUR_CALM"
    await both.is_over()


@of_a_splice
async def test_a_client_that_does_not_read_why_it_is_cut_is_gone_soon_all_the_same(both: Spliced) -> None:
    cast(asyncio.Transport, both.client[1].transport).pause_reading()
    both.client[1].write(PINGS * 3)
    await asyncio.wait_for(both.is_over(), splice.CUT_SECONDS + 2)
