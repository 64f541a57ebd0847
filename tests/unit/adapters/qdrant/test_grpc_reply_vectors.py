from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from qdrant_client import grpc

from support.qdrant.grpc_model import field
from vecsieve.adapters.qdrant.grpc_reply import compare, find_best, named, vector_of
from vecsieve.adapters.qdrant.grpc_schema import proto
from vecsieve.adapters.wire.schema import parsed


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


def stored(vectors: bytes | None) -> Any:
    return proto.Vectors.FromString(vectors or b"")


def vectors_of(vectors: list[bytes | None], name: str = "") -> list[Any]:
    return [vector_of(stored(vector), name) for vector in vectors]


def compared(values: list[Any], *, is_old: bool) -> Any:
    return compare(vectors_of([None if value is None else bare(value, is_old=is_old) for value in values]))


both_ways = pytest.mark.parametrize("is_old", [True, False])


def test_names_of_a_points_vectors() -> None:
    assert named(stored(bare([1.0]))).keys() == {""}
    assert named(stored(several({"a": [1.0], "": [2.0]}))).keys() == {"a", ""}
    assert named(stored(field(2, b""))) == named(stored(b"")) == {}


def test_a_name_that_is_no_text_is_refused() -> None:
    with pytest.raises(ValueError, match="utf-8"):
        named(stored(field(2, field(1, field(1, b"\xff")))))


def test_vectors_that_cannot_be_told_apart_are_refused() -> None:
    with pytest.raises(ValueError, match="both one and named"):
        named(stored(bare([1.0]) + field(2, b"")))


def best(*points: dict[str, Any], prefers: str = "", is_old: bool = False) -> str | None:
    return find_best([named(stored(several(point, is_old=is_old))) for point in points], prefers)


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


@both_ways
def test_sparse_vectors_become_rows_over_the_union_of_their_indices(is_old: bool) -> None:
    found = compared([{70000: 0.5, 3: 1.0}, None, {5: 2.0}, {3: 1.0}, [1.0]], is_old=is_old)
    none = [np.nan] * 3
    np.testing.assert_array_equal(found, [[1.0, 0.0, 0.5], none, [0.0, 2.0, 0.0], [1.0, 0.0, 0.0], none])


def test_a_sparse_vector_with_more_indices_than_values_cannot_be_used() -> None:
    old = grpc.VectorOutput(data=[1.0], indices=grpc.SparseIndices(data=[1, 2])).SerializeToString()
    new = grpc.VectorOutput(sparse=grpc.SparseVector(values=[1.0], indices=[1, 2])).SerializeToString()
    assert compare(vectors_of([field(1, old), field(1, new), bare({}), bare({}, is_old=True)])).shape == (4, 0)


@both_ways
def test_multivectors_are_not_compared(is_old: bool) -> None:
    found = compared([[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0]], [[1.0, np.nan]], [1.0, 2.0], None], is_old=is_old)
    assert found.shape == (5, 0)


@pytest.mark.parametrize("vector", [field(102, field(2, b"\xff")), b"\xff"])
def test_what_is_no_vector_is_refused(vector: bytes) -> None:
    with pytest.raises(ValueError, match="Error parsing"):
        parsed(proto.Vectors, field(1, vector))


@pytest.mark.parametrize(
    "vectors", [[], [None], [None, bare([])], [bare([], is_old=True)], [bare({})], [field(1, b"")]]
)
def test_a_pool_without_vectors_has_no_columns(vectors: list[bytes | None]) -> None:
    assert compare(vectors_of(vectors)).shape == (len(vectors), 0)


@pytest.mark.parametrize("vector", [field(101, field(1, b"123")), field(1, b"123")])
def test_numbers_that_are_no_floats_are_refused(vector: bytes) -> None:
    with pytest.raises(ValueError, match="buffer size"):
        compare(vectors_of([field(1, vector)]))
