"""Answers that are read while they pass: each piece is noted as it goes by, nothing is held back and nothing is changed.

What is too long, cut, no success, or in a content coding that is not read is not heard.
"""

from __future__ import annotations

from collections.abc import Callable

from vecsieve.proxy.http.content_coding import decoded
from vecsieve.proxy.http.headers import values
from vecsieve.proxy.http.reply import UpstreamReply

HEARD_BYTES = 2 * 1024 * 1024  # a thousand collections of Chroma's in one list; reading them takes a few milliseconds


class Hearing:
    """One answer. ``learn``: total, gets the whole body without its content coding, at most once."""

    __slots__ = ("_coding", "_expected", "_learn", "_limit_bytes", "_pieces", "_size")

    def __init__(self, learn: Callable[[bytes], None], *, limit_bytes: int = HEARD_BYTES) -> None:
        self._learn = learn
        self._limit_bytes = limit_bytes
        self._pieces: list[bytes] | None = None
        self._size = 0
        self._expected: int | None = None
        self._coding = b""

    def begin(self, reply: UpstreamReply) -> None:
        """The head is here."""
        if not 200 <= reply.status < 300:
            return
        self._pieces = []
        self._coding = b",".join(values(reply.raw_headers, b"content-encoding"))
        length = b",".join(values(reply.raw_headers, b"content-length"))
        self._expected = int(length) if length.isdigit() else None

    def hear(self, piece: bytes) -> None:
        """Some of the body, about to be sent on. The last of it is read before it goes: a client that has a collection's
        document may search it at once.
        """
        if self._pieces is None:
            return
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self._limit_bytes:
            self._pieces = None
        elif self._size == self._expected:
            self.end()

    def end(self) -> None:
        """The body is over, and not cut."""
        pieces, self._pieces = self._pieces, None
        plain = None if pieces is None else decoded(b"".join(pieces), self._coding, limit_bytes=self._limit_bytes)
        if plain is not None:
            self._learn(plain)
