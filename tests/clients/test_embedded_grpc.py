"""The official client over gRPC against the embedded server: whatever it asks, the answer is the one it gets over REST."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest
from qdrant_client import QdrantClient, models
from servers.qdrant.grpc_messages import Encoding

from support.grpc.clients import over_grpc
from support.qdrant.embedded import start_embedded_grpc_process

SIZE = 120
DIMENSION = 12
ROWS = models.MultiVectorConfig(comparator=models.MultiVectorComparator.MAX_SIM)
VECTORS = {
    "": models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE),
    "euclid": models.VectorParams(size=DIMENSION, distance=models.Distance.EUCLID),
    "rows": models.VectorParams(size=4, distance=models.Distance.DOT, multivector_config=ROWS),
}
NO_UUID = "6f2e9a34-0000-4000-8000-000000000000"


@dataclass(frozen=True, slots=True)
class Both:
    """The same server twice: one client asks over REST, the other over gRPC."""

    rest: QdrantClient
    rpc: QdrantClient


def random_points() -> list[models.PointStruct]:
    draw = np.random.default_rng(11)
    points = []
    for number in range(SIZE):
        indices = sorted(draw.choice(20, size=4, replace=False).tolist())
        vector: dict[str, Any] = {
            "": draw.normal(size=DIMENSION).tolist(),
            "rows": draw.normal(size=(int(draw.integers(1, 4)), 4)).tolist(),
            "sparse": models.SparseVector(indices=indices, values=draw.uniform(0.1, 1, size=4).tolist()),
        }
        if number % 3:
            vector["euclid"] = draw.normal(size=DIMENSION).tolist()
        payload = {
            "group": int(draw.integers(0, 6)),
            "price": round(float(draw.uniform(0, 100)), 3),
            "tags": [f"t{tag}" for tag in draw.choice(5, size=2, replace=False).tolist()],
            "deep": {"flag": bool(number % 2), "none": None, "empty": [], "of": [{"x": 1}, {}]},
            "at": f"2024-05-{1 + number % 28:02}T00:00:00Z",
            "place": {"lon": 13.4 + number / 100, "lat": 52.5},
        }
        identifier = number if number % 10 else f"00000000-0000-4000-8000-{number:012}"
        points.append(models.PointStruct(id=identifier, vector=vector, payload=payload))
    return points


def fill(client: QdrantClient) -> None:
    client.create_collection("c", VECTORS, sparse_vectors_config={"sparse": models.SparseVectorParams()})
    client.upsert("c", random_points())
    for field, schema in (("group", "integer"), ("price", "float"), ("tags", "keyword"), ("at", "datetime")):
        client.create_payload_index("c", field, models.PayloadSchemaType(schema))
    client.create_collection("other", {"": VECTORS[""]})
    client.upsert("other", [models.PointStruct(id=n, vector=vector(n + 50), payload={"of": n}) for n in range(6)])


@pytest.fixture(scope="module", params=list(Encoding))
def both(request: pytest.FixtureRequest) -> Iterator[Both]:
    with start_embedded_grpc_process(encoding=request.param) as (url, grpc_url):
        rest, rpc = QdrantClient(url=url, timeout=30, check_compatibility=False), over_grpc(url, grpc_url)
        fill(rpc)
        yield Both(rest, rpc)
        rest.close()
        rpc.close()


def vector(seed: int, size: int = DIMENSION) -> list[float]:
    values: list[float] = np.random.default_rng(seed).normal(size=size).astype(np.float32).tolist()
    return values


def plain(value: Any) -> Any:
    """Nested models as dicts, with floats as the float32 that both transports carry.

    REST tells no points of nothing (`[]`) from none of them, gRPC no payload of nothing from none: both are left out.
    """
    if hasattr(value, "model_dump"):
        return plain(value.model_dump())
    if isinstance(value, dict):
        kept = {name: plain(item) for name, item in value.items()}
        return {name: item for name, item in kept.items() if item not in (None, {})}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return float(np.float32(value)) if isinstance(value, float) else value


def assert_same(both: Both, ask: Callable[[QdrantClient], Any]) -> Any:
    """The answers of both; they are equal, and not empty."""
    answer = plain(ask(both.rpc))
    assert answer == plain(ask(both.rest))
    assert answer not in ([], {}, {"points": []}, {"groups": []})
    return answer


def matching(key: str, value: Any) -> models.FieldCondition:
    return models.FieldCondition(key=key, match=models.MatchValue(value=value))


SPARSE = models.SparseVector(indices=[1, 5, 13], values=[0.5, 0.75, 0.25])
FILTERS = {
    "nothing": models.Filter(),
    "value": models.Filter(must=matching("group", 3)),
    "text": models.Filter(must=[matching("tags", "t1")]),
    "true": models.Filter(must=[matching("deep.flag", True)]),
    "any": models.Filter(must=[models.FieldCondition(key="tags", match=models.MatchAny(any=["t1", "t2"]))]),
    "any number": models.Filter(must=[models.FieldCondition(key="group", match=models.MatchAny(any=[1, 2]))]),
    "except": models.Filter(must=[models.FieldCondition(key="group", match=models.MatchExcept(**{"except": [1, 2]}))]),
    "range": models.Filter(must=[models.FieldCondition(key="price", range=models.Range(gte=20, lt=60.5))]),
    "dates": models.Filter(
        must=[models.FieldCondition(key="at", range=models.DatetimeRange(gt=datetime(2024, 5, 10, tzinfo=UTC)))]
    ),
    "must not": models.Filter(must_not=[models.FieldCondition(key="group", range=models.Range(gt=2))]),
    "should": models.Filter(should=[matching("group", 1), matching("tags[]", "t3")]),
    "some": models.Filter(
        min_should=models.MinShould(
            conditions=[matching("group", 1), matching("deep.flag", True), matching("tags", "t0")], min_count=2
        )
    ),
    "inside": models.Filter(must=[models.Filter(must_not=[matching("deep.flag", True)])]),
    "nested": models.Filter(
        must=[models.NestedCondition(nested=models.Nested(key="deep.of", filter=models.Filter(must=matching("x", 1))))]
    ),
    "ids": models.Filter(must=[models.HasIdCondition(has_id=[1, 2, 3, "00000000-0000-4000-8000-000000000020"])]),
    "vectors": models.Filter(must=[models.HasVectorCondition(has_vector="euclid")]),
    "empty": models.Filter(must=[models.IsEmptyCondition(is_empty=models.PayloadField(key="rare"))]),
    "null": models.Filter(must=[models.IsNullCondition(is_null=models.PayloadField(key="deep.none"))]),
    "count": models.Filter(must=[models.FieldCondition(key="tags", values_count=models.ValuesCount(gte=2))]),
    "near": models.Filter(
        must=[
            models.FieldCondition(
                key="place", geo_radius=models.GeoRadius(center=models.GeoPoint(lon=13.6, lat=52.5), radius=20_000)
            )
        ]
    ),
}
QUERIES: dict[str, dict[str, Any]] = {
    "dense": {"query": vector(1)},
    "named": {"query": vector(2), "using": "euclid"},
    "sparse": {"query": SPARSE, "using": "sparse"},
    "several rows": {"query": [vector(3, 4), vector(4, 4)], "using": "rows"},
    "no query": {},
    "by id": {"query": 17},
    "by uuid": {"query": "00000000-0000-4000-8000-000000000020", "using": "sparse"},
    "by id elsewhere": {"query": 3, "lookup_from": models.LookupLocation(collection="other")},
    "filter": {"query": vector(1), "query_filter": FILTERS["value"]},
    "threshold": {"query": vector(1), "score_threshold": 0.2},
    "offset": {"query": vector(1), "offset": 7},
    "exact": {"query": vector(1), "search_params": models.SearchParams(exact=True, hnsw_ef=64)},
    "average": {
        "query": models.RecommendQuery(recommend=models.RecommendInput(positive=[1, 2, vector(9)], negative=[3]))
    },
    "best score": {
        "query": models.RecommendQuery(
            recommend=models.RecommendInput(positive=[1, 2], negative=[4], strategy=models.RecommendStrategy.BEST_SCORE)
        ),
        "using": "euclid",
    },
    "sum of scores": {
        "query": models.RecommendQuery(
            recommend=models.RecommendInput(positive=[1, 2], strategy=models.RecommendStrategy.SUM_SCORES)
        )
    },
    "discover": {
        "query": models.DiscoverQuery(
            discover=models.DiscoverInput(target=5, context=[models.ContextPair(positive=1, negative=2)])
        )
    },
    "context": {"query": models.ContextQuery(context=[models.ContextPair(positive=1, negative=2)])},
    "feedback": {
        "query": models.RelevanceFeedbackQuery(
            relevance_feedback=models.RelevanceFeedbackInput(
                target=vector(1),
                feedback=[models.FeedbackItem(example=3, score=0.9), models.FeedbackItem(example=4, score=0.1)],
                strategy=models.NaiveFeedbackStrategy(naive=models.NaiveFeedbackStrategyParams(a=0.5, b=0.25, c=0.125)),
            )
        )
    },
    "order": {"query": models.OrderByQuery(order_by=models.OrderBy(key="price", direction=models.Direction.DESC))},
    "fusion": {
        "prefetch": [
            models.Prefetch(query=vector(1), limit=30),
            models.Prefetch(query=SPARSE, using="sparse", limit=30, filter=FILTERS["should"]),
        ],
        "query": models.FusionQuery(fusion=models.Fusion.DBSF),
    },
    "weighted fusion": {
        "prefetch": [models.Prefetch(query=vector(1), limit=30), models.Prefetch(query=vector(2), using="euclid")],
        "query": models.RrfQuery(rrf=models.Rrf(k=11, weights=[1.0, 0.37])),
    },
    "two levels": {
        "prefetch": models.Prefetch(
            prefetch=[models.Prefetch(query=vector(1), limit=60)],
            query=vector(3),
            using="euclid",
            limit=40,
            score_threshold=9.5,
        ),
        "query": vector(2),
    },
    "formula": {
        "prefetch": models.Prefetch(query=vector(1), limit=40),
        "query": models.FormulaQuery(
            formula=models.SumExpression(
                sum=["$score", models.MultExpression(mult=[0.5, matching("group", 3)]), "bonus"]
            ),
            defaults={"bonus": 0.25},
        ),
    },
    "mmr": {"query": models.NearestQuery(nearest=vector(1), mmr=models.Mmr(diversity=0.5, candidates_limit=40))},
    "no payload": {"query": vector(1), "with_payload": False},
    "some payload": {"query": vector(1), "with_payload": ["group", "deep.flag"]},
    "all payload but": {"query": vector(1), "with_payload": models.PayloadSelectorExclude(exclude=["deep", "tags"])},
    "every vector": {"query": vector(1), "with_vectors": True},
    "the unnamed vector": {"query": vector(1), "with_vectors": [""]},
    "named vectors": {"query": vector(1), "with_vectors": ["rows", "sparse", "euclid"]},
    "no vector by name": {"query": vector(1), "with_vectors": []},
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_is_answered_as_over_rest(name: str, both: Both) -> None:
    asked = {"collection_name": "c", "limit": 15, **QUERIES[name]}
    answer = assert_same(both, lambda client: client.query_points(**asked))
    assert len(answer["points"]) > 3


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_selects_as_over_rest(name: str, both: Both) -> None:
    assert_same(both, lambda client: client.count("c", count_filter=FILTERS[name]).count)
    assert_same(both, lambda client: client.query_points("c", vector(1), query_filter=FILTERS[name], limit=SIZE))


def test_a_batch_keeps_its_answers_in_order(both: Both) -> None:
    requests = [
        models.QueryRequest(query=vector(1), limit=3),
        models.QueryRequest(query=SPARSE, using="sparse", limit=5, with_payload=True, with_vector=["sparse"]),
        models.QueryRequest(query=17),
    ]
    answers = assert_same(both, lambda client: client.query_batch_points("c", requests))
    assert [len(answer["points"]) for answer in answers] == [3, 5, 10]


def test_groups_are_those_of_rest(both: Both) -> None:
    asked: dict[str, Any] = {"group_by": "group", "limit": 3, "group_size": 2, "with_lookup": "other"}
    groups = assert_same(both, lambda client: client.query_points_groups("c", query=vector(1), **asked))["groups"]
    assert len(groups) == 3
    assert groups[0]["lookup"]["payload"] == {"of": groups[0]["id"]}
    by_tag = assert_same(both, lambda client: client.query_points_groups("c", "tags", vector(1)))["groups"]
    assert {group["id"] for group in by_tag} == {f"t{number}" for number in range(5)}


def test_scrolling_sees_the_pages_of_rest(both: Both) -> None:
    first, following = assert_same(both, lambda client: client.scroll("c", limit=40, with_vectors=True))
    rest, end = assert_same(both, lambda client: client.scroll("c", limit=SIZE, offset=following))
    assert end is None
    assert len({point["id"] for point in first + rest}) == SIZE
    order = models.OrderBy(key="price", direction=models.Direction.DESC, start_from=55.0)
    page, _ = assert_same(both, lambda client: client.scroll("c", limit=9, order_by=order))
    assert page[0]["order_value"] == pytest.approx(page[0]["payload"]["price"])


def test_records_facets_and_what_exists_are_those_of_rest(both: Both) -> None:
    ids: list[Any] = [7, NO_UUID, "00000000-0000-4000-8000-000000000020", 3]
    records = assert_same(both, lambda client: client.retrieve("c", ids, with_vectors=True))
    assert [record["id"] for record in records] == [7, ids[2], 3]
    hits = assert_same(both, lambda client: client.facet("c", "tags", exact=True))["hits"]
    assert len(hits) == 5
    assert_same(both, lambda client: client.facet("c", "group", facet_filter=FILTERS["range"], limit=2))
    assert assert_same(both, lambda client: client.collection_exists("c")) is True
    assert plain(both.rpc.collection_exists("none")) is False
    assert_same(both, lambda client: client.get_collections())
    info = assert_same(both, lambda client: client.get_collection("c"))
    assert info["points_count"] == SIZE
    assert set(info["payload_schema"]) == {"group", "price", "tags", "at"}


def test_scores_are_the_float32_of_the_engine(both: Both) -> None:
    points = both.rpc.query_points("c", vector(1)).points
    assert [point.score for point in points] == [float(np.float32(point.score)) for point in points]
