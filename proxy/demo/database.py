"""The demo's description of a backend: how to start it, how to search it, and what to print about it. And child processes, started through
the command line and always ended.

A child prints its addresses in lines such as ``vecsieve serve listening on http://127.0.0.1:40123``.
"""

from __future__ import annotations

import os
import queue
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from http.client import HTTPConnection
from typing import IO, Any, ClassVar
from urllib.parse import urlsplit

import orjson

from vecsieve.config.schema import Settings

from ..search.report import REPORT_HEADER
from .corpus import Corpus, Vectors

ANY_PORT = "127.0.0.1:0"
# The demo's texts are public; the file is written when somebody judges a pair on the page.
INSPECTED = {
    "VECSIEVE_EXPLAIN_TEXTS": "true",
    "VECSIEVE_EXPLAIN_JUDGEMENTS": "pairs.jsonl",
    "VECSIEVE_LOG_FORMAT": "text",  # with the addresses as plain lines
}
_PROXY = "vecsieve serve listening on"
_ADMIN = "vecsieve serve admin on"
PROGRAM = (sys.executable, "-m", "vecsieve.proxy")
_LAST_LINES = 20
_LAST_OUTPUT_SECONDS = 1.0
_INTERRUPTS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_URL = re.compile(r"http://\S+$")


START_SECONDS = 30.0  # for a child to start: a cold start on a busy two-core machine took 4 s
STOP_SECONDS = 5.0  # after SIGTERM: no request is in flight when the demo ends, so a child that takes longer hangs


class ChildFailedError(Exception):
    """A process ended, or timed out, before it was ready. The message has its last lines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """URLs of the demo's processes. ``proxy``: the data port; ``admin``: health and metrics."""

    engine: str
    proxy: str
    admin: str


def is_free(address: str) -> bool:
    """Whether a port of this machine can be bound."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_server((host, int(port))).close()
    except OSError:
        return False
    return True


@contextmanager
def fronted(engine: str, *, backend: str, is_kept: bool = False) -> Iterator[Addresses]:
    """Run ``vecsieve serve`` in front of ``engine``, with its defaults except for what the inspector shows and keeps. ``is_kept``: on its
    usual ports if they are free, so that an address can be typed again.

    Raises ChildFailedError.
    """
    usual = (str(Settings().listen), str(Settings().admin))
    listen, admin = (address if is_kept and is_free(address) else ANY_PORT for address in usual)
    arguments = ("serve", "--backend", backend, "--upstream", engine, "--listen", listen, "--admin", admin)
    with child(arguments, announces=(_PROXY, _ADMIN), settings=INSPECTED) as proxy:
        yield Addresses(engine=engine, proxy=proxy[_PROXY], admin=proxy[_ADMIN])


@contextmanager
def child(
    arguments: Sequence[str],
    *,
    announces: Sequence[str],
    program: Sequence[str] = PROGRAM,
    name: str = "",
    settings: Mapping[str, str] | None = None,
) -> Iterator[Mapping[str, str]]:
    """Run ``vecsieve <arguments>`` during the block. Yields the URLs by the line starts of ``announces``.

    ``name``: for messages; "" for the first argument. ``settings``: variables of its environment. Raises ChildFailedError.

    The process always ends with the block. It has its own session: Ctrl-C reaches the demo alone, which ends its
    children in order.
    """
    process: subprocess.Popen[str] | None = None
    try:
        with _signals_deferred():
            process = _start([*program, *arguments], settings or {})
        assert process.stdout is not None  # noqa: S101 - _start asks for a pipe
        with closing(_Lines(process.stdout, name=f"output of {name or arguments[0]}")) as lines:
            try:
                urls = _announced(lines, announces, deadline=time.monotonic() + START_SECONDS)
                if urls is None:
                    raise ChildFailedError(_failure(process, name or arguments[0], lines.last))
                yield urls
            finally:
                _end(process)  # before the reader is closed, which reads until the process is gone
    finally:
        if process is not None:
            _end(process)
            if process.stdout is not None:
                process.stdout.close()  # still open if a signal came before it was read


def _start(command: Sequence[str], settings: Mapping[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(  # noqa: S603 - our own interpreter and module, arguments are ours
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**_environment(os.environ), **settings},
        text=True,
        encoding="utf-8",
        errors="replace",
        start_new_session=True,
    )


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Defer signals that would interrupt us until the block ends.

    A handler that raises inside Popen, between fork and return, would leak the process. A signal mask is no
    alternative: the child would inherit it and could not be ended.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # Python runs handlers in the main thread only
        return
    received: list[int] = []
    before = {
        interrupt: signal.signal(interrupt, lambda number, _: received.append(number)) for interrupt in _INTERRUPTS
    }
    try:
        yield
    finally:
        for interrupt, handler in before.items():
            signal.signal(interrupt, handler)
    for number in received:
        signal.raise_signal(number)


def _environment(inherited: Mapping[str, str]) -> dict[str, str]:
    """Without the user's own settings: the demo shows the defaults."""
    kept = {name: value for name, value in inherited.items() if not name.startswith("VECSIEVE_")}
    return {**kept, "PYTHONUNBUFFERED": "1"}


def _announced(lines: _Lines, announces: Sequence[str], *, deadline: float) -> dict[str, str] | None:
    """The URLs by line start; None if the output ended, or time ran out, before all of them were printed."""
    urls: dict[str, str] = {}
    while len(urls) < len(announces):
        line = lines.next_line(timeout_seconds=deadline - time.monotonic())
        if line is None:
            return None
        start = next((start for start in announces if line.startswith(start)), None)
        url = _URL.search(line)
        if start is not None and url is not None:
            urls[start] = url.group()
    return urls


def _failure(process: subprocess.Popen[str], name: str, last: Iterable[str]) -> str:
    try:
        how = f"ended with code {process.wait(timeout=_LAST_OUTPUT_SECONDS)}"  # its output may end just before the process
    except subprocess.TimeoutExpired:
        how = "has printed nothing yet"
    return f"vecsieve {name} did not start: it {how}. Its output:" + "".join(f"\n  {line}" for line in last)


def _end(process: subprocess.Popen[str]) -> None:
    """Terminate, wait, then kill, also when a second Ctrl-C interrupts the wait. Does nothing to an ended process."""
    process.terminate()
    try:
        process.wait(timeout=STOP_SECONDS)
    except subprocess.TimeoutExpired:
        pass
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()


class _Lines:
    """Reads a child's output to its end, so that a full pipe never blocks the child. ``last``: its last lines."""

    def __init__(self, stream: IO[str], *, name: str) -> None:
        self.last: deque[str] = deque(maxlen=_LAST_LINES)
        self._stream = stream
        self._waiting: queue.SimpleQueue[str | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._read, name=name, daemon=True)
        self._thread.start()

    def next_line(self, *, timeout_seconds: float) -> str | None:
        """None at the end of the output and on timeout."""
        try:
            return self._waiting.get(timeout=max(0.0, timeout_seconds))
        except queue.Empty:
            return None

    def close(self) -> None:
        self._thread.join(timeout=_LAST_OUTPUT_SECONDS)
        self._stream.close()

    def _read(self) -> None:
        for line in self._stream:
            self.last.append(line.rstrip())
            self._waiting.put(line.rstrip())
        self._waiting.put(None)


NAME = "python-docs"  # of the collection or index
_TIMEOUT_SECONDS = 20
_POOL = re.compile(r"pool=([0-9]+)")


class DatabaseMissingError(Exception):
    """A database is not installed on this machine. The message says what to install."""


class DatabaseRefusedError(Exception):
    """A request was answered without success. The message has the request, the status and the answer's start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``rows``: corpus rows of the results, in their order. ``milliseconds``: waited by the caller, client included.

    ``pool_size``: the number of candidates that VecSieve reports; None without a report.
    """

    rows: tuple[int, ...]
    scores: tuple[float, ...]
    milliseconds: float
    pool_size: int | None = None


class Host:
    """JSON over one kept connection. ``url``: plain http; its path precedes every request's. ``fields``: headers of every request."""

    def __init__(self, url: str, fields: Mapping[str, str] | None = None) -> None:
        parts = urlsplit(url)
        self.url = url
        self._prefix = parts.path
        self._fields = {"Content-Type": "application/json", **(fields or {})}
        # http.client ignores the environment's proxy variables, which must not apply on this machine.
        self._connection = HTTPConnection(parts.netloc, timeout=_TIMEOUT_SECONDS)

    def sent(self, method: str, path: str, body: Mapping[str, object] | None = None) -> tuple[Any, Mapping[str, str]]:
        """The answer's JSON, and its header fields by lower-case name. ``body`` may hold arrays.

        Raises DatabaseRefusedError, and what http.client raises when there is no answer.
        """
        payload = None if body is None else orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
        self._connection.request(method, f"{self._prefix}{path}", body=payload, headers=self._fields)
        reply = self._connection.getresponse()
        answer = reply.read()
        if not 200 <= reply.status < 300:
            text = answer[:200].decode("utf-8", "replace")
            raise DatabaseRefusedError(f"{method} {self._prefix}{path} was answered with {reply.status}: {text}")
        return orjson.loads(answer), {name.lower(): value for name, value in reply.getheaders()}

    def close(self) -> None:
        self._connection.close()


Search = tuple[str, Mapping[str, object]]
"""The path and the body of a search."""
Hits = Iterable[tuple[int | str, float]]
"""The ids and the scores of an answer, best first."""


class Store(ABC):
    """A client of a server that holds the corpus: the database, or the proxy in front of it. Ids are corpus rows."""

    batch = 250  # 250 x 384 numbers are about 1 MB of JSON: small steps for the progress bar, few requests
    fields: ClassVar[Mapping[str, str]] = {}

    def __init__(self, url: str) -> None:
        self.host = Host(url, self.fields)

    @cached_property
    def index(self) -> Host:
        """Where searches and records go."""
        return self.host

    @abstractmethod
    def create(self, dimension: int) -> None:
        """Make the empty collection."""

    @abstractmethod
    def write(self, corpus: Corpus, rows: range) -> None: ...

    @abstractmethod
    def search(self, vector: Vectors, limit: int) -> Search:
        """For the nearest chunks, payloads included."""

    @abstractmethod
    def hits(self, answer: Any) -> Hits: ...

    def load(self, corpus: Corpus, *, progress: Callable[[int], None]) -> None:
        """Write the corpus; ``progress`` gets the number of chunks of each step."""
        self.create(corpus.vectors.shape[1])
        for start in range(0, len(corpus.chunks), self.batch):
            rows = range(start, min(start + self.batch, len(corpus.chunks)))
            self.write(corpus, rows)
            progress(len(rows))

    def ask(self, vector: Vectors, *, limit: int) -> Answer:
        """The nearest chunks to ``vector`` (d,)."""
        index, (path, body) = self.index, self.search(vector, limit)
        started = time.perf_counter()
        answer, fields = index.sent("POST", path, body)
        milliseconds = (time.perf_counter() - started) * 1000.0
        pool = _POOL.match(fields.get(REPORT_HEADER, ""))
        hits = list(self.hits(answer))
        return Answer(
            rows=tuple(int(row) for row, _ in hits),
            scores=tuple(score for _, score in hits),
            milliseconds=milliseconds,
            pool_size=None if pool is None else int(pool[1]),
        )

    def close(self) -> None:
        for host in {self.host, vars(self).get("index", self.host)}:  # an index that was never used is not looked up
            host.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """One backend of the demo. ``backend``: its name in the settings. ``command``: the command of this demo.

    ``engine``: the URL of the database, which runs for a block; raises ChildFailedError, DatabaseMissingError. ``opened``: a client of the
    database or the proxy. ``instructions``: commands for searching the processes that ``--keep`` leaves running, from the addresses, a
    ``row`` of the corpus, a ``question`` from 0 and a ``limit``. ``caution``: how far the measured time can be trusted. ``opening``:
    printed before anything starts. ``closing``: makes the text printed at the end.
    """

    backend: str
    command: str
    engine: Callable[[], AbstractContextManager[str]]
    opened: Callable[[str], Store]
    instructions: Callable[..., str]
    caution: str
    opening: str | None = None
    closing: Callable[[Addresses], str] | None = None

    @contextmanager
    def running(self, *, is_kept: bool = False) -> Iterator[Addresses]:
        """The database and the proxy in front of it, for a block."""
        with self.engine() as engine, fronted(engine, backend=self.backend, is_kept=is_kept) as addresses:
            yield addresses
