"""The messages in an HTTP/2 connection's DATA: bounds for unfinished and inflated bytes."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

Buffer = bytes | memoryview
# The largest compression ratio: vectors shrink by a tenth, texts to a fifth; a thousand to one is zeros. Up to the default message limit of
# every gRPC server the ratio is not checked: an upload of empty vectors is legal.
MOST_RATIO = 100
ANY_RATIO_BYTES = 4 * 1024 * 1024
PIECE_BYTES = 256 * 1024
# Inflating this many bytes takes as long as following a frame: 1,000 frames per turn of the loop are 2 MiB.
BYTES_A_FRAME = 2048
_PREFIX_BYTES = 5  # whether it is compressed (1), length (4)
_AUTOMATIC = zlib.MAX_WBITS | 32  # gzip or zlib, recognized by their heads: `gzip` and `deflate` of gRPC


@dataclass(slots=True)
class Inflated:
    """The inflated bytes of a process's compressed messages. ``message_bytes``: of the largest message. ``most``: of all together."""

    message_bytes: int
    most: int
    total: int = 0

    def has_room(self, more: int, *, message_total: int) -> bool:
        """Whether a message of ``message_total`` bytes may grow by ``more``. A single message is always allowed, up to its own bound."""
        return message_total + more <= self.message_bytes and (
            self.total == message_total or self.total + more <= self.most
        )


class Holder(Protocol):
    """A connection that holds bytes for calls."""

    def refuse_oldest(self, *, is_alone: bool) -> bool:
        """End the call that has waited longest. ``is_alone``: no other connection holds any; one call of it may stay then, and False is the
        answer.
        """


@dataclass(slots=True)
class Unfinished:
    """The bytes that a process holds for incomplete messages, or for their calls' heads. ``most``: of all together.

    The core grants each call's message a window and holds what arrived: 49 MiB for a thousand calls on one connection, as long as a body
    may take. Above the bound, the connection with most bytes loses the message that has waited longest for its next bytes.
    """

    most: int = sys.maxsize
    total: int = 0
    _of: dict[Holder, int] = field(default_factory=dict)

    def change(self, holder: Holder, more: int) -> None:
        """Add ``more`` bytes of a connection; negative for fewer."""
        self.total += more
        size = self._of.pop(holder, 0) + more
        if size:
            self._of[holder] = size
        while more > 0 and self.total > self.most:
            if not max(self._of, key=self._of.__getitem__).refuse_oldest(is_alone=len(self._of) == 1):
                return


@dataclass(slots=True)
class _Stream:
    """The messages of one call. ``left``: missing bytes of the current one, ``taken``: arrived bytes; ``inflated``: size of the last
    compressed one.
    """

    prefix: bytes = b""
    left: int = 0
    taken: int = 0
    inflated: int = 0
    engine: zlib._Decompress | None = field(default=None)


@dataclass(slots=True, eq=False)
class Messages:
    """Counts the size of one connection's messages as they pass: arrived bytes of incomplete ones, inflated bytes of compressed ones.
    ``refused``: streams whose messages are too large. ``shed``: called when one is refused while no data of this connection is followed.

    The gRPC core inflates a whole message at once and holds it: 200 kB may become 200 MiB, on a thousand calls. So each compressed message
    is inflated here piece by piece and only counted, and a call whose message becomes too large is reset before the core has all of it.
    Uncompressed messages are skipped by their length.
    """

    _inflated: Inflated
    _unfinished: Unfinished = field(default_factory=Unfinished)
    refused: list[int] = field(default_factory=list)
    shed: Callable[[], None] = lambda: None
    _streams: dict[int, _Stream] = field(default_factory=dict)  # the first is the one that waited longest for DATA
    _is_followed: bool = False

    def follow(self, stream: int, data: Buffer, start: int, stop: int) -> int:
        """Follow DATA of a stream; returns the cost in frames."""
        known = self._streams.pop(stream, None)
        if known is None:
            if stop - start >= _PREFIX_BYTES and not data[start] & 1:
                length = int.from_bytes(data[start + 1 : start + _PREFIX_BYTES])
                if stop - start - _PREFIX_BYTES == length:
                    return 0  # the common case: one whole message, not compressed
            known = _Stream()
        self._streams[stream] = known
        cost, self._is_followed = 0, True
        while start < stop and stream in self._streams:
            if known.left:
                step = min(known.left, stop - start)
                known.left -= step
                known.taken += step
                self._unfinished.change(self, step if known.left else step - known.taken)
                if known.engine is not None:
                    cost += self._inflate(stream, known, data[start : start + step])
                start += step
            else:
                start = self._begin(known, data, start, stop)
                cost += 1
        self._is_followed = False
        return cost

    def refuse_oldest(self, *, is_alone: bool) -> bool:
        """Refuse the incomplete message that has waited longest. Returns False without refusing if ``is_alone`` is true for the connection
        and there is no second message.
        """
        unfinished = [stream for stream, known in self._streams.items() if known.left and known.taken]
        if is_alone and len(unfinished) < 2:
            return False
        self.refused.append(unfinished[0])
        self.end(unfinished[0])
        if not self._is_followed:
            self.shed()
        return True

    def end(self, stream: int) -> int:
        """Forget a call; returns the size of its last compressed message."""
        known = self._streams.pop(stream, None)
        if known is None:
            return 0
        self._inflated.total -= known.inflated
        if known.left and known.taken:
            self._unfinished.change(self, -known.taken)
        return known.inflated

    def close(self) -> None:
        for stream in list(self._streams):
            self.end(stream)

    def _begin(self, known: _Stream, data: Buffer, start: int, stop: int) -> int:
        """Read the prefix of a message, as far as it has arrived; return where it ends."""
        end = min(stop, start + _PREFIX_BYTES - len(known.prefix))
        known.prefix += bytes(data[start:end])
        if len(known.prefix) == _PREFIX_BYTES:
            known.left, known.taken = int.from_bytes(known.prefix[1:]), 0
            self._inflated.total -= known.inflated  # of the previous message
            known.inflated = 0
            known.engine = zlib.decompressobj(_AUTOMATIC) if known.prefix[0] & 1 else None
            known.prefix = b""
        return end

    def _inflate(self, stream: int, known: _Stream, data: Buffer) -> int:
        """Count a piece of a message; return the cost in frames. Damaged data is left to the core, which refuses it."""
        engine, before = known.engine, known.inflated
        assert engine is not None  # noqa: S101 - asked for compressed messages alone
        more: Buffer = data
        while more:
            try:
                size = len(engine.decompress(more, PIECE_BYTES))
            except zlib.error:
                known.engine = None
                break
            if not self._may_hold(known, size):
                known.engine = None
                self.refused.append(stream)
                break
            known.inflated += size
            self._inflated.total += size
            more = engine.unconsumed_tail
        return (known.inflated - before) // BYTES_A_FRAME

    def _may_hold(self, known: _Stream, size: int) -> bool:
        total = known.inflated + size
        if total > max(ANY_RATIO_BYTES, MOST_RATIO * known.taken):
            return False
        return self._inflated.has_room(size, message_total=known.inflated)
