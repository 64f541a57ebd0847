"""What a widened search returns in addition: fields of ``_source`` and the vector, and never a part of what the client selected."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from support.backends.transports import REST, reason_of
from support.opensearch.model import Server, Stored
from vecsieve.adapters.contract import (
    DescribesCollections,
    MalformedReplyError,
    Needs,
    Operation,
    Question,
    Reason,
    SearchCall,
)

ADAPTER = REST["elasticsearch"].adapter()
KNN = {"knn": {"field": "a.vec", "query_vector": [0.5], "k": 10, "num_candidates": 90}}
TEXT = Needs(vectors=False, optional_fields=("text",))


def parsed(members: Any, needs: Needs) -> SearchCall:
    operation = Operation(backend="elasticsearch", name="search", collection="docs")
    return ADAPTER.parse_request(operation, json.dumps({**KNN, **members}).encode(), needs)


def widened(members: Any, needs: Needs, name: str) -> Any:
    return json.loads(ADAPTER.widen(parsed(members, needs), [10])).get(name)


@pytest.mark.parametrize(
    ("selection", "expected", "is_cut"),
    [
        (True, True, False),
        (False, ["text"], False),
        ("id", ["id", "text"], False),
        (["id", "m.*"], ["id", "m.*", "text"], False),
        (["te*"], ["te*"], False),
        (["*"], ["*"], False),
        ([], [], False),
        (["*.page"], ["*.page"], True),
        (["text.en"], ["text.en"], True),
        ({}, {}, False),
        ({"includes": ["id"]}, {"includes": ["id", "text"]}, False),
        ({"include": "id"}, {"include": ["id", "text"]}, False),
        ({"includes": ["id"], "excludes": ["t*"]}, {"includes": ["id"], "excludes": ["t*"]}, True),
        ({"excludes": ["vec"], "exclude_vectors": True}, {"excludes": ["vec"], "exclude_vectors": True}, False),
        ({"excludes": ["text"]}, {"excludes": ["text"]}, True),
        ({"excludes": "*.en"}, {"excludes": "*.en"}, True),
    ],
    ids=str,
)
def test_a_text_is_added_where_no_pattern_touches_it(selection: Any, expected: Any, *, is_cut: bool) -> None:
    assert widened({"_source": selection}, TEXT, "_source") == expected
    assert [search.is_cut for search in parsed({"_source": selection}, TEXT).searches] == [is_cut]


def test_stored_fields_alone_return_no_source() -> None:
    assert widened({"stored_fields": ["id"]}, TEXT, "_source") == ["text"]
    assert widened({"stored_fields": ["id"], "_source": True}, TEXT, "_source") is True


def test_a_search_without_source_shows_all_of_it_while_the_text_is_unknown() -> None:
    needs = Needs(vectors=False, optional_fields=("text",), whole=True)
    assert widened({"_source": False}, needs, "_source") is True
    assert widened({"_source": ["id"]}, needs, "_source") == ["id", "text"]


@pytest.mark.parametrize(
    "selection", [["tenant.x"], {"excludes": ["ten*"]}, {"includes": ["a"], "excludes": ["tenant"]}], ids=str
)
def test_a_required_field_that_cannot_be_added_passes_through(selection: Any) -> None:
    assert reason_of(parsed, {"_source": selection}, Needs(payload_fields=("tenant",))) is Reason.PAYLOAD_SELECTOR


@pytest.mark.parametrize(
    "members",
    [
        {"_source": None},
        {"_source": 7},
        {"_source": {"later": 1}},
        {"stored_fields": "_none_"},
        {"fields": None},
        {"fields": [{"later": 1}]},
    ],
    ids=str,
)
def test_a_selection_of_an_unknown_form_passes_through(members: Any) -> None:
    assert reason_of(parsed, members, Needs()) in {
        Reason.PAYLOAD_SELECTOR,
        Reason.UNSUPPORTED_FIELD,
        Reason.AMBIGUOUS_FIELD,
    }


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, ["a.vec"]),
        ({"fields": []}, ["a.vec"]),
        ({"fields": ["x", {"field": "y", "format": "z"}]}, ["x", {"field": "y", "format": "z"}, "a.vec"]),
        ({"fields": ["a.*"]}, ["a.*"]),
        ({"fields": [{"field": "a.vec"}]}, [{"field": "a.vec"}]),
    ],
    ids=str,
)
def test_the_vector_is_one_of_the_fields(members: Any, expected: Any) -> None:
    assert widened(members, Needs(), "fields") == expected
    assert widened(members, Needs(vectors=False), "fields") == members.get("fields")


def test_a_policy_may_name_another_vector() -> None:
    call = parsed({}, Needs(vector_name="other"))
    assert json.loads(ADAPTER.widen(call, [10]))["fields"] == ["other"]
    assert [search.query for search in call.searches] == [None]


@pytest.mark.parametrize(
    ("version", "member"),
    [
        ({"number": "9.3.1"}, "docvalue_fields"),
        ({"number": "9.2.0-SNAPSHOT"}, "docvalue_fields"),
        ({"number": "10.0.0"}, "docvalue_fields"),
        ({"number": "8.11.0", "build_flavor": "serverless"}, "docvalue_fields"),
        ({"number": "9.1.4"}, "fields"),
        ({"number": "8.17.2", "build_flavor": "default"}, "fields"),
    ],
)
@pytest.mark.parametrize("listed", [None, ["n"]])
def test_the_version_decides_where_elasticsearch_returns_vectors(version: Any, member: str, listed: Any) -> None:
    """And the answer has none of it: what was listed beside it stays."""
    adapter = ADAPTER
    assert isinstance(adapter, DescribesCollections)
    known = adapter.parse_description(json.dumps({"version": version}).encode())
    members = {} if listed is None else {"fields": listed, "docvalue_fields": []}
    wide = {**members, member: [*(members.get(member, [])), "a.vec"]}
    call = parsed(members, Needs(known=known))
    body = json.loads(ADAPTER.widen(call, [10]))
    assert {name: body.get(name) for name in wide} == wide
    vector = b"[0.5]" if member == "fields" else b"[[0.5]]"
    text = Server(hits=(Stored(id='"1"', score="1.0", source=(("n", "7"),)),)).answer(json.dumps(members).encode())
    reply = text.replace(b'"_source":{"n":7}', b'"_source":{"n":7},"fields":{"a.vec":' + vector + b"}")
    if listed:
        reply = text.replace(b'"fields":{', b'"fields":{"a.vec":' + vector + b",")
    pool = ADAPTER.parse_reply(call, reply)
    assert pool.pools[0].vectors.tolist() == [[0.5]]
    assert ADAPTER.trim(call, pool, [np.arange(1)]) == text


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"version":{"number":"x"}}', b'{"version":{"number":"9"}}', b'{"version":{}}']
)
def test_a_server_that_names_no_version_is_unknown(body: bytes) -> None:
    assert isinstance(ADAPTER, DescribesCollections)
    assert ADAPTER.describe(Operation(backend="elasticsearch", name="search", collection="x"), b"") == Question(
        method="GET", target="/"
    )
    with pytest.raises(MalformedReplyError):
        ADAPTER.parse_description(body)


OPENSEARCH = REST["opensearch"].adapter()


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        (True, True),
        (False, ["text", "vec"]),
        (["id"], ["id", "text", "vec"]),
        (["*"], ["*"]),
        (["id", "v*"], ["id", "v*", "text"]),
        ({"excludes": ["id", "vec"]}, {"excludes": ["id", "_vecsieve_none"]}),
        ({"excludes": "vec"}, {"excludes": "_vecsieve_none"}),
        ({"excludes": ["v*"]}, {"excludes": ["v*"]}),
        (
            {"includes": ["id"], "excludes": ["vec"]},
            {"includes": ["id", "text", "vec"], "excludes": ["_vecsieve_none"]},
        ),
        ({"includes": ["*"], "excludes": ["vec"]}, {"includes": ["*"], "excludes": ["_vecsieve_none"]}),
    ],
    ids=str,
)
def test_opensearch_returns_a_vector_only_if_the_source_has_it(selection: Any, expected: Any) -> None:
    """And the answer has neither again."""
    clause = {"query": {"knn": {"vec": {"vector": [0.5], "k": 10}}}}
    operation = Operation(backend="opensearch", name="search", collection="docs")
    stored = Stored(id='"1"', score="1.0", source=(("id", "7"), ("text", '"t"')), vector="[0.5]")
    server = Server(hits=(stored, stored), is_opensearch=True)
    for needs in (Needs(optional_fields=("text",)), Needs(vectors=False, optional_fields=("text",))):
        body = json.dumps({**clause, "_source": selection}).encode()
        call = OPENSEARCH.parse_request(operation, body, needs)
        wide = OPENSEARCH.widen(call, [10])
        if needs.vectors:
            assert json.loads(wide)["_source"] == expected
        reply = OPENSEARCH.parse_reply(call, server.answer(wide))
        assert reply.pools[0].unusable == (0 if needs.vectors and expected != {"excludes": ["v*"]} else 2)
        assert OPENSEARCH.trim(call, reply, [np.arange(2)]) == server.answer(body)


def test_a_vector_inside_an_object_is_added_with_it() -> None:
    operation = Operation(backend="opensearch", name="search", collection="docs")
    for selection, expected in (
        (["id"], ["id", "a.vec"]),
        (["a.b"], ["a.b"]),
        ({"excludes": ["a.vec"]}, {"excludes": ["a.vec"]}),
    ):
        body = json.dumps({"query": {"knn": {"a.vec": {"vector": [0.5], "k": 10}}}, "_source": selection}).encode()
        wide = json.loads(OPENSEARCH.widen(OPENSEARCH.parse_request(operation, body, Needs()), [10]))
        assert wide["_source"] == expected


@pytest.mark.parametrize("field", ["vec", "a.vec", "a.b.vec"])
@pytest.mark.parametrize("adapter", [ADAPTER, OPENSEARCH])
@pytest.mark.parametrize("fields", [None, ["n", "tag"]])
def test_for_a_client_without_source_the_vector_comes_with_the_source_and_fields_stay(
    field: str, adapter: Any, fields: Any
) -> None:
    *above, name = field.split(".")
    clause = {"bool": {"must": [{"knn": {field: {"vector": [0.5], "k": 10}}}]}}
    members = {"query": clause, "_source": False, **({} if fields is None else {"fields": fields})}
    call = adapter.parse_request(
        Operation(backend="x", name="search", collection="docs"), json.dumps(members).encode(), Needs()
    )
    wide = json.loads(adapter.widen(call, [10]))
    assert wide == {**members, "_source": [field]}
    source: Any = {name: [0.5]}
    for key in reversed(above):
        source = {key: source}
    text = Server(hits=(Stored(id='"1"', score="1.0", source=(("n", "7"),)),)).answer(json.dumps(members).encode())
    reply = text.replace(b'"_score":1.0', b'"_score":1.0,"_source":' + json.dumps(source).encode())
    pools = adapter.parse_reply(call, reply)
    assert pools.pools[0].vectors.tolist() == [[0.5]]
    assert adapter.trim(call, pools, [np.arange(1)]) == text


def test_a_source_without_the_vector_has_none() -> None:
    call = parsed({"_source": False}, Needs())
    for source in (b'{"a":7}', b'{"a":{"b":1}}', b"{}", b'{"a":{"vec":"x"}}'):
        text = Server(hits=(Stored(id='"1"', score="1.0"),)).answer(b'{"_source":false}')
        reply = text.replace(b'"_score":1.0', b'"_score":1.0,"_source":' + source)
        assert ADAPTER.parse_reply(call, reply).pools[0].unusable == 1


@pytest.mark.parametrize("vectors", [True, False])
@pytest.mark.parametrize("fields", [["vec"], ["*"], ["v*", "text"], [{"field": "vec"}]])
@pytest.mark.parametrize("selection", [False, ["id"], True, {"excludes": ["vec"]}])
def test_what_opensearch_shows_in_fields_is_what_it_would_have_shown(
    selection: Any, fields: Any, *, vectors: bool
) -> None:
    """A vector that the client requests there, or hides by its selection."""
    body = json.dumps(
        {"query": {"knn": {"vec": {"vector": [0.5], "k": 10}}}, "_source": selection, "fields": fields}
    ).encode()
    stored = Stored(id='"1"', score="1.0", source=(("id", "7"), ("text", '"t"')), vector="[0.5]")
    server = Server(hits=(stored, stored), is_opensearch=True)
    operation = Operation(backend="opensearch", name="search", collection="docs")
    call = OPENSEARCH.parse_request(operation, body, Needs(vectors=vectors, optional_fields=("text",)))
    reply = OPENSEARCH.parse_reply(call, server.answer(OPENSEARCH.widen(call, [10])))
    assert OPENSEARCH.trim(call, reply, [np.arange(2)]) == server.answer(body)
