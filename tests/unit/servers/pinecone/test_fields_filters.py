""""""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers.pinecone.errors import RefusalError
from servers.pinecone.fields import read_filter

RECORD = {"genre": "drama", "year": 2020, "price": 9.5, "new": True, "tags": ["a", "b"]}
SCALARS = st.booleans() | st.integers(-3, 3) | st.sampled_from(["a", "b"])
RECORDS = st.dictionaries(
    st.sampled_from(["x", "y"]), SCALARS | st.lists(st.sampled_from(["a", "b"]), max_size=2), max_size=2
)


@pytest.mark.parametrize(
    "passing",
    [
        None,
        {},
        {"genre": "drama"},
        {"genre": {"$eq": "drama"}},
        {"genre": {"$ne": "comedy"}},
        {"missing": {"$ne": "comedy"}},
        {"missing": {"$nin": ["comedy"]}},
        {"year": {"$gt": 2019, "$lte": 2020}},
        {"price": {"$gte": 9.5}},
        {"price": {"$lt": 10}},
        {"year": 2020.0},
        {"genre": {"$in": ["drama", "comedy"]}},
        {"genre": {"$nin": ["comedy"]}},
        {"tags": "a"},
        {"tags": {"$in": ["b", "z"]}},
        {"new": {"$exists": True}},
        {"missing": {"$exists": False}},
        {"new": True},
        {"$and": [{"genre": "drama"}, {"year": 2020}]},
        {"$or": [{"genre": "comedy"}, {"$and": [{"year": 2020}]}]},
        {"genre": "drama", "year": {"$gte": 2020}},
    ],
)
def test_a_record_that_fits_passes(passing: Any) -> None:
    assert read_filter(passing)(RECORD)


@pytest.mark.parametrize(
    "failing",
    [
        {"genre": "comedy"},
        {"genre": {"$ne": "drama"}},
        {"year": {"$gt": 2020}},
        {"year": "2020"},
        {"new": 1},
        {"year": {"$in": [True]}},
        {"genre": {"$gt": 1}},
        {"tags": {"$nin": ["a"]}},
        {"tags": {"$ne": "b"}},
        {"missing": {"$exists": True}},
        {"missing": {"$lt": 5}},
        {"new": {"$exists": False}},
        {"$and": [{"genre": "drama"}, {"year": 2021}]},
        {"$or": [{"genre": "comedy"}, {"year": 2021}]},
        {"genre": "drama", "year": 2021},
        {"genre": {"$in": []}},
    ],
)
def test_a_record_that_does_not_fit_fails(failing: Any) -> None:
    assert not read_filter(failing)(RECORD)


@pytest.mark.parametrize(
    "wrong",
    [
        [],
        "genre",
        {"genre": {}},
        {"genre": {"$regex": "d"}},
        {"genre": {"eq": "d"}},
        {"genre": None},
        {"genre": ["drama"]},
        {"genre": {"$in": "drama"}},
        {"genre": {"$in": [None]}},
        {"year": {"$gt": "2019"}},
        {"year": {"$gt": True}},
        {"new": {"$exists": 1}},
        {"$and": []},
        {"$or": {"genre": "drama"}},
        {"$not": {"genre": "drama"}},
        {"$and": [1]},
    ],
)
def test_a_filter_that_means_nothing_is_refused(wrong: Any) -> None:
    with pytest.raises(RefusalError) as caught:
        read_filter(wrong)
    assert caught.value.code.status == 400
    assert caught.value.message.startswith("filter:")


@given(RECORDS, st.sampled_from(["x", "y"]), SCALARS)
def test_not_equal_is_the_negation_of_equal_and_in_of_one_is_equal(
    record: dict[str, Any], name: str, value: Any
) -> None:
    """$ne == not $eq; $nin == not $in; $in [v] == $eq v."""
    equal = read_filter({name: {"$eq": value}})(record)
    assert read_filter({name: {"$ne": value}})(record) is not equal
    assert read_filter({name: {"$in": [value]}})(record) is equal
    assert read_filter({name: {"$nin": [value]}})(record) is not equal


@given(st.recursive(st.none() | SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)), RECORDS)
def test_any_json_is_a_filter_or_refused(value: Any, record: dict[str, Any]) -> None:
    """read_filter raises nothing but RefusalError, and what it returns answers with a boolean."""
    try:
        passes = read_filter(value)
    except RefusalError:
        return
    assert passes(record) in {True, False}
