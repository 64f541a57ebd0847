"""How many calls have come in and have not been looked at yet: the first sign of overload over gRPC.

grpcio takes one call at a time off its core's queue and gives each turns of the loop before it takes the next (1.85). However many
wait, the loop does not lag and few calls are in a handler: the queue is the core's, which tells nobody its length. So the streams are
counted as their frames pass.
"""

from __future__ import annotations

from collections.abc import Callable

from vecsieve.proxy.grpc.allowance import Allowance
from vecsieve.proxy.grpc.frames import ACK, CONTINUATION, DATA, END_STREAM, HEADERS, PING, RST_STREAM, SETTINGS

_WITH_CONTENT = frozenset({DATA, HEADERS, CONTINUATION})


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
    """The calls of one connection, by the frames of both sides. What is no HTTP/2 counts as it may: gRPC's server will end it.

    ``allowance``: what the client may still send that brings nothing. ``last``: the highest stream it has opened.
    """

    __slots__ = ("_calls", "_clock", "_now", "_open", "allowance", "last")

    def __init__(self, calls: Calls, clock: Callable[[], float]) -> None:
        self._calls = calls
        self._clock = clock
        self._now = clock()
        self._open: dict[int, float] = {}  # since when
        self.allowance = Allowance(self._now)
        self.last = 0

    def client_speaks(self) -> None:
        """Frames of the client's are about to be followed: what they have in common is looked at once."""
        self._now = self._clock()
        self.allowance.refill(self._now)

    def client_said(self, kind: int, flags: int, stream: int, length: int) -> None:
        """Fields of a stream that is new, for a client's streams rise, are a call (RFC 9113 5.1.1)."""
        if kind == DATA and length:
            self.allowance.content(length)
        elif kind == HEADERS and stream > self.last:
            self.last = stream
            self._open[stream] = self._now
            self._calls.open += 1
            self.allowance.call()
        elif kind == RST_STREAM and (since := self._end(stream)) is not None:
            self.allowance.reset(self._now - since)
        elif not length and kind in _WITH_CONTENT and not flags & END_STREAM:
            self.allowance.empty()
        else:
            self.allowance.frame()

    def server_said(self, kind: int, flags: int, stream: int, _length: int) -> None:
        """The server's last frame of a stream ends the call."""
        if kind in {DATA, HEADERS}:
            self.allowance.answer()
            if flags & END_STREAM and self._end(stream) is not None:
                self.allowance.answered()
        elif kind == RST_STREAM:
            self._end(stream)
        elif kind in {PING, SETTINGS} and not flags & ACK:
            self.allowance.question()

    def end(self) -> None:
        """The connection is gone, and its calls with it."""
        self._calls.open -= len(self._open)
        self._open.clear()

    def _end(self, stream: int) -> float | None:
        """Since when the call was open; None where it was not."""
        since = self._open.pop(stream, None)
        if since is not None:
            self._calls.open -= 1
        return since
