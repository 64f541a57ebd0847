"""Weaviate's messages for tests. The tables are written from weaviate 1.39."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from support.grpc.message_tables import classes

_NEAR_ONE = (
    "1 id string | 2 certainty double? | 3 distance double? | 4 target_vectors string* | 5 targets Targets"
    " | 6 selection Selection"
)
_PROPERTIES_OF_BATCH = (
    "1 non_ref_properties Struct | 2 single_target_ref_props TextArray* | 3 multi_target_ref_props TextArray*"
    " | 4 number_array_properties NumberArray*"
    " | 5 int_array_properties IntArray* | 6 text_array_properties TextArray* | 7 boolean_array_properties BoolArray*"
    " | 8 object_properties Filters* | 9 object_array_properties Filters* | 10 empty_list_props string*"
)
MESSAGES: Mapping[str, str] = {
    "SearchRequest": (
        "1 collection string | 10 tenant string | 11 consistency_level int32? | 20 properties PropertiesRequest"
        " | 21 metadata MetadataRequest | 22 group_by GroupBy | 30 limit uint32 | 31 offset uint32 | 32 autocut uint32"
        " | 33 after string | 34 sort_by SortBy* | 40 filters Filters | 41 hybrid_search Hybrid | 42 bm25_search BM25"
        " | 43 near_vector NearVector | 44 near_object NearOne | 45 near_text NearText | 46 near_image NearOne | 47 near_audio NearOne"
        " | 48 near_video NearOne | 49 near_depth NearOne | 50 near_thermal NearOne | 51 near_imu NearOne"
        " | 60 generative Filters | 61 rerank Rerank | 62 boost Filters | 100 uses_123_api bool | 101 uses_125_api bool"
        " | 102 uses_127_api bool"
    ),
    "PropertiesRequest": (
        "1 non_ref_properties string* | 2 ref_properties RefPropertiesRequest* | 3 object_properties ObjectRequest*"
        " | 11 return_all_nonref_properties bool"
    ),
    "RefPropertiesRequest": (
        "1 reference_property string | 2 properties PropertiesRequest | 3 metadata MetadataRequest | 4 target_collection string"
    ),
    "ObjectRequest": "1 prop_name string | 2 primitive_properties string* | 3 object_properties ObjectRequest*",
    "MetadataRequest": (
        "1 uuid bool | 2 vector bool | 3 creation_time_unix bool | 4 last_update_time_unix bool | 5 distance bool"
        " | 6 certainty bool | 7 score bool | 8 explain_score bool | 9 is_consistent bool | 10 vectors string*"
        " | 11 query_profile bool"
    ),
    "GroupBy": "1 path string*",
    "SortBy": "2 path string*",
    "Rerank": "1 property string",
    "Filters": (
        "1 operator int32 | 3 filters Filters* | 4 value_text string? | 5 value_int int64? | 9 value_text_array Texts"
        " | 20 target FilterTarget"
    ),
    "FilterTarget": "1 property string",
    "Targets": "1 target_vectors string* | 2 combination int32 | 4 weights_for_targets Pair*",
    "Pair": "1 key string | 2 value bytes",
    "Selection": "1 mmr Mmr",
    "Mmr": "1 limit uint32? | 2 balance float?",
    "Vectors": "1 name string | 2 index uint64 | 3 vector_bytes bytes | 4 type int32",
    "VectorForTarget": "1 name string | 2 vector_bytes bytes | 3 vectors Vectors*",
    "NearVector": (
        "1 vector float* | 2 certainty double? | 3 distance double? | 4 vector_bytes bytes | 5 target_vectors string*"
        " | 6 targets Targets | 7 vector_per_target {bytes} | 8 vector_for_targets VectorForTarget* | 9 vectors Vectors*"
        " | 10 selection Selection"
    ),
    "NearOne": _NEAR_ONE,
    "NearText": (
        "1 query string* | 2 certainty double? | 3 distance double? | 4 move_to Move? | 5 move_away Move?"
        " | 6 target_vectors string* | 7 targets Targets | 8 selection Selection"
    ),
    "Move": "1 force float | 2 concepts string* | 3 uuids string*",
    "Hybrid": (
        "1 query string | 2 properties string* | 3 vector float* | 4 alpha float | 5 fusion_type int32"
        " | 6 vector_bytes bytes | 7 target_vectors string* | 8 near_text NearText | 9 near_vector NearVector"
        " | 10 targets Targets | 11 bm25_search_operator Filters | 12 alpha_param float? | 13 use_alpha_param bool | 14 selection Selection"
        " | 20 vector_distance float? | 21 vectors Vectors*"
    ),
    "BM25": "1 query string | 2 properties string* | 3 search_operator Filters",
    "SearchReply": (
        "1 took float | 2 results SearchResult* | 3 generative_grouped_result string? | 4 group_by_results GroupByResult*"
        " | 6 query_profile Texts"
    ),
    "GroupByResult": (
        "1 name string | 2 min_distance float | 3 max_distance float | 4 number_of_objects int64 | 5 objects SearchResult*"
    ),
    "SearchResult": "1 properties PropertiesResult | 2 metadata MetadataResult | 3 generative Filters",
    "MetadataResult": (
        "1 id string | 2 vector float* | 3 creation_time_unix int64 | 4 creation_time_unix_present bool"
        " | 5 last_update_time_unix int64 | 6 last_update_time_unix_present bool | 7 distance float"
        " | 8 distance_present bool | 9 certainty float | 10 certainty_present bool | 11 score float"
        " | 12 score_present bool | 13 explain_score string | 14 explain_score_present bool | 15 is_consistent bool?"
        " | 16 generative string | 17 generative_present bool | 18 is_consistent_present bool | 19 vector_bytes bytes"
        " | 20 id_as_bytes bytes | 21 rerank_score double | 22 rerank_score_present bool | 23 vectors Vectors*"
    ),
    "PropertiesResult": (
        "1 old_properties Struct | 2 ref_props RefPropertiesResult* | 3 target_collection string"
        " | 4 metadata MetadataResult | 5 number_array_properties NumberArray* | 6 int_array_properties IntArray*"
        " | 7 text_array_properties TextArray* | 8 boolean_array_properties BoolArray* | 9 object_properties Filters*"
        " | 10 object_array_properties Filters* | 11 non_ref_props Properties | 12 ref_props_requested bool"
    ),
    "RefPropertiesResult": "1 properties PropertiesResult* | 2 prop_name string",
    "Properties": "1 fields {Value}",
    "Value": (
        "1 number_value double? | 2 string_value string? | 3 bool_value bool? | 4 object_value Properties"
        " | 5 list_value ListValue | 6 date_value string? | 7 uuid_value string? | 8 int_value int64?"
        " | 9 geo_value Filters | 10 blob_value string? | 12 null_value int32? | 13 text_value string?"
    ),
    "ListValue": (
        "2 number_values Packed | 3 bool_values Bools | 4 object_values Objects | 5 date_values Texts | 6 uuid_values Texts"
        " | 7 int_values Packed | 8 text_values Texts"
    ),
    "Packed": "1 values bytes",
    "Bools": "1 values bool*",
    "Texts": "1 values string*",
    "Objects": "1 values Properties*",
    "BatchDeleteRequest": "1 collection string | 4 dry_run bool | 6 tenant string?",
    "BatchObjectsRequest": "1 objects BatchObject* | 2 consistency_level int32?",
    "BatchObject": (
        "1 uuid string | 2 vector float* | 3 properties BatchProperties | 4 collection string | 5 tenant string"
        " | 6 vector_bytes bytes | 23 vectors Vectors*"
    ),
    "BatchProperties": _PROPERTIES_OF_BATCH,
    "IntArray": "1 values int64* | 2 prop_name string",
    "NumberArray": "1 values double* | 2 prop_name string | 3 values_bytes bytes",
    "BoolArray": "1 values bool* | 2 prop_name string",
    "TextArray": "1 values string* | 2 prop_name string",
    "BatchObjectsReply": "1 took float | 2 errors BatchError*",
    "BatchError": "1 index int32 | 2 error string",
    "HealthReply": "1 status int32",
}

message_type = classes("weaviate", MESSAGES)


def packed(values: Any) -> bytes:
    """A vector as its client writes it."""
    return np.asarray(values, dtype="<f4").tobytes()


def single(values: Any, name: str = "") -> Any:
    """A vector of one row."""
    return message_type("Vectors")(name=name, vector_bytes=packed(values), type=1)
