from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.search.candidates import Kind, moment, recency


def newest_first(*values: object) -> list[int]:
    """The places of the known values, the newest first."""
    found = recency([moment(json.dumps(value).encode()) for value in values])
    return [] if found is None else [int(place) for place in np.argsort(-found) if not np.isnan(found[place])]


def test_larger_numbers_are_newer() -> None:
    assert newest_first(2023, 2024.5, -1) == [1, 0, 2]


def test_dates_and_times_are_compared_as_moments_in_utc() -> None:
    assert newest_first("2024-03-01", "2024-03-01T12:00:00+13:00", "2024-03-01T00:00:01Z", "2023-12-31 23:59") == [
        2, 0, 1, 3,
    ]  # fmt: skip


def test_a_date_without_a_zone_is_in_utc() -> None:
    assert moment(b'"1970-01-02"') == (Kind.DATE, 86400.0)
    assert moment(b'"1970-01-01T01:00:00+01:00"') == (Kind.DATE, 0.0)


def test_releases_are_compared_number_by_number() -> None:
    assert newest_first("1.9", "1.10", "v1.2.3", "2") == [3, 1, 0, 2]


@pytest.mark.parametrize(
    ("older", "newer"),
    [
        ("1.0rc1", "1.0"),
        ("1.0-beta.2", "1.0rc1"),
        ("1.0a9", "1.0b1"),
        ("1.0.dev3", "1.0a1"),
        ("1.0", "1.0.post1"),
        ("1.0-rc.1", "1.0-rc.2"),
        ("1.0.post1", "1.0.1"),
        ("2.9", "10"),
    ],
)
def test_what_comes_before_a_release_is_older(older: str, newer: str) -> None:
    assert newest_first(older, newer) == [1, 0]
    assert newest_first(newer, older) == [0, 1]


@pytest.mark.parametrize(
    ("one", "other"), [("1.0", "1.0.0"), ("V1", "1"), ("1.0+build.7", "1.0"), ("1.0-RC1", "1.0rc1")]
)
def test_two_names_of_one_release_are_equally_new(one: str, other: str) -> None:
    assert moment(json.dumps(one).encode()) == moment(json.dumps(other).encode())


def test_a_pool_is_compared_in_the_kind_of_its_best_candidate() -> None:
    assert newest_first(None, "2024-01-01", 1e12, "3.0", "2025-01-01") == [4, 1]
    assert newest_first("3.0", "2024-01-01", "2.9") == [0, 2]


@pytest.mark.parametrize("value", [None, True, "", "soon", "2024-13-01", "1..2", "1.0-what", [2024], {"a": 1}, "١٢"])
def test_anything_else_is_unknown(value: object) -> None:
    assert moment(json.dumps(value).encode()) is None


def test_where_all_are_unknown_there_is_no_order() -> None:
    assert recency([None, None]) is None
    assert recency([]) is None


@given(st.lists(st.lists(st.integers(0, 30), min_size=1, max_size=4), min_size=1, max_size=8))
def test_the_order_of_releases_is_that_of_their_numbers(parts: list[list[int]]) -> None:
    """Invariant: two releases compare as their numbers do, one after the other, whatever else is in the pool."""
    found = recency([moment(json.dumps(".".join(map(str, part))).encode()) for part in parts])
    padded = [tuple(part + [0] * (4 - len(part))) for part in parts]
    assert found is not None
    for first, one in zip(found, padded, strict=True):
        for second, other in zip(found, padded, strict=True):
            assert (first < second, first == second) == (one < other, one == other)


@given(st.binary(max_size=30) | st.text(max_size=20).map(lambda text: json.dumps(text).encode()))
def test_any_bytes_are_a_moment_or_none(raw: bytes) -> None:
    """Invariant: nothing raises, and a moment is one of three kinds with a finite value."""
    found = moment(raw)
    assert found is None or found[0] is Kind.RELEASE or np.isfinite(found[1])
