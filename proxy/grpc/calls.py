"""How many calls have come in and have not been looked at yet: the first sign of overload over gRPC.

grpcio takes one call at a time off its core's queue and gives each turns of the loop before it takes the next (1.85). However many
wait, the loop does not lag and few calls are in a handler: the queue is the core's, which tells nobody its length. So the streams are
counted as their frames pass.
"""

from __future__ import annotations

from vecsieve.proxy.grpc.frames import DATA, END_STREAM, HEADERS, RST_STREAM


class Calls:
    """Those of all ports of a process. ``open``: asked and unanswered; ``taken``: of which a handler knows, or which it has answered
    and the library has not sent.
    """

    __slots__ = ("open", "taken")

    def __init__(self) -> None:
        self.open = 0
        self.taken = 0

    @property
    def waiting(self) -> int:
        """How many nobody has looked at."""
        return max(0, self.open - self.taken)


class OpenStreams:
    """The calls of one connection, by the frames of both sides. What is no HTTP/2 counts as it may: gRPC's server will end it."""

    __slots__ = ("_calls", "_last", "_open")

    def __init__(self, calls: Calls) -> None:
        self._calls = calls
        self._open: set[int] = set()
        self._last = 0

    def client_said(self, kind: int, _flags: int, stream: int) -> None:
        """Fields of a stream that is new, for a client's streams rise, are a call (RFC 9113 5.1.1)."""
        if kind == HEADERS and stream > self._last:
            self._last = stream
            self._open.add(stream)
            self._calls.open += 1
        elif kind == RST_STREAM:
            self._end(stream)

    def server_said(self, kind: int, flags: int, stream: int) -> None:
        """The server's last frame of a stream ends the call."""
        if kind == RST_STREAM or (kind in {DATA, HEADERS} and flags & END_STREAM):
            self._end(stream)

    def end(self) -> None:
        """The connection is gone, and its calls with it."""
        self._calls.open -= len(self._open)
        self._open.clear()

    def _end(self, stream: int) -> None:
        if stream in self._open:
            self._open.remove(stream)
            self._calls.open -= 1
