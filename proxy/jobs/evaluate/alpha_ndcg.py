"""Alpha-nDCG (Clarke et al., SIGIR 2008): every further item on a subtopic earns half of the one before."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np

from vecsieve.proxy.jobs.evaluate.metrics import discounts

ALPHA = 0.5

Topics = tuple[str, ...]


class AlphaNdcg:
    """One query's measure. What it is divided by costs more than the list itself, and is the same for every policy."""

    __slots__ = ("_ideal", "_top_k", "_topics")

    def __init__(self, subtopics: Mapping[str, frozenset[int]], top_k: int) -> None:
        self._top_k = top_k
        self._topics = _by_row(subtopics)
        self._ideal = _discounted(_best_gains(Counter(self._topics.values()), top_k))

    def of(self, rows: Sequence[int]) -> float:
        """The measure of a list, best first."""
        earned = _Earned()
        gains = [earned.take(self._topics.get(row, ())) for row in rows[: self._top_k]]
        return _discounted(gains) / self._ideal


class _Earned:
    """How often each subtopic has been met."""

    __slots__ = ("_times",)

    def __init__(self) -> None:
        self._times: Counter[str] = Counter()

    def gain(self, topics: Topics) -> float:
        return sum((1.0 - ALPHA) ** self._times[topic] for topic in topics)

    def take(self, topics: Topics) -> float:
        gain = self.gain(topics)
        self._times.update(topics)
        return gain


def _by_row(subtopics: Mapping[str, frozenset[int]]) -> dict[int, Topics]:
    topics: dict[int, Topics] = {}
    for name, satisfying in subtopics.items():
        for row in satisfying:
            topics[row] = (*topics.get(row, ()), name)
    return topics


def _best_gains(left: Counter[Topics], top_k: int) -> list[float]:
    """The gains of the ideal list, chosen greedily: the exact one is NP-hard. Items with equal subtopics are one kind;
    of kinds that gain the same the largest goes first, so that the order of the corpus does not matter.
    """
    earned = _Earned()
    gains: list[float] = []
    while left and len(gains) < top_k:
        kind = max(left, key=lambda topics: (earned.gain(topics), topics))
        gains.append(earned.take(kind))
        left[kind] -= 1
        if not left[kind]:
            del left[kind]
    return gains


def _discounted(gains: Sequence[float]) -> float:
    return float(np.dot(gains, discounts(len(gains)))) if gains else 0.0
