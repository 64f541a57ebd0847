"""Objects over REST: what is read of them, and the client's bytes with notes in a property."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from support.backends.transports import operation_of, reason_of
from support.weaviate import graphql_queries as weaviate_graphql
from support.weaviate.graphql_queries import read
from vecsieve.adapters.contract import (
    DeclinedError,
    MalformedReplyError,
    Operation,
    Reason,
    RequestHead,
    UnsupportedError,
)
from vecsieve.adapters.weaviate.calls import Schema
from vecsieve.adapters.weaviate.rest_write import Document, WeaviateRestWrites, described
from vecsieve.adapters.writes import Inquiry, MergesPoints, NewPoints, WriteNeeds

WRITES = WeaviateRestWrites()
ONE, BATCH = "/v1/objects", "/v1/batch/objects"
NOTE = b'{"duplicate_of":"a","similarity":0.9931,"tier":"exact"}'
TYPES = {"text": "text", "_vecsieve": "text"}


def schema(*, types: dict[str, str] | None = None, names: tuple[str, ...] = ("",)) -> Schema:
    return Schema(name="Docs", types=TYPES if types is None else types, distances=dict.fromkeys(names, "cosine"))


def uuid(number: int) -> str:
    return f"00000000-0000-0000-000A-{number:012}"


def row(number: int = 1, **more: Any) -> dict[str, Any]:
    return {"class": "Docs", "id": uuid(number), "vector": [1, 0.5], **more}


def batch(*rows: dict[str, Any], **more: Any) -> bytes:
    return json.dumps({"objects": rows, **more}).encode()


def parsed(raw: bytes, known: Schema | None = None, *, path: str = BATCH, notes: bool = False) -> NewPoints:
    write = operation_of(WRITES, RequestHead(method="POST", path=path, content_type="application/json"))
    needs = WriteNeeds(vector_name=None, keys=("Text",), most=9, known=known or schema(), notes=notes)
    return WRITES.parse(write, raw, needs)


@pytest.mark.parametrize(
    ("method", "path", "name"),
    [("POST", ONE, "object"), ("POST", BATCH, "batch"), ("GET", ONE, None), ("DELETE", BATCH, None)]
    + [("POST", path, None) for path in ("/v1/objects/validate", "/v1/batch/references", "/v1/graphql")],
)
def test_a_write_is_told_by_method_and_path(method: str, path: str, name: str | None) -> None:
    operation = WRITES.classify(RequestHead(method=method, path=path, content_type="application/json"))
    assert (None if operation is None else operation.name) == name


def test_objects_are_read_with_ids_vectors_and_wanted_keys() -> None:
    points = parsed(
        batch(row(1, properties={"text": "größe"}), row(2, properties=None), row(3, vector=None), fields=["ALL"])
    )
    assert points.ids == tuple(json.dumps(uuid(number).lower()).encode() for number in (1, 2, 3))
    assert points.vectors[:2].tolist() == [[1.0, 0.5]] * 2
    assert [None if field is None else json.loads(field) for (field,) in points.fields] == ["größe", None, None]
    alone = parsed(json.dumps(row(7, properties={"Text": "a"}, tenant="t")).encode(), path=ONE)
    assert (alone.fields, alone.vectors.tolist()) == (((b'"a"',),), [[1.0, 0.5]])
    assert isinstance(alone.document, Document)
    assert alone.document.tenant == "t"


def test_a_named_vector_is_read_by_its_name_and_the_only_one_without() -> None:
    named = row(1, vector=None, vectors={"a": [0.123456789] * 30})
    assert parsed(batch(named), schema(names=("a", "b"))).vector_name == "a"
    assert isinstance((points := parsed(batch(row()), schema(names=("a",)))).document, Document)
    assert (points.vector_name, points.document.target) == ("", "a")
    assert reason_of(parsed, batch(row()), schema(names=("a", "b"))) is Reason.UNSUPPORTED_FIELD
    assert reason_of(parsed, batch(row(vectors={"a": [1, 2]})), schema(names=("a", "b"))) is Reason.AMBIGUOUS_FIELD


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (batch(row(), new=1), Reason.UNSUPPORTED_FIELD),
        (batch(row(new=1)), Reason.UNSUPPORTED_FIELD),
        (batch(row(), row(2) | {"class": "Other"}), Reason.AMBIGUOUS_FIELD),
        (batch(row(tenant="a"), row(2, tenant="b")), Reason.AMBIGUOUS_FIELD),
        (batch(row(vector=None)), Reason.NOTHING_TO_DO),
        (batch(row(vector=[[1, 2], [3, 4]])), Reason.NOTHING_TO_DO),
        (batch(), Reason.NOTHING_TO_DO),
        (batch(*[row()] * 10), Reason.TOO_MANY_PARTS),
        (batch(row(), {"class": "Docs", "vector": [1, 2]}), Reason.NOT_JSON),
        (b'{"objects":[{"id":"a","id":"b"}]}', Reason.AMBIGUOUS_FIELD),
        (b"{", Reason.NOT_JSON),
    ],
)
def test_what_is_not_read(raw: bytes, reason: Reason) -> None:
    assert reason_of(parsed, raw) is reason


def test_objects_without_ids_are_told_apart_by_their_place_where_they_are_not_stored_yet() -> None:
    assert parsed(batch({"class": "Docs", "vector": [1, 2]}), notes=True).ids == (b'"#0"',)


@pytest.mark.parametrize("types", [{}, {"_vecsieve": "int"}, {"_vecsieve": "text[]"}])
def test_a_collection_without_a_property_for_notes_is_unsupported_where_they_may_come(types: dict[str, str]) -> None:
    assert reason_of(parsed, batch(row()), schema(types=types), notes=True) is Reason.PAYLOAD_SELECTOR
    assert len(parsed(batch(row()), schema(types=types)).ids) == 1


@pytest.mark.parametrize(
    ("raw", "path"), [(batch({**row(), "class": "docs"}), BATCH), (json.dumps(row()).encode(), ONE)]
)
def test_the_description_asked_for_is_that_of_the_first_objects_collection(raw: bytes, path: str) -> None:
    write = operation_of(WRITES, RequestHead(method="POST", path=path, content_type="application/json"))
    assert WRITES.ask_metric(write, raw).target == "/v1/schema/Docs"
    assert WRITES.describe(write, b"{}") is None
    with pytest.raises(UnsupportedError):
        WRITES.ask_metric(write, b"[]")


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        (b"", b',"properties":{%s}'),
        (b',"properties":null', b',"properties":{%s}'),
        (b',"properties":{}', b',"properties":{%s}'),
        (b',"properties":{"a" : 1.50}', b',"properties":{"a" : 1.50,%s}'),
        (b',"properties":{"_vecsieve":"old"}', b',"properties":{%s}'),
    ],
)
def test_a_note_is_the_only_change(properties: bytes, expected: bytes) -> None:
    raw = b' {"objects" : [{"class":"Docs","id":"a","vector":[1.50,2]},{"class":"Docs","id":"b","vector":[1,2]%s}]}\n'
    member = b'"_vecsieve":' + json.dumps(NOTE.decode()).encode()
    assert WRITES.annotated(parsed(raw % properties, notes=True), {1: NOTE}) == raw % (expected % member)


WRITE = Operation(backend="weaviate", name="batch", collection="")


def object_text(number: int, result: str) -> str:
    return f'{{"id":"{uuid(number)}","result":{result}}}'


def test_the_answer_to_a_batch_has_a_row_for_each_object_of_the_client() -> None:
    points = parsed(batch(row(1), row(2), row(3), row(4), row(5)))
    failed = '{"errors":{"error":[{"message":"no"}]}}'
    body = f"[{object_text(1, '{}')},{object_text(3, failed)}]".encode()
    receipt = WRITES.receipt(WRITE, points, {1: None, 3: 0, 4: 2}, body)
    rows = json.loads(receipt.body)
    assert [entry["id"] for entry in rows] == [uuid(number) for number in range(1, 6)]
    stored = {"status": "SUCCESS"}
    assert [entry["result"] for entry in rows] == [{}, stored, json.loads(failed), stored, json.loads(failed)]
    assert (receipt.refused, receipt.failed) == (frozenset({4}), frozenset({2}))
    one = Operation(backend="weaviate", name="object", collection="")
    assert WRITES.receipt(one, parsed(json.dumps(row(1)).encode(), path=ONE), {}, b'{"id":"a"}').body == b'{"id":"a"}'
    for damaged in (b"[]", b"{}", b"[1,2,3]", b"["):
        with pytest.raises(MalformedReplyError):
            WRITES.receipt(WRITE, points, {1: None, 3: 0, 4: 2}, damaged)


def test_a_write_of_which_nothing_is_left_is_answered_with_its_objects() -> None:
    several = json.loads(WRITES.acknowledged(WRITE, parsed(batch(row(1), row(2))), "").body)
    assert [item["result"] for item in several] == [{"status": "SUCCESS"}] * 2
    one = Operation(backend="weaviate", name="object", collection="")
    points = parsed(json.dumps(row(1)).encode(), path=ONE)
    assert json.loads(WRITES.acknowledged(one, points, "").body) == row(1)


def test_which_objects_are_stored_is_asked_by_their_ids_in_their_tenant() -> None:
    points = parsed(batch(row(1, tenant="t")))
    questions = WRITES.ask_stored(WRITE, points, [b'"%d"' % number for number in range(40)], whole=False)
    searches = [one for question in questions for one in read(json.loads(question.body)["query"])]
    assert (len(questions), [one.arguments["where"]["valueText"] for one in searches]) == (
        2,
        [str(n) for n in range(40)],
    )
    assert {(one.name, one.arguments["tenant"]) for one in searches} == {("Docs", "t")}
    answer = b'{"data":{"Get":{"a0":[{"_additional":{"id":"A"}}],"a1":[],"a2":null}}}'
    assert dict(WRITES.stored(points, answer)) == {b'"a"': b""}


MERGED = b'{"class":"Docs","id":"b","vector":[9],"properties":{"text":"both"}}'


def test_a_merged_object_takes_its_place_in_a_batch() -> None:
    points = parsed(batch(row(1), row(2), row(3)))
    message = WRITES.merged(WRITE, points, {0}, {1: MERGED})
    assert json.loads(message) == {"objects": [json.loads(MERGED), row(3)]}
    assert MERGED in message


def test_a_merged_object_that_came_alone_is_the_whole_write() -> None:
    one = Operation(backend="weaviate", name="object", collection="")
    assert WRITES.merged(one, parsed(json.dumps(row(1)).encode(), path=ONE), (), {0: MERGED}) == MERGED


@pytest.mark.parametrize(
    ("properties", "expected"),
    [({"text": "both"}, True), ({"text": 7}, False), ({"new": "a"}, False), ({"odd": [1]}, True), ({}, True)],
)
def test_an_object_is_held_where_what_differs_has_a_property_of_its_type(
    properties: dict[str, Any], expected: bool
) -> None:
    points = parsed(batch(row(1, properties={"text": "a", "odd": [1]})))
    assert WRITES.holds(points, 0, json.dumps(row(1, properties=properties)).encode()) is expected


# The reads beside writes, over REST: queries of several searches, and their answers.

WRITE_TO_DOCS = Operation(backend="weaviate", name="batch", collection="Docs")
ALL_TYPES = {"text": "text", "team": "text", "n": "int", "yes": "boolean", "_vecsieve": "text", "of": "Other"}


def points(
    count: int = 2, *, target: str = "", tenant: str = "", keys: tuple[str, ...] = ("Text", "of", "gone")
) -> NewPoints:
    schema = Schema(name="Docs", types=ALL_TYPES, distances={target: "cosine"})
    return NewPoints(
        ids=tuple(b'"%d"' % row for row in range(count)),
        vectors=np.array([[row, 0.5] for row in range(count)], np.float32),
        vector_name=target,
        keys=keys,
        fields=((None,) * len(keys),) * count,
        document=Document(schema, tenant, target, None),
    )


def requests(*which: int, tenants: Any = None, vectors: bool = False) -> Inquiry:
    return Inquiry(which=which, tenants=tenants or ((),) * len(which), count=5, vectors=vectors)


def queries(new: NewPoints, inquiry: Inquiry) -> list[list[weaviate_graphql.Field]]:
    questions = WRITES.ask(WRITE_TO_DOCS, new, inquiry)
    assert {(question.method, question.target) for question in questions} == {("POST", "/v1/graphql")}
    return [weaviate_graphql.read(json.loads(question.body)["query"]) for question in questions]


def test_each_object_has_a_search_of_its_own_in_one_query() -> None:
    ((one, other),) = queries(points(), requests(0, 1))
    assert (one.alias, one.name, other.alias) == ("a0", "Docs", "a1")
    assert one.arguments == {"limit": 5, "nearVector": {"vector": [0.0, 0.5]}}
    assert other.arguments["nearVector"] == {"vector": [1.0, 0.5]}
    assert [member.name for member in one.selected] == ["text", "_additional"], (
        "properties with parts, and absent ones, are not named"
    )
    assert [member.name for member in one.selected[-1].selected] == ["id", "distance"]


@pytest.mark.parametrize(("target", "expected"), [("", "vector"), ("named", "vectors")])
def test_the_vector_is_asked_for_by_its_name_and_the_tenant_named(target: str, expected: str) -> None:
    (only,) = queries(points(1, target=target, tenant='le"ft'), requests(0, vectors=True))[0]
    assert only.arguments["tenant"] == 'le"ft'
    assert only.arguments["nearVector"].get("targetVectors") == ([target] if target else None)
    assert [member.name for member in only.selected[-1].selected] == ["id", "distance", expected]


def test_a_tenants_filter_is_that_of_its_properties_types() -> None:
    tenants = ((("Team", '"ü\\n"'.encode()),), (("n", b"-7"), ("yes", b"true")))
    ((one, other),) = queries(points(), requests(0, 1, tenants=tenants))
    assert one.arguments["where"] == {"path": ["team"], "operator": "Equal", "valueText": "ü\n"}
    assert other.arguments["where"]["operator"] == "And"
    assert [[*operand.items()][-1] for operand in other.arguments["where"]["operands"]] == [
        ("valueInt", -7),
        ("valueBoolean", True),
    ]
    with pytest.raises(UnsupportedError):
        WRITES.ask(WRITE_TO_DOCS, points(), requests(0, tenants=((("gone", b"1"),),)))


def hit(number: int, distance: float | None, **more: Any) -> dict[str, Any]:
    return {"text": f"t{number}", "gone": None, "_additional": {"id": f"A{number}", "distance": distance, **more}}


def answer(**rows: Any) -> bytes:
    return json.dumps({"data": {"Get": rows}}).encode()


@pytest.mark.parametrize("target", ["", "named"])
def test_neighbours_are_read_with_ids_scores_vectors_and_wanted_keys(target: str) -> None:
    vectors = {"vectors": {"named": [1, 2]}} if target else {"vector": [1, 2]}
    bodies = [answer(a1=[hit(1, 0.25, **vectors), hit(2, None)]), answer(a0=None)]
    near = WRITES.neighbours(points(target=target), requests(1, 0, vectors=True), bodies)
    assert (near.of.tolist(), near.ids) == ([1, 1], (b'"a1"', b'"a2"'))
    assert near.scores[0] == 0.75
    assert np.isnan(near.scores[1])
    assert near.vectors[0].tolist() == [1.0, 2.0]
    assert near.fields == ((b'"t1"', None, None), (b'"t2"', None, None))


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b'{"data":null}',
        answer(a0=[]),
        answer(a0=[], a1=[{}]),
        answer(a0=[{"_additional": {"id": 7}}], a1=[]),
    ],
)
def test_another_answer_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedReplyError):
        WRITES.neighbours(points(), requests(0, 1), [body])


def test_an_error_is_a_refusal() -> None:
    with pytest.raises(DeclinedError):
        WRITES.neighbours(points(), requests(0), [b'{"data":{"Get":{"a0":null}},"errors":[{"message":"no"}]}'])


def test_a_collection_is_described_by_its_name() -> None:
    question = described("Do cs/")
    assert question is not None
    assert (question.method, question.target, question.body) == ("GET", "/v1/schema/Do%20cs%2F", b"")
    assert described("") is None
    body = b'{"class":"Docs","vectorConfig":{"a":{"vectorIndexConfig":{"distance":"cosine"}}}}'
    assert [WRITES.is_cosine(body, name) for name in ("a", "", "b")] == [True, True, False]
    assert not WRITES.is_cosine(b"{", "")


def test_objects_that_the_write_does_not_bring_are_read_themselves_where_they_are_wanted_whole() -> None:
    questions = WRITES.ask_stored(WRITE_TO_DOCS, points(tenant="t/ü"), [b'"0"', b'"other"', b'"1"'], whole=True)
    assert [(question.method, question.target) for question in questions] == [
        ("POST", "/v1/graphql"),
        ("GET", "/v1/objects/Docs/other?include=vector&tenant=t%2F%C3%BC"),
    ]
    assert b"other" not in questions[0].body
    (bare,) = WRITES.ask_stored(WRITE_TO_DOCS, points(), [b'"other"'], whole=True)
    assert bare.target == "/v1/objects/Docs/other?include=vector"


@pytest.mark.parametrize("target", ["", "main"])
def test_an_object_is_read_with_what_can_be_stored_again_and_with_the_time_of_its_last_change(target: str) -> None:
    vectors = b'"vectors":{"main":[0.10,2]}' if target else b'"vector":[0.10,2]'
    template = b'{"class":"Docs","creationTimeUnix":1,"id":"AB","lastUpdateTimeUnix":7,"properties":{"n":1e2},%s,"vectorWeights":null}'
    ((identifier, point),) = WRITES.stored(points(target=target, tenant="t"), template % vectors).items()
    assert identifier == b'"ab"'
    expected = b'{"class":"Docs","id":"AB","properties":{"n":1e2},%s,"tenant":"t","lastUpdateTimeUnix":7}'
    assert point == expected % vectors
    with pytest.raises(MalformedReplyError):
        WRITES.stored(points(target=target), template % b'"vectors":{"other":[1]}')


def test_each_object_is_deleted_by_a_request_of_its_own() -> None:
    questions = WRITES.ask_removed(WRITE_TO_DOCS, points(tenant="t"), {b'"a"': b"{}", b'"b"': b"{}"})
    assert [(question.method, question.target) for question in questions] == [
        ("DELETE", "/v1/objects/Docs/a?tenant=t"),
        ("DELETE", "/v1/objects/Docs/b?tenant=t"),
    ]
    (bare,) = WRITES.ask_removed(WRITE_TO_DOCS, points(), {b'"a"': b"{}"})
    assert bare.target == "/v1/objects/Docs/a"
    assert isinstance(WRITES, MergesPoints)
    assert WRITES.form_of(points()).payload_of({"properties": {"n": 1}}) == {"n": 1}
    assert WRITES.waits(points(), "")
