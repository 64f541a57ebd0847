"""Bytes as the edge sends them, held against bodies other people published."""

from __future__ import annotations

import math

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers.pinecone.shapes import Struct, plain, real32, reals32, transcoded, widened

FLOATS = st.floats(width=32, allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.booleans() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_a_query_answer_has_the_keys_order_and_emptiness_of_a_real_one() -> None:
    body = transcoded(
        {
            "results": [],
            "matches": [{"id": "WS1u", "score": 0.863594, "values": []}],
            "namespace": "",
            "usage": {"readUnits": 6},
        }
    )
    assert body == (
        b'{"results":[],"matches":[{"id":"WS1u","score":0.863594,"values":[]}],"namespace":"","usage":{"readUnits":6}}'
    )


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.1, "0.1"),
        (0.5, "0.5"),
        (1.0, "1"),
        (0.0, "0"),
        (-0.0, "-0"),
        (0.86176908, "0.86176908"),
        (0.863594, "0.863594"),
        (1 / 3, "0.333333343"),
        (16777216.0, "16777216"),
        (1e-5, "1e-05"),
        (1e20, "1e+20"),
    ],
)
def test_a_float32_has_six_digits_where_they_suffice_and_nine_where_not(value: float, written: str) -> None:
    assert real32(float(np.float32(value))) == written


@given(FLOATS)
def test_a_float32_is_read_back_as_the_same_number(value: float) -> None:
    """float32(real32(x)) == x."""
    assert np.float32(real32(value)) == np.float32(value)


@given(st.lists(FLOATS, max_size=40))
def test_a_list_of_float32_is_written_like_its_numbers_one_by_one(values: list[float]) -> None:
    """reals32(xs) == [real32(x), ...]."""
    assert reals32(np.array(values, dtype=np.float32)) == "[" + ",".join(map(real32, values)) + "]"


def test_metadata_knows_no_whole_numbers() -> None:
    fields = {"year": 2019, "price": 9.99, "big": 2**53 + 1, "third": 1 / 3, "tags": ["a"], "on": True, "none": None}
    assert transcoded(Struct(fields)) == (
        b'{"year":2019,"price":9.99,"big":9007199254740992,"third":0.33333333333333331,"tags":["a"],"on":true,"none":null}'
    )


@given(st.dictionaries(st.text(), VALUES))
def test_metadata_is_read_back_as_it_was_sent(fields: dict[str, object]) -> None:
    """json(Struct(m)) == m, numbers being doubles."""
    assert orjson.loads(transcoded(Struct(fields))) == fields


def test_angle_brackets_and_line_separators_are_escaped() -> None:
    assert transcoded({"id": "<b>\u2028é"}) == '{"id":"\\u003cb\\u003e\\u2028é"}'.encode()


def test_booleans_are_no_numbers() -> None:
    assert transcoded([True, False, 1, 0]) == b"[true,false,1,0]"


def test_scores_of_records_are_doubles_of_a_float32() -> None:
    score = float(np.float32(0.92811346))
    assert plain({"_score": widened(score)}) == b'{"_score":0.9281134605407715}'
    assert math.isclose(score, 0.92811346, rel_tol=1e-7)
