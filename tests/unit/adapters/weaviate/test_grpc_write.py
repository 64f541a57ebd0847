"""Batches of objects over gRPC, against protobuf's own library: what is read of them, messages with notes in a property."""

from __future__ import annotations

import json
from struct import pack
from typing import Any

import pytest

from support.backends.transports import operation_of, reason_of
from support.weaviate.messages import message_type, packed, single
from vecsieve.adapters.contract import MalformedReplyError, Operation, Reason, RequestHead, UnsupportedError
from vecsieve.adapters.weaviate.calls import Schema
from vecsieve.adapters.weaviate.grpc_write import WeaviateGrpcWrites
from vecsieve.adapters.writes import NewPoints, WriteNeeds

WRITES = WeaviateGrpcWrites()
SERVICE = "/weaviate.v1.Weaviate/"
NOTE = b'{"duplicate_of":"a","similarity":0.9931,"tier":"exact"}'
TYPES = {"text": "text", "_vecsieve": "text"}


def schema(*, types: dict[str, str] | None = None, names: tuple[str, ...] = ("",)) -> Schema:
    return Schema(name="Docs", types=TYPES if types is None else types, distances=dict.fromkeys(names, "cosine"))


def row(identifier: str = "A", *, properties: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    members = {"properties": {"non_ref_properties": properties}} if properties is not None else {}
    return {"uuid": identifier, "collection": "Docs", "vector_bytes": packed([1, 0.5]), **members, **more}


def written(*rows: dict[str, Any], **more: Any) -> bytes:
    return bytes(message_type("BatchObjectsRequest")(objects=rows, **more).SerializeToString())


def parsed(message: bytes, known: Schema | None = None, *, notes: bool = False) -> NewPoints:
    write = operation_of(WRITES, RequestHead(method="POST", path=SERVICE + "BatchObjects", message=message))
    needs = WriteNeeds(vector_name=None, keys=("Text",), most=9, known=known or schema(), notes=notes)
    return WRITES.parse(write, message, needs)


@pytest.mark.parametrize(
    ("method", "tenant", "expected"),
    [("BatchObjects", "", "Docs"), ("BatchObjects", "t", "Docs/t"), ("BatchStream", "", ""), ("BatchDelete", "", None)],
)
def test_a_batch_is_told_by_its_method_and_its_first_object(method: str, tenant: str, expected: str | None) -> None:
    message = written(row(tenant=tenant), row("b") | {"collection": "Other"})
    operation = WRITES.classify(RequestHead(method="POST", path=SERVICE + method, message=message))
    assert (None if operation is None else operation.collection) == expected


def test_objects_are_read_with_ids_vectors_and_wanted_keys() -> None:
    old = row("B") | {"vector_bytes": b"", "vector": [3, 4]}
    points = parsed(written(row(properties={"text": "größe"}), old, row("c", vector_bytes=b""), consistency_level=1))
    assert points.ids == (b'"a"', b'"b"', b'"c"')
    assert points.vectors[:2].tolist() == [[1.0, 0.5], [3.0, 4.0]]
    assert [None if field is None else json.loads(field) for (field,) in points.fields] == ["größe", None, None]


def test_a_named_vector_is_read_by_its_name() -> None:
    named = row(vector_bytes=b"", vectors=[single([5, 6], "a")])
    points = parsed(written(named), schema(names=("a", "b")))
    assert (points.vector_name, points.vectors.tolist()) == ("a", [[5.0, 6.0]])
    several = message_type("Vectors")(name="a", vector_bytes=packed([1, 2]), type=2)
    assert (
        reason_of(parsed, written(row(vector_bytes=b"", vectors=[several])), schema(names=("a",)))
        is Reason.NOTHING_TO_DO
    )


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (written(row()) + b"\x1a\x00", Reason.UNSUPPORTED_FIELD),
        (written(row(), row("b") | {"collection": "Other"}), Reason.AMBIGUOUS_FIELD),
        (written(row(tenant="a"), row("b", tenant="b")), Reason.AMBIGUOUS_FIELD),
        (written(row(vector_bytes=b"")), Reason.NOTHING_TO_DO),
        (written(row(vector_bytes=b"abc")), Reason.UNSUPPORTED_FIELD),
        (written(), Reason.NOTHING_TO_DO),
        (written(*[row()] * 10), Reason.TOO_MANY_PARTS),
        (written(row(), row("")), Reason.UNSUPPORTED_FIELD),
        (b"\x0a", Reason.UNSUPPORTED_FIELD),
    ],
)
def test_what_is_not_read(message: bytes, reason: Reason) -> None:
    assert reason_of(parsed, message) is reason


def test_a_collection_without_a_property_for_notes_is_unsupported_where_they_may_come() -> None:
    assert reason_of(parsed, written(row()), schema(types={}), notes=True) is Reason.PAYLOAD_SELECTOR
    assert parsed(written(row("")), notes=True).ids == (b'"#0"',)
    write = operation_of(WRITES, RequestHead(method="POST", path=SERVICE + "BatchObjects"))
    with pytest.raises(UnsupportedError):
        WRITES.parse(write, written(row()), WriteNeeds(vector_name=None, keys=(), most=9))


def test_the_description_asked_for_is_that_of_the_first_objects_collection() -> None:
    write = operation_of(WRITES, RequestHead(method="POST", path=SERVICE + "BatchObjects"))
    assert WRITES.ask_metric(write, written(row())).target == "/v1/schema/Docs"
    with pytest.raises(UnsupportedError):
        WRITES.ask_metric(write, b"")


def test_properties_of_other_kinds_stay_beside_a_note() -> None:
    members = {"text_array_properties": [{"prop_name": "tags", "values": ["a"]}]}
    message = written(row() | {"properties": members})
    changed = message_type("BatchObjectsRequest").FromString(WRITES.annotated(parsed(message, notes=True), {0: NOTE}))
    assert [entry.prop_name for entry in changed.objects[0].properties.text_array_properties] == ["tags"]
    assert changed.objects[0].properties.non_ref_properties["_vecsieve"] == NOTE.decode()


WRITE = Operation(backend="weaviate", name="batch", collection="Docs")
PROPERTIES: dict[str, Any] = {
    "non_ref_properties": {"text": "größe", "n": 3, "f": 0.1, "is": True},
    "number_array_properties": [
        {"prop_name": "d", "values": [0.1, 2]},
        {"prop_name": "e", "values_bytes": pack("<2d", 0.5, 1)},
    ],
    "int_array_properties": [{"prop_name": "i", "values": [1, -2]}],
    "text_array_properties": [{"prop_name": "t", "values": ["a", "ü"]}],
    "boolean_array_properties": [{"prop_name": "b", "values": [True, False]}],
    "empty_list_props": ["none"],
}


def test_named_vectors_are_written_down_by_their_names_and_a_bare_one_by_that_of_the_target() -> None:
    named = parsed(written(row(vector_bytes=b"", vectors=[single([5, 6], "a")])), schema(names=("a", "b")))
    assert json.loads(WRITES.point(named, 0))["vectors"] == {"a": [5.0, 6.0]}
    bare = parsed(written(row()), schema(names=("a",)))
    assert json.loads(WRITES.point(bare, 0))["vectors"] == {"a": [1.0, 0.5]}


@pytest.mark.parametrize(
    "properties",
    [
        {"single_target_ref_props": [{"prop_name": "r"}]},
        {"non_ref_properties": {"n": float("nan")}},
        {"number_array_properties": [{"prop_name": "n", "values": [float("nan")]}]},
    ],
)
def test_an_object_that_json_cannot_hold_is_not_left_out(properties: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError):
        WRITES.point(parsed(written(row() | {"properties": properties})), 0)


def test_errors_are_at_the_places_of_the_clients_objects() -> None:
    points = parsed(written(*[row(letter) for letter in "abcdef"]))
    reply = message_type("BatchObjectsReply")(took=0.5, errors=[{"index": 1, "error": "no"}, {"error": "never"}])
    receipt = WRITES.receipt(WRITE, points, {0: None, 3: 2, 4: 1}, reply.SerializeToString())
    answer = message_type("BatchObjectsReply").FromString(receipt.body)
    assert answer.took == 0.5
    assert [(error.index, error.error) for error in answer.errors] == [(1, "never"), (2, "no"), (3, "no"), (4, "never")]
    assert (receipt.refused, receipt.failed) == (frozenset({3, 4}), frozenset({1, 2}))
    with pytest.raises(MalformedReplyError):
        WRITES.receipt(
            WRITE, points, {0: None}, message_type("BatchObjectsReply")(errors=[{"index": 5}]).SerializeToString()
        )
    assert WRITES.acknowledged(WRITE, points, "").body == b""


TYPED = {
    "text": "text", "n": "number", "f": "number", "is": "boolean", "d": "number[]", "e": "number[]", "i": "int[]", "t": "text[]",
    "b": "boolean[]", "none": "text[]",
}  # fmt: skip


def test_a_merged_object_takes_its_place_and_all_else_is_the_clients() -> None:
    """Invariant: a message that is made of an object alone says the same as the client's."""
    original = row("A", tenant="x") | {"properties": PROPERTIES}
    points = parsed(
        written(original, row("B", tenant="x"), row("C", tenant="x"), consistency_level=1), schema(types=TYPED)
    )
    message = WRITES.merged(WRITE, points, {1}, {0: WRITES.point(points, 0)})
    sent = message_type("BatchObjectsRequest").FromString(message)
    assert ([item.uuid for item in sent.objects], sent.consistency_level) == (["a", "C"], 1)
    assert sent.objects[1] == message_type("BatchObject")(**row("C", tenant="x"))
    again = parsed(message, schema(types=TYPED))
    assert json.loads(WRITES.point(again, 0)) == json.loads(WRITES.point(points, 0))
    assert list(again.vectors[0]) == list(points.vectors[0])


def test_a_merged_object_has_its_named_vectors() -> None:
    known = schema(names=("a", "b"))
    points = parsed(written(row(vector_bytes=b"", vectors=[single([5, 6], "a")])), known)
    other = {"class": "Docs", "id": "a", "properties": {}, "vectors": {"a": [0.1, 2], "b": [3, 4]}}
    sent = message_type("BatchObjectsRequest").FromString(
        WRITES.merged(WRITE, points, (), {0: json.dumps(other).encode()})
    )
    assert [(vector.name, vector.vector_bytes, vector.type) for vector in sent.objects[0].vectors] == [
        ("a", packed([0.1, 2]), 1),
        ("b", packed([3, 4]), 1),
    ]


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"properties": {"text": "both"}}, True),
        ({"properties": {"text": ["both"]}}, False),
        ({"properties": {"text": "a"}, "vectors": {"m": [[1, 2], [3, 4]]}}, False),
        ({"properties": {"text": "a"}, "vector": {"m": 1}}, False),
        ({"properties": {"text": "\ud800"}}, False),
    ],
)
def test_an_object_is_held_where_types_and_the_message_have_a_place_for_it(
    more: dict[str, Any], expected: bool
) -> None:
    points = parsed(written(row(properties={"text": "a"})))
    assert WRITES.holds(points, 0, json.dumps({"class": "Docs", "id": "a", **more}).encode()) is expected
