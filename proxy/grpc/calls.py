"""How many calls have come in and have not been looked at yet: the first sign of overload over gRPC.

grpcio takes one call at a time off its core's queue and gives each turns of the loop before it takes the next (1.85). However many
wait, the loop does not lag and few calls are in a handler: the queue is the core's, which tells nobody its length. So the streams are
counted as their frames pass.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

from vecsieve.proxy.grpc.allowance import Allowance
from vecsieve.proxy.grpc.frames import ACK, CONTINUATION, DATA, END_STREAM, HEADERS, PING, RST_STREAM, SETTINGS, Buffer
from vecsieve.proxy.grpc.inflation import Inflated, Messages

# Calls that wait to be looked at, in the core's one queue for all connections: what a loop does in some 30 ms. Who has calls open
# already waits outside it for more, so that one who asks for a thousand at once does not stand before everybody else.
MOST_WAITING = 64
_WITH_CONTENT = frozenset({DATA, HEADERS, CONTINUATION})


class Calls:
    """Those of all ports of a process. ``open``: asked and unanswered; ``taken``: of which a handler knows, or which it has answered
    and the library has not sent. ``inflated``: what their compressed messages come to; ``freed``: told of calls that have ended
    and of how large their messages were.
    """

    __slots__ = ("freed", "inflated", "open", "taken")

    def __init__(self, inflated: Inflated | None = None, *, freed: Callable[[int], object] = lambda _: None) -> None:
        self.open = 0
        self.taken = 0
        self.inflated = Inflated(sys.maxsize, sys.maxsize) if inflated is None else inflated
        self.freed = freed

    @property
    def is_crowded(self) -> bool:
        """Whether so many wait that more of them would only make others wait longer."""
        return self.waiting >= MOST_WAITING

    @property
    def waiting(self) -> int:
        """How many nobody has looked at."""
        return max(0, self.open - self.taken)


class OpenStreams:
    """The calls of one connection, by the frames of both sides. What is no HTTP/2 counts as it may: gRPC's server will end it.

    ``allowance``: what the client may still send that brings nothing. ``last``: the highest stream it has opened. ``messages``: what its
    calls bring. ``is_resting``: it resets calls as it opens them, and what it sends behind the last one waits a moment.
    """

    __slots__ = ("_calls", "_clock", "_now", "_open", "allowance", "is_resting", "last", "messages")

    def __init__(self, calls: Calls, clock: Callable[[], float]) -> None:
        self._calls = calls
        self._clock = clock
        self._now = clock()
        self._open: dict[int, float] = {}  # since when
        self.allowance = Allowance(self._now)
        self.messages = Messages(calls.inflated)
        self.is_resting = False
        self.last = 0

    def client_speaks(self) -> None:
        """Frames of the client's are about to be followed: what they have in common is looked at once."""
        self._now = self._clock()
        self.allowance.refill(self._now)

    @property
    def is_held(self) -> bool:
        """Whether what the client has sent behind its last call is to wait for others' calls."""
        return len(self._open) > 1 and self._calls.is_crowded

    def client_said(self, kind: int, flags: int, stream: int, length: int) -> int:
        """Fields of a stream that is new, for a client's streams rise, are a call (RFC 9113 5.1.1). Where calls wait it is the last at a turn."""
        if kind == DATA and length:
            self.allowance.content(length)
        elif kind == HEADERS and stream > self.last:
            self.last = stream
            self._open[stream] = self._now
            self._calls.open += 1
            self.allowance.call()
            return sys.maxsize if self.is_held else 0
        elif kind == RST_STREAM and (since := self._end(stream)) is not None:
            self.allowance.reset(self._now - since)
            self.is_resting = self.allowance.is_hasty
            return sys.maxsize if self.is_resting else 0
        elif not length and kind in _WITH_CONTENT and not flags & END_STREAM:
            self.allowance.empty()
        else:
            self.allowance.frame()
        return 0

    def client_brought(self, stream: int, data: Buffer, start: int, stop: int) -> int:
        """Some content of a call's; what following it cost, in frames."""
        if stream not in self._open:
            return 0
        cost = self.messages.follow(stream, data, start, stop)
        return sys.maxsize if self.messages.refused else cost

    def refused(self) -> list[int]:
        """The calls whose messages come to too much: they have ended, and the client has used up some of what it may."""
        found, self.messages.refused = self.messages.refused, []
        for stream in found:
            self._end(stream)
            self.allowance.empty()
        return found

    def server_said(self, kind: int, flags: int, stream: int, _length: int) -> int:
        """The server's last frame of a stream ends the call."""
        if kind in {DATA, HEADERS}:
            self.allowance.answer()
            if flags & END_STREAM and self._end(stream) is not None:
                self.allowance.answered()
        elif kind == RST_STREAM:
            self._end(stream)
        elif kind in {PING, SETTINGS} and not flags & ACK:
            self.allowance.question()
        return 0

    def end(self) -> None:
        """The connection is gone, and its calls with it."""
        for stream in list(self._open):
            self._end(stream)

    def _end(self, stream: int) -> float | None:
        """Since when the call was open; None where it was not."""
        since = self._open.pop(stream, None)
        if since is not None:
            self._calls.open -= 1
            self._calls.freed(self.messages.end(stream))
        return since
