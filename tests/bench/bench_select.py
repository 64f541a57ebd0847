"""select() alone, against the one product it cannot do without: its own Gram matrix."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from bench.figures import Aim, Figure, Sides, figure
from bench.passages import passages
from bench.pools import sample
from bench.report import Section, section
from bench.rounds import Effort, interleave
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.policy import Policies
from vecsieve.proxy.selection.policy import Policy
from vecsieve.proxy.selection.reading.text import text_of
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import Candidates, Metadata, Metric

SHAPES = ((50, 384), (50, 1536), (200, 1536), (1000, 1536))
TOP_K = 10
POOLS = 6  # rotated, so that no pool stays in the first-level cache from call to call
ROUND_SECONDS = 0.03
AIMS = {(50, 1536): (Aim("ours", "<=", 0.4), Aim("ratio", "<=", 4.0))}
WITH_TEXTS = {384: (Aim("ours", "<=", 0.25),), 1536: (Aim("ours", "<=", 0.35),)}


def bench_select(effort: Effort) -> Iterator[Section]:
    """One figure per pool shape, in milliseconds a call."""
    policy, figures = default_policy(), []
    for n, dimensions in SHAPES:
        samples = [sample(n, dimensions, seed=seed) for seed in range(POOLS)]
        candidates = [
            Candidates(scores=one.scores, vectors=one.vectors, metric=Metric.COSINE, query=one.query) for one in samples
        ]
        figures.append(_measured(f"{n} × {dimensions}", candidates, policy, effort, AIMS.get((n, dimensions), ())))
    figures += [_with_texts(dimensions, policy, effort) for dimensions in WITH_TEXTS]
    yield section("select", "select() alone", figures)


def _with_texts(dimensions: int, policy: Policy, effort: Effort) -> Figure:
    """Fifty chunks that overlap with the next one, all of them seen before."""
    samples = [sample(50, dimensions, seed=seed) for seed in range(POOLS)]
    candidates = [
        Candidates(
            scores=one.scores,
            vectors=one.vectors,
            metric=Metric.COSINE,
            query=one.query,
            metadata=Metadata(texts=tuple(map(text_of, passages(50, seed=seed)))),
        )
        for seed, one in enumerate(samples)
    ]
    return _measured(f"50 × {dimensions} with texts", candidates, policy, effort, WITH_TEXTS[dimensions])


def _measured(
    name: str, candidates: Sequence[Candidates], policy: Policy, effort: Effort, aims: tuple[Aim, ...]
) -> Figure:
    sides = {
        "select": per_call([partial(_select, candidate, policy) for candidate in candidates]),
        "gram": per_call([partial(gram, candidate.vectors) for candidate in candidates]),
    }
    interleave(sides, rounds=1)  # warm: first calls load libraries and touch memory
    times = interleave(sides, rounds=effort.kernel_rounds)
    return figure(name, Sides(times["select"], times["gram"]), unit="ms", against="its Gram matrix", aims=aims)


def gram(vectors: npt.NDArray[np.float32]) -> npt.NDArray[np.float32]:
    """Cosines of all pairs, (n, n) float32: normalise, multiply."""
    unit = vectors / np.sqrt(np.einsum("ij,ij->i", vectors, vectors))[:, None]
    product: npt.NDArray[np.float32] = unit @ unit.T
    return product


def per_call(
    calls: Sequence[Callable[[], object]], *, clock: Callable[[], float] = time.perf_counter
) -> Callable[[], float]:
    """A round: call each in turn for some 30 ms; the mean milliseconds of one call."""

    def run() -> float:
        done, start = 0, clock()
        while (elapsed := clock() - start) < ROUND_SECONDS:
            for call in calls:
                call()
            done += len(calls)
        return elapsed / done * 1e3

    return run


def default_policy() -> Policy:
    """What a user gets who sets nothing."""
    return Policies(Settings()).resolve("qdrant", "bench").selection


def _select(candidates: Candidates, policy: Policy) -> object:
    return select(candidates, top_k=TOP_K, policy=policy)
