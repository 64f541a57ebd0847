"""Exact cosine neighbours, ties broken by row number.

Products are added up in double and rounded to float32 at the end: a float32 product's last bit depends on how many rows are
multiplied at once, so that two copies would tie in one run and not in another. A database, too, gives copies one score.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.jobs.evaluate.labelled import LabelledSet
from vecsieve.proxy.selection.values import Indices

BLOCK = 256  # queries at once: 256 × 100,000 items are 100 MB


@dataclass(frozen=True, slots=True, kw_only=True)
class Neighbours:
    """One query's ranking, made as deep as it is asked for. ``similarities``: (items,) float32, to every item."""

    similarities: npt.NDArray[np.float32]
    candidates: Indices | None

    def first(self, count: int) -> Indices:
        """The rows of the ``count`` nearest (fewer, when there are no more), best first."""
        rows = np.arange(len(self.similarities), dtype=np.intp) if self.candidates is None else self.candidates
        values = self.similarities[rows]
        if count < len(rows):
            # All that tie with the last one stay until the sort decides by row.
            near = values >= np.partition(values, len(rows) - count)[len(rows) - count] if count else values > np.inf
            rows, values = rows[near], values[near]
        return rows[np.lexsort((rows, -values))][:count]


def neighbours(labelled: LabelledSet, *, every: int) -> Iterator[tuple[int, Neighbours]]:
    """The number and the ranking of every ``every``-th query."""
    numbers = range(0, len(labelled.queries), every)
    items = labelled.vectors.T.astype(np.float64)
    for start in range(0, len(numbers), BLOCK):
        block = numbers[start : start + BLOCK]
        products = labelled.query_vectors[block.start : block.stop : every].astype(np.float64) @ items
        for number, row in zip(block, products.astype(np.float32), strict=True):
            yield number, Neighbours(similarities=row, candidates=labelled.queries[number].candidates)
