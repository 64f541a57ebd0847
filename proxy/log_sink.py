"""Where log lines leave the process. A reader who stalls or goes away costs lines, never a request and never a crash.

Rule of this file: bytes and descriptors; what a line says is decided elsewhere.
"""

from __future__ import annotations

import os
import queue
import select
import threading
from collections.abc import Callable
from typing import Protocol

HELD_LINES = 10_000  # at most 20 MiB of 2 KiB lines while the reader stalls
CLOSE_SECONDS = 1.0  # a blocked reader must not hold up the end of the process


class LineSink(Protocol):
    """Takes whole lines. ``put`` never blocks and never raises; what cannot be written is dropped and counted."""

    dropped: int

    def put(self, line: bytes) -> None:
        """Write the line, which ends in a newline, some time soon."""
        ...

    def close(self) -> None:
        """Write what is held, for a bounded time."""
        ...


class ThreadedSink:
    """A bounded queue and one thread that writes, because a write to a full pipe blocks.

    Make it in the process that uses it: a thread does not survive fork. ``on_drop`` is called once per lost line, from
    whichever thread lost it.
    """

    def __init__(
        self, descriptor: int = 1, *, held_lines: int = HELD_LINES, on_drop: Callable[[], None] = lambda: None
    ) -> None:
        self.dropped = 0
        self.on_drop = on_drop
        self._descriptor = descriptor
        self._held: queue.Queue[bytes | None] = queue.Queue(maxsize=held_lines)
        self._thread = threading.Thread(target=self._run, name="vecsieve-log", daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Hold the line for the thread; drop it when too many are held."""
        try:
            self._held.put_nowait(line)
        except queue.Full:
            self._drop()

    def close(self) -> None:
        """Write what is held, then end the thread; give up after a second."""
        try:
            self._held.put(None, timeout=CLOSE_SECONDS)
        except queue.Full:
            return
        self._thread.join(CLOSE_SECONDS)

    def _run(self) -> None:
        is_torn = False
        while (line := self._held.get()) is not None:
            whole = b"\n" + line if is_torn else line
            written = _write(self._descriptor, whole)
            is_torn = 0 < written < len(whole) or (is_torn and written == 0)
            if written < len(whole):
                self._drop()

    def _drop(self) -> None:
        self.dropped += 1
        self.on_drop()


class PollingSink:
    """Writes at once, and only when the descriptor takes a whole line without blocking: for a process that forks.

    A pipe that polls as writable has room for PIPE_BUF bytes, which is more than a line.
    """

    def __init__(self, descriptor: int = 1) -> None:
        self.dropped = 0
        self._descriptor = descriptor

    def put(self, line: bytes) -> None:
        """Write the line now, or drop it."""
        _, writable, _ = select.select([], [self._descriptor], [], 0)
        if not writable or _write(self._descriptor, line) < len(line):
            self.dropped += 1

    def close(self) -> None:
        """Nothing is held."""


def _write(descriptor: int, data: bytes) -> int:
    """How many bytes were written before an error: closed reader, full disk, closed descriptor."""
    written = 0
    while written < len(data):
        try:
            written += os.write(descriptor, data[written:])
        except BlockingIOError:
            # Somebody made the descriptor non-blocking for all who share it; this thread may wait.
            select.select([], [descriptor], [], 1.0)
        except OSError:
            break
    return written
