"""Collections and their settings, without a transport."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers.embedded import collections, points
from servers.embedded.collections import Registry
from servers.embedded.engine import choose, dense_settings, shown_config, wants_index
from servers.embedded.fields import RefusalError

from support.qdrant.core import Core, core
from support.qdrant.refusals import refusal_of

PLAIN: dict[str, Any] = {"vectors": {"size": 2, "distance": "Dot"}}


@pytest.fixture
def empty() -> Iterator[Core]:
    with core() as made:
        yield made


@given(st.text(max_size=300))
def test_any_name_is_a_collection_or_a_refusal_and_never_a_path(name: str) -> None:
    """A name is accepted and listed, or refused with 422; directories are numbered whatever the name."""
    registry = Registry()
    try:
        refused = refusal_of(lambda: registry.create(name, {}))
        assert (refused is None) == registry.has(name)
        assert refused is None or refused.status == 422
        made = [directory.name for directory in (registry.root / "collections").iterdir()]
        assert made == ([] if refused is not None else ["000001"])
    finally:
        registry.close()


@pytest.mark.parametrize(
    ("settings", "status", "message"),
    [
        ({"vectors": {"size": 2, "distance": "Hamming"}}, 400, "unknown variant `Hamming`"),
        ({"vectors": {"size": 2}}, 400, "missing field `distance`"),
        ({"vectors": {"a": {"size": 65537, "distance": "Dot"}}}, 422, r"vectors.a.size: value 65537 invalid"),
        ({**PLAIN, "sharding_method": "custom"}, 501, "custom sharding"),
        ({**PLAIN, "init_from": {"collection": "x"}}, 501, "init_from"),
        ({**PLAIN, "quantization_config": {"novel": {}}}, 501, "novel"),
        ({"sparse_vectors": {"s": {"modifier": "tfidf"}}}, 400, "unknown variant `tfidf`"),
    ],
)
def test_settings_that_cannot_be_honoured_are_refused_and_leave_nothing(
    empty: Core, settings: object, status: int, message: str
) -> None:
    with pytest.raises(RefusalError, match=message) as caught:
        empty.call(collections.create, settings)
    assert caught.value.status == status
    assert empty.call(collections.listing) == {"collections": []}


def test_a_name_can_be_used_again_and_starts_empty(empty: Core) -> None:
    empty.call(collections.create, PLAIN)
    empty.call(points.upsert, {"points": [{"id": 1, "vector": [1, 2]}]})
    assert empty.call(collections.delete) is True
    empty.call(collections.create, PLAIN)
    assert empty.call(collections.info)["points_count"] == 0


def test_an_index_is_wanted_above_a_threshold_of_zero() -> None:
    assert not wants_index({})
    assert not wants_index({"optimizers_config": {"indexing_threshold": 0}})
    assert wants_index({"optimizers_config": {"indexing_threshold": 1}})


def test_a_bare_vector_is_the_unnamed_one_and_a_name_may_be_size() -> None:
    bare = {"size": 2, "distance": "Dot"}
    assert dense_settings({"vectors": bare}) == {"": bare}
    assert dense_settings({"vectors": {"size": bare}}) == {"size": bare}
    assert dense_settings({}) == {}


def test_shown_settings_are_the_defaults_and_what_was_given() -> None:
    shown = shown_config({**PLAIN, "hnsw_config": {"m": 4, "on_disk": None}, "strict_mode_config": {"enabled": True}})
    assert list(shown)[:4] == ["params", "hnsw_config", "optimizer_config", "wal_config"]
    assert shown["hnsw_config"]["m"] == 4
    assert shown["hnsw_config"]["on_disk"] is False
    assert shown["strict_mode_config"] == {"enabled": True}
    assert "metadata" not in shown


def test_words_of_the_wire_find_the_engines_members_whatever_their_case() -> None:
    assert choose("Distance", "Cosine") == choose("Distance", "cosine")
    with pytest.raises(RefusalError, match="unknown variant"):
        choose("Distance", "__class__")


def test_a_collection_may_have_no_vectors_and_then_its_points_have_none(empty: Core) -> None:
    empty.call(collections.create, {"vectors": {}})
    empty.call(points.upsert, {"points": [{"id": 1, "vector": {}, "payload": {"a": 1}}]})
    body = {"ids": [1], "with_vector": True}
    assert empty.call(points.retrieve, body) == [{"id": 1, "payload": {"a": 1}, "vector": {}}]
    assert empty.call(collections.info)["config"]["params"]["vectors"] == {}
