"""Several ranked lists merged into one, by ranks (RRF) or by scores (DBSF, weighted sums), as databases merge them.

The sums are those of the databases bit for bit, so their order of operations is fixed, and each step is rounded to the width of
the database's numbers. ``tests/prove`` and ``tests/clients`` compare them with the engines.

- ``rrf``: Qdrant's reciprocal rank fusion. A point at rank r (from 0) of a list of weight w adds ``1 / ((r + 1) / w + k - 1)``;
  without weights this is ``1 / (r + k)``. A weight of 0 adds nothing, but its points are in the result.
- ``dbsf``: Qdrant's distribution-based score fusion. Each list's scores are moved so that its mean - 3 sigma is 0 and its
  mean + 3 sigma is 1. One score alone, and equal scores, become 0.5.

Databases leave the order of equal scores open: Qdrant's comes out of a hash map and changes between calls (qdrant#6814). Here
equal scores keep the order in which their points were first met, list by list.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import repeat
from typing import TypeVar

import numpy as np
import numpy.typing as npt

K = TypeVar("K", bound=Hashable)
Ranked = list[tuple[K, np.float32]]
"""Keys with their fused scores, the best first."""

RRF_K = 2  # Qdrant's default; the paper's, and Milvus', is 60
_ONE, _THREE, _HALF = np.float32(1), np.float32(3), np.float32(0.5)


def rrf(lists: Sequence[Sequence[K]], *, k: int = RRF_K, weights: Sequence[float] | None = None) -> Ranked[K]:
    """Merge lists of keys, the best first. Raises ValueError for a weight that is no finite number from 0, or for another number
    of weights than lists.
    """
    if weights is not None and len(weights) != len(lists):
        raise ValueError(f"weights: saw {len(weights)}, wanted one for each of the {len(lists)} lists")
    if any(not (math.isfinite(weight) and weight >= 0) for weight in weights or ()):
        raise ValueError("weights: wanted finite numbers from 0")
    each = repeat(1.0) if weights is None else weights
    parts = (zip(keys, _of_ranks(len(keys), k, weight), strict=True) for keys, weight in zip(lists, each, strict=False))
    return _summed(parts)


def dbsf(lists: Sequence[tuple[Sequence[K], Sequence[float]]]) -> Ranked[K]:
    """Merge lists of keys and scores. Raises ValueError for a score that is not finite."""
    return _summed(zip(keys, normalized(scores), strict=True) for keys, scores in lists)


def normalized(scores: Sequence[float]) -> npt.NDArray[np.float32]:
    """(n,) one list's scores for ``dbsf``. Raises ValueError for one that is not finite."""
    values = np.asarray(scores, dtype=np.float32)
    if not np.isfinite(values).all():
        raise ValueError("scores: wanted finite numbers")
    if len(values) < 2:
        return np.full(len(values), _HALF, np.float32)
    with np.errstate(all="ignore"):  # the database's numbers overflow alike
        mean, variance = _mean_and_variance(values)
        deviation = np.sqrt(variance)
        least, most = mean - _THREE * deviation, mean + _THREE * deviation
        if least == most:
            return np.full(len(values), _HALF, np.float32)
        shares: npt.NDArray[np.float32] = (values - least) / (most - least)
        return shares


def _of_ranks(count: int, k: int, weight: float) -> npt.NDArray[np.float32]:
    """(count,) what each rank of a list adds."""
    share = np.float32(weight)
    if share <= 0:
        return np.zeros(count, np.float32)
    with np.errstate(all="ignore"):
        return _ONE / (np.arange(1, count + 1, dtype=np.float32) / share + np.float32(k) - _ONE)


def _mean_and_variance(values: npt.NDArray[np.float32]) -> tuple[np.float32, np.float32]:
    """Welford's, in one pass: the rounding depends on the order."""
    mean = total = np.float32(0)
    for place, value in enumerate(values, start=1):
        before = value - mean
        mean += before / np.float32(place)
        total += before * (value - mean)
    return mean, total / (np.float32(len(values)) - _ONE)


def _summed(lists: Iterable[Iterable[tuple[K, np.float32]]]) -> Ranked[K]:
    sums: dict[K, np.float32] = {}
    for key, part in _chained(lists):
        before = sums.get(key)
        sums[key] = part if before is None else before + part
    return sorted(sums.items(), key=lambda pair: -pair[1])


def _chained(lists: Iterable[Iterable[tuple[K, np.float32]]]) -> Iterator[tuple[K, np.float32]]:
    for each in lists:
        yield from each


def joined(distinct: Ranked[K], whole: Ranked[K]) -> Ranked[K]:
    """``distinct``, the fusion of lists without copies, and behind it what only ``whole``, the fusion of the same lists with their copies,
    has: such a point keeps its score there, unless the last distinct one's is lower.
    """
    if len(distinct) == len(whole):
        return distinct
    known = {key for key, _ in distinct}
    least = distinct[-1][1] if distinct else np.float32(math.inf)
    return distinct + [(key, min(score, least)) for key, score in whole if key not in known]
