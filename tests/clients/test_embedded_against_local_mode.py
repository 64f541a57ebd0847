"""The embedded server against the official client's local mode, over both transports: the same ids in the same order, the same scores."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pytest
from qdrant_client import QdrantClient, models
from real_servers.qdrant_scenario import call_outcomes as outcomes

from support.grpc.clients import over_grpc
from support.qdrant.embedded import start_embedded_grpc_process

NUMBER = re.compile(r"\d+\.\d+")
SIZE = 300
DIMENSION = 24
NAMES = {
    "cosine": models.Distance.COSINE,
    "dot": models.Distance.DOT,
    "euclid": models.Distance.EUCLID,
    "manhattan": models.Distance.MANHATTAN,
}
INDEXES = {
    "group": models.PayloadSchemaType.INTEGER,
    "price": models.PayloadSchemaType.FLOAT,
    "tags": models.PayloadSchemaType.KEYWORD,
}


def random_points(seed: int) -> list[models.PointStruct]:
    draw = np.random.default_rng(seed)
    points = []
    for number in range(SIZE):
        vector: dict[str, Any] = {name: draw.normal(size=DIMENSION).tolist() for name in NAMES}
        vector["rows"] = draw.normal(size=(int(draw.integers(1, 4)), 6)).tolist()
        indices = sorted(draw.choice(40, size=6, replace=False).tolist())
        vector["sparse"] = models.SparseVector(indices=indices, values=draw.uniform(0.1, 1, size=6).tolist())
        payload = {
            "group": int(draw.integers(0, 12)),
            "price": round(float(draw.uniform(0, 100)), 3),
            "tags": [f"t{tag}" for tag in draw.choice(6, size=2, replace=False).tolist()],
            "deep": {"flag": bool(draw.integers(0, 2))},
        }
        if number % 5 == 0:
            payload["rare"] = None if number % 10 else "here"
        points.append(models.PointStruct(id=number, vector=vector, payload=payload))
    return points


def fill(client: QdrantClient) -> None:
    dense = {name: models.VectorParams(size=DIMENSION, distance=metric) for name, metric in NAMES.items()}
    dense["rows"] = models.VectorParams(
        size=6,
        distance=models.Distance.COSINE,
        multivector_config=models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM),
    )
    client.create_collection("c", vectors_config=dense, sparse_vectors_config={"sparse": models.SparseVectorParams()})
    client.upsert("c", random_points(7))
    client.create_collection("other", vectors_config={"cosine": dense["cosine"]})
    client.upsert(
        "other",
        [
            models.PointStruct(id=point.id, vector={"cosine": point.vector["dot"]}, payload={"of": point.id})
            for point in random_points(8)[:20]
            if isinstance(point.vector, dict)
        ],
    )


@pytest.fixture(scope="module")
def urls() -> Iterator[tuple[str, str]]:
    with start_embedded_grpc_process() as started:
        yield started


@pytest.fixture(scope="module", params=["REST", "gRPC"])
def remote(request: pytest.FixtureRequest, urls: tuple[str, str]) -> Iterator[QdrantClient]:
    client = over_grpc(*urls) if request.param == "gRPC" else QdrantClient(url=urls[0], check_compatibility=False)
    fill(client)
    for field, schema in INDEXES.items():
        client.create_payload_index("c", field, schema)
    yield client
    for name in ("c", "other"):
        client.delete_collection(name)
    client.close()


@pytest.fixture(scope="module")
def local() -> Iterator[QdrantClient]:
    client = QdrantClient(":memory:")
    fill(client)
    yield client
    client.close()


def assert_same(ours: list[Any], theirs: list[Any], *, tolerance: float = 1e-4) -> None:
    assert ours, "an empty answer compares nothing"
    assert [point.score for point in ours] == pytest.approx([point.score for point in theirs], abs=tolerance)
    settled = [point.id for point in ours]
    expected = [point.id for point in theirs]
    scores = [point.score for point in theirs]
    # Ties have no order in either engine: only ids whose score stands apart must agree in place.
    for place, score in enumerate(scores):
        lonely = all(abs(score - other) > tolerance for spot, other in enumerate(scores) if spot != place)
        if lonely and place < len(scores) - 1:
            assert settled[place] == expected[place], f"place {place} of {settled} against {expected}"
    for mine, other in zip(ours, theirs, strict=True):
        if mine.id == other.id:
            assert mine.payload == other.payload


def draws(seed: int, size: int = DIMENSION) -> list[float]:
    values: list[float] = np.random.default_rng(seed).normal(size=size).tolist()
    return values


SPARSE = models.SparseVector(indices=[1, 5, 17, 30], values=[0.4, 0.9, 0.2, 0.7])
FILTERS = {
    "value": models.Filter(must=[models.FieldCondition(key="group", match=models.MatchValue(value=3))]),
    "any": models.Filter(must=[models.FieldCondition(key="tags", match=models.MatchAny(any=["t1", "t2"]))]),
    "except": models.Filter(must=[models.FieldCondition(key="group", match=models.MatchExcept(**{"except": [1, 2]}))]),
    "range": models.Filter(must=[models.FieldCondition(key="price", range=models.Range(gte=20, lt=60.5))]),
    "must_not": models.Filter(must_not=[models.FieldCondition(key="group", range=models.Range(gt=4))]),
    "should": models.Filter(
        should=[
            models.FieldCondition(key="group", match=models.MatchValue(value=1)),
            models.FieldCondition(key="tags[]", match=models.MatchValue(value="t3")),
        ]
    ),
    "min_should": models.Filter(
        min_should=models.MinShould(
            conditions=[
                models.FieldCondition(key="group", range=models.Range(lt=6)),
                models.FieldCondition(key="price", range=models.Range(lt=50)),
                models.FieldCondition(key="deep.flag", match=models.MatchValue(value=True)),
            ],
            min_count=2,
        )
    ),
    "nested_filter": models.Filter(
        must=[models.Filter(should=[models.FieldCondition(key="deep.flag", match=models.MatchValue(value=True))])]
    ),
    "has_id": models.Filter(must=[models.HasIdCondition(has_id=list(range(0, 200, 3)))]),
    "has_vector": models.Filter(must=[models.HasVectorCondition(has_vector="dot")]),
    "is_empty": models.Filter(must=[models.IsEmptyCondition(is_empty=models.PayloadField(key="rare"))]),
    "is_null": models.Filter(must=[models.IsNullCondition(is_null=models.PayloadField(key="rare"))]),
    "values_count": models.Filter(
        must=[models.FieldCondition(key="tags", values_count=models.ValuesCount(gte=2))],
        must_not=[models.FieldCondition(key="group", match=models.MatchValue(value=0))],
    ),
}
QUERIES: dict[str, dict[str, Any]] = {
    "cosine": {"query": draws(1), "using": "cosine"},
    "dot": {"query": draws(2), "using": "dot"},
    "euclid": {"query": draws(3), "using": "euclid"},
    "manhattan": {"query": draws(4), "using": "manhattan"},
    "sparse": {"query": SPARSE, "using": "sparse"},
    "rows": {"query": [draws(5, 6), draws(6, 6)], "using": "rows"},
    "by id": {"query": 17, "using": "cosine"},
    "by id, sparse": {"query": 17, "using": "sparse"},
    "by id elsewhere": {
        "query": 3,
        "using": "cosine",
        "lookup_from": models.LookupLocation(collection="other", vector="cosine"),
    },
    "threshold": {"query": draws(1), "using": "cosine", "score_threshold": 0.2},
    "threshold on a distance": {"query": draws(3), "using": "euclid", "score_threshold": 6.5},
    "offset": {"query": draws(1), "using": "cosine", "offset": 7},
    "average": {
        "query": models.RecommendQuery(recommend=models.RecommendInput(positive=[1, 2, draws(9)], negative=[3])),
        "using": "cosine",
    },
    "average, dot": {
        "query": models.RecommendQuery(recommend=models.RecommendInput(positive=[4, 5], negative=[6, 7])),
        "using": "dot",
    },
    "average, sparse": {
        "query": models.RecommendQuery(recommend=models.RecommendInput(positive=[1, SPARSE], negative=[3])),
        "using": "sparse",
    },
    "best score": {
        "query": models.RecommendQuery(
            recommend=models.RecommendInput(positive=[1, 2], negative=[3], strategy=models.RecommendStrategy.BEST_SCORE)
        ),
        "using": "cosine",
    },
    "sum of scores": {
        "query": models.RecommendQuery(
            recommend=models.RecommendInput(positive=[1, 2], negative=[3], strategy=models.RecommendStrategy.SUM_SCORES)
        ),
        "using": "euclid",
    },
    "discover": {
        "query": models.DiscoverQuery(
            discover=models.DiscoverInput(target=5, context=[models.ContextPair(positive=1, negative=2)])
        ),
        "using": "cosine",
    },
    "context": {
        "query": models.ContextQuery(context=[models.ContextPair(positive=1, negative=2)]),
        "using": "dot",
    },
    "rescored": {
        "prefetch": models.Prefetch(query=draws(1), using="cosine", limit=30),
        "query": draws(2),
        "using": "dot",
    },
    "two levels": {
        "prefetch": [
            models.Prefetch(
                prefetch=[models.Prefetch(query=draws(1), using="cosine", limit=80)],
                query=draws(3),
                using="euclid",
                limit=40,
            )
        ],
        "query": draws(2),
        "using": "dot",
    },
    "dbsf": {
        "prefetch": [
            models.Prefetch(query=draws(1), using="cosine", limit=30),
            models.Prefetch(query=SPARSE, using="sparse", limit=30),
        ],
        "query": models.FusionQuery(fusion=models.Fusion.DBSF),
    },
    "formula": {
        "prefetch": [models.Prefetch(query=draws(1), using="cosine", limit=40)],
        "query": models.FormulaQuery(
            formula=models.SumExpression(
                sum=[
                    "$score",
                    models.MultExpression(mult=[0.01, "price"]),
                    models.MultExpression(
                        mult=[0.2, models.FieldCondition(key="group", match=models.MatchValue(value=3))]
                    ),
                ]
            )
        ),
    },
    "mmr": {
        "query": models.NearestQuery(nearest=draws(1), mmr=models.Mmr(diversity=0.6, candidates_limit=40)),
        "using": "cosine",
    },
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_ranks_as_local_mode_ranks(name: str, remote: QdrantClient, local: QdrantClient) -> None:
    query = {"collection_name": "c", "limit": 15, "with_payload": True, **QUERIES[name]}
    tolerance = 2e-3 if name == "dbsf" else 1e-4
    assert_same(remote.query_points(**query).points, local.query_points(**query).points, tolerance=tolerance)


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_selects_what_local_mode_selects(name: str, remote: QdrantClient, local: QdrantClient) -> None:
    query: dict[str, Any] = {
        "collection_name": "c",
        "limit": SIZE,
        "query": draws(1),
        "using": "cosine",
        "query_filter": FILTERS[name],
        "with_payload": True,
    }
    assert_same(remote.query_points(**query).points, local.query_points(**query).points)
    counted = remote.count("c", count_filter=FILTERS[name]).count
    assert counted == local.count("c", count_filter=FILTERS[name]).count > 0


@pytest.mark.parametrize("seed", range(8))
def test_random_filtered_queries_rank_as_local_mode_ranks(seed: int, remote: QdrantClient, local: QdrantClient) -> None:
    draw = np.random.default_rng(seed)
    low = float(draw.uniform(0, 60))
    query: dict[str, Any] = {
        "collection_name": "c",
        "query": draw.normal(size=DIMENSION).tolist(),
        "using": list(NAMES)[seed % 4],
        "limit": int(draw.integers(2, 40)),
        "offset": int(draw.integers(0, 9)),
        "query_filter": models.Filter(
            must=[models.FieldCondition(key="price", range=models.Range(gte=low, lte=low + 35))],
            must_not=[models.FieldCondition(key="group", match=models.MatchValue(value=int(draw.integers(0, 12))))],
        ),
        "with_payload": True,
    }
    assert_same(remote.query_points(**query).points, local.query_points(**query).points)


def test_groups_are_those_of_local_mode(remote: QdrantClient, local: QdrantClient) -> None:
    query: dict[str, Any] = {
        "collection_name": "c",
        "query": draws(1),
        "using": "cosine",
        "group_by": "group",
        "limit": 5,
        "group_size": 4,
        "with_payload": True,
        "with_lookup": models.WithLookup(collection="other", with_payload=True),
    }
    ours, theirs = remote.query_points_groups(**query).groups, local.query_points_groups(**query).groups
    assert [group.id for group in ours] == [group.id for group in theirs]
    for mine, other in zip(ours, theirs, strict=True):
        assert [hit.id for hit in mine.hits] == [hit.id for hit in other.hits]
        assert mine.lookup is not None
        assert other.lookup is not None
        assert mine.lookup.payload == other.lookup.payload


def test_scrolling_sees_every_point_once_and_in_order(remote: QdrantClient, local: QdrantClient) -> None:
    seen: list[Any] = []
    following: Any = None
    while True:
        page, following = remote.scroll("c", limit=70, offset=following, with_vectors=False)
        seen += page
        if following is None:
            break
    theirs, _ = local.scroll("c", limit=SIZE)
    assert [(record.id, record.payload) for record in seen] == [(record.id, record.payload) for record in theirs]


def test_scrolling_by_a_payload_key_orders_as_local_mode_orders(remote: QdrantClient, local: QdrantClient) -> None:
    order = models.OrderBy(key="price", direction=models.Direction.DESC, start_from=55.0)
    ours, theirs = (client.scroll("c", limit=25, order_by=order)[0] for client in (remote, local))
    assert [record.id for record in ours] == [record.id for record in theirs]
    assert ours[0].order_value is not None
    assert ours[0].payload is not None
    assert ours[0].order_value == ours[0].payload["price"]


def test_facets_count_as_local_mode_counts(remote: QdrantClient, local: QdrantClient) -> None:
    ours, theirs = (client.facet("c", key="tags", exact=True, limit=10).hits for client in (remote, local))
    assert {hit.value: hit.count for hit in ours} == {hit.value: hit.count for hit in theirs}
    assert len(ours) == 6


def test_stored_vectors_come_back_as_local_mode_returns_them(remote: QdrantClient, local: QdrantClient) -> None:
    ours, theirs = (client.retrieve("c", ids=[5, 1, 3], with_vectors=True) for client in (remote, local))
    assert [record.id for record in ours] == [5, 1, 3]
    by_id = {record.id: record for record in theirs}
    for record in ours:
        assert isinstance(record.vector, dict)
        other = by_id[record.id].vector
        assert isinstance(other, dict)
        assert set(record.vector) == set(other)
        for name in (*NAMES, "rows"):
            assert np.allclose(np.asarray(record.vector[name]), np.asarray(other[name]), atol=1e-6)
        mine_sparse, other_sparse = record.vector["sparse"], other["sparse"]
        assert isinstance(mine_sparse, models.SparseVector)
        assert isinstance(other_sparse, models.SparseVector)
        assert mine_sparse.indices == other_sparse.indices
        assert mine_sparse.values == pytest.approx(other_sparse.values)


def test_every_call_of_the_client_comes_to_the_same_over_both_transports(urls: tuple[str, str]) -> None:
    """Writes, reads and refusals, which carry the same words. An empty payload is none over gRPC, and maps have no order."""
    port = urlsplit(urls[1]).port or 0
    rest, grpc = (
        {name: NUMBER.sub("", result) for name, result in outcomes(urls[0], port, prefers_grpc=way).items()}
        for way in (False, True)
    )
    unlike = {name for name, result in grpc.items() if result != rest[name].replace("payload={}", "payload=None")}
    unexpected = {name for name in unlike if grpc[name].partition(" ")[2] not in rest[name]}
    assert unexpected <= {"info", "list_snapshots", "no result"}
