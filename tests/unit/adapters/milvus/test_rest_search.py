"""Milvus over REST: what a search asks for, its bytes asking for more, and the rows of its replies.

Version 1 as the real server of 2.3.5 writes it; version 2 as its handlers' source describes it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.transports import operation_of, reason_of
from vecsieve.adapters.contract import (
    DeclinedError,
    MalformedReplyError,
    Needs,
    Reason,
    RequestHead,
    SearchCall,
    UnsupportedError,
)
from vecsieve.adapters.milvus.rest import MilvusRest
from vecsieve.adapters.milvus.search import Schema

ADAPTER = MilvusRest()
SCHEMA = Schema(vectors=frozenset({"vector"}), scalars=frozenset({"id", "text"}), is_dynamic=True)
V1, V2 = "/v1/vector/search", "/v2/vectordb/entities/search"
QUERY = [0.5, 1, -2]


def body(version: str = V1, **members: Any) -> bytes:
    query: dict[str, Any] = {"vector": QUERY} if version == V1 else {"data": [QUERY], "annsField": "vector"}
    document = {"collectionName": "docs", **query, "limit": 3, "outputFields": ["text"], **members}
    return json.dumps({key: value for key, value in document.items() if value != "absent"}).encode()


def read(raw: bytes, version: str = V1, needs: Needs | None = None) -> SearchCall:
    operation = operation_of(ADAPTER, RequestHead(method="POST", path=version))
    return ADAPTER.parse_request(operation, raw, Needs(known=SCHEMA) if needs is None else needs)


def reply(*, version: str = V1, **members: Any) -> bytes:
    """As the server writes it: keys in order, no white space, ids as text."""
    data = [
        {"distance": 1 - row / 8, "id": f"47{row}", "text": f"é {row}", "vector": [row, 1, 0.5]} for row in range(4)
    ]
    code = 200 if version == V1 else 0
    return json.dumps({"code": code, "data": data, **members}, separators=(",", ":"), ensure_ascii=False).encode()


def kept(raw: bytes, *rows: int, call: SearchCall | None = None) -> bytes:
    call = read(body(V1), V1) if call is None else call
    return ADAPTER.trim(call, ADAPTER.parse_reply(call, raw), [np.array(rows, dtype=np.intp)])


@pytest.mark.parametrize("path", ["/v1/vector/query", "/v2/vectordb/entities/query", "/v1/vector/search/", ""])
def test_everything_else_is_passed_through(path: str) -> None:
    assert ADAPTER.classify(RequestHead(method="POST", path=path)) is None
    assert ADAPTER.classify(RequestHead(method="GET", path=V1)) is None
    assert ADAPTER.classify(RequestHead(method="POST", path=V1, content_type="text/csv")) is None


@pytest.mark.parametrize("version", [V1, V2])
def test_the_plain_search_is_read_and_widened(version: str) -> None:
    raw = body(version, offset=2)
    call = read(raw, version)
    [search] = call.searches
    assert (search.top_k, search.offset, search.pages, search.most) == (3, 2, True, 16_384)
    assert search.query is not None
    assert search.query.tolist() == QUERY
    wide = json.loads(ADAPTER.widen(call, [50]))
    assert wide == {**json.loads(raw), "limit": 50, "offset": 0, "outputFields": ["text", "vector"]}
    assert ADAPTER.widen(call, [0]) == raw


def test_a_list_that_is_absent_or_empty_is_made() -> None:
    nothing: list[str] = []
    for listed in ("absent", nothing):
        wide = json.loads(ADAPTER.widen(read(body(outputFields=listed)), [50]))
        assert wide["outputFields"] == ["vector"]
    assert reason_of(read, body(outputFields=None)) is Reason.PAYLOAD_SELECTOR
    everything = body(outputFields=["*"])
    assert json.loads(ADAPTER.widen(read(everything), [3])) == json.loads(everything)


@pytest.mark.parametrize(
    ("version", "members", "reason"),
    [
        (V1, {"limit": "absent"}, Reason.AMBIGUOUS_FIELD),
        (V1, {"limit": None}, Reason.AMBIGUOUS_FIELD),
        (V1, {"limit": "3"}, Reason.AMBIGUOUS_FIELD),
        (V1, {"limit": 3.5}, Reason.AMBIGUOUS_FIELD),
        (V1, {"limit": 0}, Reason.AMBIGUOUS_FIELD),
        (V1, {"limit": 1}, Reason.SINGLE_RESULT),
        (V1, {"Limit": 3}, Reason.UNSUPPORTED_FIELD),
        (V1, {"vector": "absent"}, Reason.AMBIGUOUS_FIELD),
        (V1, {"vector": "text"}, Reason.NOTHING_TO_DO),
        (V1, {"params": {"radius": 0.5}}, Reason.UNSUPPORTED_FIELD),
        (V1, {"outputFields": "text"}, Reason.AMBIGUOUS_FIELD),
        (V1, {"outputFields": ["%"]}, Reason.UNSUPPORTED_FIELD),
        (V2, {"data": [QUERY, QUERY]}, Reason.UNSUPPORTED_FIELD),
        (V2, {"data": ["text"]}, Reason.NOTHING_TO_DO),
        (V2, {"groupingField": "text"}, Reason.ORDERING_CHOSEN),
        (V2, {"functionScore": {}}, Reason.ORDERING_CHOSEN),
        (V2, {"searchParams": {"params": {"range_filter": 1}}}, Reason.UNSUPPORTED_FIELD),
        (V2, {"searchParams": {"ef": 10}}, Reason.UNSUPPORTED_FIELD),
    ],
)
def test_what_leaves_a_search_alone(version: str, members: dict[str, Any], reason: Reason) -> None:
    assert reason_of(read, body(version, **members), version) is reason


@pytest.mark.parametrize("version", [V1, V2])
def test_points_of_two_collections_are_not_taken_for_each_other(version: str) -> None:
    """The path names no collection, and ids of one may be those of another: memory and sessions tell them apart by the search."""
    changes: list[dict[str, Any]] = [{}, {"collectionName": "other"}, {"dbName": "docs"}]
    if version == V2:
        changes.append({"partitionNames": ["docs"]})
    assert len({read(body(version, **change), version).searches[0].partition for change in changes}) == len(changes)


def test_index_parameters_bound_the_pool() -> None:
    assert read(body(params={"ef": 40})).searches[0].most == 40
    assert read(body(V2, searchParams={"metricType": "L2", "params": {"ef": 40}}), V2).searches[0].most == 40


def test_without_a_schema_a_search_of_version_2_says_enough_and_one_of_version_1_does_not() -> None:
    assert reason_of(read, body(), needs=Needs()) is Reason.NOTHING_TO_DO
    assert read(body(V2), V2, Needs()).searches[0].top_k == 3
    assert reason_of(read, body(V2, outputFields=[]), V2, Needs()) is Reason.NOTHING_TO_DO


def test_fields_are_added_read_and_taken_out_again() -> None:
    needs = Needs(known=SCHEMA, payload_fields=("tenant",), optional_fields=("text", "page"))
    call = read(body(), needs=needs)
    wide = json.loads(ADAPTER.widen(call, [9]))
    assert wide["outputFields"] == ["text", "vector", "tenant", "page"]
    raw = (
        b'{"code":200,"data":[{"distance":1,"id":"1","page":7,"tenant":"a","text":"x","vector":[1,2]},'
        b'{"distance":0.5,"id":"2","text":"y","vector":[1,3]}]}'
    )
    [pool] = ADAPTER.parse_reply(call, raw).pools
    assert pool.fields == ((b'"a"', b'"x"', b"7"), (None, b'"y"', None))
    assert kept(raw, 0, 1, call=call) == (
        b'{"code":200,"data":[{"distance":1,"id":"1","text":"x"},{"distance":0.5,"id":"2","text":"y"}]}'
    )


def test_the_pool_of_a_reply_and_the_answer_cut_from_it() -> None:
    call = read(body())
    [pool] = ADAPTER.parse_reply(call, reply()).pools
    assert pool.scores.tolist() == [1.0, 0.875, 0.75, 0.625]
    assert pool.vectors.tolist() == [[0, 1, 0.5], [1, 1, 0.5], [2, 1, 0.5], [3, 1, 0.5]]
    assert (pool.compared_by, pool.unusable) == ("vector", 0)
    assert kept(reply(), 3, 1).decode() == (
        '{"code":200,"data":[{"distance":0.625,"id":"473","text":"é 3"},{"distance":0.875,"id":"471","text":"é 1"}]}'
    )


def test_a_note_is_a_member_of_its_row() -> None:
    call = read(body())
    answer = kept(reply(), 2, 0, call=call)
    rows = json.loads(ADAPTER.noted(call, answer, [[b'{"collapsed_ids":["471"]}', None]]))["data"]
    assert rows[0].pop("_vecsieve") == {"collapsed_ids": ["471"]}
    assert rows == json.loads(answer)["data"]


@pytest.mark.parametrize(
    "raw",
    [
        b"", b"{}", b"[]", b'{"code":200}', b'{"code":200,"data":{}}', b'{"data":[]}', b'{"code":"200","data":[]}',
        b'{"code":200,"data":[1]}', b'{"code":200,"data":[{"id":"1","vector":[1]}]}',
        b'{"code":200,"data":[{"distance":"1","vector":[1]}]}', b'{"code":200,"data":[{"distance":1,"id":"1"}]}',
        b'{"code":200,"data":[{"distance":1,"vector":"[1]"}]}', b'{"code":200,"data":[],"more":[]}',
        b'{"code":200,"data":[],"topks":[1]}',
    ],
)  # fmt: skip
def test_what_is_no_reply_is_malformed(raw: bytes) -> None:
    with pytest.raises(MalformedReplyError):
        ADAPTER.parse_reply(read(body()), raw)


def test_a_refusal_with_status_200_is_told_with_its_words() -> None:
    with pytest.raises(DeclinedError, match="65535") as caught:
        ADAPTER.parse_reply(read(body()), b'{"code":65535,"message":"no"}')
    assert caught.value.words == b'"no"'
    with pytest.raises(DeclinedError):  # each version has its own code for success
        ADAPTER.parse_reply(read(body()), reply(version=V2))


@given(data=st.data(), noise=st.one_of(st.binary(max_size=6), st.sampled_from([b'"vector":[', b"]", b"{", b","])))
def test_damage_to_a_reply_never_yields_wrong_content(data: st.DataObject, noise: bytes) -> None:
    """Whatever happened to the reply, it is malformed or the answer is that very document without vectors."""
    raw = reply()
    start = data.draw(st.integers(0, len(raw)))
    end = data.draw(st.integers(start, min(len(raw), start + 12)))
    broken, call = raw[:start] + noise + raw[end:], read(body())
    try:
        parsed = ADAPTER.parse_reply(call, broken)
    except MalformedReplyError:
        return
    answer = ADAPTER.trim(call, parsed, [np.arange(parsed.pools[0].size, dtype=np.intp)])
    expected = json.loads(broken.decode(errors="surrogateescape"))
    for row in expected["data"]:
        row.pop("vector")
    assert json.loads(answer.decode(errors="surrogateescape")) == expected


@given(raw=st.binary(max_size=60))
def test_arbitrary_bytes_raise_only_the_two_verdicts(raw: bytes) -> None:
    """A request is unsupported, a reply and a description are malformed, and a question is asked or not."""
    call = read(body())
    with pytest.raises(UnsupportedError):
        ADAPTER.parse_request(call.operation, raw, Needs())
    with pytest.raises(MalformedReplyError):
        ADAPTER.parse_reply(call, raw)
    with pytest.raises(MalformedReplyError):
        ADAPTER.parse_description(raw)
    assert ADAPTER.describe(call.operation, raw) is None


def test_the_question_of_each_version() -> None:
    operations = {version: read(body(version), version).operation for version in (V1, V2)}
    first = ADAPTER.describe(operations[V1], body(dbName="a b"))
    second = ADAPTER.describe(operations[V2], body(V2))
    assert first is not None
    assert second is not None
    assert (first.method, first.target) == ("GET", "/v1/vector/collections/describe?dbName=a+b&collectionName=docs")
    assert (second.method, second.target) == ("POST", "/v2/vectordb/collections/describe")
    assert json.loads(second.body) == {"collectionName": "docs"}


def test_a_description_of_version_1_as_the_real_server_writes_it() -> None:
    raw = (
        b'{"code":200,"data":{"collectionName":"rr","description":"","enableDynamicField":true,"fields":[{"autoId":true,'
        b'"description":"","name":"id","primaryKey":true,"type":"Int64"},{"autoId":false,"description":"","name":"vector",'
        b'"primaryKey":false,"type":"FloatVector(4)"},{"name":"s","type":"SparseFloatVector"}],"shardsNum":1}}'
    )
    assert ADAPTER.parse_description(raw) == Schema(
        vectors=frozenset({"vector"}), scalars=frozenset({"id"}), is_dynamic=True, primary="id", is_restorable=False
    )
    with pytest.raises(MalformedReplyError, match="code 100"):
        ADAPTER.parse_description(b'{"code":100,"data":{"fields":[]}}')


@pytest.mark.parametrize("version", [V1, V2])
def test_without_a_need_for_vectors_none_is_asked_for_and_the_pool_names_the_one_that_would_be(version: str) -> None:
    lean = Needs(known=replace(SCHEMA, primary="id"), vectors=False)
    call = read(body(version), version, lean)
    assert b'"outputFields": ["text"]' in ADAPTER.widen(call, [24])
    raw = reply(version=version)
    stripped = json.dumps(
        {
            **json.loads(raw),
            "data": [{k: v for k, v in row.items() if k != "vector"} for row in json.loads(raw)["data"]],
        }
    ).encode()
    (pool,) = ADAPTER.parse_reply(call, stripped).pools
    assert (pool.compared_by, pool.vectors.shape, pool.unusable) == ("vector", (4, 0), 4)
    assert pool.ids == (b'"470"', b'"471"', b'"472"', b'"473"')
    with pytest.raises(MalformedReplyError, match="rows have no vector"):
        ADAPTER.parse_reply(read(body(version), version), stripped)


def test_rows_are_known_by_their_ids_where_the_field_of_these_is_known() -> None:
    assert ADAPTER.parse_reply(read(body()), reply()).pools[0].ids == ()
    known = Needs(known=replace(SCHEMA, primary="id"))
    assert len(ADAPTER.parse_reply(read(body(), needs=known), reply()).pools[0].ids) == 4
    other = Needs(known=replace(SCHEMA, primary="nobody"))
    assert ADAPTER.parse_reply(read(body(), needs=other), reply()).pools[0].ids == ()
