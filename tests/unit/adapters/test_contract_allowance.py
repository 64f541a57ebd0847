"""What is read of stored fields is bounded in every adapter, in rank order."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client import grpc as pb

from support.backends.transports import GRPC, REST, operation_of
from vecsieve.adapters.contract import FIELD_BYTES, NESTED_BYTES, Allowance, Needs, Pool, RequestHead
from vecsieve.adapters.qdrant import rest_reply
from vecsieve.adapters.wire import values

NEEDS = Needs(optional_fields=("text",))
ROOM = 1 << 16
LARGE = "漢" * (ROOM // 15 + 1)  # a little more than a fifth of what is read here
COUNT = 8


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replies in JSON are bounded as a whole, too, at what fields may have there."""
    assert ROOM < FIELD_BYTES
    monkeypatch.setattr(rest_reply, "FIELD_BYTES", ROOM)
    monkeypatch.setattr(values, "FIELD_BYTES", ROOM)


@given(st.lists(st.integers(0, 50)), st.integers(0, 100))
def test_what_does_not_fit_ends_it(sizes: list[int], room: int) -> None:
    """Invariant: what was covered never comes to more than there was, and nothing is covered behind what was not."""
    allowance = Allowance(room)
    covered = [allowance.covers(size) for size in sizes]
    assert sum(size for size, is_read in zip(sizes, covered, strict=True) if is_read) <= room
    assert covered == sorted(covered, reverse=True)


def over_rest(payloads: list[dict[str, Any]], needs: Needs = NEEDS, *, is_ascii: bool = False) -> Pool:
    adapter = REST["qdrant"].adapter()
    operation = operation_of(
        adapter, RequestHead(method="POST", path="/collections/c/points/query", content_type="application/json")
    )
    call = adapter.parse_request(operation, b'{"query":[1.0,0.5],"limit":3}', needs)
    points = [
        {"id": number, "version": 1, "score": 0.5, "payload": payload, "vector": [1.0, 0.5]}
        for number, payload in enumerate(payloads)
    ]
    document = {"result": {"points": points}, "status": "ok", "time": 0.1}
    body = json.dumps(document, ensure_ascii=is_ascii, separators=(",", ":")).encode()
    return adapter.parse_reply(call, body).pools[0]


def over_grpc(payloads: list[dict[str, Any]], needs: Needs = NEEDS) -> Pool:
    adapter = GRPC["qdrant"].adapter()
    query: Any = pb.QueryPoints(
        collection_name="c", limit=3, query=pb.Query(nearest=pb.VectorInput(dense=pb.DenseVector(data=[1.0, 0.5])))
    )
    message = query.SerializeToString()
    operation = operation_of(adapter, RequestHead(method="POST", path="/qdrant.Points/Query", message=message))
    call = adapter.parse_request(operation, message, needs)
    response: Any = pb.QueryResponse(time=0.1)
    for number, payload in enumerate(payloads):
        point = response.result.add(version=1, score=0.5)
        point.id.num = number
        point.vectors.vector.dense.data.extend([1.0, 0.5])
        for key, value in payload.items():
            if isinstance(value, str):
                point.payload[key].string_value = value
            else:
                for item in value:
                    point.payload[key].list_value.values.add().integer_value = item
    return adapter.parse_reply(call, response.SerializeToString()).pools[0]


@pytest.mark.parametrize("read", [over_rest, over_grpc])
def test_the_texts_of_the_best_ranks_are_handed_over(read: Any) -> None:
    pool = read([{"text": LARGE}] * COUNT)
    expected = orjson.dumps(LARGE)
    assert [fields[0] for fields in pool.fields] == [expected] * 4 + [None] * 4
    assert np.isfinite(pool.vectors).all()


def test_they_are_bounded_as_well_where_escapes_were_changed() -> None:
    pool = over_rest([{"text": LARGE[: len(LARGE) // 2 + 9], "odd": "\ud800"}] * COUNT, is_ascii=True)
    assert [fields[0] is not None for fields in pool.fields] == [True] * 4 + [False] * 4


@pytest.mark.parametrize("read", [over_rest, over_grpc])
def test_what_decides_about_tenants_is_read_whatever_its_size(read: Any) -> None:
    pool = read([{"text": LARGE}] * COUNT, Needs(payload_fields=("text",)))
    assert None not in [fields[0] for fields in pool.fields]


def test_lists_have_an_allowance_of_their_own() -> None:
    """They are spelled one value after another; a text behind them is read all the same."""
    needs = Needs(optional_fields=("list", "text"))
    pool = over_grpc([{"list": [1] * (NESTED_BYTES // 16), "text": "a"}] * COUNT, needs)
    lists = [fields[0] is not None for fields in pool.fields]
    assert lists == sorted(lists, reverse=True)
    assert any(lists)
    assert not all(lists)
    assert [fields[1] for fields in pool.fields] == [b'"a"'] * COUNT
