from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from support.weaviate.conversations import search
from support.weaviate.messages import message_type, packed, single
from vecsieve.adapters.contract import Reason, UnsupportedError
from vecsieve.adapters.weaviate.grpc_request import Ranking, ranking_of
from vecsieve.adapters.weaviate.grpc_schema import proto
from vecsieve.adapters.wire.schema import checked

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
    found = ranking(near_vector=near)
    assert found.query is not None
    assert found.query.tolist() == VECTOR
    assert found.query.dtype == np.float32
    assert found.is_measured


def test_of_two_spellings_the_one_that_the_server_reads_first_counts() -> None:
    found = ranking(near_vector={"vectors": [single([1.0])], "vector_bytes": packed([2.0]), "vector": [3.0]})
    assert found.query is not None
    assert found.query.tolist() == [1.0]


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
        with pytest.raises(UnsupportedError) as verdict:
            ranking(**{way: inside})
        assert verdict.value.reason is reason


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
    with pytest.raises(UnsupportedError) as verdict:
        ranking(near_vector=near)
    assert verdict.value.reason is Reason.UNSUPPORTED_FIELD


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
    with pytest.raises(UnsupportedError) as verdict:
        ranking(near_text={"query": ["x"]}, bm25_search={"query": "x"})
    assert verdict.value.reason is Reason.UNSUPPORTED_FIELD


def test_a_way_that_is_no_message_is_left_alone() -> None:
    message = b"\xd8\x02\x01"
    with pytest.raises(UnsupportedError):
        ranking_of(checked(proto.Search, message))
