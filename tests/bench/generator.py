"""A load generator over raw sockets, in a process of its own: a closed loop of many requests, in turn or by Zipf's law.

select() is used because its timeout is exact to microseconds; epoll's, and asyncio's, to one millisecond.

Usage: python -m bench.generator PORT REQUESTS_FILE CONNECTIONS SECONDS COUNT ORDER SEED PROTOCOL
REQUESTS_FILE: requests one after the other, each behind its length (four bytes, big endian). COUNT: how many at most, 0 for
as many as fit into SECONDS. ORDER: turn (SEED is where it begins) or zipf. PROTOCOL: http, or grpc: then a request is one call's
frames, and a connection makes one call at a time.
Prints one JSON object: replies, failures, reply_bytes, seconds, p50, p99 (seconds).
"""

from __future__ import annotations

import itertools
import json
import random
import select
import socket
import struct
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

from bench.connections import CONNECTIONS, Talk
from bench.stats import percentile

RECEIVE_BYTES = 1 << 18
DRAIN_SECONDS = 10.0  # how long replies still under way at the end are waited for


class Run:
    """One measurement. ``requests``: what is asked, in this order, from all connections together."""

    def __init__(self, connect: Callable[[], Talk], requests: Iterator[bytes], connections: int) -> None:
        self._connect, self._requests = connect, requests
        self._idle = deque(connect() for _ in range(connections))
        self._busy: dict[socket.socket, Talk] = {}
        self.latencies: list[float] = []
        self.failures = 0
        self.reply_bytes = 0

    def closed(self, seconds: float) -> None:
        """Every connection asks again as soon as it is answered, until the time or the requests end."""
        end = time.perf_counter() + seconds
        while (now := time.perf_counter()) < end:
            self._dispatch(now)
            if not self._busy:
                return
            self._collect(end - now)
        self._drain()

    def _dispatch(self, now: float) -> None:
        while self._idle and (request := next(self._requests, None)) is not None:
            connection = self._idle.popleft()
            connection.send(request, now)
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
        while self._busy and (now := time.perf_counter()) < end:
            self._collect(end - now)
        self.failures += len(self._busy)


def measure(run: Run, *, seconds: float) -> dict[str, float]:
    """Run, and sum up. Raises ValueError when not one reply came."""
    start = time.perf_counter()
    run.closed(seconds)
    return {
        "replies": len(run.latencies),
        "failures": run.failures,
        "reply_bytes": run.reply_bytes,
        "seconds": time.perf_counter() - start,
        "p50": percentile(run.latencies, 0.50),
        "p99": percentile(run.latencies, 0.99),
    }


def ordered(requests: Sequence[bytes], order: str, seed: int) -> Iterator[bytes]:
    """In turn from a place, or each drawn by Zipf's law: the first twice as often as the second. Endless. Raises ValueError."""
    if order == "turn":
        begins = seed % len(requests)
        return itertools.cycle([*requests[begins:], *requests[:begins]])
    if order != "zipf":
        raise ValueError(f"order {order!r}, wanted turn or zipf")
    weights = list(itertools.accumulate(1.0 / rank for rank in range(1, len(requests) + 1)))
    draw = random.Random(seed)
    return (draw.choices(requests, cum_weights=weights)[0] for _ in itertools.count())


def packed(requests: Sequence[bytes]) -> bytes:
    """Requests as they lie in the file."""
    return b"".join(struct.pack(">I", len(request)) + request for request in requests)


def unpacked(data: bytes) -> list[bytes]:
    """The requests of a file."""
    requests, at = [], 0
    while at < len(data):
        (size,) = struct.unpack_from(">I", data, at)
        requests.append(data[at + 4 : at + 4 + size])
        at += 4 + size
    return requests


if __name__ == "__main__":
    port, requests_file, connections, seconds, count, order, seed, protocol = sys.argv[1:]
    connect = partial(CONNECTIONS[protocol], int(port), bytearray(RECEIVE_BYTES))
    bodies = ordered(unpacked(Path(requests_file).read_bytes()), order, int(seed))
    if int(count):
        bodies = itertools.islice(bodies, int(count))
    print(json.dumps(measure(Run(connect, bodies, int(connections)), seconds=float(seconds))))
