"""How much compressed messages come to, found as they pass: grpc core inflates a message when it is whole, and holds it whole.

A message of 200 kB may inflate to 200 MiB, and a thousand calls may each bring one. So each compressed message is inflated here as
its bytes pass, a little at a time, and only counted: a call whose message comes to too much is reset before the core has all of it.
gRPC's other end makes RESOURCE_EXHAUSTED of ENHANCE_YOUR_CALM. Messages that are not compressed are passed over by their length.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field

from vecsieve.proxy.grpc.frames import Buffer

# Vectors shrink by a tenth, texts to a fifth; a thousand to one is zeros. Up to what every gRPC server takes unless it is told otherwise
# the ratio is not looked at: an upload of empty vectors is one.
MOST_RATIO = 100
ANY_RATIO_BYTES = 4 * 1024 * 1024
PIECE_BYTES = 256 * 1024
# Inflating so many bytes takes as long as following a frame: 1,000 frames a turn of the loop are 2 MiB.
BYTES_A_FRAME = 2048
_PREFIX_BYTES = 5  # whether it is compressed (1), length (4)
_AUTOMATIC = zlib.MAX_WBITS | 32  # gzip or zlib, by their heads: `gzip` and `deflate` of gRPC


@dataclass(slots=True)
class Inflated:
    """What the compressed messages of a process come to. ``message_bytes``: one of them at most; ``most``: all that are held at once."""

    message_bytes: int
    most: int
    held: int = 0

    def has_room(self, more: int, *, own: int) -> bool:
        """Whether a message that came to ``own`` may come to so much more. One alone always may, up to its own bound."""
        return own + more <= self.message_bytes and (self.held == own or self.held + more <= self.most)


@dataclass(slots=True)
class _Stream:
    """The messages of one call. ``left``: of the one that passes; ``inflated``: what the last compressed one came to."""

    prefix: bytes = b""
    left: int = 0
    taken: int = 0
    inflated: int = 0
    engine: zlib._Decompress | None = field(default=None)


class Messages:
    """Follows the messages of one connection's calls. ``refused``: streams whose messages come to too much, until they are taken."""

    __slots__ = ("_inflated", "_streams", "refused")

    def __init__(self, inflated: Inflated) -> None:
        self._inflated = inflated
        self._streams: dict[int, _Stream] = {}
        self.refused: list[int] = []

    def follow(self, stream: int, data: Buffer, start: int, stop: int) -> int:
        """So much of the DATA of a stream came; as many frames as it cost to follow."""
        known = self._streams.get(stream)
        if known is None:
            if stop - start >= _PREFIX_BYTES and not data[start] & 1:
                length = int.from_bytes(data[start + 1 : start + _PREFIX_BYTES])
                if stop - start - _PREFIX_BYTES == length:
                    return 0  # the common case: one whole message, not compressed
            known = self._streams[stream] = _Stream()
        cost = 0
        while start < stop:
            if known.left:
                step = min(known.left, stop - start)
                if known.engine is not None:
                    cost += self._inflate(stream, known, data[start : start + step])
                known.left -= step
                start += step
            else:
                start = self._begin(known, data, start, stop)
        return cost

    def end(self, stream: int) -> int:
        """A call has ended; what its last compressed message came to."""
        known = self._streams.pop(stream, None)
        if known is None:
            return 0
        self._inflated.held -= known.inflated
        return known.inflated

    def close(self) -> None:
        """The connection is gone."""
        for stream in list(self._streams):
            self.end(stream)

    def _begin(self, known: _Stream, data: Buffer, start: int, stop: int) -> int:
        """Take the prefix of a message, or what there is of it; where it ends."""
        end = min(stop, start + _PREFIX_BYTES - len(known.prefix))
        known.prefix += bytes(data[start:end])
        if len(known.prefix) == _PREFIX_BYTES:
            known.left, known.taken = int.from_bytes(known.prefix[1:]), 0
            self._inflated.held -= known.inflated  # of the message before
            known.inflated = 0
            known.engine = zlib.decompressobj(_AUTOMATIC) if known.prefix[0] & 1 else None
            known.prefix = b""
        return end

    def _inflate(self, stream: int, known: _Stream, data: Buffer) -> int:
        """Count what this piece of a message comes to; as many frames as that cost. What cannot be inflated is the core's to refuse."""
        engine, before = known.engine, known.inflated
        assert engine is not None  # noqa: S101 - asked for compressed messages alone
        known.taken += len(data)
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
            self._inflated.held += size
            more = engine.unconsumed_tail
        return (known.inflated - before) // BYTES_A_FRAME

    def _may_hold(self, known: _Stream, size: int) -> bool:
        total = known.inflated + size
        if total > max(ANY_RATIO_BYTES, MOST_RATIO * known.taken):
            return False
        return self._inflated.has_room(size, own=known.inflated)
