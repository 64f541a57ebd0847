"""Ends, resets and stalls: who is told, who is cut, and what is still to be sent."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
from collections.abc import Callable
from typing import cast

import pytest

from support.grpc.http2_frames import DATA, END_HEADERS, HEADERS, RST_STREAM, frame, frames_of
from support.grpc.spliced import (
    MIB,
    RESET,
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
from support.network.floods import FLOODS
from support.network.loops import on_both_loops
from support.network.streams import listening, serving_at
from vecsieve.proxy.grpc import ends, splice
from vecsieve.proxy.grpc.connections import InnerSocket
from vecsieve.proxy.grpc.frames import Calls


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
    fields = next(each for each in FLOODS if each.name == "fields that name a small entry")
    async with serving_at(inner.path, serve), listening(lambda: DataPort(connections, inner)) as port:
        reader, writer = await asyncio.open_connection(*port.sockets[0].getsockname())
        writer.write(fields.beginning + next(fields.more())[:20_000])
        assert b"frames without content" in await asyncio.wait_for(reader.read(), WAIT_SECONDS)
        writer.transport.abort()
        await connections.close(grace_seconds=0)
    inner.close()
    assert heard == []
