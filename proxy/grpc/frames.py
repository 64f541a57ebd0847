"""Follows the frames of one direction of an HTTP/2 connection, in whatever pieces they come (RFC 9113 4.1)."""

from __future__ import annotations

from collections.abc import Callable

DATA, HEADERS, RST_STREAM = 0x0, 0x1, 0x3
END_STREAM = 0x1  # of DATA and HEADERS
PREFACE_BYTES = 24  # before a client's first frame (RFC 9113 3.4)

_HEAD_BYTES = 9  # length (3), type, flags, stream (4)
_FIELDS = frozenset({HEADERS, 0x5, 0x9})  # and PUSH_PROMISE, CONTINUATION
_END_OF_FIELDS = 0x4
_STREAM = 0x7FFF_FFFF  # without the reserved bit

Told = Callable[[int, int, int], object]
"""Told of every frame as its head is whole: type, flags, stream."""


class Frames:
    """One direction. ``skip``: bytes before the first frame."""

    __slots__ = ("_head", "_is_in_fields", "_left", "_told", "has_begun")

    def __init__(self, told: Told, *, skip: int = 0) -> None:
        self._told = told
        self._head = b""
        self._left = skip
        self._is_in_fields = False
        self.has_begun = False

    @property
    def is_between(self) -> bool:
        """Whether a frame may stand here. Not at the beginning, where SETTINGS must."""
        return self.has_begun and not (self._head or self._left or self._is_in_fields)

    def follow(self, data: bytes) -> int | None:
        """Follow ``data``; the first place behind a byte of it where a frame may stand, None where there is none."""
        found, at = None, 0
        while at < len(data):
            if self._left:
                at += (step := min(self._left, len(data) - at))
                self._left -= step
            else:
                piece = data[at : at + _HEAD_BYTES - len(self._head)]
                at += len(piece)
                self._take(self._head + piece)
            if found is None and self.is_between:
                found = at
        return found

    def _take(self, head: bytes) -> None:
        if len(head) < _HEAD_BYTES:
            self._head = head
            return
        self._head = b""
        self._left = int.from_bytes(head[:3])
        self.has_begun = True
        kind, flags = head[3], head[4]
        if kind in _FIELDS:
            self._is_in_fields = not flags & _END_OF_FIELDS
        self._told(kind, flags, int.from_bytes(head[5:]) & _STREAM)
