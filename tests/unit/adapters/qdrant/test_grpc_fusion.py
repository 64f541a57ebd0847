"""A fusion over gRPC divided into a batch, and its reply fused again; read by protobuf's own library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from qdrant_client import grpc as pb

from vecsieve.adapters.contract import Bounds, Needs, Operation
from vecsieve.adapters.fusions import Divided, Ending, Method, Undivided, UndividedError
from vecsieve.adapters.qdrant.grpc import QdrantGrpc

ADAPTER = QdrantGrpc()
QUERY = Operation(backend="qdrant", name="query", collection="c")
RRF = pb.Query(fusion=pb.Fusion.RRF)
MUST = pb.Filter(must=[pb.Condition(field=pb.FieldCondition(key="k"))])
SHOULD = pb.Filter(should=[pb.Condition(field=pb.FieldCondition(key="k"))])


def near(*numbers: float) -> Any:
    return pb.Query(nearest=pb.VectorInput(dense=pb.DenseVector(data=numbers)))


FIRST = pb.PrefetchQuery(query=near(0.25, 1e-7), using="a", limit=3, score_threshold=0.5)
SECOND = pb.PrefetchQuery(
    query=pb.Query(nearest=pb.VectorInput(sparse=pb.SparseVector(indices=[1], values=[2.0]))), using="s"
)


def message(**members: Any) -> Any:
    return pb.QueryPoints(**{"collection_name": "c", "prefetch": [FIRST, SECOND], "query": RRF, **members})


def divide(asked: Any, **needs: Any) -> Divided | None:
    call = ADAPTER.parse_request(QUERY, asked.SerializeToString(), Needs(**needs))
    return ADAPTER.divided(call, ADAPTER.widen(call, [50]))


def batch(asked: Any) -> Any:
    divided = divide(asked)
    assert divided is not None
    assert divided.ending == Ending(new="Batch")
    return pb.QueryBatchPoints.FromString(divided.parts[0].body)


def reason(asked: Any, **needs: Any) -> Undivided:
    with pytest.raises(UndividedError) as refused:
        divide(asked, **needs)
    return refused.value.reason


def test_each_prefetch_becomes_a_search_with_the_selectors_of_the_widened_root() -> None:
    found = batch(message(with_payload=pb.WithPayloadSelector(enable=True), timeout=4, limit=7))
    selected: dict[str, Any] = {
        "collection_name": "c",
        "with_payload": pb.WithPayloadSelector(enable=True),
        "with_vectors": pb.WithVectorsSelector(include=pb.VectorsSelector(names=["a"])),
    }
    assert list(found.query_points) == [
        pb.QueryPoints(query=FIRST.query, using="a", limit=3, score_threshold=0.5, **selected),
        pb.QueryPoints(query=SECOND.query, using="s", **selected),
    ]
    assert (found.collection_name, found.timeout) == ("c", 4)


def test_all_members_of_a_prefetch_are_those_of_its_search() -> None:
    lookup, params = pb.LookupLocation(collection_name="d"), pb.SearchParams(exact=True)
    whole = pb.PrefetchQuery(
        query=near(1.0), using="a", filter=MUST, params=params, score_threshold=0.25, limit=4, lookup_from=lookup
    )
    (found,) = batch(message(prefetch=[whole])).query_points
    assert (found.filter, found.params, found.lookup_from, found.score_threshold) == (MUST, params, lookup, 0.25)


def test_the_fusion_is_read_with_the_widened_limit() -> None:
    query = pb.Query(rrf=pb.Rrf(k=9, weights=[2.0, 0.5]))
    divided = divide(message(query=query, score_threshold=0.25))
    assert divided is not None
    found = divided.fusion
    assert (found.method, found.k, found.weights, found.threshold, found.limit) == (Method.RRF, 9, (2.0, 0.5), 0.25, 50)


@pytest.mark.parametrize(
    ("query", "method"),
    [(RRF, "rrf"), (pb.Query(fusion=pb.Fusion.DBSF), "dbsf"), (pb.Query(rrf=pb.Rrf()), "rrf")],
)
def test_absent_parameters_have_the_servers_defaults(query: Any, method: str) -> None:
    divided = divide(message(query=query))
    assert divided is not None
    assert (divided.fusion.method, divided.fusion.k, divided.fusion.weights) == (method, 2, None)


def test_the_roots_filter_is_merged_with_that_of_each_search() -> None:
    other = pb.Filter(must_not=MUST.must)
    found = batch(message(prefetch=[FIRST, pb.PrefetchQuery(query=near(1.0), filter=other)], filter=MUST))
    assert [point.filter for point in found.query_points] == [MUST, pb.Filter(must=MUST.must, must_not=MUST.must)]


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (message(prefetch=[pb.PrefetchQuery(query=RRF, prefetch=[FIRST])]), Undivided.NESTED),
        (message(query=pb.Query(formula=pb.Formula())), Undivided.FORMULA),
        (
            message(prefetch=[FIRST, pb.PrefetchQuery(query=pb.Query(nearest=pb.VectorInput(id=pb.PointId(num=7))))]),
            Undivided.POINTS,
        ),
        (message(prefetch=[FIRST, pb.PrefetchQuery(query=pb.Query(recommend=pb.RecommendInput()))]), Undivided.POINTS),
        (message(prefetch=[FIRST, pb.PrefetchQuery(limit=4)]), Undivided.UNRANKED),
        (
            message(prefetch=[FIRST, pb.PrefetchQuery(query=pb.Query(order_by=pb.OrderBy(key="k")))]),
            Undivided.UNRANKED,
        ),
        (message(prefetch=[]), Undivided.MEMBER),
        (message(params=pb.SearchParams()), Undivided.MEMBER),
        (message(using="a"), Undivided.MEMBER),
        (message(lookup_from=pb.LookupLocation(collection_name="d")), Undivided.MEMBER),
        (message(prefetch=[pb.PrefetchQuery(query=near(1.0), filter=SHOULD)], filter=MUST), Undivided.MEMBER),
        (message(prefetch=[pb.PrefetchQuery(query=near(1.0), filter=MUST)], filter=SHOULD), Undivided.MEMBER),
        (message(query=pb.Query(rrf=pb.Rrf(k=0))), Undivided.MEMBER),
        (message(query=pb.Query(rrf=pb.Rrf(weights=[1.0]))), Undivided.MEMBER),
        (message(query=pb.Query(rrf=pb.Rrf(weights=[1.0, -1.0]))), Undivided.MEMBER),
        (message(query=pb.Query(rrf=pb.Rrf(weights=[1.0, float("nan")]))), Undivided.MEMBER),
    ],
)
def test_what_the_batch_could_not_answer_exactly_is_not_divided(asked: Any, expected: Undivided) -> None:
    assert reason(asked) is expected


def test_more_lists_than_searches_of_one_request_are_not_divided() -> None:
    bounds = Bounds(searches=2, parts=10_000, nesting=8)
    assert reason(message(prefetch=[FIRST] * 3), bounds=bounds) is Undivided.MANY


def test_a_text_that_the_server_embeds_stands_for_no_stored_point() -> None:
    text = pb.Query(nearest=pb.VectorInput(document=pb.Document(text="t", model="m")))
    found = batch(message(prefetch=[FIRST, pb.PrefetchQuery(query=text)]))
    assert found.query_points[1].query == text


@pytest.mark.parametrize("prefetch", [[], [FIRST]])
def test_a_search_that_fuses_nothing_is_no_fusion(prefetch: list[Any]) -> None:
    assert divide(message(query=near(1.0, 2.0), prefetch=prefetch, using="a", limit=4)) is None


def test_the_reply_has_the_points_messages_with_the_fused_scores() -> None:
    divided = divide(message())
    assert divided is not None

    def point(number: int, score: float, *vector: float) -> Any:
        stored = pb.VectorsOutput(vectors=pb.NamedVectorsOutput(vectors={"a": pb.VectorOutput(data=vector)}))
        return pb.ScoredPoint(
            id=pb.PointId(num=number), score=score, version=3, vectors=stored, payload={"t": pb.Value(integer_value=1)}
        )

    lists = [pb.BatchResult(result=[point(1, 0.9, 1.0)]), pb.BatchResult(result=[point(2, 0.0, 3.0)])]
    body = pb.QueryBatchResponse(result=lists, time=0.5).SerializeToString()
    reply = ADAPTER.parse_reply(divided.parts[0].call, body)
    assert [pool.ids for pool in reply.pools] == [(b"1",), (b"2",)]
    fused = ADAPTER.fused(divided, [reply], [(1, 0, np.float32(0.1)), (0, 0, np.float32(0))])
    expected = pb.QueryResponse(result=[point(2, 0.1, 3.0), point(1, 0.0, 1.0)], time=0.5)
    assert pb.QueryResponse.FromString(fused) == expected
    assert fused == expected.SerializeToString()
