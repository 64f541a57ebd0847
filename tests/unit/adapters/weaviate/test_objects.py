"""Objects that are merged: their form, what properties hold, their message over gRPC."""

from __future__ import annotations

import json
import math
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.weaviate.messages import message_type, packed
from vecsieve.adapters.contract import RequestHead
from vecsieve.adapters.weaviate import deletions
from vecsieve.adapters.weaviate.calls import Schema
from vecsieve.adapters.weaviate.grpc_write import object_message
from vecsieve.adapters.weaviate.objects import FORM, can_hold, id_as_json

TYPES = {
    "text": "text", "i": "int", "n": "number", "is": "boolean", "at": "date", "key": "uuid", "raw": "blob", "where": "geoCoordinates",
    "tags": "text[]", "counts": "int[]", "sizes": "number[]", "flags": "boolean[]", "days": "date[]", "own": "object", "call": "phoneNumber",
    "ref": "Other",
}  # fmt: skip
SCHEMA = Schema(name="Docs", types=TYPES, distances={"": "cosine"})
ID = "00000000-0000-0000-0000-00000000000a"


def test_a_property_that_is_null_is_missing_and_names_begin_in_lower_case() -> None:
    assert FORM.payload_of({"properties": {"Text": "a", "none": None}}) == {"text": "a"}
    assert FORM.payload_of({"properties": None}) == FORM.payload_of({}) == {}
    coming = {"class": "Docs", "id": "b", "vector": [1], "properties": {"text": "b"}}
    assert FORM.given(coming, {"Text": "a", "none": None}, {"vectors": {"v": [2]}}) == {
        "class": "Docs",
        "id": "b",
        "vectors": {"v": [2]},
        "properties": {"text": "a"},
    }


@pytest.mark.parametrize(
    ("stored", "sent", "expected"),
    [
        ({"a": 1}, {"A": 1.0, "b": None}, True),
        ({"a": 1}, {"a": 2}, False),
        ({"a": 1}, {}, False),
        ({}, {"a": 1}, False),
        ({"at": "2026-01-01T00:00:00.5Z"}, {"at": "2026-01-01T01:00:00.500+01:00"}, True),
        ({"at": "2026-01-01T00:00:00Z"}, {"at": "2026-01-01T00:00:01Z"}, False),
        ({"at": "2026-13-01T00:00:00Z"}, {"at": "2026-13-01T00:00:00Z"}, True),
        ({"key": ID}, {"key": ID.upper()}, True),
        ({"keys": [ID]}, {"keys": [ID.upper()]}, True),
        ({"keys": [ID]}, {"keys": [ID, ID]}, False),
        (
            {"where": {"latitude": 48.137154, "longitude": 11.5}},
            {"where": {"latitude": 48.13715439, "longitude": 11.5}},
            True,
        ),
        ({"where": {"latitude": 48.2, "longitude": 11.5}}, {"where": {"latitude": 48.1, "longitude": 11.5}}, False),
        ({"call": {"input": "1", "valid": True}}, {"call": {"input": "1"}}, True),
        ({"call": {"input": "2", "valid": True}}, {"call": {"input": "1"}}, False),
        ({"ref": [{"beacon": "b", "href": "h"}]}, {"ref": [{"beacon": "b"}]}, True),
        ({"own": {"a": 1, "b": 2}}, {"own": {"a": 1}}, False),
        ({"own": {"a": 1}}, {"own": {"a": 1, "b": 2}}, False),
    ],
)
def test_an_object_is_the_same_however_the_server_writes_its_values(
    stored: dict[str, Any], sent: dict[str, Any], expected: bool
) -> None:
    assert FORM.same({"properties": stored}, {"properties": sent}) is expected


VALUE_CASES: dict[str, tuple[list[Any], list[Any]]] = {
    "text": (["", "größe"], [1, None, ["a"], "\ud800"]),
    "i": ([0, -(2**53), 2**53], [0.5, 1.0, True, "1", 2**53 + 1]),
    "n": ([0, 0.5, -1e300], [True, "1", math.inf, math.nan, 2**60]),
    "is": ([True], [0, "true"]),
    "at": (["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.123456789+01:00"], ["2026-01-01", "2026-13-01T00:00:00Z", 5]),
    "key": ([ID], ["a", 5]),
    "raw": (["YWJj"], ["a", "ü", "", 5]),
    "where": ([{"latitude": 1, "longitude": 2.5}], [{"latitude": 1}, {"latitude": 1, "longitude": "2"}, [1, 2]]),
    "tags": ([[], ["a", "b"]], ["a", [1], ["a", None]]),
    "counts": ([[1, 2]], [[1, 0.5], [True]]),
    "sizes": ([[1, 0.5]], [["a"]]),
    "flags": ([[True]], [[1]]),
    "days": ([["2026-01-01T00:00:00Z"]], [["a"]]),
    "own": ([], [{"a": 1}, 1]),
    "call": ([], [{"input": "1"}]),
    "ref": ([], [[{"beacon": "b"}]]),
    "new": ([], ["a", [1]]),
}


@pytest.mark.parametrize("name", VALUE_CASES)
def test_a_property_holds_values_of_its_type_and_what_the_client_sent_itself(name: str) -> None:
    good, bad = VALUE_CASES[name]
    assert [can_hold(SCHEMA, {"text": "x"}, {"text": "x", name: value}) for value in good] == [True] * len(good)
    assert [can_hold(SCHEMA, {}, {name: value}) for value in bad] == [False] * len(bad)
    assert all(can_hold(SCHEMA, {name: value}, {name: value}) for value in (*good, *bad))
    assert can_hold(SCHEMA, {name: 5}, {})


def test_a_message_has_lists_by_the_types_of_their_properties() -> None:
    properties = {
        "text": "ü",
        "sizes": [1, 2],
        "counts": [1, -2],
        "flags": [True, False],
        "tags": ["a"],
        "days": [],
        "n": 1,
    }
    point = {"class": "Docs", "id": ID, "tenant": "t", "vector": [1, 0.5], "properties": properties}
    sent = message_type("BatchObject").FromString(object_message(json.dumps(point).encode(), SCHEMA))
    assert (sent.uuid, sent.collection, sent.tenant, sent.vector_bytes) == (ID, "Docs", "t", packed([1, 0.5]))
    lists = sent.properties
    assert dict(lists.non_ref_properties) == {"text": "ü", "n": 1.0}
    assert [(entry.prop_name, entry.values_bytes) for entry in lists.number_array_properties] == [
        ("sizes", b"\0\0\0\0\0\0\xf0?" + b"\0" * 7 + b"@")
    ]
    assert [(entry.prop_name, list(entry.values)) for entry in lists.int_array_properties] == [("counts", [1, -2])]
    assert [(entry.prop_name, list(entry.values)) for entry in lists.boolean_array_properties] == [
        ("flags", [True, False])
    ]
    assert [(entry.prop_name, list(entry.values)) for entry in lists.text_array_properties] == [("tags", ["a"])]
    assert list(lists.empty_list_props) == ["days"]


@pytest.mark.parametrize(
    "more",
    [
        {"properties": {"tags": ["a", 1]}},
        {"properties": {"tags": [{"a": 1}]}},
        {"vectors": {"m": [[1, 2], [3, 4]]}},
        {"vector": ["a"]},
    ],
)
def test_what_a_message_cannot_hold_is_not_made(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"kinds|rows|convert"):
        object_message(json.dumps({"class": "Docs", "id": ID, **more}).encode(), SCHEMA)


VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.lists(st.integers() | st.text(), max_size=2)
)


@given(name=st.sampled_from([*TYPES, "new"]), value=VALUES)
def test_what_a_property_holds_has_a_message(name: str, value: Any) -> None:
    """Invariant: nothing that is held fails to be sent."""
    if value is not None and can_hold(SCHEMA, {}, {name: value}):
        object_message(json.dumps({"class": "Docs", "id": ID, "properties": {name: value}}).encode(), SCHEMA)


@pytest.mark.parametrize("written", [ID, ID.upper(), ID.replace("-", ""), f"urn:uuid:{ID}", f"{{{ID}}}"])
def test_an_id_has_one_spelling_in_writes_and_deletions(written: str) -> None:
    """The server takes each of them for the same. A write in another spelling would be left out as a copy, though it is an update."""
    assert json.loads(id_as_json(written)) == ID.lower()
    deletion = deletions.over_rest(
        RequestHead(method="DELETE", path=f"/v1/objects/Docs/{quote(written)}", content_type="")
    )
    assert deletion is not None
    assert deletions.of_body(deletion, b"", None)[0].ids == (id_as_json(ID),)
