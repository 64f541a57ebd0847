from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.wire.json_vectors import numbers, sparse_matrix


def sparse(indices: list[int], values: list[float]) -> bytes:
    return f'{{"indices":{indices},"values":{values}}}'.encode()


def test_sparse_vectors_become_rows_over_the_union_of_their_indices() -> None:
    matrix = sparse_matrix([sparse([70000, 3], [0.5, 1.0]), None, sparse([5], [2.0]), sparse([3], [1.0])])
    assert matrix.dtype == np.float32
    assert matrix[[0, 2, 3]].tolist() == [[1.0, 0.0, 0.5], [0.0, 2.0, 0.0], [1.0, 0.0, 0.0]]
    assert np.isnan(matrix[1]).all()


@pytest.mark.parametrize("values", [[], [None], [b"[]", b"null"], [sparse([], [])]])
def test_without_a_sparse_vector_there_are_no_columns(values: list[bytes | None]) -> None:
    assert sparse_matrix(values).shape == (len(values), 0)


@pytest.mark.parametrize(
    "broken",
    [
        b"{}",
        b'{"indices":[1]}',
        b'{"indices":[1],"values":[1,2]}',
        b'{"indices":[1],"values":["1"]}',
        b'{"indices":1,"values":1}',
        b'{"indices":[[1]],"values":[[1]]}',
        b'{"indices":[1],"values":[1],"more":1}',
        b'{"indices":[true],"values":[1]}',
        b'{"indices":[1],"values":[1e39]}',
        b'{"indices":[1],"values":[1e400]}',
    ],
)
def test_a_broken_sparse_vector_is_a_row_of_nan(broken: bytes) -> None:
    matrix = sparse_matrix([sparse([1], [1.0]), broken])
    assert matrix[0].tolist() == [1.0]
    assert np.isnan(matrix[1]).all()


def test_an_object_that_names_a_member_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="repeated key"):
        sparse_matrix([b'{"indices":[1],"indices":[2],"values":[1]}'])


@given(
    rows=st.lists(st.dictionaries(st.integers(0, 40), st.floats(-4, 4, width=32), min_size=1, max_size=6), min_size=1),
)
def test_products_of_the_rows_are_those_of_the_sparse_vectors(rows: list[dict[int, float]]) -> None:
    """Invariant: the dense rows have the inner products of the sparse vectors they stand for."""
    matrix = sparse_matrix([sparse(list(row), list(row.values())) for row in rows]).astype(np.float64)
    expected = [[sum(a[key] * b[key] for key in a.keys() & b.keys()) for b in rows] for a in rows]
    np.testing.assert_allclose(matrix @ matrix.T, expected, atol=1e-4)


@pytest.mark.parametrize("value", [None, b"", b"[1", b"[1,[2]]", b"[[1],[2,3]]", b"[null]", b'["1"]', b"[true]", b"{}"])
def test_what_is_no_array_of_numbers_is_none(value: bytes | None) -> None:
    assert numbers(value) is None


def test_arrays_and_arrays_of_arrays_are_read() -> None:
    assert [rows.tolist() for rows in (numbers(b"[1,2]"), numbers(b"[[1],[2]]")) if rows is not None] == [
        [1, 2],
        [[1], [2]],
    ]
