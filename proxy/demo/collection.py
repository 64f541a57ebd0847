"""The corpus as a collection of a Qdrant-compatible server, through the official client: loading it and asking it."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from vecsieve.proxy.demo.corpus import Corpus, Vectors
from vecsieve.proxy.demo.store import NAME, Answer

_BATCH = 250  # 250 x 384 numbers are about 1 MB of JSON: small steps for the progress bar, few requests
_TIMEOUT_SECONDS = 20


class Collection:
    """One server's collection of the demo, behind the official client. Point ids are corpus rows."""

    def __init__(self, url: str) -> None:
        from qdrant_client import QdrantClient

        # The environment's web proxies have no say between two ports of this machine.
        self._client = QdrantClient(url=url, timeout=_TIMEOUT_SECONDS, check_compatibility=False, trust_env=False)

    def load(self, corpus: Corpus, *, progress: Callable[[int], None]) -> None:
        """Create the collection and write the corpus; ``progress`` hears how many chunks each step has written."""
        from qdrant_client import models

        parameters = models.VectorParams(size=corpus.vectors.shape[1], distance=models.Distance.COSINE)
        self._client.create_collection(NAME, vectors_config=parameters)
        for start in range(0, len(corpus.chunks), _BATCH):
            rows = range(start, min(start + _BATCH, len(corpus.chunks)))
            points = [
                models.PointStruct(id=row, vector=corpus.vectors[row].tolist(), payload=corpus.chunks[row].payload())
                for row in rows
            ]
            self._client.upsert(NAME, points=points, wait=True)
            progress(len(rows))

    def ask(self, vector: Vectors, *, limit: int) -> Answer:
        """The nearest chunks to ``vector`` (d,), payloads included, as an application would ask for them."""
        query = vector.tolist()
        started = time.perf_counter()
        points = self._client.query_points(NAME, query=query, limit=limit, with_payload=True).points
        milliseconds = (time.perf_counter() - started) * 1000.0
        rows = tuple(int(point.id) for point in points)
        return Answer(rows=rows, scores=tuple(point.score for point in points), milliseconds=milliseconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._client.close()
