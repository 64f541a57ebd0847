"""The messages of Milvus's searches for tests.

The table is written from milvus-proto. Two fields are no part of it: what a newer server may send.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from support.grpc.message_tables import classes

MESSAGES: Mapping[str, str] = {
    "KeyValuePair": "1 key string | 2 value string",
    "PlaceholderValue": "1 tag string | 2 type int32 | 3 values bytes* | 4 element_level bool",
    "PlaceholderGroup": "1 placeholders PlaceholderValue*",
    "SearchRequest": (
        "2 db_name string | 3 collection_name string | 4 partition_names string* | 5 dsl string"
        " | 6 placeholder_group bytes | 7 dsl_type int32 | 8 output_fields string* | 9 search_params KeyValuePair*"
        " | 11 guarantee_timestamp uint64 | 12 nq int64 | 14 consistency_level int32 | 15 use_default_consistency bool"
        " | 16 search_by_primary_keys bool | 19 function_score Status | 22 ids IDs"
    ),
    "HybridSearchRequest": (
        "2 db_name string | 3 collection_name string | 4 partition_names string* | 5 requests SearchRequest*"
        " | 6 rank_params KeyValuePair* | 8 guarantee_timestamp uint64 | 10 output_fields string*"
        " | 11 consistency_level int32 | 12 use_default_consistency bool"
    ),
    "Status": "1 error_code int32 | 2 reason string | 3 code int32",
    "BoolArray": "1 data bool*",
    "IntArray": "1 data int32*",
    "LongArray": "1 data int64*",
    "FloatArray": "1 data float*",
    "DoubleArray": "1 data double*",
    "StringArray": "1 data string*",
    "BytesArray": "1 data bytes*",
    "ArrayArray": "1 data ScalarField* | 2 element_type int32",
    "ScalarField": (
        "1 bool_data BoolArray | 2 int_data IntArray | 3 long_data LongArray | 4 float_data FloatArray"
        " | 5 double_data DoubleArray | 6 string_data StringArray | 7 bytes_data BytesArray | 8 array_data ArrayArray"
        " | 9 json_data BytesArray | 10 geometry_data BytesArray | 11 timestamptz_data LongArray | 17 valid_data bool*"
        " | 40 unknown_data LongArray"
    ),
    "SparseFloatArray": "1 contents bytes* | 2 dim int64",
    "VectorArray": "1 dim int64 | 2 data VectorField* | 3 element_type int32",
    "VectorField": (
        "1 dim int64 | 2 float_vector FloatArray | 3 binary_vector bytes | 4 float16_vector bytes"
        " | 5 bfloat16_vector bytes | 6 sparse_float_vector SparseFloatArray | 7 int8_vector bytes"
        " | 8 vector_array VectorArray | 9 valid_data bool*"
    ),
    "StructArrayField": "1 fields FieldData*",
    "FieldData": (
        "1 type int32 | 2 field_name string | 3 scalars ScalarField | 4 vectors VectorField | 5 field_id int64"
        " | 6 is_dynamic bool | 7 valid_data bool* | 8 struct_arrays StructArrayField | 30 unknown string"
    ),
    "IDs": "1 int_id LongArray | 2 str_id StringArray | 3 uuid_id BytesArray",
    "SearchResultData": (
        "1 num_queries int64 | 2 top_k int64 | 3 fields_data FieldData* | 4 scores float* | 5 ids IDs | 6 topks int64*"
        " | 7 output_fields string* | 8 group_by_field_value FieldData | 9 all_search_count int64 | 10 distances float*"
        " | 12 recalls float* | 13 primary_field_name string | 14 highlight_results Status* | 15 element_indices LongArray"
    ),
    "SearchResults": "1 status Status | 2 results SearchResultData | 3 collection_name string | 4 session_ts uint64",
    "FieldSchema": (
        "1 fieldID int64 | 2 name string | 3 is_primary_key bool | 5 data_type int32 | 6 type_params KeyValuePair* | 8 autoID bool"
        " | 10 element_type int32 | 11 default_value BoolArray | 15 nullable bool | 16 is_function_output bool"
    ),
    "CollectionSchema": "1 name string | 4 fields FieldSchema* | 5 enable_dynamic_field bool",
    "WriteRequest": (
        "2 db_name string | 3 collection_name string | 4 partition_name string | 5 fields_data FieldData*"
        " | 6 hash_keys int32* | 7 num_rows int32 | 8 schema_timestamp uint64 | 9 partial_update bool | 10 namespace string"
    ),
    "DeleteRequest": "2 db_name string | 3 collection_name string | 4 partition_name string | 5 expr string | 6 hash_keys int32*",
    "MutationResult": (
        "1 status Status | 2 IDs IDs | 3 succ_index int32* | 4 err_index int32* | 5 acknowledged bool | 6 insert_cnt int64"
        " | 7 delete_cnt int64 | 8 upsert_cnt int64 | 9 timestamp uint64"
    ),
    "QueryRequest": (
        "2 db_name string | 3 collection_name string | 4 expr string | 5 output_fields string* | 6 partition_names string*"
        " | 11 consistency_level int32 | 12 use_default_consistency bool"
    ),
    "QueryResults": "1 status Status | 2 fields_data FieldData* | 3 collection_name string",
    "IndexDescription": "1 index_name string | 3 params KeyValuePair* | 4 field_name string",
    "DescribeIndexResponse": "1 status Status | 2 index_descriptions IndexDescription*",
    "DescribeCollectionRequest": "2 db_name string | 3 collection_name string",
    "DescribeCollectionResponse": "1 status Status | 2 schema CollectionSchema | 3 collectionID int64",
}

message_type = classes("milvus", MESSAGES)


def pairs(message: Any, **values: object) -> None:
    """Add keys and values to a list of parameters."""
    for key, value in values.items():
        message.add(key=key, value=str(value))
