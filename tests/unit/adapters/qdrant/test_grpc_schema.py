"""The field numbers in the adapter, against the messages of the installed official client.

A newer client with a field that the adapter does not know fails here, by name: requests with it are passed through until
somebody has read what it means.
"""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from qdrant_client import grpc

from vecsieve.adapters.qdrant import grpc_request as query
from vecsieve.adapters.qdrant import grpc_request as selectors
from vecsieve.adapters.qdrant.grpc_request import BATCH, LAYOUTS
from vecsieve.adapters.qdrant.grpc_schema import MESSAGES
from vecsieve.adapters.wire.protobuf import Shape

SEARCHES = {
    "query": grpc.QueryPoints,
    "search": grpc.SearchPoints,
    "recommend": grpc.RecommendPoints,
    "discover": grpc.DiscoverPoints,
}
# What is read with certainty as something else: a text query ranks by words, its `using` names a payload field.
LEFT_ALONE = {"Query": {"text"}}
SHAPES: list[tuple[Any, Shape]] = [
    *((SEARCHES[name], layout.shape) for name, layout in LAYOUTS.items()),
    (grpc.QueryBatchPoints, BATCH),
    (grpc.SearchBatchPoints, BATCH),
    (grpc.RecommendBatchPoints, BATCH),
    (grpc.DiscoverBatchPoints, BATCH),
    (grpc.Query, query.QUERY),
    (grpc.VectorInput, query.INPUT),
    (grpc.PrefetchQuery, query.PREFETCH),
    (grpc.WithVectorsSelector, selectors.VECTORS),
    (grpc.WithPayloadSelector, selectors.PAYLOAD),
    (grpc.VectorsSelector, selectors.NAMES),
    (grpc.PayloadIncludeSelector, selectors.NAMES),
    (grpc.PayloadExcludeSelector, selectors.NAMES),
]


def numbers(message: Any) -> dict[str, int]:
    return {field.name: field.number for field in message.DESCRIPTOR.fields}


@pytest.mark.parametrize(("message", "shape"), SHAPES, ids=lambda value: getattr(value, "__name__", ""))
def test_every_field_of_a_request_is_known_by_its_number(message: Any, shape: Shape) -> None:
    name = message.DESCRIPTOR.name
    known = shape.single | shape.repeated
    assert {field for field, number in numbers(message).items() if number not in known} == LEFT_ALONE.get(name, set())
    assert known <= set(numbers(message).values())


@pytest.mark.parametrize(("message", "shape"), SHAPES, ids=lambda value: getattr(value, "__name__", ""))
def test_what_may_stand_twice_is_what_the_schema_repeats(message: Any, shape: Shape) -> None:
    assert shape.repeated == {field.number for field in message.DESCRIPTOR.fields if field.is_repeated}
    in_one_of = {field.number for oneof in message.DESCRIPTOR.oneofs if len(oneof.fields) > 1 for field in oneof.fields}
    assert shape.is_choice == bool(in_one_of)
    assert not shape.is_choice or shape.single <= in_one_of


@pytest.mark.parametrize("name", sorted(LAYOUTS))
def test_what_is_widened_is_called_so(name: str) -> None:
    layout, found = LAYOUTS[name], numbers(SEARCHES[name])
    changed = [found[field] for field in ("limit", "offset", "with_vectors", "with_payload")]
    assert changed == [layout.limit, layout.offset, layout.vectors, layout.payload]


def test_the_vector_names_of_a_request_are_called_so() -> None:
    assert numbers(grpc.QueryPoints)["using"] == query._ROOT_USING
    assert numbers(grpc.QueryPoints)["prefetch"] == query._ROOT_PREFETCH
    assert numbers(grpc.QueryPoints)["query"] == query._ROOT_QUERY
    assert numbers(grpc.PrefetchQuery)["using"] == query._PREFETCH_USING
    assert numbers(grpc.PrefetchQuery)["prefetch"] == query._PREFETCH
    assert numbers(grpc.PrefetchQuery)["query"] == query._PREFETCH_QUERY
    assert numbers(grpc.SearchPoints)["vector"] == query._SEARCH_VECTOR == LAYOUTS["search"].dense
    assert numbers(grpc.SearchPoints)["vector_name"] == query._SEARCH_NAME
    assert numbers(grpc.SearchPoints)["sparse_indices"] == query._SEARCH_INDICES
    assert numbers(grpc.RecommendPoints)["using"] == query._RECOMMEND_USING
    assert numbers(grpc.DiscoverPoints)["using"] == query._DISCOVER_USING
    assert numbers(grpc.DenseVector)["data"] == LAYOUTS["query"].dense


def test_each_kind_of_query_is_what_its_name_says() -> None:
    found = {number: name for name, number in numbers(grpc.Query).items()}
    kinds = {found[number]: kind.name for number, kind in query._VARIANTS.items()}
    assert kinds == {
        "recommend": "REFERENCE",
        "discover": "REFERENCE",
        "context": "REFERENCE",
        "relevance_feedback": "REFERENCE",
        "order_by": "CHOSEN",
        "sample": "CHOSEN",
        "nearest_with_mmr": "CHOSEN",
        "fusion": "FUSED",
        "formula": "FUSED",
        "rrf": "FUSED",
    }
    inputs = {number: name for name, number in numbers(grpc.VectorInput).items()}
    shown = {inputs[number]: kind.name for number, kind in query._INPUTS.items()}
    references = dict.fromkeys(("id", "document", "image", "object"), "REFERENCE")
    assert shown == {"dense": "DENSE", "sparse": "SPARSE", "multi_dense": "MULTI", **references}


# The messages of the adapter's schema that are read from, or written to, these messages.
COUNTERPARTS: dict[str, list[Any]] = {
    "Vector": [grpc.Vector, grpc.VectorOutput],
    "Indices": [grpc.SparseIndices],
    "Dense": [grpc.DenseVector],
    "Sparse": [grpc.SparseVector],
    "Multi": [grpc.MultiDenseVector],
    "Vectors": [grpc.Vectors, grpc.VectorsOutput],
    "NamedVectors": [grpc.NamedVectors, grpc.NamedVectorsOutput],
    "Reply": [
        *(grpc.QueryResponse, grpc.SearchResponse, grpc.RecommendResponse, grpc.DiscoverResponse),
        *(grpc.QueryBatchResponse, grpc.SearchBatchResponse, grpc.RecommendBatchResponse, grpc.DiscoverBatchResponse),
        grpc.BatchResult,
    ],
    "List": [grpc.QueryResponse, grpc.SearchResponse, grpc.RecommendResponse, grpc.DiscoverResponse, grpc.BatchResult],
    "Point": [grpc.ScoredPoint],
    "Value": [grpc.Value],
    "Id": [grpc.PointId],
    "Hit": [grpc.ScoredPoint],
    "HitVectors": [grpc.VectorsOutput],
    "HitNamed": [grpc.NamedVectorsOutput],
}
# Kinds that have one form on the wire: opaque bytes are texts, bytes or messages.
_OF_LENGTH = {"string", "bytes", "message"}
_VARINTS = {"enum", "bool", "uint32", "int32", "int64", "uint64"}


def kind_of(field: Any) -> str:
    names = {"TYPE_" + kind.upper(): kind for kind in (*_OF_LENGTH, *_VARINTS, "float", "double")}
    return next(names[name] for name in names if getattr(FieldDescriptor, name) == field.type)


@pytest.mark.parametrize(("name", "message"), [(name, each) for name in COUNTERPARTS for each in COUNTERPARTS[name]])
def test_the_schema_is_a_part_of_the_clients(name: str, message: Any) -> None:
    theirs = message.DESCRIPTOR.fields_by_number
    for field in MESSAGES[name].DESCRIPTOR.fields:
        other = theirs[field.number]
        assert field.name == other.name
        assert field.is_packed == other.is_packed
        mine, its = kind_of(field), kind_of(other)
        assert mine == its or {mine, its} <= _VARINTS or (mine == "bytes" and its in _OF_LENGTH)
        # What is opaque may be kept in several parts.
        assert field.is_repeated == other.is_repeated or (mine == "bytes" and its == "message")


def test_every_message_of_the_schema_is_compared() -> None:
    assert MESSAGES.keys() - COUNTERPARTS.keys() == {"Entry"}


def test_a_hit_names_all_fields_of_a_point_which_keep_their_order_then() -> None:
    assert numbers(MESSAGES["Hit"]) == numbers(grpc.ScoredPoint)
