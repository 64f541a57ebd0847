"""Exact nearest neighbours. Equal scores keep the order the records were first written in."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from servers.pinecone.schema import SPARSE, Dense
from servers.pinecone.shapes import Reals
from servers.pinecone.store import Namespace, Record, Sparse


class Scored(NamedTuple):
    """A record and its score, a float32 widened to a Python float."""

    record: Record
    score: float


Passing = Callable[[Record], bool]


def nearest(
    namespace: Namespace, field: Dense, probe: Reals, passing: Passing, *, sparse: Sparse | None = None
) -> list[Scored]:
    """Every passing record with this dense field, the closest first. A sparse probe adds its dot product (hybrid).

    Lower is closer under `euclidean`, whose score is the squared distance.
    """
    records, matrix = namespace.stacked(field.name)
    if not records:
        return []
    scores = _dense_scores(field.metric, matrix, probe.astype(np.float64))
    if sparse is not None:
        scores += [sparse_dot(sparse, record.sparse.get(SPARSE)) for record in records]
    found = [
        Scored(record, float(np.float32(score)))
        for record, score in zip(records, scores, strict=True)
        if passing(record)
    ]
    return ordered(found, is_distance=field.metric == "euclidean")


def nearest_sparse(namespace: Namespace, name: str, probe: Sparse, passing: Passing) -> list[Scored]:
    """Every passing record with this sparse field, the highest dot product first.

    A record that shares no index with the probe is found with a score of 0: the official client's own tests search for
    words that no record has, and wait for hits.
    """
    having = [(record, record.sparse[name]) for record in namespace.records.values() if name in record.sparse]
    return ordered(
        [Scored(record, float(np.float32(sparse_dot(probe, own)))) for record, own in having if passing(record)]
    )


def ordered(found: list[Scored], *, is_distance: bool = False) -> list[Scored]:
    """Best first; the sort is stable."""
    return sorted(found, key=lambda item: item.score if is_distance else -item.score)


def sparse_dot(one: Sparse, other: Sparse | None) -> float:
    """The dot product of two sparse vectors; 0 when one is missing."""
    if other is None:
        return 0.0
    weights: dict[int, float] = dict(zip(one.indices, one.values.tolist(), strict=True))
    pairs: list[tuple[int, float]] = list(zip(other.indices, other.values.tolist(), strict=True))
    return sum(weights.get(index, 0.0) * value for index, value in pairs)


def _dense_scores(metric: str, matrix: NDArray[np.float64], probe: NDArray[np.float64]) -> NDArray[np.float64]:
    """Shape (records,), from (records, dimension) and (dimension,)."""
    if metric == "euclidean":
        return np.asarray(((matrix - probe) ** 2).sum(axis=1))
    dots = np.asarray(matrix @ probe)
    if metric == "dotproduct":
        return dots
    norms = np.linalg.norm(matrix, axis=1) * np.linalg.norm(probe)
    return np.asarray(np.divide(dots, norms, out=np.zeros_like(dots), where=norms > 0))
