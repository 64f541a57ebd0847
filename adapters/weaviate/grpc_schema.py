"""Weaviate's messages, as far as they are read or changed. Numbers and names are those of its own schema, which a test compares."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ..wire import values
from ..wire.protobuf import Messages
from ..wire.schema import compiled, counted
from ..wire.values import NESTED
from . import calls

_NEAR = "2 certainty double, 3 distance double, "
_REQUESTS = {
    "Search": (
        "1 collection bytes, 10 tenant bytes, 11 consistency_level uint64, 20 properties PropertiesRequest, 21 metadata MetadataRequest, "
        "22 group_by bytes, 30 limit uint64, 31 offset uint64, 32 autocut uint64, 33 after bytes, 34 sort_by bytes*, 40 filters bytes, "
        "41 hybrid_search Hybrid, 42 bm25_search Keywords, 43 near_vector NearVector, 44 near_object NearOne, 45 near_text NearText, "
        "46 near_image NearOne, 47 near_audio NearOne, 48 near_video NearOne, 49 near_depth NearOne, 50 near_thermal NearOne, "
        "51 near_imu NearOne, 60 generative bytes, 61 rerank bytes, 62 boost bytes, 100 uses_123_api bool, 101 uses_125_api bool, "
        "102 uses_127_api bool"
    ),
    # Enough to ask for the default limit.
    "Limit": "1 collection bytes, 10 tenant bytes, 30 limit uint64",
    "Hybrid": (
        "1 query bytes, 2 properties bytes*, 3 vector bytes*, 4 alpha float, 5 fusion_type uint64, 6 vector_bytes bytes, "
        "7 target_vectors bytes*, 8 near_text NearText, 9 near_vector NearVector, 10 targets Targets, 11 bm25_search_operator bytes, "
        "12 alpha_param float, 13 use_alpha_param bool, 14 selection bytes, 20 vector_distance float, 21 vectors bytes*"
    ),
    "Keywords": "1 query bytes, 2 properties bytes*, 3 search_operator bytes",
    "NearVector": (
        f"1 vector bytes*, {_NEAR}4 vector_bytes bytes, 5 target_vectors bytes*, 6 targets Targets, 7 vector_per_target Pair*, "
        "8 vector_for_targets ForTarget*, 9 vectors Vectors*, 10 selection bytes"
    ),
    # Near an object, or media.
    "NearOne": f"1 id bytes, {_NEAR}4 target_vectors bytes*, 5 targets Targets, 6 selection bytes",
    "NearText": (
        f"1 query bytes*, {_NEAR}4 move_to bytes, 5 move_away bytes, 6 target_vectors bytes*, 7 targets Targets, 8 selection bytes"
    ),
    "Targets": "1 target_vectors bytes*, 2 combination uint64, 4 weights_for_targets bytes*",
    "Pair": "1 key bytes, 2 value bytes",
    "ForTarget": "1 name bytes, 2 vector_bytes bytes, 3 vectors Vectors*",
    "Vectors": "1 name bytes, 2 index uint64, 3 vector_bytes bytes, 4 type uint64",
    "MetadataRequest": (
        "1 uuid bool, 2 vector bool, 3 creation_time_unix bool, 4 last_update_time_unix bool, 5 distance bool, 6 certainty bool, "
        "7 score bool, 8 explain_score bool, 9 is_consistent bool, 10 vectors bytes*, 11 query_profile bool"
    ),
    "PropertiesRequest": (
        "1 non_ref_properties bytes*, 2 ref_properties ReferenceRequest*, 3 object_properties ObjectRequest*, "
        "11 return_all_nonref_properties bool"
    ),
    "ReferenceRequest": "1 reference_property bytes, 2 properties bytes, 3 metadata bytes, 4 target_collection bytes",
    "ObjectRequest": "1 prop_name bytes, 2 primitive_properties bytes*, 3 object_properties bytes*",
}

_REPLIES = {
    # A reply with its results opaque, and one whose results are read. What the client did not request is taken from a result: all fields of
    # its metadata are named, which keep their places then.
    "Reply": "1 took float, 2 results bytes*",
    "Results": "2 results Result*, 4 group_by_results bytes*",
    "Result": "1 properties Properties, 2 metadata Metadata, 3 generative bytes",
    "Metadata": (
        "1 id bytes, 2 vector bytes*, 3 creation_time_unix uint64, 4 creation_time_unix_present bool, 5 last_update_time_unix uint64, "
        "6 last_update_time_unix_present bool, 7 distance float, 8 distance_present bool, 9 certainty float, 10 certainty_present bool, "
        "11 score float, 12 score_present bool, 13 explain_score bytes, 14 explain_score_present bool, 15 is_consistent bool, "
        "16 generative bytes, 17 generative_present bool, 18 is_consistent_present bool, 19 vector_bytes bytes, 20 id_as_bytes bytes, "
        "21 rerank_score double, 22 rerank_score_present bool, 23 vectors Vectors*"
    ),
    # Fields 1 and 5 to 10 are of servers before 1.23.
    "Properties": (
        "1 old_properties bytes*, 2 ref_props bytes*, 3 target_collection bytes, 4 metadata bytes, 5 number_array_properties bytes*, "
        "6 int_array_properties bytes*, 7 text_array_properties bytes*, 8 boolean_array_properties bytes*, 9 object_properties bytes*, "
        "10 object_array_properties bytes*, 11 non_ref_props Struct, 12 ref_props_requested bool"
    ),
    "Value": (
        "1 number_value double, 2 string_value bytes, 3 bool_value bool, 4 object_value bytes, 5 list_value bytes, 6 date_value bytes, "
        "7 uuid_value bytes, 8 int_value int64, 10 blob_value bytes, 12 null_value uint64, 13 text_value bytes"
    ),
    **NESTED,
    # Of a list each kind is a message with the elements.
    "List": (
        "2 number_values Packed, 3 bool_values Bools, 4 object_values Objects, 5 date_values Texts, 6 uuid_values Texts, "
        "7 int_values Packed, 8 text_values Texts"
    ),
    "Packed": "1 values bytes",
    "Bools": "1 values bool*",
    "Objects": "1 values Struct*",
    "Texts": "1 values bytes*",
}

_WRITES = {
    "BatchDelete": "1 collection bytes, 4 dry_run bool, 6 tenant bytes",
    "Batch": "1 objects bytes*, 2 consistency_level uint64",
    "Object": (
        "1 uuid bytes, 2 vector bytes*, 3 properties Given, 4 collection bytes, 5 tenant bytes, 6 vector_bytes bytes, 23 vectors Vectors*"
    ),
    "Given": (
        "1 non_ref_properties bytes, 2 single_target_ref_props bytes*, 3 multi_target_ref_props bytes*, 4 number_array_properties bytes*, "
        "5 int_array_properties bytes*, 6 text_array_properties bytes*, 7 boolean_array_properties bytes*, 8 object_properties bytes*, "
        "9 object_array_properties bytes*, 10 empty_list_props bytes*"
    ),
    "NumberArray": "1 values double*, 2 prop_name bytes, 3 values_bytes bytes",
    "IntArray": "1 values int64*, 2 prop_name bytes",
    "TextArray": "1 values bytes*, 2 prop_name bytes",
    "BoolArray": "1 values bool*, 2 prop_name bytes",
    "Written": "1 took float, 2 errors Error*",
    "Error": "1 index uint64, 2 error bytes",
}

# Of its own, private schema: nothing that other parts of the process register can clash with it.
MESSAGES = compiled("vecsieve.weaviate", _REQUESTS | _REPLIES | _WRITES)
proto: Any = SimpleNamespace(**MESSAGES)

_PARSED = counted(MESSAGES)
# What is counted of a search, and of large messages: `reply` and `upsert`.
COUNTED: Messages = {
    **_PARSED,
    calls.SEARCH: _PARSED["Search"],
    "reply": _PARSED["Results"],
    "upsert": {1: "Object"},
    "Given": dict.fromkeys((1, 4, 5, 6, 7), "struct"),
    "Entry": {},
    **values.COUNTED,
}
