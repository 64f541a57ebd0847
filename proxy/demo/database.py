"""What the demo must know of a backend: how to start it, how to ask it, and what to say of it. One file per backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from http.client import HTTPConnection
from typing import Any, Protocol
from urllib.parse import urlsplit

import orjson

from vecsieve.proxy.demo.corpus import Corpus, Vectors

# What the story asks: a server that holds the corpus, and an answer of it. Every backend of the demo is one.

NAME = "python-docs"  # of the collection or index


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """``rows``: the corpus rows of the results in their order. ``milliseconds``: as the caller waited, client included.

    ``chosen_from``: how many candidates VecSieve says it chose from; None where it did not choose, or nobody looked.
    """

    rows: tuple[int, ...]
    scores: tuple[float, ...]
    milliseconds: float
    chosen_from: int | None = None


class Store(Protocol):
    """A server that holds the corpus, asked directly or through the proxy."""

    def load(self, corpus: Corpus, *, progress: Callable[[int], None]) -> None:
        """Write the corpus, telling ``progress`` how many chunks each step has written."""
        ...

    def ask(self, vector: Vectors, *, limit: int) -> Answer:
        """The nearest chunks to ``vector`` (d,), with what they say, as an application would ask for them."""
        ...


# JSON over HTTP with one host, over one kept connection: as little as the demo needs where no client library is at hand.

_TIMEOUT_SECONDS = 20


class DatabaseRefusedError(Exception):
    """A request of the demo was not answered with success. The message says which, the status, and the answer's start."""


class Host:
    """``url``: plain http; a path in it stands before every request's own. ``fields``: headers that every request has."""

    def __init__(self, url: str, fields: Mapping[str, str] | None = None) -> None:
        parts = urlsplit(url)
        self._prefix = parts.path
        self._fields = {"Content-Type": "application/json", **(fields or {})}
        # No web proxy of the environment has a say between two ports of this machine: http.client knows of none.
        self._connection = HTTPConnection(parts.netloc, timeout=_TIMEOUT_SECONDS)

    def sent(self, method: str, path: str, body: Mapping[str, object] | None = None) -> tuple[Any, Mapping[str, str]]:
        """The JSON of the answer, and its header fields by their names in lower case. Arrays of numbers may stand in
        ``body``. Raises DatabaseRefusedError, and what http.client raises where nobody answers.
        """
        payload = None if body is None else orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
        self._connection.request(method, f"{self._prefix}{path}", body=payload, headers=self._fields)
        reply = self._connection.getresponse()
        answer = reply.read()
        if not 200 <= reply.status < 300:
            said = answer[:200].decode("utf-8", "replace")
            raise DatabaseRefusedError(f"{method} {self._prefix}{path} was answered with {reply.status}: {said}")
        return orjson.loads(answer), {name.lower(): value for name, value in reply.getheaders()}

    def close(self) -> None:
        """Let go of the connection."""
        self._connection.close()


class DatabaseMissingError(Exception):
    """A database that the demo would start is not on this machine. The message says what to install."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Addresses:
    """Where the demo's processes listen, as URLs. ``proxy``: the data port; ``admin``: health and metrics."""

    engine: str
    proxy: str
    admin: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """What is said of a backend. ``opening``: before anything is started, None for nothing. ``caution``: what the measured
    time is worth. ``command``: how this demo is called.
    """

    opening: str | None
    caution: str
    command: str


class Database(Protocol):
    """A database to ask, directly and through the proxy. ``backend``: its name in the settings."""

    @property
    def backend(self) -> str: ...  # noqa: D102 - said above

    @property
    def words(self) -> Words: ...  # noqa: D102 - said above

    def running(self) -> AbstractContextManager[Addresses]:
        """The database and the proxy in front of it, for the time of the block. Raises ChildFailedError or DatabaseMissingError."""
        ...

    def opened(self, url: str) -> AbstractContextManager[Store]:
        """A client of whichever listens at ``url``: to the client, the database and the proxy are the same."""
        ...

    def closing(self, at: Addresses) -> str | None:
        """What is said after the story, while everything still runs; None for nothing."""
        ...

    def instructions(self, at: Addresses, *, row: int, question: int, limit: int) -> str:
        """How to query what was left running, by lines that work as pasted. ``row``: a chunk whose neighbours are asked
        for; ``question``: from 0.
        """
        ...
