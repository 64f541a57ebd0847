"""Several ranked lists merged into one, by ranks (RRF) or by scores (DBSF, weighted sums), as databases merge them.

The sums equal those of the databases bit for bit, so the order of operations is fixed, and each step is rounded to the width of the
database's numbers. ``tests/prove`` and ``tests/clients`` compare them with the engines.

- ``rrf``: Qdrant's reciprocal rank fusion. A point at rank r (from 0) of a list of weight w adds ``1 / ((r + 1) / w + k - 1)``;
  without weights this is ``1 / (r + k)``. A weight of 0 adds nothing, but its points are in the result.
  Milvus counts ranks from 1: the same formula with k + 1, for whole k.
- ``dbsf``: Qdrant's distribution-based score fusion. Each list's scores are moved so that its mean - 3 sigma is 0 and its
  mean + 3 sigma is 1. One score alone, and equal scores, become 0.5.
- ``weighted``: Milvus' sum of scores times weights. Normed scores are from 0 to 1, larger for nearer points, by the metric of
  each list. Without norming they are unchanged: if all lists are distances, the smallest sum is first; distances beside similarities are
  still inverted.

Qdrant's servers and Milvus' sum in 32 bits, Milvus Lite sums in 64 and rounds the sums.

Milvus ranks equal scores by their ids. Other databases leave the order of equal scores open: Qdrant's comes out of a hash map and changes
between calls (qdrant#6814). Here equal scores keep the order of first occurrence, list by list, unless ``by`` orders them.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

K = TypeVar("K", bound=Hashable)
Ranked = list[tuple[K, np.float32]]
"""Keys with their fused scores, best first."""
By = Callable[[Any], Any]
"""The place of a key among keys of equal scores."""

RRF_K = 2  # Qdrant's default; the paper's, and Milvus', is 60
_ONE, _THREE, _HALF = np.float32(1), np.float32(3), np.float32(0.5)


def rrf(
    lists: Sequence[Sequence[K]],
    *,
    k: int = RRF_K,
    weights: Sequence[float] | None = None,
    is_double: bool = False,
    by: By | None = None,
) -> Ranked[K]:
    """Merge lists of keys, best first. ``is_double``: sums in 64 bits. Raises ValueError for a weight that is negative or not finite, or if
    the numbers of weights and lists differ.
    """
    _check_weights(weights, len(lists))
    factors, width = repeat(1.0) if weights is None else weights, _width(is_double)
    parts = (
        zip(keys, _of_ranks(len(keys), k, weight, width), strict=True)
        for keys, weight in zip(lists, factors, strict=False)
    )
    return _summed(parts, by=by)


def _check_weights(weights: Sequence[float] | None, count: int) -> None:
    if weights is not None and len(weights) != count:
        raise ValueError(f"weights: saw {len(weights)}, wanted one for each of the {count} lists")
    if any(not (math.isfinite(weight) and weight >= 0) for weight in weights or ()):
        raise ValueError("weights: wanted finite numbers from 0")


def dbsf(lists: Sequence[tuple[Sequence[K], Sequence[float]]]) -> Ranked[K]:
    """Merge lists of keys and scores. Raises ValueError for a score that is not finite."""
    return _summed(zip(keys, normalized(scores), strict=True) for keys, scores in lists)


_SIMILARITIES = frozenset({"COSINE", "IP", "BM25"})  # for these, higher is nearer; other metrics are distances


def weighted(
    lists: Sequence[tuple[Sequence[K], Sequence[float]]],
    *,
    weights: Sequence[float],
    metrics: Sequence[str],
    is_normed: bool,
    is_double: bool = False,
    by: By | None = None,
) -> Ranked[K]:
    """Merge lists of keys and scores. ``metrics``: of each list. Raises ValueError for a score that is not finite, and as ``rrf``."""
    _check_weights(weights, len(lists))
    if not all(math.isfinite(score) for _, scores in lists for score in scores):
        raise ValueError("scores: wanted finite numbers")
    distances, width = [metric not in _SIMILARITIES for metric in metrics], _width(is_double)
    is_rising = all(distances) and not is_normed
    turns = any(distances) and not is_rising
    parts: list[Iterator[tuple[K, Any]]] = []
    for (keys, scores), weight, metric, is_distance in zip(lists, weights, metrics, distances, strict=True):
        is_changed = is_normed or (turns and is_distance)
        values = [_normed(score, metric, width) if is_changed else width(score) for score in scores]
        parts.append(zip(keys, [width(weight) * value for value in values], strict=True))
    return _summed(parts, by=by, is_rising=is_rising)


def _width(is_double: bool) -> type[np.floating[Any]]:
    return np.float64 if is_double else np.float32


def _normed(score: float, metric: str, width: type[np.floating[Any]]) -> np.floating[Any]:
    """From 0 to 1, larger for nearer points. Angles are computed in 64 bits."""
    if metric == "COSINE":
        return (width(1) + width(score)) * width(0.5)
    angle, half_turn = width(math.atan(score)), width(math.pi)
    if metric == "IP":
        return width(0.5) + angle / half_turn
    if metric == "BM25":
        return width(2) * angle / half_turn
    return width(1) - width(2) * angle / half_turn


def normalized(scores: Sequence[float]) -> npt.NDArray[np.float32]:
    """(n,) one list's scores for ``dbsf``. Raises ValueError for one that is not finite."""
    values = np.asarray(scores, dtype=np.float32)
    if not np.isfinite(values).all():
        raise ValueError("scores: wanted finite numbers")
    if len(values) < 2:
        return np.full(len(values), _HALF, np.float32)
    with np.errstate(all="ignore"):  # overflows like the database's numbers
        mean, variance = _mean_and_variance(values)
        deviation = np.sqrt(variance)
        least, most = mean - _THREE * deviation, mean + _THREE * deviation
        if least == most:
            return np.full(len(values), _HALF, np.float32)
        shares: npt.NDArray[np.float32] = (values - least) / (most - least)
        return shares


def _of_ranks(count: int, k: int, weight: float, width: type[np.floating[Any]]) -> npt.NDArray[np.floating[Any]]:
    """(count,) the summand of each rank of a list."""
    share = width(weight)
    if share <= 0:
        return np.zeros(count, width)
    with np.errstate(all="ignore"):
        parts: npt.NDArray[np.floating[Any]] = width(1) / (
            np.arange(1, count + 1, dtype=width) / share + width(k) - width(1)
        )
        return parts


def _mean_and_variance(values: npt.NDArray[np.float32]) -> tuple[np.float32, np.float32]:
    """Welford's algorithm in one pass, because rounding depends on the order."""
    mean = total = np.float32(0)
    for place, value in enumerate(values, start=1):
        before = value - mean
        mean += before / np.float32(place)
        total += before * (value - mean)
    return mean, total / (np.float32(len(values)) - _ONE)


def _summed(lists: Iterable[Iterable[tuple[K, Any]]], *, by: By | None = None, is_rising: bool = False) -> Ranked[K]:
    """``is_rising``: the smallest sum is the best."""
    sums: dict[K, Any] = {}
    for key, part in chain.from_iterable(lists):
        before = sums.get(key)
        sums[key] = part if before is None else before + part
    pairs = sorted(sums.items(), key=lambda pair: by(pair[0])) if by is not None else list(sums.items())
    pairs.sort(key=lambda pair: pair[1] if is_rising else -pair[1])
    return [(key, np.float32(score)) for key, score in pairs]


def joined(distinct: Ranked[K], whole: Ranked[K]) -> Ranked[K]:
    """``distinct``, the fusion of lists without copies, followed by the points that are only in ``whole``, the fusion of the same lists
    with their copies: such a point keeps its score there, unless the last distinct one's is worse.
    """
    if len(distinct) == len(whole):
        return distinct
    known = {key for key, _ in distinct}
    worst = max if whole[0][1] < whole[-1][1] else min
    last = distinct[-1][1] if distinct else whole[0][1]
    return distinct + [(key, worst(score, last)) for key, score in whole if key not in known]
