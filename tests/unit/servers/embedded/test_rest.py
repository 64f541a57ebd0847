"""Paths to verbs, and bodies to JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers.embedded import collections, points, searches
from servers.embedded.fields import RefusalError
from servers.embedded.rest import ROUTES, find_verb, normalised, read_json

from support.qdrant.refusals import refusal_of


@given(st.lists(st.text("ab%2F", min_size=1, max_size=4), max_size=6), st.data())
def test_extra_slashes_never_change_the_route(parts: list[str], data: st.DataObject) -> None:
    """A path and the same path with slashes doubled and trailing normalise to the same path."""
    padded = "".join("/" * data.draw(st.integers(1, 3)) + part for part in parts) + "/" * data.draw(st.integers(0, 2))
    assert normalised(padded) == ("/" + "/".join(parts))


@pytest.mark.parametrize(
    ("method", "path", "verb", "values"),
    [
        ("PUT", "/collections/aliases", collections.create, {"collection": "aliases"}),
        ("GET", "/collections/a/points/scroll", points.get, {"collection": "a", "id": "scroll"}),
        ("POST", "/collections/a/points/scroll", points.scroll, {"collection": "a"}),
        ("POST", "//collections/a%2Fb/points/query/", searches.query, {"collection": "a/b"}),
    ],
)
def test_a_path_finds_its_verb(method: str, path: str, verb: object, values: dict[str, str]) -> None:
    assert find_verb(ROUTES, method, path) == (verb, values)


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
    assert find_verb(ROUTES, method, path) is None


KIND = "application/json"
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_what_was_written_is_what_is_read(value: Any) -> None:
    """Reading undoes writing for every JSON value with numbers of 64 bits."""
    assert read_json(json.dumps(value).encode(), KIND) == value


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_json_or_a_refusal(raw: bytes) -> None:
    """No bytes make the reader fail in any way but a 400."""
    refused = refusal_of(lambda: read_json(raw, KIND))
    assert refused is None or (refused.status, refused.is_timed) == (400, False)


@pytest.mark.parametrize("raw", [b"{", b'{"a":NaN}', b"nul", b"\xff", b"1 2", b'{"a":Infinity}'])
def test_text_that_is_not_json_is_a_format_error(raw: bytes) -> None:
    with pytest.raises(RefusalError, match=r"^Format error in JSON body: "):
        read_json(raw, KIND)


@pytest.mark.parametrize(("kind", "is_json"), [(KIND, True), ("application/problem+json", True), ("text/json", False)])
def test_only_json_content_types_are_read(kind: str, *, is_json: bool) -> None:
    if is_json:
        assert read_json(b"{}", kind) == {}
    else:
        with pytest.raises(RefusalError, match=r"^Content type error$"):
            read_json(b"{}", kind)
