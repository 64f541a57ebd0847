"""The demo over Qdrant: the embedded engine, asked through the official client."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from vecsieve.config.values import Backend
from vecsieve.proxy.demo.children import child
from vecsieve.proxy.demo.collection import Collection
from vecsieve.proxy.demo.database import Addresses, Words
from vecsieve.proxy.demo.fronting import ANY_PORT, fronted
from vecsieve.proxy.demo.keeping import instructions
from vecsieve.proxy.demo.store import Store

_ENGINE = "vecsieve embedded listening on"
_CAUTION = (
    "The embedded engine is here for trying things out, it is not built for speed: fetching more results with their "
    "vectors costs it more than it costs a Qdrant server."
)


class Qdrant:
    """The engine that Qdrant ships, in a process of its own."""

    backend: Backend = "qdrant"
    words = Words(opening=None, caution=_CAUTION, command="vecsieve demo")

    @contextmanager
    def running(self) -> Iterator[Addresses]:
        """The engine, and the proxy in front of it."""
        with (
            child(("embedded", "--listen", ANY_PORT), announces=(_ENGINE,)) as engine,
            fronted(engine[_ENGINE], backend=self.backend) as addresses,
        ):
            yield addresses

    def opened(self, url: str) -> AbstractContextManager[Store]:
        """The official client."""
        return Collection(url)

    def closing(self, at: Addresses) -> str | None:
        """Nothing: it was the real engine."""
        return None

    def instructions(self, at: Addresses, *, row: int, question: int, limit: int) -> str:
        """For curl and the official client."""
        return instructions(at, row=row, question=question, limit=limit)
