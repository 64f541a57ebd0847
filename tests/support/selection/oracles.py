"""Plain implementations, slow and obvious, that the kernels of proxy/selection are compared with."""

from __future__ import annotations

import math
from collections.abc import Sequence

Matrix = Sequence[Sequence[float]]


def cosine_distances(vectors: Matrix) -> list[list[float]]:
    """1 - cosine of every pair, in Python floats; all rows usable."""
    return [[_cosine_distance(a, b) for b in vectors] for a in vectors]


def length_distances(vectors: Matrix) -> list[list[float]]:
    """|x - y|^2 / (|x|^2 + |y|^2) of every pair, from the definition."""
    return [
        [
            math.fsum((x - y) ** 2 for x, y in zip(a, b, strict=True))
            / (math.fsum(x * x for x in a) + math.fsum(y * y for y in b))
            for b in vectors
        ]
        for a in vectors
    ]


def _cosine_distance(a: Sequence[float], b: Sequence[float]) -> float:
    product = math.fsum(x * y for x, y in zip(a, b, strict=True))
    return 1.0 - product / math.sqrt(math.fsum(x * x for x in a) * math.fsum(y * y for y in b))


def median(distance: Matrix, usable: Sequence[bool]) -> float:
    """Median of the pairs among the first usable candidates, by sorting; 0.0 without a pair."""
    chosen = [i for i, good in enumerate(usable) if good][:50]
    values = sorted(distance[i][j] for i in chosen for j in chosen if i < j)
    if not values:
        return 0.0
    middle = len(values) // 2
    return values[middle] if len(values) % 2 else (values[middle - 1] + values[middle]) / 2.0


def apart(distance: Matrix, left: Sequence[int], right: Sequence[int], linkage: str) -> float:
    """The distance of two clusters under a linkage, from its definition."""
    pairs = [distance[i][j] for i in left for j in right]
    return {"single": min(pairs), "complete": max(pairs), "average": sum(pairs) / len(pairs)}[linkage]


def agglomerate(distance: Matrix, cut: float, linkage: str) -> list[int]:
    """Labels by best rank: merge the nearest two clusters while they are at most ``cut`` apart; ties by rank. O(n^4)."""
    clusters = [[i] for i in range(len(distance))]
    while len(clusters) > 1:
        nearest, a, b = min(
            (apart(distance, clusters[a], clusters[b], linkage), a, b)
            for a in range(len(clusters))
            for b in range(a + 1, len(clusters))
        )
        if nearest > cut:
            break
        clusters[a] = sorted(clusters[a] + clusters.pop(b))
        clusters.sort()
    return [next(label for label, members in enumerate(clusters) if i in members) for i in range(len(distance))]


def lead(distance: Matrix, cuts: Sequence[float]) -> list[int]:
    """Heads: each in rank order follows the nearest leader within the cut whose cluster holds nobody infinitely far away."""
    heads: list[int] = []
    for i in range(len(distance)):
        leaders = [j for j in range(i) if heads[j] == j]
        open_to = [
            leader
            for leader in leaders
            if distance[i][leader] <= cuts[len(leaders)]
            and all(math.isfinite(distance[i][j]) for j in range(i) if heads[j] == leader)
        ]
        heads.append(min(open_to, key=lambda leader: (distance[i][leader], leader), default=i))
    return heads


def mmr(relevance: Sequence[float], similarity: Matrix, weight: float, count: int) -> list[int]:
    """Greedy MMR over explicit similarities, scoring every candidate against every pick each time."""
    picks: list[int] = []
    while len(picks) < min(count, len(relevance)):
        best, best_value = -1, -math.inf
        for i in range(len(relevance)):
            if i in picks:
                continue
            penalty = max((similarity[i][j] for j in picks), default=0.0)
            value = weight * relevance[i] - (1.0 - weight) * penalty
            if value > best_value:
                best, best_value = i, value
        picks.append(best)
    return picks


def page_list(distance: Matrix, cut: float, linkage: str) -> list[int]:
    """The deduplicated list of all candidates, every block complete or last, for one cut."""
    emitted: list[int] = []
    for start in range(0, len(distance), 50):
        members = range(start, min(start + 50, len(distance)))
        fresh = [i for i in members if all(distance[i][j] > cut for j in emitted)]
        among = [[distance[i][j] for j in fresh] for i in fresh]
        if linkage == "leader":
            emitted += [i for i, head in zip(fresh, lead(among, [cut] * len(fresh)), strict=True) if fresh[head] == i]
            continue
        labels = agglomerate(among, cut, linkage)
        emitted += [fresh[labels.index(label)] for label in range(max(labels, default=-1) + 1)]
    return emitted


def volume(quality: Sequence[float], similarity: Matrix, chosen: Sequence[int]) -> float:
    """The determinant of q_i S_ij q_j over ``chosen``."""
    return _determinant([[quality[i] * similarity[i][j] * quality[j] for j in chosen] for i in chosen])


def _determinant(rows: list[list[float]]) -> float:
    """By expansion along the first row."""
    if not rows:
        return 1.0
    return math.fsum(
        (-1) ** column * value * _determinant([row[:column] + row[column + 1 :] for row in rows[1:]])
        for column, value in enumerate(rows[0])
    )
