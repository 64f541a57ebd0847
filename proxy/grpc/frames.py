"""Follows the frames of one direction of an HTTP/2 connection, in whatever pieces they come (RFC 9113 4.1)."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable

DATA, HEADERS, RST_STREAM, SETTINGS, PING, CONTINUATION = 0x0, 0x1, 0x3, 0x4, 0x6, 0x9
END_STREAM = 0x1  # of DATA and HEADERS
ACK = 0x1  # of SETTINGS and PING
PREFACE_BYTES = 24  # before a client's first frame (RFC 9113 3.4)

_HEAD = struct.Struct(">HBBBI")  # length (3 bytes, in two parts), type, flags, stream
_HEAD_BYTES = _HEAD.size
_FIELDS = frozenset({HEADERS, 0x5, CONTINUATION})  # and PUSH_PROMISE
_END_OF_FIELDS = 0x4
_STREAM = 0x7FFF_FFFF  # without the reserved bit

Buffer = bytes | memoryview
Told = Callable[[int, int, int, int], int]
"""Told of every frame as its head is whole: type, flags, stream, length. Returns what it costs beside itself, in frames."""


Content = Callable[[int, Buffer, int, int], int]
"""Shown some of the DATA of a stream: stream, what came, from where in it, to where. Returns what that cost beside the frames, in frames."""


class Frames:
    """One direction. ``skip``: bytes before the first frame. ``content``: who is shown what DATA frames carry."""

    __slots__ = ("_content", "_head", "_is_in_fields", "_left", "_shown", "_told", "begun_at", "has_begun", "place")

    def __init__(self, told: Told, *, skip: int = 0, content: Content | None = None) -> None:
        self._told = told
        self._content = content
        self._shown: int | None = None  # the stream of the frame that has begun, where its content is shown
        self.begun_at: int | None = None
        self._head = b""
        self._left = skip
        self._is_in_fields = False
        self.has_begun = False
        self.place: int | None = None

    @property
    def is_between(self) -> bool:
        """Whether a frame may stand here. Not at the beginning, where SETTINGS must."""
        return self.has_begun and not (self._head or self._left or self._is_in_fields)

    def follow(self, data: Buffer, *, most: int = sys.maxsize) -> int:
        """Follow ``data`` until ``most`` frames have begun in it; how far that was: all of it, or to the end of a frame.

        ``place`` is then the first place behind a byte of it where a frame may stand, None where there is none; ``begun_at`` where the last
        frame in it begins, None where that was before.
        """
        self.place = self.begun_at = None
        at, cost = self._finish(data)
        most -= cost
        if at and self.is_between:
            self.place = at
        end = len(data)
        last_head, unpack, told = end - _HEAD_BYTES, _HEAD.unpack_from, self._told
        # A peer can send 29,000 empty frames in one read: one walk over the buffer, and no call a frame but the one that tells.
        while at <= last_head and most > 0 and not self._left:
            high, low, kind, flags, stream = unpack(data, at)
            left = high << 8 | low
            most -= 1 + told(kind, flags, stream & _STREAM, left)
            if kind in _FIELDS:
                self._is_in_fields = not flags & _END_OF_FIELDS
            self.begun_at, at = at, at + _HEAD_BYTES
            self._shown = None
            if self._content is not None and kind == DATA:
                self._shown = stream & _STREAM
                most -= self._content(self._shown, data, at, min(at + left, end))
            self.has_begun, at = True, at + left
            if at > end:
                self._left, at = at - end, end
            elif self.place is None and not self._is_in_fields:
                self.place = at
        if most > 0 and at < end:
            self._head, at = bytes(data[at:]), end
        return at

    def _finish(self, data: Buffer) -> tuple[int, int]:
        """Take what is missing of the frame that has begun, its head first; how many bytes of ``data`` these are, and what it cost in frames."""
        at = cost = 0
        if self._head:
            at = _HEAD_BYTES - len(self._head)
            self._head += bytes(data[:at])
            if len(self._head) < _HEAD_BYTES:
                return len(data), 0
            high, low, kind, flags, stream = _HEAD.unpack(self._head)
            self._head, self._left, self.has_begun = b"", high << 8 | low, True
            if kind in _FIELDS:
                self._is_in_fields = not flags & _END_OF_FIELDS
            cost = 1 + self._told(kind, flags, stream & _STREAM, self._left)
            self._shown = stream & _STREAM if kind == DATA else None
        step = min(self._left, len(data) - at)
        if step and self._shown is not None and self._content is not None:
            cost += self._content(self._shown, data, at, at + step)
        self._left -= step
        return at + step, cost


def inserted(data: memoryview, told: list[tuple[int, bytes]]) -> Buffer:
    """The data with these in their places."""
    if not told:
        return data
    pieces: list[Buffer] = []
    at = 0
    for place, said in told:
        pieces += (data[at:place], said)
        at = place
    return b"".join((*pieces, data[at:]))
