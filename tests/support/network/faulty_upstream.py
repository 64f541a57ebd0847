"""A scriptable raw-socket upstream and a raw client: exact bytes out, exact bytes recorded, every kind of ending.

async def script(talk: Talk) -> None:              one call per connection
    request = await talk.request()                 reads one whole request; None at the end of the connection
    await talk.send(reply(b"hello"))
    talk.reset()                                   RST, by SO_LINGER 0

async with FaultyUpstream(script) as upstream: ... upstream.port, upstream.requests
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self

from support.network.streams import serving

LINGER_RESET = struct.pack("ii", 1, 0)
TIMEOUT_SECONDS = 10.0  # no test waits longer for a byte


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it came over the wire. ``head`` ends with the empty line; ``body`` is framed as it was sent."""

    connection: int
    head: bytes
    body: bytes

    @property
    def raw(self) -> bytes:
        return self.head + self.body

    @property
    def line(self) -> bytes:
        return self.head.split(b"\r\n", 1)[0]

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        return header_list(self.head)

    @property
    def content(self) -> bytes:
        """The body without its chunks."""
        return unchunked(self.body) if (b"transfer-encoding: chunked" in self.head.lower()) else self.body

    def header(self, name: bytes) -> bytes | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


def header_list(head: bytes) -> list[tuple[bytes, bytes]]:
    """The fields of a head, case, order and duplicates kept."""
    lines = head.split(b"\r\n\r\n", 1)[0].split(b"\r\n")[1:]
    pairs = [line.split(b":", 1) for line in lines]
    return [(name, value.strip(b" \t")) for name, value in pairs]


async def chunks(reader: asyncio.StreamReader) -> bytes:
    """A chunked body as it came, without trailers, its last chunk included."""
    body, size = bytearray(), -1  # bytes would be copied with each chunk: 0.3 s of one loop for the 300 MiB of a flood
    while size != 0:
        line = await reader.readuntil(b"\r\n")
        size = int(line.split(b";")[0], 16)
        body += line + await reader.readexactly(size + 2)
    return bytes(body)


def unchunked(body: bytes) -> bytes:
    content = b""
    while body:
        size, rest = body.split(b"\r\n", 1)
        length = int(size.split(b";")[0], 16)
        if length == 0:
            break
        content += rest[:length]
        body = rest[length + 2 :]
    return content


def reply(
    body: bytes = b"",
    *,
    status: bytes = b"200 OK",
    headers: Sequence[tuple[bytes, bytes]] = (),
    length: int | None = None,
) -> bytes:
    """A reply framed by Content-Length; ``length`` lies about it."""
    size = len(body) if length is None else length
    lines = [b"HTTP/1.1 " + status, *(name + b": " + value for name, value in headers), b"Content-Length: %d" % size]
    return b"\r\n".join([*lines, b"", b""]) + body


class Talk:
    """One connection, seen from the side that serves it."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, number: int, record: list[Received]
    ) -> None:
        self.reader = reader
        self.writer = writer
        self.number = number
        self._record = record

    async def head(self) -> bytes | None:
        """One request head, unrecorded; None when the peer ended the connection."""
        try:
            return await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), TIMEOUT_SECONDS)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None

    async def request(self) -> Received | None:
        """One whole request, recorded; None when the peer ended the connection before it was whole."""
        head = await self.head()
        if head is None:
            return None
        try:
            body = await self._body(head)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        request = Received(self.number, head, body)
        self._record.append(request)
        return request

    async def _body(self, head: bytes) -> bytes:
        fields = {name.lower(): value for name, value in header_list(head)}
        if fields.get(b"transfer-encoding", b"").lower() == b"chunked":
            return await chunks(self.reader)
        return await self.reader.readexactly(int(fields.get(b"content-length", b"0")))

    async def send(self, data: bytes, *, slice_bytes: int | None = None, pause_seconds: float = 0.0) -> None:
        """Send exact bytes, whole or in slices with pauses."""
        step = slice_bytes or max(1, len(data))
        for start in range(0, len(data), step):
            self.writer.write(data[start : start + step])
            await self.writer.drain()
            if slice_bytes is not None:
                await asyncio.sleep(pause_seconds)

    def reset(self) -> None:
        """End with RST."""
        raw = self.writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
        self.writer.transport.abort()

    def close(self) -> None:
        """End with FIN, what was written first."""
        self.writer.close()


Script = Callable[[Talk], Awaitable[None]]


def answering(answer: bytes | Callable[[Received], bytes]) -> Script:
    """A healthy upstream: the same answer, or one made from the request, to every request of every connection.

    It closes a connection that says nothing for TIMEOUT_SECONDS.
    """

    async def script(talk: Talk) -> None:
        with contextlib.suppress(TimeoutError):
            while (request := await talk.request()) is not None:
                await talk.send(answer if isinstance(answer, bytes) else answer(request))

    return script


@dataclass
class FaultyUpstream:
    """A server that runs a script on each connection and remembers every whole request."""

    script: Script
    tls: ssl.SSLContext | None = None
    requests: list[Received] = field(default_factory=list)
    connections: int = 0
    port: int = 0

    def __post_init__(self) -> None:
        self._server: AbstractAsyncContextManager[int] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = serving(self._serve, tls=self.tls, limit=2**20, backlog=512)
        self.port = await self._server.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._server is not None
        await self._server.__aexit__(kind, error, trace)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number, self.connections = self.connections, self.connections + 1
        await self.script(Talk(reader, writer, number, self.requests))


@dataclass(frozen=True, slots=True)
class RawReply:
    """One reply as it came over the wire, its body unchunked."""

    head: bytes
    body: bytes

    @property
    def line(self) -> bytes:
        return self.head.split(b"\r\n", 1)[0]

    @property
    def status(self) -> int:
        return int(self.line.split(b" ")[1])

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        return header_list(self.head)

    def header(self, name: bytes) -> bytes | None:
        return next((value for key, value in self.headers if key.lower() == name.lower()), None)


class RawClient:
    """A client connection on which every byte is the test's own."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def connect(cls, port: int) -> RawClient:
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=2**20))

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def head(self) -> bytes:
        return await asyncio.wait_for(self.reader.readuntil(b"\r\n\r\n"), TIMEOUT_SECONDS)

    async def reply(self, *, bodiless: bool = False) -> RawReply:
        """One reply; raises IncompleteReadError when it was cut short."""
        head = await self.head()
        fields = {name.lower(): value for name, value in header_list(head)}
        if bodiless:
            return RawReply(head, b"")
        if fields.get(b"transfer-encoding", b"").lower() == b"chunked":
            return RawReply(head, unchunked(await chunks(self.reader)))
        if b"content-length" in fields:
            return RawReply(head, await self.reader.readexactly(int(fields[b"content-length"])))
        return RawReply(head, await self.rest())

    async def rest(self) -> bytes:
        """Everything until the connection ends."""
        return await asyncio.wait_for(self.reader.read(), TIMEOUT_SECONDS)

    def reset(self) -> None:
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
        self.writer.transport.abort()

    async def close(self) -> None:
        self.writer.close()
        # Over TLS asyncio calls it an error when the other side has said something that was not read.
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            await self.writer.wait_closed()


async def raw_exchange(port: int, data: bytes) -> bytes:
    """Send bytes on a connection of their own; everything that comes back until it ends. Say `Connection: close`."""
    client = await RawClient.connect(port)
    try:
        await client.send(data)
        return await client.rest()
    except ConnectionError:
        return b""
    finally:
        await client.close()
