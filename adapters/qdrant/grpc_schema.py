"""Qdrant's messages, as far as they are read or changed. Numbers and names are those of its own schema, which a test compares."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ..wire.protobuf import Messages
from ..wire.schema import compiled, counted
from ..wire.values import NESTED, Values

_VECTORS = {
    # Dense numbers are the bytes that pack them. A vector of a reply or of a write: its old fields, and since 1.17 one of three messages.
    "Vector": "1 data bytes*, 2 indices Indices, 3 vectors_count uint32, 101 dense Dense, 102 sparse Sparse, 103 multi_dense Multi",
    "Indices": "1 data uint32*",
    "Dense": "1 data bytes*",
    "Sparse": "1 values float*, 2 indices uint32*",
    "Multi": "1 vectors Dense*",
    "Vectors": "1 vector Vector, 2 vectors NamedVectors",
    "NamedVectors": "1 vectors map:Vector",
}
_REPLIES = {
    # A reply with its results opaque: hits, or the lists of a batch.
    "Reply": "1 result bytes*",
    # A list whose points are read.
    "List": "1 result Point*",
    "Point": "1 id Id, 2 payload map:Value, 3 score float, 5 version uint64, 6 vectors bytes, 7 shard_key bytes",
    "Value": (
        "1 null_value uint64, 2 double_value double, 3 integer_value int64, 4 string_value bytes, 5 bool_value bool, "
        "6 struct_value bytes, 7 list_value bytes"
    ),
    **NESTED,
    "Id": "1 num uint64, 2 uuid bytes",
    # A point whose payload keys, vectors or score are taken out or replaced. All fields are named: they keep their places.
    "Hit": "1 id bytes*, 2 payload Entry*, 3 score float, 5 version uint64, 6 vectors HitVectors, 7 shard_key bytes*, 8 order_value bytes*",
    "Payload": "2 payload Entry*",
    "HitVectors": "1 vector bytes*, 2 vectors HitNamed",
    "HitNamed": "1 vectors HitVector*",
    "HitVector": "1 key bytes, 2 value bytes*",
}

_REQUESTS = {
    "Query": (
        "1 collection_name bytes*, 2 prefetch Prefetch*, 3 query Variant, 4 using bytes, 5 filter bytes*, 6 params bytes*, "
        "7 score_threshold float, 8 limit uint64, 9 offset uint64, 10 with_vectors WithVectors, 11 with_payload WithPayload, "
        "12 read_consistency bytes*, 13 shard_key_selector bytes*, 14 lookup_from bytes*, 15 timeout uint64"
    ),
    "Prefetch": (
        "1 prefetch Prefetch*, 2 query Variant, 3 using bytes, 4 filter bytes*, 5 params bytes*, 6 score_threshold float, "
        "7 limit uint64, 8 lookup_from bytes*"
    ),
    "Variant": (
        "1 nearest Input, 2 recommend bytes*, 3 discover bytes*, 4 context bytes*, 5 order_by bytes*, 6 fusion uint32, "
        "7 sample uint32, 8 formula bytes*, 9 nearest_with_mmr bytes*, 10 rrf Rrf, 11 relevance_feedback bytes*"
    ),
    "Input": (
        "1 id bytes*, 2 dense Dense, 3 sparse bytes*, 4 multi_dense bytes*, 5 document bytes*, 6 image bytes*, 7 object bytes*"
    ),
    "Rrf": "1 k uint32, 2 weights float*",
    "Filter": "2 must bytes*, 3 must_not bytes*",
    "Search": (
        "1 collection_name bytes*, 2 vector bytes*, 3 filter bytes*, 4 limit uint64, 6 with_payload WithPayload, 7 params bytes*, "
        "8 score_threshold float, 9 offset uint64, 10 vector_name bytes, 11 with_vectors WithVectors, "
        "12 read_consistency bytes*, 13 timeout uint64, 14 shard_key_selector bytes*, 15 sparse_indices bytes*"
    ),
    "Recommend": (
        "1 collection_name bytes*, 2 positive bytes*, 3 negative bytes*, 4 filter bytes*, 5 limit uint64, "
        "7 with_payload WithPayload, 8 params bytes*, 9 score_threshold float, 10 offset uint64, 11 using bytes, "
        "12 with_vectors WithVectors, 13 lookup_from bytes*, 14 read_consistency bytes*, 16 strategy uint32, "
        "17 positive_vectors bytes*, 18 negative_vectors bytes*, 19 timeout uint64, 20 shard_key_selector bytes*"
    ),
    "Discover": (
        "1 collection_name bytes*, 2 target bytes*, 3 context bytes*, 4 filter bytes*, 5 limit uint64, "
        "6 with_payload WithPayload, 7 params bytes*, 8 offset uint64, 9 using bytes, 10 with_vectors WithVectors, "
        "11 lookup_from bytes*, 12 read_consistency bytes*, 13 timeout uint64, 14 shard_key_selector bytes*"
    ),
    # The batch of any of these.
    "Batch": "1 collection_name bytes*, 2 searches bytes*, 3 read_consistency bytes*, 4 timeout uint64",
    "WithVectors": "1 enable bool, 2 include Names",
    "WithPayload": "1 enable bool, 2 include Names, 3 exclude Names",
    # VectorsSelector.names, PayloadIncludeSelector.fields, PayloadExcludeSelector.fields.
    "Names": "1 names bytes*",
}

_WRITES = {
    "Upsert": (
        "1 collection_name bytes*, 2 wait bool, 3 points bytes*, 4 ordering bytes*, 5 shard_key_selector bytes*, "
        "6 update_filter bytes*, 7 timeout uint64, 8 update_mode uint32"
    ),
    "Written": "1 id Id, 3 payload Entry*, 4 vectors Vectors",
    "Wait": "2 wait bool",
    "Answer": "1 result Updated, 2 time double",
    "Updated": "2 status uint32",
    "Get": "1 collection_name bytes*, 2 ids Id*, 4 with_payload WithPayload, 5 with_vectors WithVectors, 7 shard_key_selector bytes*",
    # A filter, and parameters of a search, as the write gate makes them.
    "Where": "1 should Condition*, 2 must Condition*",
    "Condition": "1 field FieldCondition, 3 has_id Ids, 4 filter Where",
    "FieldCondition": "1 key bytes, 2 match Match",
    "Match": "1 keyword bytes, 2 integer int64, 3 boolean bool",
    "Params": "3 quantization Quantization",
    "Quantization": "2 rescore bool",
    "Stored": "1 id Id, 2 payload Entry*, 4 vectors Vectors",
    "ShardKeys": "1 shard_keys ShardKey*",
    "ShardKey": "1 keyword bytes, 2 number uint64",
    "Selector": "1 points Ids, 2 filter Where",
    "Ids": "1 ids Id*",
    # Calls that delete or change points, and the same among updates. DeletePoints is ClearPayloadPoints as well.
    "Deletion": "1 collection_name bytes*, 2 wait bool, 3 points Selector, 5 shard_key_selector bytes*",
    "SetPayload": "5 points_selector Selector, 7 shard_key_selector bytes*",
    "UpdateVectors": "3 points WithId*, 5 shard_key_selector bytes*",
    "DeleteVectors": "3 points_selector Selector, 6 shard_key_selector bytes*",
    "WithId": "1 id Id",
    "Updates": "3 operations Update*",
    "Update": (
        "1 upsert UpdatedPoints, 2 delete_deprecated Selector, 3 set_payload UpdatedPayload, 4 overwrite_payload UpdatedPayload, "
        "5 delete_payload UpdatedPayload, 6 clear_payload_deprecated Selector, 7 update_vectors UpdatedPoints, "
        "8 delete_vectors UpdatedVectors, 9 delete_points UpdatedSelector, 10 clear_payload UpdatedSelector"
    ),
    "UpdatedPoints": "1 points WithId*, 2 shard_key_selector bytes*",
    "UpdatedPayload": "2 points_selector Selector, 3 shard_key_selector bytes*",
    "UpdatedVectors": "1 points_selector Selector, 3 shard_key_selector bytes*",
    "UpdatedSelector": "1 points Selector, 2 shard_key_selector bytes*",
    "ShardDeletion": "2 request bytes*",
    # The distance of a collection's vectors.
    "Info": "1 result CollectionInfo",
    "CollectionInfo": "7 config Config",
    "Config": "1 params CollectionParams",
    "CollectionParams": "5 vectors_config VectorsConfig",
    "VectorsConfig": "1 params VectorParams, 2 params_map ParamsMap",
    "ParamsMap": "1 map map:VectorParams",
    "VectorParams": "2 distance uint32",
}

# Of its own, private schema: nothing that other parts of the process register can clash with it.
MESSAGES = compiled("vecsieve.qdrant", _VECTORS | _REPLIES | _REQUESTS | _WRITES)
proto: Any = SimpleNamespace(**MESSAGES)
VALUES = Values(MESSAGES)

SEARCHES = ("query", "search", "recommend", "discover")
_PARSED = counted(MESSAGES)
# What is counted of searches, and of large messages: `batch` and `list` of replies, `upsert`, `deletion`, `updates`. Payloads are not counted.
COUNTED: Messages = {
    **_PARSED,
    **{name: _PARSED[name.title()] for name in SEARCHES},
    **{f"{name}_batch": {2: name} for name in SEARCHES},
    "batch": {1: "list"},
    "list": _PARSED["List"],
    "Point": {6: "Vectors"},
    "upsert": {3: "Written"},
    "Written": {4: "Vectors"},
    "Vectors": {2: "NamedVectors"},
    "NamedVectors": {},
    "updates": _PARSED["Updates"],
    # Selectors and points have different numbers in each of these calls.
    "deletion": dict.fromkeys((1, 2, 3, 5), "Selector"),
}
