"""Vectors of every number as float32."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from vecsieve.adapters.contract import UnsupportedError
from vecsieve.adapters.milvus.search import NUMBER_BYTES, Schema, as_matrix, as_query, ids_among, numbers


@pytest.mark.parametrize(
    ("kind", "packed"),
    [
        (101, np.array([1, -2.5], "<f4").tobytes()),
        (102, np.array([1, -2.5], "<f2").tobytes()),
        (103, b"\x80\x3f\x20\xc0"),
    ],
)
def test_each_kind_of_float_is_read(kind: int, packed: bytes) -> None:
    found = numbers(packed, kind)
    assert found.dtype == np.float32
    assert found.tolist() == [1.0, -2.5]


def test_small_integers_have_a_sign() -> None:
    assert numbers(b"\x01\xff\x80", 105).tolist() == [1.0, -1.0, -128.0]


def test_half_a_number_is_none() -> None:
    with pytest.raises(ValueError, match="3 bytes"):
        as_query(b"abc", 101)


def test_a_query_that_is_empty_or_not_finite_is_none_to_compare_with() -> None:
    assert as_query(b"", 101) is None
    assert as_query(np.array([np.inf], "<f4").tobytes(), 101) is None


def test_rows_that_are_missing_or_not_finite_are_no_numbers() -> None:
    packed = np.array([[1, 2], [np.nan, 4], [5, 6]], "<f4").tobytes()
    found = as_matrix(packed, 101, 8, np.array([2, -1, 1, 0], dtype=np.intp))
    assert np.isnan(found).any(axis=1).tolist() == [False, True, True, False]
    assert found[[0, 3]].tolist() == [[5, 6], [1, 2]]
    assert np.isnan(as_matrix(b"", 101, 8, np.array([-1], dtype=np.intp))).all()


@given(
    rows=arrays.arrays(np.dtype("<f4"), (4, 3), elements=st.floats(-9, 9, width=32)), order=st.permutations(range(4))
)
def test_a_matrix_is_the_rows_that_were_asked_for(rows: np.ndarray, order: list[int]) -> None:
    """For floats of every width, each row is the numbers of its own bytes."""
    for kind, width in NUMBER_BYTES.items():
        if kind == 103:
            packed = (rows.view("<u4") >> 16).astype("<u2").tobytes()
        else:
            packed = rows.astype({101: "<f4", 102: "<f2", 105: "i1"}[kind]).tobytes()
        found = as_matrix(packed, kind, 3 * width, np.array(order, dtype=np.intp))
        each = [numbers(packed[index * 3 * width : (index + 1) * 3 * width], kind).tolist() for index in order]
        assert found.tolist() == each


def schema(primary: str = "pk", *, has_texts: bool = False) -> Schema:
    return Schema(vectors=frozenset({"vec"}), scalars=frozenset({primary}), primary=primary, has_texts=has_texts)


@pytest.mark.parametrize(
    ("ids", "known", "wanted"),
    [
        ([b"1", b"-2"], schema(), "pk in [1, -2]"),
        ([b'"9007199254740993"'], schema(), "pk in [9007199254740993]"),
        ([b'"a b"', b'"7"'], schema(has_texts=True), 'pk in ["a b", "7"]'),
    ],
)
def test_ids_are_spelled_as_the_collection_has_them(ids: list[bytes], known: Schema, wanted: str) -> None:
    assert ids_among(known, ids) == wanted


@pytest.mark.parametrize(
    ("ids", "known"),
    [
        ([b"1"], schema("")),
        ([b"1"], schema("odd name")),
        ([b"1"], schema(has_texts=True)),
        ([b'"a"'], schema()),
        ([b"1", b"1.5"], schema()),
        ([b'"a\\"b"'], schema(has_texts=True)),
        ([b'"\\u0061"'], schema(has_texts=True)),
        ([b'"a", pk > 0 or "b"'], schema(has_texts=True)),
        (['"é"'.encode()], schema(has_texts=True)),
    ],
)
def test_an_id_without_a_sure_spelling_is_refused(ids: list[bytes], known: Schema) -> None:
    with pytest.raises(UnsupportedError):
        ids_among(known, ids)
