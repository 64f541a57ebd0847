"""The answer to a gRPC client on a port without gRPC: UNIMPLEMENTED, in words that name the remedy, instead of an HTTP/1 error that it cannot read.

The connection is one of HTTP/1 that has not sent a request: it is closed after the time for a first head.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from .frames import ACK, END_STREAM, HEADERS, PREFACE_BYTES, SETTINGS, Frames, frame

LOGGER = logging.getLogger("vecsieve.grpc")
LONGEST = 16_384  # bytes of a frame
MOST_CALLS = 64  # of one connection that are answered
_END_OF_FIELDS = 0x4
_STATUS_200 = b"\x88"  # `:status: 200` in HPACK's static table
_UNIMPLEMENTED = b"12"


def refusing(words: str) -> Callable[[], Callable[[bytes], bytes | None]]:
    """Makes, for each connection, what answers its bytes, and None to what is no frame. ``words``: ASCII, for the client and, once, for the log."""
    block = b"".join(
        [
            _STATUS_200,
            _literal(b"content-type", b"application/grpc"),
            _literal(b"grpc-status", _UNIMPLEMENTED),
            _literal(b"grpc-message", words.encode("ascii")),
        ]
    )
    is_logged = False

    def begin() -> Callable[[bytes], bytes | None]:
        nonlocal is_logged
        if not is_logged:
            is_logged = True
            LOGGER.warning("a gRPC client was refused: %s", words)
        return _Refused(block).answer

    return begin


class _Refused:
    __slots__ = ("_answers", "_block", "_calls", "_frames", "_is_malformed")

    def __init__(self, block: bytes) -> None:
        self._block = block
        self._calls, self._is_malformed = 0, False
        self._answers = [frame(SETTINGS, 0, 0)]
        self._frames = Frames(self._read, left=PREFACE_BYTES)

    def answer(self, data: bytes) -> bytes | None:
        self._frames.follow(data)
        if self._is_malformed:
            return None
        answers, self._answers = self._answers, []
        return b"".join(answers)

    def _read(self, kind: int, flags: int, stream: int, length: int) -> int:
        # The first frame is SETTINGS, and none is longer unless the server allows it (RFC 9113 3.4, 4.2): a request of HTTP/1 may follow.
        if length > LONGEST or (not self._calls and kind != SETTINGS):
            self._is_malformed = True
        if self._calls < MOST_CALLS and kind == HEADERS:
            self._calls += 1
            self._answers.append(frame(HEADERS, END_STREAM | _END_OF_FIELDS, stream, self._block))
        elif kind == SETTINGS and not flags & ACK and self._calls < MOST_CALLS:
            self._calls += 1  # a flood of either is answered no longer
            self._answers.append(frame(SETTINGS, ACK, 0))
        return 0


def _literal(name: bytes, value: bytes) -> bytes:
    """A field that HPACK does not index (RFC 7541 6.2.2), of at most 126 bytes: a longer length takes more than one byte."""
    return b"".join((b"\x00", bytes([len(name)]), name, bytes([len(value)]), value))
