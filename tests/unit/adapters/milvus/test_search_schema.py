"""What a description of a collection tells, and which fields are added by it."""

from __future__ import annotations

import json

import pytest

from support.milvus.messages import message_type
from vecsieve.adapters.contract import DeclinedError, MalformedReplyError, Needs, Reason, UnsupportedError
from vecsieve.adapters.milvus.grpc_description import MOST_FIELDS, read_description
from vecsieve.adapters.milvus.search import (
    Chosen,
    Schema,
    choose,
    read_rest_description,
    schema_of,
)

REAL = Schema(vectors=frozenset({"vec"}), scalars=frozenset({"id", "text"}), is_dynamic=True)
LITE = Schema(vectors=frozenset({"vec"}), scalars=frozenset({"id", "text"}), is_dynamic=True, shows_all=True)


def described(**types: int) -> bytes:
    message = message_type("DescribeCollectionResponse")(collectionID=4711)
    message.schema.name = "docs"
    for name, kind in types.items():
        message.schema.fields.add(name=name, data_type=kind)
    raw: bytes = message.SerializeToString()
    return raw


def test_only_what_can_be_compared_is_a_vector_and_only_what_is_no_vector_a_scalar() -> None:
    kinds = {
        "id": 5,
        "text": 21,
        "a": 101,
        "b": 102,
        "c": 103,
        "d": 105,
        "bits": 100,
        "sparse": 104,
        "many": 106,
        "s": 200,
    }
    found = read_description(described(**kinds))
    assert found == Schema(vectors=frozenset("abcd"), scalars=frozenset({"id", "text"}))
    assert found.only_vector is None
    assert read_description(described(a=101, sparse=104)).only_vector == "a"


def test_more_fields_than_a_server_allows_are_not_read() -> None:
    message = message_type("DescribeCollectionResponse")(collectionID=1)
    for number in range(MOST_FIELDS + 1):
        message.schema.fields.add(name=f"{number}", data_type=101)
    with pytest.raises(MalformedReplyError):
        read_description(message.SerializeToString())


def test_a_server_that_numbers_no_collection_shows_everything_unasked() -> None:
    message = message_type("DescribeCollectionResponse").FromString(described(a=101))
    message.ClearField("collectionID")
    message.schema.enable_dynamic_field = True
    found = read_description(message.SerializeToString())
    assert (found.shows_all, found.is_dynamic) == (True, True)


@pytest.mark.parametrize("raw", [b"", b"\xff", b"\x12\x02\x22\x00", b"\x12\x04\x22\x02\x12\x00", b"\x12\x02\x20\x01"])
def test_what_is_no_description_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedReplyError):
        read_description(raw)


def test_a_refusal_to_describe_is_told() -> None:
    message = message_type("DescribeCollectionResponse")()
    message.status.code = 1100
    with pytest.raises(DeclinedError, match="1100"):
        read_description(message.SerializeToString())


def test_what_is_known_is_a_schema_or_nothing() -> None:
    assert schema_of(Needs()) is None
    assert schema_of(Needs(known=REAL)) is REAL
    with pytest.raises(TypeError):
        schema_of(Needs(known="what another adapter was told"))


@pytest.mark.parametrize(
    ("listed", "schema", "columns", "keys"),
    [
        (("text",), None, ("vec",), ()),
        (("text", "vec"), None, (), ()),
        (("*",), None, (), ()),
        ((), REAL, ("vec", "text"), ("page",)),
        ((), LITE, (), ()),
        (("id",), REAL, ("vec", "text"), ("page",)),
        (("id",), LITE, ("vec", "text"), ()),
        (("id", "own key"), REAL, ("vec", "text"), ()),
        (("page",), REAL, ("vec", "text"), ()),
    ],
)
def test_what_is_added(
    listed: tuple[str, ...], schema: Schema | None, columns: tuple[str, ...], keys: tuple[str, ...]
) -> None:
    needs = Needs(known=schema, optional_fields=("text", "page", "no name", "text"))
    assert choose(listed, "vec", needs) == Chosen(listed=listed, columns=columns, keys=keys)


def test_over_rest_keys_are_added_beside_the_clients_own() -> None:
    needs = Needs(known=REAL, optional_fields=("page",))
    assert choose(("own",), "vec", needs, keys_apart=True).keys == ("page",)


def test_a_field_that_must_come_along_and_cannot_leaves_the_search_alone() -> None:
    with pytest.raises(UnsupportedError) as verdict:
        choose(("text",), "vec", Needs(payload_fields=("tenant",)))
    assert verdict.value.reason is Reason.PAYLOAD_SELECTOR
    assert choose(("tenant",), "vec", Needs(payload_fields=("tenant",))).columns == ("vec",)
    fixed = Schema(vectors=frozenset({"vec"}), scalars=frozenset({"text"}))
    with pytest.raises(UnsupportedError):
        choose(("text",), "vec", Needs(known=fixed, payload_fields=("tenant",)))


def over_rest(**members: object) -> Schema:
    fields = [{"name": "id", "type": "Int64", "primaryKey": True}, {"name": "vec", "type": "FloatVector"}]
    return read_rest_description(json.dumps({"code": 0, "data": {"fields": fields, **members}}).encode())


def test_over_rest_a_description_names_the_metrics_of_indexes() -> None:
    indexes = [{"fieldName": "vec", "metricType": "cosine"}, {"fieldName": "other"}, {}]
    found = over_rest(indexes=indexes)
    assert [found.metric_of(name) for name in ("vec", "other", "none")] == ["COSINE", None, None]
    assert over_rest().metric_of("vec") is None
    assert over_rest(indexes=None).metric_of("vec") is None
    assert over_rest(indexes=[{"fieldName": "vec", "metricType": None}]).metric_of("vec") is None
    twice = [{"fieldName": "vec", "metricType": each} for each in ("IP", "L2")]
    assert over_rest(indexes=twice).metric_of("vec") is None


@pytest.mark.parametrize(
    ("number", "shows_all"),
    [({"collectionID": 0}, True), ({"collectionID": 4711}, False), ({"collectionID": "0"}, False), ({}, False)],
)
def test_over_rest_only_a_collection_that_is_numbered_0_is_lites(number: dict[str, object], *, shows_all: bool) -> None:
    assert over_rest(**number).shows_all is shows_all


@pytest.mark.parametrize("makes_ids", [False, True])
def test_rows_whose_ids_the_database_makes_cannot_be_stored_again(makes_ids: bool) -> None:
    message = message_type("DescribeCollectionResponse").FromString(described(id=5, a=101, own=23))
    message.schema.fields[0].autoID = makes_ids
    assert read_description(message.SerializeToString()).is_restorable != makes_ids
    fields = [
        {"name": "id", "type": "Int64", "primaryKey": True, "autoId": makes_ids},
        {"name": "a", "type": "FloatVector(4)"},
    ]
    said = json.dumps({"code": 0, "data": {"fields": fields}}).encode()
    assert read_rest_description(said).is_restorable != makes_ids
