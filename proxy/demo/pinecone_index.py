"""The corpus as an index of Pinecone, in its REST: what any client does, over one kept connection per host.

Not through the official client: it is no dependency of the demo, and its next major version would be the demo's problem.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from vecsieve.proxy.demo.corpus import Corpus, Vectors
from vecsieve.proxy.demo.http_host import Host
from vecsieve.proxy.demo.store import NAME, Answer
from vecsieve.proxy.report import REPORT_HEADER

API_KEY = "demo"  # the emulator takes any, and wants one as the service does
_FIELDS = {"Api-Key": API_KEY, "X-Pinecone-Api-Version": "2025-10"}
_BATCH = 100  # the service's advice; 384 numbers and a text each make 0.6 MB of the 2 MB it takes
_POOL = re.compile(r"pool=([0-9]+)")


class PineconeIndex:
    """The demo's index at one control plane, the emulator's or VecSieve's. Record ids are corpus rows."""

    def __init__(self, control_plane: str) -> None:
        self._control_plane = Host(control_plane, _FIELDS)
        self._index: Host | None = None

    @property
    def host(self) -> str:
        """Where the control plane says the index is. Raises DatabaseRefused."""
        described, _ = self._control_plane.sent("GET", f"/indexes/{NAME}")
        host: str = described["host"]
        return host

    def load(self, corpus: Corpus, *, progress: Callable[[int], None]) -> None:
        """Create the index and write the corpus; ``progress`` hears how many chunks each step has written."""
        spec = {"serverless": {"cloud": "aws", "region": "us-east-1"}}
        index = {"name": NAME, "dimension": corpus.vectors.shape[1], "metric": "cosine", "spec": spec}
        self._control_plane.sent("POST", "/indexes", index)
        for start in range(0, len(corpus.chunks), _BATCH):
            rows = range(start, min(start + _BATCH, len(corpus.chunks)))
            records = [
                {"id": str(row), "values": corpus.vectors[row], "metadata": corpus.chunks[row].payload()}
                for row in rows
            ]
            self._opened().sent("POST", "/vectors/upsert", {"vectors": records})
            progress(len(rows))

    def ask(self, vector: Vectors, *, limit: int) -> Answer:
        """The nearest chunks to ``vector`` (d,), metadata included, as an application would ask for them."""
        index = self._opened()
        started = time.perf_counter()
        answer, headers = index.sent("POST", "/query", {"vector": vector, "topK": limit, "includeMetadata": True})
        milliseconds = (time.perf_counter() - started) * 1000.0
        matches = answer["matches"]
        pool = _POOL.match(headers.get(REPORT_HEADER, ""))
        return Answer(
            rows=tuple(int(match["id"]) for match in matches),
            scores=tuple(match["score"] for match in matches),
            milliseconds=milliseconds,
            chosen_from=None if pool is None else int(pool[1]),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for host in (self._control_plane, self._index):
            if host is not None:
                host.close()

    def _opened(self) -> Host:
        """The index itself; where it is, the control plane is asked once, as by every client."""
        if self._index is None:
            self._index = Host(self.host, _FIELDS)
        return self._index
