"""Vectors in messages, in the encodings of servers old and new."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers.qdrant.grpc_messages import (
    Encoding,
    messages,
    read_vector,
    read_vectors,
    said,
    to_rest,
    write_vectors,
)

from vecsieve.proxy.demo.embedded.errors import RefusalError

NUMBERS = st.floats(width=32, allow_nan=False, allow_infinity=False)
DENSE = st.lists(NUMBERS, min_size=1, max_size=5).map(lambda values: np.asarray(values, np.float32))
ROWS = st.integers(1, 4).flatmap(
    lambda width: st.lists(st.lists(NUMBERS, min_size=width, max_size=width), min_size=1, max_size=3).map(
        lambda values: np.asarray(values, np.float32)
    )
)
SPARSE = st.dictionaries(st.integers(0, 2**32 - 1), NUMBERS, max_size=4).map(
    lambda pairs: {"indices": list(pairs), "values": np.asarray(list(pairs.values()), np.float32)}
)
NAMES = st.text(st.characters(codec="utf-8"), max_size=4)
SHOWN = DENSE | ROWS | st.dictionaries(NAMES, DENSE | ROWS | SPARSE, max_size=3)


def listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: listed(item) for name, item in value.items()}
    return value.tolist() if isinstance(value, np.ndarray) else value


@pytest.mark.parametrize("encoding", Encoding)
@given(value=SHOWN)
def test_the_official_client_reads_what_was_written(encoding: Encoding, value: Any) -> None:
    """Whatever the engine shows, the client understands in either encoding, float for float."""
    target = messages().VectorsOutput()
    write_vectors(target, value, encoding)
    arrived = messages().VectorsOutput.FromString(target.SerializeToString())
    assert said(to_rest().convert_vectors_output(arrived)) == listed(value)


@given(value=SHOWN)
def test_what_one_encoding_fills_the_other_leaves_empty(value: Any) -> None:
    """No vector stands in both the old fields and the new ones."""
    for encoding, is_new in ((Encoding.ONEOF, True), (Encoding.DATA, False)):
        target = messages().VectorsOutput()
        write_vectors(target, value, encoding)
        named = target.vectors.vectors
        for vector in [named[name] for name in named] or [target.vector]:
            old = bool(vector.data) or vector.HasField("indices") or vector.HasField("vectors_count")
            # A sparse vector of nothing has no field to stand in for the old encoding.
            assert old is not is_new or not vector.ByteSize()
            assert (vector.WhichOneof("vector") is not None) is is_new or not vector.ByteSize()


def test_no_vectors_at_all_are_an_empty_object_and_not_absent() -> None:
    point = messages().ScoredPoint()
    write_vectors(point.vectors, {}, Encoding.ONEOF)
    assert point.HasField("vectors")
    assert point.vectors.WhichOneof("vectors_options") == "vectors"


def vector(**fields: Any) -> Any:
    return messages().Vector(**fields)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"data": [1, 2]}, [1.0, 2.0]),
        ({}, []),
        ({"data": [1, 2], "indices": {"data": [7, 9]}}, {"indices": [7, 9], "values": [1.0, 2.0]}),
        ({"data": [1, 2, 3, 4], "vectors_count": 2}, [[1.0, 2.0], [3.0, 4.0]]),
        ({"dense": {"data": [1, 2]}}, [1.0, 2.0]),
        ({"sparse": {"indices": [7], "values": [0.5]}}, {"indices": [7], "values": [0.5]}),
        ({"multi_dense": {"vectors": [{"data": [1]}, {"data": [2]}]}}, [[1.0], [2.0]]),
    ],
)
def test_every_spelling_of_a_vector_is_read(fields: dict[str, Any], expected: object) -> None:
    assert read_vector(vector(**fields)) == expected


@pytest.mark.parametrize("count", [0, 2])
def test_numbers_that_cannot_be_so_many_vectors_are_refused(count: int) -> None:
    with pytest.raises(RefusalError, match=f"3 numbers cannot be {count} vectors") as caught:
        read_vector(vector(data=[1, 2, 3], vectors_count=count))
    assert caught.value.status == 400


def test_what_must_be_embedded_first_is_not_served() -> None:
    with pytest.raises(RefusalError, match="inference") as caught:
        read_vector(vector(document={"text": "words", "model": "m"}))
    assert caught.value.status == 501


def test_the_vectors_of_a_point_are_one_or_named() -> None:
    kinds = messages()
    assert read_vectors(kinds.Vectors(vector=vector(data=[1]))) == [1.0]
    assert read_vectors(kinds.Vectors(vectors={"vectors": {"a": vector(dense={"data": [2]})}})) == {"a": [2.0]}
    with pytest.raises(RefusalError, match="Expected some vectors"):
        read_vectors(kinds.Vectors())
