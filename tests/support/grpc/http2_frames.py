"""HTTP/2 frames on the wire, for tests that speak it without a library."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import strategies as st

DATA, HEADERS, RST_STREAM, SETTINGS, PUSH_PROMISE, GOAWAY_TYPE, CONTINUATION = 0x0, 0x1, 0x3, 0x4, 0x5, 0x7, 0x9
END_HEADERS = 0x4
END_STREAM = 0x1


def frame(kind: int, flags: int, payload: bytes, stream: int = 1) -> bytes:
    return len(payload).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + payload


def frames_of(wire: bytes) -> list[tuple[int, int, bytes]]:
    frames = []
    while wire:
        length = int.from_bytes(wire[:3])
        assert len(wire) >= 9 + length, "a frame is cut"
        frames.append((wire[3], wire[4], wire[9 : 9 + length]))
        wire = wire[9 + length :]
    return frames


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


def nobody(_kind: int, _flags: int, _stream: int, _length: int) -> int:
    """Told of frames, and does nothing."""
    return 0
