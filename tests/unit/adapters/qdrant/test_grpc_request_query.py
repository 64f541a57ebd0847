from __future__ import annotations

from typing import Any

import pytest
from qdrant_client import grpc

from support.qdrant.grpc_model import field
from vecsieve.adapters.contract import Reason, UnsupportedError
from vecsieve.adapters.qdrant.grpc_request import LAYOUTS
from vecsieve.adapters.qdrant.ranking import Kind, Ranking
from vecsieve.adapters.wire.schema import read

NESTING = 4
DENSE = grpc.VectorInput(dense=grpc.DenseVector(data=[1.0, 2.0]))
SPARSE = grpc.VectorInput(sparse=grpc.SparseVector(values=[1.0], indices=[3]))
MULTI = grpc.VectorInput(multi_dense=grpc.MultiDenseVector(vectors=[grpc.DenseVector(data=[1.0])]))
BY_ID = grpc.VectorInput(id=grpc.PointId(num=3))


def ranked(name: str, message: Any) -> Ranking:
    data = message if isinstance(message, bytes) else message.SerializeToString()
    layout = LAYOUTS[name]
    return layout.ranking(read(layout.kind, data), NESTING)


def refusal(name: str, message: Any) -> Reason:
    with pytest.raises(UnsupportedError) as refused:
        ranked(name, message)
    return refused.value.reason


def query(variant: Any = None, **members: Any) -> Any:
    return grpc.QueryPoints(collection_name="c", query=variant, **members)


def nearest(inner: Any) -> Any:
    return grpc.Query(nearest=inner)


@pytest.mark.parametrize(
    ("variant", "kind"),
    [
        (nearest(DENSE), Kind.DENSE),
        (nearest(SPARSE), Kind.SPARSE),
        (nearest(MULTI), Kind.MULTI),
        (nearest(BY_ID), Kind.REFERENCE),
        (nearest(grpc.VectorInput(document=grpc.Document(text="a", model="m"))), Kind.REFERENCE),
        (nearest(grpc.VectorInput(image=grpc.Image(model="m"))), Kind.REFERENCE),
        (nearest(grpc.VectorInput(object=grpc.InferenceObject(model="m"))), Kind.REFERENCE),
        (grpc.Query(recommend=grpc.RecommendInput()), Kind.REFERENCE),
        (grpc.Query(discover=grpc.DiscoverInput()), Kind.REFERENCE),
        (grpc.Query(context=grpc.ContextInput()), Kind.REFERENCE),
        (grpc.Query(relevance_feedback=grpc.RelevanceFeedbackInput()), Kind.REFERENCE),
    ],
)
def test_a_query_tells_its_kind_and_names_its_vector(variant: Any, kind: Kind) -> None:
    assert (ranked("query", query(variant)).kind, ranked("query", query(variant)).name) == (kind, "")
    assert ranked("query", query(variant, using="größe")).name == "größe"


@pytest.mark.parametrize(
    "variant",
    [
        grpc.Query(order_by=grpc.OrderBy(key="a")),
        grpc.Query(sample=grpc.Sample.Random),
        grpc.Query(nearest_with_mmr=grpc.NearestInputWithMmr(nearest=DENSE, mmr=grpc.Mmr())),
        None,
    ],
)
def test_an_order_the_client_chose_is_left_alone(variant: Any) -> None:
    assert refusal("query", query(variant)) is Reason.ORDERING_CHOSEN


def test_what_is_no_query_this_adapter_knows_is_left_alone() -> None:
    assert refusal("query", query(grpc.Query(text=grpc.TextQuery()))) is Reason.UNSUPPORTED_FIELD
    assert refusal("query", query(grpc.Query())) is Reason.UNSUPPORTED_FIELD
    assert refusal("query", query(nearest(grpc.VectorInput()))) is Reason.UNSUPPORTED_FIELD
    assert refusal("query", field(3, b"\x08\x01")) is Reason.UNSUPPORTED_FIELD  # a nearest that is a number
    assert refusal("query", field(3, field(1, b"\x08\x01"))) is Reason.UNSUPPORTED_FIELD
    twice = nearest(DENSE).SerializeToString() + grpc.Query(fusion=grpc.Fusion.RRF).SerializeToString()
    assert refusal("query", field(3, twice)) is Reason.AMBIGUOUS_FIELD


def prefetch(variant: Any = None, **members: Any) -> Any:
    return grpc.PrefetchQuery(query=variant, **members)


FUSED = [
    grpc.Query(fusion=grpc.Fusion.RRF),
    grpc.Query(rrf=grpc.Rrf(k=2)),
    grpc.Query(formula=grpc.Formula()),
]


def test_mmr_anywhere_is_a_wish_for_diversity_and_a_plain_order_below_is_not() -> None:
    mmr = prefetch(grpc.Query(nearest_with_mmr=grpc.NearestInputWithMmr(nearest=DENSE)))
    assert refusal("query", query(nearest(DENSE), prefetch=[mmr])) is Reason.ORDERING_CHOSEN
    assert refusal("query", query(FUSED[0], prefetch=[prefetch(FUSED[0], prefetch=[mmr])])) is Reason.ORDERING_CHOSEN
    for plain in (grpc.Query(sample=grpc.Sample.Random), grpc.Query(order_by=grpc.OrderBy(key="a"))):
        assert ranked("query", query(nearest(DENSE), prefetch=[prefetch(plain), prefetch()])).kind is Kind.DENSE


def nested(levels: int) -> Any:
    inner = prefetch(nearest(DENSE), using="deep")
    for _ in range(levels - 1):
        inner = prefetch(prefetch=[inner])
    return inner


def test_prefetches_are_read_as_deep_as_they_may_be() -> None:
    assert ranked("query", query(FUSED[0], prefetch=[nested(NESTING)])).name == "deep"
    assert refusal("query", query(FUSED[0], prefetch=[nested(NESTING + 1)])) is Reason.TOO_DEEP


def test_a_field_of_a_prefetch_that_nobody_knows_leaves_the_search_alone() -> None:
    data = query(nearest(DENSE)).SerializeToString() + field(2, field(99, b""))
    assert refusal("query", data) is Reason.UNSUPPORTED_FIELD


def test_a_search_is_dense_or_sparse() -> None:
    dense = grpc.SearchPoints(vector=[1.0, 2.0], vector_name="a").SerializeToString()
    assert ranked("search", dense) == Ranking(Kind.DENSE, "a")
    sparse = grpc.SearchPoints(vector=[1.0], sparse_indices=grpc.SparseIndices(data=[3]), vector_name="s")
    assert ranked("search", sparse) == Ranking(Kind.SPARSE, "s")
    assert refusal("search", grpc.SearchPoints(vector_name="a")) is Reason.UNSUPPORTED_FIELD
