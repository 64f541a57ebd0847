from __future__ import annotations

from typing import Any

import pytest

from support.weaviate.conversations import search
from support.weaviate.messages import message_type
from vecsieve.adapters.contract import Needs, Reason, UnsupportedError
from vecsieve.adapters.weaviate.calls import spelled
from vecsieve.adapters.weaviate.grpc_request import (
    NEAR_VECTOR,
    Additions,
    Ranking,
    added_fields,
    plan_additions,
)
from vecsieve.adapters.weaviate.grpc_schema import proto
from vecsieve.adapters.wire.schema import checked

NEAR = Ranking(way=NEAR_VECTOR)
IDS, DISTANCES = {"id", "id_as_bytes"}, {"distance", "distance_present"}


def plan(ranking: Ranking = NEAR, needs: Needs | None = None, **fields: Any) -> tuple[Additions, Any]:
    """The plan, and the request as the server reads it."""
    body = search(**fields)
    shown = plan_additions(checked(proto.Search, body), ranking, needs or Needs())
    return shown, message_type("SearchRequest").FromString(
        body + proto.Search(**added_fields(shown)).SerializeToString()
    )


def test_what_the_client_wants_itself_is_neither_asked_for_nor_hidden() -> None:
    shown, _ = plan(metadata={"uuid": True, "distance": True, "vector": True})
    assert (shown.added, shown.hidden) == ({}, frozenset())


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
