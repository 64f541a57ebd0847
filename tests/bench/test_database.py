"""The benchmark's database: a canned answer that a memory could tell from a real one would measure nothing."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import grpc
import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client import grpc as pb
from qdrant_client.grpc import points_pb2

from bench import grpc_database, grpc_relay
from bench.asking import call, post
from bench.database import FRESH_IDS, POOL, Ranking, Rest, requests
from bench.grpc_upload import upload
from bench.store import NEIGHBOURS, store

HELD = store(384, points=400, questions=12)
QUESTION = HELD.questions[3].tolist()
_stubs = cast(Any, points_pb2)


@pytest.fixture
def ranking() -> Ranking:
    return Ranking(HELD)


def found(rest: Rest, kind: str, *, limit: int = POOL, with_vectors: bool = True, **more: object) -> list[Any]:
    asked = post(f"{kind}384", QUESTION, limit=limit, with_vectors=with_vectors)
    body = orjson.dumps({**orjson.loads(asked.body), **more})
    head, _, said = rest.answer(b"POST", asked.path.encode(), body).partition(b"\r\n\r\n")
    assert head.endswith(b"Content-Length: %d" % len(said))
    return cast(list[Any], orjson.loads(said)["result"]["points"])


def test_a_store_is_repeatable_ranked_and_holds_copies() -> None:
    again = store(384, points=400, questions=12)
    assert np.array_equal(HELD.vectors, again.vectors)
    assert HELD.texts == again.texts
    assert HELD.neighbours.shape == (12, NEIGHBOURS)
    assert (np.diff(HELD.scores, axis=1) <= 0).all()
    assert np.allclose(HELD.questions[3] @ HELD.vectors[HELD.neighbours[3]].T, HELD.scores[3], atol=1e-6)
    assert 0.1 < 1 - len(set(HELD.texts)) / len(HELD.texts) < 0.3
    pool = HELD.vectors[HELD.neighbours[3][:POOL]]
    assert 15 <= ((pool @ pool.T > 0.9).sum(axis=1) > 1).sum() <= 45


def test_scores_are_the_products_of_question_and_vector(ranking: Ranking) -> None:
    points = found(Rest(ranking), "new")
    scores = [point["score"] for point in points]
    assert scores == sorted(scores, reverse=True)
    products = np.array([point["vector"] for point in points], dtype=np.float32) @ HELD.questions[3]
    assert np.abs(products - np.array(scores)).max() < 1e-6


def test_pools_differ_although_their_points_recur_or_stay_as_they_are(ranking: Ranking) -> None:
    rest = Rest(ranking)
    pools = [tuple(point["id"] for point in found(rest, "new")) for _ in range(20)]
    assert len(set(pools)) == 20
    assert len({each for pool in pools for each in pool}) <= NEIGHBOURS
    assert found(rest, "same") == found(rest, "same")


@pytest.mark.parametrize(("kind", "fresh"), [("cold", POOL), ("half", POOL // 2), ("few", POOL // 10), ("new", 0)])
def test_fresh_points_have_ids_versions_and_texts_that_were_never_seen(ranking: Ranking, kind: str, fresh: int) -> None:
    rest = Rest(ranking)
    found(rest, kind)
    points, seen = found(rest, kind), set(HELD.texts)
    new = [point for point in points if point["id"] > FRESH_IDS]
    assert len(new) == fresh
    assert all(point["payload"]["text"] not in seen for point in new)
    assert all(point["payload"]["text"] in seen for point in points if point not in new)


def test_payloads_of_a_bare_collection_have_no_text_and_its_pools_are_the_same(ranking: Ranking) -> None:
    rest = Rest(ranking)
    bare, whole = found(rest, "bare-same"), found(rest, "same")
    assert [point["id"] for point in bare] == [point["id"] for point in whole]
    assert all("text" not in point["payload"] and point["payload"] for point in bare)


def test_a_lookup_finds_points_of_a_pool_as_they_were(ranking: Ranking) -> None:
    rest = Rest(ranking)
    pool = {point["id"]: point for point in found(rest, "half")}
    wanted = list(pool)[1:12]
    looked_up = found(rest, "half", filter={"must": [{"must": [{"has_id": wanted}]}]})
    assert {point["id"]: point for point in looked_up} == {each: pool[each] for each in wanted}
    assert (ranking.moved.searches, ranking.moved.lookups, ranking.moved.replies) == (1, 1, 2)


def test_limit_vectors_and_members_of_the_payload_are_those_asked_for(ranking: Ranking) -> None:
    rest = Rest(ranking)
    points = found(rest, "new", limit=10, with_vectors=False, with_payload={"include": ["text", "none"]})
    assert len(points) == 10
    assert all(list(point["payload"]) == ["text"] and "vector" not in point for point in points)
    assert all("payload" not in point for point in found(rest, "new", with_payload=False))


def test_every_point_can_be_scrolled_to_once(ranking: Ranking) -> None:
    rest, ids, offset = Rest(ranking), [], 1
    while offset is not None:
        body = orjson.dumps({"limit": 150, "offset": offset, "with_vector": True})
        said = rest.answer(b"POST", b"/collections/new384/points/scroll", body).partition(b"\r\n\r\n")[2]
        result = orjson.loads(said)["result"]
        ids += [point["id"] for point in result["points"]]
        offset = result["next_page_offset"]
    assert ids == list(range(1, 401))


@given(st.lists(st.binary(max_size=30)), st.integers(0, 60))
def test_requests_are_taken_whole_and_the_rest_is_left(bodies: list[bytes], missing: int) -> None:
    """Invariant: of any bytes those requests are taken that have come whole, and none twice."""
    written = [b"POST /a?b HTTP/1.1\r\ncontent-LENGTH: %d\r\n\r\n%s" % (len(body), body) for body in bodies]
    whole = b"".join(written)
    received = bytearray(whole[: max(0, len(whole) - missing)])
    taken = list(requests(received))
    assert taken == [(b"POST", b"/a", body) for body in bodies[: len(taken)]]
    received += whole[max(0, len(whole) - missing) :]
    assert [body for *_, body in [*taken, *requests(received)]] == bodies


async def test_messages_say_what_the_rest_reply_says_and_are_relayed(ranking: Ranking) -> None:
    messages, rest = grpc_database.Messages(ranking), Rest(ranking)
    asked = call("same384", QUESTION, limit=POOL, with_vectors=True).body
    upstream = grpc.aio.server(handlers=(grpc_database.Handler(messages),), options=grpc_database.OPTIONS)
    port = upstream.add_insecure_port("127.0.0.1:0")
    await upstream.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=grpc_database.OPTIONS) as channel:
        relay = grpc.aio.server(handlers=(grpc_relay.Relay(channel),), options=grpc_database.OPTIONS)
        through = relay.add_insecure_port("127.0.0.1:0")
        await relay.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{through}", options=grpc_database.OPTIONS) as client:
            query: Any = client.unary_unary(grpc_database.QUERY)
            points = _stubs.QueryResponse.FromString(await query(asked)).result
        assert await asyncio.to_thread(lambda: upload(through, mebibytes=16)) > 0
        await relay.stop(None)
    await upstream.stop(None)
    shown = [
        (point.id.num, point.version, point.payload["text"].string_value, list(point.vectors.vector.dense.data))
        for point in points
    ]
    expected = [
        (point["id"], point["version"], point["payload"]["text"], np.array(point["vector"], dtype=np.float32).tolist())
        for point in found(rest, "same")
    ]
    assert shown == expected
    assert [point.score for point in points] == pytest.approx(HELD.scores[3][:POOL].tolist())


def test_a_lookup_over_grpc_finds_fresh_points_with_their_texts(ranking: Ranking) -> None:
    messages = grpc_database.Messages(ranking)
    asked = _stubs.QueryPoints.FromString(call("cold384", QUESTION, limit=POOL, with_vectors=True).body)
    pool = {point.id.num: point for point in _points(messages, asked)}
    wanted = sorted(pool)[:5]
    ids = pb.HasIdCondition(has_id=[pb.PointId(num=each) for each in wanted])
    asked.filter.must.append(pb.Condition(has_id=ids))
    assert {point.id.num: point for point in _points(messages, asked)} == {each: pool[each] for each in wanted}


def _points(messages: grpc_database.Messages, asked: Any) -> Any:
    return _stubs.QueryResponse.FromString(messages.answer(asked.SerializeToString())).result
