from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers.pinecone.errors import RefusalError
from servers.pinecone.fields import (
    boolean,
    items,
    mapping,
    message,
    read_filter,
    reals,
    record_id,
    sparse,
    text,
    texts,
    whole,
)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
)


def test_both_spellings_of_a_name_are_read_and_null_is_absent() -> None:
    assert message({"top_k": 1, "includeValues": True, "filter": None}, ("topK", "includeValues", "filter")) == {
        "topK": 1,
        "includeValues": True,
    }


def test_a_name_in_both_spellings_is_refused() -> None:
    with pytest.raises(RefusalError, match="twice"):
        message({"top_k": 1, "topK": 1}, ("topK",))


def test_an_unknown_name_is_refused_with_its_place() -> None:
    with pytest.raises(RefusalError, match=r"vectors\[1\].value: Cannot find field"):
        message({"value": 1}, ("values",), where="vectors[1]")


@pytest.mark.parametrize("value", [7, "7", 7.0])
def test_a_whole_number_may_be_text(value: object) -> None:
    assert whole(value, "topK", least=1, most=10) == 7


@pytest.mark.parametrize("value", [0, 11, "x", 1.5, True, None, [], "9" * 30])
def test_anything_else_is_no_whole_number(value: object) -> None:
    with pytest.raises(RefusalError, match="topK"):
        whole(value, "topK", least=1, most=10)


def test_numbers_become_float32_and_may_be_text() -> None:
    found = reals([1, 0.1, "0.25"], "vector")
    assert found.dtype == np.float32
    assert found.tolist() == [1.0, float(np.float32(0.1)), 0.25]


@pytest.mark.parametrize("value", [None, 1, "1", [True], [None], ["x"], [1e39], [float("nan")], [[1]], ["inf"]])
def test_what_is_no_list_of_finite_numbers_is_refused(value: object) -> None:
    with pytest.raises(RefusalError, match="vector"):
        reals(value, "vector")


def test_too_many_values_are_refused() -> None:
    with pytest.raises(RefusalError, match="at most 2"):
        reals([1, 2, 3], "vector", most=2)


def test_a_sparse_vector_has_as_many_indices_as_values_each_once() -> None:
    found = sparse({"indices": [5, "1"], "values": [0.5, 0.25]}, "sparseVector")
    assert found is not None
    assert found.indices == (5, 1)
    assert found.values.tolist() == [0.5, 0.25]
    assert sparse({"indices": [], "values": []}, "sparseVector") is None
    assert sparse(None, "sparseVector") is None


@pytest.mark.parametrize(
    "value",
    [
        {"indices": [1], "values": []},
        {"indices": [1, 1], "values": [1, 2]},
        {"indices": [-1], "values": [1]},
        {"indices": [2**32], "values": [1]},
        {"indices": 1, "values": [1]},
        {"indexes": [1], "values": [1]},
        [],
    ],
)
def test_any_other_sparse_vector_is_refused(value: object) -> None:
    with pytest.raises(RefusalError, match="sparse"):
        sparse(value, "sparse")


@pytest.mark.parametrize("value", ["", "é", "x" * 513, None, 7])
def test_an_id_is_ascii_and_not_too_long(value: object) -> None:
    with pytest.raises(RefusalError):
        record_id(value, "id")
    assert record_id("x" * 512, "id") == "x" * 512


def test_absent_text_and_switches_have_their_defaults() -> None:
    assert text(None, "namespace") == ""
    assert text(None, "metric", default="cosine") == "cosine"
    assert boolean(None, "deleteAll") is False
    assert texts(None, "ids") == []


@given(JSON)
def test_every_reader_takes_a_value_or_refuses_it(value: object) -> None:
    """No JSON value makes a reader fail in any way but with a RefusalError."""
    for reader in (mapping, text, boolean, items, texts, reals, sparse, record_id):
        message = "field"
        try:
            reader(value, "field")
        except RefusalError as refusal:
            message = refusal.message
        assert "field" in message


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
