from __future__ import annotations

from typing import Any

import pytest

from support.grpc.wire_fields import number_field
from support.weaviate.conversations import EVERYTHING, UNKNOWN, search
from support.weaviate.messages import message_type, single
from vecsieve.adapters.contract import Needs, Operation, Reason, Search, UnsupportedError
from vecsieve.adapters.weaviate.grpc_request import (
    HYBRID_PARTS,
    LARGEST_WINDOW,
    Document,
    read_request,
    widen,
)

OPERATION = Operation(backend="weaviate", name="search", collection="Docs")
NEAR: dict[str, Any] = {"near_vector": {"vectors": [single([1.0, 2.0])]}}


def parsed(body: bytes, needs: Needs | None = None) -> tuple[Search, Document]:
    return read_request(OPERATION, body, needs or Needs())


def document(call: tuple[Search, Document]) -> Document:
    return call[1]


def verdict(body: bytes, needs: Needs | None = None) -> Reason:
    with pytest.raises(UnsupportedError) as raised:
        parsed(body, needs)
    return raised.value.reason


def test_a_page_is_read_and_asked_for_from_its_first_rank() -> None:
    body = search(collection="Docs", limit=5, offset=10, metadata=EVERYTHING, **NEAR)
    call = parsed(body)
    found, _ = call
    assert (found.top_k, found.offset, found.pages) == (5, 10, True)
    assert found.query is not None
    assert found.query.tolist() == [1.0, 2.0]
    wide = message_type("SearchRequest").FromString(widen(document(call), [75]))
    assert (wide.limit, wide.offset) == (75, 0)
    assert widen(document(call), [75]) == body + number_field(30, 75) + number_field(31, 0)


def test_a_count_of_none_leaves_the_message_as_it_came() -> None:
    body = search(limit=5, offset=2, **NEAR)
    assert widen(document(parsed(body)), [0]) == body


def test_a_search_without_a_limit_waits_until_the_servers_default_is_known() -> None:
    body = search(metadata=EVERYTHING, **NEAR)
    assert verdict(body) is Reason.NOTHING_TO_DO
    call = parsed(body, Needs(known=25))
    assert call[0].top_k == 25
    assert message_type("SearchRequest").FromString(widen(document(call), [25])).limit == 25


def test_one_result_is_its_own_representative() -> None:
    assert verdict(search(limit=1, **NEAR)) is Reason.SINGLE_RESULT
    assert parsed(search(limit=1, offset=1, **NEAR))[0].offset == 1


def test_hybrid_searches_are_widened_as_far_as_their_parts_are_the_same() -> None:
    assert parsed(search(limit=5, hybrid_search={"query": "x"}))[0].most == HYBRID_PARTS


def test_how_much_may_come_is_bounded() -> None:
    assert parsed(search(limit=5, **NEAR))[0].most == LARGEST_WINDOW
    long = {"near_vector": {"vectors": [single([1.0] * 4096)]}}
    assert parsed(search(limit=5, **long))[0].most == 2048


def test_a_vector_of_another_space_is_no_query_to_compare_with() -> None:
    near = {"near_vector": {"vectors": [single([1.0])], "targets": {"target_vectors": ["a"]}}}
    assert parsed(search(limit=5, **near))[0].query is not None
    assert parsed(search(limit=5, **near), Needs(vector_name="b"))[0].query is None


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"group_by": {"path": ["a"]}}, Reason.ORDERING_CHOSEN),
        ({"autocut": 1}, Reason.ORDERING_CHOSEN),
        ({"after": "x"}, Reason.ORDERING_CHOSEN),
        ({"rerank": {"property": "a"}}, Reason.ORDERING_CHOSEN),
        ({"boost": {}}, Reason.ORDERING_CHOSEN),
        ({"generative": {}}, Reason.UNSUPPORTED_FIELD),
    ],
)
def test_what_the_client_has_chosen_among_or_pays_for_is_left_alone(fields: dict[str, Any], reason: Reason) -> None:
    assert verdict(search(limit=5, **NEAR, **fields)) is reason


def test_sorting_is_left_alone() -> None:
    assert verdict(search(limit=5, **NEAR) + b"\x92\x02\x00") is Reason.ORDERING_CHOSEN


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"\xff", Reason.UNSUPPORTED_FIELD),
        (search(limit=5, **NEAR) + UNKNOWN, Reason.UNSUPPORTED_FIELD),
        (search(limit=5, **NEAR) + number_field(30, 6), Reason.AMBIGUOUS_FIELD),
        (search(**NEAR) + number_field(30, 2**31), Reason.AMBIGUOUS_FIELD),
        (search(**NEAR) + b"\xf2\x01\x01a", Reason.UNSUPPORTED_FIELD),
        (search(limit=5, **NEAR) + number_field(21, 1), Reason.UNSUPPORTED_FIELD),
        (search(limit=5, **NEAR) + number_field(1, 1), Reason.UNSUPPORTED_FIELD),
        (search(limit=5), Reason.ORDERING_CHOSEN),
    ],
)
def test_what_is_not_known_exactly_is_left_alone(body: bytes, reason: Reason) -> None:
    assert verdict(body) is reason
