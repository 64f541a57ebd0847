"""The ways to a page: a database directly, through VecSieve under a preset, and MMR in the client over a plain pool.

Databases and clients are real: Chroma's server and client, Qdrant's engine and client.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np

from support.chroma.server import connected
from support.process.real_servers import program, search_node
from support.process.stack import serve
from support.qdrant.embedded import start_embedded_process
from vecsieve.proxy.demo.backends import chroma_server

from .corpora import Chunk, Matrix

PRESETS: Mapping[str, Mapping[str, object] | None] = {
    "default": None,
    "exact": {"preset": "exact"},
    "meaning": {"preset": "meaning"},
    "classical": {"preset": "classical"},
    "exchange": {"policy": {"overlap": "exchange"}},
}
"""The rule of each way through VecSieve; None: as it comes."""
LAMBDAS = (0.5, 0.7, 0.9)
POOL = 50  # candidates of MMR, as of VecSieve's first pool
COLLECTION = "chunks"
_WRITTEN = 256  # points in one request
# Every search is improved, or the figures would be those of plain pages: a test has one client, and no database to protect.
_PATIENT = {"VECSIEVE_LIMITS_OWN_READS_SHARE": "1.0"}


class Page(NamedTuple):
    """``rows``: numbers of chunks, best first. ``seconds``: as the client waited."""

    rows: list[int]
    seconds: float


class Client(Protocol):
    """The official client of a database at one URL."""

    def load(self, chunks: Sequence[Chunk], vectors: Matrix) -> None: ...

    def search(self, query: Matrix, k: int) -> list[int]: ...

    def diverse(self, query: Matrix, k: int, balance: float) -> list[int] | None:
        """By the database's own MMR over POOL candidates; None if it has none."""
        ...


class Qdrant:
    def __init__(self, url: str) -> None:
        from qdrant_client import QdrantClient

        self._client = QdrantClient(url=url, prefer_grpc=False, check_compatibility=False, timeout=60)

    def load(self, chunks: Sequence[Chunk], vectors: Matrix) -> None:
        from qdrant_client import models

        size = models.VectorParams(size=vectors.shape[1], distance=models.Distance.COSINE)
        self._client.create_collection(COLLECTION, vectors_config=size)
        for at in range(0, len(chunks), _WRITTEN):
            points = [
                models.PointStruct(
                    id=row,
                    vector=vectors[row].tolist(),
                    payload={"text": chunks[row].text, "source": chunks[row].corpus},
                )
                for row in range(at, min(at + _WRITTEN, len(chunks)))
            ]
            self._client.upsert(COLLECTION, points, wait=True)

    def search(self, query: Matrix, k: int) -> list[int]:
        response = self._client.query_points(COLLECTION, query=query.tolist(), limit=k, with_payload=True)
        return [int(point.id) for point in response.points]

    def diverse(self, query: Matrix, k: int, balance: float) -> list[int] | None:
        from qdrant_client import models

        mmr = models.Mmr(diversity=1 - balance, candidates_limit=POOL)
        nearest = models.NearestQuery(nearest=query.tolist(), mmr=mmr)
        response = self._client.query_points(COLLECTION, query=nearest, limit=k, with_payload=True)
        return [int(point.id) for point in response.points]


class Chroma:
    def __init__(self, url: str) -> None:
        self._client = connected(url)

    def load(self, chunks: Sequence[Chunk], vectors: Matrix) -> None:
        made = self._client.create_collection(COLLECTION, configuration={"hnsw": {"space": "cosine"}})
        for at in range(0, len(chunks), _WRITTEN):
            rows = range(at, min(at + _WRITTEN, len(chunks)))
            made.add(
                ids=[str(row) for row in rows],
                embeddings=vectors[at : at + len(rows)],
                documents=[chunks[row].text for row in rows],
                metadatas=[{"source": chunks[row].corpus} for row in rows],
            )

    def search(self, query: Matrix, k: int) -> list[int]:
        collection = self._client.get_collection(COLLECTION)
        answer = collection.query(
            query_embeddings=query[None], n_results=k, include=["documents", "metadatas", "distances"]
        )
        return [int(identifier) for identifier in answer["ids"][0]]

    def diverse(self, _query: Matrix, _k: int, _balance: float) -> list[int] | None:
        return None


def _rows(answer: Any) -> list[int]:
    return [int(hit["_id"]) for hit in answer["hits"]["hits"]]


def _lines(chunks: Sequence[Chunk], vectors: Matrix) -> Iterator[list[Mapping[str, object]]]:
    """The bodies of `_bulk`."""
    for at in range(0, len(chunks), _WRITTEN):
        lines: list[Mapping[str, object]] = []
        for row in range(at, min(at + _WRITTEN, len(chunks))):
            lines += [{"index": {"_id": str(row)}}, {"v": vectors[row].tolist(), "text": chunks[row].text}]
        yield lines


class OpenSearch:
    def __init__(self, url: str) -> None:
        from opensearchpy import OpenSearch as Node

        self._client = Node(url, timeout=60)

    def load(self, chunks: Sequence[Chunk], vectors: Matrix) -> None:
        method = {"name": "hnsw", "engine": "lucene", "space_type": "cosinesimil"}
        vector = {"type": "knn_vector", "dimension": vectors.shape[1], "method": method}
        body = {
            "settings": {"index": {"knn": True, "number_of_shards": 1, "number_of_replicas": 0}},
            "mappings": {"properties": {"v": vector, "text": {"type": "text", "index": False}}},
        }
        # MMR is off by default: its two processors are generated by the system.
        factories = {"cluster.search.enabled_system_generated_factories": ["*"]}
        self._client.cluster.put_settings(body={"persistent": factories})
        self._client.indices.create(index=COLLECTION, body=body)
        for lines in _lines(chunks, vectors):
            self._client.bulk(index=COLLECTION, body=lines)
        self._client.indices.refresh(index=COLLECTION)

    def search(self, query: Matrix, k: int) -> list[int]:
        return _rows(self._client.search(index=COLLECTION, body=self._body(query, k)))

    def diverse(self, query: Matrix, k: int, balance: float) -> list[int] | None:
        mmr = {"candidates": POOL, "diversity": 1 - balance, "vector_field_path": "v"}
        body = {**self._body(query, k), "ext": {"mmr": mmr}}
        return _rows(self._client.search(index=COLLECTION, body=body))

    def _body(self, query: Matrix, k: int) -> dict[str, object]:
        nearest = {"knn": {"v": {"vector": query.tolist(), "k": k}}}
        return {"size": k, "query": nearest, "_source": ["text"]}


class Elasticsearch:
    def __init__(self, url: str) -> None:
        from elasticsearch import Elasticsearch as Node

        self._client = Node(url, request_timeout=60)

    def load(self, chunks: Sequence[Chunk], vectors: Matrix) -> None:
        vector = {"type": "dense_vector", "dims": vectors.shape[1], "similarity": "cosine"}
        self._client.indices.create(
            index=COLLECTION,
            mappings={"properties": {"v": vector, "text": {"type": "text", "index": False}}},
            settings={"number_of_shards": 1, "number_of_replicas": 0},
        )
        for lines in _lines(chunks, vectors):
            self._client.bulk(index=COLLECTION, operations=lines)
        self._client.indices.refresh(index=COLLECTION)

    def search(self, query: Matrix, k: int) -> list[int]:
        nearest = {"field": "v", "query_vector": query.tolist(), "k": k, "num_candidates": 2 * POOL}
        return _rows(self._client.search(index=COLLECTION, knn=nearest, size=k, source={"includes": ["text"]}))

    def diverse(self, query: Matrix, k: int, balance: float) -> list[int] | None:
        vector = query.tolist()
        nearest = {"knn": {"field": "v", "query_vector": vector, "k": POOL, "num_candidates": 2 * POOL}}
        mmr = {
            "type": "mmr",
            "field": "v",
            "lambda": balance,
            "query_vector": vector,
            "rank_window_size": POOL,
            "size": k,
            "retriever": nearest,
        }
        return _rows(
            self._client.search(index=COLLECTION, retriever={"diversify": mmr}, size=k, source={"includes": ["text"]})
        )


Database = Qdrant | Chroma | OpenSearch | Elasticsearch
KINDS: Mapping[str, type[Database]] = {
    "qdrant": Qdrant, "chroma": Chroma, "opensearch": OpenSearch, "elasticsearch": Elasticsearch
}  # fmt: skip


@contextmanager
def engine(name: str) -> Iterator[tuple[str, type[Database]]]:
    """A database of its own: its URL and its client. Raises ValueError for a node that no variable names."""
    if name == "qdrant":
        running = start_embedded_process()
    elif name == "chroma":
        running = chroma_server()
    elif (path := program(f"{name.upper()}_SERVER")) is None:
        raise ValueError(f"{name.upper()}_SERVER names no program")
    else:
        running = search_node(path)
    with running as url:
        yield url, KINDS[name]


@contextmanager
def proxies(name: str, url: str) -> Iterator[Mapping[str, str]]:
    """The URL of one proxy for each preset."""
    with ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        urls: dict[str, str] = {}
        for preset, rule in PRESETS.items():
            settings = Path(folder) / f"{preset}.json"
            rules = [] if rule is None else [{"collection": "*", **rule}]
            settings.write_text(json.dumps({"rules": rules}), encoding="utf-8")
            arguments = ("--backend", name, "--mode", "on", "--config", str(settings))
            urls[preset], _ = stack.enter_context(serve(url, *arguments, environment=_PATIENT))
        yield urls


def timed(client: Client, query: Matrix, k: int) -> Page:
    since = time.perf_counter()
    rows = client.search(query, k)
    return Page(rows, time.perf_counter() - since)


def mmr(query: Matrix, pool: Sequence[int], vectors: Matrix, *, k: int, balance: float) -> list[int]:
    """Maximal marginal relevance (Carbonell and Goldstein 1998) over a pool, cosine; ``balance``: λ, 1 for relevance alone."""
    rows = vectors[list(pool)]
    relevance, alike = rows @ query, rows @ rows.T
    chosen: list[int] = []
    nearest = np.full(len(pool), -np.inf, np.float32)
    while len(chosen) < min(k, len(pool)):
        gain = balance * relevance - (1 - balance) * np.where(np.isfinite(nearest), nearest, 0.0)
        gain[chosen] = -np.inf
        best = int(np.argmax(gain))
        chosen.append(best)
        nearest = np.maximum(nearest, alike[best])
    return [pool[place] for place in chosen]


def opened(kind: type[Database], url: str) -> Any:
    """A client of that kind."""
    return kind(url)
