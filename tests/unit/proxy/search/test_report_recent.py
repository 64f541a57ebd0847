"""The ring holds the newest records, and never more than it may."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from support.selections import selection
from vecsieve.adapters.contract import Operation, Pool, Search
from vecsieve.proxy.search.report import Recent, Record, explain
from vecsieve.proxy.selection.values import Fate


def record(collection: str = "c", size: int = 1) -> Record:
    fetched = Pool(scores=np.zeros(size), vectors=np.zeros((size, 1), dtype=np.float32))
    each = list(range(size))
    return explain(
        Operation(backend="qdrant", name="query", collection=collection),
        Search(top_k=size, offset=0, pages=False, query=None),
        fetched,
        selection(each, each, [Fate.KEPT] * size),
    )


def shown(recent: Recent) -> list[Any]:
    page = json.loads(recent.as_json())
    assert page["keep"] == recent.keep
    records: list[Any] = page["records"]
    return records


def test_the_newest_comes_first_with_its_number_and_time() -> None:
    times = iter([1000.0, 1001.23449])
    recent = Recent(5, now=lambda: next(times))
    recent.add(record("one"))
    recent.add(record("two"))
    assert [(each["number"], each["at"], each["collection"]) for each in shown(recent)] == [
        (2, 1001.234, "two"),
        (1, 1000.0, "one"),
    ]


def test_nothing_is_held_where_nothing_is_wanted() -> None:
    recent = Recent(0, now=lambda: 0.0)
    recent.add(record())
    assert shown(recent) == []


def test_a_record_larger_than_all_room_is_not_held() -> None:
    recent = Recent(5, now=lambda: 0.0, most_bytes=2000)
    recent.add(record(size=100))
    recent.add(record())
    assert [each["number"] for each in shown(recent)] == [2]


def test_a_smaller_ring_forgets_the_oldest_at_once() -> None:
    recent = Recent(3, now=lambda: 0.0)
    for _ in range(3):
        recent.add(record())
    recent.resize(2)
    assert [each["number"] for each in shown(recent)] == [3, 2]
    recent.resize(0)
    assert shown(recent) == []
    recent.resize(1)
    recent.add(record())
    assert [each["number"] for each in shown(recent)] == [4]


@given(st.integers(0, 4), st.integers(0, 4000), st.lists(st.integers(1, 9), max_size=12))
def test_it_holds_the_newest_that_fit(keep: int, most_bytes: int, sizes: list[int]) -> None:
    """Invariant: what is shown is an unbroken run of the newest records, as long as number and bytes allow."""
    recent = Recent(keep, now=lambda: 0.0, most_bytes=most_bytes)
    for size in sizes:
        recent.add(record(size=size))
    found = shown(recent)
    assert len(found) <= keep
    assert len(recent.as_json()) <= most_bytes + 100
    numbers = [each["number"] for each in found]
    assert numbers == list(range(len(sizes), 0, -1))[: len(numbers)]
    assert [each["candidates"] for each in found] == sizes[::-1][: len(found)]
