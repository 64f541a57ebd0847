"""A pool that contradicts itself is refused where it is made, in words that say what was seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from vecsieve.proxy.selection.values import Candidates, Metric

SCORES = np.zeros(2)
ROWS = np.ones((2, 3), dtype=np.float32)


def test_a_pool_knows_its_size() -> None:
    assert Candidates(scores=SCORES, vectors=ROWS, metric=Metric.COSINE).size == 2


def test_a_missing_row_is_refused() -> None:
    with pytest.raises(ValueError, match="vectors: saw 1 rows, wanted one for each of the 2 scores"):
        Candidates(scores=SCORES, vectors=ROWS[:1], metric=Metric.COSINE)
    with pytest.raises(ValueError, match="tenants: saw 3 rows"):
        Candidates(scores=SCORES, vectors=ROWS, metric=Metric.COSINE, tenants=np.zeros(3, dtype=np.int64))
    with pytest.raises(ValueError, match="text_lengths: saw 0 rows"):
        Candidates(scores=SCORES, vectors=ROWS, metric=Metric.COSINE, text_lengths=np.zeros(0, dtype=np.int64))


def test_vectors_of_another_shape_or_type_are_refused() -> None:
    wide: Any = ROWS.astype(np.float64)
    with pytest.raises(ValueError, match=r"saw float64 \(2, 3\), wanted float32 \(n, d\)"):
        Candidates(scores=SCORES, vectors=wide, metric=Metric.COSINE)
    with pytest.raises(ValueError, match=r"saw float32 \(2,\)"):
        Candidates(scores=SCORES, vectors=ROWS[:, 0], metric=Metric.COSINE)
