"""The reads beside writes, over REST: queries of several searches, and their answers."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from support.weaviate import graphql_queries as weaviate_graphql
from vecsieve.adapters.contract import DeclinedError, MalformedReplyError, Operation, UnsupportedError
from vecsieve.adapters.weaviate.calls import Schema
from vecsieve.adapters.weaviate.rest_write import Document, WeaviateRestWrites, described
from vecsieve.adapters.writes import Inquiry, MergesPoints, NewPoints

WRITES = WeaviateRestWrites()
WRITE = Operation(backend="weaviate", name="batch", collection="Docs")
TYPES = {"text": "text", "team": "text", "n": "int", "yes": "boolean", "_vecsieve": "text", "of": "Other"}


def points(
    count: int = 2, *, target: str = "", tenant: str = "", keys: tuple[str, ...] = ("Text", "of", "gone")
) -> NewPoints:
    schema = Schema(name="Docs", types=TYPES, distances={target: "cosine"})
    return NewPoints(
        ids=tuple(b'"%d"' % row for row in range(count)),
        vectors=np.array([[row, 0.5] for row in range(count)], np.float32),
        vector_name=target,
        keys=keys,
        fields=((None,) * len(keys),) * count,
        document=Document(schema, tenant, target, None),
    )


def asked(*which: int, tenants: Any = None, count: int = 5, vectors: bool = False) -> Inquiry:
    return Inquiry(which=which, tenants=tenants or ((),) * len(which), count=count, vectors=vectors)


def queries(new: NewPoints, inquiry: Inquiry) -> list[list[weaviate_graphql.Field]]:
    questions = WRITES.ask(WRITE, new, inquiry)
    assert {(question.method, question.target) for question in questions} == {("POST", "/v1/graphql")}
    return [weaviate_graphql.read(json.loads(question.body)["query"]) for question in questions]


def test_each_object_has_a_search_of_its_own_in_one_query() -> None:
    ((one, other),) = queries(points(), asked(0, 1))
    assert (one.alias, one.name, other.alias) == ("a0", "Docs", "a1")
    assert one.arguments == {"limit": 5, "nearVector": {"vector": [0.0, 0.5]}}
    assert other.arguments["nearVector"] == {"vector": [1.0, 0.5]}
    assert [each.name for each in one.selected] == ["text", "_additional"], (
        "properties with parts, and absent ones, are not named"
    )
    assert [each.name for each in one.selected[-1].selected] == ["id", "distance"]


@pytest.mark.parametrize(("target", "expected"), [("", "vector"), ("named", "vectors")])
def test_the_vector_is_asked_for_by_its_name_and_the_tenant_named(target: str, expected: str) -> None:
    (only,) = queries(points(1, target=target, tenant='le"ft'), asked(0, vectors=True))[0]
    assert only.arguments["tenant"] == 'le"ft'
    assert only.arguments["nearVector"].get("targetVectors") == ([target] if target else None)
    assert [each.name for each in only.selected[-1].selected] == ["id", "distance", expected]


def test_a_tenants_filter_is_that_of_its_properties_types() -> None:
    tenants = ((("Team", '"ü\\n"'.encode()),), (("n", b"-7"), ("yes", b"true")))
    ((one, other),) = queries(points(), asked(0, 1, tenants=tenants))
    assert one.arguments["where"] == {"path": ["team"], "operator": "Equal", "valueText": "ü\n"}
    assert other.arguments["where"]["operator"] == "And"
    assert [[*operand.items()][-1] for operand in other.arguments["where"]["operands"]] == [
        ("valueInt", -7),
        ("valueBoolean", True),
    ]
    with pytest.raises(UnsupportedError):
        WRITES.ask(WRITE, points(), asked(0, tenants=((("gone", b"1"),),)))


def hit(number: int, distance: float | None, **more: Any) -> dict[str, Any]:
    return {"text": f"t{number}", "gone": None, "_additional": {"id": f"A{number}", "distance": distance, **more}}


def answer(**rows: Any) -> bytes:
    return json.dumps({"data": {"Get": rows}}).encode()


@pytest.mark.parametrize("target", ["", "named"])
def test_neighbours_are_read_with_ids_scores_vectors_and_wanted_keys(target: str) -> None:
    said = {"vectors": {"named": [1, 2]}} if target else {"vector": [1, 2]}
    bodies = [answer(a1=[hit(1, 0.25, **said), hit(2, None)]), answer(a0=None)]
    near = WRITES.neighbours(points(target=target), asked(1, 0, vectors=True), bodies)
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
        WRITES.neighbours(points(), asked(0, 1), [body])


def test_an_error_is_a_refusal() -> None:
    with pytest.raises(DeclinedError):
        WRITES.neighbours(points(), asked(0), [b'{"data":{"Get":{"a0":null}},"errors":[{"message":"no"}]}'])


def test_a_collection_is_described_by_its_name() -> None:
    question = described("Do cs/")
    assert question is not None
    assert (question.method, question.target, question.body) == ("GET", "/v1/schema/Do%20cs%2F", b"")
    assert described("") is None
    body = b'{"class":"Docs","vectorConfig":{"a":{"vectorIndexConfig":{"distance":"cosine"}}}}'
    assert [WRITES.is_cosine(body, name) for name in ("a", "", "b")] == [True, True, False]
    assert not WRITES.is_cosine(b"{", "")


def test_objects_that_the_write_does_not_bring_are_read_themselves_where_they_are_wanted_whole() -> None:
    questions = WRITES.ask_stored(WRITE, points(tenant="t/ü"), [b'"0"', b'"other"', b'"1"'], whole=True)
    assert [(question.method, question.target) for question in questions] == [
        ("POST", "/v1/graphql"),
        ("GET", "/v1/objects/Docs/other?include=vector&tenant=t%2F%C3%BC"),
    ]
    assert b"other" not in questions[0].body
    (bare,) = WRITES.ask_stored(WRITE, points(), [b'"other"'], whole=True)
    assert bare.target == "/v1/objects/Docs/other?include=vector"


@pytest.mark.parametrize("target", ["", "main"])
def test_an_object_is_read_with_what_can_be_stored_again_and_with_the_time_of_its_last_change(target: str) -> None:
    vectors = b'"vectors":{"main":[0.10,2]}' if target else b'"vector":[0.10,2]'
    said = b'{"class":"Docs","creationTimeUnix":1,"id":"AB","lastUpdateTimeUnix":7,"properties":{"n":1e2},%s,"vectorWeights":null}'
    ((identifier, found),) = WRITES.stored(points(target=target, tenant="t"), said % vectors).items()
    assert identifier == b'"ab"'
    expected = b'{"class":"Docs","id":"AB","properties":{"n":1e2},%s,"tenant":"t","lastUpdateTimeUnix":7}'
    assert found == expected % vectors
    with pytest.raises(MalformedReplyError):
        WRITES.stored(points(target=target), said % b'"vectors":{"other":[1]}')


def test_each_object_is_deleted_by_a_request_of_its_own() -> None:
    questions = WRITES.ask_removed(WRITE, points(tenant="t"), {b'"a"': b"{}", b'"b"': b"{}"})
    assert [(question.method, question.target) for question in questions] == [
        ("DELETE", "/v1/objects/Docs/a?tenant=t"),
        ("DELETE", "/v1/objects/Docs/b?tenant=t"),
    ]
    (bare,) = WRITES.ask_removed(WRITE, points(), {b'"a"': b"{}"})
    assert bare.target == "/v1/objects/Docs/a"
    assert isinstance(WRITES, MergesPoints)
    assert WRITES.form_of(points()).payload_of({"properties": {"n": 1}}) == {"n": 1}
    assert WRITES.waits(points(), "")
