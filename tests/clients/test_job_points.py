"""Points of the real engine, whole: what was deleted is stored again byte for byte, with every kind of vector."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from support.network.faulty_upstream import FaultyUpstream, Talk, reply
from support.process.stack import exchange
from support.qdrant.embedded import start_embedded_process
from vecsieve.proxy.jobs.clients.qdrant import Qdrant
from vecsieve.proxy.jobs.source import Access, SourceError, Whole, mark_of

UUID = "2f4a8c1e-6f3b-4b7a-9c65-0d3a1b2c4e5f"
IDS = (1, 2**63, UUID)


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    draw = np.random.default_rng(8)
    with start_embedded_process() as url:
        client = QdrantClient(url=url, timeout=30, check_compatibility=False)
        vectors = {
            "dense": models.VectorParams(size=24, distance=models.Distance.COSINE),
            "many": models.VectorParams(
                size=4,
                distance=models.Distance.DOT,
                multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
            ),
        }
        client.create_collection("c", vectors, sparse_vectors_config={"words": models.SparseVectorParams()})
        for row in range(100):
            id_: int | str = IDS[row] if row < len(IDS) else 1000 + row
            vector = {"dense": draw.normal(size=24).tolist()}
            if row % 2 == 0:
                vector |= {
                    "many": draw.normal(size=(2, 4)).tolist(),
                    "words": models.SparseVector(indices=[3, 9], values=[0.1, 1 / 3]),
                }
            payload = {} if row == 1 else {"text": f"grüße {row}", "n": [1, 1.0, 1e-7, None, {"deep": True}]}
            client.upsert("c", [models.PointStruct(id=id_, vector=vector, payload=payload)])
        client.close()
        yield url


def access(url: str, **changed: str | None) -> Access:
    given: dict[str, str | None] = {"url": url, "collection": "c", "vector_name": "dense", "api_key": None, **changed}
    return Access(**given, timeout_seconds=10, requests_per_second=None)  # type: ignore[arg-type]  # - members by name


def everything(url: str) -> object:
    """Numbers as they are spelled. The engine shows the members of an object in any order."""
    body = b'{"limit":1000,"with_payload":true,"with_vector":true}'
    answer = exchange(url, "POST", "/collections/c/points/scroll", body).timeless
    return json.loads(answer, parse_float=str, parse_int=str)


def by_id(points: list[Whole]) -> dict[object, Whole]:
    return {point.id: point for point in points}


def test_what_was_deleted_is_stored_again_byte_for_byte(engine: str) -> None:
    points, before = Qdrant(access(engine)), everything(engine)
    ids = [*IDS, *range(1003, 1100), 7]
    stored = points.whole(ids)
    assert set(by_id(stored)) == {*ids} - {7}
    points.delete(stored)
    points.delete(stored)  # again, as after a kill
    assert points.whole(ids) == []
    assert points.present(b"", [point.key for point in stored]) == frozenset()
    points.put(b"", [point.body for point in stored])
    assert points.present(b"", [point.key for point in stored]) == {point.key for point in stored}
    assert everything(engine) == before


@pytest.mark.parametrize("name", ["dense"])
def test_the_mark_is_that_of_the_point_as_a_job_reads_it(engine: str, name: str) -> None:
    source = Qdrant(Access(url=engine, collection="c", vector_name=name))
    with closing(source):
        read = {point.id: mark_of(point.vector, point.payload) for point in source.read(list(IDS))}
    assert {point.id: point.mark for point in Qdrant(access(engine)).whole(list(IDS))} == read
    assert len(set(read.values())) == len(IDS)


async def test_a_part_of_the_collection_is_named_wherever_its_points_are_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("vecsieve.proxy.jobs.rest.sleep", lambda _: None)
    seen: list[bytes] = []
    busy = [True]

    async def play(talk: Talk) -> None:
        while (received := await talk.request()) is not None:
            if busy:
                busy.clear()
                await talk.send(reply(b"{}", status=b"429 Too Many Requests", headers=[(b"retry-after", b"0")]))
                continue
            seen.append(received.content)
            records = [{"id": 1, "payload": None, "vector": {}, "shard_key": "eu"}, {"id": 2, "shard_key": None}]
            await talk.send(reply(json.dumps({"result": records}).encode()))

    async with FaultyUpstream(play) as upstream:
        points = Qdrant(access(upstream.url))
        stored = await asyncio.to_thread(points.whole, [1, 2])
        await asyncio.to_thread(points.delete, stored)
        await asyncio.to_thread(points.put, b'"eu"', [stored[0].body])
    assert [point.partition for point in stored] == [b'"eu"', b""]
    assert seen[1:] == [
        b'{"points":[1],"shard_key":"eu"}',
        b'{"points":[2]}',
        b'{"points":[%s],"shard_key":"eu"}' % stored[0].body,
    ]


@pytest.mark.parametrize(("url", "message"), [("nowhere", "--url"), ("http://127.0.0.1:1", "Cannot reach")])
def test_what_cannot_be_reached_is_a_message(url: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        Qdrant(access(url, api_key="sesame")).whole([1])
