"""What a Milvus search asks for over gRPC, what leaves it alone, and the same bytes asking for more."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from support.backends.transports import reason_of
from support.milvus.bodies import group
from support.milvus.messages import message_type, pairs
from vecsieve.adapters.contract import Needs, Operation, Reason, RequestHead, SearchCall
from vecsieve.adapters.milvus.grpc import MilvusGrpc
from vecsieve.adapters.milvus.search import REPLY_BYTES, Schema

SCHEMA = Schema(vectors=frozenset({"vec"}), scalars=frozenset({"id", "text"}), is_dynamic=True)
VECTOR = np.arange(4, dtype="<f4").tobytes()
SERVICE = "/milvus.proto.milvus.MilvusService/"


def search(
    *, listed: tuple[str, ...] = ("text",), topk: object = 5, vector: bytes | None = None, **params: object
) -> Any:
    message = message_type("SearchRequest")(collection_name="docs", nq=1)
    message.output_fields.extend(listed)
    message.placeholder_group = group(101, [VECTOR]) if vector is None else vector
    pairs(message.search_params, topk=topk, **params)
    return message


def read(message: Any, needs: Needs | None = None, name: str = "search") -> SearchCall:
    operation = Operation(backend="milvus", name=name, collection="default/docs")
    needs = Needs(known=SCHEMA) if needs is None else needs
    return MilvusGrpc().parse_request(operation, message.SerializeToString(), needs)


def widened(call: SearchCall, *counts: int, name: str = "SearchRequest") -> Any:
    return message_type(name).FromString(MilvusGrpc().widen(call, counts))


def params(message: Any) -> list[tuple[str, str]]:
    return [(pair.key, pair.value) for pair in message.search_params]


def test_the_plain_search_is_read() -> None:
    call = read(search(offset=3))
    [result] = call.searches
    assert (result.top_k, result.offset, result.pages, result.most) == (5, 3, True, 16_384)
    assert result.query is not None
    assert result.query.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert not read(search()).searches[0].pages


def test_every_topk_is_raised_and_every_offset_lowered() -> None:
    message = search(offset=3, params='{"ef":900, "offset" : 3,"x":"é"}')
    pairs(message.search_params, topk=5, offset=3)
    wide = widened(read(message), 40)
    assert params(wide) == [
        ("topk", "40"), ("offset", "0"), ("params", '{"ef":900, "offset" : 0,"x":"é"}'), ("topk", "40"), ("offset", "0"),
    ]  # fmt: skip
    assert list(wide.output_fields) == ["text", "vec"]


def test_a_search_of_several_queries_asks_for_the_largest_of_their_counts() -> None:
    message = search()
    message.placeholder_group, message.nq = group(101, [VECTOR, VECTOR]), 2
    call = read(message)
    assert len(call.searches) == 2
    assert dict(params(widened(call, 20, 80)))["topk"] == "80"
    assert MilvusGrpc().widen(call, [0, 0]) == message.SerializeToString()


def two_kinds(message: Any) -> None:
    made = message_type("PlaceholderGroup")()
    made.placeholders.add(type=101, values=[VECTOR])
    made.placeholders.add(type=101, values=[VECTOR])
    message.placeholder_group = made.SerializeToString()


def level(message: Any) -> None:
    made = message_type("PlaceholderGroup")()
    made.placeholders.add(type=101, values=[VECTOR], element_level=True)
    message.placeholder_group = made.SerializeToString()


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda message: message.ids.int_id.data.append(7), Reason.UNSUPPORTED_FIELD),
        (lambda message: setattr(message, "search_by_primary_keys", True), Reason.UNSUPPORTED_FIELD),
        (lambda message: message.function_score.SetInParent(), Reason.UNSUPPORTED_FIELD),
        (lambda message: setattr(message, "nq", 2), Reason.AMBIGUOUS_FIELD),
        (lambda message: setattr(message, "placeholder_group", group(104, [b"\1"])), Reason.NOTHING_TO_DO),
        (lambda message: setattr(message, "placeholder_group", group(100, [b"\1"])), Reason.NOTHING_TO_DO),
        (lambda message: setattr(message, "placeholder_group", group(21, [b"text"])), Reason.NOTHING_TO_DO),
        (lambda message: setattr(message, "placeholder_group", group(101, [b"\1"])), Reason.UNSUPPORTED_FIELD),
        (lambda message: setattr(message, "placeholder_group", group(101, [])), Reason.UNSUPPORTED_FIELD),
        (lambda message: setattr(message, "placeholder_group", b"\xff"), Reason.UNSUPPORTED_FIELD),
        (two_kinds, Reason.UNSUPPORTED_FIELD),
        (level, Reason.UNSUPPORTED_FIELD),
        (lambda message: message.ClearField("placeholder_group"), Reason.UNSUPPORTED_FIELD),
        (lambda message: message.ClearField("search_params"), Reason.UNSUPPORTED_FIELD),
        (lambda message: pairs(message.search_params, topk=6), Reason.AMBIGUOUS_FIELD),
        (lambda message: pairs(message.search_params, offset="+1"), Reason.AMBIGUOUS_FIELD),
        (lambda message: pairs(message.search_params, iterator="True"), Reason.ORDERING_CHOSEN),
        (lambda message: pairs(message.search_params, search_iter_v2="True"), Reason.ORDERING_CHOSEN),
        (lambda message: pairs(message.search_params, group_by_field="src"), Reason.ORDERING_CHOSEN),
        (lambda message: pairs(message.search_params, group_by_fields="a,b"), Reason.ORDERING_CHOSEN),
        (lambda message: pairs(message.search_params, group_size="2"), Reason.ORDERING_CHOSEN),
        (lambda message: pairs(message.search_params, order_by_fields="a:asc"), Reason.ORDERING_CHOSEN),
        (lambda message: pairs(message.search_params, new_in_milvus_4="1"), Reason.UNSUPPORTED_FIELD),
        (lambda message: pairs(message.search_params, params='{"radius":0.2}'), Reason.UNSUPPORTED_FIELD),
        (lambda message: pairs(message.search_params, params='{"range_filter":0.2}'), Reason.UNSUPPORTED_FIELD),
        (lambda message: pairs(message.search_params, params='{"group_by_field":"a"}'), Reason.ORDERING_CHOSEN),
        (lambda message: pairs(message.search_params, params='{"offset":1}'), Reason.AMBIGUOUS_FIELD),
        (lambda message: pairs(message.search_params, params='{"ef":1e3}'), Reason.AMBIGUOUS_FIELD),
        (lambda message: pairs(message.search_params, params='{"ef":1,"ef":2}'), Reason.AMBIGUOUS_FIELD),
        (lambda message: pairs(message.search_params, params="[1]"), Reason.UNSUPPORTED_FIELD),
    ],
)  # fmt: skip
def test_what_leaves_a_search_alone(change: Callable[[Any], None], reason: Reason) -> None:
    message = search()
    change(message)
    assert reason_of(read, message) is reason


def test_nothing_to_choose_among() -> None:
    assert reason_of(read, search(topk=0)) is Reason.AMBIGUOUS_FIELD
    assert reason_of(read, search(topk=1)) is Reason.SINGLE_RESULT
    assert read(search(topk=1, offset=1)).searches[0].top_k == 1


def test_a_field_set_twice_and_a_broken_message_leave_it_alone() -> None:
    raw, operation = search().SerializeToString(), Operation(backend="milvus", name="search", collection="")
    for body, reason in ((raw + b"\x1a\x01x", Reason.AMBIGUOUS_FIELD), (raw + b"\xff", Reason.UNSUPPORTED_FIELD)):
        assert reason_of(MilvusGrpc().parse_request, operation, body, Needs(known=SCHEMA)) is reason


@pytest.mark.parametrize("name", ["ef", "search_list", "reorder_k", "itopk_size"])
@pytest.mark.parametrize("value", [64, "64"])
def test_an_index_parameter_that_must_not_be_smaller_than_topk_bounds_the_pool(name: str, value: object) -> None:
    inner = json.dumps({"nprobe": 4, name: value})
    assert read(search(params=inner)).searches[0].most == 64


def test_many_queries_of_many_numbers_bound_the_pool() -> None:
    message = search()
    message.placeholder_group, message.nq = group(101, [bytes(4 * 4096)] * 100), 100
    assert read(message).searches[0].most == REPLY_BYTES // (4 * 4096 * 100)


@pytest.mark.parametrize(
    ("kind", "packed"),
    [(102, np.array([1, 2], "<f2").tobytes()), (103, b"\x80\x3f\x00\x40"), (105, b"\x01\x02")],
)
def test_queries_of_every_number(kind: int, packed: bytes) -> None:
    message = search()
    message.placeholder_group = group(kind, [packed])
    query = read(message).searches[0].query
    assert query is not None
    assert query.tolist() == [1.0, 2.0]


def test_a_query_that_is_no_number_is_searched_without_one() -> None:
    message = search()
    message.placeholder_group = group(101, [np.array([np.nan, 1], "<f4").tobytes()])
    assert read(message).searches[0].query is None


@pytest.mark.parametrize(
    ("members", "needs", "vector"),
    [
        ({}, Needs(known=SCHEMA), "vec"),
        ({"anns_field": "other"}, Needs(), "other"),
        ({"anns_field": "other"}, Needs(known=SCHEMA), "other"),
        ({"anns_field": "other"}, Needs(vector_name="third"), "third"),
    ],
)
def test_which_vector_is_compared(members: dict[str, Any], needs: Needs, vector: str) -> None:
    call = read(search(**members), needs)
    assert list(widened(call, 20).output_fields) == ["text", vector]
    assert (call.searches[0].query is None) == (vector == "third"), "a query of another field lives in another space"


def test_without_a_name_and_without_a_schema_it_is_left_alone() -> None:
    both = Schema(vectors=frozenset({"a", "b"}), scalars=frozenset())
    assert reason_of(read, search(), Needs()) is Reason.NOTHING_TO_DO
    assert reason_of(read, search(), Needs(known=both)) is Reason.NOTHING_TO_DO
    assert reason_of(read, search(listed=(), anns_field="vec"), Needs()) is Reason.NOTHING_TO_DO


def hybrid(**rank: object) -> Any:
    message = message_type("HybridSearchRequest")(collection_name="docs")
    for field, topk in (("vec", 10), ("other", 20)):
        part = search(listed=(), topk=topk, anns_field=field)
        message.requests.append(part)
    message.output_fields.append("text")
    pairs(message.rank_params, **{"strategy": "rrf", "limit": 5, "offset": 0, **rank})
    return message


def test_a_hybrid_search_asks_for_more_of_what_its_parts_bring() -> None:
    call = read(hybrid(), name="hybrid_search")
    [result] = call.searches
    assert (result.top_k, result.pages, result.most, result.query) == (5, True, 16_384, None)
    wide = widened(call, 30, name="HybridSearchRequest")
    assert {pair.key: pair.value for pair in wide.rank_params} == {"strategy": "rrf", "limit": "30", "offset": "0"}
    assert [part.SerializeToString() for part in wide.requests] == [
        part.SerializeToString() for part in hybrid().requests
    ]
    assert list(wide.output_fields) == ["text", "vec"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda message: pairs(message.rank_params, group_by_field="a"), Reason.ORDERING_CHOSEN),
        (lambda message: pairs(message.rank_params, other="a"), Reason.UNSUPPORTED_FIELD),
        (lambda message: message.ClearField("rank_params"), Reason.UNSUPPORTED_FIELD),
        (lambda message: message.ClearField("requests"), Reason.UNSUPPORTED_FIELD),
        (lambda message: pairs(message.requests[0].search_params, offset=1), Reason.UNSUPPORTED_FIELD),
        (lambda message: pairs(message.requests[0].search_params, iterator="1"), Reason.ORDERING_CHOSEN),
    ],
)
def test_what_leaves_a_hybrid_search_alone(change: Callable[[Any], None], reason: Reason) -> None:
    message = hybrid()
    change(message)
    assert reason_of(read, message, name="hybrid_search") is reason


def test_a_head_without_a_message_names_the_method_alone() -> None:
    operation = MilvusGrpc().classify(RequestHead(method="POST", path=SERVICE + "HybridSearch"))
    assert operation == Operation(backend="milvus", name="hybrid_search", collection="")
    assert MilvusGrpc().classify(RequestHead(method="POST", path=SERVICE + "Query")) is None
    broken = MilvusGrpc().classify(RequestHead(method="POST", path=SERVICE + "Search", message=b"\xff"))
    assert broken == Operation(backend="milvus", name="search", collection="")
