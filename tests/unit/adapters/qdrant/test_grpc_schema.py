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
from vecsieve.adapters.qdrant.grpc_schema import MESSAGES

# What is read with certainty as something else: a text query ranks by words, its `using` names a payload field.
LEFT_ALONE = {("Variant", "text")}


def numbers(message: Any) -> dict[str, int]:
    return {field.name: field.number for field in message.DESCRIPTOR.fields}


def test_each_kind_of_query_has_a_ranking() -> None:
    assert numbers(MESSAGES["Variant"]).keys() == query._VARIANTS.keys() | {"nearest"}
    assert numbers(MESSAGES["Input"]).keys() == query._INPUTS.keys() > set(query.INFERRED)


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
    "Query": [grpc.QueryPoints],
    "Prefetch": [grpc.PrefetchQuery],
    "Variant": [grpc.Query],
    "Input": [grpc.VectorInput],
    "Rrf": [grpc.Rrf],
    "Filter": [grpc.Filter],
    "Search": [grpc.SearchPoints],
    "SearchVector": [grpc.SearchPoints],
    "Recommend": [grpc.RecommendPoints],
    "Discover": [grpc.DiscoverPoints],
    "Batch": [grpc.QueryBatchPoints, grpc.SearchBatchPoints, grpc.RecommendBatchPoints, grpc.DiscoverBatchPoints],
    "WithVectors": [grpc.WithVectorsSelector],
    "WithPayload": [grpc.WithPayloadSelector],
    "Names": [grpc.VectorsSelector, grpc.PayloadIncludeSelector, grpc.PayloadExcludeSelector],
    "Upsert": [grpc.UpsertPoints],
    "Written": [grpc.PointStruct],
    "Wait": [grpc.UpsertPoints],
    "Stored": [grpc.RetrievedPoint],
    "ShardKeys": [grpc.ShardKeySelector],
    "ShardKey": [grpc.ShardKey],
    "Deletion": [grpc.DeletePoints],
    "Selector": [grpc.PointsSelector],
    "Ids": [grpc.PointsIdsList],
    "Updates": [grpc.UpdateBatchPoints],
    "Update": [grpc.PointsUpdateOperation],
    "UpdateDeletion": [grpc.PointsUpdateOperation.DeletePoints],
    "ShardDeletion": [grpc.DeleteShardKeyRequest],
    "Info": [grpc.GetCollectionInfoResponse],
    "CollectionInfo": [grpc.CollectionInfo],
    "Config": [grpc.CollectionConfig],
    "Params": [grpc.CollectionParams],
    "VectorsConfig": [grpc.VectorsConfig],
    "ParamsMap": [grpc.VectorParamsMap],
    "VectorParams": [grpc.VectorParams],
    "Point": [grpc.ScoredPoint],
    "Value": [grpc.Value],
    "Id": [grpc.PointId],
    "Hit": [grpc.ScoredPoint],
    "HitVectors": [grpc.VectorsOutput],
    "HitNamed": [grpc.NamedVectorsOutput],
}
# Fields that are called otherwise in some of them.
RENAMED = {("Batch", "searches"), ("Names", "names")}
# Not opaque, but kept twice where they are set twice: a collection must not be, the searches of a batch are.
KEPT_TWICE = {"collection_name", "searches"}
# Messages of which all fields are named, because an unknown one makes a request unsupported.
WHOLE = (
    *(
        "Query",
        "Prefetch",
        "Variant",
        "Input",
        "Rrf",
        "Search",
        "Recommend",
        "Discover",
        "Batch",
        "WithVectors",
        "WithPayload",
    ),
    *("Names", "Upsert", "Written", "Id", "ShardKey"),
)
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
        assert field.name == other.name or (name, field.name) in RENAMED
        assert field.is_packed == other.is_packed
        mine, its = kind_of(field), kind_of(other)
        assert mine == its or {mine, its} <= _VARINTS or (mine == "bytes" and its in _OF_LENGTH)
        # What is opaque may be kept in several parts.
        assert field.is_repeated == other.is_repeated or (
            mine == "bytes" and (its == "message" or field.name in KEPT_TWICE)
        )


@pytest.mark.parametrize(("name", "message"), [(name, each) for name in WHOLE for each in COUNTERPARTS[name]])
def test_a_request_is_named_whole(name: str, message: Any) -> None:
    known = {field.number for field in MESSAGES[name].DESCRIPTOR.fields}
    assert {field.number for field in message.DESCRIPTOR.fields if (name, field.name) not in LEFT_ALONE} == known


def test_every_message_of_the_schema_is_compared() -> None:
    assert MESSAGES.keys() - COUNTERPARTS.keys() == {"Entry", "HitVector"}


def test_a_hit_names_all_fields_of_a_point_which_keep_their_order_then() -> None:
    assert numbers(MESSAGES["Hit"]) == numbers(grpc.ScoredPoint)
