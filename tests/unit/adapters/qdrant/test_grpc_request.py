from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client import grpc

from support.backends.transports import reason_of
from support.qdrant.grpc_conversations import Twins, twins
from support.qdrant.grpc_model import field
from vecsieve.adapters.contract import Needs, Operation, Reason, Search, UnsupportedError
from vecsieve.adapters.qdrant.grpc_request import (
    LAYOUTS,
    Document,
    _skeleton,
    parse_request,
    read_payload,
    read_vectors,
    widen,
    widen_payload,
    widen_vectors,
)
from vecsieve.adapters.qdrant.grpc_schema import proto
from vecsieve.adapters.qdrant.ranking import Kind, Payload, Ranking
from vecsieve.adapters.qdrant.rest_request import parse_request as parse_rest
from vecsieve.adapters.wire.schema import parsed, read

DENSE = grpc.Query(nearest=grpc.VectorInput(dense=grpc.DenseVector(data=[1.0, 2.0])))
ALL = grpc.WithVectorsSelector(enable=True)
PLAIN = Needs()


def read_request(name: str, message: Any, needs: Needs = PLAIN) -> tuple[tuple[Search, ...], Document]:
    body = message if isinstance(message, bytes) else message.SerializeToString()
    call = parse_request(Operation(backend="qdrant", name=name, collection="c"), body, needs)
    assert isinstance(call.document, Document)
    return call.searches, call.document


def query(**members: Any) -> Any:
    return grpc.QueryPoints(**{"collection_name": "c", "query": DENSE, **members})


def test_limit_defaults_to_ten_on_query_and_is_added_only_when_it_must_change() -> None:
    message = query(with_vectors=ALL)
    (search,), document = read_request("query", message)
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
    assert reason_of(read_request, name, message) is Reason.AMBIGUOUS_FIELD
    message.limit = 3
    assert read_request(name, message)[0][0].top_k == 3


def test_a_limit_of_zero_is_the_servers_to_refuse() -> None:
    assert reason_of(read_request, "query", query(limit=0)) is Reason.AMBIGUOUS_FIELD


def test_numbers_that_are_not_packed_are_left_alone() -> None:
    unpacked = b"\x15\x00\x00\x80\x3f\x15\x00\x00\x00\x40\x20\x05"
    assert reason_of(read_request, "search", unpacked) is Reason.UNSUPPORTED_FIELD


def test_numbers_that_are_no_floats_are_left_alone() -> None:
    odd = field(3, field(1, field(2, field(1, b"123"))))
    assert reason_of(read_request, "query", odd) is Reason.UNSUPPORTED_FIELD


def test_what_is_missing_is_asked_for_behind_the_clients_bytes() -> None:
    _, document = read_request("query", query(using="a", limit=4), Needs(payload_fields=("text",)))
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
    assert reason_of(read_request, name, field(99, b"")) is Reason.UNSUPPORTED_FIELD
    assert reason_of(read_request, name, field(1, b"c") * 2) is Reason.AMBIGUOUS_FIELD


def test_what_is_set_twice_is_read_as_the_server_merges_it() -> None:
    twice = (
        query(limit=3, using="a").SerializeToString()
        + query(limit=5, offset=2, with_vectors=ALL).SerializeToString()[3:]
    )
    (search,), document = read_request("query", twice)
    assert (search.top_k, search.offset, document.plans[0].selection) == (5, 2, True)
    assert document.plans[0].name == "a"
    assert search.query is not None
    assert search.query.tolist() == [1.0, 2.0] * 2


def batch(*items: Any, **members: Any) -> Any:
    return grpc.QueryBatchPoints(collection_name="c", query_points=items, **members)


def test_a_batch_without_any_search_of_ours_has_nothing_to_do() -> None:
    assert reason_of(read_request, "query_batch", batch()) is Reason.NOTHING_TO_DO
    assert reason_of(read_request, "query_batch", batch(query(limit=1))) is Reason.NOTHING_TO_DO
    assert reason_of(read_request, "query_batch", b"\x10\x01") is Reason.UNSUPPORTED_FIELD


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
        result = parse_request(operation, both.grpc.body, needs)
        assert len(result.searches) == len(rest.searches)
        for ours, theirs in zip(result.searches, rest.searches, strict=True):
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
SUFFIXES = st.sampled_from(
    [b"", field(1, b"d"), field(4, field(1, field(2, field(1, bytes(4))))), field(2, bytes(4)), b"\xff"]
)


@given(
    vectors=st.lists(NUMBERS, min_size=2, max_size=3),
    members=MORE,
    suffix=SUFFIXES,
    needs=st.sampled_from([*NEEDS, Needs(vectors=False, values=False, optional_fields=("text",))]),
    name=st.sampled_from(["query", "search"]),
)
def test_a_search_reads_the_same_whether_or_not_one_like_it_was_read(
    vectors: list[list[float]], members: dict[str, Any], suffix: bytes, needs: Needs, name: str
) -> None:
    """Invariant: what is remembered of a search is what reading it again says, and nothing of another's vector."""

    def outcome(body: bytes) -> object:
        try:
            (search,), document = read_request(name, body, needs)
        except UnsupportedError as verdict:
            return verdict.reason
        numbers = None if search.query is None else search.query.tobytes()
        return replace(search, query=None), numbers, document

    for vector in vectors:
        message: Any = grpc.SearchPoints(collection_name="c", vector=vector, **members)
        if name == "query":
            nearest = grpc.Query(nearest=grpc.VectorInput(dense=grpc.DenseVector(data=vector)))
            message = grpc.QueryPoints(collection_name="c", query=nearest, **members)
        body = message.SerializeToString() + suffix
        remembered = outcome(body)
        _skeleton.cache_clear()
        assert outcome(body) == remembered
        if isinstance(remembered, tuple) and not suffix:
            assert remembered[1] == np.array(vector, "<f4").tobytes() or needs.vector_name == "dense"


NESTING = 4
DENSE_INPUT = grpc.VectorInput(dense=grpc.DenseVector(data=[1.0, 2.0]))
SPARSE = grpc.VectorInput(sparse=grpc.SparseVector(values=[1.0], indices=[3]))
MULTI = grpc.VectorInput(multi_dense=grpc.MultiDenseVector(vectors=[grpc.DenseVector(data=[1.0])]))
BY_ID = grpc.VectorInput(id=grpc.PointId(num=3))


def ranked(name: str, message: Any) -> Ranking:
    data = message if isinstance(message, bytes) else message.SerializeToString()
    layout = LAYOUTS[name]
    return layout.ranking(read(layout.kind, data), NESTING)


def ranked_query(variant: Any = None, **members: Any) -> Any:
    return grpc.QueryPoints(collection_name="c", query=variant, **members)


def nearest(inner: Any) -> Any:
    return grpc.Query(nearest=inner)


@pytest.mark.parametrize(
    ("variant", "kind"),
    [
        (nearest(DENSE_INPUT), Kind.DENSE),
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
    assert (ranked("query", ranked_query(variant)).kind, ranked("query", ranked_query(variant)).name) == (kind, "")
    assert ranked("query", ranked_query(variant, using="größe")).name == "größe"


@pytest.mark.parametrize(
    "variant",
    [
        grpc.Query(order_by=grpc.OrderBy(key="a")),
        grpc.Query(sample=grpc.Sample.Random),
        grpc.Query(nearest_with_mmr=grpc.NearestInputWithMmr(nearest=DENSE_INPUT, mmr=grpc.Mmr())),
        None,
    ],
)
def test_an_order_the_client_chose_is_left_alone(variant: Any) -> None:
    assert reason_of(ranked, "query", ranked_query(variant)) is Reason.ORDERING_CHOSEN


def test_what_is_no_query_this_adapter_knows_is_left_alone() -> None:
    assert reason_of(ranked, "query", ranked_query(grpc.Query(text=grpc.TextQuery()))) is Reason.UNSUPPORTED_FIELD
    assert reason_of(ranked, "query", ranked_query(grpc.Query())) is Reason.UNSUPPORTED_FIELD
    assert reason_of(ranked, "query", ranked_query(nearest(grpc.VectorInput()))) is Reason.UNSUPPORTED_FIELD
    assert reason_of(ranked, "query", field(3, b"\x08\x01")) is Reason.UNSUPPORTED_FIELD  # a nearest that is a number
    assert reason_of(ranked, "query", field(3, field(1, b"\x08\x01"))) is Reason.UNSUPPORTED_FIELD
    twice = nearest(DENSE_INPUT).SerializeToString() + grpc.Query(fusion=grpc.Fusion.RRF).SerializeToString()
    assert reason_of(ranked, "query", field(3, twice)) is Reason.AMBIGUOUS_FIELD


def prefetch(variant: Any = None, **members: Any) -> Any:
    return grpc.PrefetchQuery(query=variant, **members)


FUSED = [
    grpc.Query(fusion=grpc.Fusion.RRF),
    grpc.Query(rrf=grpc.Rrf(k=2)),
    grpc.Query(formula=grpc.Formula()),
]


def test_mmr_anywhere_is_a_wish_for_diversity_and_a_plain_order_below_is_not() -> None:
    mmr = prefetch(grpc.Query(nearest_with_mmr=grpc.NearestInputWithMmr(nearest=DENSE_INPUT)))
    assert reason_of(ranked, "query", ranked_query(nearest(DENSE_INPUT), prefetch=[mmr])) is Reason.ORDERING_CHOSEN
    assert (
        reason_of(ranked, "query", ranked_query(FUSED[0], prefetch=[prefetch(FUSED[0], prefetch=[mmr])]))
        is Reason.ORDERING_CHOSEN
    )
    for plain in (grpc.Query(sample=grpc.Sample.Random), grpc.Query(order_by=grpc.OrderBy(key="a"))):
        assert (
            ranked("query", ranked_query(nearest(DENSE_INPUT), prefetch=[prefetch(plain), prefetch()])).kind
            is Kind.DENSE
        )


def nested(levels: int) -> Any:
    inner = prefetch(nearest(DENSE_INPUT), using="deep")
    for _ in range(levels - 1):
        inner = prefetch(prefetch=[inner])
    return inner


def test_prefetches_are_read_as_deep_as_they_may_be() -> None:
    assert ranked("query", ranked_query(FUSED[0], prefetch=[nested(NESTING)])).name == "deep"
    assert reason_of(ranked, "query", ranked_query(FUSED[0], prefetch=[nested(NESTING + 1)])) is Reason.TOO_DEEP


def test_a_field_of_a_prefetch_that_nobody_knows_leaves_the_search_alone() -> None:
    data = ranked_query(nearest(DENSE_INPUT)).SerializeToString() + field(2, field(99, b""))
    assert reason_of(ranked, "query", data) is Reason.UNSUPPORTED_FIELD


def test_a_search_is_dense_or_sparse() -> None:
    dense = grpc.SearchPoints(vector=[1.0, 2.0], vector_name="a").SerializeToString()
    assert ranked("search", dense) == Ranking(Kind.DENSE, "a")
    sparse = grpc.SearchPoints(vector=[1.0], sparse_indices=grpc.SparseIndices(data=[3]), vector_name="s")
    assert ranked("search", sparse) == Ranking(Kind.SPARSE, "s")
    assert reason_of(ranked, "search", grpc.SearchPoints(vector_name="a")) is Reason.UNSUPPORTED_FIELD


VECTORS, PAYLOAD = 10, 11


def search(number: int, selector: Any) -> Any:
    """A search with that selector."""
    if selector is None:
        return proto.Query()
    return parsed(proto.Query, field(number, selector if isinstance(selector, bytes) else selector.SerializeToString()))


def wide(message: Any, added: dict[str, Any]) -> Any:
    """The same search with an addition appended, as the server reads it."""
    return grpc.QueryPoints.FromString(message.SerializeToString() + proto.Query(**added).SerializeToString())


def vectors(value: bool | list[str]) -> Any:
    if isinstance(value, bool):
        return grpc.WithVectorsSelector(enable=value)
    return grpc.WithVectorsSelector(include=grpc.VectorsSelector(names=value))


def including(*keys: str) -> Any:
    return grpc.WithPayloadSelector(include=grpc.PayloadIncludeSelector(fields=keys))


def excluding(*keys: str) -> Any:
    return grpc.WithPayloadSelector(exclude=grpc.PayloadExcludeSelector(fields=keys))


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        (None, False),
        (grpc.WithVectorsSelector(), False),
        (vectors(False), False),
        (vectors(True), True),
        (vectors([]), ()),
        (vectors(["a", "größe"]), ("a", "größe")),
    ],
)
def test_the_vectors_a_client_selects(selector: Any, expected: bool | tuple[str, ...]) -> None:
    assert read_vectors(search(VECTORS, selector).with_vectors) == expected


@pytest.mark.parametrize(
    ("selector", "reason"),
    [
        (field(2, field(1, b"\xff")), Reason.UNSUPPORTED_FIELD),
        (field(1, b""), Reason.UNSUPPORTED_FIELD),
        (b"\x10\x01", Reason.UNSUPPORTED_FIELD),
        (field(3, b""), Reason.UNSUPPORTED_FIELD),
        (b"\x08\x01" + field(2, b""), Reason.AMBIGUOUS_FIELD),
    ],
)
def test_a_selection_that_is_not_understood_is_left_alone(selector: bytes, reason: Reason) -> None:
    assert reason_of(read_vectors, search(VECTORS, selector).with_vectors) is reason


@pytest.mark.parametrize(
    ("client", "name", "merged"),
    [
        (None, "a", vectors(["a"])),
        (None, "", vectors([""])),
        (None, None, vectors(True)),
        (vectors(False), "a", vectors(["a"])),
        (vectors(False), None, vectors(True)),
        (vectors(True), "a", vectors(True)),
        (vectors(True), None, vectors(True)),
        (vectors([]), "a", vectors(["a"])),
        (vectors(["b"]), "a", vectors(["b", "a"])),
        (vectors(["a"]), "a", vectors(["a"])),
        (vectors(["b"]), None, vectors(True)),
    ],
)
def test_what_is_added_and_what_the_client_said_are_merged_to_both(client: Any, name: str | None, merged: Any) -> None:
    message = search(VECTORS, client)
    assert wide(message, widen_vectors(read_vectors(message.with_vectors), name)).with_vectors == merged


@pytest.mark.parametrize(
    ("client", "required", "optional", "planned", "merged"),
    [
        (None, (), (), Payload(), None),
        (None, ("a",), ("b",), Payload(("a", "b"), is_forced=True), including("a", "b")),
        (grpc.WithPayloadSelector(enable=False), ("a",), (), Payload(("a",), is_forced=True), including("a")),
        (grpc.WithPayloadSelector(enable=True), ("a",), ("b",), Payload(), grpc.WithPayloadSelector(enable=True)),
        (including("x"), ("a",), ("b",), Payload(("a", "b")), including("x", "a", "b")),
        (including("a"), ("a",), (), Payload(), including("a")),
        (including(), (), ("b",), Payload(("b",)), including("b")),
        (including("b.c"), (), ("b",), Payload(is_cut=True), including("b.c")),
        (including("b.c"), (), ("a",), Payload(("a",)), including("b.c", "a")),
        (including('"b"'), (), ("b",), Payload(is_cut=True), including('"b"')),
        (excluding("x"), ("a",), ("b",), Payload(), excluding("x")),
        (excluding("b"), (), ("b",), Payload(is_cut=True), excluding("b")),
        (excluding("b"), (), (), Payload(), excluding("b")),
    ],
)
def test_payload_keys_are_added_to_what_the_client_selects(
    client: Any, required: tuple[str, ...], optional: tuple[str, ...], planned: Payload, merged: Any
) -> None:
    message = search(PAYLOAD, client)
    plan = read_payload(message, Needs(payload_fields=required, optional_fields=optional))
    assert plan == planned
    widened = wide(message, widen_payload(plan))
    assert widened.with_payload == merged if merged is not None else not widened.HasField("with_payload")


@pytest.mark.parametrize(
    ("client", "reason"),
    [
        (including("a.b"), Reason.PAYLOAD_SELECTOR),
        (excluding("a.b"), Reason.PAYLOAD_SELECTOR),
        (grpc.WithPayloadSelector(), Reason.PAYLOAD_SELECTOR),
        (field(2, field(1, b"\xff")), Reason.UNSUPPORTED_FIELD),
        (field(2, b"") + field(3, b""), Reason.AMBIGUOUS_FIELD),
    ],
)
def test_a_field_that_could_not_be_had_and_taken_out_again_refuses_the_search(client: Any, reason: Reason) -> None:
    assert reason_of(read_payload, search(PAYLOAD, client), Needs(payload_fields=("a",))) is reason
