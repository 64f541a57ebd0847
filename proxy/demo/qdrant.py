"""The demo on Qdrant: the embedded engine, searched through the official client."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from vecsieve.proxy.demo.children import ANY_PORT, child, fronted
from vecsieve.proxy.demo.corpus import Corpus, Vectors
from vecsieve.proxy.demo.database import NAME, Addresses, Answer, Database, batches

_BATCH = 250  # 250 x 384 numbers are about 1 MB of JSON: small steps for the progress bar, few requests
_TIMEOUT_SECONDS = 20
_ENGINE = "vecsieve embedded listening on"


class Collection:
    """The demo's collection on one server. Point ids are corpus rows."""

    def __init__(self, url: str) -> None:
        from qdrant_client import QdrantClient

        # trust_env: proxy variables of the environment must not apply between two ports of this machine.
        self._client = QdrantClient(url=url, timeout=_TIMEOUT_SECONDS, check_compatibility=False, trust_env=False)

    def load(self, corpus: Corpus, *, progress: Callable[[int], None]) -> None:
        from qdrant_client import models

        parameters = models.VectorParams(size=corpus.vectors.shape[1], distance=models.Distance.COSINE)
        self._client.create_collection(NAME, vectors_config=parameters)
        for rows in batches(corpus, _BATCH, progress):
            points = [
                models.PointStruct(id=row, vector=corpus.vectors[row].tolist(), payload=corpus.chunks[row].payload())
                for row in rows
            ]
            self._client.upsert(NAME, points=points, wait=True)

    def ask(self, vector: Vectors, *, limit: int) -> Answer:
        query = vector.tolist()
        started = time.perf_counter()
        points = self._client.query_points(NAME, query=query, limit=limit, with_payload=True).points
        milliseconds = (time.perf_counter() - started) * 1000.0
        rows = tuple(int(point.id) for point in points)
        return Answer(rows=rows, scores=tuple(point.score for point in points), milliseconds=milliseconds)

    def close(self) -> None:
        self._client.close()


def instructions(at: Addresses, /, *, row: int, question: int, limit: int) -> str:
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


@contextmanager
def _running() -> Iterator[Addresses]:
    with (
        child(("embedded", "--listen", ANY_PORT), announces=(_ENGINE,)) as engine,
        fronted(engine[_ENGINE], backend="qdrant") as addresses,
    ):
        yield addresses


QDRANT = Database(
    backend="qdrant",
    command="vecsieve demo",
    running=_running,
    opened=Collection,
    instructions=instructions,
    caution=(
        "The embedded engine is here for trying things out, it is not built for speed: fetching more results with their "
        "vectors costs it more than it costs a Qdrant server."
    ),
)
