from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.exchanges.conversation import Conversation
from support.qdrant.bodies import conversations
from vecsieve.adapters.contract import Needs, RequestHead, UnsupportedError
from vecsieve.adapters.qdrant.rest import QdrantRest

ADAPTER = QdrantRest()


def trimmed(request: dict[str, Any], result: str, keep: list[int], needs: Needs | None = None) -> str:
    operation = ADAPTER.classify(RequestHead(method="POST", path="/collections/c/points/search"))
    assert operation is not None
    body = json.dumps({"vector": [1], "limit": 5, **request}).encode()
    call = ADAPTER.parse_request(operation, body, Needs() if needs is None else needs)
    reply = ADAPTER.parse_reply(call, b'{"result":%s}' % result.encode())
    answer = ADAPTER.trim(call, reply, [np.array(keep, dtype=np.intp)]).decode()
    return answer.removeprefix('{"result":').removesuffix("}")


def assert_direct(talk: Conversation, needs: Needs) -> None:
    """What is cut from the pool is the answer to the client's own request."""
    operation = ADAPTER.classify(RequestHead(method="POST", path=talk.path))
    assert operation is not None
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
    ("wanted", "sent", "shown"),
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
def test_a_vectors_shape_is_the_one_the_client_would_have_got(wanted: object, sent: str, shown: str) -> None:
    point = '[{"id":1,"version":0,"score":1.0,"vector":%s}]'
    assert trimmed({"with_vector": wanted}, point % sent, [0]) == point % shown


def test_the_unnamed_vector_that_is_left_alone_becomes_bare() -> None:
    body = {"vector": {"name": "b", "vector": [1]}, "with_vector": [""]}
    point = '[{"id":1,"version":0,"score":1.0,"vector":%s}]'
    assert trimmed(body, point % '{"b":[1],"":[2,3]}', [0]) == point % "[2,3]"
    assert trimmed(body, point % '{ "" : [[2],[3]] , "b":[1]}', [0]) == point % "[[2],[3]]"


@pytest.mark.parametrize(
    ("sent", "shown"),
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
def test_a_vector_nobody_asked_for_is_cut_or_null_as_the_server_does(sent: str, shown: str) -> None:
    assert trimmed({}, f"[{sent}]", [0]) == f"[{shown}]"


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
    ("keep", "shown"),
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
def test_a_kept_point_brings_the_separator_that_stood_before_it(keep: list[int], shown: str) -> None:
    sent = '[ {"id":1,"score":1} , {"id":2,"score":1},\t{"id":3,"score":1}\n]'
    assert trimmed({}, sent, keep) == shown
