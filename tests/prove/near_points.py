"""Points of a random cloud that lie nearer to one another than chance explains."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

CHANCE_PAIRS = 0.05  # expected of a page without copies: what the selection itself is allowed


def improbable(rows: npt.NDArray[np.float64]) -> set[int]:
    """Rows of a normal cloud with another one so near, by distance or by direction, that less than ``CHANCE_PAIRS`` are expected."""
    directions = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-30)
    dimensions, above = rows.shape[1], np.triu_indices(len(rows), 1)
    unlikely: set[int] = set()
    if len(rows) < 2:
        return unlikely
    for points, freedom in ((rows, dimensions), (directions, max(dimensions - 1, 1))):
        distances = np.linalg.norm(points[:, None] - points[None], axis=2)
        np.fill_diagonal(distances, np.inf)
        median = float(np.median(distances[above]))
        nearest = distances.min(axis=1) / max(median, 1e-30)
        unlikely |= {
            place
            for place, ratio in enumerate(nearest.tolist())
            if len(above[0]) * share(ratio, freedom) < CHANCE_PAIRS
        }
    return unlikely


def share(ratio: float, freedom: int) -> float:
    """Of all pairs of a normal cloud, those within ``ratio`` times the median distance: chi-squared, by its series."""
    if ratio >= 1:
        return 1.0
    half = ratio * ratio * freedom * (1 - 2 / (9 * freedom)) ** 3 / 2  # the median as Wilson and Hilferty have it
    term = math.exp(freedom / 2 * math.log(half) - half - math.lgamma(freedom / 2 + 1)) if half > 0 else 0.0
    total, step = term, 1
    while term > total * 1e-9:
        term *= half / (freedom / 2 + step)
        total, step = total + term, step + 1
    return total
