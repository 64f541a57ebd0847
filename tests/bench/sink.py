"""Where uploads end: takes whole requests off the wire in large blocks, answers with how many bytes came, keeps none.

A blocking thread per connection, because relays keep idle ones: at a megabyte a call, Python only counts.

Usage: python -m bench.sink PORT
"""

from __future__ import annotations

import socket
import sys
import threading

BLOCK_BYTES = 1 << 20
REPLY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%b"
TAIL = b"\r\n0\r\n\r\n"  # the end of a chunked body without trailers; the uploads hold no such bytes of their own


def serve(port: int) -> None:
    """Accept connections until the process is ended."""
    with socket.create_server(("127.0.0.1", port)) as listener:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=take, args=(connection,), daemon=True).start()


def take(connection: socket.socket) -> None:
    """Answer requests on one connection until the client closes it."""
    block = memoryview(bytearray(BLOCK_BYTES))
    with connection:
        while begun := _head(connection, block):
            head, end, body = begun.partition(b"\r\n\r\n")
            received = _body(connection, block, head + end, body)
            answer = b'{"result":%d,"status":"ok","time":0.0}' % received
            connection.sendall(REPLY % (len(answer), answer))


def _head(connection: socket.socket, block: memoryview) -> bytes:
    """All bytes up to some point after the head's end; none when the client closed the connection."""
    received = b""
    while b"\r\n\r\n" not in received:
        count = connection.recv_into(block)
        if count == 0:
            return b""
        received += block[:count]
    return received


def _body(connection: socket.socket, block: memoryview, head: bytes, begun: bytes) -> int:
    """Bytes of the body as they stood on the wire, framing of chunks included."""
    length = None
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            length = int(line.split(b":")[1])
    received, tail = len(begun), begun[-len(TAIL) :]
    while (tail != TAIL) if length is None else (received < length):
        count = connection.recv_into(block)
        if count == 0:
            break
        received += count
        tail = (tail + bytes(block[max(0, count - len(TAIL)) : count]))[-len(TAIL) :]
    return received


if __name__ == "__main__":
    serve(int(sys.argv[1]))
