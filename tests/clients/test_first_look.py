"""A first look at `vecsieve embedded`: what docs/limits.md says that it serves, asked through the official client, directly and through the proxy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import UnexpectedResponse

from support.process.stack import embedded, serve
from vecsieve.proxy.demo.embedded.rest import ROUTES

LIMITS = (Path(__file__).resolve().parents[2] / "docs/limits.md").read_text(encoding="utf-8")
DENSE = models.VectorParams(size=2, distance=models.Distance.DOT)


@pytest.fixture(scope="module", params=["directly", "through the proxy"])
def client(request: pytest.FixtureRequest) -> Iterator[QdrantClient]:
    with embedded() as engine, serve(engine, "--mode", "off") as (proxy, _):
        url = engine if request.param == "directly" else proxy
        with closing(QdrantClient(url=url, timeout=30)) as made:
            yield made


@pytest.fixture
def filled(client: QdrantClient) -> Iterator[QdrantClient]:
    client.create_collection("c", DENSE, sparse_vectors_config={"words": models.SparseVectorParams()})
    sparse = {number: models.SparseVector(indices=[number % 3], values=[1.0]) for number in range(1, 7)}
    points = [
        models.PointStruct(id=number, vector={"": [number, 1.0], "words": sparse[number]}, payload={"n": number})
        for number in range(1, 7)
    ]
    client.upsert("c", points, wait=True)
    yield client
    client.delete_collection("c")


def ids(points: list[models.ScoredPoint]) -> list[object]:
    return [point.id for point in points]


def test_collections_are_created_listed_described_and_deleted(client: QdrantClient) -> None:
    rows = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
    named = {"a": DENSE, "b": models.VectorParams(size=3, distance=models.Distance.COSINE, multivector_config=rows)}
    assert client.create_collection("named", named)
    assert client.collection_exists("named")
    assert [found.name for found in client.get_collections().collections] == ["named"]
    info = client.get_collection("named")
    assert info.points_count == 0
    assert info.config.params.vectors == named
    assert client.delete_collection("named")
    assert not client.collection_exists("named")


def test_points_are_read_changed_and_deleted(filled: QdrantClient) -> None:
    filled.set_payload("c", {"tag": "x"}, points=[1, 2], wait=True)
    assert [found.payload for found in filled.retrieve("c", [2, 1])] == [{"n": 2, "tag": "x"}, {"n": 1, "tag": "x"}]
    tagged = models.Filter(must=[models.FieldCondition(key="tag", match=models.MatchValue(value="x"))])
    assert filled.count("c", count_filter=tagged).count == 2
    filled.delete("c", models.FilterSelector(filter=tagged), wait=True)
    page, following = filled.scroll("c", limit=3)
    assert [found.id for found in page] == [3, 4, 5]
    assert following == 6


def test_searches_answer_alone_in_a_batch_and_with_prefetches(filled: QdrantClient) -> None:
    assert ids(filled.query_points("c", [1.0, 0.0], limit=3).points) == [6, 5, 4]
    assert ids(filled.query_points("c", 6, limit=2).points) == [5, 4]
    requests = [models.QueryRequest(query=[1.0, 0.0], limit=limit) for limit in (1, 2)]
    assert [ids(answer.points) for answer in filled.query_batch_points("c", requests)] == [[6], [6, 5]]
    prefetch = [
        models.Prefetch(query=[1.0, 0.0], limit=2),
        models.Prefetch(query=models.SparseVector(indices=[0], values=[1.0]), using="words", limit=2),
    ]
    fused = filled.query_points("c", prefetch=prefetch, query=models.FusionQuery(fusion=models.Fusion.RRF))
    assert set(ids(fused.points)) == {3, 5, 6}
    various = models.NearestQuery(nearest=[1.0, 0.0], mmr=models.Mmr(diversity=0.5))
    assert ids(filled.query_points("c", various, limit=1).points) == [6]


def test_what_the_tests_server_adds_is_refused_by_name(filled: QdrantClient) -> None:
    with pytest.raises(UnexpectedResponse, match="does not serve POST /collections/c/points/query/groups") as caught:
        filled.query_points_groups("c", group_by="n", query=[1.0, 0.0])
    assert caught.value.status_code == 404
    with pytest.raises(UnexpectedResponse, match="a query of the kind `recommend`") as caught:
        filled.query_points("c", models.RecommendQuery(recommend=models.RecommendInput(positive=[1])))
    assert caught.value.status_code == 501


WORDS = {
    "listing": "list",
    "info": "describe",
    "create": "create",
    "delete": "delete",
    "exists": "exists",
    "upsert": "upsert",
    "set_payload": "set payload",
    "retrieve": "retrieve",
    "get": "retrieve",
    "scroll": "scroll",
    "count": "count",
    "query": "`query`",
    "query_batch": "in a batch",
    "search": "`search`",
    "search_batch": "in a batch",
}
"""What the page calls a verb."""


def test_the_page_lists_what_is_served() -> None:
    said = LIMITS[LIMITS.index("It serves:") :].split("\n\n")[1]
    assert {verb.__name__ for _, _, verb in ROUTES} == set(WORDS)
    assert [word for word in WORDS.values() if word not in said] == []
