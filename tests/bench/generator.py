"""A load generator over raw sockets, in a process of its own: closed loop, or open loop on a fixed schedule.

In the open loop a request's latency counts from the moment it was due, not from when a connection was free, so a
stall of the server is charged to every request it delayed. Gaps are exponential with a fixed seed, as independent
clients' are. select() is used because its timeout is exact to microseconds; epoll's, and asyncio's, to one millisecond.

Usage: python -m bench.generator PORT REQUEST_FILE CONNECTIONS SECONDS RATE PROTOCOL     (RATE 0: closed loop)
PROTOCOL is http, or grpc: then the file holds one call's frames, and a connection makes one call at a time.
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
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.connections import CONNECTIONS, Talk
from bench.stats import percentile

RECEIVE_BYTES = 1 << 18
DRAIN_SECONDS = 2.0  # how long replies still under way at the end are waited for


class Run:
    """One measurement."""

    def __init__(self, connect: Callable[[], Talk], request: bytes, connections: int) -> None:
        self._connect, self._request = connect, request
        self._idle = deque(connect() for _ in range(connections))
        self._busy: dict[socket.socket, Talk] = {}
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
                self._idle.append(self._connect())
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
    port, request_file, connections, seconds, rate, protocol = sys.argv[1:]
    connect = partial(CONNECTIONS[protocol], int(port), bytearray(RECEIVE_BYTES))
    whole = Run(connect, Path(request_file).read_bytes(), int(connections))
    print(json.dumps(measure(whole, seconds=float(seconds), rate=float(rate))))
