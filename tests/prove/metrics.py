"""Q: points without copies under every metric, wherever the origin lies; places by latitude and longitude"""

from __future__ import annotations

import asyncio

import numpy as np
from laws.test_metrics import DEFAULT, METRICS, plain_pages, pool_of

from prove.finding import Finding, Scale
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import Metric

DIMENSIONS = (2, 3, 4, 8, 16, 32, 64, 128, 384, 1536)
MEANS = (0.0, 10.0, 1000.0)
PLACES = 200


async def prove(scale: Scale) -> list[Finding]:
    """Every metric and mean over all dimensions, the metric known and unknown; then places."""
    pages = scale.engine_requests // 100
    findings = [
        await asyncio.to_thread(_cloud, metric, mean, pages, known=known)
        for metric in METRICS
        for mean in MEANS
        for known in (True, False)
    ]
    return [*findings, await asyncio.to_thread(_places)]


def _cloud(metric: Metric, mean: float, pages: int, *, known: bool) -> Finding:
    total = pages * len(DIMENSIONS)
    unchanged = sum(
        plain_pages(metric, mean, dimensions, "normal", known=known, pages=pages) for dimensions in DIMENSIONS
    )
    return Finding(
        "Q-metrics",
        f"{metric.value}, mean {mean:g}, {DIMENSIONS[0]} to {DIMENSIONS[-1]} dimensions, metric {'known' if known else 'unknown'}",
        "98 % of plain pages unchanged",
        f"{unchanged} of {total}",
        unchanged >= 0.98 * total,
    )


def _places() -> Finding:
    random = np.random.default_rng(0)
    kept = 0
    for _ in range(PLACES):
        centre = random.uniform((-60.0, -180.0), (60.0, 180.0))
        places = (centre + random.uniform(-0.5, 0.5, (400, 2))).astype(np.float32)
        chosen = select(pool_of(Metric.EUCLIDEAN, centre, places), top_k=8, policy=DEFAULT)
        kept += chosen.keep.tolist() == list(range(8))
    return Finding(
        "Q-metrics",
        "the nearest 8 of 400 places by latitude and longitude",
        "98 % of pages unchanged",
        f"{kept} of {PLACES}",
        kept >= 0.98 * PLACES,
    )
