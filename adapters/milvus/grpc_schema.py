"""Milvus' messages, as far as they are read or changed. Numbers and names are those of its own schema, which a test compares.

Packed numbers of a fixed size are declared as the bytes that pack them; integers are parsed, because their sizes vary.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ..wire.protobuf import Messages
from ..wire.schema import compiled, counted
from . import calls

_PAIR = "1 key bytes, 2 value bytes"
_COLUMNS = {
    # FieldData. All fields of a column are named: an unknown one may have an element for each row.
    "Column": (
        "1 type uint32, 2 field_name bytes, 3 scalars Scalars, 4 vectors Vectors, 5 field_id uint64, 6 is_dynamic bool, "
        "7 valid_data bool*, 8 struct_arrays Structs"
    ),
    "Scalars": (
        "1 bool_data Integers, 2 int_data Integers, 3 long_data Integers, 4 float_data Elements, 5 double_data Elements, "
        "6 string_data Elements, 7 bytes_data Elements, 8 array_data Elements, 9 json_data Elements, 10 geometry_data Elements, "
        "11 timestamptz_data Integers, 12 geometry_wkt_data Elements, 13 mol_data Elements, 14 mol_smiles_data Elements, "
        "15 date_data Integers, 16 time_data Integers, 17 valid_data bool*"
    ),
    "Vectors": (
        "1 dim uint64, 2 float_vector Elements, 3 binary_vector bytes*, 4 float16_vector bytes*, 5 bfloat16_vector bytes*, "
        "6 sparse_float_vector Sparse, 7 int8_vector bytes*, 8 vector_array Lists, 9 valid_data bool*"
    ),
    "Structs": "1 fields Column*",
    "Integers": "1 data int64*",
    # Texts, documents, or arrays, of which each is a ScalarField; numbers of a fixed size.
    "Elements": "1 data bytes*, 2 element_type uint32",
    "Sparse": "1 contents bytes*, 2 dim uint64",
    "Lists": "1 dim uint64, 2 data bytes*, 3 element_type uint32",
}
_REPLIES = {
    "Status": "1 error_code uint32, 2 reason bytes, 3 code uint32",
    "Answer": "1 status Status",
    "Reply": "1 status Status, 2 results Results",
    # 9, 12 and 13 are about the whole search or each of its queries. Others belong to groups, iterators, aggregations and highlights.
    "Results": (
        "1 num_queries uint64, 2 top_k uint64, 3 fields_data Column*, 4 scores bytes*, 5 ids Ids, 6 topks uint64*, "
        "7 output_fields bytes*, 9 all_search_count uint64, 10 distances bytes*, 12 recalls bytes*, 13 primary_field_name bytes*"
    ),
    "Ids": "1 int_id Integers, 2 str_id Elements",
    "Queried": "1 status Status, 2 fields_data Column*",
    "Mutation": "1 status Status, 2 IDs Ids, 3 succ_index uint32*, 4 err_index uint32*",
    "Description": "1 status Status, 2 schema Schema, 3 collectionID uint64",
    "Schema": "4 fields Field*, 5 enable_dynamic_field bool",
    "Field": (
        "2 name bytes, 3 is_primary_key bool, 5 data_type uint32, 6 type_params Pair*, 8 autoID bool, 10 element_type uint32, "
        "11 default_value bytes*, 15 nullable bool"
    ),
    "Indexes": "1 status Status, 2 index_descriptions Index*",
    "Index": "3 params Pair*, 4 field_name bytes",
    "Pair": _PAIR,
}
_REQUESTS = {
    # Not supported: ids, scoring functions, highlights, aggregations.
    "Search": (
        "1 base bytes*, 2 db_name bytes*, 3 collection_name bytes*, 4 partition_names bytes*, 5 dsl bytes*, "
        "6 placeholder_group bytes*, 7 dsl_type uint32, 8 output_fields bytes*, 9 search_params Pair*, 10 travel_timestamp uint64, "
        "11 guarantee_timestamp uint64, 12 nq uint64, 13 not_return_all_meta bool, 14 consistency_level uint32, "
        "15 use_default_consistency bool, 16 search_by_primary_keys bool, 18 expr_template_values bytes*, 20 namespace bytes*"
    ),
    "HybridSearch": (
        "1 base bytes*, 2 db_name bytes*, 3 collection_name bytes*, 4 partition_names bytes*, 5 requests Search*, "
        "6 rank_params Pair*, 7 travel_timestamp uint64, 8 guarantee_timestamp uint64, 9 not_return_all_meta bool, "
        "10 output_fields bytes*, 11 consistency_level uint32, 12 use_default_consistency bool, 14 namespace bytes*"
    ),
    "Group": "1 placeholders Placeholder*",
    # Not supported: the level of an embedding list.
    "Placeholder": "1 tag bytes*, 2 type uint32, 3 values bytes*",
    "Query": "2 db_name bytes*, 3 collection_name bytes*, 4 expr bytes, 5 output_fields bytes*",
    "Delete": "2 db_name bytes*, 3 collection_name bytes*, 4 partition_name bytes*, 5 expr bytes",
}
_INSERT = (
    "1 base bytes*, 2 db_name bytes*, 3 collection_name bytes*, 4 partition_name bytes*, 5 fields_data Column*, 6 hash_keys bytes*, "
    "7 num_rows uint32, 8 schema_timestamp uint64"
)
# Not read: namespaces, and operations on fields.
_WRITES = {"Insert": _INSERT, "Upsert": f"{_INSERT}, 9 partial_update bool"}

# Of its own, private schema: nothing that other parts of the process register can clash with it.
MESSAGES = compiled("vecsieve.milvus", _COLUMNS | _REPLIES | _REQUESTS | _WRITES)
proto: Any = SimpleNamespace(**MESSAGES)

_PARSED = counted(MESSAGES)
# What is counted of a search, and of large messages: `upsert`, and replies.
COUNTED: Messages = {
    **_PARSED,
    calls.SEARCH: _PARSED["Search"] | {6: "Group"},
    calls.HYBRID_SEARCH: _PARSED["HybridSearch"] | {5: calls.SEARCH},
    "upsert": _PARSED["Upsert"],
}
