"""The connections of a load generator: one request at a time, over HTTP/1.1 or as gRPC calls."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Protocol

from bench import http2

CONNECT_SECONDS = 5.0
TOP_UP_BYTES = 1 << 28  # of a window that was opened to 2 GiB


class Talk(Protocol):
    """One connection with at most one request under way. ``due``: when that fell due; ``reply_bytes``: what came for it."""

    socket: socket.socket
    due: float
    reply_bytes: int

    def send(self, request: bytes, due: float) -> None:
        """Begin a request."""
        ...

    def receive(self) -> bool:
        """Take in what has come; True when the reply is whole. Raises ConnectionError for a failure."""
        ...


Connect = Callable[[int, bytearray], Talk]
"""Makes a connection to a port, which reads into a buffer that all connections share."""


def connected(port: int) -> socket.socket:
    """A connection that sends what it is given at once."""
    made = socket.create_connection(("127.0.0.1", port), timeout=CONNECT_SECONDS)
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return made


class Connection:
    """A keep-alive connection of HTTP/1.1."""

    def __init__(self, port: int, buffer: bytearray) -> None:
        self.socket = connected(port)
        self._buffer = buffer
        self._head = b""
        self._missing = -1  # bytes of the body still to come; -1 while the head is not complete
        self.due = 0.0
        self.reply_bytes = 0

    def send(self, request: bytes, due: float) -> None:
        self._head, self._missing, self.due, self.reply_bytes = b"", -1, due, 0
        self.socket.sendall(request)

    def receive(self) -> bool:
        """Take in what has come; True when the reply is whole. Raises ConnectionError for anything but a 200."""
        count = self.socket.recv_into(self._buffer)
        if count == 0:
            raise ConnectionError("closed before the end of a reply")
        self.reply_bytes += count
        if self._missing >= 0:
            self._missing -= count
        else:
            self._head += self._buffer[:count]
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return False
            self._missing = body_bytes(self._head[:end]) - (len(self._head) - end - 4)
        return self._missing <= 0


class GrpcConnection:
    """A connection of HTTP/2 that makes one gRPC call after the other."""

    def __init__(self, port: int, buffer: bytearray) -> None:
        self.socket = connected(port)
        self._buffer = buffer
        self._rest = b""  # of a frame that has not come whole
        self._stream = -1
        self._unacknowledged = 0
        self._message_bytes = 0
        self.due = 0.0
        self.reply_bytes = 0
        self.socket.sendall(http2.greeting())

    def send(self, request: bytes, due: float) -> None:
        self._stream += 2
        self.due, self.reply_bytes, self._message_bytes = due, 0, 0
        self.socket.sendall(http2.on_stream(request, self._stream))

    def receive(self) -> bool:
        """Take in what has come; True when the call is over. Raises ConnectionError for one that brought no message."""
        count = self.socket.recv_into(self._buffer)
        if count == 0:
            raise ConnectionError("closed before the end of a reply")
        self.reply_bytes += count
        data = self._rest + bytes(memoryview(self._buffer)[:count])
        is_over, at = False, 0
        for kind, flags, begins, at in http2.heads(data):
            if kind == http2.DATA:
                self._taken(at - begins)
            elif kind in {http2.SETTINGS, http2.PING} and not flags & http2.ACK:
                self.socket.sendall(http2.frame(kind, http2.ACK, 0, data[begins:at] if kind == http2.PING else b""))
            elif kind == http2.GOAWAY:
                raise ConnectionError("sent away")
            is_over = is_over or (kind in {http2.DATA, http2.HEADERS} and bool(flags & http2.END_STREAM))
        self._rest = data[at:]
        if is_over and not self._message_bytes:
            raise ConnectionError("the call ended without a message")
        return is_over

    def _taken(self, size: int) -> None:
        self._message_bytes += size
        self._unacknowledged += size
        if self._unacknowledged >= TOP_UP_BYTES:
            self.socket.sendall(http2.widened(self._unacknowledged))
            self._unacknowledged = 0


CONNECTIONS: dict[str, Connect] = {"http": Connection, "grpc": GrpcConnection}


def body_bytes(head: bytes) -> int:
    """The Content-Length of a 200. Raises ConnectionError for any other status or framing."""
    status, *fields = head.split(b"\r\n")
    if status.split(b" ", 2)[1] != b"200":
        raise ConnectionError(f"answered {status!r}")
    for field in fields:
        name, _, value = field.partition(b":")
        if name.lower() == b"content-length":
            return int(value)
    raise ConnectionError("a reply without Content-Length")
