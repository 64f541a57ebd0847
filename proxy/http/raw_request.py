"""A request head exactly as given, and a body that knows how far it got.

aiohttp's own request puts Host first, adds Content-Length to bodyless POSTs and warns about large byte strings.
Rule of this file: the one place that overrides aiohttp's client request and payload; ``audit.py`` lists the names.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import aiohttp
from aiohttp.payload import Payload
from multidict import CIMultiDict

from vecsieve.proxy.failures import ClientBodyError, ClientFault
from vecsieve.proxy.http.headers import Headers

if TYPE_CHECKING:
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.http import StreamWriter

# Small enough that a stalled upstream is noticed within one slice, large enough to cost nothing.
SLICE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Outgoing:
    """What one request is made of. It travels as aiohttp's `data`.

    Not as its `headers`: a session merges those by name, and of two fields whose names differ only in case it keeps the
    second (aiohttp 3.14.5, `_prepare_headers`).
    """

    head: Headers
    upload: Upload | None


class RawRequest(aiohttp.ClientRequest):
    """aiohttp's request with nothing added, moved or removed: the head is the list that it was given."""

    def update_headers(self, headers: object) -> None:
        """Take none from the session: the list comes with the body, and has the Host where the client put it."""
        self.headers = CIMultiDict()

    def update_content_encoding(self, data: object) -> None:
        """Never compress."""
        self.compress = None

    def update_body_from_data(self, body: object, _stacklevel: int = 3) -> None:
        """Take the whole request; a bodyless POST gets no Content-Length of ours."""
        outgoing = cast("Outgoing", body)
        self.headers = CIMultiDict(outgoing.head)
        self._body = outgoing.upload

    def update_transfer_encoding(self) -> None:
        """Chunk exactly when the head says so; aiohttp tests for None, not for truth."""
        self.chunked = True if "Transfer-Encoding" in self.headers else None

    def update_expect_continue(self, expect: bool = False) -> None:
        """Never wait for a 100: it was answered on the client's hop."""


class Upload(Payload):
    """A request body on its way out, written once, with a deadline for each slice the database must take.

    ``is_sent``: the whole body was handed to the connection. ``fault``: why the source failed, when it was the client.
    """

    def __init__(self, source: bytes | AsyncIterator[bytes], *, length_bytes: int | None, stall_seconds: float) -> None:
        super().__init__(source, content_type="application/octet-stream")
        self._source = source
        self._length_bytes = length_bytes
        self._stall_seconds = stall_seconds
        self._has_begun = False
        self._ended = asyncio.Event()
        self.is_sent = False
        self.fault: ClientBodyError | None = None

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        """Write the body. Raises TimeoutError when the database stops reading, ClientBodyError as the source does."""
        out = cast("StreamWriter", writer)
        self._has_begun = True
        written = 0
        try:
            async for piece in self._pieces():
                written += len(piece)
                self._check(written, is_last=False)
                await out.write(piece, drain=False)
                await self._taken(out)
            self._check(written, is_last=True)
            self.is_sent = True
        except ClientBodyError as error:
            self.fault = error
            raise
        finally:
            self._ended.set()
            if not self.is_sent and writer.transport is not None:
                # Closing would first wait for a peer that may never read again; there is nothing whole to deliver.
                writer.transport.abort()

    async def _taken(self, out: StreamWriter) -> None:
        """Wait while the connection is full."""
        if out.protocol.writing_paused:
            async with asyncio.timeout(self._stall_seconds):
                await out.drain()

    async def write(self, writer: AbstractStreamWriter) -> None:
        """Write the body; the part of aiohttp's contract that has no length."""
        await self.write_with_length(writer, None)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        """Refuse: a body that is written once cannot be shown."""
        raise TypeError("an upload cannot be decoded")

    async def wait_ended(self) -> None:
        """Wait until the source is no longer read: sent, failed, cancelled, or never begun."""
        if self._has_begun:
            await self._ended.wait()

    async def _pieces(self) -> AsyncIterator[bytes]:
        if isinstance(self._source, bytes):
            for piece in _slices(self._source):
                yield piece
        else:
            async for chunk in self._source:
                yield chunk

    def _check(self, written: int, *, is_last: bool) -> None:
        """Refuse to send more or fewer bytes than declared: the rest would be read as the next request."""
        wanted = self._length_bytes
        if wanted is not None and (written > wanted or (is_last and written < wanted)):
            raise ClientBodyError(ClientFault.MALFORMED)


def _slices(body: bytes) -> Iterator[bytes]:
    if len(body) <= SLICE_BYTES:
        if body:
            yield body
        return
    view = memoryview(body)
    for start in range(0, len(view), SLICE_BYTES):
        yield bytes(view[start : start + SLICE_BYTES])
