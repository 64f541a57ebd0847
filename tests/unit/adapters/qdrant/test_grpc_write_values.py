"""A point's message as JSON and back, against protobuf's own library."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client import grpc as pb
from qdrant_client.conversions.conversion import payload_to_grpc

from vecsieve.adapters.qdrant.grpc_schema import VALUES, proto
from vecsieve.adapters.qdrant.grpc_write import _condition, vectors_fields, vectors_json

FLOAT = st.floats(width=32, allow_nan=False, allow_infinity=False)
DENSE = st.lists(FLOAT, min_size=1, max_size=4)
VALUE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def vectors_message(vectors: object) -> bytes:
    return bytes(proto.Vectors(**vectors_fields(vectors)).SerializeToString())


def shown(vectors: Any) -> Any:
    return json.loads(vectors_json(proto.Vectors.FromString(vectors.SerializeToString())))


@given(DENSE)
def test_a_dense_vector_survives_both_ways(numbers: list[float]) -> None:
    """Each float of 32 bits is the same float after JSON, in the old form and in the new one."""
    for vector in (pb.Vector(data=numbers), pb.Vector(dense=pb.DenseVector(data=numbers))):
        found = shown(pb.Vectors(vector=vector))
        assert np.array(found, np.float32).tobytes() == np.array(numbers, np.float32).tobytes()
    assert list(pb.Vectors.FromString(vectors_message(found)).vector.data) == numbers


@pytest.mark.parametrize(
    ("vector", "expected"),
    [
        (pb.Vector(data=[1, 2], indices=pb.SparseIndices(data=[7, 900])), {"indices": [7, 900], "values": [1.0, 2.0]}),
        (
            pb.Vector(sparse=pb.SparseVector(values=[1, 2], indices=[7, 900])),
            {"indices": [7, 900], "values": [1.0, 2.0]},
        ),
        (pb.Vector(data=[1, 2, 3, 4], vectors_count=2), [[1.0, 2.0], [3.0, 4.0]]),
        (
            pb.Vector(
                multi_dense=pb.MultiDenseVector(vectors=[pb.DenseVector(data=[1, 2]), pb.DenseVector(data=[3, 4])])
            ),
            [[1.0, 2.0], [3.0, 4.0]],
        ),
    ],
)
def test_every_kind_of_vector_is_shown_as_over_rest(vector: Any, expected: object) -> None:
    assert shown(pb.Vectors(vector=vector)) == expected
    named = pb.Vectors(vectors=pb.NamedVectors(vectors={"a": vector, "b": pb.Vector(data=[5])}))
    assert shown(named) == {"a": expected, "b": [5.0]}
    again = pb.Vectors.FromString(vectors_message({"a": expected, "b": [5.0]}))
    assert shown(again) == {"a": expected, "b": [5.0]}
    assert shown(pb.Vectors.FromString(vectors_message(expected))) == expected


@pytest.mark.parametrize(
    "vector", [pb.Vector(document=pb.Document(text="a", model="m")), pb.Vector(data=[float("nan")])]
)
def test_what_has_no_exact_form_is_refused(vector: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - any
        shown(pb.Vectors(vector=vector))


@given(st.dictionaries(st.text(), VALUE, max_size=4))
def test_a_payload_survives_both_ways(payload: dict[str, Any]) -> None:
    """JSON of a payload is the payload, and the message made of it is the one that the official client makes."""
    message = pb.PointStruct(payload=payload_to_grpc(payload)).SerializeToString()
    content = json.loads(VALUES.object_json(proto.Written.FromString(message).payload))
    assert repr(content) == repr({key: content[key] for key in content})
    assert content == payload
    made = proto.Written(payload=[VALUES.entry(key, value) for key, value in payload.items()]).SerializeToString()
    assert pb.PointStruct.FromString(made) == pb.PointStruct.FromString(message)


@pytest.mark.parametrize(
    ("value", "match"), [("größe", {"keyword": "größe"}), (-7, {"integer": -7}), (True, {"boolean": True})]
)
def test_a_condition_names_the_key_and_the_value(value: object, match: dict[str, Any]) -> None:
    (found,) = pb.Filter.FromString(proto.Where(must=[_condition("k", value)]).SerializeToString()).must
    assert found == pb.Condition(field=pb.FieldCondition(key="k", match=pb.Match(**match)))
