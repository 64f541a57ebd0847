"""The corpus as a collection of Chroma, in its REST: what any client does, over one kept connection.

Not through the official client: it loads half a gigabyte of what embeds texts, and the demo's vectors are made already.
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

COLLECTIONS = "/api/v2/tenants/default_tenant/databases/default_database/collections"
_BATCH = 250  # 250 x 384 numbers are about 1 MB of JSON: small steps for the progress bar, few requests
_POOL = re.compile(r"pool=([0-9]+)")


class ChromaCollection:
    """The demo's collection at one server, Chroma's or VecSieve's. Record ids are corpus rows."""

    def __init__(self, url: str) -> None:
        self._host = Host(url)
        self._path: str | None = None

    @property
    def path(self) -> str:
        """Where the collection is: the server knows it by an id, which it is asked for once. Raises DatabaseRefused."""
        if self._path is None:
            described, _ = self._host.sent("GET", f"{COLLECTIONS}/{NAME}")
            self._path = f"{COLLECTIONS}/{described['id']}"
        return self._path

    def load(self, corpus: Corpus, *, progress: Callable[[int], None]) -> None:
        """Create the collection and write the corpus; ``progress`` hears how many chunks each step has written."""
        configuration = {"hnsw": {"space": "cosine"}}
        self._host.sent("POST", COLLECTIONS, {"name": NAME, "configuration": configuration})
        for start in range(0, len(corpus.chunks), _BATCH):
            rows = range(start, min(start + _BATCH, len(corpus.chunks)))
            payloads = [corpus.chunks[row].payload() for row in rows]
            records = {
                "ids": [str(row) for row in rows],
                "embeddings": [corpus.vectors[row] for row in rows],
                "documents": [payload.pop("text") for payload in payloads],
                "metadatas": payloads,
            }
            self._host.sent("POST", f"{self.path}/add", records)
            progress(len(rows))

    def ask(self, vector: Vectors, *, limit: int) -> Answer:
        """The nearest chunks to ``vector`` (d,), with what they say, as an application would ask for them."""
        asked = {
            "query_embeddings": [vector],
            "n_results": limit,
            "include": ["metadatas", "documents", "distances"],
        }
        path = f"{self.path}/query"
        started = time.perf_counter()
        answer, headers = self._host.sent("POST", path, asked)
        milliseconds = (time.perf_counter() - started) * 1000.0
        pool = _POOL.match(headers.get(REPORT_HEADER, ""))
        return Answer(
            rows=tuple(int(row) for row in answer["ids"][0]),
            scores=tuple(answer["distances"][0]),
            milliseconds=milliseconds,
            chosen_from=None if pool is None else int(pool[1]),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._host.close()
