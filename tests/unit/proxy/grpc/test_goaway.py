from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.grpc.goaway import GOAWAY, FrameEnds

DATA, HEADERS, SETTINGS, PUSH_PROMISE, GOAWAY_TYPE, CONTINUATION = 0x0, 0x1, 0x4, 0x5, 0x7, 0x9
END_HEADERS = 0x4


def frame(kind: int, flags: int, payload: bytes, stream: int = 1) -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


def frames_of(wire: bytes) -> list[tuple[int, int, bytes]]:
    found = []
    while wire:
        length = int.from_bytes(wire[:3])
        assert len(wire) >= 9 + length, "a frame is cut"
        found.append((wire[3], wire[4], wire[9 : 9 + length]))
        wire = wire[9 + length :]
    return found


SIMPLE = st.builds(frame, st.sampled_from([DATA, SETTINGS, 0x6, 0x8]), st.just(0), st.binary(max_size=40))
BLOCKS = st.builds(
    lambda kind, parts: b"".join(
        frame(kind if not number else CONTINUATION, END_HEADERS * (number == len(parts) - 1), part)
        for number, part in enumerate(parts)
    ),
    st.sampled_from([HEADERS, PUSH_PROMISE]),
    st.lists(st.binary(max_size=20), min_size=1, max_size=4),
)
WIRES = st.lists(SIMPLE | BLOCKS, min_size=1, max_size=12).map(b"".join)


def pieces(wire: bytes, cuts: list[int]) -> list[bytes]:
    places = sorted({0, len(wire), *(cut % len(wire) for cut in cuts)})
    return [wire[start:end] for start, end in pairwise(places)]


@given(WIRES, st.lists(st.integers(0, 10**6), max_size=30), st.integers(0, 30))
def test_a_goodbye_is_one_more_frame_between_whole_ones_and_never_first(wire: bytes, cuts: list[int], due: int) -> None:
    """Invariant: without the goodbye the frames are the server's, in order; it stands in no block of fields and not at the start."""
    ends, sent, is_said = FrameEnds(), b"", False
    for number, piece in enumerate(pieces(wire, cuts)):
        if number >= due and not is_said and ends.is_between:
            sent, is_said = sent + GOAWAY, True
        place = ends.first(piece)
        if number >= due and not is_said and place is not None:
            sent, is_said = sent + piece[:place] + GOAWAY + piece[place:], True
        else:
            sent += piece
    frames = frames_of(sent)
    assert [each for each in frames if each[0] != GOAWAY_TYPE] == frames_of(wire)
    kinds = [each[0] for each in frames]
    if is_said:
        at = kinds.index(GOAWAY_TYPE)
        assert at > 0
        assert not (frames[at - 1][0] in {HEADERS, PUSH_PROMISE, CONTINUATION} and not frames[at - 1][1] & END_HEADERS)
    assert is_said or due > 0


@given(WIRES, st.lists(st.integers(0, 10**6), max_size=30))
def test_at_the_end_of_whole_frames_there_is_always_room(wire: bytes, cuts: list[int]) -> None:
    """Invariant: however the frames are cut, behind the last one a frame may stand."""
    ends = FrameEnds()
    places = [ends.first(piece) for piece in pieces(wire, cuts)]
    assert ends.is_between
    assert any(place is not None for place in places)


def test_before_the_first_frame_and_within_a_block_of_fields_there_is_no_room() -> None:
    ends = FrameEnds()
    assert not ends.is_between
    assert ends.first(frame(HEADERS, 0, b"part")) is None
    assert not ends.is_between
    assert ends.first(frame(CONTINUATION, END_HEADERS, b"rest")[:-1]) is None
    assert ends.first(b"t" + frame(DATA, 0, b"")) == 1


def test_the_goodbye_is_what_rfc_9113_calls_one_that_refuses_nothing() -> None:
    ((kind, flags, payload),) = frames_of(GOAWAY)
    assert (kind, flags) == (GOAWAY_TYPE, 0)
    assert GOAWAY[5:9] == bytes(4), "of the connection"
    assert int.from_bytes(payload[:4]) == 2**31 - 1
    assert payload[4:] == bytes(4), "NO_ERROR"
