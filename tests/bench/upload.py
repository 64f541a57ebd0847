"""One large upload over a raw socket: the sending side takes next to no time, so the rate is the receiver's."""

from __future__ import annotations

import socket
import time
from typing import Literal

from bench.load import MeasurementFailedError

Framing = Literal["content-length", "chunked"]
BLOCK = b"x" * (1 << 20)
CHUNK_BYTES = 1 << 16
TIMEOUT_SECONDS = 60.0


def upload(port: int, *, mebibytes: int, framing: Framing) -> float:
    """PUT that much; MiB per second from the first byte to the answer. Raises MeasurementFailedError."""
    block, end = (BLOCK, b"") if framing == "content-length" else (_chunks(), b"0\r\n\r\n")
    length = f"Content-Length: {mebibytes << 20}" if framing == "content-length" else "Transfer-Encoding: chunked"
    head = f"PUT /collections/bench/snapshots/upload HTTP/1.1\r\nHost: 127.0.0.1\r\n{length}\r\n"
    start = time.perf_counter()
    with socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS) as connection:
        connection.sendall(f"{head}Content-Type: application/octet-stream\r\nConnection: close\r\n\r\n".encode())
        for _ in range(mebibytes):
            connection.sendall(block)
        connection.sendall(end)
        answer = _until_closed_or_whole(connection)
    seconds = time.perf_counter() - start
    _check(answer, mebibytes << 20)
    return mebibytes / seconds


def _chunks() -> bytes:
    frame = b"%x\r\n%b\r\n" % (CHUNK_BYTES, BLOCK[:CHUNK_BYTES])
    return frame * (len(BLOCK) // CHUNK_BYTES)


def _until_closed_or_whole(connection: socket.socket) -> bytes:
    answer = b""
    while not answer.endswith(b"}"):
        received = connection.recv(65536)
        if not received:
            break
        answer += received
    return answer


def _check(answer: bytes, expected_bytes: int) -> None:
    """The sink counts what it saw of the body on the wire: chunk framing makes that more, a lost byte makes it less."""
    if not answer.startswith(b"HTTP/1.1 200 "):
        raise MeasurementFailedError(f"the upload was answered {answer[:80]!r}")
    _, _, counted = answer.partition(b'"result":')
    received = int(counted.partition(b",")[0])
    if received < expected_bytes:
        raise MeasurementFailedError(f"{received} bytes of the upload arrived, wanted {expected_bytes}")
