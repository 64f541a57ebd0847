"""Intervals over queries: each set's queries are drawn again with replacement, and everything is worked out anew.

The draws depend on the seed and the set's name alone, so every policy meets the same ones, and a set's interval does not
depend on which other sets were evaluated.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from vecsieve.proxy.jobs.evaluate.columns import Columns
from vecsieve.proxy.selection.values import FloatVector

COVERED = 0.95
CELLS = 4_000_000  # of one block of draws: 32 MB, however many queries there are


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure and its 95 % interval; no interval where nothing was drawn."""

    value: float
    low: float | None
    high: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Resampled:
    """One set under one policy: the sample itself first, then each draw. All (1 + draws,) float64.

    ``retention`` is NaN where no drawn query's plain answer had a relevant item.
    """

    redundancy: FloatVector
    plain_redundancy: FloatVector
    retention: FloatVector
    gain: FloatVector


def resampled(name: str, own: Columns, plain: Columns, *, draws: int, seed: int) -> Resampled:
    """The figures that have intervals, for the sample and ``draws`` times anew."""
    has_answer = ~np.isnan(own.retained)
    measures = np.stack(
        (
            own.redundancy,
            plain.redundancy,
            np.where(has_answer, own.retained, 0.0),
            has_answer.astype(np.float64),
            own.recall - plain.recall,
        )
    )
    sums = np.concatenate([weights @ measures.T for weights in _weights(name, len(has_answer), draws=draws, seed=seed)])
    with np.errstate(invalid="ignore"):  # 0 / 0: the NaN that is wanted
        retention = sums[:, 2] / sums[:, 3]
    queries = len(has_answer)
    return Resampled(
        redundancy=sums[:, 0] / queries,
        plain_redundancy=sums[:, 1] / queries,
        retention=retention,
        gain=sums[:, 4] / queries,
    )


def estimate(values: FloatVector) -> Estimate:
    """The first value, and between what the middle 95 % of the others lie."""
    drawn = values[1:]
    drawn = drawn[~np.isnan(drawn)]
    if not len(drawn):
        return Estimate(value=float(values[0]), low=None, high=None)
    low, high = np.quantile(drawn, [(1.0 - COVERED) / 2.0, (1.0 + COVERED) / 2.0]).tolist()
    return Estimate(value=float(values[0]), low=low, high=high)


def _weights(name: str, queries: int, *, draws: int, seed: int) -> Iterator[FloatVector]:
    """(…, queries) float64 in blocks: how often each query is in the sample (once), and in each draw."""
    yield np.ones((1, queries))
    generator = np.random.default_rng([seed, *name.encode()])
    block = max(1, CELLS // queries)
    for start in range(0, draws, block):
        size = min(block, draws - start)
        yield generator.multinomial(queries, np.full(queries, 1.0 / queries), size=size).astype(np.float64)
