from __future__ import annotations

import asyncio
import gzip
import random
import sys
import zlib
from collections.abc import Callable

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.grpc.http2_frames import frames_of
from support.network.floods import BEGUN, DATA, RST_STREAM, frame, head_of
from support.network.shared_ports import ALONE, METHOD, BothServers, both_servers
from vecsieve.proxy.grpc.frames import Calls
from vecsieve.proxy.grpc.messages import ANY_RATIO_BYTES, MOST_RATIO, Inflated, Messages, Unfinished

MIB = 1024 * 1024


def prefixed(content: bytes, *, compressed: bool) -> bytes:
    return bytes((compressed,)) + len(content).to_bytes(4) + content


def unlimited() -> Inflated:
    return Inflated(sys.maxsize, sys.maxsize)


def followed(messages: Messages, wire: bytes, stream: int = 1, piece: int = 16384) -> int:
    """Until it is refused; how much had passed by then."""
    for at in range(0, len(wire), piece):
        messages.follow(stream, wire, at, min(at + piece, len(wire)))
        if messages.refused:
            return at
    return len(wire)


MESSAGES = st.lists(
    st.tuples(st.binary(max_size=300), st.sampled_from([None, gzip.compress, zlib.compress])), min_size=1, max_size=8
)


@given(MESSAGES, st.lists(st.integers(1, 40), min_size=1, max_size=300))
def test_what_is_held_is_what_the_last_message_of_each_call_inflates_to(
    sent: list[tuple[bytes, Callable[[bytes], bytes] | None]], sizes: list[int]
) -> None:
    """Invariant: however the DATA is cut, plain messages count nothing, the last compressed one its content, and the end gives it back."""
    inflated = unlimited()
    messages = Messages(inflated)
    wire = b"".join(
        prefixed(content if squeeze is None else squeeze(content), compressed=squeeze is not None)
        for content, squeeze in sent
    )
    at = 0
    for size in (*sizes, len(wire)):
        if at < len(wire):
            messages.follow(1, wire, at, min(at + size, len(wire)))
        at += size
    last, squeeze = sent[-1]
    assert inflated.total == (0 if squeeze is None else len(last))
    assert messages.end(1) == inflated.total + (0 if squeeze is None else len(last))
    assert inflated.total == 0
    assert not messages.refused


@given(st.binary(max_size=2000), st.booleans())
def test_any_bytes_are_followed_without_a_word(wire: bytes, whole: bool) -> None:
    """Invariant: what is no message, or cannot be inflated, is the core's to refuse; nothing is raised and nothing stays held."""
    inflated = unlimited()
    messages = Messages(inflated)
    followed(messages, wire, piece=2000 if whole else 7)
    messages.close()
    assert inflated.total == 0


def test_zeros_that_inflate_a_thousandfold_are_refused_when_the_ratio_counts() -> None:
    messages = Messages(inflated := unlimited())
    wire = prefixed(zlib.compress(bytes(200 * MIB), 1), compressed=True)
    assert len(wire) > 200_000
    passed = followed(messages, wire, piece=1024)
    assert messages.refused == [1]
    assert passed < len(wire) / 20
    assert inflated.total <= ANY_RATIO_BYTES


def test_zeros_up_to_what_every_server_takes_pass() -> None:
    messages = Messages(unlimited())
    wire = prefixed(gzip.compress(bytes(ANY_RATIO_BYTES)), compressed=True)
    assert ANY_RATIO_BYTES / len(wire) > MOST_RATIO
    followed(messages, wire)
    assert not messages.refused


@pytest.mark.parametrize(("size", "is_refused"), [(8 * MIB, False), (8 * MIB + 1, True)])
def test_a_message_that_shrinks_as_others_do_has_its_bound_too(size: int, is_refused: bool) -> None:
    content = (bytes(range(256)) * 4 + bytes(64)) * (size // 1088 + 1)
    messages = Messages(Inflated(8 * MIB, sys.maxsize))
    wire = prefixed(zlib.compress(content[:size], 1), compressed=True)
    followed(messages, wire)
    assert bool(messages.refused) is (is_refused or size / len(wire) > MOST_RATIO)


def test_all_of_a_process_together_have_a_bound_but_one_alone_always_may() -> None:
    inflated = Inflated(8 * MIB, 3 * MIB)
    one, other = Messages(inflated), Messages(inflated)
    wire = prefixed(gzip.compress(bytes(2 * MIB)), compressed=True)
    followed(one, wire, stream=1)
    followed(other, wire, stream=1)
    assert not one.refused
    assert other.refused == [1]
    other.end(1)
    followed(one, wire, stream=3)
    assert one.refused == [3]
    one.close()
    assert inflated.total == 0
    alone = Messages(inflated)
    followed(alone, prefixed(gzip.compress(bytes(4 * MIB)), compressed=True))
    assert not alone.refused


def test_inflating_costs_as_many_frames_as_it_takes_time_and_passing_nothing() -> None:
    messages = Messages(unlimited())
    plain = prefixed(bytes(MIB), compressed=False)
    assert messages.follow(1, plain, 0, len(plain)) == 0
    squeezed = prefixed(gzip.compress(bytes(MIB)), compressed=True)
    assert messages.follow(3, squeezed, 0, len(squeezed)) == 1 + 512


def test_each_of_many_messages_in_one_frame_costs_as_much_as_a_frame() -> None:
    empty = prefixed(b"", compressed=False)
    assert Messages(unlimited()).follow(1, 3000 * empty, 0, 3000 * len(empty)) == 3000


async def length_of_answer(channel: grpc.aio.Channel, message: bytes) -> int:
    """The length of the answer; minus the code where there is none."""
    method: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(METHOD)
    try:
        return len(await method(message, timeout=30, compression=grpc.Compression.Gzip))
    except grpc.aio.AioRpcError as error:
        return -int(error.code().value[0])


EXHAUSTED = -int(grpc.StatusCode.RESOURCE_EXHAUSTED.value[0])


async def released(both: BothServers) -> None:
    while both.inner.calls.inflated.total:
        await asyncio.sleep(0.01)


async def test_a_bomb_is_exhausted_before_the_server_has_it_and_other_calls_of_the_connection_go_on() -> None:
    sizes: list[int] = []

    async def echo(message: bytes) -> bytes:
        sizes.append(len(message))
        return message

    calls = Calls(Inflated(32 * MIB, 32 * MIB))
    async with asyncio.timeout(60), both_servers(echo=echo, calls=calls) as both:
        async with grpc.aio.insecure_channel(both.address, options=ALONE) as channel:
            for _ in range(3):
                bomb, plain = length_of_answer(channel, bytes(48 * MIB)), length_of_answer(channel, b"x" * 100_000)
                assert [*await asyncio.gather(bomb, plain)] == [EXHAUSTED, 100_000]
            await released(both)
        assert max(sizes) == 100_000
        assert both.heard.answered == ["inflates"] * 3
        assert both.heard.rejected == []


async def test_who_sends_one_bomb_after_the_other_is_cut() -> None:
    async with asyncio.timeout(60), both_servers(calls=Calls(Inflated(MIB, MIB))) as both:
        async with grpc.aio.insecure_channel(both.address, options=ALONE) as channel:
            for _ in range(200):
                await length_of_answer(channel, bytes(2 * MIB))
                if both.heard.rejected:
                    break
        assert both.heard.rejected[:1] == ["flood"]


async def test_messages_that_shrink_as_vectors_do_pass_whole_and_are_forgotten_with_their_calls() -> None:
    freed: list[int] = []
    calls = Calls(Inflated(32 * MIB, 64 * MIB), freed=freed.append)
    content = random.Random(1).randbytes(MIB) * 3 + bytes(MIB)
    async with asyncio.timeout(60), both_servers(calls=calls) as both:
        async with grpc.aio.insecure_channel(both.address, options=ALONE) as channel:
            answers = await asyncio.gather(*(length_of_answer(channel, content) for _ in range(5)))
        assert answers == [len(content)] * 5
        await released(both)
        assert both.heard.answered == []
    assert sum(freed) == 5 * len(content)


@given(st.lists(st.tuples(st.sampled_from([1, 3]), st.integers(0, 40), st.integers(1, 60)), max_size=30))
def test_of_unfinished_messages_what_has_come_is_held(pieces: list[tuple[int, int, int]]) -> None:
    """Invariant: held is what has come of the messages that are not whole, of all calls, and nothing stays with their connection's end."""
    unfinished = Unfinished()
    messages = Messages(unlimited(), unfinished)
    left, come = {1: 0, 3: 0}, {1: 0, 3: 0}
    for stream, length, size in pieces:
        data = b"" if left[stream] else prefixed(b"x" * length, compressed=False)[:5]
        if data:
            left[stream], come[stream] = length, 0
        content = min(size, left[stream])
        messages.follow(stream, data + b"x" * content, 0, len(data) + content)
        left[stream] -= content
        come[stream] += content
        assert unfinished.total == sum(come[stream_number] for stream_number in come if left[stream_number])
    messages.close()
    assert unfinished.total == 0
    assert not messages.refused


def test_beyond_the_bound_the_connection_with_most_loses_what_has_waited_longest() -> None:
    unfinished, shed = Unfinished(1000), list[str]()
    first, second = Messages(unlimited(), unfinished), Messages(unlimited(), unfinished)
    first.shed = lambda: shed.append("first")
    for stream in (1, 3):
        begin(first, stream, 400)
    first.follow(1, bytes(10), 0, 10)  # so that 3 has waited longest
    begin(second, 1, 150)
    assert (unfinished.total, first.refused, shed) == (960, [], [])
    second.follow(1, bytes(100), 0, 100)
    assert (unfinished.total, first.refused, second.refused, shed) == (660, [3], [], ["first"])


def test_one_unfinished_message_may_grow_alone_and_beside_another_not() -> None:
    unfinished, shed = Unfinished(1000), list[str]()
    messages = Messages(unlimited(), unfinished)
    messages.shed = lambda: shed.append("while it is followed")
    begin(messages, 1, 5000)
    assert (unfinished.total, messages.refused) == (5000, [])
    begin(messages, 3, 1)
    assert (unfinished.total, messages.refused, shed) == (1, [1], [])


def begin(messages: Messages, stream: int, size: int) -> None:
    """So much of a message that does not end."""
    data = (b"\0" + (1_000_000).to_bytes(4)) + bytes(size)
    messages.follow(stream, data, 0, len(data))


async def test_unfinished_messages_by_the_dozen_are_refused_while_their_client_is_silent() -> None:
    calls = Calls(unfinished=Unfinished(30_000))  # a peer may send 65,535 bytes before it must wait
    async with asyncio.timeout(60), both_servers(calls=calls) as both:
        hoarders = []
        for _ in range(2):
            reader, writer = await asyncio.open_connection(*both.address.rsplit(":", 1))
            begun = prefixed(b"", compressed=False)[:1] + MIB.to_bytes(4) + bytes(500)
            sent = [head_of(stream) + frame(DATA, 0, stream, begun) for stream in range(1, 81, 2)]
            writer.write(BEGUN + b"".join(sent))
            hoarders.append((reader, writer))
            await asyncio.sleep(0.1)
        for reader, writer in hoarders:
            refused, wire = 0, b""
            while refused < 5:
                wire += await reader.read(2**16)
                refused = [kind for kind, _, _ in frames_of(wire)].count(RST_STREAM)
            writer.close()
        assert set(both.heard.answered) == {"inflates"}
        while calls.unfinished.total:
            await asyncio.sleep(0.01)
