"""Frames of a refused client: each call is answered once, and a flood of them no longer."""

from __future__ import annotations

import pytest

from vecsieve.proxy.grpc.frames import ACK, END_STREAM, HEADERS, PING, SETTINGS
from vecsieve.proxy.grpc.refusal import MOST_CALLS, refusing
from vecsieve.proxy.grpc.shared_port import PREFACE


def frame(kind: int, stream: int = 0, content: bytes = b"", flags: int = 0x4) -> bytes:
    return len(content).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + content


def answers(data: bytes) -> list[tuple[int, int, int]]:
    """Kind, flags and stream of each frame."""
    frames = []
    while data:
        length = int.from_bytes(data[:3], "big")
        frames.append((data[3], data[4], int.from_bytes(data[5:9], "big")))
        data = data[9 + length :]
    return frames


def test_every_call_is_answered_on_its_stream_however_the_bytes_arrive() -> None:
    sent = PREFACE + frame(SETTINGS, flags=0) + frame(HEADERS, 1, b"\x82") + frame(PING) + frame(HEADERS, 3, b"\x82")
    whole, pieces = refusing("no")(), refusing("no")()
    expected = [(SETTINGS, 0, 0), (SETTINGS, ACK, 0), (HEADERS, END_STREAM | 0x4, 1), (HEADERS, END_STREAM | 0x4, 3)]
    assert answers(whole(sent) or b"") == expected
    assert answers(b"".join(pieces(sent[at : at + 1]) or b"" for at in range(len(sent)))) == expected


@pytest.mark.parametrize(
    "data", [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", frame(PING), frame(SETTINGS, flags=0) + b"\0\x40\1" + b"\0" * 6]
)
def test_what_is_no_frame_behind_the_preface_has_no_answer(data: bytes) -> None:
    """A frame that is not the first SETTINGS, or one of 16,385 bytes, ends the connection however the bytes arrive."""
    for step in (1, 7, 64):
        answer = refusing("no")()
        sent = PREFACE + data
        assert None in [answer(sent[at : at + step]) for at in range(0, len(sent), step)]


def test_a_flood_is_answered_no_longer() -> None:
    answer = refusing("no")()
    answer(PREFACE)
    replies = [
        answers(answer(frame(SETTINGS, flags=0) + frame(HEADERS, 1 + 2 * call)) or b"")
        for call in range(10 * MOST_CALLS)
    ]
    assert sum(map(len, replies)) == MOST_CALLS
