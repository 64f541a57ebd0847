from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client import grpc

from support.qdrant_grpc_model import field
from vecsieve.adapters.qdrant.grpc_reply import compare, find_best, named, written_alike
from vecsieve.adapters.wire.protobuf import Span, fields

NAN = [np.nan, np.nan]
FLAT = st.lists(st.floats(width=32), max_size=3)


def output(value: Any, *, is_old: bool = False) -> Any:
    """A VectorOutput: of numbers, of rows, or of {index: number}."""
    if isinstance(value, dict):
        indices, values = list(value), list(value.values())
        if is_old:
            return grpc.VectorOutput(data=values, indices=grpc.SparseIndices(data=indices))
        return grpc.VectorOutput(sparse=grpc.SparseVector(values=values, indices=indices))
    if value and isinstance(value[0], list):
        if is_old:
            return grpc.VectorOutput(data=[number for each in value for number in each], vectors_count=len(value))
        rows = [grpc.DenseVector(data=each) for each in value]
        return grpc.VectorOutput(multi_dense=grpc.MultiDenseVector(vectors=rows))
    return grpc.VectorOutput(data=value) if is_old else grpc.VectorOutput(dense=grpc.DenseVector(data=value))


def bare(value: Any, *, is_old: bool = False) -> bytes:
    data: bytes = grpc.VectorsOutput(vector=output(value, is_old=is_old)).SerializeToString()
    return data


def several(values: dict[str, Any], *, is_old: bool = False) -> bytes:
    entries = [
        field(1, field(1, name.encode()) + field(2, output(value, is_old=is_old).SerializeToString()))
        for name, value in values.items()
    ]
    return field(2, b"".join(entries))


def laid_out(vectors: list[bytes | None]) -> tuple[bytes, list[Span | None]]:
    """A message with each candidate's vectors in a field 6, and what those fill."""
    data = b"".join(field(6, each) for each in vectors if each is not None)
    found = iter(fields(data))
    return data, [None if each is None else next(found).span for each in vectors]


def spans_of(vectors: list[bytes | None], name: str = "") -> tuple[bytes, list[Span | None]]:
    data, found = laid_out(vectors)
    return data, [named(data, each).get(name) for each in found]


def compared(values: list[Any], *, is_old: bool) -> Any:
    return compare(*spans_of([None if value is None else bare(value, is_old=is_old) for value in values]))


both_ways = pytest.mark.parametrize("is_old", [True, False])


def test_names_of_a_points_vectors() -> None:
    data, (alone, two, none, nothing) = laid_out([bare([1.0]), several({"a": [1.0], "": [2.0]}), field(2, b""), b""])
    assert named(data, alone).keys() == {""}
    assert named(data, two).keys() == {"a", ""}
    assert named(data, none) == named(data, nothing) == named(data, None) == {}


@pytest.mark.parametrize(
    ("vectors", "said"),
    [
        (bare([1.0]) + field(2, b""), "both one and named"),
        (bare([1.0]) * 2, "field 1: 2 of"),
        (several({"a": [1.0]}) + field(2, b""), "field 2: 2 of"),
        (field(2, field(1, field(1, b"a")) * 2), "a name twice"),
        (field(2, field(1, field(1, b"\xff"))), "utf-8"),
        (b"\x08\x01", "field 1: 1 of"),
    ],
)
def test_vectors_that_cannot_be_told_apart_are_refused(vectors: bytes, said: str) -> None:
    data, (found,) = laid_out([vectors])
    with pytest.raises(ValueError, match=said):
        named(data, found)


def best(*points: dict[str, Any], prefers: str = "", is_old: bool = False) -> str | None:
    data, found = laid_out([several(point, is_old=is_old) for point in points])
    return find_best(data, [named(data, each) for each in found], prefers)


@both_ways
@pytest.mark.parametrize(
    ("point", "prefers", "expected"),
    [
        ({"d": [1.0, 2.0], "s": {1: 1.0}, "m": [[1.0]]}, "s", "d"),
        ({"d": [1.0], "": [1.0, 2.0]}, "d", ""),
        ({"d": [1.0, 2.0, 3.0], "e": [1.0, 2.0]}, "d", "e"),
        ({"s": {1: 1.0}, "t": {1: 1.0}}, "t", "t"),
        ({"m": [[1.0]], "t": {1: 1.0}}, "gone", "t"),
        ({"n": [[1.0]], "m": [[1.0]]}, "gone", "m"),
        ({"": [[1.0]], "s": {1: 1.0}}, "s", "s"),
        ({}, "s", None),
    ],
)
def test_the_best_vector_to_compare_by(point: dict[str, Any], prefers: str, expected: str | None, is_old: bool) -> None:
    assert best({}, point, prefers=prefers, is_old=is_old) == expected


def test_a_vector_some_points_lack_is_found_all_the_same() -> None:
    assert best({"s": {1: 1.0}}, {"d": [1.0]}, prefers="s") == "d"


@both_ways
def test_dense_vectors_become_rows_and_what_is_missing_nan(is_old: bool) -> None:
    found = compared([None, [1.0, 0.0], [0.0, 1.0], [1.0], [1.0, np.nan], [[1.0, 0.0]], {1: 1.0}, []], is_old=is_old)
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [NAN, [1, 0], [0, 1], NAN, NAN, NAN, NAN, NAN])


def test_unpacked_numbers_are_read_as_well() -> None:
    unpacked = b"\x0d\x00\x00\x80\x3f\x0d\x00\x00\x00\x40"
    data, spans = spans_of([field(1, unpacked), field(1, field(101, unpacked))])
    assert compare(data, spans).tolist() == [[1.0, 2.0], [1.0, 2.0]]


@both_ways
def test_sparse_vectors_become_rows_over_the_union_of_their_indices(is_old: bool) -> None:
    found = compared([{70000: 0.5, 3: 1.0}, None, {5: 2.0}, {3: 1.0}, [1.0]], is_old=is_old)
    none = [np.nan] * 3
    np.testing.assert_array_equal(found, [[1.0, 0.0, 0.5], none, [0.0, 2.0, 0.0], [1.0, 0.0, 0.0], none])


def test_a_sparse_vector_with_more_indices_than_values_cannot_be_used() -> None:
    old = grpc.VectorOutput(data=[1.0], indices=grpc.SparseIndices(data=[1, 2])).SerializeToString()
    new = grpc.VectorOutput(sparse=grpc.SparseVector(values=[1.0], indices=[1, 2])).SerializeToString()
    assert compare(*spans_of([field(1, old), field(1, new), bare({}), bare({}, is_old=True)])).shape == (4, 0)


@both_ways
def test_multivectors_are_not_compared(is_old: bool) -> None:
    found = compared([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]], [[1.0, np.nan]], [1.0, 2.0], None], is_old=is_old)
    assert found.shape == (5, 0)


@pytest.mark.parametrize(
    ("vector", "said"),
    [
        (field(101, b"") + field(102, b""), "is not one message"),
        (b"\xa8\x06\x01", "is not one message"),
        (field(101, field(1, b"123")), "holds no floats"),
        (field(1, b"123"), "holds no floats"),
        (field(102, field(1, b"1234") + field(2, b"\xff")), "no end"),
        (field(2, b"") * 2, "field 2: 2 of"),
        (b"\xff", "no end"),
    ],
)
def test_what_is_no_vector_is_refused(vector: bytes, said: str) -> None:
    data, spans = spans_of([field(1, vector)])
    with pytest.raises(ValueError, match=said):
        compare(data, spans)


@pytest.mark.parametrize(
    "vectors", [[], [None], [None, bare([])], [bare([], is_old=True)], [bare({})], [field(1, b"")]]
)
def test_a_pool_without_vectors_has_no_columns(vectors: list[bytes | None]) -> None:
    assert compare(*spans_of(vectors)).shape == (len(vectors), 0)


@given(values=st.lists(st.tuples(FLAT, st.booleans(), st.booleans(), st.booleans()), max_size=4), is_old=st.booleans())
def test_vectors_written_alike_are_read_as_walking_reads_them(
    values: list[tuple[list[float], bool, bool, bool]], is_old: bool
) -> None:
    """Whatever the vectors, the quick way gives nothing or exactly what the walk gives."""
    vectors: list[bytes | None] = []
    for numbers, is_bare, is_absent, has_more in values:
        written = bare(numbers, is_old=is_old) if is_bare else several({"": numbers}, is_old=is_old)
        vectors.append(None if is_absent and has_more else written + (field(9, b"x") if has_more else b""))
    data, found = laid_out(vectors)
    alike = written_alike(data, "", found)
    if alike is not None:
        np.testing.assert_array_equal(alike, compare(data, [named(data, each).get("") for each in found]))


@both_ways
@pytest.mark.parametrize("name", ["", "a"])
def test_vectors_of_one_kind_and_length_are_read_the_quick_way(is_old: bool, name: str) -> None:
    rows = [[1.0, 2.0], [3.0, 4.0]]
    written = [several({name: row}, is_old=is_old) for row in rows]
    assert np.array_equal(read_alike(name, *written), rows)
    assert np.array_equal(read_alike("", *(bare(row, is_old=is_old) for row in rows)), rows)


def read_alike(name: str, *vectors: bytes | None) -> Any:
    data, found = laid_out(list(vectors))
    return written_alike(data, name, found)


def test_what_is_not_written_as_the_first_is_left_to_the_walk() -> None:
    one, two = bare([1.0, 2.0]), bare([1.0, 2.0], is_old=True)
    numbers = field(1, b"12345678")
    for vectors in (
        (one, two),
        (one, bare([1.0])),
        (one, None),
        (None, one),
        (),
        (several({"a": [1.0]}),),  # not the one that was asked for
        (several({"": [1.0], "a": [1.0]}),),  # another behind it, or before
        (bare({1: 1.0}),),
        (bare([[1.0]]),),
        (bare([]) + field(9, b"behind"),),
        (field(1, field(101, numbers * 2)),),  # in two parts
        (field(1, field(101, b"\x0d1234")),),  # one by one
        (field(1, field(101, field(1, b"123"))),),  # no floats
        (field(1, b""),),
    ):
        assert read_alike("", *vectors) is None
