"""Grouped searches: which points stand in which group, and what is shown of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from servers.embedded.fields import RefusalError
from servers.qdrant import catalogue, points, searches

from support.qdrant.core import Core, full_core

COMMON = 400


@pytest.fixture(scope="module")
def filled() -> Iterator[Core]:
    with full_core() as made:
        made.call(catalogue.create, {"vectors": {"size": 1, "distance": "Dot"}})
        made.call(catalogue.create, {"vectors": {}}, name="documents")
        rows: list[dict[str, Any]] = [
            {"id": number, "vector": [1000 - number], "payload": {"doc": "common", "x": number}}
            for number in range(COMMON)
        ]
        rows += [
            {"id": 900, "vector": [5], "payload": {"doc": ["rare", 7, "rare"]}},
            {"id": 901, "vector": [4], "payload": {"doc": 7, "in": [{"d": "deep"}, {"d": 3}]}},
            {"id": 902, "vector": [3], "payload": {"doc": 1.5}},
            {"id": 903, "vector": [2], "payload": {}},
        ]
        made.call(points.upsert, {"points": rows})
        made.call(
            points.upsert,
            {"points": [{"id": 7, "vector": {}, "payload": {"title": "seven"}}]},
            name="documents",
        )
        yield made


def grouped(filled: Core, **body: object) -> list[dict[str, Any]]:
    asked = {"query": [1], "group_by": "doc", "limit": 3, "group_size": 2, **body}
    answer: list[dict[str, Any]] = filled.call(searches.query_groups, asked)["groups"]
    return answer


def members(found: list[dict[str, Any]]) -> list[tuple[object, list[int]]]:
    return [(group["id"], [hit["id"] for hit in group["hits"]]) for group in found]


def test_a_group_behind_hundreds_of_points_of_another_is_found(filled: Core) -> None:
    assert members(grouped(filled)) == [("common", [0, 1]), ("rare", [900]), (7, [900, 901])]


def test_fewer_groups_are_asked_for_and_given(filled: Core) -> None:
    assert members(grouped(filled, limit=1, group_size=3)) == [("common", [0, 1, 2])]


def test_a_nested_key_groups_too(filled: Core) -> None:
    assert members(grouped(filled, group_by="in[].d")) == [("deep", [901]), (3, [901])]


def test_hits_show_what_was_selected_and_nothing_else(filled: Core) -> None:
    silent = grouped(filled, limit=1)[0]["hits"][0]
    assert silent == {"id": 0, "version": 0, "score": 1000.0}
    shown = grouped(filled, limit=1, with_payload=["x"], with_vector=True)[0]["hits"][0]
    assert shown == {"id": 0, "version": 0, "score": 1000.0, "payload": {"x": 0}, "vector": [1000.0]}


def test_the_plural_alias_is_ignored_here(filled: Core) -> None:
    assert "vector" not in grouped(filled, with_vectors=True)[0]["hits"][0]


@pytest.mark.parametrize("lookup", ["documents", {"collection": "documents", "with_payload": ["title"]}])
def test_a_group_brings_the_record_it_names(filled: Core, lookup: object) -> None:
    common, rare, seven = grouped(filled, with_lookup=lookup)
    assert seven["lookup"] == {"id": 7, "payload": {"title": "seven"}}
    assert "lookup" not in common
    assert "lookup" not in rare


def test_the_legacy_groups_need_both_counts(filled: Core) -> None:
    body = {"vector": [1], "group_by": "doc", "limit": 1}
    with pytest.raises(RefusalError, match="missing field `group_size`"):
        filled.call(searches.search_groups, body)
    found = filled.call(searches.search_groups, body | {"group_size": 1})["groups"]
    assert members(found) == [("common", [0])]
    examples = {"positive": [0], "group_by": "doc", "limit": 1, "group_size": 1}
    assert members(filled.call(searches.recommend_groups, examples)["groups"]) == [("common", [1])]


def test_a_grouped_search_needs_a_key(filled: Core) -> None:
    with pytest.raises(RefusalError, match="missing field `group_by`"):
        filled.call(searches.query_groups, {"query": [1]})
