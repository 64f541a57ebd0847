"""Says GOAWAY to a client in the gRPC server's place, and before the server does.

When grpcio's server is told to stop, its core first cancels every call that reaches it and then says GOAWAY (1.85, and so a bare
`grpc.aio` server): what a client sends until it hears of that is CANCELLED, which nobody tries again. RFC 9113 6.8 has the
remedy: a first GOAWAY that refuses nothing, a while for what is on its way, then the end. The frame may stand between any two of the
server's, but not within a block of fields.
"""

from __future__ import annotations

# The largest stream there can be: nothing that was or will be sent is refused. NO_ERROR.
GOAWAY = b"\x00\x00\x08\x07\x00" + bytes(4) + b"\x7f\xff\xff\xff" + bytes(4)
# For the frame to reach the client and for what it had sent by then to reach us: a long way round the world and a busy loop.
FAREWELL_SECONDS = 0.5

_HEAD_BYTES = 9  # length (3), type, flags, stream (4): RFC 9113 4.1
_FIELDS = frozenset({0x1, 0x5, 0x9})  # HEADERS, PUSH_PROMISE, CONTINUATION
_END_OF_FIELDS = 0x4


class FrameEnds:
    """Follows the frames of one direction, in whatever pieces they come."""

    __slots__ = ("_head", "_is_in_fields", "_left", "has_begun")

    def __init__(self) -> None:
        self._head = b""
        self._left = 0
        self._is_in_fields = False
        self.has_begun = False

    @property
    def is_between(self) -> bool:
        """Whether a frame may stand here. Not at the beginning, where SETTINGS must."""
        return self.has_begun and not (self._head or self._left or self._is_in_fields)

    def first(self, data: bytes) -> int | None:
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
        if head[3] in _FIELDS:
            self._is_in_fields = not head[4] & _END_OF_FIELDS
