"""The demo's own processes: the embedded engine and the proxy, started through the command line and always ended.

A child says where it listens in lines such as ``vecsieve serve listening on http://127.0.0.1:40123``.
"""

from __future__ import annotations

import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import IO

from vecsieve.proxy.demo.database import Addresses

PROGRAM = (sys.executable, "-m", "vecsieve.proxy")
_LAST_LINES = 20
_LAST_OUTPUT_SECONDS = 1.0
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_URL = re.compile(r"http://\S+$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Patience:
    """How long a child may take to come up, and to end once asked."""

    start_seconds: float = 30.0  # a cold start on a busy two-core machine took 4 s
    stop_seconds: float = 5.0  # nothing is in flight when the demo ends: a longer drain means that the child hangs


class ChildFailedError(Exception):
    """A process ended or kept silent before it was ready. The message carries its last lines."""


PATIENCE = Patience()


@contextmanager
def child(
    arguments: Sequence[str],
    *,
    announces: Sequence[str],
    program: Sequence[str] = PROGRAM,
    name: str = "",
    patience: Patience = PATIENCE,
) -> Iterator[Mapping[str, str]]:
    """Run ``vecsieve <arguments>`` for the time of the block; gives the URL that each line start announced.

    ``name``: what messages call it; "" for its first argument.

    The process is ended on every way out of the block. It gets a session of its own, so that Ctrl-C reaches the demo
    alone and the children end in order. Raises ChildFailedError.
    """
    process: subprocess.Popen[str] | None = None
    try:
        with _signals_deferred():
            process = _start([*program, *arguments])
        assert process.stdout is not None  # noqa: S101 - _start asks for a pipe
        with closing(_Lines(process.stdout, name=f"output of {name or arguments[0]}")) as lines:
            try:
                urls = _announced(lines, announces, deadline=time.monotonic() + patience.start_seconds)
                if urls is None:
                    raise ChildFailedError(_epitaph(process, name or arguments[0], lines.last))
                yield urls
            finally:
                _end(process, patience)  # before the reader is closed: it reads until the process is gone
    finally:
        if process is not None:
            _end(process, patience)
            if process.stdout is not None:
                process.stdout.close()  # still open when a signal came before it was read


def _start(command: Sequence[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - our own interpreter and module, arguments are ours
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=_environment(os.environ),
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Hold back what would interrupt us until the block is over.

    A handler that raises inside Popen, between fork and return, would leave a process that nobody knows. Blocking the
    signals instead would be inherited by the child, which then could not be ended.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Python runs handlers in the main thread only: nothing can interrupt this one
        return
    held: list[int] = []
    before = {each: signal.signal(each, lambda number, _: held.append(number)) for each in _INTERRUPTS}
    try:
        yield
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)
    for met in held:
        signal.raise_signal(met)


def _environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """The demo shows the defaults: settings the user has for their own proxy must not reach this one."""
    kept = {name: value for name, value in inherited.items() if not name.startswith("VECSIEVE_")}
    return {**kept, "PYTHONUNBUFFERED": "1"}


def _announced(lines: _Lines, announces: Sequence[str], *, deadline: float) -> dict[str, str] | None:
    """The URLs, or None when the output or the time ended before all of them were there."""
    found: dict[str, str] = {}
    while len(found) < len(announces):
        line = lines.next_line(timeout_seconds=deadline - time.monotonic())
        if line is None:
            return None
        start = next((start for start in announces if line.startswith(start)), None)
        url = _URL.search(line)
        if start is not None and url is not None:
            found[start] = url.group()
    return found


def _epitaph(process: subprocess.Popen[str], name: str, last: Iterable[str]) -> str:
    try:
        how = f"ended with code {process.wait(timeout=_LAST_OUTPUT_SECONDS)}"  # its output may end just before it does
    except subprocess.TimeoutExpired:
        how = "is still silent"
    return f"vecsieve {name} did not come up: it {how}. It said:" + "".join(f"\n  {line}" for line in last)


def _end(process: subprocess.Popen[str], patience: Patience) -> None:
    """Ask, wait, then insist; also when a second Ctrl-C cuts the waiting short. Of an ended process: nothing."""
    process.terminate()
    try:
        process.wait(timeout=patience.stop_seconds)
    except subprocess.TimeoutExpired:
        pass
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


class _Lines:
    """Reads a child's output to its end, so that the child never blocks on a full pipe; remembers the last lines."""

    def __init__(self, stream: IO[str], *, name: str) -> None:
        self.last: deque[str] = deque(maxlen=_LAST_LINES)
        self._stream = stream
        self._waiting: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._read, name=name, daemon=True)
        self._thread.start()

    def next_line(self, *, timeout_seconds: float) -> str | None:
        """The next line, or None at the end of the output or of the time."""
        try:
            return self._waiting.get(timeout=max(0.0, timeout_seconds))
        except queue.Empty:
            return None

    def close(self) -> None:
        """Wait for the end of the output and release the pipe."""
        self._thread.join(timeout=_LAST_OUTPUT_SECONDS)
        self._stream.close()

    def _read(self) -> None:
        for line in self._stream:
            self.last.append(line.rstrip())
            self._waiting.put(line.rstrip())
        self._waiting.put(None)


# The proxy of the demo: `vecsieve serve` with its defaults, in front of whatever is to be asked.

ANY_PORT = "127.0.0.1:0"
_PROXY = "vecsieve serve listening on"
_ADMIN = "vecsieve serve admin on"


@contextmanager
def fronted(engine: str, *, backend: str) -> Iterator[Addresses]:
    """A proxy whose upstream is ``engine``, for the time of the block. Raises ChildFailedError."""
    arguments = ("serve", "--backend", backend, "--upstream", engine, "--listen", ANY_PORT, "--admin", ANY_PORT)
    with child(arguments, announces=(_PROXY, _ADMIN)) as proxy:
        yield Addresses(engine=engine, proxy=proxy[_PROXY], admin=proxy[_ADMIN])
