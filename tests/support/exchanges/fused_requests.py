"""Fusions of several searches, drawn from numbers: the same number makes the same request. And the collections that they are asked of.

``clean`` has no copies; in ``copied`` every point has copies, near it in all its vectors.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from qdrant_client import QdrantClient, models

Json = dict[str, Any]
Rng = np.random.Generator

SIZES = {"text": 24, "image": 16}
WIDTH, FILLED = 80, 6  # of the sparse vector `words`: indices, and how many a point has
POINTS, COPIES = 160, 4
KINDS = ("red", "green", "blue")
EVERYTHING = 1000  # more than there are


def load(client: QdrantClient, name: str, *, copies: int) -> None:
    """``POINTS`` points in families of so many copies, whose ids are in no order."""
    rng = np.random.default_rng([7, copies])
    client.create_collection(
        name,
        vectors_config={
            "text": models.VectorParams(size=SIZES["text"], distance=models.Distance.COSINE),
            "image": models.VectorParams(size=SIZES["image"], distance=models.Distance.EUCLID),
        },
        sparse_vectors_config={"words": models.SparseVectorParams()},
        timeout=30,
    )
    points = []
    for family in range(POINTS // copies):
        vectors = {vector: rng.normal(size=size) for vector, size in SIZES.items()}
        indices, values = _words(rng)
        for copy in range(copies):
            noisy = {vector: (row + 1e-3 * rng.normal(size=len(row))).tolist() for vector, row in vectors.items()}
            weights = (values + 1e-3 * rng.random(FILLED)).tolist()
            identity = int(rng.permutation(100)[0]) + 100 * (family * copies + copy)
            payload = {"kind": KINDS[family % 3], "chunk_size": int(rng.integers(10)), "family": family}
            noisy["words"] = models.SparseVector(indices=indices, values=weights)
            points.append(models.PointStruct(id=identity, vector=noisy, payload=payload))
    client.upsert(name, points, wait=True)


def _words(rng: Rng) -> tuple[list[int], np.ndarray]:
    return sorted(rng.permutation(WIDTH)[:FILLED].tolist()), rng.random(FILLED) + 0.1


def request(number: int) -> Json:
    """A ``query`` over one to four prefetches."""
    rng = np.random.default_rng([number, 3])
    body: Json = {"prefetch": [_prefetch(rng) for _ in range(int(rng.integers(1, 5)))], "query": _fusion(rng)}
    if "rrf" in body["query"] and rng.random() < 0.6:
        body["query"]["rrf"]["weights"] = [_weight(rng) for _ in body["prefetch"]]
    if len(body["prefetch"]) == 1 and rng.random() < 0.5:
        body["prefetch"] = body["prefetch"][0]
    if rng.random() < 0.9:
        body["limit"] = int(rng.integers(2, 31))
    if rng.random() < 0.3:
        body["offset"] = int(rng.integers(0, 12))
    if rng.random() < 0.25:
        body["filter"] = _filter(rng)
    if rng.random() < 0.2:
        body["score_threshold"] = float(rng.choice([0.05, 0.2, 0.5]))
    if rng.random() < 0.7:
        body["with_payload"] = [True, ["kind"], {"exclude": ["family"]}, False][int(rng.integers(4))]
    if rng.random() < 0.4:
        body[str(rng.choice(["with_vector", "with_vectors"]))] = [["text"], ["words"], [], False][int(rng.integers(4))]
    return body


def _weight(rng: Rng) -> float:
    return float(rng.choice([0.0, 0.3, 0.5, 1.0, 2.5, 3.0, 7.0]))


def _fusion(rng: Rng) -> Json:
    kinds: list[Json] = [
        {"fusion": "rrf"},
        {"fusion": "dbsf"},
        {"rrf": {"k": int(rng.choice([1, 2, 7, 60]))}},
        {"rrf": {}},
    ]
    return kinds[int(rng.integers(4))]


def _prefetch(rng: Rng) -> Json:
    using = str(rng.choice(["text", "image", "words"]))
    if using == "words":
        indices, values = _words(rng)
        query: Any = {"indices": indices, "values": values.tolist()}
    else:
        query = rng.normal(size=SIZES[using]).tolist()
    body: Json = {"query": query if rng.random() < 0.5 else {"nearest": query}, "using": using}
    if rng.random() < 0.8:
        body["limit"] = int(rng.integers(1, 41))
    if rng.random() < 0.2:
        body["filter"] = _filter(rng)
    if rng.random() < 0.2:
        body["params"] = {"exact": True}
    if rng.random() < 0.15:
        body["score_threshold"] = 3.5 if using == "image" else 0.1
    return body


def _filter(rng: Rng) -> Json:
    kind = {"key": "kind", "match": {"value": str(rng.choice(KINDS))}}
    size = {"key": "chunk_size", "range": {"gte": int(rng.integers(6))}}
    return [{"must": [size]}, {"must_not": [kind]}, {"must": [size], "must_not": [kind]}, {"should": [kind, size]}][
        int(rng.integers(4))
    ]


def without_page(body: Json) -> Json:
    """The same request for everything that it ranks."""
    return {name: value for name, value in body.items() if name != "offset"} | {"limit": EVERYTHING}


def is_one_order(ranked: list[tuple[Any, float]], plain: list[tuple[Any, float]], everything: dict[Any, float]) -> bool:
    """Whether an answer could have been the database's, which draws the order of equal scores anew at each call: the same scores in the
    same places, each of a point that has it. Pairs of id and score; ``everything``: of all that the request ranks.
    """
    return (
        [score for _, score in ranked] == [score for _, score in plain]
        and all(everything[identity] == score for identity, score in ranked)
        and len({identity for identity, _ in ranked}) == len(ranked)
    )
