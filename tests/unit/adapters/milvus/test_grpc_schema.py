"""The field numbers in the adapter, against the messages of the installed official client; and what is too much to be read.

A newer client with a field that the adapter does not know fails here, by name: messages with it are passed through until somebody has read
what it means.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
from google.protobuf.descriptor import FieldDescriptor

from support.milvus.server import NEEDS_MILVUS
from vecsieve.adapters.contract import Bounds, MalformedReplyError, Operation, UnsupportedError
from vecsieve.adapters.milvus import grpc_description
from vecsieve.adapters.milvus.grpc import MilvusGrpc
from vecsieve.adapters.milvus.grpc_schema import MESSAGES, proto
from vecsieve.adapters.milvus.grpc_write import MilvusGrpcWrites
from vecsieve.adapters.milvus.search import Schema
from vecsieve.adapters.wire.protobuf import length_field
from vecsieve.adapters.writes import WriteNeeds

# The messages of the adapter's schema that are read from, or written to, these messages.
COUNTERPARTS = {
    "Column": "schema.FieldData",
    "Scalars": "schema.ScalarField",
    "Vectors": "schema.VectorField",
    "Structs": "schema.StructArrayField",
    "Integers": "schema.BoolArray schema.IntArray schema.LongArray schema.TimestamptzArray schema.DateArray schema.TimeArray",
    "Elements": (
        "schema.FloatArray schema.DoubleArray schema.StringArray schema.BytesArray schema.ArrayArray schema.JSONArray "
        "schema.GeometryArray schema.GeometryWktArray schema.MolArray schema.MolSmilesArray"
    ),
    "Sparse": "schema.SparseFloatArray",
    "Lists": "schema.VectorArray",
    "Status": "common.Status",
    "Answer": "milvus.SearchResults milvus.QueryResults milvus.MutationResult milvus.DescribeCollectionResponse",
    "Reply": "milvus.SearchResults",
    "Results": "schema.SearchResultData",
    "Ids": "schema.IDs",
    "Queried": "milvus.QueryResults",
    "Mutation": "milvus.MutationResult",
    "Description": "milvus.DescribeCollectionResponse",
    "Schema": "schema.CollectionSchema",
    "Field": "schema.FieldSchema",
    "Indexes": "milvus.DescribeIndexResponse",
    "Index": "milvus.IndexDescription",
    "Pair": "common.KeyValuePair",
    "Search": "milvus.SearchRequest",
    "HybridSearch": "milvus.HybridSearchRequest",
    "Group": "common.PlaceholderGroup",
    "Placeholder": "common.PlaceholderValue",
    "Query": "milvus.QueryRequest",
    "Delete": "milvus.DeleteRequest",
    "Insert": "milvus.InsertRequest",
    "Upsert": "milvus.UpsertRequest",
}
# Fields of a newer server, or of some of the messages only.
NOT_IN_ALL = {("Scalars", "valid_data"), ("Vectors", "valid_data"), ("Elements", "element_type")}
# Messages of which all fields are named but these, because an unknown one may have an element for each row, or make a request unsupported.
WHOLE = {
    **dict.fromkeys(("Column", "Scalars", "Vectors", "Structs", "Integers", "Elements", "Sparse", "Lists"), ""),
    **dict.fromkeys(("Ids", "Pair", "Group"), ""),
    "Results": (
        "group_by_field_value group_by_field_values search_iterator_v2_results highlight_results element_indices agg_buckets agg_topks"
    ),
    "Search": "ids sub_reqs function_score highlighter search_aggregation function_chains",
    "HybridSearch": "function_score function_chains",
    "Placeholder": "element_level",
    "Insert": "namespace",
    "Upsert": "namespace field_ops",
}
# Kinds that have one form on the wire: opaque bytes are texts, bytes, messages or packed numbers.
_OF_LENGTH = {"string", "bytes", "message"}
_VARINTS = {"enum", "bool", "uint32", "int32", "int64", "uint64"}


def theirs(name: str) -> Any:
    module, _, message = name.partition(".")
    return getattr(import_module(f"pymilvus.grpc_gen.{module}_pb2"), message).DESCRIPTOR


def kind_of(field: Any) -> str:
    names = {"TYPE_" + kind.upper(): kind for kind in (*_OF_LENGTH, *_VARINTS, "float", "double")}
    return next(names[name] for name in names if getattr(FieldDescriptor, name) == field.type)


def counterparts(names: Any) -> list[tuple[str, str]]:
    return [(name, other) for name in names for other in COUNTERPARTS[name].split()]


@NEEDS_MILVUS
@pytest.mark.parametrize(("name", "other"), counterparts(COUNTERPARTS))
def test_the_schema_is_a_part_of_the_clients(name: str, other: str) -> None:
    known = theirs(other).fields_by_number
    for field in MESSAGES[name].DESCRIPTOR.fields:
        if field.number not in known and (name, field.name) in NOT_IN_ALL:
            continue
        its = known[field.number]
        assert field.name == its.name
        mine, kind = kind_of(field), kind_of(its)
        if mine == "bytes":  # what is opaque may be kept in several parts
            assert kind in _OF_LENGTH or its.is_packed
        else:
            assert mine == kind or {mine, kind} <= _VARINTS
            assert (field.is_repeated, field.is_packed) == (its.is_repeated, its.is_packed)


@NEEDS_MILVUS
@pytest.mark.parametrize(("name", "other"), counterparts(WHOLE))
def test_what_must_be_known_is_named_whole(name: str, other: str) -> None:
    known = {field.name for field in MESSAGES[name].DESCRIPTOR.fields}
    assert {field.name for field in theirs(other).fields} - set(WHOLE[name].split()) == known - {
        field for message, field in NOT_IN_ALL if message == name and field not in theirs(other).fields_by_name
    }


def test_every_message_of_the_schema_is_compared() -> None:
    assert MESSAGES.keys() == COUNTERPARTS.keys()


MANY = b"\x0a\x00" * 600_000
COLUMN = b"\x1a\x00" * 600_000


@pytest.mark.parametrize(
    ("kind", "body"),
    [
        (proto.Reply, length_field(2, COLUMN)),
        (proto.Reply, length_field(2, length_field(3, length_field(3, length_field(6, MANY))))),
        (proto.Reply, length_field(2, length_field(3, length_field(4, length_field(6, MANY))))),
        (proto.Reply, length_field(2, length_field(3, length_field(8, MANY)))),
        (proto.Reply, length_field(2, length_field(5, length_field(2, MANY)))),
        (proto.Queried, b"\x12\x00" * 600_000),
        (proto.Indexes, length_field(2, COLUMN)),
    ],
)
def test_a_reply_of_too_many_fields_is_not_read(kind: Any, body: bytes) -> None:
    with pytest.raises(ValueError, match="too_many_parts"):
        grpc_description.read_answer(kind, body)


@pytest.mark.parametrize("inside", [b"\x22\x00" * 600_000, length_field(4, b"\x32\x00" * 600_000)])
def test_a_description_of_too_many_fields_is_not_read(inside: bytes) -> None:
    with pytest.raises(MalformedReplyError, match="too_many_parts"):
        grpc_description.read_description(length_field(2, inside))


@pytest.mark.parametrize("body", [b"\x2a\x00" * 600_000, length_field(5, length_field(3, length_field(6, MANY)))])
def test_a_write_of_too_many_fields_is_not_read(body: bytes) -> None:
    needs = WriteNeeds(
        vector_name=None, keys=(), most=10**9, known=Schema(vectors=frozenset(), scalars=frozenset(), primary="id")
    )
    write = Operation(backend="milvus", name="insert", collection="c")
    with pytest.raises(UnsupportedError):
        MilvusGrpcWrites().parse(write, body + b"\x38\x01", needs)


@pytest.mark.parametrize("path", [(6,), (9,), (6, 1)])
@pytest.mark.parametrize("is_part", [False, True])
def test_a_search_of_too_many_fields_is_not_read(path: tuple[int, ...], is_part: bool) -> None:
    """Also in the queries, which are opaque until their number is known."""
    body = b"\x0a\x00" * 10_000
    for number in reversed((5, *path) if is_part else path):
        body = length_field(number, body)
    search = Operation(backend="milvus", name="hybrid_search" if is_part else "search", collection="c")
    with pytest.raises(UnsupportedError, match="too_many_parts"):
        MilvusGrpc().check_size(search, body, Bounds(searches=1, parts=4096, nesting=1))
