"""Typed reading of JSON bodies."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers.embedded.fields import (
    RefusalError,
    boolean,
    items,
    limit_of,
    mapping,
    number,
    offset_of,
    one_or_many,
    optional_number,
    point_id,
    point_ids,
    read,
    required,
    required_limit,
    text,
    texts,
    unsigned,
)

from support.qdrant.refusals import refusal_of

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
READERS: list[Callable[[Any], object]] = [unsigned, number, text, boolean, mapping, items, texts, point_id, point_ids]


@given(JSON)
def test_any_value_is_read_or_refused_as_a_client_error(value: Any) -> None:
    """No JSON value makes a reader fail in any way but a refusal before the clock starts."""
    for reader in READERS:
        refused = refusal_of(partial(reader, value))
        assert refused is None or (refused.status, refused.is_timed) == (400, False)


@given(st.integers(0, 2**64 - 1))
def test_an_unsigned_number_passes_unchanged(value: int) -> None:
    """Everything from 0 to 2^64 - 1 is a count and an id."""
    assert unsigned(value) == point_id(value) == value


@pytest.mark.parametrize("value", [-1, 2**64, 1.0, True, "1", None])
def test_what_is_not_an_unsigned_number_is_refused(value: object) -> None:
    with pytest.raises(RefusalError, match="expected usize"):
        unsigned(value)


@given(st.uuids())
def test_a_uuid_is_an_id_in_every_spelling(value: uuid.UUID) -> None:
    """Hyphens, case and the urn prefix do not make another id."""
    for spelling in (str(value), value.hex, value.urn, str(value).upper()):
        assert point_id(spelling) == str(value)


def test_null_is_absent_and_an_alias_is_the_field() -> None:
    body = {"limit": None, "top": 4}
    assert read({"limit": None}, "limit") is None
    assert read({"top": 4}, "limit", "top") == 4
    with pytest.raises(RefusalError, match="duplicate field `limit`"):
        read(body, "limit", "top")
    with pytest.raises(RefusalError, match="missing field `limit`"):
        required({"limit": None}, "limit")


def test_a_limit_is_at_least_one() -> None:
    assert limit_of({}, "limit", default=10) == 10
    assert limit_of({"limit": 3}, "limit", default=10) == 3
    assert required_limit({"top": 3}, "limit", "top") == 3
    with pytest.raises(RefusalError) as caught:
        limit_of({"limit": 0}, "limit", default=10)
    assert caught.value.status == 422
    with pytest.raises(RefusalError, match="missing field"):
        required_limit({}, "limit", "top")


def test_zero_is_a_number_and_absent_is_not() -> None:
    assert optional_number({"score_threshold": 0}, "score_threshold") == 0.0
    assert optional_number({}, "score_threshold") is None
    assert offset_of({"offset": 5}) == 5
    assert offset_of({}) == 0


def test_one_value_stands_for_a_list_of_one() -> None:
    assert one_or_many(None) == []
    assert one_or_many({"a": 1}) == [{"a": 1}]
    assert one_or_many([1, 2]) == [1, 2]


@pytest.mark.parametrize(
    ("value", "name"),
    [
        (None, "null"),
        (False, "boolean `false`"),
        (7, "integer `7`"),
        (7.5, "floating point `7.5`"),
        ("x", 'string "x"'),
        ([], "sequence"),
    ],
)
def test_a_refusal_names_what_it_saw(value: object, name: str) -> None:
    with pytest.raises(RefusalError) as caught:
        mapping(value)
    assert caught.value.message == f"Format error in JSON body: invalid type: {name}, expected a map"
