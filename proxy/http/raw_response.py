"""A response head exactly as given: aiohttp's own would add Server, Date and Content-Type and drop a 304's length.

Rule of this file: the one place that overrides aiohttp's response. Everything that leaves a data port is one of these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from aiohttp import HttpVersion10, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.helpers import must_be_empty_body
from multidict import CIMultiDict

from vecsieve.proxy.http.headers import Headers

if TYPE_CHECKING:
    from aiohttp.http import StreamWriter


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
