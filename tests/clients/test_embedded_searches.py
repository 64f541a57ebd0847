"""Searches and filters of the official client against the embedded server, unchanged, sync and async."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from qdrant_client import AsyncQdrantClient, QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from support.qdrant.embedded import exchange, start_embedded_process

VECTORS = {
    "": models.VectorParams(size=2, distance=models.Distance.COSINE),
    "wide": models.VectorParams(size=3, distance=models.Distance.DOT),
}
SPARSE = {"sp": models.SparseVectorParams()}


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with start_embedded_process() as started:
        yield started


@pytest.fixture
def client(url: str) -> Iterator[QdrantClient]:
    made = QdrantClient(url=url)
    made.create_collection("c", vectors_config=VECTORS, sparse_vectors_config=SPARSE)
    yield made
    made.delete_collection("c")
    made.close()


def wide(values: list[float]) -> dict[str, Any]:
    return {"wide": values}


def put(client: QdrantClient, *ids: int) -> None:
    points = [
        models.PointStruct(id=number, vector=wide([number, 0, 0]) | {"": [1, number]}, payload={"n": number})
        for number in ids
    ]
    assert client.upsert("c", points).status == models.UpdateStatus.COMPLETED


CONDITIONS: dict[str, tuple[models.FieldCondition | models.NestedCondition, list[int]]] = {
    "text": (models.FieldCondition(key="text", match=models.MatchText(text="brown")), [1]),
    "any word": (models.FieldCondition(key="text", match=models.MatchTextAny(text_any="fox cat")), [1, 2]),
    "phrase": (models.FieldCondition(key="text", match=models.MatchPhrase(phrase="brown fox")), [1]),
    "datetime": (models.FieldCondition(key="at", range=models.DatetimeRange(gt=datetime(2024, 1, 1, tzinfo=UTC))), [2]),
    "radius": (
        models.FieldCondition(
            key="place", geo_radius=models.GeoRadius(center=models.GeoPoint(lon=13, lat=52), radius=9e4)
        ),
        [1],
    ),
    "box": (
        models.FieldCondition(
            key="place",
            geo_bounding_box=models.GeoBoundingBox(
                top_left=models.GeoPoint(lon=-1, lat=53), bottom_right=models.GeoPoint(lon=3, lat=48)
            ),
        ),
        [2],
    ),
    "polygon": (
        models.FieldCondition(
            key="place",
            geo_polygon=models.GeoPolygon(
                exterior=models.GeoLineString(
                    points=[
                        models.GeoPoint(lon=12, lat=51),
                        models.GeoPoint(lon=14, lat=51),
                        models.GeoPoint(lon=14, lat=53),
                        models.GeoPoint(lon=12, lat=53),
                        models.GeoPoint(lon=12, lat=51),
                    ]
                )
            ),
        ),
        [1],
    ),
    "nested": (
        models.NestedCondition(
            nested=models.Nested(
                key="parts",
                filter=models.Filter(
                    must=[
                        models.FieldCondition(key="k", match=models.MatchValue(value="a")),
                        models.FieldCondition(key="v", match=models.MatchValue(value=2)),
                    ]
                ),
            )
        ),
        [2],
    ),
    "empty": (models.FieldCondition(key="text", is_empty=True), [3]),
    "not null": (models.FieldCondition(key="nothing", is_null=True), [3]),
    "any of none": (models.FieldCondition(key="text", match=models.MatchAny(any=[])), []),
}


@pytest.mark.parametrize("name", CONDITIONS)
def test_a_condition_finds_its_points(client: QdrantClient, name: str) -> None:
    payloads: list[dict[str, Any]] = [
        {
            "text": "the quick brown fox",
            "at": "2023-05-06T07:08:09Z",
            "place": {"lon": 13.4, "lat": 52.5},
            "parts": [{"k": "a", "v": 1}, {"k": "b", "v": 2}],
        },
        {
            "text": "a lazy cat",
            "at": "2025-05-06T07:08:09Z",
            "place": {"lon": 2.35, "lat": 48.85},
            "parts": [{"k": "a", "v": 2}],
        },
        {"nothing": None},
    ]
    client.create_payload_index(
        "c",
        "text",
        models.TextIndexParams(
            type=models.TextIndexType.TEXT, tokenizer=models.TokenizerType.WORD, phrase_matching=True
        ),
    )
    client.upsert(
        "c",
        [models.PointStruct(id=n, vector=wide([1, 0, 0]), payload=p) for n, p in enumerate(payloads, 1)],
    )
    condition, expected = CONDITIONS[name]
    found, _ = client.scroll("c", scroll_filter=models.Filter(must=[condition]), limit=10)
    assert [record.id for record in found] == expected


def test_a_batch_of_queries_keeps_its_order_and_its_differences(client: QdrantClient) -> None:
    put(client, 1, 2, 3)
    answers = client.query_batch_points(
        "c",
        [
            models.QueryRequest(query=[1.0, 0, 0], using="wide", limit=1, with_payload=True),
            models.QueryRequest(query=[1.0, 0.0], limit=2, with_vector=[""]),
            models.QueryRequest(query=2),
        ],
    )
    assert [[point.id for point in answer.points] for answer in answers] == [[3], [1, 2], [3, 1]]
    assert answers[0].points[0].payload == {"n": 3}
    assert isinstance(answers[1].points[0].vector, list)


def test_a_sample_and_an_order_are_queries_too(client: QdrantClient) -> None:
    put(client, 1, 2, 3)
    client.create_payload_index("c", "n", models.PayloadSchemaType.INTEGER)
    sampled = client.query_points("c", query=models.SampleQuery(sample=models.Sample.RANDOM), limit=3).points
    assert {point.id for point in sampled} == {1, 2, 3}
    order = models.OrderByQuery(order_by=models.OrderBy(key="n", direction=models.Direction.DESC))
    ordered = client.query_points("c", query=order, limit=2, offset=1).points
    assert [(point.id, point.order_value) for point in ordered] == [(2, 2), (1, 1)]


def test_reciprocal_rank_fusion_takes_its_parameters(client: QdrantClient) -> None:
    put(client, 1, 2, 3)
    prefetch = [
        models.Prefetch(query=[1.0, 0, 0], using="wide", limit=3),
        models.Prefetch(query=[1.0, 0.0], limit=3),
    ]
    query = models.RrfQuery(rrf=models.Rrf(k=1, weights=[10.0, 1.0]))
    weighted = client.query_points("c", prefetch=prefetch, query=query, limit=3).points
    assert weighted[0].id == 3


def test_the_endpoints_from_before_query_agree_with_it(client: QdrantClient, url: str) -> None:
    put(client, 1, 2, 3, 4)

    def legacy(kind: str, body: dict[str, object]) -> list[int]:
        answer = exchange(url, "POST", f"/collections/c/points/{kind}", body)
        return [point["id"] for point in answer.json["result"]]

    recommended = client.query_points(
        "c",
        query=models.RecommendQuery(recommend=models.RecommendInput(positive=[1], negative=[4])),
        using="wide",
        limit=5,
    ).points
    examples = {"positive": [1], "negative": [4], "using": "wide", "limit": 5}
    assert legacy("recommend", examples) == [point.id for point in recommended] == [2, 3]
    batch = exchange(url, "POST", "/collections/c/points/recommend/batch", {"searches": [examples, examples]})
    assert [[point["id"] for point in result] for result in batch.json["result"]] == [[2, 3], [2, 3]]
    pair = {"positive": 1, "negative": 4}
    assert set(legacy("discover", {"target": 2, "context": [pair], "limit": 5})) == {3}
    assert set(legacy("discover", {"target": 2, "limit": 5})) == {1, 3, 4}
    assert set(legacy("discover", {"context": [pair], "limit": 5})) == {2, 3}
    grouped = exchange(
        url,
        "POST",
        "/collections/c/points/search/groups",
        {"vector": {"name": "wide", "vector": [1, 0, 0]}, "group_by": "n", "limit": 2, "group_size": 1},
    )
    assert [group["id"] for group in grouped.json["result"]["groups"]] == [4, 3]


async def test_the_async_client_is_served_the_same(client: QdrantClient, url: str) -> None:
    put(client, 1, 2, 3)
    async_client = AsyncQdrantClient(url=url)
    asked: dict[str, Any] = {"collection_name": "c", "query": [1.0, 0, 0], "using": "wide", "with_payload": True}
    answer = await async_client.query_points(**asked)
    assert answer.points == client.query_points(**asked).points
    await async_client.upsert("c", [models.PointStruct(id=4, vector=wide([4, 0, 0]), payload={"n": 4})])
    assert (await async_client.count("c")).count == 4
    records, following = await async_client.scroll("c", limit=3)
    assert ([record.id for record in records], following) == ([1, 2, 3], 4)
    await async_client.delete("c", models.PointIdsList(points=[4]))
    assert [record.id for record in await async_client.retrieve("c", ids=[4, 3])] == [3]
    with pytest.raises(UnexpectedResponse) as caught:
        await async_client.query_points("none", query=[1.0])
    assert caught.value.status_code == 404
    await async_client.close()
