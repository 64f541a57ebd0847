"""The command line with one thread more, which tells on a Unix socket what only the process itself can count.

Usage: PROVE_WATCH=SOCKET python -m prove.watched serve …

A connection is answered with one JSON object: live tasks, and with PROVE_TRACE the bytes that each source line holds
more than at the second question of what was taken since the first, most first.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import runpy
import socket
import threading
import time
import tracemalloc
from pathlib import Path

MOST_LINES = 10


class Watch:
    """Answers questions until the process ends."""

    def __init__(self, path: str) -> None:
        self._server = socket.socket(socket.AF_UNIX)
        self._server.bind(path)
        self._server.listen()
        self._first: tracemalloc.Snapshot | None = None

    def run(self) -> None:
        """One answer for each connection."""
        while True:
            connection, _ = self._server.accept()
            with connection:
                connection.sendall(json.dumps({"tasks": live_tasks(), "grown": self._grown()}).encode())

    def _grown(self) -> list[tuple[str, int]]:
        if "PROVE_TRACE" not in os.environ:
            return []
        gc.collect()
        if (
            not tracemalloc.is_tracing()
        ):  # not from the start: 300,000 traces of what is imported take ten seconds a look
            tracemalloc.start()
            return []
        now = tracemalloc.take_snapshot()
        if self._first is None:
            self._first = now
        return [(str(one.traceback), one.size_diff) for one in now.compare_to(self._first, "lineno")[:MOST_LINES]]


def live_tasks() -> int:
    """Tasks that are not done, of any loop of this process; the collector knows them all without asking a loop."""
    return sum(1 for one in gc.get_objects() if isinstance(one, asyncio.Task) and not one.done())


def task_report(path: Path, seconds: float = 10.0) -> tuple[int, list[tuple[str, int]]]:
    """The other end: how many tasks live, and what has grown. Waits for the socket. Raises OSError when it never comes."""
    until = time.monotonic() + seconds
    while not path.exists() and time.monotonic() < until:
        time.sleep(0.02)
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(seconds)
        client.connect(str(path))
        received = b""
        while piece := client.recv(65_536):
            received += piece
    answer = json.loads(received)
    return int(answer["tasks"]), [(str(line), int(size)) for line, size in answer["grown"]]


if __name__ == "__main__":
    threading.Thread(target=Watch(os.environ["PROVE_WATCH"]).run, name="prove-watch", daemon=True).start()
    runpy.run_module("vecsieve.proxy", run_name="__main__", alter_sys=True)
