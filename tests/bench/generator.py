"""A load generator over raw sockets, in a process of its own: closed loop, or open loop on a fixed schedule.

In the open loop a request's latency counts from the moment it was due, not from when a connection was free, so a
stall of the server is charged to every request it delayed. Gaps are exponential with a fixed seed, as independent
clients' are. select() is used because its timeout is exact to microseconds; epoll's, and asyncio's, to one millisecond.

Usage: python -m bench.generator PORT REQUEST_FILE CONNECTIONS SECONDS RATE     (RATE 0: closed loop)
Prints one JSON object: replies, failures, reply_bytes, seconds, late_share, p50, p90, p99 (seconds).
"""

from __future__ import annotations

import json
import random
import select
import socket
import sys
import time
from collections import deque
from pathlib import Path

from bench.stats import percentile

RECEIVE_BYTES = 1 << 18
CONNECT_SECONDS = 5.0
DRAIN_SECONDS = 2.0  # how long replies still under way at the end are waited for


class Connection:
    """One keep-alive connection with at most one request under way."""

    def __init__(self, port: int, buffer: bytearray) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=CONNECT_SECONDS)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
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


class Run:
    """One measurement."""

    def __init__(self, port: int, request: bytes, connections: int) -> None:
        buffer = bytearray(RECEIVE_BYTES)
        self._port, self._request, self._buffer = port, request, buffer
        self._idle = deque(Connection(port, buffer) for _ in range(connections))
        self._busy: dict[socket.socket, Connection] = {}
        self._waiting: deque[float] = deque()
        self.latencies: list[float] = []
        self.failures = 0
        self.late = 0
        self.reply_bytes = 0

    def closed(self, seconds: float) -> None:
        """Every connection asks again as soon as it is answered."""
        end = time.perf_counter() + seconds
        while (now := time.perf_counter()) < end:
            self._waiting.extend([now] * len(self._idle))
            self._dispatch()
            self._collect(end - now)
        self._drain()

    def open(self, seconds: float, rate: float) -> None:
        """Requests fall due on the schedule, whatever the server does."""
        gaps = random.Random(1)
        start = time.perf_counter()
        due = start + gaps.expovariate(rate)
        while due < start + seconds:
            now = time.perf_counter()
            while due <= now:
                self.late += not self._idle
                self._waiting.append(due)
                due += gaps.expovariate(rate)
            self._dispatch()
            self._collect(max(0.0, due - time.perf_counter()))
        self._drain()

    def _dispatch(self) -> None:
        while self._waiting and self._idle:
            connection = self._idle.popleft()
            connection.send(self._request, self._waiting.popleft())
            self._busy[connection.socket] = connection

    def _collect(self, timeout: float) -> None:
        readable, _, _ = select.select(list(self._busy), (), (), timeout)
        for ready in readable:
            connection = self._busy[ready]
            try:
                if not connection.receive():
                    continue
            except OSError:
                self.failures += 1
                del self._busy[ready]
                ready.close()
                self._idle.append(Connection(self._port, self._buffer))
                continue
            self.latencies.append(time.perf_counter() - connection.due)
            self.reply_bytes += connection.reply_bytes
            del self._busy[ready]
            self._idle.append(connection)

    def _drain(self) -> None:
        end = time.perf_counter() + DRAIN_SECONDS
        while (self._busy or self._waiting) and (now := time.perf_counter()) < end:
            self._dispatch()
            self._collect(end - now)
        self.failures += len(self._busy) + len(self._waiting)


def measure(run: Run, *, seconds: float, rate: float) -> dict[str, float]:
    """Run, and sum up. Raises ValueError when not one reply came."""
    start = time.perf_counter()
    if rate > 0:
        run.open(seconds, rate)
    else:
        run.closed(seconds)
    return {
        "replies": len(run.latencies),
        "failures": run.failures,
        "reply_bytes": run.reply_bytes,
        "seconds": time.perf_counter() - start,
        "late_share": run.late / max(1, len(run.latencies)),
        "p50": percentile(run.latencies, 0.50),
        "p90": percentile(run.latencies, 0.90),
        "p99": percentile(run.latencies, 0.99),
    }


if __name__ == "__main__":
    port, request_file, connections, seconds, rate = sys.argv[1:]
    whole = Run(int(port), Path(request_file).read_bytes(), int(connections))
    print(json.dumps(measure(whole, seconds=float(seconds), rate=float(rate))))
