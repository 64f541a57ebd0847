from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client import grpc

from support.qdrant.grpc_conversations import Twins, twins
from support.qdrant.grpc_model import field
from vecsieve.adapters.contract import Needs, Operation, Reason, Search, UnsupportedError
from vecsieve.adapters.qdrant.grpc_request import Document, _skeleton, parse_request, widen
from vecsieve.adapters.qdrant.rest_request import parse_request as parse_rest

DENSE = grpc.Query(nearest=grpc.VectorInput(dense=grpc.DenseVector(data=[1.0, 2.0])))
ALL = grpc.WithVectorsSelector(enable=True)
PLAIN = Needs()


def parsed(name: str, message: Any, needs: Needs = PLAIN) -> tuple[tuple[Search, ...], Document]:
    body = message if isinstance(message, bytes) else message.SerializeToString()
    call = parse_request(Operation(backend="qdrant", name=name, collection="c"), body, needs)
    assert isinstance(call.document, Document)
    return call.searches, call.document


def refusal(name: str, message: Any, needs: Needs = PLAIN) -> Reason:
    with pytest.raises(UnsupportedError) as refused:
        parsed(name, message, needs)
    return refused.value.reason


def query(**members: Any) -> Any:
    return grpc.QueryPoints(**{"collection_name": "c", "query": DENSE, **members})


def test_limit_defaults_to_ten_on_query_and_is_added_only_when_it_must_change() -> None:
    message = query(with_vectors=ALL)
    (search,), document = parsed("query", message)
    assert (search.top_k, search.offset, search.pages) == (10, 0, False)
    assert widen(document, [10]) == message.SerializeToString()
    assert widen(document, [50]) == message.SerializeToString() + b"\x40\x32"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("search", grpc.SearchPoints(vector=[1.0])),
        ("recommend", grpc.RecommendPoints(positive=[grpc.PointId(num=1)])),
        ("discover", grpc.DiscoverPoints()),
    ],
)
def test_the_older_methods_have_no_default_limit(name: str, message: Any) -> None:
    assert refusal(name, message) is Reason.AMBIGUOUS_FIELD
    message.limit = 3
    assert parsed(name, message)[0][0].top_k == 3


def test_a_limit_of_zero_is_the_servers_to_refuse() -> None:
    assert refusal("query", query(limit=0)) is Reason.AMBIGUOUS_FIELD


def test_numbers_that_are_not_packed_are_left_alone() -> None:
    unpacked = b"\x15\x00\x00\x80\x3f\x15\x00\x00\x00\x40\x20\x05"
    assert refusal("search", unpacked) is Reason.UNSUPPORTED_FIELD


def test_numbers_that_are_no_floats_are_left_alone() -> None:
    odd = field(3, field(1, field(2, field(1, b"123"))))
    assert refusal("query", odd) is Reason.UNSUPPORTED_FIELD


def test_what_is_missing_is_asked_for_behind_the_clients_bytes() -> None:
    _, document = parsed("query", query(using="a", limit=4), Needs(payload_fields=("text",)))
    wide = widen(document, [20])
    assert wide.startswith(document.body)
    message: Any = grpc.QueryPoints.FromString(wide)
    assert message == query(
        using="a",
        limit=20,
        with_vectors=grpc.WithVectorsSelector(include=grpc.VectorsSelector(names=["a"])),
        with_payload=grpc.WithPayloadSelector(include=grpc.PayloadIncludeSelector(fields=["text"])),
    )


@pytest.mark.parametrize("name", ["query", "search", "recommend", "discover", "query_batch"])
def test_a_field_that_nobody_knows_or_that_stands_twice_leaves_the_request_alone(name: str) -> None:
    assert refusal(name, field(99, b"")) is Reason.UNSUPPORTED_FIELD
    assert refusal(name, field(1, b"c") * 2) is Reason.AMBIGUOUS_FIELD


def test_what_is_set_twice_is_read_as_the_server_merges_it() -> None:
    twice = (
        query(limit=3, using="a").SerializeToString()
        + query(limit=5, offset=2, with_vectors=ALL).SerializeToString()[3:]
    )
    (search,), document = parsed("query", twice)
    assert (search.top_k, search.offset, document.plans[0].selection) == (5, 2, True)
    assert document.plans[0].name == "a"
    assert search.query is not None
    assert search.query.tolist() == [1.0, 2.0] * 2


def batch(*items: Any, **members: Any) -> Any:
    return grpc.QueryBatchPoints(collection_name="c", query_points=items, **members)


def test_a_batch_without_any_search_of_ours_has_nothing_to_do() -> None:
    assert refusal("query_batch", batch()) is Reason.NOTHING_TO_DO
    assert refusal("query_batch", batch(query(limit=1))) is Reason.NOTHING_TO_DO
    assert refusal("query_batch", b"\x10\x01") is Reason.UNSUPPORTED_FIELD


NEEDS = [Needs(), Needs(vector_name="dense"), Needs(vector_hint="dense"), Needs(payload_fields=("text",))]


@given(both=twins())
def test_rest_and_grpc_read_the_same_from_the_same_content(both: Twins) -> None:
    """Whatever is said by both interfaces gives the same searches, or is left alone for the same reason."""
    operation = Operation(backend="qdrant", name=both.operation, collection="c")
    for needs in NEEDS:
        try:
            rest = parse_rest(operation, both.rest.body, needs)
        except UnsupportedError as verdict:
            with pytest.raises(UnsupportedError, match=verdict.reason.value):
                parse_request(operation, both.grpc.body, needs)
            continue
        found = parse_request(operation, both.grpc.body, needs)
        assert len(found.searches) == len(rest.searches)
        for ours, theirs in zip(found.searches, rest.searches, strict=True):
            assert (ours.top_k, ours.offset, ours.pages) == (theirs.top_k, theirs.offset, theirs.pages)
            assert (ours.query is None) == (theirs.query is None)
            if ours.query is not None and theirs.query is not None:
                np.testing.assert_array_equal(ours.query, theirs.query)


NUMBERS = st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), min_size=1, max_size=3)
MORE = st.fixed_dictionaries(
    {"limit": st.sampled_from([0, 3, 200])},
    optional={
        "offset": st.just(0) | st.just(4),
        "with_payload": st.builds(grpc.WithPayloadSelector, enable=st.booleans()),
        "with_vectors": st.builds(grpc.WithVectorsSelector, enable=st.booleans()),
        "filter": st.just(grpc.Filter(must=[grpc.Condition(is_null=grpc.IsNullCondition(key="a"))])),
        "shard_key_selector": st.just(grpc.ShardKeySelector(shard_keys=[grpc.ShardKey(keyword="k")])),
    },
)
BEHIND = st.sampled_from(
    [b"", field(1, b"d"), field(4, field(1, field(2, field(1, bytes(4))))), field(2, bytes(4)), b"\xff"]
)


@given(
    vectors=st.lists(NUMBERS, min_size=2, max_size=3),
    members=MORE,
    behind=BEHIND,
    needs=st.sampled_from([*NEEDS, Needs(vectors=False, values=False, optional_fields=("text",))]),
    name=st.sampled_from(["query", "search"]),
)
def test_a_search_reads_the_same_whether_or_not_one_like_it_was_read(
    vectors: list[list[float]], members: dict[str, Any], behind: bytes, needs: Needs, name: str
) -> None:
    """Invariant: what is remembered of a search is what reading it again says, and nothing of another's vector."""

    def outcome(body: bytes) -> object:
        try:
            (search,), document = parsed(name, body, needs)
        except UnsupportedError as verdict:
            return verdict.reason
        numbers = None if search.query is None else search.query.tobytes()
        return replace(search, query=None), numbers, document

    for vector in vectors:
        message: Any = grpc.SearchPoints(collection_name="c", vector=vector, **members)
        if name == "query":
            nearest = grpc.Query(nearest=grpc.VectorInput(dense=grpc.DenseVector(data=vector)))
            message = grpc.QueryPoints(collection_name="c", query=nearest, **members)
        body = message.SerializeToString() + behind
        remembered = outcome(body)
        _skeleton.cache_clear()
        assert outcome(body) == remembered
        if isinstance(remembered, tuple) and not behind:
            assert remembered[1] == np.array(vector, "<f4").tobytes() or needs.vector_name == "dense"
