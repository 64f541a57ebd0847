from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.transports import operation_of
from support.exchanges.conversation import Conversation
from support.qdrant.bodies import conversations
from vecsieve.adapters.contract import Needs, Operation, RequestHead, SearchCall, UnsupportedError
from vecsieve.adapters.qdrant import rest_reply
from vecsieve.adapters.qdrant.rest import QdrantRest, parse_lean, trim
from vecsieve.adapters.qdrant.rest_request import Document

ADAPTER = QdrantRest()


def trimmed(request: dict[str, Any], result: str, keep: list[int], needs: Needs | None = None) -> str:
    operation = operation_of(ADAPTER, RequestHead(method="POST", path="/collections/c/points/search"))
    body = json.dumps({"vector": [1], "limit": 5, **request}).encode()
    call = ADAPTER.parse_request(operation, body, Needs() if needs is None else needs)
    reply = ADAPTER.parse_reply(call, b'{"result":%s}' % result.encode())
    answer = ADAPTER.trim(call, reply, [np.array(keep, dtype=np.intp)]).decode()
    return answer.removeprefix('{"result":').removesuffix("}")


def assert_direct(talk: Conversation, needs: Needs) -> None:
    """What is cut from the pool is the answer to the client's own request."""
    operation = operation_of(ADAPTER, RequestHead(method="POST", path=talk.path))
    try:
        call = ADAPTER.parse_request(operation, talk.body, needs)
    except UnsupportedError:
        return
    reply = ADAPTER.parse_reply(call, talk.answer(ADAPTER.widen(call, [9])))
    assert ADAPTER.trim(call, reply, [np.arange(min(4, reply.pools[0].size))]) == talk.answer(talk.body)


UNASKED = {"limit": 4, "offset": None, "with_payload": False, "with_vector": False}


@given(talk=conversations(operation="search", is_old=st.booleans(), extra=UNASKED))
def test_an_old_server_is_known_by_its_nulls_and_answered_in_its_way(talk: Conversation) -> None:
    # Invariant: where a payload nobody asked for is null upstream, the direct answer's nulls are restored.
    assert_direct(talk, Needs())


@pytest.mark.parametrize(
    ("selector", "sent", "expected"),
    [
        (["a"], '{"a":[1],"":[2]}', '{"a":[1]}'),
        (["a"], '{"":[2],"a":[1]}', '{"a":[1]}'),
        (["a"], '{"":[2]}', "{}"),
        (["a"], "[2]", "{}"),
        (["a"], "[[2]]", "{}"),
        (["a"], "{}", "{}"),
        (["a"], "null", "null"),
        ([], "[2]", "{}"),
        ([""], "[2]", "[2]"),
        (["", "a"], "[2]", "[2]"),
        (["", "a"], '{"a":[1],"":[2]}', '{"a":[1],"":[2]}'),
        (True, '{"a":[1],"":[2]}', '{"a":[1],"":[2]}'),
    ],
)
def test_a_vectors_shape_is_the_one_the_client_would_have_got(selector: object, sent: str, expected: str) -> None:
    point = '[{"id":1,"version":0,"score":1.0,"vector":%s}]'
    assert trimmed({"with_vector": selector}, point % sent, [0]) == point % expected


def test_the_unnamed_vector_that_is_left_alone_becomes_bare() -> None:
    body = {"vector": {"name": "b", "vector": [1]}, "with_vector": [""]}
    point = '[{"id":1,"version":0,"score":1.0,"vector":%s}]'
    assert trimmed(body, point % '{"b":[1],"":[2,3]}', [0]) == point % "[2,3]"
    assert trimmed(body, point % '{ "" : [[2],[3]] , "b":[1]}', [0]) == point % "[[2],[3]]"


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ('{"id":1,"score":1.0,"vector":[1]}', '{"id":1,"score":1.0}'),
        ('{"vector":[1],"id":1,"score":1.0}', '{"id":1,"score":1.0}'),
        ('{"id":1, "vector" : [1] , "score":1.0}', '{"id":1 , "score":1.0}'),
        ('{"id":1,"score":1.0}', '{"id":1,"score":1.0}'),
        ('{"id":1,"score":1.0,"vector":{},"shard_key":"a"}', '{"id":1,"score":1.0,"shard_key":"a"}'),
        ('{"id":1,"score":1.0,"payload":null,"vector":[1]}', '{"id":1,"score":1.0,"payload":null,"vector":null}'),
        ('{"id":1,"score":1.0,"payload":null}', '{"id":1,"score":1.0,"payload":null}'),
        ('{"id":1,"score":1.0,"vector":null}', '{"id":1,"score":1.0,"vector":null}'),
    ],
)
def test_a_vector_nobody_asked_for_is_cut_or_null_as_the_server_does(sent: str, expected: str) -> None:
    assert trimmed({}, f"[{sent}]", [0]) == f"[{expected}]"


def test_one_null_in_the_reply_tells_for_all_its_points() -> None:
    sent = '[{"id":1,"score":1,"payload":{},"vector":[1]},{"id":2,"score":1,"payload":{},"vector":null}]'
    assert trimmed({"with_payload": True}, sent, [0]) == '[{"id":1,"score":1,"payload":{},"vector":null}]'


def test_a_payload_that_was_forced_goes_and_keys_that_were_added_go_alone() -> None:
    needs = Needs(payload_fields=("k", "l"))
    sent = '[{"id":1,"score":1,"payload":{"k":{"l":1}, "a":2 ,"l":3}},{"id":2,"score":1,"payload":{"k":1}},{"id":3,"score":1}]'
    assert trimmed({}, sent, [0, 2], needs) == '[{"id":1,"score":1},{"id":3,"score":1}]'
    assert trimmed({"with_payload": ["a"]}, sent, [0, 1, 2], needs) == (
        '[{"id":1,"score":1,"payload":{"a":2}},{"id":2,"score":1,"payload":{}},{"id":3,"score":1}]'
    )
    assert trimmed({"with_payload": ["l", "a"]}, sent, [1], needs) == '[{"id":2,"score":1,"payload":{}}]'
    assert trimmed({"with_payload": True}, sent, [1], needs) == '[{"id":2,"score":1,"payload":{"k":1}}]'


def test_a_null_payload_with_added_keys_stays_null() -> None:
    sent = '[{"id":1,"score":1,"payload":null,"vector":null}]'
    assert trimmed({"with_payload": ["a"]}, sent, [0], Needs(payload_fields=("k",))) == sent


@pytest.mark.parametrize(
    ("keep", "expected"),
    [
        ([], "[]"),
        ([0], '[ {"id":1,"score":1}\n]'),
        ([1], '[ {"id":2,"score":1}\n]'),
        ([0, 1], '[ {"id":1,"score":1} , {"id":2,"score":1}\n]'),
        ([0, 2], '[ {"id":1,"score":1},\t{"id":3,"score":1}\n]'),
        ([2, 0], '[ {"id":3,"score":1},{"id":1,"score":1}\n]'),
        ([0, 1, 2], '[ {"id":1,"score":1} , {"id":2,"score":1},\t{"id":3,"score":1}\n]'),
    ],
)
def test_a_kept_point_brings_the_separator_that_stood_before_it(keep: list[int], expected: str) -> None:
    sent = '[ {"id":1,"score":1} , {"id":2,"score":1},\t{"id":3,"score":1}\n]'
    assert trimmed({}, sent, keep) == expected


# A lean reply read in one pass is what the reader of any reply makes of it, or is left to that reader.

LEAN = Needs(vector_name="", vectors=False)


def call(name: str = "query", **members: object) -> SearchCall:
    query = {"query": [1.0, 2.0]} if name == "query" else {"vector": [1.0, 2.0]}
    body = orjson.dumps({**query, "limit": 3, "with_payload": True, **members})
    operation = Operation(backend="qdrant", name=name, collection="c")
    return ADAPTER.parse_request(operation, body, LEAN)


def document(of: SearchCall) -> Document:
    assert isinstance(of.document, Document)
    return of.document


def reply(points: list[dict[str, Any]], name: str = "query", **more: object) -> bytes:
    result = {"points": points} if name == "query" else points
    return orjson.dumps({"result": result, "status": "ok", "time": 0.001, **more})


ids = st.one_of(st.integers(0, 2**63), st.uuids().map(str))
payloads = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.floats(-1, 1), st.text(max_size=12)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["id", "version", "score", "payload", "result", "points", "a"]), inner),
    ),
    max_leaves=12,
)
points = st.lists(
    st.fixed_dictionaries(
        {"id": ids, "version": st.integers(0, 99), "score": st.floats(-2, 2)},
        optional={"payload": st.one_of(st.none(), st.dictionaries(st.sampled_from(["id", "score", "text"]), payloads))},
    ),
    max_size=5,
)


@given(
    results=points,
    name=st.sampled_from(["query", "search"]),
    kept=st.sets(st.integers(0, 4)),
    fields=st.sampled_from([(), ("text",), ("id", "text")]),
)
def test_in_one_pass_or_member_by_member_a_reply_says_the_same(
    results: list[dict[str, Any]], name: str, kept: set[int], fields: tuple[str, ...]
) -> None:
    """Invariant: a reply that is read in one pass has the pool and gives the answers of the reader of any reply."""
    search, body, needs = call(name), reply(results, name), replace(LEAN, optional_fields=fields)
    quick = parse_lean(document(search), needs, body)
    (slow_pool,), slow = rest_reply.parse_reply(document(search), needs, body)
    if quick is None:
        return
    (pool,), made = quick
    assert (pool.ids, pool.versions, pool.fields) == (slow_pool.ids, slow_pool.versions, slow_pool.fields)
    assert pool.payloads is not None
    assert slow_pool.payloads is not None
    rows = range(pool.size)[::-1]
    assert pool.payloads(rows) == slow_pool.payloads(rows)
    assert pool.scores.tolist() == slow_pool.scores.tolist()
    assert (pool.unusable, pool.vectors.shape[0]) == (slow_pool.unusable, slow_pool.vectors.shape[0])
    keep = [np.array([index for index in sorted(kept) if index < len(results)], np.intp)]
    assert trim(document(search), made, keep) == trim(document(search), slow, keep)
    places = range(len(slow.lists[0].spans))
    assert [made.lists[0].point(at) for at in places] == [slow.lists[0].point(at) for at in places]


@pytest.mark.parametrize("name", ["query", "search"])
def test_what_servers_write_is_read_in_one_pass(name: str) -> None:
    points: list[dict[str, Any]] = [
        {"id": 1, "version": 7, "score": 0.5, "payload": {"text": "a } b"}},
        {"id": 2, "version": 8, "score": 1},
    ]
    assert parse_lean(document(call(name)), LEAN, reply(points, name)) is not None


HEAD = b'{"result":{"points":['
POINT = b'{"id":1,"version":2,"score":0.5,"payload":{"a":1}}'
TAIL = b']},"status":"ok","time":0.1}'


@pytest.mark.parametrize(
    "body",
    [
        HEAD + TAIL,
        HEAD + b" " + POINT + TAIL,
        HEAD + POINT + b" ," + POINT + TAIL,
        HEAD + POINT + b"," + POINT[:-1] + b',"vector":[1,2]}' + TAIL,
        HEAD + b'{"version":2,"id":1,"score":0.5}' + TAIL,
        HEAD + b'{"id":1,"version":2,"score":null}' + TAIL,
        HEAD + b'{"id":1,"version":2,"score":0.5,"payload":null}' + TAIL,
        HEAD + b'{"id":1,"version":2,"score":0.5,"payload":{"a":1},"payload":{"a":2}}' + TAIL,
        HEAD + b'{"id":1,"id":2,"version":2,"score":0.5}' + TAIL,
        HEAD + b'{"id":1,"version":2,"score":0.5,"payload":{"a":"\\ud800"}}' + TAIL,
        HEAD + POINT + b']},"result":{"points":[]}}',
        HEAD + POINT + b']},"status":"ok"',
        b'{"status":"ok","result":{"points":[' + POINT + b"]}}",
        b"",
    ],
)
def test_whatever_is_not_written_so_is_left_to_the_other_reader(body: bytes) -> None:
    assert parse_lean(document(call()), LEAN, body) is None


@pytest.mark.parametrize("needs", [Needs(), Needs(vectors=False, payload_fields=("t",))])
def test_a_reply_with_anything_of_ours_is_left_to_the_other_reader(needs: Needs) -> None:
    assert parse_lean(document(call()), needs, HEAD + POINT + TAIL) is None


@given(body=st.binary(max_size=200), at=st.integers(0, 60), cut=st.integers(0, 9))
def test_any_bytes_are_read_or_left(body: bytes, at: int, cut: int) -> None:
    """Invariant: total; a damaged reply is never read as another number of points than the other reader finds."""
    whole = HEAD + POINT + b"," + POINT + TAIL
    damaged = whole[:at] + body + whole[at + cut :]
    quick = parse_lean(document(call()), LEAN, damaged)
    if quick is not None:
        (slow,), _ = rest_reply.parse_reply(document(call()), LEAN, damaged)
        assert quick[0][0].ids == slow.ids
