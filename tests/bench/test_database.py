"""The benchmark's database: a canned answer that a memory could tell from a real one would measure nothing."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import grpc
import numpy as np
import orjson
import pytest
from qdrant_client.grpc import points_pb2

from bench import grpc_database, grpc_relay
from bench.database import POOL, Ranking, Rest
from bench.grpc_upload import upload
from bench.store import NEIGHBOURS, store
from bench.traffic import call, post

STORE = store(384, points=400, questions=12)
QUESTION = STORE.questions[3].tolist()
_stubs = cast(Any, points_pb2)


@pytest.fixture
def ranking() -> Ranking:
    return Ranking(STORE)


def hits(rest: Rest, kind: str, *, limit: int = POOL, with_vectors: bool = True, **more: object) -> list[Any]:
    query = post(f"{kind}384", QUESTION, limit=limit, with_vectors=with_vectors)
    body = orjson.dumps({**orjson.loads(query.body), **more})
    head, _, content = rest.answer(b"POST", query.path.encode(), body).partition(b"\r\n\r\n")
    assert head.endswith(b"Content-Length: %d" % len(content))
    return cast(list[Any], orjson.loads(content)["result"]["points"])


def test_pools_differ_although_their_points_recur_or_stay_as_they_are(ranking: Ranking) -> None:
    rest = Rest(ranking)
    pools = [tuple(point["id"] for point in hits(rest, "new")) for _ in range(20)]
    assert len(set(pools)) == 20
    assert len({id_ for pool in pools for id_ in pool}) <= NEIGHBOURS
    assert hits(rest, "same") == hits(rest, "same")


def test_limit_vectors_and_members_of_the_payload_are_those_asked_for(ranking: Ranking) -> None:
    rest = Rest(ranking)
    points = hits(rest, "new", limit=10, with_vectors=False, with_payload={"include": ["text", "none"]})
    assert len(points) == 10
    assert all(list(point["payload"]) == ["text"] and "vector" not in point for point in points)
    assert all("payload" not in point for point in hits(rest, "new", with_payload=False))


async def test_messages_say_what_the_rest_reply_says_and_are_relayed(ranking: Ranking) -> None:
    messages, rest = grpc_database.Messages(ranking), Rest(ranking)
    message = call("same384", QUESTION, limit=POOL, with_vectors=True).body
    upstream = grpc.aio.server(handlers=(grpc_database.Handler(messages),), options=grpc_database.OPTIONS)
    port = upstream.add_insecure_port("127.0.0.1:0")
    await upstream.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=grpc_database.OPTIONS) as channel:
        relay = grpc.aio.server(handlers=(grpc_relay.Relay(channel),), options=grpc_database.OPTIONS)
        through = relay.add_insecure_port("127.0.0.1:0")
        await relay.start()
        async with grpc.aio.insecure_channel(f"127.0.0.1:{through}", options=grpc_database.OPTIONS) as client:
            query: Any = client.unary_unary(grpc_database.QUERY)
            points = _stubs.QueryResponse.FromString(await query(message)).result
        assert await asyncio.to_thread(lambda: upload(through, mebibytes=16)) > 0
        await relay.stop(None)
    await upstream.stop(None)
    rest_hits = [
        (point.id.num, point.version, point.payload["text"].string_value, list(point.vectors.vector.dense.data))
        for point in points
    ]
    expected = [
        (point["id"], point["version"], point["payload"]["text"], np.array(point["vector"], dtype=np.float32).tolist())
        for point in hits(rest, "same")
    ]
    assert rest_hits == expected
    assert [point.score for point in points] == pytest.approx(STORE.scores[3][:POOL].tolist())
