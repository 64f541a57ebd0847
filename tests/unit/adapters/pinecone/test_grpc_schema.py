"""The messages of the adapter's schema, against those of the service as the emulator has them."""

from __future__ import annotations

from typing import Any

import pytest
from servers.pinecone.grpc_messages import message_type

from support.backends.writes import NOTHING
from support.grpc.partial_schemas import check_part, numbers
from support.grpc.wire_fields import number_field
from vecsieve.adapters.contract import MalformedReplyError, Needs, Operation, UnsupportedError
from vecsieve.adapters.pinecone.grpc import PineconeGrpc
from vecsieve.adapters.pinecone.grpc_schema import MESSAGES
from vecsieve.adapters.pinecone.grpc_write import PineconeGrpcWrites
from vecsieve.adapters.wire.protobuf import length_field
from vecsieve.adapters.writes import WriteNeeds

COUNTERPARTS: dict[str, Any] = {
    "Search": message_type("QueryRequest"),
    "Reply": message_type("QueryResponse"),
    "Matches": message_type("QueryResponse"),
    "Match": message_type("ScoredVector"),
    "Hit": message_type("ScoredVector"),
    "Sparse": message_type("SparseValues"),
    "Vectors": message_type("UpsertRequest"),
    "Vector": message_type("Vector"),
    "Stored": message_type("FetchResponse"),
    "Fetch": message_type("FetchRequest"),
    "Delete": message_type("DeleteRequest"),
    "DeleteNamespace": message_type("DeleteNamespaceRequest"),
    "Update": message_type("UpdateRequest"),
    "Statistics": message_type("DescribeIndexStatsResponse"),
}


@pytest.mark.parametrize("name", COUNTERPARTS)
def test_the_schema_is_a_part_of_the_services(name: str) -> None:
    check_part(MESSAGES[name], COUNTERPARTS[name])


def test_every_message_of_the_schema_is_compared() -> None:
    assert MESSAGES.keys() == COUNTERPARTS.keys()


@pytest.mark.parametrize("name", ["Match", "Hit", "Vectors", "Vector"])
def test_what_is_refused_or_written_again_is_named_whole(name: str) -> None:
    assert numbers(MESSAGES[name]) == numbers(COUNTERPARTS[name])


def test_a_query_is_named_whole_but_for_the_legacy_queries() -> None:
    assert numbers(MESSAGES["Search"]) | {"queries": 6} == numbers(message_type("QueryRequest"))


MANY = 900_000


@pytest.mark.parametrize(
    "body",
    [
        b"\x0a\x00" * MANY,
        length_field(1, b"\x0a\x00" * MANY),
        length_field(1, length_field(3, b"\x0a\x00" * MANY)),
    ],
    ids=["vectors", "fields", "metadata"],
)
def test_an_upsert_of_too_many_fields_is_not_read(body: bytes) -> None:
    write = Operation(backend="pinecone", name="upsert", collection="c")
    with pytest.raises(UnsupportedError):
        PineconeGrpcWrites().parse(write, body, WriteNeeds(vector_name=None, keys=(), most=10**9))


@pytest.mark.parametrize(
    "body",
    [b"\x12\x00" * MANY, length_field(2, length_field(1, b"a") + length_field(4, b"\x0a\x00" * MANY))],
    ids=["matches", "metadata"],
)
def test_a_reply_of_too_many_fields_is_not_read(body: bytes) -> None:
    adapter, query = PineconeGrpc(), Operation(backend="pinecone", name="query", collection="c")
    call = adapter.parse_request(query, number_field(2, 3) + length_field(7, b"\x00\x00\x80\x3f"), Needs())
    with pytest.raises(MalformedReplyError, match="too_many_parts"):
        adapter.parse_reply(call, body)


def test_a_reply_of_too_many_stored_vectors_is_not_read() -> None:
    with pytest.raises(MalformedReplyError):
        PineconeGrpcWrites().stored(NOTHING, b"\x0a\x00" * MANY)
