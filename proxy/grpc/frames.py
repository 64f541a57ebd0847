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
Told = Callable[[int, int, int, int], object]
"""Told of every frame as its head is whole: type, flags, stream, length."""


class Frames:
    """One direction. ``skip``: bytes before the first frame."""

    __slots__ = ("_head", "_is_in_fields", "_left", "_told", "has_begun", "place")

    def __init__(self, told: Told, *, skip: int = 0) -> None:
        self._told = told
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

        ``place`` is then the first place behind a byte of it where a frame may stand, None where there is none.
        """
        most -= bool(self._head)
        at, self.place = self._finish(data), None
        if at and self.is_between:
            self.place = at
        end = len(data)
        last_head, unpack, told = end - _HEAD_BYTES, _HEAD.unpack_from, self._told
        # A peer can send 29,000 empty frames in one read: one walk over the buffer, and no call a frame but the one that tells.
        while at <= last_head and most > 0 and not self._left:
            high, low, kind, flags, stream = unpack(data, at)
            left = high << 8 | low
            told(kind, flags, stream & _STREAM, left)
            if kind in _FIELDS:
                self._is_in_fields = not flags & _END_OF_FIELDS
            self.has_begun, most, at = True, most - 1, at + _HEAD_BYTES + left
            if at > end:
                self._left, at = at - end, end
            elif self.place is None and not self._is_in_fields:
                self.place = at
        if most > 0 and at < end:
            self._head, at = bytes(data[at:]), end
        return at

    def _finish(self, data: Buffer) -> int:
        """Take what is missing of the frame that has begun, its head first; how many bytes of ``data`` these are."""
        at = 0
        if self._head:
            at = _HEAD_BYTES - len(self._head)
            self._head += bytes(data[:at])
            if len(self._head) < _HEAD_BYTES:
                return len(data)
            high, low, kind, flags, stream = _HEAD.unpack(self._head)
            self._head, self._left, self.has_begun = b"", high << 8 | low, True
            if kind in _FIELDS:
                self._is_in_fields = not flags & _END_OF_FIELDS
            self._told(kind, flags, stream & _STREAM, self._left)
        step = min(self._left, len(data) - at)
        self._left -= step
        return at + step
