from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.wire import vectors
from vecsieve.adapters.wire.vectors import SparseRow, matrix, row, union_matrix, whole_floats

FLOATS = st.lists(st.floats(width=32), max_size=8)


def packed(values: list[float]) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def test_what_holds_no_floats_is_refused() -> None:
    assert whole_floats(b"12345678") == b"12345678"
    with pytest.raises(ValueError, match="5 bytes holds no whole floats"):
        whole_floats(b"12345")


def test_a_row_is_the_numbers_of_its_bytes() -> None:
    assert row(packed([1.5, -2.0])).tolist() == [1.5, -2.0]
    assert row(packed([1.5])).dtype == np.float32
    assert row(b"").shape == (0,)


def test_rows_that_cannot_be_used_are_nan_and_the_others_stay() -> None:
    result = matrix([b"", packed([1.0, 2.0]), None, packed([1.0]), packed([3.0, np.nan]), packed([0.0, 4.0])])
    assert result.dtype == np.float32
    np.testing.assert_array_equal(result, [[np.nan] * 2, [1, 2], [np.nan] * 2, [np.nan] * 2, [np.nan] * 2, [0, 4]])


@pytest.mark.parametrize("rows", [[], [None], [b"", None, b""]])
def test_no_vector_at_all_is_a_matrix_without_columns(rows: list[bytes | None]) -> None:
    assert matrix(rows).shape == (len(rows), 0)


@given(st.lists(st.one_of(st.none(), FLOATS.map(packed)), max_size=6))
def test_every_row_is_its_own_numbers_or_nan(rows: list[bytes | None]) -> None:
    """A row is finite exactly where its numbers are, and as many as the first one's; then it is those numbers."""
    result = matrix(rows)
    width = next((len(entry) // 4 for entry in rows if entry), 0)
    assert result.shape == (len(rows), width)
    for values, encoded in zip(result, rows, strict=True):
        expected = np.zeros(0, np.float32) if encoded is None else row(encoded)
        usable = len(expected) == width and bool(np.isfinite(expected).all())
        np.testing.assert_array_equal(values, expected if usable else np.full(width, np.nan))


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
    result = union_matrix([None if row is None else sparse(list(row), list(row.values())) for row in rows])
    assert len(result) == len(rows)
    there = [row for row in rows if row is not None]
    matrix = result[[row is not None for row in rows]].astype(np.float64)
    expected = [[sum(a[key] * b[key] for key in a.keys() & b.keys()) for b in there] for a in there]
    np.testing.assert_allclose(matrix @ matrix.T, np.reshape(expected, (len(there), len(there))), atol=1e-4)
    assert np.isnan(result[[row is None for row in rows]]).all()


def test_values_beyond_float32_make_their_row_nan() -> None:
    result = union_matrix([sparse([1], [1e300]), sparse([2, 1], [1.0, 2.0])])
    assert np.isnan(result[0]).all()
    assert result[1].tolist() == [2.0, 1.0]


def test_vectors_too_wide_for_a_matrix_have_no_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    width = vectors.MAX_SPARSE_WIDTH
    assert union_matrix([sparse(list(range(width)), [1.0] * width)]).shape == (1, width)
    assert union_matrix([sparse(list(range(width + 1)), [1.0] * (width + 1))]).shape == (1, 0)
    monkeypatch.setattr(vectors, "MAX_SPARSE_CELLS", 3)
    assert union_matrix([sparse([1, 2], [1.0, 1.0])] * 2).shape == (2, 0)
