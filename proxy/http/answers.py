"""Answers exactly as given, our own in the backend's error format, and answers edited on their way.

aiohttp's own response adds Server, Date and Content-Type, and drops a 304's length. Our own answers carry `x-vecsieve-origin: proxy`, so
that an operator can tell who answered.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING, cast

from aiohttp import HttpVersion10, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.helpers import must_be_empty_body

from vecsieve.adapters.contract import Dialect, NativeAnswer

from ..search.errors import ORIGIN, WORDING, Trouble
from .body import WINDOWS, decoded
from .headers import Headers, RawHeaders, around_other_bytes, replaced, values
from .upstream_connection import Exchange

if TYPE_CHECKING:
    from aiohttp.http import StreamWriter


# Bytes of an answer that is sent in one write. A connection's buffer takes twice as much before writing pauses, so nothing waits for the
# client.
AT_ONCE_BYTES = 32 * 1024


class RawResponse(web.StreamResponse):
    """A response with the given head plus `Connection`, framed as the head says.

    ``body`` is sent at the end; leave it empty to `put` the body piece by piece. ``cause``: of an own answer, for the log.
    """

    def __init__(self, status: int, reason: str, headers: Headers, *, body: bytes = b"", is_ready: bool = True) -> None:
        super().__init__(status=status, reason=reason, headers=headers)
        self.cause = ""
        self._tail, self._sent_bytes = body, 0
        # True: the head is sent in one segment with the first bytes of the body; False: at once.
        self._send_headers_immediately = not is_ready

    @property
    def body_bytes(self) -> int:
        """The size of the body, of which all was sent or nothing."""
        return self._sent_bytes + len(self._tail)

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    @property
    def is_close_delimited(self) -> bool:
        """Whether only the end of the connection ends the body, so that a broken one must be reset."""
        return "Content-Length" not in self.headers and "Transfer-Encoding" not in self.headers

    async def _prepare_headers(self) -> None:
        request, writer = self._bound()
        length, is_chunked = self._settle(request)
        if is_chunked:
            writer.enable_chunking()
        elif length is not None:
            writer.length = length

    def _settle(self, request: web.BaseRequest) -> tuple[int | None, bool]:
        """Decide whether the connection is kept. Returns the length of the body, and whether it is chunked."""
        headers, is_old = self.headers, request.version == HttpVersion10
        if is_old or self.status == 204:  # RFC 9112 6.1: neither may carry a transfer coding
            headers.popall("Transfer-Encoding", None)
        keep_alive = request.keep_alive if self._keep_alive is None else self._keep_alive
        if getattr(request.protocol, "must_close", False):
            keep_alive = False
        length, is_chunked = None, False
        if not must_be_empty_body(request.method, self.status):
            if (given := headers.get("Content-Length")) is not None:
                length = int(given)
            elif "Transfer-Encoding" in headers:
                is_chunked = True
            else:
                keep_alive = False
        self._keep_alive = keep_alive
        if not keep_alive and not is_old:
            headers["Connection"] = "close"
        elif keep_alive and is_old:
            headers["Connection"] = "keep-alive"
        return length, is_chunked

    def _status_line(self, request: web.BaseRequest) -> str:
        # A refused `HTTP/2.0` or `HTTP/0.9` is answered in a version that the client probably knows.
        return f"HTTP/{'1.0' if request.version == HttpVersion10 else '1.1'} {self.status} {self.reason}"

    async def _write_headers(self) -> None:
        request, writer = self._bound()
        await writer.write_headers(self._status_line(request), self.headers)
        if self._send_headers_immediately:
            writer.send_headers()

    def send_now(self, request: web.BaseRequest) -> None:
        """Send a complete answer of ours if the connection takes it at once; otherwise aiohttp sends it."""
        transport = request.transport
        is_open = transport is not None and not transport.is_closing() and not request.protocol.writing_paused
        if is_open and len(self._tail) <= AT_ONCE_BYTES:
            body, self._tail = self._tail, b""
            self.send_whole(request, body)

    def send_whole(self, request: web.BaseRequest, body: bytes) -> None:
        """Send all of an answer in one write, past aiohttp's writer. Raises ConnectionError."""
        self._req, self._payload_writer = request, request.writer
        _, is_chunked = self._settle(request)
        lines = [self._status_line(request), *map(": ".join, self.headers.items()), "", ""]
        data = "\r\n".join(lines).encode()
        if is_chunked:
            data += b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body) if body else b"0\r\n\r\n"
        else:
            body = b"" if must_be_empty_body(request.method, self.status) else body
            data += body
        if request.transport is None or request.transport.is_closing():
            raise ConnectionResetError
        request.transport.write(data)
        self._eof_sent = True
        self._sent_bytes, request.writer.output_size = len(body), len(data)

    async def put(self, data: bytes) -> None:
        """Write a piece of the body, even if the buffer is full. Raises ConnectionError."""
        self._sent_bytes += len(data)
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
        tail, self._tail = b"" if self._must_be_empty_body else self._tail or data, b""
        self._sent_bytes += len(tail)
        await super().write_eof(tail)


# After these answers the rest of the connection cannot be trusted to be a request.
CLOSING = frozenset(Trouble) - {
    Trouble.NO_INDEX,
    Trouble.HOST_REFUSED,
    Trouble.WRONG_PATH,
    Trouble.OVERLOADED,
    Trouble.NO_UPSTREAM,
    Trouble.UPSTREAM_TIMEOUT,
    Trouble.UPSTREAM_BROKE,
}
RETRY_AFTER = (
    "Retry-After",
    "1",
)  # seconds: the queue is full only for moments, but SDKs that read the field wait a whole second


@dataclass(frozen=True, slots=True)
class LocalAnswers:
    _dialect: Dialect

    def response(self, trouble: Trouble, path: str) -> RawResponse:
        """``path``: of the request; it affects at most the format of the body."""
        status, words = WORDING[trouble]
        return self.native(self._dialect.error(status, words, path=path), close=trouble in CLOSING)

    def native(self, native: NativeAnswer, *, close: bool = False) -> RawResponse:
        """Send an answer with given words, such as a refused override."""
        response = RawResponse(native.status, _phrase(native.status), _head(native), body=native.body)
        if close:
            response.force_close()
        return response

    def wire(self, trouble: Trouble) -> bytes:
        """The answer as bytes for a connection on which no request was parsed, with `Connection: close`."""
        status, words = WORDING[trouble]
        native = self._dialect.error(status, words)
        lines = [f"HTTP/1.1 {native.status} {_phrase(native.status)}"]
        lines += [f"{name}: {value}" for name, value in [*_head(native), ("Connection", "close")]]
        return "\r\n".join([*lines, "", ""]).encode("ascii") + native.body


def _phrase(status: int) -> str:
    return HTTPStatus(status).phrase


def _head(native: NativeAnswer) -> Headers:
    head = [("Content-Length", str(len(native.body))), ORIGIN, *native.headers]
    if native.content_type:
        head.insert(0, ("Content-Type", native.content_type))
    if native.status == 503:
        head.append(RETRY_AFTER)
    return head


_UNDONE = frozenset({b"identity", *WINDOWS})


def plain_of(reply: Exchange, body: bytes, *, limit_bytes: int) -> bytes | None:
    """The whole body of a success without its coding; None if it is none, or cannot be read."""
    coding = b",".join(values(reply.raw_headers, b"content-encoding"))
    return decoded(body, coding, limit_bytes=limit_bytes) if 200 <= reply.status < 300 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Editing:
    """Changes a small document on its way; one that cannot be held or read is sent unchanged.

    ``change``: total; returns the body itself if nothing changes. ``limit_bytes``: of the body, held or decoded.
    """

    change: Callable[[bytes], bytes]
    limit_bytes: int

    def answer(self, reply: Exchange, body: bytes) -> RawResponse | None:
        """The changed answer; None if it is sent unchanged. ``body``: the whole raw body."""
        plain = plain_of(reply, body, limit_bytes=self.limit_bytes)
        changed = None if plain is None else self.change(plain)
        if changed is None or changed == plain:
            return None
        headers = around_other_bytes(replaced(reply.raw_headers, b"content-encoding", None), len(changed))
        return RawResponse(reply.status, reply.reason, headers, body=changed)


def readable(raw: RawHeaders) -> RawHeaders:
    """The client's fields, offering only codings that can be decoded here."""
    offered = b",".join(values(raw, b"accept-encoding")).lower().split(b",")
    names = {coding.partition(b";")[0].strip() for coding in offered} - {b""}
    return raw if names <= _UNDONE else replaced(raw, b"accept-encoding", b"identity")


async def hold(reply: Exchange, limit_bytes: int) -> tuple[list[bytes], bool]:
    """The body's first pieces, and whether they are complete. Raises UpstreamExchangeError when it ends early."""
    pieces: list[bytes] = []
    size = 0
    while chunk := await reply.read():
        pieces.append(chunk)
        size += len(chunk)
        if size > limit_bytes:
            return pieces, False
    return pieces, True
