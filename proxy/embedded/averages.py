"""The `average_vector` strategy of recommend, in float32 as the server computes it.

One vector to search with: mean(positives), or 2 × mean(positives) − mean(negatives). Several-row vectors are not averaged: rows
of the positives are followed by the negated rows of the negatives (`recommendations.rs`, 1.19).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from vecsieve.proxy.embedded.engine import edge
from vecsieve.proxy.embedded.errors import bad_input

_ZERO = np.float32(0)
_MIXED = "Positive and negative vectors should be of the same type, either all dense or all sparse or all multi"


def average(positives: list[Any], negatives: list[Any]) -> Any:
    """The engine's vector for these examples, themselves the engine's vectors."""
    if not positives:
        raise bad_input("Positive vectors should not be empty with `average` strategy")
    kind = _kind(positives)
    if negatives and _kind(negatives) != kind:
        raise bad_input(_MIXED)
    if kind == "multi":
        return [row for rows in positives for row in rows] + [[-x for x in row] for rows in negatives for row in rows]
    if kind == "sparse":
        return _sparse(positives, negatives)
    return _dense(positives, negatives)


def _kind(vectors: list[Any]) -> str:
    kinds = {
        "sparse" if not isinstance(vector, list) else "multi" if vector and isinstance(vector[0], list) else "dense"
        for vector in vectors
    }
    if len(kinds) > 1:
        raise bad_input("Can't average vectors with different types")
    return kinds.pop()


def _dense(positives: list[list[float]], negatives: list[list[float]]) -> list[float]:
    longest = max([*positives, *negatives], key=len)
    if any(len(vector) != len(longest) for vector in [*positives, *negatives]):
        return longest  # one of them has a wrong dimension: searching with it gets the engine's own refusal
    mean = np.asarray(positives, np.float32).sum(axis=0) / np.float32(len(positives))
    if negatives:
        mean = mean + mean - np.asarray(negatives, np.float32).sum(axis=0) / np.float32(len(negatives))
    result: list[float] = mean.tolist()
    return result


def _sparse(positives: list[Any], negatives: list[Any]) -> Any:
    mean = _sparse_mean(positives)
    if negatives:
        away = _sparse_mean(negatives)
        mean = {i: mean.get(i, _ZERO) + mean.get(i, _ZERO) - away.get(i, _ZERO) for i in {*mean, *away}}
    indices = sorted(mean)
    return edge().SparseVector(indices, [float(mean[index]) for index in indices])


def _sparse_mean(vectors: list[Any]) -> Mapping[int, np.float32]:
    sums: dict[int, np.float32] = {}
    for vector in vectors:
        for index, value in zip(vector.indices, vector.values, strict=True):
            sums[index] = sums.get(index, _ZERO) + np.float32(value)
    return {index: total / np.float32(len(vectors)) for index, total in sums.items()}
