"""Equal points share a key, and nothing else does."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.selection.texts import HOSTILE
from vecsieve.proxy.jobs.analyze.reading import Known, key
from vecsieve.proxy.jobs.source import Point, Vectors

FIELDS = ("text",)
VECTOR = np.array([1.0, 0.0], np.float32)


def point(text: object, vector: Vectors | None = VECTOR) -> Point:
    return Point(id=1, vector=vector, payload={"text": text})


@given(st.text())
def test_whatever_the_text_there_is_a_key_of_64_bits(text: str) -> None:
    """Total over any Unicode; the same text gives the same key whatever vector it stands beside."""
    kind, number = key(point(text), FIELDS)
    assert 0 <= number < 2**64
    assert kind in {Known.TEXT, Known.VECTOR}
    if kind is Known.TEXT:
        assert key(point(text, None), FIELDS) == (kind, number)


@pytest.mark.parametrize(
    "other", ["some  Kitten\nslept", "SOME KITTEN SLEPT", " some kitten slept ", "some kit\u00adten sl-\nept"]
)
def test_case_blanks_and_hyphens_do_not_make_another_text(other: str) -> None:
    assert key(point(other), FIELDS) == key(point("some kitten slept"), FIELDS)


def test_without_a_text_the_very_vector_counts() -> None:
    kind, number = key(point(None), FIELDS)
    assert kind is Known.VECTOR
    assert key(point("  ", np.array([1.0, -0.0], np.float32)), FIELDS) == (kind, number)
    assert key(point(None, np.array([1.0, 1e-7], np.float32)), FIELDS) != (kind, number)


def test_with_neither_a_point_is_a_copy_of_nothing() -> None:
    assert key(point(None, None), FIELDS)[0] is Known.NOTHING


def test_half_a_surrogate_pair_is_a_text_too() -> None:
    assert key(point("x\ud800"), FIELDS) != key(point("x\ud801"), FIELDS)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_has_a_key_without_being_read(name: str) -> None:
    assert key(point(HOSTILE[name]), FIELDS) == key(point(HOSTILE[name]), FIELDS)
    assert key(point(HOSTILE[name]), FIELDS) != key(point(HOSTILE[name] + "x"), FIELDS)
