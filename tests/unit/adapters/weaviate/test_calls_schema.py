"""The description of a collection, as the server writes it over REST."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.contract import MalformedReplyError
from vecsieve.adapters.weaviate.calls import read_schema

COSINE, L2 = {"distance": "cosine", "ef": -1}, {"distance": "l2-squared"}


def described(**members: Any) -> bytes:
    return json.dumps({"class": "Docs", "vectorizer": "none", **members}).encode()


def test_properties_have_their_types() -> None:
    properties = [
        {"name": "text", "dataType": ["text"], "tokenization": "word"},
        {"name": "tags", "dataType": ["text[]"]},
        {"name": "of", "dataType": ["Other", "Another"]},
    ]
    found = read_schema(described(properties=properties, vectorIndexConfig=COSINE))
    assert (found.name, found.types) == ("Docs", {"text": "text", "tags": "text[]"})


@pytest.mark.parametrize(
    ("members", "distances"),
    [
        ({"vectorIndexConfig": COSINE, "properties": None}, {"": "cosine"}),
        ({"vectorConfig": {"a": {"vectorIndexConfig": L2, "vectorizer": {"none": {}}}}}, {"a": "l2-squared"}),
        ({"vectorConfig": {"a": {"vectorIndexConfig": COSINE}, "b": {}}}, {"a": "cosine", "b": ""}),
        (
            {"vectorConfig": {"a": {"vectorIndexConfig": L2}}, "vectorIndexConfig": COSINE},
            {"a": "l2-squared", "": "cosine"},
        ),
        ({}, {"": ""}),
    ],
)
def test_vectors_have_their_distances(members: dict[str, Any], distances: dict[str, str]) -> None:
    assert read_schema(described(**members)).distances == distances


@pytest.mark.parametrize(("names", "expected"), [("a", "a"), ("ab", None), ("", "")])
def test_a_vector_without_a_name_may_be_the_only_named_one(names: str, expected: str | None) -> None:
    config = {name: {"vectorIndexConfig": COSINE} for name in names}
    found = read_schema(described(**({"vectorConfig": config} if names else {"vectorIndexConfig": COSINE})))
    assert found.target("") == expected
    assert found.target("c") is None
    assert all(found.target(name) == name for name in names)


@given(st.binary(max_size=40), st.integers(0, 120), st.integers(0, 20))
def test_a_damaged_description_is_read_or_malformed(junk: bytes, at: int, cut: int) -> None:
    """Damage raises MalformedReplyError or nothing."""
    whole = described(properties=[{"name": "text", "dataType": ["text"]}], vectorIndexConfig=COSINE)
    try:
        found = read_schema(whole[:at] + junk + whole[at + cut :])
    except MalformedReplyError:
        return
    assert found.distances
