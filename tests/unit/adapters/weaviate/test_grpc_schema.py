"""The messages of the adapter's schema, against those of the server as the tests have them."""

from __future__ import annotations

import pytest

from support.grpc.partial_schemas import check_part, numbers
from support.weaviate.conversations import search
from support.weaviate.messages import message_type, single
from vecsieve.adapters.contract import MalformedReplyError, Needs, Operation, UnsupportedError
from vecsieve.adapters.weaviate.calls import Schema
from vecsieve.adapters.weaviate.grpc import WeaviateGrpc
from vecsieve.adapters.weaviate.grpc_schema import MESSAGES
from vecsieve.adapters.weaviate.grpc_write import WeaviateGrpcWrites
from vecsieve.adapters.wire.protobuf import length_field
from vecsieve.adapters.writes import WriteNeeds

COUNTERPARTS = {
    "Search": "SearchRequest",
    "Hybrid": "Hybrid",
    "Keywords": "BM25",
    "NearVector": "NearVector",
    "NearOne": "NearOne",
    "NearText": "NearText",
    "Targets": "Targets",
    "ForTarget": "VectorForTarget",
    "Vectors": "Vectors",
    "MetadataRequest": "MetadataRequest",
    "PropertiesRequest": "PropertiesRequest",
    "ReferenceRequest": "RefPropertiesRequest",
    "ObjectRequest": "ObjectRequest",
    "Reply": "SearchReply",
    "Results": "SearchReply",
    "Result": "SearchResult",
    "Metadata": "MetadataResult",
    "Properties": "PropertiesResult",
    "Limit": "SearchRequest",
    "Struct": "Properties",
    "BatchDelete": "BatchDeleteRequest",
    "Value": "Value",
    "List": "ListValue",
    "Packed": "Packed",
    "Bools": "Bools",
    "Objects": "Objects",
    "Texts": "Texts",
    "Batch": "BatchObjectsRequest",
    "Object": "BatchObject",
    "Given": "BatchProperties",
    "NumberArray": "NumberArray",
    "IntArray": "IntArray",
    "TextArray": "TextArray",
    "BoolArray": "BoolArray",
    "Written": "BatchObjectsReply",
    "Error": "BatchError",
}
# Messages in which nothing may be unknown, and those that are written again in the order of their fields.
WHOLE = (
    *("Search", "Hybrid", "Keywords", "NearVector", "NearOne", "NearText", "Targets", "ForTarget", "Vectors"),
    *("MetadataRequest", "PropertiesRequest", "ReferenceRequest", "ObjectRequest", "Batch", "Object", "Given"),
    *("Result", "Metadata", "Properties"),
)


@pytest.mark.parametrize("name", COUNTERPARTS)
def test_the_schema_is_a_part_of_the_servers(name: str) -> None:
    check_part(MESSAGES[name], message_type(COUNTERPARTS[name]))


def test_every_message_of_the_schema_is_compared() -> None:
    assert MESSAGES.keys() - COUNTERPARTS.keys() == {"Pair", "Entry", "ListValue"}


@pytest.mark.parametrize("name", WHOLE)
def test_what_is_refused_or_written_again_is_named_whole(name: str) -> None:
    assert numbers(MESSAGES[name]) == numbers(message_type(COUNTERPARTS[name]))


MANY = 900_000


@pytest.mark.parametrize(
    "body",
    [
        b"\x0a\x00" * MANY,
        length_field(1, b"\x0a\x00" * MANY),
        length_field(1, length_field(3, length_field(1, b"\x0a\x00" * MANY))),
        length_field(1, length_field(23, b"\x0a\x00" * MANY)),
    ],
    ids=["objects", "fields", "properties", "vectors"],
)
def test_a_batch_of_too_many_fields_is_not_read(body: bytes) -> None:
    write = Operation(backend="weaviate", name="batch", collection="Docs")
    known = Schema(name="Docs", types={}, distances={"": "cosine"})
    with pytest.raises(UnsupportedError):
        WeaviateGrpcWrites().parse(write, body, WriteNeeds(vector_name=None, keys=(), most=10**9, known=known))


@pytest.mark.parametrize(
    "body",
    [
        b"\x12\x00" * MANY,
        length_field(2, length_field(2, b"\x0a\x00" * MANY)),
        length_field(2, length_field(1, length_field(11, b"\x0a\x00" * MANY))),
    ],
    ids=["results", "metadata", "properties"],
)
def test_a_reply_of_too_many_fields_is_not_read(body: bytes) -> None:
    adapter, operation = WeaviateGrpc(), Operation(backend="weaviate", name="search", collection="Docs")
    call = adapter.parse_request(operation, search(limit=5, near_vector={"vectors": [single([1.0])]}), Needs())
    with pytest.raises(MalformedReplyError, match="too_many_parts"):
        adapter.parse_reply(call, body)
