"""What the demo must know of a backend: how to start it, how to ask it, and what to say of it. One file per backend."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Protocol

from vecsieve.config.values import Backend
from vecsieve.proxy.demo.store import Store


class DatabaseMissing(Exception):  # noqa: N818 - names what is the matter
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
    def backend(self) -> Backend: ...  # noqa: D102 - said above

    @property
    def words(self) -> Words: ...  # noqa: D102 - said above

    def running(self) -> AbstractContextManager[Addresses]:
        """The database and the proxy in front of it, for the time of the block. Raises ChildFailed or DatabaseMissing."""
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
