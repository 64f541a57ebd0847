from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.grpc.http2_frames import (
    CONTINUATION,
    END_HEADERS,
    GOAWAY_TYPE,
    HEADERS,
    PUSH_PROMISE,
    WIRES,
    frames_of,
    nobody,
    pieces,
)
from vecsieve.proxy.grpc.frames import GOAWAY, Frames


@given(WIRES, st.lists(st.integers(0, 10**6), max_size=30), st.integers(0, 30))
def test_a_goodbye_is_one_more_frame_between_whole_ones_and_never_first(wire: bytes, cuts: list[int], due: int) -> None:
    """Invariant: without the goodbye the frames are the server's, in order; it stands in no block of fields and not at the start."""
    ends, sent, is_said = Frames(nobody), b"", False
    for number, piece in enumerate(pieces(wire, cuts)):
        if number >= due and not is_said and ends.is_between:
            sent, is_said = sent + GOAWAY, True
        ends.follow(piece)
        place = ends.place
        if number >= due and not is_said and place is not None:
            sent, is_said = sent + piece[:place] + GOAWAY + piece[place:], True
        else:
            sent += piece
    frames = frames_of(sent)
    assert [frame for frame in frames if frame[0] != GOAWAY_TYPE] == frames_of(wire)
    kinds = [frame[0] for frame in frames]
    if is_said:
        at = kinds.index(GOAWAY_TYPE)
        assert at > 0
        assert not (frames[at - 1][0] in {HEADERS, PUSH_PROMISE, CONTINUATION} and not frames[at - 1][1] & END_HEADERS)
    assert is_said or due > 0


def test_the_goodbye_is_what_rfc_9113_calls_one_that_refuses_nothing() -> None:
    ((kind, flags, payload),) = frames_of(GOAWAY)
    assert (kind, flags) == (GOAWAY_TYPE, 0)
    assert GOAWAY[5:9] == bytes(4), "of the connection"
    assert int.from_bytes(payload[:4]) == 2**31 - 1
    assert payload[4:] == bytes(4), "NO_ERROR"
