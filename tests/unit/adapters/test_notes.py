"""A note stands where a framework reads metadata, and nothing else of the payload changes."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from vecsieve.adapters.contract import Needs, RequestHead
from vecsieve.adapters.qdrant.rest import QdrantRest

NOTE = {"collapsed_ids": [7], "collapsed_sources": ["b.pdf"]}


def noted(payload: Any) -> Any:
    """The payload of Qdrant's only result, and what it is after the note."""
    adapter = QdrantRest()
    operation = adapter.classify(RequestHead(method="POST", path="/collections/c/points/query"))
    assert operation is not None
    call = adapter.parse_request(operation, b'{"query":[1.0],"limit":2,"with_payload":true}', Needs())
    point = f'{{"id":1,"version":0,"score":0.5,"payload":{json.dumps(payload)},"vector":[1.0]}}'
    body = f'{{"result":{{"points":[{point}]}},"status":"ok","time":0.1}}'.encode()
    answer = adapter.trim(call, adapter.parse_reply(call, body), [np.array([0], np.intp)])

    return json.loads(adapter.noted(call, answer, [[json.dumps(NOTE).encode()]]))["result"]["points"][0]["payload"]


def node(**members: Any) -> str:
    return json.dumps({"text": 'a "text" \u00e4 \U0001f600', **members})


@pytest.mark.parametrize("key", ["metadata", "meta"])
@pytest.mark.parametrize("inner", [{}, {"source": "a.pdf", "page": 1}])
def test_an_object_of_metadata_has_the_note(key: str, inner: dict[str, Any]) -> None:
    payload = {"text": "t", key: inner, "z": [1]}
    assert noted(payload) == payload | {key: inner | {"_vecsieve": NOTE}}


@pytest.mark.parametrize("inner", [{}, {"file_name": "a.pdf", "\u00e4": "\u20ac"}])
def test_the_node_of_llamaindex_has_it_in_its_own_metadata(inner: dict[str, Any]) -> None:
    payload = {"_node_content": node(metadata=inner), "file_name": "a.pdf"}
    expected = {"_node_content": json.loads(node(metadata=inner | {"_vecsieve": NOTE})), "file_name": "a.pdf"}
    found = noted(payload)
    assert found | {"_node_content": json.loads(found["_node_content"])} == expected


@pytest.mark.parametrize(
    "content",
    [
        "no json",
        "{",
        "[]",
        "{}",
        node(),
        node(metadata=None),
        node(metadata=[1]),
        '{"metadata":{},"metadata":{"a":1}}',
        '{"metadata":{"text":"\ud800"}}',
        "[" * 5000,
        7,
        None,
        {"metadata": {}},
    ],
)
def test_a_node_that_is_none_is_left_alone_and_the_payload_has_the_note(content: object) -> None:
    payload = {"_node_content": content, "metadata": "no object"}
    assert noted(payload) == payload | {"_vecsieve": NOTE}


@pytest.mark.parametrize("holder", ["", "metadata"])
def test_a_note_that_is_there_stays(holder: str) -> None:
    there = {"_vecsieve": {"duplicate_of": 3}}
    payload: dict[str, Any] = {holder: there} if holder else there
    assert noted(payload) == payload
