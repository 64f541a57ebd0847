"""Collections with and without planted copies, loaded by the official client, and the requests asked of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from qdrant_client import QdrantClient, models

DIMENSION = 48
BASES = 60
COPIES = 4
METRICS = {
    "cosine": models.Distance.COSINE,
    "dot": models.Distance.DOT,
    "euclid": models.Distance.EUCLID,
    "manhattan": models.Distance.MANHATTAN,
}
RNG_SEED = 20
Payload = dict[str, Any]
TEXT = (
    'a paragraph that holds "vector":[1,2] and a \\ backslash, é and 漢字, so that cutting bytes must know what it cuts'
)


@dataclass(frozen=True, slots=True)
class PlantedRequest:
    """One request: where it goes and what it says. ``window`` is offset + limit of its first search."""

    name: str
    path: str
    body: bytes
    top_k: int
    results: str  # where the ranked list lies: "points" (query) or "" (legacy)


def bases() -> np.ndarray:
    """(BASES, DIMENSION) unit vectors, no two near each other."""
    rng = np.random.default_rng(RNG_SEED)
    raw = rng.normal(size=(BASES, DIMENSION))
    raw /= np.linalg.norm(raw, axis=1, keepdims=True)
    return raw.astype(np.float32)


def family(identifier: int) -> int:
    """Which base a planted point is a copy of."""
    return identifier // 10


def fill(client: QdrantClient, name: str, rows: Sequence[tuple[int, Sequence[float], Payload]], **more: Any) -> None:
    """A collection of these ids, vectors and payloads, compared by cosine."""
    points = [models.PointStruct(id=number, vector=list(vector), payload=payload) for number, vector, payload in rows]
    client.create_collection(name, models.VectorParams(size=len(rows[0][1]), distance=models.Distance.COSINE), **more)
    client.upsert(name, points, wait=True)


def plant(
    client: QdrantClient,
    name: str,
    payload: Callable[[int, int], Payload],
    *,
    families: int,
    copies: int,
    noise: float,
    **more: Any,
) -> None:
    """``copies`` of the first bases, with a payload for each family and copy; ids as in ``load``."""
    rng = np.random.default_rng(RNG_SEED)
    rows = [
        (family * 10 + copy, (vector + rng.normal(scale=noise, size=DIMENSION)).tolist(), payload(family, copy))
        for family, vector in enumerate(bases()[:families])
        for copy in range(copies)
    ]
    fill(client, name, rows, **more)


def load(client: QdrantClient, *, copies: int, prefix: str, metrics: Iterable[str] = METRICS) -> None:
    """One collection for each of ``metrics``; ``copies`` of every base with small noise; ids are base * 10 + copy.

    A family has one text, and vectors so near that they merge where a client hides the text.
    """
    rng = np.random.default_rng(RNG_SEED + copies)
    for name in metrics:
        distance = METRICS[name]
        collection = f"{prefix}_{name}"
        client.create_collection(
            collection, vectors_config=models.VectorParams(size=DIMENSION, distance=distance), timeout=30
        )
        points = [
            models.PointStruct(
                id=base * 10 + copy,
                vector=(vector + rng.normal(scale=0.001, size=DIMENSION)).tolist(),
                payload={
                    "text": f"{TEXT} {base}",
                    "copy": copy,
                    "vector": {"vector": [0.5, base]},
                    "big": 2**60 + base,
                },
            )
            for base, vector in enumerate(bases())
            for copy in range(copies)
        ]
        client.upsert(collection, points, wait=True)


def load_named(client: QdrantClient, collection: str) -> None:
    """Named dense, sparse and multi vectors; every seventh point lacks the dense one; three copies of each base."""
    client.create_collection(
        collection,
        vectors_config={
            "dense": models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE),
            "small": models.VectorParams(size=8, distance=models.Distance.EUCLID),
            "late": models.VectorParams(
                size=8,
                distance=models.Distance.COSINE,
                multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
            ),
        },
        sparse_vectors_config={"sparse": models.SparseVectorParams()},
        timeout=30,
    )
    rng = np.random.default_rng(RNG_SEED)
    points = []
    for base, vector in enumerate(bases()[:30]):
        small, late = rng.normal(size=8), rng.normal(size=(3, 8))
        indices = sorted(rng.choice(500, size=12, replace=False).tolist())
        values = rng.uniform(0.1, 1.0, size=12).tolist()
        for copy in range(3):
            number = base * 10 + copy
            vectors: dict[str, object] = {
                "small": (small + rng.normal(scale=0.001, size=8)).tolist(),
                "late": (late + rng.normal(scale=0.001, size=(3, 8))).tolist(),
                "sparse": models.SparseVector(indices=indices, values=values),
            }
            if number % 7:
                vectors["dense"] = (vector + rng.normal(scale=0.002, size=DIMENSION)).tolist()
            points.append(models.PointStruct(id=number, vector=vectors, payload={"text": f"t{base}"}))  # type: ignore[arg-type]  # - the union is wider than a dict literal's type
    client.upsert(collection, points, wait=True)


def query_vector(seed: int, dimension: int = DIMENSION) -> list[float]:
    """A query near several bases."""
    rng = np.random.default_rng(seed)
    mixed = bases()[:, :dimension][rng.choice(BASES, size=5, replace=False)].sum(axis=0)
    return [float(value) for value in mixed + rng.normal(scale=0.05, size=dimension)]


def requests(collection: str, *, top_k: int = 8) -> Iterator[PlantedRequest]:
    """Every interceptable call of a single unnamed vector, as the official clients word them."""
    vector = query_vector(1)
    selectors: list[dict[str, object]] = [
        {},
        {"with_vector": False},
        {"with_vector": True},
        {"with_vector": [""]},
        {"with_vector": []},
        {"with_payload": True},
        {"with_payload": ["text"], "with_vector": True},
        {"with_payload": {"exclude": ["text"]}},
    ]
    path = f"/collections/{collection}/points"
    for number, selector in enumerate(selectors):
        yield _planted_request(
            f"query-{number}", f"{path}/query", {"query": {"nearest": vector}, "limit": top_k, **selector}, top_k
        )
        yield _planted_request(f"bare-{number}", f"{path}/query", {"query": vector, "limit": top_k, **selector}, top_k)
        yield _planted_request(
            f"search-{number}", f"{path}/search", {"vector": vector, "limit": top_k, **selector}, top_k, ""
        )
    yield _planted_request("default-limit", f"{path}/query", {"query": {"nearest": vector}}, 10)
    yield _planted_request("by-id", f"{path}/query", {"query": {"nearest": 20}, "limit": top_k}, top_k)
    yield _planted_request("top", f"{path}/search", {"vector": vector, "top": top_k, "with_vectors": True}, top_k, "")
    yield _planted_request(
        "threshold", f"{path}/search", {"vector": vector, "limit": top_k, "params": {"exact": True}}, top_k, ""
    )
    yield _planted_request(
        "recommend", f"{path}/recommend", {"positive": [20, 30], "negative": [40], "limit": top_k}, top_k, ""
    )
    best = {"recommend": {"positive": [20], "strategy": "best_score"}}
    yield _planted_request("best-score", f"{path}/query", {"query": best, "limit": top_k, "with_payload": True}, top_k)
    discover = {"target": 20, "context": [{"positive": 30, "negative": 40}], "limit": top_k}
    yield _planted_request("discover", f"{path}/discover", discover, top_k, "")
    fusion = {
        "prefetch": [{"query": vector, "limit": 40}, {"query": query_vector(2), "limit": 40}],
        "query": {"nearest": vector},
        "limit": top_k,
    }
    yield _planted_request("prefetch", f"{path}/query", fusion, top_k)


def batches(collection: str, *, top_k: int = 8) -> Iterator[PlantedRequest]:
    """Batches of mixed items: some ours, some not."""
    path = f"/collections/{collection}/points"
    first, second = query_vector(3), query_vector(4)
    searches = [
        {"query": {"nearest": first}, "limit": top_k},
        {"query": {"nearest": second}, "limit": 1},
        {"query": {"nearest": second}, "with_vector": True, "with_payload": True},
        {"limit": 3},
        {"query": {"nearest": first, "mmr": {"diversity": 0.5}}, "limit": 3},
    ]
    yield _planted_request("query-batch", f"{path}/query/batch", {"searches": searches}, top_k, "batch")
    legacy = [{"vector": first, "limit": top_k}, {"vector": second, "limit": 3, "with_vector": True}]
    yield _planted_request("search-batch", f"{path}/search/batch", {"searches": legacy}, top_k, "batch-bare")
    recommend = [{"positive": [10], "limit": top_k}, {"positive": [20, 30], "limit": 3}]
    yield _planted_request("recommend-batch", f"{path}/recommend/batch", {"searches": recommend}, top_k, "batch-bare")


def named_requests(collection: str, *, top_k: int = 6) -> Iterator[PlantedRequest]:
    """Named, sparse and multi vectors, with every shape of selector."""
    path = f"/collections/{collection}/points/query"
    late = [query_vector(5, 8), query_vector(6, 8)]
    sparse = {"indices": [1, 50, 100, 200, 300, 400, 450], "values": [0.5, 0.2, 0.9, 0.1, 0.3, 0.7, 0.4]}
    queries: dict[str, dict[str, object]] = {
        "dense": {"query": {"nearest": query_vector(7)}, "using": "dense"},
        "small": {"query": {"nearest": query_vector(8, 8)}, "using": "small"},
        "late": {"query": {"nearest": late}, "using": "late"},
        "sparse": {"query": {"nearest": sparse}, "using": "sparse"},
        "by-id": {"query": {"nearest": 11}, "using": "dense"},
    }
    for name, query in queries.items():
        for label, selector in (
            ("none", {}),
            ("true", {"with_vector": True}),
            ("other", {"with_vector": ["small"]}),
            ("two", {"with_vector": ["small", "dense"], "with_payload": True}),
            ("empty", {"with_vector": []}),
        ):
            yield _planted_request(f"{name}-{label}", path, {**query, "limit": top_k, **selector}, top_k)


def _planted_request(
    name: str, path: str, body: dict[str, object], top_k: int, results: str = "points"
) -> PlantedRequest:
    return PlantedRequest(name, path, json.dumps(body, separators=(",", ":")).encode(), top_k, results)
