"""A request head exactly as given, and a body that knows how far it got.

aiohttp's own request puts Host first, adds Content-Length to bodyless POSTs and warns about large byte strings.
Rule of this file: the one place that overrides aiohttp's client request and payload; ``pools.py`` lists the names.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import aiohttp
from aiohttp import HttpVersion10, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.helpers import must_be_empty_body
from aiohttp.payload import Payload
from multidict import CIMultiDict

from vecsieve.proxy.http.headers import Headers
from vecsieve.proxy.search.errors import ClientBodyError, ClientFault

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


# A response head exactly as given: aiohttp's own would add Server, Date and Content-Type and drop a 304's length.
#
# Rule of this file: the one place that overrides aiohttp's response. Everything that leaves a data port is one of these.


class RawResponse(web.StreamResponse):
    """A response whose head is the given list plus `Connection`, and whose framing is what the list says.

    Content-Length stays a length, `Transfer-Encoding: chunked` stays chunks, neither ends with the connection. ``body``
    is sent at the end; leave it empty to `put` the body piece by piece.
    """

    def __init__(self, status: int, reason: str, headers: Headers, *, body: bytes = b"", is_ready: bool = True) -> None:
        super().__init__(status=status, reason=reason, headers=CIMultiDict(headers))
        self._tail = body
        # True lets the head travel in one segment with the first bytes of the body; False sends it at once.
        self._send_headers_immediately = not is_ready

    @property
    def body_bytes(self) -> int:
        """The size of a body that was given whole and is not sent yet."""
        return len(self._tail)

    @property
    def is_success(self) -> bool:
        """Whether the status says so."""
        return 200 <= self.status < 300

    @property
    def is_close_delimited(self) -> bool:
        """Whether only the end of the connection ends the body, so that a broken one must be reset to be seen."""
        return "Content-Length" not in self.headers and "Transfer-Encoding" not in self.headers

    async def _prepare_headers(self) -> None:
        (request, writer), headers = self._bound(), self.headers
        is_old = request.version == HttpVersion10
        if is_old or self.status == 204:  # RFC 9112 6.1: neither may carry a transfer coding
            headers.popall("Transfer-Encoding", None)
        keep_alive = request.keep_alive if self._keep_alive is None else self._keep_alive
        if getattr(request.protocol, "must_close", False):
            keep_alive = False
        if not must_be_empty_body(request.method, self.status):
            if "Content-Length" in headers:
                writer.length = int(headers["Content-Length"])
            elif "Transfer-Encoding" in headers:
                writer.enable_chunking()
            else:
                keep_alive = False
        self._keep_alive = keep_alive
        if not keep_alive and not is_old:
            headers["Connection"] = "close"
        elif keep_alive and is_old:
            headers["Connection"] = "keep-alive"

    async def _write_headers(self) -> None:
        request, writer = self._bound()
        # A refused `HTTP/2.0` or `HTTP/0.9` is told so in a version it may know.
        version = "1.0" if request.version == HttpVersion10 else "1.1"
        await writer.write_headers(f"HTTP/{version} {self.status} {self.reason}", self.headers)
        if self._send_headers_immediately:
            writer.send_headers()

    async def put(self, data: bytes) -> None:
        """Hand a piece of the body to the connection, however full its buffer is. Raises ConnectionError."""
        await cast("StreamWriter", self._bound()[1]).write(data, drain=False)

    async def emptied(self) -> None:
        """Wait until the connection's buffer takes more. Raises ConnectionError."""
        await self._bound()[1].drain()

    def _bound(self) -> tuple[web.BaseRequest, AbstractStreamWriter]:
        if self._req is None or self._payload_writer is None:
            raise RuntimeError("prepare comes first: aiohttp changed its order")
        return self._req, self._payload_writer

    async def write_eof(self, data: bytes = b"") -> None:
        """End the body; an answer to HEAD, 204 and 304 sends no byte of it."""
        tail, self._tail = self._tail or data, b""
        await super().write_eof(b"" if self._must_be_empty_body else tail)
