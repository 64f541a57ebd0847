"""The messages of Pinecone's gRPC service, and what the edge makes of them: JSON by proto3's mapping, and back.

The table says what goes over the wire in every version since 2024-07: fields were only added. Protobuf itself
reads and writes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from google.protobuf.message import DecodeError
from servers.pinecone.errors import Code, RefusalError, invalid

from support.grpc.message_tables import classes

Json = Any
Message = Any

MESSAGES: Mapping[str, str] = {
    "SparseValues": "1 indices uint32* | 2 values float*",
    "Vector": "1 id string | 2 values float* | 3 metadata Struct | 4 sparse_values SparseValues",
    "ScoredVector": "1 id string | 2 score float | 3 values float* | 4 metadata Struct | 5 sparse_values SparseValues",
    "Usage": "1 read_units uint32?",
    "Pagination": "1 next string",
    "UpsertRequest": "1 vectors Vector* | 2 namespace string",
    "UpsertResponse": "1 upserted_count uint32",
    "DeleteRequest": "1 ids string* | 2 delete_all bool | 3 namespace string | 4 filter Struct",
    "DeleteResponse": "",
    "FetchRequest": "1 ids string* | 2 namespace string",
    "FetchResponse": "1 vectors {Vector} | 2 namespace string | 3 usage Usage",
    "FetchByMetadataRequest": "1 namespace string | 2 filter Struct | 3 limit uint32? | 4 pagination_token string?",
    "FetchByMetadataResponse": "1 vectors {Vector} | 2 namespace string | 3 usage Usage | 4 pagination Pagination",
    "ListRequest": "1 prefix string? | 2 limit uint32? | 3 pagination_token string? | 4 namespace string",
    "ListItem": "1 id string",
    "ListResponse": "1 vectors ListItem* | 2 pagination Pagination | 3 namespace string | 4 usage Usage",
    "QueryVector": (
        "1 values float* | 2 top_k uint32 | 3 namespace string | 4 filter Struct | 5 sparse_values SparseValues"
    ),
    "QueryRequest": (
        "1 namespace string | 2 top_k uint32 | 3 filter Struct | 4 include_values bool | 5 include_metadata bool"
        " | 6 queries QueryVector* | 7 vector float* | 8 id string | 9 sparse_vector SparseValues"
        " | 10 scan_factor float? | 11 max_candidates uint32?"
    ),
    "SingleQueryResults": "1 matches ScoredVector* | 2 namespace string",
    "QueryResponse": "1 results SingleQueryResults* | 2 matches ScoredVector* | 3 namespace string | 4 usage Usage",
    "UpdateRequest": (
        "1 id string | 2 values float* | 3 set_metadata Struct | 4 namespace string | 5 sparse_values SparseValues"
        " | 6 filter Struct | 7 dry_run bool?"
    ),
    "UpdateResponse": "1 matched_records int32?",
    "DescribeIndexStatsRequest": "1 filter Struct",
    "NamespaceSummary": "1 vector_count uint32",
    "DescribeIndexStatsResponse": (
        "1 namespaces {NamespaceSummary} | 2 dimension uint32? | 3 index_fullness float | 4 total_vector_count uint32"
        " | 5 metric string? | 6 vector_type string? | 7 memory_fullness float? | 8 storage_fullness float?"
    ),
    "MetadataFieldProperties": "1 filterable bool",
    "MetadataSchema": "1 fields {MetadataFieldProperties}",
    "IndexedFields": "1 fields string*",
    "NamespaceDescription": (
        "1 name string | 2 record_count uint64 | 3 schema MetadataSchema | 4 indexed_fields IndexedFields"
    ),
    "ListNamespacesRequest": "1 pagination_token string? | 2 limit uint32? | 3 prefix string?",
    "ListNamespacesResponse": "1 namespaces NamespaceDescription* | 2 pagination Pagination | 3 total_count int32",
    "DescribeNamespaceRequest": "1 namespace string",
    "CreateNamespaceRequest": "1 name string | 2 schema MetadataSchema",
    "DeleteNamespaceRequest": "1 namespace string",
}

_STRUCT = "google.protobuf.Struct"
message_type = classes("pinecone", MESSAGES)
_UNREADABLE = Code(13, 500, "INTERNAL")


def as_json(name: str, raw: bytes) -> dict[str, Json]:
    """The message of these bytes as an object: camelCase names, what is not set left out. Raises RefusalError."""
    message = message_type(name)()
    try:
        message.ParseFromString(raw)
    except DecodeError:
        raise RefusalError(_UNREADABLE, f"Error parsing a {name}") from None
    return _object(message)


def as_bytes(name: str, value: Mapping[str, Json]) -> bytes:
    """The message that an object stands for; members that the message has no field for are left out."""
    message = message_type(name)()
    _fill(message, value)
    return bytes(message.SerializeToString(deterministic=True))


# json_format does most of what follows, a vector's number at a time: 150 ms for 50 x 1536, seconds for an upsert.


def _object(message: Message) -> dict[str, Json]:
    if message.DESCRIPTOR.full_name == _STRUCT:
        return {name: _plain(value) for name, value in message.fields.items()}
    return {field.json_name: _value(value) for field, value in message.ListFields()}


def _plain(value: Any) -> Json:
    """The JSON that a google.protobuf.Value holds; null where it holds nothing."""
    kind = value.WhichOneof("kind")
    if kind == "struct_value":
        return _object(value.struct_value)
    if kind == "list_value":
        return [_plain(item) for item in value.list_value.values]
    if kind == "number_value" and not math.isfinite(value.number_value):
        raise invalid(f"{value.number_value} is no number of JSON")
    return None if kind in {None, "null_value"} else getattr(value, kind)


def _value(value: Json) -> Json:
    if hasattr(value, "DESCRIPTOR"):  # first: a Struct passes for a mapping
        return _object(value)
    if isinstance(value, Mapping):
        return {name: _value(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_value(item) for item in value] if value and hasattr(value[0], "DESCRIPTOR") else list(value)
    return value


def _fill(message: Message, value: Mapping[str, Json]) -> None:
    from google.protobuf.json_format import ParseDict

    if message.DESCRIPTOR.full_name == _STRUCT:
        ParseDict(dict(value), message)
        return
    for field in message.DESCRIPTOR.fields:
        item = value.get(field.json_name, value.get(field.name))
        if item is not None:
            _set(message, field.name, item)


def _set(message: Message, name: str, item: Json) -> None:
    place = getattr(message, name)
    if hasattr(place, "get_or_create"):  # a map
        for key, one in item.items():
            _fill(place[key], one)
    elif hasattr(place, "add"):  # a list of messages
        for one in item:
            _fill(place.add(), one)
    elif hasattr(place, "extend"):
        place.extend(item)
    elif hasattr(place, "DESCRIPTOR"):
        place.SetInParent()
        _fill(place, item)
    else:
        setattr(message, name, type(place)(item))  # 64 bits stand as text in JSON
