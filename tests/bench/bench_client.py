"""One qdrant-client through the proxy, against the same job done in the client: over-fetch with vectors, then MMR in numpy."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
from qdrant_client import QdrantClient
from qdrant_client.http.models import ScoredPoint

from bench.contenders import database, unselected, vecsieve
from bench.report import Section, judged
from bench.rounds import Effort, interleave
from bench.stats import percentile, ratios, spread
from bench.store import store
from bench.traffic import TOP_K, WARM_QUESTIONS, searches, warm

FETCH_K = 50
MMR_LAMBDA = 0.7
TARGETS = {("new", 384): 1.4, ("new", 1536): 4.0, ("same", 384): 2.0}
NAMES = {"new": "points known, pools new", "same": "pools known"}

Search = Callable[[str, list[float]], Sequence[ScoredPoint]]


def bench_client(dimensions: int, effort: Effort) -> Iterator[Section]:
    """Searches per second of one client's own loop, every question in turn."""
    stored = store(dimensions)
    questions = stored.questions[:WARM_QUESTIONS].tolist()
    with database(dimensions) as upstream, vecsieve(upstream) as proxy:
        through, direct = connect(proxy.port), connect(upstream.port)
        for kind in NAMES:
            warm(searches(stored, kind), proxy.port, upstream)
        before, rows = proxy.improved(), []
        for kind, name in NAMES.items():
            loops: dict[str, Search] = {
                "through": partial(search, through),
                "MMR": partial(search_and_select, direct),
                "plain": partial(search, direct),
            }
            sides = {
                side: partial(loop, made, f"{kind}{dimensions}", itertools.cycle(questions), seconds=effort.seconds)
                for side, made in loops.items()
            }
            taken = interleave(sides, rounds=effort.rounds)
            rates = {side: [measured[0] for measured in rounds] for side, rounds in taken.items()}
            ratio = spread(ratios(rates["through"], rates["MMR"]))
            rows.append(
                {
                    "": name,
                    "per s": spread(rates["through"]),
                    "p50 ms": spread([sample[1] for sample in taken["through"]]).median,
                    "MMR in the client per s": spread(rates["MMR"]),
                    "its p50 ms": spread([sample[1] for sample in taken["MMR"]]).median,
                    "plain top 10 per s": spread(rates["plain"]).median,
                    "ratio to MMR": ratio,
                    "wanted": judged(ratio.median, TARGETS.get((kind, dimensions))),
                }
            )
        unselected(before, proxy.improved())
        through.close()
        direct.close()
    yield Section(f"client-{dimensions}", f"one qdrant-client, 10 of 50 × {dimensions}", rows)


def connect(port: int) -> QdrantClient:
    """The official client, without its version check: the database has no version."""
    return QdrantClient(url=f"http://127.0.0.1:{port}", check_compatibility=False, prefer_grpc=False)


def search_and_select(client: QdrantClient, collection: str, query: list[float]) -> list[ScoredPoint]:
    """Fetch 50 with vectors, keep 10 by MMR."""
    answer = client.query_points(collection, query=query, limit=FETCH_K, with_vectors=True, with_payload=True)
    points = answer.points
    vectors = np.array([point.vector for point in points], dtype=np.float32)
    scores = np.array([point.score for point in points], dtype=np.float32)
    return [points[row] for row in mmr(vectors, scores, top_k=TOP_K)]


def search(client: QdrantClient, collection: str, query: list[float]) -> list[ScoredPoint]:
    """The same wish, when the proxy sees to it; without the proxy, the plain search."""
    return list(client.query_points(collection, query=query, limit=TOP_K, with_payload=True).points)


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


def loop(call: Search, collection: str, questions: Iterator[list[float]], *, seconds: float) -> tuple[float, float]:
    """One call after the other for so long: calls per second, and the median of a call in milliseconds."""
    taken: list[float] = []
    start = time.perf_counter()
    while time.perf_counter() - start < seconds:
        begun = time.perf_counter()
        call(collection, next(questions))
        taken.append((time.perf_counter() - begun) * 1e3)
    return len(taken) / (time.perf_counter() - start), percentile(taken, 0.5)
