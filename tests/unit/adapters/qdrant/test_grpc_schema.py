"""The field numbers in the adapter, against the messages of the installed official client.

A newer client with a field that the adapter does not know fails here, by name: requests with it are passed through until
somebody has read what it means.
"""

from __future__ import annotations

from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor
from qdrant_client import grpc

from vecsieve.adapters.contract import Operation, UnsupportedError
from vecsieve.adapters.qdrant import grpc_deletions, grpc_reply
from vecsieve.adapters.qdrant import grpc_request as query
from vecsieve.adapters.qdrant.grpc_schema import MESSAGES
from vecsieve.adapters.qdrant.grpc_write import QdrantGrpcWrites
from vecsieve.adapters.wire.protobuf import length_field
from vecsieve.adapters.writes import WriteNeeds

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
    "Deletion": [grpc.DeletePoints, grpc.ClearPayloadPoints],
    "Selector": [grpc.PointsSelector],
    "Ids": [grpc.PointsIdsList],
    "Updates": [grpc.UpdateBatchPoints],
    "Update": [grpc.PointsUpdateOperation],
    "SetPayload": [grpc.SetPayloadPoints, grpc.DeletePayloadPoints],
    "UpdateVectors": [grpc.UpdatePointVectors],
    "DeleteVectors": [grpc.DeletePointVectors],
    "WithId": [grpc.PointStruct, grpc.PointVectors],
    "UpdatedPoints": [grpc.PointsUpdateOperation.PointStructList, grpc.PointsUpdateOperation.UpdateVectors],
    "UpdatedPayload": [
        *(grpc.PointsUpdateOperation.SetPayload, grpc.PointsUpdateOperation.OverwritePayload),
        grpc.PointsUpdateOperation.DeletePayload,
    ],
    "UpdatedVectors": [grpc.PointsUpdateOperation.DeleteVectors],
    "UpdatedSelector": [grpc.PointsUpdateOperation.DeletePoints, grpc.PointsUpdateOperation.ClearPayload],
    "ShardDeletion": [grpc.DeleteShardKeyRequest],
    "Info": [grpc.GetCollectionInfoResponse],
    "CollectionInfo": [grpc.CollectionInfo],
    "Config": [grpc.CollectionConfig],
    "CollectionParams": [grpc.CollectionParams],
    "Params": [grpc.SearchParams],
    "Quantization": [grpc.QuantizationSearchParams],
    "Where": [grpc.Filter],
    "Condition": [grpc.Condition],
    "FieldCondition": [grpc.FieldCondition],
    "Match": [grpc.Match],
    "Get": [grpc.GetPoints],
    "Answer": [grpc.PointsOperationResponse],
    "Updated": [grpc.UpdateResult],
    "Struct": [grpc.Struct],
    "ListValue": [grpc.ListValue],
    "VectorsConfig": [grpc.VectorsConfig],
    "ParamsMap": [grpc.VectorParamsMap],
    "VectorParams": [grpc.VectorParams],
    "Point": [grpc.ScoredPoint],
    "Payload": [grpc.ScoredPoint],
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


@pytest.mark.parametrize(
    ("name", "message"), [(name, counterpart) for name in COUNTERPARTS for counterpart in COUNTERPARTS[name]]
)
def test_the_schema_is_a_part_of_the_clients(name: str, message: Any) -> None:
    theirs = message.DESCRIPTOR.fields_by_number
    for field in MESSAGES[name].DESCRIPTOR.fields:
        other = theirs[field.number]
        assert field.name == other.name or (name, field.name) in RENAMED
        mine, its = kind_of(field), kind_of(other)
        is_opaque = mine == "bytes" and (its in _OF_LENGTH or other.is_packed)
        assert is_opaque or mine == its or {mine, its} <= _VARINTS
        assert is_opaque or field.is_packed == other.is_packed
        # What is opaque may be kept in several parts.
        assert field.is_repeated == other.is_repeated or (
            is_opaque and (its == "message" or other.is_packed or field.name in KEPT_TWICE)
        )


@pytest.mark.parametrize(
    ("name", "message"), [(name, counterpart) for name in WHOLE for counterpart in COUNTERPARTS[name]]
)
def test_a_request_is_named_whole(name: str, message: Any) -> None:
    known = {field.number for field in MESSAGES[name].DESCRIPTOR.fields}
    assert {field.number for field in message.DESCRIPTOR.fields if (name, field.name) not in LEFT_ALONE} == known


def test_every_message_of_the_schema_is_compared() -> None:
    assert MESSAGES.keys() - COUNTERPARTS.keys() == {"Entry", "HitVector"}


def test_a_hit_names_all_fields_of_a_point_which_keep_their_order_then() -> None:
    assert numbers(MESSAGES["Hit"]) == numbers(grpc.ScoredPoint)


MANY = 400_000
UPSERTED = Operation(backend="qdrant", name="upsert", collection="c")


@pytest.mark.parametrize(
    "body",
    [
        b"\x1a\x00" * MANY * 2,
        length_field(3, b"\x1a\x00" * MANY * 2),
        length_field(3, length_field(4, length_field(2, b"\x0a\x00" * MANY * 2))),
    ],
    ids=["points", "payload", "vectors"],
)
def test_an_upsert_of_too_many_fields_is_not_read(body: bytes) -> None:
    with pytest.raises(UnsupportedError):
        QdrantGrpcWrites().parse(UPSERTED, body, WriteNeeds(vector_name=None, keys=(), most=10**9))


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("delete", length_field(3, length_field(1, b"\x0a\x00" * MANY * 2))),
        ("SetPayload", length_field(5, length_field(1, b"\x0a\x00" * MANY * 2))),
        ("UpdateVectors", b"\x1a\x00" * MANY * 2),
        ("updates", b"\x1a\x00" * MANY * 2),
        ("updates", length_field(3, length_field(9, length_field(1, length_field(1, b"\x0a\x00" * MANY * 2))))),
    ],
)
def test_a_deletion_of_too_many_fields_is_not_read(name: str, body: bytes) -> None:
    request = Operation(backend="qdrant", name=name, collection="c")
    with pytest.raises(ValueError, match="too_many_parts"):
        grpc_deletions.of_message(request, body, None)


def test_vectors_of_too_many_names_are_not_read() -> None:
    vectors = length_field(6, length_field(2, b"\x0a\x00" * MANY * 2))
    with pytest.raises(ValueError, match="too_many_parts"):
        grpc_reply.points_of(length_field(1, vectors))
