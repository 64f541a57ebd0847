"""What the demo must know of a backend: how to start it, how to search it, and what to print about it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any, Protocol
from urllib.parse import urlsplit

import orjson

from vecsieve.proxy.demo.children import Addresses, fronted
from vecsieve.proxy.demo.corpus import Corpus, Vectors
from vecsieve.proxy.search.report import REPORT_HEADER

NAME = "python-docs"  # of the collection or index
_TIMEOUT_SECONDS = 20
_POOL = re.compile(r"pool=([0-9]+)")


class DatabaseMissingError(Exception):
    """A database is not installed on this machine. The message says what to install."""


class DatabaseRefusedError(Exception):
    """A request was answered without success. The message has the request, the status and the answer's start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``rows``: corpus rows of the results, in their order. ``milliseconds``: as the caller waited, client included.

    ``pool_size``: how many candidates VecSieve reports that it chose from; None without a report.
    """

    rows: tuple[int, ...]
    scores: tuple[float, ...]
    milliseconds: float
    pool_size: int | None = None


class Store(Protocol):
    """A client of a server that holds the corpus: the database, or the proxy in front of it."""

    def load(self, corpus: Corpus, *, progress: Callable[[int], None]) -> None:
        """Write the corpus; ``progress`` gets the number of chunks of each step."""

    def ask(self, vector: Vectors, *, limit: int) -> Answer:
        """The nearest chunks to ``vector`` (d,), payloads included."""

    def close(self) -> None: ...


def batches(corpus: Corpus, size: int, progress: Callable[[int], None]) -> Iterator[range]:
    """The rows of the corpus, ``size`` at a time. ``progress`` is called after each batch."""
    for start in range(0, len(corpus.chunks), size):
        rows = range(start, min(start + size, len(corpus.chunks)))
        yield rows
        progress(len(rows))


class Host:
    """JSON over one kept connection. ``url``: plain http; its path precedes every request's. ``fields``: headers of every request."""

    def __init__(self, url: str, fields: Mapping[str, str] | None = None) -> None:
        parts = urlsplit(url)
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
            said = answer[:200].decode("utf-8", "replace")
            raise DatabaseRefusedError(f"{method} {self._prefix}{path} was answered with {reply.status}: {said}")
        return orjson.loads(answer), {name.lower(): value for name, value in reply.getheaders()}

    def searched(self, path: str, body: Mapping[str, object]) -> tuple[Any, float, int | None]:
        """The answer's JSON, the milliseconds it took, and the pool size that VecSieve reports."""
        started = time.perf_counter()
        answer, fields = self.sent("POST", path, body)
        milliseconds = (time.perf_counter() - started) * 1000.0
        pool = _POOL.match(fields.get(REPORT_HEADER, ""))
        return answer, milliseconds, None if pool is None else int(pool[1])

    def close(self) -> None:
        self._connection.close()


class Instructions(Protocol):
    def __call__(self, at: Addresses, /, *, row: int, question: int, limit: int) -> str:
        """Lines to paste for searching what ``--keep`` leaves running. ``row``: a chunk; ``question``: from 0."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Database:
    """One backend of the demo. ``backend``: its name in the settings. ``command``: how this demo is called.

    ``engine``: the URL of the database, which runs for a block; raises ChildFailedError, DatabaseMissingError.
    ``opened``: a client of the database or the proxy. ``caution``: how far the measured time can be trusted.
    ``opening``: printed before anything starts. ``closing``: makes what is printed at the end.
    """

    backend: str
    command: str
    engine: Callable[[], AbstractContextManager[str]]
    opened: Callable[[str], Store]
    instructions: Instructions
    caution: str
    opening: str | None = None
    closing: Callable[[Addresses], str] | None = None

    @contextmanager
    def running(self) -> Iterator[Addresses]:
        """The database and the proxy before it, for a block."""
        with self.engine() as engine, fronted(engine, backend=self.backend) as addresses:
            yield addresses
