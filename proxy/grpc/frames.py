"""The frames of an HTTP/2 client (RFC 9113 4.1), an allowance for empty ones, and waiting calls."""

from __future__ import annotations

import struct
import sys
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field

from .fields import Fields
from .messages import Buffer, Inflated, Messages, Unfinished

DATA, HEADERS, RST_STREAM, SETTINGS, PING, CONTINUATION = 0x0, 0x1, 0x3, 0x4, 0x6, 0x9
END_STREAM = 0x1  # of DATA and HEADERS
PADDED = 0x8  # of DATA: the gRPC core refuses it, and no client of its own pads
ACK = 0x1  # of SETTINGS and PING
PREFACE_BYTES = 24  # before a client's first frame (RFC 9113 3.4)

_HEAD = struct.Struct(">HBBBI")  # length (3 bytes, in two parts), type, flags, stream
_HEAD_BYTES = _HEAD.size
_FIELDS = frozenset({HEADERS, 0x5, CONTINUATION})  # and PUSH_PROMISE
_WITH_CONTENT = frozenset({DATA, HEADERS, CONTINUATION})
_END_OF_FIELDS = 0x4
_STREAM = 0x7FFF_FFFF  # without the reserved bit
_GOAWAY = 0x7


def frame(kind: int, flags: int, stream: int, content: bytes = b"") -> bytes:
    return len(content).to_bytes(3) + bytes([kind, flags]) + stream.to_bytes(4) + content


Description = Callable[[int, int, int, int], int]
"""Called for every frame when its head is complete: type, flags, stream, length. Returns its additional cost, in frames."""


Content = Callable[[int, int, Buffer, int, int], int]
"""Called with part of the content of a frame with DATA or fields: type, stream, data, start, stop. Returns its additional cost, in frames."""


@dataclass(slots=True)
class Frames:
    """Follows the frames of one direction, in pieces of any size.

    ``left``: bytes of the current frame that are left; at first those before the first one. ``content``: receives the payload of frames with DATA or fields. ``place``: the first place in the last data
    where a frame may be inserted, None without one. ``begun_at``: where the last frame begins in it, None if before.
    """

    _on_frame: Description
    _: KW_ONLY
    left: int = 0
    content: Content | None = None
    begun_at: int | None = None
    place: int | None = None
    has_begun: bool = False
    _head: bytes = b""
    _is_in_fields: bool = False
    _frame: tuple[int, int] | None = None  # type and stream of the frame that has begun, if its content is followed

    @property
    def is_between(self) -> bool:
        """Whether a frame may be inserted here. Not at the start, where SETTINGS must come first."""
        return self.has_begun and not (self._head or self.left or self._is_in_fields)

    def follow(self, data: Buffer, *, most: int = sys.maxsize) -> int:
        """Follow ``data`` until frames of cost ``most`` have begun; return the position, which is the end of the data or of a frame."""
        self.place = self.begun_at = None
        at, cost = self._finish(data)
        most -= cost
        if at and self.is_between:
            self.place = at
        end = len(data)
        last_head, unpack, on_frame = end - _HEAD_BYTES, _HEAD.unpack_from, self._on_frame
        # A peer can send 29,000 empty frames in one read: the buffer is walked once, with a single call per frame.
        while at <= last_head and most > 0 and not self.left:
            high, low, kind, flags, stream = unpack(data, at)
            left = high << 8 | low
            most -= 1 + on_frame(kind, flags, stream & _STREAM, left)
            if kind in _FIELDS:
                self._is_in_fields = not flags & _END_OF_FIELDS
            self.begun_at, at = at, at + _HEAD_BYTES
            self._frame = None
            if self.content is not None and kind in _WITH_CONTENT:
                self._frame = (kind, stream & _STREAM)
                most -= self.content(kind, stream & _STREAM, data, at, min(at + left, end))
            self.has_begun, at = True, at + left
            if at > end:
                self.left, at = at - end, end
            elif self.place is None and not self._is_in_fields:
                self.place = at
        if most > 0 and at < end:
            self._head, at = bytes(data[at:]), end
        return at

    def _finish(self, data: Buffer) -> tuple[int, int]:
        """Complete the current frame, its head first; return the bytes taken and their cost in frames."""
        at = cost = 0
        if self._head:
            at = _HEAD_BYTES - len(self._head)
            self._head += bytes(data[:at])
            if len(self._head) < _HEAD_BYTES:
                return len(data), 0
            high, low, kind, flags, stream = _HEAD.unpack(self._head)
            self._head, self.left, self.has_begun = b"", high << 8 | low, True
            if kind in _FIELDS:
                self._is_in_fields = not flags & _END_OF_FIELDS
            cost = 1 + self._on_frame(kind, flags, stream & _STREAM, self.left)
            self._frame = (kind, stream & _STREAM) if kind in _WITH_CONTENT else None
        step = min(self.left, len(data) - at)
        if step and self._frame is not None and self.content is not None:
            cost += self.content(*self._frame, data, at, at + step)
        self.left -= step
        return at + step, cost


def inserted(data: memoryview, insertions: list[tuple[int, bytes]]) -> Buffer:
    """The data with each of ``insertions`` at its place."""
    pieces: list[Buffer] = []
    at = 0
    for place, frames in insertions:
        pieces += (data[at:place], frames)
        at = place
    return b"".join((*pieces, data[at:]))


# Frames beyond those that are earned: at once, and again each second. Following them takes a few milliseconds. Idle clients send one PING
# in ten seconds; nghttp2, Envoy and Go's server allow 1,000 to 10,000 such frames before they end a connection.
FRAMES = 10_000
FRAMES_A_SECOND = 1_000
# DATA shorter than a gRPC message can be (its prefix has five bytes) counts as a frame without content.
LEAST_CONTENT_BYTES = 5
CONTENT_BYTES_A_FRAME = 256  # of content that earn one frame
# The cost of an empty DATA without an end, or of an empty piece of a block of fields: no client needs them. The gRPC core ends a connection
# without a reason after 100 of the latter (1.85); VecSieve states the reason after half as many.
EMPTY_FRAMES = 200
# Bytes of one block of fields, as it comes and as it decodes: the core accepts some 16 KiB, but holds far more until the block ends
# (CVE-2024-27316). What is beyond the core's limit costs frames: the core refuses the call, and a client that repeats it is a flood. A
# block's bytes are known to within 8/5 (fields.py).
FIELDS_BYTES = 1 << 20
FREE_FIELDS_BYTES = 1 << 15
FIELDS_BYTES_A_FRAME = 256
# Following a field takes as long as following this many frames. Clients of the databases send up to 20 with a call, and proxies add some ten;
# each beyond FREE_FIELDS costs a frame.
FRAMES_A_FIELD = 4
FREE_FIELDS = 64
CALL_FRAMES = 4  # the cost of a call until it is answered: starting a handler is more expensive than a frame
ANSWER_FRAMES = 4  # earned by each frame of an answer; the last one also returns the call's own cost
# Calls reset within SHORT_SECONDS and before an answer, beyond one for each that was answered: at once, and again each second. The same
# number as in nghttp2. A client that gives up after a longer wait is not counted.
RESETS = 1_000
RESETS_A_SECOND = 33
HASTY_RESETS = (
    250  # above this the client waits after each reset: the core starts many handlers before it sees the resets
)
SHORT_SECONDS = 0.1


@dataclass(slots=True)
class Allowance:
    """Limits frames without effect that one client may send: empty frames, and calls that are reset at once. ``_at``: monotonic seconds of the
    last refill. ``frames``, ``resets``: how many it may still send.

    Each frame costs time here and in the gRPC core, and most kinds need no flow control credit: empty DATA, SETTINGS, PING, PRIORITY,
    WINDOW_UPDATE, CONTINUATION, calls opened and reset (CVE-2023-44487). Clients need some of them with their calls: a WINDOW_UPDATE for an
    answer, a PING to measure a busy connection, an ACK for the server's. So answers and content earn more than such frames cost, and some
    may be sent at any time.
    """

    _at: float
    frames: float = FRAMES
    resets: float = RESETS

    @property
    def is_spent(self) -> bool:
        return self.frames < 0 or self.resets < 0

    def refill(self, now: float) -> None:
        """Add the allowance for the time that has passed, up to the maximum."""
        passed, self._at = now - self._at, now
        self.frames = min(FRAMES, self.frames + passed * FRAMES_A_SECOND)
        self.resets = min(RESETS, self.resets + passed * RESETS_A_SECOND)

    def spend(self) -> None:
        self.frames = -1.0

    def reset(self, age_seconds: float) -> bool:
        """An unanswered call was reset. Returns whether the client keeps resetting calls as it opens them."""
        self.frames -= 1
        if age_seconds < SHORT_SECONDS:
            self.resets -= 1
        return self.resets < RESETS - HASTY_RESETS


# A first GOAWAY that refuses nothing (RFC 9113 6.8): the largest possible stream, NO_ERROR. When grpcio's server is stopped, its core
# cancels every call that reaches it before it sends its own GOAWAY (1.85), and no client retries a cancelled call. The frame may be
# inserted between any two of the server's, but not within a block of fields.
GOAWAY = frame(_GOAWAY, 0, 0, _STREAM.to_bytes(4) + bytes(4))
# Seconds for the frame to reach the client, and for what it had sent by then to arrive here: allows for a long route and a busy loop.
GOAWAY_SECONDS = 0.5
_ENHANCE_YOUR_CALM = 0xB


def reset_stream(stream: int) -> bytes:
    """Ends one call whose message is too large; gRPC's libraries report RESOURCE_EXHAUSTED."""
    return frame(RST_STREAM, 0, stream, _ENHANCE_YOUR_CALM.to_bytes(4))


def goaway_flood(last: int, *, is_first: bool) -> bytes:
    """The frames that end a flooding connection (RFC 9113 10.5). ``last``: the highest stream that was forwarded.

    ``is_first``: nothing was sent yet, and SETTINGS must be the first frame (RFC 9113 3.4).
    """
    reason = _ENHANCE_YOUR_CALM.to_bytes(4) + b"too many frames without content"
    goaway = frame(_GOAWAY, 0, 0, last.to_bytes(4) + reason)
    return frame(SETTINGS, 0, 0) + goaway if is_first else goaway


# The most calls waiting in the core's one queue for all connections: the number that a loop handles in some 30 ms. A client with open calls
# already waits outside the queue for more, so that a client with a thousand calls does not delay all others.
MOST_WAITING = 64
# The same for a client whose address has just flooded: a call with 180 fields takes a millisecond, so 64 of them delayed every other call by as
# many (now 9 ms).
MOST_WAITING_FLOODING = 8
# Bytes held for the heads of all calls whose messages have not ended; beyond them a call is reset, as for its message (messages.py). An open
# call costs the core and its handler 25 kB, and each byte that its fields decode to about 4: twelve connections with 1,024 calls of 180 small
# fields each took 580 MB (grpcio 1.85). There is room for more calls than may be in progress (limits.in_flight).
HEADS_BYTES = 1 << 25
CALL_BYTES = 25_000
_BYTES_OF_A_FIELDS_BYTE = 4


@dataclass(slots=True)
class Calls:
    """The calls of all ports of a process.

    grpcio takes one call at a time off its core's queue, and gives each some turns of the loop (1.85). The number of waiting calls does not
    make the loop lag, and the core does not report its queue's length, so streams are counted by their frames. ``open``: unanswered calls.
    ``taken``: those with a handler, or answered but not yet sent. ``freed``: called with the message size of an ended call. ``heads``: bytes
    that are held for calls whose messages have not ended.
    """

    inflated: Inflated = field(default_factory=lambda: Inflated(sys.maxsize, sys.maxsize))
    unfinished: Unfinished = field(default_factory=Unfinished)
    freed: Callable[[int], object] = lambda _: None
    heads: Unfinished = field(default_factory=lambda: Unfinished(HEADS_BYTES))
    open: int = 0
    taken: int = 0

    def waiting(self) -> int:
        """Calls without a handler yet."""
        return max(0, self.open - self.taken)


@dataclass(slots=True, eq=False)
class OpenStreams:
    """The calls of one connection, by the frames of both sides. Data that is no HTTP/2 is left to the gRPC server.

    ``last``: the highest stream opened. ``most_waiting``: the client's next calls wait while so many of all clients do. ``is_resting``: the client resets calls as it opens them, so its next frames wait for a moment.
    """

    _calls: Calls
    _clock: Callable[[], float]
    allowance: Allowance = field(init=False)
    messages: Messages = field(init=False)
    is_resting: bool = False
    last: int = 0
    most_waiting: int = MOST_WAITING
    _now: float = field(init=False)
    _open: dict[int, float] = field(default_factory=dict)  # the time of opening
    _fields: Fields = field(default_factory=Fields)
    _fields_bytes: int = 0  # of the current block of fields
    _heads: dict[int, int] = field(
        default_factory=dict
    )  # bytes held for each call whose message has not ended, oldest first
    _heads_bytes: int = 0  # of all of them
    _heads_counted: int = 0  # what the process has been told
    _is_read: bool = False  # frames of this client are being followed
    _silent: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._now = self._clock()
        self.allowance = Allowance(self._now)
        self.messages = Messages(self._calls.inflated, self._calls.unfinished)

    def client_read(self) -> None:
        """Read the clock once for the client's next frames."""
        self._is_read = True
        self._now = self._clock()
        self.allowance.refill(self._now)

    @property
    def is_paused(self) -> bool:
        """Whether the client's next frames wait because of other clients' calls."""
        return len(self._open) > 1 and self._calls.waiting() >= self.most_waiting

    def client_frame(self, kind: int, flags: int, stream: int, length: int) -> int:
        """HEADERS of a new stream are a call (RFC 9113 5.1.1). While calls wait, it is the last one of this turn."""
        if kind in _FIELDS:
            self._fields_bytes = length + (self._fields_bytes if kind == CONTINUATION else 0)
            if self._fields_bytes > FIELDS_BYTES:
                self.allowance.spend()
                return sys.maxsize
            if kind in _WITH_CONTENT:
                self._fields.begin(flags, length, is_first=kind == HEADERS)
        if flags & END_STREAM and kind in {DATA, HEADERS}:
            self._release(stream)
        if kind == DATA and length and not flags & PADDED:
            self.allowance.frames += length // CONTENT_BYTES_A_FRAME if length >= LEAST_CONTENT_BYTES else -1
        elif kind == HEADERS and stream > self.last:
            self.last = stream
            self._open[stream] = self._now
            if not flags & END_STREAM:
                self._heads[stream] = CALL_BYTES
                self._heads_bytes += CALL_BYTES
            self._calls.open += 1
            self.allowance.frames -= CALL_FRAMES
            return sys.maxsize if self.is_paused else 0
        elif kind == RST_STREAM and (since := self._end(stream)) is not None:
            self.is_resting = self.allowance.reset(self._now - since)
            return sys.maxsize if self.is_resting else 0
        elif kind in _WITH_CONTENT and not flags & END_STREAM and (not length or kind == DATA):
            self.allowance.frames -= EMPTY_FRAMES
        else:
            self.allowance.frames -= 1
        return 0

    def client_content(self, kind: int, stream: int, data: Buffer, start: int, stop: int) -> int:
        """DATA or fields of a call; returns its cost in frames."""
        if kind != DATA:
            return self._client_fields(stream, data, start, stop)
        if stream not in self._open:
            return 0
        cost = self.messages.follow(stream, data, start, stop)
        return sys.maxsize if self.messages.refused else cost

    def _client_fields(self, stream: int, data: Buffer, start: int, stop: int) -> int:
        before = self._fields.count
        grown, decoded = self._fields.follow(data, start, stop), self._fields.decoded
        count = self._fields.count
        if stream in self._heads:
            self._heads[stream] += _BYTES_OF_A_FIELDS_BYTE * grown
            self._heads_bytes += _BYTES_OF_A_FIELDS_BYTE * grown
        if decoded > FIELDS_BYTES or self._fields.is_lost:
            self.allowance.spend()
        elif decoded > FREE_FIELDS_BYTES:
            self.allowance.frames -= -(-min(grown, decoded - FREE_FIELDS_BYTES) // FIELDS_BYTES_A_FRAME)
        if count > FREE_FIELDS:
            self.allowance.frames -= min(count - before, count - FREE_FIELDS)
        return sys.maxsize if self.allowance.is_spent else (count - before) * FRAMES_A_FIELD

    def refused(self) -> tuple[list[int], list[int]]:
        """The calls whose messages are too large, and those to reset because the heads of calls without an ended message are too many; they are ended
        and count against the allowance. The client's last frames have been followed.
        """
        if self._heads_bytes != self._heads_counted:
            self._count_heads()
        refused, self.messages.refused = self.messages.refused, []
        silent, self._silent, self._is_read = self._silent, [], False
        for stream in (*refused, *silent):
            self._end(stream)
            self.allowance.frames -= EMPTY_FRAMES
        return refused, silent

    def refuse_oldest(self, *, is_alone: bool) -> bool:
        """As ``Messages``: the call whose message has been awaited longest."""
        if is_alone and len(self._heads) < 2:
            return False
        stream = next(iter(self._heads))
        self._silent.append(stream)
        self._end(stream)
        if not self._is_read:
            self.messages.shed()
        return True

    def _release(self, stream: int) -> None:
        self._heads_bytes -= self._heads.pop(stream, 0)

    def _count_heads(self) -> None:
        more, self._heads_counted = self._heads_bytes - self._heads_counted, self._heads_bytes
        self._calls.heads.change(self, more)

    def server_frame(self, kind: int, flags: int, stream: int, _length: int) -> int:
        """The server's last frame of a stream ends the call."""
        if kind in {DATA, HEADERS}:
            self.allowance.frames += ANSWER_FRAMES
            self._release(stream)
            if flags & END_STREAM and self._end(stream) is not None:
                self.allowance.frames += CALL_FRAMES
                self.allowance.resets += 1
        elif kind == RST_STREAM:
            self._end(stream)
        elif kind in {PING, SETTINGS} and not flags & ACK:
            self.allowance.frames += 1  # the client must acknowledge it
        return 0

    def end(self) -> None:
        self.end_some(len(self._open))

    def end_some(self, most: int) -> list[int]:
        """End this many calls, oldest first; return them."""
        ended = list(self._open)[:most]
        for stream in ended:
            self._end(stream)
        return ended

    def _end(self, stream: int) -> float | None:
        """The time at which the call was opened; None if it is not open."""
        since = self._open.pop(stream, None)
        if since is not None:
            self._release(stream)
            if self._heads_bytes != self._heads_counted:
                self._count_heads()
            self._calls.open -= 1
            self._calls.freed(self.messages.end(stream))
        return since
