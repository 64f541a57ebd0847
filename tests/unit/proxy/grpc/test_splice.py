"""What a splice carries: every byte once and in order, within bounds."""

from __future__ import annotations

import asyncio
import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.grpc.http2_frames import frame
from support.grpc.spliced import CONTENT, MIB, WAIT_SECONDS, Spliced, flood, of_a_splice, spliced
from support.network.loops import run
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
    said = b"".join(frame(0, 0, bytes((number % 251,)) * 5) for number in range(40_000))
    both.client[1].write(said)
    got = b""
    while len(got) < len(said):
        got += await asyncio.wait_for(both.server[0].read(20_000), WAIT_SECONDS)
    assert got == said
