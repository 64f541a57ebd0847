from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from qdrant_client import grpc

from support.qdrant.grpc_conversations import Twins, twins
from support.qdrant.grpc_model import TIME, field
from vecsieve.adapters.contract import (
    Adapter,
    MalformedReplyError,
    Needs,
    Operation,
    Pool,
    SearchCall,
    UnsupportedError,
)
from vecsieve.adapters.qdrant.grpc import QdrantGrpc
from vecsieve.adapters.qdrant.rest import QdrantRest

DENSE = grpc.Query(nearest=grpc.VectorInput(dense=grpc.DenseVector(data=[1.0, 2.0])))
ADAPTER = QdrantGrpc()
PLAIN = Needs()


def call(message: Any, needs: Needs, *, name: str = "query") -> SearchCall:
    operation = Operation(backend="qdrant", name=name, collection="c")
    return ADAPTER.parse_request(operation, message.SerializeToString(), needs)


def one(needs: Needs = PLAIN) -> SearchCall:
    return call(grpc.QueryPoints(query=DENSE, using="a"), needs)


def sparse(needs: Needs = PLAIN) -> SearchCall:
    query = grpc.Query(nearest=grpc.VectorInput(sparse=grpc.SparseVector(values=[1.0], indices=[1])))
    return call(grpc.QueryPoints(query=query, using="s"), needs)


def point(number: int, **vectors: list[float]) -> Any:
    inside = {name: grpc.VectorOutput(dense=grpc.DenseVector(data=value)) for name, value in vectors.items()}
    stored = grpc.VectorsOutput(vectors=grpc.NamedVectorsOutput(vectors=inside)) if inside else None
    return grpc.ScoredPoint(id=grpc.PointId(num=number), score=0.5, vectors=stored)


def pool(parsed: SearchCall, *points: Any) -> Pool:
    body = grpc.QueryResponse(result=points, time=0.1).SerializeToString()
    (found,) = ADAPTER.parse_reply(parsed, body).pools
    return found


def test_a_pool_is_what_the_points_say() -> None:
    found = pool(one(), point(1, a=[1.0, 0.0]), point(2), point(3, a=[0.0, 1.0]))
    assert found.ids == (b"1", b"2", b"3")
    assert found.scores.tolist() == [0.5] * 3
    assert found.scores.dtype == np.float64
    np.testing.assert_array_equal(found.vectors, [[1, 0], [np.nan] * 2, [0, 1]])
    assert (found.unusable, found.vector_name, found.compared_by) == (1, None, "a")
    assert found.fields == ((), (), ())


def test_a_vector_that_was_found_by_asking_for_all_is_to_be_remembered() -> None:
    found = pool(sparse(), point(1, a=[1.0, 0.0], b=[1.0]))
    assert (found.vector_name, found.compared_by) == ("b", "b")
    found = pool(sparse(), point(1))
    assert (found.vector_name, found.compared_by, found.unusable) == (None, None, 1)
    found = pool(sparse(Needs(vector_hint="a")), point(1, a=[1.0, 0.0]))
    assert (found.vector_name, found.compared_by) == (None, "a")


def test_each_search_of_a_batch_has_its_own_list() -> None:
    items = [grpc.QueryPoints(query=DENSE, limit=limit) for limit in (2, 1, 3)]
    parsed = call(grpc.QueryBatchPoints(query_points=items), Needs(), name="query_batch")
    lists = [grpc.BatchResult(result=[point(number)]) for number in (1, 2, 3)]
    found = ADAPTER.parse_reply(parsed, grpc.QueryBatchResponse(result=lists).SerializeToString()).pools
    assert [each.ids for each in found] == [(b"1",), (b"3",)]
    for wrong in (lists[:2], [*lists, lists[0]]):
        with pytest.raises(MalformedReplyError, match=f"{len(wrong)} results, wanted 3"):
            ADAPTER.parse_reply(parsed, grpc.QueryBatchResponse(result=wrong).SerializeToString())


@pytest.mark.parametrize(
    "body",
    [
        b"\xff",
        field(1, b""),
        field(1, field(1, b"")),
        field(1, field(1, b"\x08\x01") + field(6, b"\x08")),
        field(1, field(1, b"\x08\x01"))[:-1],
        TIME[:-1],
    ],
)
def test_what_is_no_reply_is_malformed(body: bytes) -> None:
    with pytest.raises(MalformedReplyError):
        ADAPTER.parse_reply(one(), body)


def answered(adapter: Adapter, talk: Any, operation: str, needs: Needs) -> tuple[Pool, ...]:
    named = Operation(backend="qdrant", name=operation, collection="c")
    try:
        parsed = adapter.parse_request(named, talk.body, needs)
    except UnsupportedError as verdict:
        assume(verdict.reason is None)
        raise
    wide = adapter.widen(parsed, [3 * (search.top_k + search.offset) for search in parsed.searches])
    return adapter.parse_reply(parsed, talk.answer(wide)).pools


@given(
    both=twins(),
    needs=st.sampled_from([Needs(), Needs(vector_name="dense"), Needs(vector_hint="dense"), Needs(vector_name="")]),
)
def test_rest_and_grpc_see_the_same_candidates(both: Twins, needs: Needs) -> None:
    """The same points by both interfaces are the same pools, scores within a float of 32 bits."""
    rest = answered(QdrantRest(), both.rest, both.operation, needs)
    found = answered(ADAPTER, both.grpc, both.operation, needs)
    assert len(found) == len(rest)
    for ours, theirs in zip(found, rest, strict=True):
        assert ours.ids == theirs.ids
        np.testing.assert_allclose(ours.scores, theirs.scores, rtol=1e-6)
        np.testing.assert_allclose(ours.vectors, theirs.vectors, rtol=1e-6)
        assert ours.unusable == theirs.unusable
        assert (ours.vector_name, ours.compared_by) == (theirs.vector_name, theirs.compared_by)


@given(both=twins(operation="query"))
def test_rest_and_grpc_see_the_same_payload(both: Twins) -> None:
    """What gRPC can say of a payload reads as REST's JSON does."""
    needs = Needs(optional_fields=("text", "doc", "vector", "id"))
    rest = answered(QdrantRest(), both.rest, both.operation, needs)
    found = answered(ADAPTER, both.grpc, both.operation, needs)
    for ours, theirs in zip(found, rest, strict=True):
        for mine, other in zip(ours.fields, theirs.fields, strict=True):
            said = [(json.loads(raw), json.loads(known or b"")) for raw, known in zip(mine, other, strict=True) if raw]
            assert [ours_said for ours_said, _ in said] == [theirs_said for _, theirs_said in said]
