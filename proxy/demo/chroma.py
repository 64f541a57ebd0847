"""The demo over Chroma: the real server, as its own package runs it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from vecsieve.config.values import Backend
from vecsieve.proxy.demo.chroma_collection import ChromaCollection
from vecsieve.proxy.demo.chroma_keeping import instructions
from vecsieve.proxy.demo.chroma_server import chroma_server
from vecsieve.proxy.demo.database import Addresses, Words
from vecsieve.proxy.demo.fronting import fronted
from vecsieve.proxy.demo.store import Store

_CAUTION = (
    "Chroma answers in JSON, vectors as digits: most of the added time is its writing and our reading of them, and grows "
    "with the dimension."
)


class Chroma:
    """The server that `chroma run` starts, in a process of its own."""

    backend: Backend = "chroma"
    words = Words(opening=None, caution=_CAUTION, command=f"vecsieve demo --backend {backend}")

    @contextmanager
    def running(self) -> Iterator[Addresses]:
        """The server, and the proxy in front of it."""
        with chroma_server() as engine, fronted(engine, backend=self.backend) as addresses:
            yield addresses

    def opened(self, url: str) -> AbstractContextManager[Store]:
        """A client of its REST."""
        return ChromaCollection(url)

    def closing(self, at: Addresses) -> str | None:
        """Nothing: it was the real server."""
        return None

    def instructions(self, at: Addresses, *, row: int, question: int, limit: int) -> str:
        """For curl and the official client."""
        with ChromaCollection(at.engine) as direct:
            return instructions(at, direct.path, question=question, limit=limit)
