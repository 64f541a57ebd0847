from __future__ import annotations

import struct
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.transports import GRPC
from support.grpc.wire_fields import number_field
from support.weaviate.conversations import EVERYTHING, UNKNOWN, VALUES, search
from support.weaviate.messages import message_type, packed, single
from support.weaviate.model import Collection, Hit, Stored, spell
from vecsieve.adapters.contract import DescribesCollections, Needs, Operation, Pool
from vecsieve.adapters.weaviate.grpc import VALUES as CODEC
from vecsieve.adapters.weaviate.grpc import WeaviateGrpc, compare, read_reply, trim
from vecsieve.adapters.weaviate.grpc_request import Document, read_request, widen
from vecsieve.adapters.weaviate.grpc_schema import MESSAGES, proto
from vecsieve.adapters.wire.protobuf import length_field
from vecsieve.adapters.wire.schema import parsed

ADAPTER = WeaviateGrpc()


def test_it_is_the_adapter_of_its_backend_and_has_a_first_step() -> None:
    assert isinstance(GRPC["weaviate"].adapter(), WeaviateGrpc)
    assert isinstance(ADAPTER, DescribesCollections)


OPERATION = Operation(backend="weaviate", name="search", collection="Docs")
FIRST, SECOND = ("00000000-0000-0000-0000-00000000000" + digit for digit in "1a")
PROPERTIES: dict[str, Any] = {"text": "é", "owner": "o", "place": None, "number": 3}
HITS = (
    Hit(stored=Stored(id=FIRST, properties=PROPERTIES, vector=[3.0, 4.0]), number=0.25),
    Hit(stored=Stored(id=SECOND, properties={"text": "b"}), number=0.5),
)
DOCS = Collection(name="Docs", properties=("text", "owner", "place", "number"))
NEAR: dict[str, Any] = {"near_vector": {"vector_bytes": packed([1.0, 0.0])}}


def requests(needs: Needs | None = None, **way: Any) -> tuple[Document, Any]:
    body = search(collection="Docs", limit=5, metadata=EVERYTHING, **(way or NEAR))
    document = read_request(OPERATION, body, needs or Needs())[1]
    assert isinstance(document, Document)
    return document, message_type("SearchRequest").FromString(body)


def read(hits: tuple[Hit, ...] = HITS, **way: Any) -> tuple[Pool, bytes]:
    document, request = requests(**way)
    return read_reply(document, Needs(), DOCS.reply(hits, request).SerializeToString())


def test_a_pool_has_what_selection_compares() -> None:
    pool, _ = read()
    assert pool.scores.tolist() == [0.25, 0.5]
    assert pool.ids == (b'"%s"' % FIRST.encode(), b'"%s"' % SECOND.encode())
    assert np.array_equal(pool.vectors, np.array([[3, 4], [np.nan, np.nan]]), equal_nan=True)
    assert (pool.unusable, pool.vector_name, pool.compared_by) == (1, "", "")
    assert (pool.fields, pool.alone) == (((), ()), ())


def test_hybrid_searches_have_scores() -> None:
    pool, _ = read(hybrid_search={"query": "x"})
    assert pool.scores.tolist() == [0.25, 0.5]


def test_a_distance_of_zero_is_not_written_and_one_that_is_not_there_is_no_number() -> None:
    hits = (Hit(stored=HITS[0].stored, number=0.0), Hit(stored=HITS[1].stored))
    pool, _ = read(hits=hits)
    assert pool.scores[0] == 0.0
    assert np.isnan(pool.scores[1])


def test_the_object_that_a_search_is_made_by_is_never_merged_with_others() -> None:
    pool, _ = read(near_object={"id": SECOND.upper()})
    assert pool.alone == (1,)


def with_result(*parts: bytes) -> bytes:
    """A reply of one result."""
    return length_field(2, b"".join(parts))


METADATA = length_field(2, length_field(1, b"x"))


def test_what_decides_about_tenants_is_not_guessed_and_what_is_optional_is_absent_where_it_cannot_be_spelled() -> None:
    document, _ = requests()
    odd = message_type("PropertiesResult")()
    odd.non_ref_props.fields["place"].geo_value.SetInParent()
    odd.non_ref_props.fields["text"].text_value = "t"
    body = with_result(METADATA, length_field(1, odd.SerializeToString()))
    pool, _ = read_reply(document, Needs(optional_fields=("place", "text")), body)
    assert pool.fields == ((None, b'"t"'),)
    with pytest.raises(ValueError, match=r"."):
        read_reply(document, Needs(payload_fields=("place",)), body)


def test_properties_in_the_form_of_old_servers_are_not_taken_for_none() -> None:
    document, _ = requests()
    old = message_type("PropertiesResult")()
    old.old_properties["owner"] = "o"
    body = with_result(METADATA, length_field(1, old.SerializeToString()))
    assert read_reply(document, Needs(), body)[0].size == 1
    with pytest.raises(ValueError, match=r"1\.23"):
        read_reply(document, Needs(payload_fields=("owner",)), body)


@pytest.mark.parametrize(
    "body",
    [
        b"\xff",
        number_field(2, 1),
        length_field(4, b""),
        with_result(),
        with_result(length_field(2, b"")),
        with_result(METADATA, METADATA),
        with_result(METADATA, length_field(3, b"")),
        with_result(length_field(2, length_field(1, b"x") + number_field(7, 1))),
        with_result(length_field(2, length_field(1, b"x") * 2)),
        with_result(length_field(2, length_field(1, b"\xff"))),
        with_result(METADATA, length_field(1, length_field(11, number_field(1, 1)))),
    ],
)
def test_what_is_not_understood_with_certainty_is_malformed(body: bytes) -> None:
    document, _ = requests()
    with pytest.raises(ValueError, match=r"."):
        read_reply(document, Needs(), body)


NEAR_FLOATS: dict[str, Any] = {"near_vector": {"vector": [1.0, 0.0]}}
OBJECTS = [
    Stored(
        id=f"00000000-0000-0000-0000-{number:012}",
        properties={"text": f"t{number}", "owner": "o"},
        vector=[1.0, number],
    )
    for number in range(6)
]
NAMED = [
    Stored(id=item.id, properties=item.properties, vectors={"a": item.vector or [], "b": [0.0, 1.0]})
    for item in OBJECTS
]
PLAIN = Collection(name="Docs", properties=("text", "owner"), objects=OBJECTS)
WITH_NAMES = Collection(name="Docs", properties=("text", "owner"), named=("a", "b"), objects=NAMED)


def kept(places: list[int], needs: Needs | None = None, *, server: Collection = PLAIN, **fields: Any) -> bytes:
    """The answer of these candidates of six."""
    body = search(collection="Docs", limit=3, **{**NEAR_FLOATS, **fields})
    document = read_request(OPERATION, body, needs or Needs())[1]
    _, reply = read_reply(document, needs or Needs(), server.answer(widen(document, [6])) + UNKNOWN)
    return trim(document, reply, [np.array(places, dtype=np.intp)])


def direct(*, server: Collection = PLAIN, **fields: Any) -> bytes:
    return server.answer(search(collection="Docs", limit=3, **{**NEAR_FLOATS, **fields})) + UNKNOWN


def test_the_first_page_of_a_wider_reply_is_the_direct_answer() -> None:
    for metadata in (None, {"uuid": True}, {"vector": True}, {"distance": True, "vectors": ["a"]}):
        assert kept([0, 1, 2], metadata=metadata) == direct(metadata=metadata)


def test_of_named_vectors_only_those_are_shown_that_the_client_lists() -> None:
    near: dict[str, Any] = {"near_vector": {"vector": [1.0, 0.0], "targets": {"target_vectors": ["a"]}}}
    for metadata in (None, {"uuid": True, "vectors": ["b"]}, {"vectors": ["b", "a"]}, {"vector": True}):
        answer = kept([0, 1, 2], server=WITH_NAMES, metadata=metadata, **near)
        assert answer == direct(server=WITH_NAMES, metadata=metadata, **near)


def test_properties_that_were_added_are_gone_and_what_held_nothing_else_is_gone_with_them() -> None:
    needs = Needs(payload_fields=("owner",))
    for properties in ({}, {"non_ref_properties": ["text"]}, {"non_ref_properties": ["text", "owner"]}, None):
        assert kept([0, 1, 2], needs, properties=properties) == direct(properties=properties)


def as_json(raw: bytes) -> bytes:
    return CODEC.json(parsed(MESSAGES["Value"], raw))


def spelled(value: Any) -> bytes:
    return as_json(value.SerializeToString(deterministic=True))


def value(**kinds: Any) -> Any:
    return message_type("Value")(**kinds)


@given(thing=VALUES)
def test_a_value_is_spelled_as_json_says_it(thing: Any) -> None:
    """What a property holds comes back from its JSON."""
    made = value()
    spell(made, thing)
    spelling = spelled(made)
    assert orjson.loads(spelling) == thing


@pytest.mark.parametrize(
    ("made", "expected"),
    [
        (value(number_value=3.0), b"3"),
        (value(number_value=0.5), b"0.5"),
        (value(number_value=1e300), b"1e+300"),
        (value(int_value=-7), b"-7"),
        (value(bool_value=False), b"false"),
        (value(string_value="old"), b'"old"'),
        (value(date_value="2026-01-01T00:00:00Z"), b'"2026-01-01T00:00:00Z"'),
        (value(uuid_value="u"), b'"u"'),
        (value(blob_value="aGk="), b'"aGk="'),
        (value(null_value=0), b"null"),
        (value(list_value={}), b"[]"),
        (value(list_value={"date_values": {"values": ["d"]}}), b'["d"]'),
        (value(list_value={"bool_values": {"values": [True, False]}}), b"[true,false]"),
        (value(list_value={"number_values": {"values": struct.pack("<2d", 1.5, 2)}}), b"[1.5,2]"),
        (value(list_value={"int_values": {"values": struct.pack("<q", -9)}}), b"[-9]"),
        (value(list_value={"int_values": {}}), b"[]"),
        (value(list_value={"object_values": {"values": [{"fields": {"b": value(int_value=1)}}, {}]}}), b'[{"b":1},{}]'),
        (
            value(object_value={"fields": {"b": value(null_value=0), "a": value(text_value="é")}}),
            '{"a":"é","b":null}'.encode(),
        ),
    ],
)
def test_every_kind_has_one_spelling(made: Any, expected: bytes) -> None:
    assert spelled(made) == expected


@pytest.mark.parametrize(
    "made",
    [
        value(),
        value(geo_value={}),
        value(list_value={"number_values": {"values": b"123"}}),
        value(number_value=1.5, text_value="x"),
    ],
)
def test_what_cannot_be_spelled_with_certainty_is_an_error(made: Any) -> None:
    with pytest.raises(ValueError, match=r"."):
        spelled(made)


@pytest.mark.parametrize("raw", [b"\x2a\x03\x4a\x01a", b"\x6a\x01\xff", b"\x2a\x04\x42\x02\x08\x01", b"\xff"])
def test_lists_of_unknown_kinds_and_broken_texts_are_errors(raw: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        as_json(raw)


def test_what_is_nested_too_deeply_is_an_error() -> None:
    made = value(int_value=1)
    for _ in range(101):
        made = value(object_value={"fields": {"a": made}})
    with pytest.raises(ValueError, match="nested deeper"):
        spelled(made)


@given(raw=st.binary(max_size=40))
def test_arbitrary_bytes_are_spelled_or_refused(raw: bytes) -> None:
    """Whatever the bytes, what comes is JSON or a ValueError."""
    try:
        text = as_json(raw)
    except ValueError:
        return
    orjson.loads(text)


def compared(*results: dict[str, Any], target: str | None = None) -> tuple[str | None, list[list[float]]]:
    """The name, and the rows."""
    metadata = [
        proto.Result().metadata.FromString(message_type("MetadataResult")(**result).SerializeToString())
        for result in results
    ]
    name, rows = compare(metadata, target)
    assert rows.dtype == np.float32
    return name, rows.tolist()


def test_servers_that_say_no_type_mean_one_row() -> None:
    old = message_type("Vectors")(name="a", vector_bytes=packed([1.0]))
    assert compared({"vectors": [old]}) == ("a", [[1.0]])


@pytest.mark.parametrize("one", [{"vector_bytes": b"123"}, {"vectors": [{"name": "a", "vector_bytes": b"12"}]}])
def test_half_a_number_is_an_error(one: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="whole floats"):
        compared(one)


def test_a_vector_without_a_name_is_the_unnamed_one() -> None:
    assert compared({"vectors": [single([1.0])]}, target="") == ("", [[]])
    assert compared({"vectors": [single([1.0])]}) == ("", [[1.0]])
