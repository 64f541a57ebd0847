"""Replies: what a pool has of them, which ones are none, and what the client gets of them."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from support.backends.transports import REST
from support.opensearch.model import Server, Stored
from vecsieve.adapters.base import NOTE
from vecsieve.adapters.contract import MalformedReplyError, Needs, NotesResults, Operation, Pool, Reply, SearchCall

ADAPTER = REST["elasticsearch"].adapter()
KNN = {"knn": {"field": "vec", "query_vector": [0.5, 1], "k": 10, "num_candidates": 90}, "size": 3}
NEEDS = Needs(optional_fields=("text",))


def hit(rank: int, **members: Any) -> Stored:
    return Stored(
        **{"id": f'"{rank}"', "score": "1.0", "source": (("text", f'"t{rank}"'),), "vector": f"[{rank},0.5]", **members}
    )


def talked(server: Server, members: Any, needs: Needs = NEEDS, index: str = "docs") -> tuple[SearchCall, Reply]:
    operation = Operation(backend="elasticsearch", name="search", collection=index)
    call = ADAPTER.parse_request(operation, json.dumps({**KNN, **members}).encode(), needs)
    return call, ADAPTER.parse_reply(call, server.answer(ADAPTER.widen(call, [9])))


def pool_of(server: Server, members: Any, needs: Needs = NEEDS) -> Pool:
    (pool,) = talked(server, members, needs)[1].pools
    return pool


def test_a_pool_has_scores_vectors_texts_and_ids() -> None:
    pool = pool_of(Server(hits=(hit(0), hit(1, score="null"), hit(2, vector=None)), has_vectors=False), {})
    assert pool.scores.tolist()[0] == 1.0
    assert np.isnan(pool.scores[1])
    assert (pool.vectors[1].tolist(), pool.unusable, pool.compared_by) == ([1.0, 0.5], 1, "vec")
    assert pool.fields == ((b'"t0"',), (b'"t1"',), (b'"t2"',))
    assert pool.ids == (b'"0"', b'"1"', b'"2"')


def test_hits_of_several_indices_have_ids_with_the_index() -> None:
    assert pool_of(Server(hits=(hit(0), hit(0, index='"old"'))), {}).ids == (b'"docs/0"', b'"old/0"')


@pytest.mark.parametrize("vector", ['"c29tZQ=="', '["x"]', "[[1,2],[3,4]]", '[{"vec":[1]}]', "null"])
def test_a_field_that_is_no_vector_is_unusable(vector: str) -> None:
    pool = pool_of(Server(hits=(hit(0), hit(1, vector=vector)), has_vectors=False), {})
    assert (pool.unusable, pool.vectors[0].tolist()) == (1, [0.0, 0.5])


@pytest.mark.parametrize("form", ["[%s]", "[ %s ]", "%s", "[\n   %s\n  ]"])
@pytest.mark.parametrize("vector", ["[1,0.5]", "[ 1,\n 0.5 ]"])
def test_a_vector_is_read_in_any_layout(form: str, vector: str) -> None:
    pool = pool_of(Server(hits=(hit(0, vector=form % vector),), has_vectors=False), {})
    assert pool.vectors.tolist() == [[1.0, 0.5]]


def test_several_vectors_of_one_document_are_none() -> None:
    assert pool_of(Server(hits=(hit(0, vector="[[1,2],[3,4]]"),), has_vectors=False), {}).unusable == 1


def test_without_a_field_of_vectors_there_are_none() -> None:
    pool = pool_of(Server(hits=(hit(0),)), {"knn": [KNN["knn"]], "fields": ["text"]}, Needs(vectors=False))
    assert (pool.vectors.shape, pool.compared_by) == ((1, 0), None)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b'"timed_out":false', b'"timed_out":true'),
        (b'"failed":0', b'"failed":1'),
        (b'"_score":1.0', b'"_score":"1"'),
        (b'"_id":"1"', b'"_id":1'),
        (b'"_source":{', b'"_source":[{'),
        (b'"hits":{', b'"hit":{'),
        (b"[1,0.5]", b"[1,,0.5]"),
    ],
)
def test_a_reply_that_is_incomplete_or_unclear_is_malformed(old: bytes, new: bytes) -> None:
    call, _ = talked(Server(hits=(hit(0), hit(1))), {})
    body = Server(hits=(hit(0), hit(1))).answer(ADAPTER.widen(call, [9]))
    assert old in body
    with pytest.raises(MalformedReplyError):
        ADAPTER.parse_reply(call, body.replace(old, new))


@pytest.mark.parametrize(
    ("members", "shards", "total", "expected"),
    [
        ({}, 1, 30, 10),
        ({}, 3, 30, 10),
        ({}, 3, 4, 4),
        ({"knn": None, "query": {"knn": {"vec": {"vector": [0.5, 1], "k": 10}}}}, 3, 70, 30),
        ({"knn": None, "query": {"knn": {"vec": {"vector": [0.5, 1], "k": 10}}}}, 3, 25, 25),
        ({"query": {"match": {"text": "t"}}}, 1, 30, 30),
    ],
)
@pytest.mark.parametrize("is_plain", [False, True])
def test_the_total_is_that_of_the_clients_own_neighbours(
    members: Any, shards: int, total: int, expected: int, *, is_plain: bool
) -> None:
    """Elasticsearch's own clause finds as many in all shards together, a query as many in each."""

    def answered(count: int) -> bytes:
        body = Server(hits=tuple(map(hit, range(9))), total=count, has_vectors=False).answer(
            b'{"size":9,"fields":["vec"]}'
        )
        body = body.replace(b'"successful":1', b'"successful":%d' % shards)
        return body.replace(b'{"value":%d,"relation":"eq"}' % count, b"%d" % count) if is_plain else body

    call, _ = talked(Server(hits=()), members)
    reply = ADAPTER.parse_reply(call, answered(total))
    answer = json.loads(ADAPTER.trim(call, reply, [np.arange(3)]))
    hit_count = answer["hits"]["total"]
    assert (hit_count if is_plain else hit_count["value"]) == expected


SEVERAL = ("a,b", "logs-*", "_all")


@pytest.mark.parametrize("index", ["docs", *SEVERAL])
@pytest.mark.parametrize(
    ("total", "sample", "expected"), [(40, 14, (14, "eq")), (14, 14, (14, "eq")), (5, 14, (5, "gte"))]
)
def test_of_several_indices_the_server_counts_the_clients_neighbours(
    index: str, total: int, sample: int, expected: tuple[int, str]
) -> None:
    call, _ = talked(Server(hits=()), {"knn": None, "query": {"knn": KNN["knn"]}}, index=index)
    widened = json.loads(ADAPTER.widen(call, [9]))
    assert widened.get("aggs", {}).get("_vecsieve", {}).get("sampler") == (
        {"shard_size": 10} if index in SEVERAL else None
    )
    body = Server(hits=tuple(map(hit, range(9))), total=total).answer(b'{"size":9,"fields":["vec"]}')
    body = body.replace(b'"eq"', b'"%s"' % expected[1].encode())
    if index in SEVERAL:
        counted = b'{"sampler#_vecsieve":{"doc_count":%d,"filter#n":{"doc_count":%d}}}' % (sample, sample)
        body = body.replace(b',"suggest"', b',"aggregations":%s,"suggest"' % counted)
        answer = json.loads(ADAPTER.trim(call, ADAPTER.parse_reply(call, body), [np.arange(3)]))
        assert "aggregations" not in answer
        assert answer["hits"]["total"] == {"value": expected[0], "relation": expected[1]}


def test_a_total_that_was_counted_to_a_bound_is_exact_below_it() -> None:
    call, _ = talked(Server(hits=()), {"track_total_hits": 10})
    body = (
        Server(hits=tuple(map(hit, range(9))), total=10)
        .answer(b'{"size":9,"fields":["vec"]}')
        .replace(b'"eq"', b'"gte"')
    )
    answer = json.loads(ADAPTER.trim(call, ADAPTER.parse_reply(call, body), [np.arange(3)]))
    assert answer["hits"]["total"] == {"value": 10, "relation": "eq"}


@pytest.mark.parametrize(
    ("kind", "is_used"), [("query_shard_exception", True), ("es_rejected_execution_exception", False)]
)
def test_shards_that_refuse_the_query_refuse_it_from_everybody(kind: str, *, is_used: bool) -> None:
    call, _ = talked(Server(hits=()), {})
    failures = b'"failed":1,"failures":[{"shard":0,"index":"x","reason":{"type":"%s","reason":"no"}}]' % kind.encode()
    body = Server(hits=(hit(0), hit(1))).answer(b'{"fields":["vec"]}').replace(b'"failed":0', failures)
    if is_used:
        assert ADAPTER.parse_reply(call, body).pools[0].size == 2
    else:
        with pytest.raises(MalformedReplyError):
            ADAPTER.parse_reply(call, body)


@pytest.mark.parametrize("fields", [None, ["text"], ["none"], ["v*"]])
@pytest.mark.parametrize("source", [True, False, ["id"], {"excludes": ["vec"]}])
def test_the_answer_is_the_servers_own(fields: list[str] | None, source: Any) -> None:
    server = Server(hits=tuple(map(hit, range(30))))
    members = {"_source": source, **({} if fields is None else {"fields": fields})}
    call, reply = talked(server, members)
    answer = ADAPTER.trim(call, reply, [np.array([0, 4, 5])])
    chosen = Server(hits=(hit(0), hit(4), hit(5)), total=30)
    assert answer == chosen.answer(json.dumps({**KNN, **members}).encode())


def test_copies_are_noted_in_the_source() -> None:
    server = Server(hits=(hit(0), hit(1, source=(("metadata", '{"page":1}'),)), hit(2)))
    call, reply = talked(server, {})
    answer = ADAPTER.trim(call, reply, [np.arange(3)])
    assert isinstance(ADAPTER, NotesResults)
    noted = json.loads(ADAPTER.noted(call, answer, [[b'{"n":1}', b'{"n":2}', None]]))["hits"]["hits"]
    assert noted[0]["_source"][NOTE] == {"n": 1}
    assert noted[1]["_source"]["metadata"] == {"page": 1, NOTE: {"n": 2}}
    assert NOTE not in noted[2]["_source"]
