from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.backends.transports import reason_of
from support.grpc.wire_fields import number_field
from support.weaviate.conversations import EVERYTHING, UNKNOWN, search
from support.weaviate.messages import message_type, packed, single
from vecsieve.adapters.contract import Needs, Operation, Reason, Search, UnsupportedError
from vecsieve.adapters.weaviate.calls import spelled
from vecsieve.adapters.weaviate.grpc_request import (
    HYBRID_PARTS,
    LARGEST_WINDOW,
    NEAR_VECTOR,
    Additions,
    Document,
    Ranking,
    added_fields,
    plan_additions,
    ranking_of,
    read_request,
    widen,
)
from vecsieve.adapters.weaviate.grpc_schema import proto
from vecsieve.adapters.wire.schema import checked

OPERATION = Operation(backend="weaviate", name="search", collection="Docs")
NEAR: dict[str, Any] = {"near_vector": {"vectors": [single([1.0, 2.0])]}}


def parsed(body: bytes, needs: Needs | None = None) -> tuple[Search, Document]:
    return read_request(OPERATION, body, needs or Needs())


def document(call: tuple[Search, Document]) -> Document:
    return call[1]


def test_a_page_is_read_and_asked_for_from_its_first_rank() -> None:
    body = search(collection="Docs", limit=5, offset=10, metadata=EVERYTHING, **NEAR)
    call = parsed(body)
    result, _ = call
    assert (result.top_k, result.offset, result.pages) == (5, 10, True)
    assert result.query is not None
    assert result.query.tolist() == [1.0, 2.0]
    wide = message_type("SearchRequest").FromString(widen(document(call), [75]))
    assert (wide.limit, wide.offset) == (75, 0)
    assert widen(document(call), [75]) == body + number_field(30, 75) + number_field(31, 0)


def test_a_count_of_none_leaves_the_message_as_it_came() -> None:
    body = search(limit=5, offset=2, **NEAR)
    assert widen(document(parsed(body)), [0]) == body


def test_a_search_without_a_limit_waits_until_the_servers_default_is_known() -> None:
    body = search(metadata=EVERYTHING, **NEAR)
    assert reason_of(parsed, body) is Reason.NOTHING_TO_DO
    call = parsed(body, Needs(known=25))
    assert call[0].top_k == 25
    assert message_type("SearchRequest").FromString(widen(document(call), [25])).limit == 25


def test_one_result_is_its_own_representative() -> None:
    assert reason_of(parsed, search(limit=1, **NEAR)) is Reason.SINGLE_RESULT
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
    assert reason_of(parsed, search(limit=5, **NEAR, **fields)) is reason


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        pytest.param(search(limit=5, **NEAR) + b"\x92\x02\x00", Reason.ORDERING_CHOSEN, id="sorting is left alone"),
        # what is not known exactly
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
    assert reason_of(parsed, body) is reason


VECTOR = [0.25, 1.0, -3.5]
MMR = {"selection": {"mmr": {"limit": 2, "balance": 0.5}}}
MULTI = message_type("Vectors")(vector_bytes=packed(VECTOR), type=2)


def ranking(**way: Any) -> Ranking:
    return ranking_of(checked(proto.Search, search(**way)))


@pytest.mark.parametrize(
    "near",
    [
        {"vectors": [single(VECTOR)]},
        {"vectors": [message_type("Vectors")(vector_bytes=packed(VECTOR))]},
        {"vector_bytes": packed(VECTOR)},
        {"vector": VECTOR},
        {"vector_for_targets": [{"name": "a", "vectors": [single(VECTOR)]}]},
        {"vector_for_targets": [{"name": "a", "vector_bytes": packed(VECTOR)}]},
        {"vector_per_target": {"a": packed(VECTOR)}},
    ],
)
def test_every_spelling_of_a_vector_is_read(near: dict[str, Any]) -> None:
    result = ranking(near_vector=near)
    assert result.query is not None
    assert result.query.tolist() == VECTOR
    assert result.query.dtype == np.float32
    assert result.is_measured


def test_of_two_spellings_the_one_that_the_server_reads_first_counts() -> None:
    result = ranking(near_vector={"vectors": [single([1.0])], "vector_bytes": packed([2.0]), "vector": [3.0]})
    assert result.query is not None
    assert result.query.tolist() == [1.0]


@pytest.mark.parametrize("near", [{}, {"vector_for_targets": [{"name": "a"}]}, {"vector_bytes": packed([np.nan])}])
def test_without_a_vector_to_compare_with_there_is_no_query(near: dict[str, Any]) -> None:
    assert ranking(near_vector=near).query is None


@pytest.mark.parametrize("way", ["near_vector", "near_object", "near_text", "near_image", "hybrid_search"])
def test_a_target_is_read_in_either_spelling_and_the_newer_one_counts(way: str) -> None:
    assert ranking(**{way: {"targets": {"target_vectors": ["a"]}}}).target == "a"
    assert ranking(**{way: {"target_vectors": ["b"]}}).target == "b"
    assert ranking(**{way: {"target_vectors": ["b"], "targets": {"target_vectors": ["a"]}}}).target == "a"
    assert ranking(**{way: {}}).target is None


@pytest.mark.parametrize("way", ["near_vector", "near_object", "near_text", "near_image", "hybrid_search"])
def test_several_targets_are_left_alone_and_so_is_weaviates_own_selection(way: str) -> None:
    for inside, reason in (
        ({"targets": {"target_vectors": ["a", "b"]}}, Reason.UNSUPPORTED_FIELD),
        ({"target_vectors": ["a", "a"]}, Reason.UNSUPPORTED_FIELD),
        (MMR, Reason.ORDERING_CHOSEN),
    ):
        assert reason_of(ranking, **{way: inside}) is reason


@pytest.mark.parametrize(
    "near",
    [
        {"vectors": [single(VECTOR), single(VECTOR)]},
        {"vectors": [MULTI]},
        {"vector_for_targets": [{"name": "a", "vectors": [MULTI]}]},
        {"vector_for_targets": [{"name": "a"}, {"name": "b"}]},
        {"vector_per_target": {"a": b"", "b": b""}},
        {"vector_bytes": b"123"},
    ],
)
def test_several_vectors_and_vectors_of_several_rows_are_left_alone(near: dict[str, Any]) -> None:
    assert reason_of(ranking, near_vector=near) is Reason.UNSUPPORTED_FIELD


def test_floats_of_half_a_number_are_left_alone() -> None:
    message = b"\xda\x02\x05\x0a\x03abc"
    with pytest.raises(UnsupportedError):
        ranking_of(checked(proto.Search, message))


@pytest.mark.parametrize(
    "inside", [{"near_vector": MMR}, {"near_text": MMR}, {"near_text": {"target_vectors": ["a", "b"]}}]
)
def test_what_is_inside_a_hybrid_search_is_read_as_well(inside: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError):
        ranking(hybrid_search=inside)
    assert ranking(hybrid_search={"near_vector": {"vectors": [single(VECTOR)]}}).query is None


def test_a_list_of_objects_is_no_search_and_two_ways_at_once_are_left_alone() -> None:
    with pytest.raises(UnsupportedError) as verdict:
        ranking(limit=5)
    assert verdict.value.reason is Reason.ORDERING_CHOSEN
    assert reason_of(ranking, near_text={"query": ["x"]}, bm25_search={"query": "x"}) is Reason.UNSUPPORTED_FIELD


def test_a_way_that_is_no_message_is_left_alone() -> None:
    message = b"\xd8\x02\x01"
    with pytest.raises(UnsupportedError):
        ranking_of(checked(proto.Search, message))


NEAR_RANKING = Ranking(way=NEAR_VECTOR)
IDS, DISTANCES = {"id", "id_as_bytes"}, {"distance", "distance_present"}


def plan(ranking: Ranking = NEAR_RANKING, needs: Needs | None = None, **fields: Any) -> tuple[Additions, Any]:
    """The plan, and the request as the server reads it."""
    body = search(**fields)
    additions = plan_additions(checked(proto.Search, body), ranking, needs or Needs())
    return additions, message_type("SearchRequest").FromString(
        body + proto.Search(**added_fields(additions)).SerializeToString()
    )


def test_what_the_client_wants_itself_is_neither_asked_for_nor_hidden() -> None:
    additions, _ = plan(metadata={"uuid": True, "distance": True, "vector": True})
    assert (additions.added, additions.hidden) == ({}, frozenset())


def test_optional_properties_are_never_asked_for_by_name_because_an_unknown_name_is_refused() -> None:
    additions, _ = plan(needs=Needs(optional_fields=("doc",)), properties={})
    assert additions.properties == ()


@pytest.mark.parametrize(
    "properties",
    [
        {"object_properties": [{"prop_name": "owner", "primitive_properties": ["a"]}]},
        {"ref_properties": [{"reference_property": "Owner"}]},
    ],
)
def test_a_property_of_which_the_client_chose_a_part_cannot_be_had(properties: Any) -> None:
    assert reason_of(plan, needs=Needs(payload_fields=("owner",)), properties=properties) is Reason.PAYLOAD_SELECTOR
    assert plan(needs=Needs(payload_fields=("text",)), properties=properties)[0].properties == ("text",)


def test_names_are_spelled_as_the_server_keeps_them() -> None:
    assert [spelled(name) for name in ("Text", "text", "TEXT", "")] == ["text", "text", "tEXT", ""]


def test_without_a_need_for_vectors_none_is_asked_for_where_the_name_is_known() -> None:
    lean = Needs(vectors=False)
    additions, message = plan(Ranking(way=NEAR_VECTOR, target="a"), lean)
    assert (list(message.metadata.vectors), message.metadata.vector, additions.compared) == ([], False, "a")
    _, message = plan(NEAR_RANKING, lean)
    assert message.metadata.vector
    additions, message = plan(NEAR_RANKING, Needs(vectors=False, vector_hint=""))
    assert (message.metadata.vector, message.metadata.uuid, message.metadata.distance) == (False, True, True)
    assert additions.hidden == {*IDS, *DISTANCES}
