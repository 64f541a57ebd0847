from __future__ import annotations

from typing import Any

import pytest

from support.weaviate.conversations import search
from support.weaviate.messages import message_type
from vecsieve.adapters.contract import Needs, Reason, UnsupportedError
from vecsieve.adapters.weaviate.calls import spelled
from vecsieve.adapters.weaviate.grpc_request import (
    HYBRID,
    NEAR_VECTOR,
    Ranking,
    Shown,
    plan_shown,
    widen_shown,
)
from vecsieve.adapters.weaviate.grpc_schema import proto
from vecsieve.adapters.wire.schema import checked

NEAR = Ranking(way=NEAR_VECTOR)
IDS, DISTANCES = {"id", "id_as_bytes"}, {"distance", "distance_present"}
ALL_VECTORS = {"vector", "vector_bytes", "vectors"}


def plan(ranking: Ranking = NEAR, needs: Needs | None = None, **fields: Any) -> tuple[Shown, Any]:
    """The plan, and the request as the server reads it."""
    body = search(**fields)
    shown = plan_shown(checked(proto.Search, body), ranking, needs or Needs())
    return shown, message_type("SearchRequest").FromString(
        body + proto.Search(**widen_shown(shown)).SerializeToString()
    )


def test_a_client_that_wants_nothing_is_given_nothing_though_all_is_asked_for() -> None:
    shown, asked = plan()
    assert (asked.metadata.uuid, asked.metadata.distance, asked.metadata.vector) == (True, True, True)
    assert shown.hidden == {*IDS, *DISTANCES, *ALL_VECTORS}


def test_what_the_client_wants_itself_is_neither_asked_for_nor_hidden() -> None:
    shown, _ = plan(metadata={"uuid": True, "distance": True, "vector": True})
    assert (shown.added, shown.hidden) == ({}, frozenset())


def test_searches_without_distances_are_asked_for_their_scores() -> None:
    shown, asked = plan(Ranking(way=HYBRID), metadata={"uuid": True, "distance": True})
    assert asked.metadata.score
    assert shown.hidden == {"score", "score_present", *ALL_VECTORS}


def test_of_a_named_vector_only_that_one_is_asked_for() -> None:
    shown, asked = plan(Ranking(way=NEAR_VECTOR, target="a"), metadata={"uuid": True, "distance": True})
    assert (list(asked.metadata.vectors), asked.metadata.vector) == (["a"], False)
    assert (set(shown.hidden), shown.listed, shown.compared) == ({"vectors"}, None, "a")


def test_beside_vectors_that_the_client_lists_the_one_to_compare_is_asked_for_and_only_that_is_hidden() -> None:
    shown, asked = plan(
        Ranking(way=NEAR_VECTOR, target="a"), metadata={"uuid": True, "distance": True, "vectors": ["b"]}
    )
    assert list(asked.metadata.vectors) == ["b", "a"]
    assert (shown.hidden, shown.listed) == (frozenset(), frozenset({"b"}))


def test_a_vector_that_the_client_lists_is_not_asked_for_again() -> None:
    shown, asked = plan(
        Ranking(way=NEAR_VECTOR, target="a"), metadata={"uuid": True, "distance": True, "vectors": ["a"]}
    )
    assert list(asked.metadata.vectors) == ["a"]
    assert (shown.added, shown.listed) == ({}, None)


def test_where_the_client_lists_vectors_and_no_target_is_named_those_must_do() -> None:
    shown, asked = plan(metadata={"uuid": True, "distance": True, "vectors": ["a"]})
    assert not asked.metadata.vector
    assert (shown.added, shown.compared) == ({}, None)


def test_a_policy_may_name_another_vector_or_the_unnamed_one() -> None:
    shown, asked = plan(Ranking(way=NEAR_VECTOR, target="a"), Needs(vector_name="b"))
    assert (shown.compared, list(asked.metadata.vectors)) == ("b", ["b"])
    shown, asked = plan(Ranking(way=NEAR_VECTOR), Needs(vector_name=""))
    assert (shown.compared, asked.metadata.vector) == ("", True)


@pytest.mark.parametrize("properties", [None, {"return_all_nonref_properties": True}])
def test_where_all_properties_come_none_is_asked_for(properties: Any) -> None:
    shown, _ = plan(needs=Needs(payload_fields=("owner",)), properties=properties)
    assert shown.properties == ()


def test_properties_that_a_policy_insists_on_are_added_to_those_that_the_client_lists() -> None:
    needs = Needs(payload_fields=("Owner", "text", "owner"), optional_fields=("doc",))
    shown, asked = plan(needs=needs, properties={"non_ref_properties": ["Text"]})
    assert shown.properties == ("owner",)
    assert list(asked.properties.non_ref_properties) == ["Text", "owner"]


def test_optional_properties_are_never_asked_for_by_name_because_an_unknown_name_is_refused() -> None:
    shown, _ = plan(needs=Needs(optional_fields=("doc",)), properties={})
    assert shown.properties == ()


@pytest.mark.parametrize(
    "properties",
    [
        {"object_properties": [{"prop_name": "owner", "primitive_properties": ["a"]}]},
        {"ref_properties": [{"reference_property": "Owner"}]},
    ],
)
def test_a_property_of_which_the_client_chose_a_part_cannot_be_had(properties: Any) -> None:
    with pytest.raises(UnsupportedError) as verdict:
        plan(needs=Needs(payload_fields=("owner",)), properties=properties)
    assert verdict.value.reason is Reason.PAYLOAD_SELECTOR
    assert plan(needs=Needs(payload_fields=("text",)), properties=properties)[0].properties == ("text",)


def test_names_are_spelled_as_the_server_keeps_them() -> None:
    assert [spelled(name) for name in ("Text", "text", "TEXT", "")] == ["text", "text", "tEXT", ""]


def test_without_a_need_for_vectors_none_is_asked_for_where_the_name_is_known() -> None:
    lean = Needs(vectors=False)
    shown, asked = plan(Ranking(way=NEAR_VECTOR, target="a"), lean)
    assert (list(asked.metadata.vectors), asked.metadata.vector, shown.compared) == ([], False, "a")
    _, asked = plan(NEAR, lean)
    assert asked.metadata.vector
    shown, asked = plan(NEAR, Needs(vectors=False, vector_hint=""))
    assert (asked.metadata.vector, asked.metadata.uuid, asked.metadata.distance) == (False, True, True)
    assert shown.hidden == {*IDS, *DISTANCES}
