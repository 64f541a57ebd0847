"""The demo over Qdrant: the embedded engine, asked through the official client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType
from typing import Self

from vecsieve.proxy.demo.children import ANY_PORT, child, fronted
from vecsieve.proxy.demo.corpus import Corpus, Vectors
from vecsieve.proxy.demo.database import NAME, Addresses, Answer, Store, Words

# The corpus as a collection of a Qdrant-compatible server, through the official client: loading it and asking it.

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


# What ``--keep`` prints of Qdrant: lines that work as pasted, with the real ports; and what any run ends with.


def invitation(questions: int, command: str) -> str:
    """What to try next, after a run of ``command`` that ends by itself."""
    return f"Another question: {command} --query NUMBER (1 to {questions}). To ask by yourself: {command} --keep"


def instructions(at: Addresses, *, row: int, question: int, limit: int) -> str:
    """How to query what was left running. ``row``: a point whose neighbours are asked for; ``question``: from 0."""
    body = f'{{"query": {row}, "limit": {limit}, "with_payload": ["document", "title"]}}'
    return f"""\
Still running until Ctrl-C:

  the engine   {at.engine}
  VecSieve     {at.proxy}   point any Qdrant client here
  its metrics  {at.admin}/metrics

The same search both ways, the neighbours of chunk {row}:

curl -s {at.engine}/collections/{NAME}/points/query -H 'content-type: application/json' -d '{body}'
curl -s {at.proxy}/collections/{NAME}/points/query -H 'content-type: application/json' -d '{body}'

The same in Python, with the vector of question {question + 1}:

from qdrant_client import QdrantClient
from vecsieve.proxy.demo.corpus import load
vector = load().question_vectors[{question}].tolist()
for url in ("{at.engine}", "{at.proxy}"):
    points = QdrantClient(url=url).query_points("{NAME}", query=vector, limit={limit}).points
    print(url, *(point.payload["document"] for point in points), sep="\\n  ")

"""


_ENGINE = "vecsieve embedded listening on"
_CAUTION = (
    "The embedded engine is here for trying things out, it is not built for speed: fetching more results with their "
    "vectors costs it more than it costs a Qdrant server."
)


class Qdrant:
    """The engine that Qdrant ships, in a process of its own."""

    backend: str = "qdrant"
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
