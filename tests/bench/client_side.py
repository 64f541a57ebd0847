"""What a team does without the proxy: over-fetch with vectors through the official client, then MMR in numpy."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from qdrant_client import QdrantClient
from qdrant_client.http.models import ScoredPoint

FETCH_K = 50
MMR_LAMBDA = 0.7


def connect(port: int) -> QdrantClient:
    """The official client, without its version check: the upstream has no version."""
    return QdrantClient(url=f"http://127.0.0.1:{port}", check_compatibility=False, prefer_grpc=False)


def search_and_select(client: QdrantClient, collection: str, query: list[float], *, top_k: int) -> list[ScoredPoint]:
    """Fetch 50 with vectors, keep ``top_k`` by MMR."""
    answer = client.query_points(collection, query=query, limit=FETCH_K, with_vectors=True, with_payload=True)
    points = answer.points
    vectors = np.array([point.vector for point in points], dtype=np.float32)
    scores = np.array([point.score for point in points], dtype=np.float32)
    return [points[row] for row in mmr(vectors, scores, top_k=top_k)]


def search(client: QdrantClient, collection: str, query: list[float], *, top_k: int) -> list[ScoredPoint]:
    """The same wish, when the proxy sees to it."""
    return list(client.query_points(collection, query=query, limit=top_k, with_payload=True).points)


def mmr(vectors: npt.NDArray[np.float32], scores: npt.NDArray[np.float32], *, top_k: int) -> list[int]:
    """Greedy maximal marginal relevance on raw cosine: rows in the order they were picked."""
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    similarity = unit @ unit.T
    nearest = np.zeros(len(scores), dtype=np.float32)
    left = np.ones(len(scores), dtype=bool)
    picks: list[int] = []
    while len(picks) < min(top_k, len(scores)):
        value = np.where(left, MMR_LAMBDA * scores - (1.0 - MMR_LAMBDA) * nearest, -np.inf)
        pick = int(np.argmax(value))
        picks.append(pick)
        left[pick] = False
        nearest = np.maximum(nearest, similarity[pick])
    return picks


def loop(call: Callable[[], Sequence[ScoredPoint]], *, seconds: float) -> Callable[[], float]:
    """A round: one call after the other for ``seconds``; calls per second."""

    def run() -> float:
        done, start = 0, time.perf_counter()
        while (elapsed := time.perf_counter() - start) < seconds:
            call()
            done += 1
        return done / elapsed

    return run
