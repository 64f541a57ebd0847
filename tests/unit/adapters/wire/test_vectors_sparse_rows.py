from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.wire import vectors
from vecsieve.adapters.wire.vectors import SparseRow, union_matrix


def sparse(indices: list[int], values: list[float]) -> SparseRow:
    return np.array(indices, dtype=np.int64), np.array(values, dtype=np.float64)


@given(
    rows=st.lists(
        st.one_of(
            st.none(), st.dictionaries(st.integers(0, 2**32 - 1), st.floats(-4, 4, width=32), min_size=1, max_size=6)
        ),
        max_size=6,
    )
)
def test_products_of_the_rows_are_those_of_the_sparse_vectors(rows: list[dict[int, float] | None]) -> None:
    """The rows that are there have the inner products of the vectors they stand for; the others are NaN."""
    found = union_matrix([None if row is None else sparse(list(row), list(row.values())) for row in rows])
    assert len(found) == len(rows)
    there = [row for row in rows if row is not None]
    matrix = found[[row is not None for row in rows]].astype(np.float64)
    expected = [[sum(a[key] * b[key] for key in a.keys() & b.keys()) for b in there] for a in there]
    np.testing.assert_allclose(matrix @ matrix.T, np.reshape(expected, (len(there), len(there))), atol=1e-4)
    assert np.isnan(found[[row is None for row in rows]]).all()


def test_values_beyond_float32_make_their_row_nan() -> None:
    found = union_matrix([sparse([1], [1e300]), sparse([2, 1], [1.0, 2.0])])
    assert np.isnan(found[0]).all()
    assert found[1].tolist() == [2.0, 1.0]


def test_vectors_too_wide_for_a_matrix_have_no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    width = vectors.MAX_SPARSE_WIDTH
    assert union_matrix([sparse(list(range(width)), [1.0] * width)]).shape == (1, width)
    assert union_matrix([sparse(list(range(width + 1)), [1.0] * (width + 1))]).shape == (1, 0)
    monkeypatch.setattr(vectors, "MAX_SPARSE_CELLS", 3)
    assert union_matrix([sparse([1, 2], [1.0, 1.0])] * 2).shape == (2, 0)
