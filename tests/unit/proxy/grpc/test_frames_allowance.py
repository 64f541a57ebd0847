from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.grpc.http2_frames import DATA, END_HEADERS, END_STREAM, HEADERS, RST_STREAM, SETTINGS, frame
from support.process.clocks import ManualClock
from vecsieve.proxy.grpc.fields import MOST_FIELDS
from vecsieve.proxy.grpc.frames import (
    CALL_FRAMES,
    EMPTY_FRAMES,
    FRAMES,
    FRAMES_A_SECOND,
    PING,
    RESETS,
    RESETS_A_SECOND,
    SHORT_SECONDS,
    Allowance,
    Calls,
    Frames,
    OpenStreams,
)
from vecsieve.proxy.grpc.splice import FRAMES_A_TURN

WINDOW_UPDATE, PRIORITY, CONTINUATION = 0x8, 0x2, 0x9


class Peer:
    """A connection's frames, by both sides."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.streams = OpenStreams(Calls(), self.clock)

    @property
    def allowance(self) -> Allowance:
        return self.streams.allowance

    def stated(self, kind: int, *, flags: int = 0, stream: int = 1, length: int = 0) -> None:
        self.streams.client_frame(kind, flags, stream, length)

    def answered(self, stream: int) -> None:
        self.streams.server_frame(HEADERS, END_HEADERS, stream, 20)
        self.streams.server_frame(DATA, 0, stream, 50)
        self.streams.server_frame(HEADERS, END_HEADERS | END_STREAM, stream, 20)

    def passes(self, seconds: float) -> None:
        self.clock.now += seconds
        self.streams.client_read()


@pytest.fixture
def peer() -> Peer:
    return Peer()


def kinds() -> list[tuple[int, int]]:
    return [(SETTINGS, 6), (PING, 8), (WINDOW_UPDATE, 4), (PRIORITY, 5), (CONTINUATION, 1), (0x77, 1), (DATA, 1)]


def test_every_kind_of_frame_without_content_is_spent_after_as_many() -> None:
    for kind, length in kinds():
        peer = Peer()
        for _ in range(FRAMES):
            peer.stated(kind, length=length)
        assert not peer.allowance.is_spent, kind
        peer.stated(kind, length=length)
        assert peer.allowance.is_spent, kind


@pytest.mark.parametrize("kind", [DATA, HEADERS, CONTINUATION])
def test_a_few_frames_that_are_empty_where_content_belongs_are_enough(peer: Peer, kind: int) -> None:
    for _ in range(FRAMES // EMPTY_FRAMES):
        peer.stated(kind)
    assert not peer.allowance.is_spent
    peer.stated(kind)
    assert peer.allowance.is_spent


def test_the_empty_end_of_a_stream_is_a_frame_like_others(peer: Peer) -> None:
    for _ in range(FRAMES):
        peer.stated(DATA, flags=END_STREAM)
    assert not peer.allowance.is_spent


def test_what_a_second_brings_may_be_sent_in_it_for_ever(peer: Peer) -> None:
    for _ in range(3600):
        peer.passes(1.0)
        for _ in range(FRAMES_A_SECOND):
            peer.stated(PING, length=8)
    assert peer.allowance.frames >= FRAMES - FRAMES_A_SECOND


def test_streams_of_a_head_alone_are_dearer_than_frames(peer: Peer) -> None:
    opened = 0
    while not peer.allowance.is_spent:
        opened += 1
        peer.stated(HEADERS, flags=END_HEADERS, stream=2 * opened + 1, length=40)
    assert opened == FRAMES // CALL_FRAMES + 1


def test_calls_reset_as_they_are_opened_are_spent_after_as_many(peer: Peer) -> None:
    for number in range(RESETS):
        peer.stated(HEADERS, flags=END_HEADERS, stream=2 * number + 1, length=40)
        peer.stated(DATA, length=50_000)
        peer.stated(RST_STREAM, stream=2 * number + 1, length=4)
    assert not peer.allowance.is_spent
    peer.stated(HEADERS, flags=END_HEADERS, stream=9_999_999, length=40)
    peer.stated(RST_STREAM, stream=9_999_999, length=4)
    assert peer.allowance.is_spent


def test_a_client_may_break_off_half_of_its_calls_for_ever(peer: Peer) -> None:
    for number in range(0, 20 * RESETS, 2):
        peer.stated(HEADERS, flags=END_HEADERS, stream=2 * number + 1, length=40)
        peer.stated(HEADERS, flags=END_HEADERS, stream=2 * number + 3, length=40)
        peer.answered(2 * number + 1)
        peer.stated(RST_STREAM, stream=2 * number + 3, length=4)
    assert not peer.allowance.is_spent


def test_a_client_that_gives_up_on_a_database_that_hangs_is_not_cut(peer: Peer) -> None:
    for number in range(1_000 * 60):  # a minute of 1,000 searches a second, each given up after 0.2 s
        peer.stated(HEADERS, flags=END_HEADERS, stream=2 * number + 1, length=40)
        peer.stated(DATA, flags=END_STREAM, stream=2 * number + 1, length=3100)
        if number >= 200:
            peer.stated(RST_STREAM, stream=2 * (number - 200) + 1, length=4)
        peer.passes(0.001)
    assert not peer.allowance.is_spent
    assert SHORT_SECONDS < 0.2


def test_a_ping_and_two_window_updates_for_each_small_call_are_earned_by_it(peer: Peer) -> None:
    """Go's client measures the path with a PING at each answer; grpc core and Java raise both windows after some."""
    for number in range(100_000):
        stream = 2 * number + 1
        peer.stated(HEADERS, flags=END_HEADERS, stream=stream, length=12)
        peer.stated(DATA, flags=END_STREAM, stream=stream, length=5)
        for kind, length in ((PING, 8), (WINDOW_UPDATE, 4), (WINDOW_UPDATE, 4)):
            peer.stated(kind, length=length)
        peer.answered(stream)
        peer.streams.client_read()
    assert peer.allowance.frames == FRAMES


def test_a_stream_of_messages_of_two_bytes_costs_nothing(peer: Peer) -> None:
    peer.stated(HEADERS, flags=END_HEADERS, length=40)
    for _ in range(1_000_000):
        peer.stated(DATA, length=7)
    assert peer.allowance.frames == FRAMES - CALL_FRAMES


def test_what_the_server_asks_for_may_be_acknowledged(peer: Peer) -> None:
    for _ in range(3 * FRAMES):
        peer.streams.server_frame(PING, 0, 0, 8)
        peer.stated(PING, flags=1, stream=0, length=8)
    assert not peer.allowance.is_spent


def test_the_servers_own_acknowledgements_earn_nothing(peer: Peer) -> None:
    for _ in range(FRAMES + 1):
        peer.stated(PING, stream=0, length=8)
        peer.streams.server_frame(PING, 1, 0, 8)
    assert peer.allowance.is_spent


def test_time_gives_back_what_was_spent_on_resets() -> None:
    allowance = Allowance(0.0)
    for _ in range(RESETS):
        allowance.reset(0.0)
    allowance.refill(1.0)
    for _ in range(RESETS_A_SECOND):
        allowance.reset(0.0)
    assert not allowance.is_spent
    allowance.reset(0.0)
    assert allowance.is_spent


SPOKEN = st.tuples(
    st.sampled_from([DATA, HEADERS, RST_STREAM, PING, WINDOW_UPDATE]), st.integers(1, 50), st.integers(0, 4)
)


@given(st.lists(SPOKEN, max_size=200), st.floats(0, 1e6))
def test_nothing_is_saved_up_beyond_the_allowance(sent: list[tuple[int, int, int]], seconds: float) -> None:
    """Invariant: after whatever was said and however long, there is no more to spend than at the beginning."""
    peer = Peer()
    for kind, stream, length in sent:
        peer.stated(kind, stream=stream, length=length)
        peer.answered(stream)
    peer.passes(seconds)
    assert peer.allowance.frames <= FRAMES


@pytest.mark.parametrize("byte", [b"\x82", b"\x20"], ids=["indexed field", "size of the table"])
def test_fields_of_one_byte_cost_a_turn_as_much_as_frames(byte: bytes) -> None:
    """Following one takes about as long as following a frame, and a block that decodes to little may have hundreds."""
    peer, block = Peer(), byte * MOST_FIELDS
    frames = Frames(peer.streams.client_frame, content=peer.streams.client_content)
    data = frame(HEADERS, END_HEADERS, block) * 100
    assert frames.follow(data, most=FRAMES_A_TURN) <= FRAMES_A_TURN + len(block)
    assert not peer.allowance.is_spent


@pytest.mark.parametrize("byte", [b"\x82", b"\x20"], ids=["indexed field", "size of the table"])
def test_a_block_of_more_fields_than_any_client_has_is_a_flood(peer: Peer, byte: bytes) -> None:
    """However it arrives: one more than the most, in frames of one field each."""
    frames = Frames(peer.streams.client_frame, content=peer.streams.client_content)
    frames.follow(frame(HEADERS, 0, byte * (MOST_FIELDS - 1)))
    frames.follow(frame(CONTINUATION, 0, byte))
    assert not peer.allowance.is_spent
    frames.follow(frame(CONTINUATION, END_HEADERS, byte))
    assert peer.allowance.is_spent


def test_bytes_that_are_no_fields_are_a_flood(peer: Peer) -> None:
    frames = Frames(peer.streams.client_frame, content=peer.streams.client_content)
    frames.follow(frame(HEADERS, END_HEADERS, b"\x3f\xe1\x9f" + b"\x80" * 40))
    assert peer.allowance.is_spent
