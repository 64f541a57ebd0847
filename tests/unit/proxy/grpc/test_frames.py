from __future__ import annotations

import asyncio
from typing import cast

import grpc
from hypothesis import given
from hypothesis import strategies as st

from support.grpc.http2_frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY_TYPE,
    HEADERS,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WIRES,
    frame,
    frames_of,
    nobody,
    pieces,
)
from support.network.floods import BEGUN, head_of
from support.network.relay_server import Invalidation
from support.network.shared_ports import ALONE, both_servers, called
from support.network.streams import listening, serving_at
from vecsieve.proxy.grpc.connections import InnerSocket, SharedConnections
from vecsieve.proxy.grpc.frames import (
    CALL_BYTES,
    GOAWAY,
    HASTY_RESETS,
    MOST_WAITING,
    PREFACE_BYTES,
    Calls,
    Description,
    Frames,
    OpenStreams,
)
from vecsieve.proxy.grpc.messages import Unfinished
from vecsieve.proxy.grpc.shared_port import PREFACE
from vecsieve.proxy.grpc.splice import Splice
from vecsieve.proxy.http.connections import Connections


def noted(noted_frames: list[tuple[int, ...]]) -> Description:
    def note(*frame: int) -> int:
        noted_frames.append(frame)
        return 0

    return note


@given(WIRES, st.lists(st.integers(0, 10**6), max_size=30))
def test_at_the_end_of_whole_frames_there_is_always_room(wire: bytes, cuts: list[int]) -> None:
    """Invariant: however the frames are cut, behind the last one a frame may stand."""
    ends = Frames(nobody)
    places = []
    for piece in pieces(wire, cuts):
        assert ends.follow(piece) == len(piece)
        places.append(ends.place)
    assert ends.is_between
    assert any(place is not None for place in places)


def test_before_the_first_frame_and_within_a_block_of_fields_there_is_no_room() -> None:
    ends = Frames(nobody)
    assert not ends.is_between
    ends.follow(frame(HEADERS, 0, b"part"))
    assert ends.place is None
    assert not ends.is_between
    ends.follow(frame(CONTINUATION, END_HEADERS, b"rest")[:-1])
    assert ends.place is None
    ends.follow(b"t" + frame(DATA, 0, b""))
    assert ends.place == 1


@given(WIRES, st.lists(st.integers(0, 10**6), max_size=30), st.binary(min_size=PREFACE_BYTES, max_size=PREFACE_BYTES))
def test_every_frame_behind_the_preface_is_told_once_and_in_order(wire: bytes, cuts: list[int], preface: bytes) -> None:
    """Invariant: however the bytes are cut, the frames told are those on the wire."""
    noted_frames: list[tuple[int, ...]] = []
    frames = Frames(noted(noted_frames), left=PREFACE_BYTES)
    for piece in pieces(preface + wire, cuts):
        frames.follow(piece)
    assert noted_frames == [(kind, flags, 1, len(payload)) for kind, flags, payload in frames_of(wire)]


@given(WIRES, st.lists(st.integers(0, 10**6), max_size=30), st.integers(1, 4))
def test_no_more_frames_are_begun_than_asked_for_and_none_is_lost_between(
    wire: bytes, cuts: list[int], most: int
) -> None:
    """Invariant: each call begins at most so many frames, stops only where one has ended, and told together they are the wire's."""
    noted_frames: list[tuple[int, ...]] = []
    frames = Frames(noted(noted_frames))
    for piece in pieces(wire, cuts):
        left = memoryview(piece)
        while left:
            before = len(noted_frames)
            at = frames.follow(left, most=most)
            assert at > 0
            assert len(noted_frames) - before <= most
            assert at == len(left) or len(noted_frames) - before == most
            left = left[at:]
    assert noted_frames == [(kind, flags, 1, len(payload)) for kind, flags, payload in frames_of(wire)]


def test_the_reserved_bit_is_no_part_of_a_stream() -> None:
    noted_frames: list[tuple[int, ...]] = []
    frames = Frames(noted(noted_frames))
    frames.follow(frame(DATA, END_STREAM, b"", 0x8000_0007))
    assert noted_frames[0][2] == 7


REQUEST_FLAGS = END_HEADERS


def begin_calls(streams: OpenStreams, *numbers: int) -> None:
    for number in numbers:
        streams.client_frame(HEADERS, REQUEST_FLAGS, number, 0)


def test_a_call_is_open_from_its_fields_to_the_servers_last_frame() -> None:
    calls = Calls()
    streams = OpenStreams(calls, float)
    begin_calls(streams, 1, 3)
    streams.client_frame(DATA, END_STREAM, 1, 0)
    streams.server_frame(HEADERS, END_HEADERS, 1, 0)
    streams.server_frame(DATA, 0, 1, 0)
    assert calls.open == 2, "the client has said all, the server has not"
    streams.server_frame(HEADERS, END_HEADERS | END_STREAM, 1, 0)
    assert calls.open == 1
    streams.server_frame(DATA, END_STREAM, 3, 0)
    assert calls.open == 0


def test_either_side_may_break_a_call_off_and_then_it_is_over_once() -> None:
    calls = Calls()
    streams = OpenStreams(calls, float)
    begin_calls(streams, 1, 3)
    streams.client_frame(RST_STREAM, 0, 1, 0)
    streams.server_frame(RST_STREAM, 0, 1, 0)
    streams.server_frame(RST_STREAM, 0, 3, 0)
    streams.client_frame(RST_STREAM, 0, 3, 0)
    assert calls.open == 0


def test_trailers_of_a_client_are_no_second_call() -> None:
    calls = Calls()
    streams = OpenStreams(calls, float)
    begin_calls(streams, 1, 1)
    streams.server_frame(HEADERS, END_STREAM, 1, 0)
    begin_calls(streams, 1)
    assert calls.open == 0


def test_with_a_connection_its_calls_are_gone_and_others_stay() -> None:
    calls = Calls()
    one, other = OpenStreams(calls, float), OpenStreams(calls, float)
    begin_calls(one, 1, 3, 5)
    begin_calls(other, 1)
    one.end()
    one.end()
    assert calls.open == 1


def test_what_is_taken_does_not_wait_and_nobody_waits_less_than_not_at_all() -> None:
    calls = Calls()
    begin_calls(OpenStreams(calls, float), 1, 3, 5)
    calls.taken = 1
    assert calls.waiting() == 2
    calls.taken = 4  # the server has answered before its frames passed here
    assert calls.waiting() == 0


async def test_a_splice_counts_what_passes_and_forgets_it_with_its_client() -> None:
    calls = Calls()
    inner, connections = InnerSocket(calls), SharedConnections(Connections(limit=9, events=Invalidation()))
    answers: list[asyncio.StreamWriter] = []

    class DataPort(asyncio.Protocol):
        def connection_made(self, transport: asyncio.BaseTransport) -> None:
            made = Splice(cast(asyncio.Transport, transport), connections, inner)
            assert connections.enter(made)
            made.begin(PREFACE)

    async def counted(expected: int) -> None:
        async with asyncio.timeout(5):
            while calls.open != expected:
                await asyncio.sleep(0.005)

    async def answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        answers.append(writer)
        await writer.wait_closed()

    async with serving_at(inner.path, answer), listening(DataPort) as port:
        _, client = await asyncio.open_connection("127.0.0.1", port.sockets[0].getsockname()[1])
        client.write(b"".join(frame(HEADERS, END_HEADERS, b"", number) for number in (1, 3, 5)))
        await counted(3)
        answers[0].write(frame(HEADERS, END_HEADERS | END_STREAM, b"", 3))
        await counted(2)
        client.close()
        answers[0].close()
        await counted(0)
    inner.close()


KINDS = st.sampled_from([DATA, HEADERS, RST_STREAM, SETTINGS])
FRAMES_SENT = st.tuples(st.booleans(), KINDS, st.integers(0, 255), st.integers(0, 9))


@given(st.lists(FRAMES_SENT, max_size=60))
def test_whatever_is_said_the_count_is_of_calls_that_were_asked_and_ends_with_the_connection(
    exchanged: list[tuple[bool, int, int, int]],
) -> None:
    """Invariant: between none and as many as have asked, and none at the end."""
    calls, new = Calls(), 0
    streams = OpenStreams(calls, float)
    for by_client, kind, flags, stream in exchanged:
        new += by_client and kind == HEADERS
        (streams.client_frame if by_client else streams.server_frame)(kind, flags, stream, 0)
        assert 0 <= calls.open <= new
    streams.end()
    assert calls.open == 0


def test_the_last_call_of_a_turn_is_the_one_that_finds_others_waiting() -> None:
    calls = Calls()
    one, other = OpenStreams(calls, float), OpenStreams(calls, float)
    costs = [one.client_frame(HEADERS, REQUEST_FLAGS, 2 * number + 1, 20) for number in range(MOST_WAITING + 1)]
    assert not any(costs[: MOST_WAITING - 1])
    assert all(cost > 10**9 for cost in costs[MOST_WAITING - 1 :])
    assert one.is_paused
    assert other.client_frame(HEADERS, REQUEST_FLAGS, 1, 20) == 0, "who has none open is not held up by others"
    assert not other.is_paused
    calls.taken = MOST_WAITING
    assert not one.is_paused


def test_from_some_resets_on_each_is_waited_behind() -> None:
    streams = OpenStreams(Calls(), float)
    for number in range(HASTY_RESETS + 1):
        assert not streams.is_resting
        begin_calls(streams, 2 * number + 1)
        cost = streams.client_frame(RST_STREAM, 0, 2 * number + 1, 4)
    assert streams.is_resting
    assert cost > 10**9


@given(st.lists(FRAMES_SENT, max_size=60))
def test_heads_are_held_until_their_messages_end(exchanged: list[tuple[bool, int, int, int]]) -> None:
    """Invariant: a head is held for open calls alone, all of them are counted once the frames have been followed, and none at the end."""
    calls = Calls()
    streams = OpenStreams(calls, float)
    for by_client, kind, flags, stream in exchanged:
        if not by_client:
            streams.server_frame(kind, flags, stream, 0)
            continue
        streams.client_read()
        streams.client_frame(kind, flags, stream, 0)
        if kind == HEADERS:
            streams.client_content(kind, stream, b"\x83", 0, 1)
        assert streams.refused()[1] == []
        assert (calls.heads.total > 0) == (calls.heads.total >= CALL_BYTES)
        assert calls.heads.total < (CALL_BYTES + 10_000) * max(calls.open, 0) + 1
    streams.end()
    assert calls.heads.total == 0


def test_beyond_the_bound_the_connection_with_most_heads_loses_its_oldest_call() -> None:
    calls, shed = Calls(heads=Unfinished(5 * CALL_BYTES)), list[str]()
    one, other = OpenStreams(calls, float), OpenStreams(calls, float)
    one.messages.shed = lambda: shed.append("one")
    for number in (1, 3, 5, 7):
        read(one, number)
    assert read(other, 1) == []
    assert read(other, 3) == []
    assert (one.refused()[1], shed) == ([1], ["one"])
    assert read(one, 9) == [3]
    assert (calls.open, calls.heads.total) == (5, 5 * CALL_BYTES)


def test_one_call_alone_may_have_a_head_above_the_bound() -> None:
    calls = Calls(heads=Unfinished(1))
    streams = OpenStreams(calls, float)
    assert read(streams, 1) == []
    assert read(streams, 3) == [1]


def read(streams: OpenStreams, number: int) -> list[int]:
    """A call without a message arrives; the calls to reset."""
    streams.client_read()
    begin_calls(streams, number)
    return streams.refused()[1]


async def test_calls_without_messages_are_reset_in_the_core_and_for_their_client() -> None:
    calls = Calls(heads=Unfinished(20 * CALL_BYTES))
    async with asyncio.timeout(60), both_servers(calls=calls) as both:
        reader, writer = await asyncio.open_connection(*both.address.rsplit(":", 1))
        writer.write(BEGUN + b"".join(head_of(number) for number in range(1, 61, 2)))
        wire = b""
        while [kind for kind, _, _ in frames_of(wire)].count(RST_STREAM) < 10:
            wire += await reader.read(2**16)
        async with grpc.aio.insecure_channel(both.address, options=ALONE) as channel:
            assert await called(channel, b"a good client") == b"a good client"
        assert 15 * CALL_BYTES < calls.heads.total <= 20 * CALL_BYTES
        writer.close()
        while calls.heads.total:
            await asyncio.sleep(0.01)


@given(WIRES, st.lists(st.integers(0, 10**6), max_size=30), st.integers(0, 30))
def test_a_goodbye_is_one_more_frame_between_whole_ones_and_never_first(wire: bytes, cuts: list[int], due: int) -> None:
    """Invariant: without the goodbye the frames are the server's, in order; it stands in no block of fields and not at the start."""
    ends, sent, is_sent = Frames(nobody), b"", False
    for number, piece in enumerate(pieces(wire, cuts)):
        if number >= due and not is_sent and ends.is_between:
            sent, is_sent = sent + GOAWAY, True
        ends.follow(piece)
        place = ends.place
        if number >= due and not is_sent and place is not None:
            sent, is_sent = sent + piece[:place] + GOAWAY + piece[place:], True
        else:
            sent += piece
    frames = frames_of(sent)
    assert [frame for frame in frames if frame[0] != GOAWAY_TYPE] == frames_of(wire)
    kinds = [frame[0] for frame in frames]
    if is_sent:
        at = kinds.index(GOAWAY_TYPE)
        assert at > 0
        assert not (frames[at - 1][0] in {HEADERS, PUSH_PROMISE, CONTINUATION} and not frames[at - 1][1] & END_HEADERS)
    assert is_sent or due > 0


def test_the_goodbye_is_what_rfc_9113_calls_one_that_refuses_nothing() -> None:
    ((kind, flags, payload),) = frames_of(GOAWAY)
    assert (kind, flags) == (GOAWAY_TYPE, 0)
    assert GOAWAY[5:9] == bytes(4), "of the connection"
    assert int.from_bytes(payload[:4]) == 2**31 - 1
    assert payload[4:] == bytes(4), "NO_ERROR"
