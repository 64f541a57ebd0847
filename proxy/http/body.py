"""A client's request body: read whole up to a limit, streamed, or both in turn.

In every case `chunks` gives the complete body from its first byte: a body that was read and found too large, too slow or irrelevant still
passes through unchanged.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Sequence

from aiohttp import HttpVersion11, web
from aiohttp.web_protocol import RequestPayloadError

from ..search.errors import ClientBodyError, ClientFault

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
# What aiohttp buffers of an unread body; a search of 1,536 floats has half of it.
GATHERED_BYTES = 65_536
LOOKS = 4  # checks whether a short body goes on arriving, within the time allowed


class RequestBody:
    """``idle_seconds``: the longest wait between two reads."""

    def __init__(self, request: web.BaseRequest, *, idle_seconds: float) -> None:
        self._request = request
        self._idle_seconds = idle_seconds
        self._buffered: list[bytes] = []
        self._is_over = False
        length = request.headers.get("Content-Length")  # one value, of digits only: headers.py refuses all others
        self.content_length = None if length is None else int(length)
        self.is_chunked = "Transfer-Encoding" in request.headers
        expected = request.headers.get("Expect", "")
        self._room_bytes = 0
        self._kept: list[bytes] | None = None
        self._owes_continue = request.version == HttpVersion11 and expected.lower() == "100-continue"

    @property
    def exists(self) -> bool:
        """Whether there is at least one byte, or a chunked body."""
        return self.is_chunked or bool(self.content_length)

    async def whole(self, *, limit_bytes: int, deadline_seconds: float) -> bytes | None:
        """The whole body, or None when it is larger or slower than that; `chunks` then still gives all of it.

        A slow body is not refused: streaming has its own deadline, and the database might have waited. Raises
        ClientBodyError.
        """
        if (self.content_length or 0) > limit_bytes:
            return None
        body = self.arrived()
        if body is None:
            try:
                async with asyncio.timeout(deadline_seconds):
                    body = await self.gathered(limit_bytes + 1)
            except TimeoutError:
                return None
        return body if body is not None and len(body) <= limit_bytes else None

    def replace(self, content: bytes) -> None:
        """Send this instead of a body that was read whole."""
        self._buffered = [content]
        self.content_length, self.is_chunked = len(content), False

    def keep(self, limit_bytes: int) -> None:
        """Keep what is sent from now on, up to this many bytes."""
        self._room_bytes, self._kept = limit_bytes, []

    def kept(self) -> bytes | None:
        """The whole body once it was read and sent; None if it was not, or is larger than the limit."""
        if not self._is_over or self._kept is None:
            return None
        whole = b"".join(self._buffered or self._kept)  # what had arrived was sent at once and is still held
        return whole if len(whole) <= self._room_bytes + sum(map(len, self._kept)) else None

    def _keep(self, piece: bytes) -> None:
        if self._kept is None:
            return
        self._room_bytes -= len(piece)
        if self._room_bytes < 0:
            self._kept = None
        else:
            self._kept.append(piece)

    async def gathered(self, most_bytes: int = GATHERED_BYTES) -> bytes | None:
        """Wait until the body has arrived, or this much of it; return it if all of it has. Raises ClientBodyError."""
        await self._short()
        size = sum(map(len, self._buffered))
        while (body := self.arrived()) is None and not self._is_over and size < most_bytes:
            piece = await self._read()
            self._buffered.append(piece)
            size += len(piece)
        return body

    def arrived(self) -> bytes | None:
        """The whole body if all of it has arrived; None if it has not, or failed."""
        content = self._request.content
        if not content.is_eof() or content.exception() is not None:
            return None
        if not self._is_over:
            self._buffered.append(content.read_nowait())
            self._is_over = True
        self._buffered = [b"".join(self._buffered)]
        return self._buffered[0]

    def source(self) -> bytes | AsyncIterator[bytes] | None:
        """What is sent: the whole body if it has arrived, else its pieces; None if there is none."""
        if not self.exists:
            return None
        body = self.arrived()
        return self.chunks() if body is None else body

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body from its first byte, as it arrives; once. Raises ClientBodyError."""
        buffered, self._buffered = self._buffered, []
        for piece in buffered:
            if piece:
                self._keep(piece)
                yield piece
        while not self._is_over:
            if piece := await self._read():
                self._keep(piece)
                yield piece

    async def _short(self) -> None:
        """Wait until a short body has arrived or failed, without a step for each segment of it: 2,000 clients that sent a byte a second
        delayed others by 8 ms at the 99th percentile.
        """
        content = self._request.content
        if not 0 < (self.content_length or 0) <= GATHERED_BYTES or content.is_eof():
            return
        await self._begin()
        silent, arrived = 0, content.total_bytes
        while not content.is_eof() and content.exception() is None and silent < LOOKS:
            try:
                async with asyncio.timeout(self._idle_seconds / LOOKS):
                    await content.wait_eof()
            except TimeoutError:
                silent = silent + 1 if content.total_bytes == arrived else 0
                arrived = content.total_bytes
            except (RequestPayloadError, ConnectionError):
                return  # `_read` raises it
        if silent == LOOKS:
            raise ClientBodyError(ClientFault.TOO_SLOW)

    async def _read(self) -> bytes:
        """The next bytes; empty at the end."""
        if not self.exists:
            self._is_over = True
            return b""
        content = self._request.content
        try:
            piece = content.read_nowait()
            if not piece and not content.at_eof():
                await self._begin()
                async with asyncio.timeout(self._idle_seconds):
                    piece = await content.readany()
        except TimeoutError:
            raise ClientBodyError(ClientFault.TOO_SLOW) from None
        except RequestPayloadError:
            raise ClientBodyError(ClientFault.MALFORMED) from None
        except ConnectionError:
            raise ClientBodyError(ClientFault.GONE) from None
        self._is_over = not piece
        return piece

    async def _begin(self) -> None:
        """Before a wait: answer `Expect: 100-continue` once (RFC 9110 10.1.1). Raises ClientBodyError when the client is gone."""
        if self._request.transport is None:
            raise ClientBodyError(ClientFault.GONE)
        if not self._owes_continue:
            return
        self._owes_continue = False
        writer = self._request.writer
        if writer.output_size == 0:
            await writer.write(CONTINUE)
            writer.output_size = 0  # an interim answer does not count: aiohttp's own handler resets it too


# zlib's window bits: 16 + 15 reads gzip; 15 reads the zlib wrapper that RFC 9110 8.4.1.2 calls deflate.
WINDOWS = {b"gzip": 31, b"x-gzip": 31, b"deflate": 15}
# A ratio of 100 is above that of any JSON of vectors (2 to 4); a bomb reaches 1000.
LARGEST_RATIO = 100
# Small bodies may compress well: 4 KiB of blanks are harmless.
ALWAYS_ALLOWED_BYTES = 64 * 1024


def coding_of(lines: Sequence[bytes], undone: frozenset[bytes]) -> bytes | None:
    """The single coding of a request's body, b"" without one; None if the database might decode the body differently.

    ``lines``: the field's values. ``undone``: the codings that the database decodes.
    """
    if not lines:
        return b""
    name = lines[0].strip().lower()
    return name if len(lines) == 1 and (name == b"identity" or name in undone) else None


def decoded(body: bytes, coding: bytes, *, limit_bytes: int) -> bytes | None:
    """The body without its content coding, at most ``limit_bytes`` long: a body of 199 KiB can hold 200 MiB.

    ``coding``: the field's value; empty and `identity` return the body. None for any coding but gzip and deflate, for a
    list of codings, damage, trailing bytes, more than the limit, or a ratio above 100; the body then passes through
    unchanged.
    """
    name = coding.strip().lower()
    if name in {b"", b"identity"}:
        return body if len(body) <= limit_bytes else None
    window = WINDOWS.get(name)
    if window is None:
        return None
    allowed = min(limit_bytes, max(ALWAYS_ALLOWED_BYTES, LARGEST_RATIO * len(body)))
    inflater = zlib.decompressobj(wbits=window)
    try:
        plain = inflater.decompress(body, allowed + 1)
    except zlib.error:
        return None
    if len(plain) > allowed or not inflater.eof or inflater.unused_data:
        return None
    return plain
