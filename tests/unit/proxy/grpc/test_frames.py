from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.grpc.http2_frames import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    WIRES,
    frame,
    frames_of,
    nobody,
    pieces,
)
from vecsieve.proxy.grpc.frames import PREFACE_BYTES, Description, Frames


def noted(told: list[tuple[int, ...]]) -> Description:
    def note(*frame: int) -> int:
        told.append(frame)
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
    told: list[tuple[int, ...]] = []
    frames = Frames(noted(told), left=PREFACE_BYTES)
    for piece in pieces(preface + wire, cuts):
        frames.follow(piece)
    assert told == [(kind, flags, 1, len(payload)) for kind, flags, payload in frames_of(wire)]


@given(WIRES, st.lists(st.integers(0, 10**6), max_size=30), st.integers(1, 4))
def test_no_more_frames_are_begun_than_asked_for_and_none_is_lost_between(
    wire: bytes, cuts: list[int], most: int
) -> None:
    """Invariant: each call begins at most so many frames, stops only where one has ended, and told together they are the wire's."""
    told: list[tuple[int, ...]] = []
    frames = Frames(noted(told))
    for piece in pieces(wire, cuts):
        left = memoryview(piece)
        while left:
            before = len(told)
            at = frames.follow(left, most=most)
            assert at > 0
            assert len(told) - before <= most
            assert at == len(left) or len(told) - before == most
            left = left[at:]
    assert told == [(kind, flags, 1, len(payload)) for kind, flags, payload in frames_of(wire)]


def test_the_reserved_bit_is_no_part_of_a_stream() -> None:
    told: list[tuple[int, ...]] = []
    frames = Frames(noted(told))
    frames.follow(frame(DATA, END_STREAM, b"", 0x8000_0007))
    assert told[0][2] == 7
