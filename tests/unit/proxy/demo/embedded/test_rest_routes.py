"""Paths to verbs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.demo.embedded import collections, points, searches
from vecsieve.proxy.demo.embedded import searches as embedded_searches
from vecsieve.proxy.demo.embedded.rest import find_verb, normalised


@given(st.lists(st.text("ab%2F", min_size=1, max_size=4), max_size=6), st.data())
def test_extra_slashes_never_change_the_route(parts: list[str], data: st.DataObject) -> None:
    """A path and the same path with slashes doubled and trailing normalise to the same path."""
    padded = "".join("/" * data.draw(st.integers(1, 3)) + part for part in parts) + "/" * data.draw(st.integers(0, 2))
    assert normalised(padded) == ("/" + "/".join(parts))


@pytest.mark.parametrize(
    ("method", "path", "verb", "values"),
    [
        ("POST", "/collections/aliases", collections.change_aliases, {}),
        ("PUT", "/collections/aliases", collections.create, {"collection": "aliases"}),
        ("GET", "/collections/a/points/scroll", points.get, {"collection": "a", "id": "scroll"}),
        ("POST", "/collections/a/points/scroll", points.scroll, {"collection": "a"}),
        ("POST", "//collections/a%2Fb/points/query/", searches.query, {"collection": "a/b"}),
        ("POST", "/collections/a/points/query/groups", embedded_searches.query_groups, {"collection": "a"}),
    ],
)
def test_a_path_finds_its_verb(method: str, path: str, verb: object, values: dict[str, str]) -> None:
    assert find_verb(method, path) == (verb, values)


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("GET", "/collections/a/points/query"[:-6]),
        ("POST", "/collections/a/shards/1/points/scroll"),
        ("PATCH", "/collections/a/points"),
        ("POST", "/collections/a/points/query/batch/more"),
    ],
)
def test_what_is_not_served_finds_nothing(method: str, path: str) -> None:
    assert find_verb(method, path) is None
