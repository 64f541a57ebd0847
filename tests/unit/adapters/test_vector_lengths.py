from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.vector_lengths import UNIT_TOLERANCE, measured

NAN = [float("nan")] * 2


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([[0.6, 0.8], [1, 0], NAN], (1, False)),
        ([[0.6004, 0.8], [1, 0]], (0, False)),
        ([[0.6, 0.8], [0, 0]], (0, False)),
        ([[0.6, 0.8], [1, 0.1]], (0, True)),
        ([[3e38, 3e38]], (0, True)),
        ([[0, 0], NAN], (1, False)),
        ([NAN, NAN], (2, False)),
    ],
)
def test_length_matters_unless_every_vector_is_of_unit_length(
    rows: list[list[float]], expected: tuple[int, bool]
) -> None:
    assert measured(np.array(rows, dtype=np.float32)) == expected


@pytest.mark.parametrize("count", [0, 3])
def test_rows_without_columns_are_all_unusable(count: int) -> None:
    assert measured(np.zeros((count, 0), dtype=np.float32)) == (count, False)


@given(st.lists(st.sampled_from([0.0, 0.5, 0.9995, 1.0, 1.0005, 1.5, np.nan]), max_size=8))
def test_one_vector_off_the_unit_sphere_is_enough(lengths: list[float]) -> None:
    """Zero and unusable rows say nothing; any other row off by more than the tolerance does."""
    rows = np.array([[length, 0.0] if length == length else NAN for length in lengths], dtype=np.float32)  # noqa: PLR0124 - NaN is what differs from itself
    unusable, magnitude = measured(rows.reshape(len(lengths), 2))
    assert unusable == sum(np.isnan(lengths).tolist()) if lengths else unusable == 0
    assert magnitude == any(length > 0 and abs(length - 1.0) > UNIT_TOLERANCE for length in lengths)
