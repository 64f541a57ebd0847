from __future__ import annotations

import json
from collections.abc import Callable, Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.wire import json_vectors
from vecsieve.adapters.wire.json_vectors import (
    HAS_SIMDJSON,
    Row,
    by_orjson,
    by_simdjson,
    decode_arrays,
    decode_matrix,
    stack,
)

Decode = Callable[[Sequence[bytes]], list[Row | None]]

needs_simdjson = pytest.mark.skipif(not HAS_SIMDJSON, reason="pysimdjson is optional and not installed here")
WAYS = [pytest.param(by_simdjson, marks=needs_simdjson), by_orjson]
ONE_WIDTH = st.tuples(st.floats(-1e40, 1e40), st.floats(-1, 1)).map(lambda row: json.dumps(row).encode())
BAD = [
    b"",
    b"1",
    b"[",
    b"[1",
    b"[1]]",
    b"[1,]",
    b"[01]",
    b"[NaN]",
    b"[Infinity]",
    b"[1e400]",
    b"[null]",
    b"[1,null]",
    b"[true]",
    b"[1.5,false]",
    b'["1"]',
    b"[[1],[2]]",
    b'[{"a":1}]',
    b"[" + b"9" * 400 + b"]",
    b' {"a":1}',
    b"null",
]


@pytest.mark.parametrize("decode", WAYS)
@given(values=st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**80), 2**80), max_size=8))
def test_numbers_are_read_as_python_reads_them(decode: Decode, values: list[float]) -> None:
    # Invariant: every array of JSON numbers is decoded to the nearest doubles.
    (row,) = decode([json.dumps(values).encode()])
    assert row is not None
    assert row.dtype == np.float64
    assert row.tolist() == [float(value) for value in values]


@pytest.mark.parametrize("decode", WAYS)
@pytest.mark.parametrize("bad", BAD)
def test_what_is_no_flat_array_of_numbers_is_none_and_spoils_nothing_else(decode: Decode, bad: bytes) -> None:
    rows = decode([b"[1,2.5]", bad, b"[3]"])
    assert rows[1] is None
    assert [row.tolist() for row in rows if row is not None] == [[1.0, 2.5], [3.0]]


@needs_simdjson
@given(arrays=st.lists(st.text(alphabet='[]0123456789.eE+-, ntf"', max_size=14).map(str.encode), max_size=5))
def test_both_ways_agree_on_everything(arrays: list[bytes]) -> None:
    # Invariant: pysimdjson and orjson accept the same bytes and give the same numbers.
    fast, plain = by_simdjson(arrays), by_orjson(arrays)
    assert [None if row is None else row.tolist() for row in fast] == [
        None if row is None else row.tolist() for row in plain
    ]


@given(arrays=st.lists(st.text(alphabet="[]019.e+-, n", max_size=9).map(str.encode) | ONE_WIDTH, max_size=5))
def test_a_matrix_is_the_stacked_rows_however_it_was_made(arrays: list[bytes]) -> None:
    # Invariant: decoding all rows at once changes neither a number, nor a missing row, nor what is proven.
    matrix, proven = decode_matrix(arrays)
    rows = by_orjson(arrays)
    np.testing.assert_array_equal(matrix, stack(rows))
    assert matrix.dtype == np.float32
    assert proven == tuple(row is not None for row in rows)


def test_the_installed_way_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_vectors, "HAS_SIMDJSON", False)
    assert [row.tolist() for row in decode_arrays([b"[1]"]) if row is not None] == [[1.0]]


def test_rows_are_stacked_by_the_length_of_the_first_that_is_not_empty() -> None:
    matrix = stack([None, np.zeros(0), np.array([1.0, 2.0]), np.array([1.0]), np.array([3.0, 4.0])])
    assert matrix.dtype == np.float32
    assert np.isnan(matrix[[0, 1, 3]]).all()
    assert matrix[[2, 4]].tolist() == [[1.0, 2.0], [3.0, 4.0]]


def test_a_value_beyond_float32_makes_its_row_unusable_without_a_warning() -> None:
    assert np.isnan(stack([np.array([1e39, 1.0]), np.array([1.0, 2.0])])).all(axis=1).tolist() == [True, False]


@pytest.mark.parametrize(("rows", "shape"), [([], (0, 0)), ([None, None], (2, 0)), ([np.zeros(0)], (1, 0))])
def test_without_a_usable_row_the_matrix_has_no_columns(rows: list[None], shape: tuple[int, int]) -> None:
    assert stack(rows).shape == shape
