"""The ring holds the newest searches, and never more than it may; their numbers grow with time and differ between workers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.selection.inspections import CHOSEN, seen
from support.selection.selections import selection
from vecsieve.proxy.admin.recent import PLACES, WORDS_CHARACTERS, Recent, Seen
from vecsieve.proxy.selection.values import Fate


def search(size: int = 1) -> Seen:
    each = list(range(size))
    return seen(selection(each, each, [Fate.KEPT] * size))


def shown(recent: Recent) -> list[object]:
    return [record.seen.summary()["candidates"] for record in recent.newest()]


def test_the_newest_comes_first_with_its_number_and_time() -> None:
    times = iter([1000.0, 1001.23449])
    recent = Recent(5, now=lambda: next(times), place=3)
    recent.add(search())
    recent.add(search())
    found = [(record.number, record.at) for record in recent.newest()]
    assert found == [(1001234 * PLACES + 3, 1001.234), (1000000 * PLACES + 3, 1000.0)]


def test_nothing_is_held_where_nothing_is_requested() -> None:
    recent = Recent(0, now=lambda: 0.0)
    recent.add(search())
    assert recent.newest() == []


def test_a_search_larger_than_all_room_is_not_held() -> None:
    recent = Recent(5, now=lambda: 0.0, most_bytes=5000)
    recent.add(search(100))
    recent.add(search())
    assert shown(recent) == [1]


def test_a_smaller_ring_forgets_the_oldest_at_once() -> None:
    recent = Recent(3, now=lambda: 0.0)
    for size in (1, 2, 3):
        recent.add(search(size))
    recent.resize(2, texts=False)
    assert shown(recent) == [3, 2]
    recent.resize(0, texts=False)
    assert shown(recent) == []
    recent.resize(1, texts=False)
    recent.add(search(4))
    assert shown(recent) == [4]


def test_searches_with_texts_go_at_once_when_texts_are_switched_off() -> None:
    recent = Recent(3, now=lambda: 0.0, texts=True)
    recent.add(seen(CHOSEN, texts=("CANARY",) * 5))
    recent.resize(3, texts=False)
    assert recent.newest() == []


COUNTED = ("results", "repeats", "collapsed", "changed")


def test_a_summary_counts_what_the_databases_own_page_repeats() -> None:
    summary = seen().summary()
    assert [summary[name] for name in COUNTED] == [3, 1, 2, True]
    alone = search(3).summary()
    assert [alone[name] for name in COUNTED] == [3, 0, 0, False]


def test_what_is_held_counts_its_texts() -> None:
    assert seen(CHOSEN, texts=("x" * 600,) * 5).size_bytes > seen().size_bytes + 3000


@given(st.integers(0, 4), st.integers(0, 9000), st.lists(st.integers(1, 99), max_size=12))
def test_it_holds_the_newest_that_fit(keep: int, most_bytes: int, sizes: list[int]) -> None:
    """Invariant: what is held is an unbroken run of the newest searches, as long as number and bytes allow."""
    recent = Recent(keep, now=lambda: 0.0, most_bytes=most_bytes)
    for size in sizes:
        recent.add(search(size))
    found = shown(recent)
    assert len(found) <= keep
    assert sum(record.seen.size_bytes for record in recent.newest()) <= most_bytes
    assert found == sizes[::-1][: len(found)]


@given(st.lists(st.floats(0, 2e9), min_size=1, max_size=20), st.integers(0, PLACES - 1))
def test_numbers_only_grow_and_tell_the_worker(times: list[float], place: int) -> None:
    """Invariant: each number is larger than all before it and than what was reached, whatever the clock does; its rest is the place."""
    clock = [0.0]
    recent = Recent(100, now=lambda: clock[0], place=place)
    last = -1
    for at in times:
        clock[0] = at
        reached = recent.reached
        recent.add(search())
        number = recent.newest()[0].number
        assert number > last
        assert number > reached
        assert number % PLACES == place
        assert number < 2**53
        last = number


def test_a_search_is_recognised_by_the_first_words_of_its_first_result() -> None:
    texts = ("  Where \n the fridge  was bought. " + "x" * 200, None, "b", "c", "d")
    assert str(seen(CHOSEN, texts=texts).summary()["words"]).startswith("Where the fridge was bought. xxx")
    assert len(str(seen(CHOSEN, texts=texts).summary()["words"])) == WORDS_CHARACTERS
    assert seen(CHOSEN).summary()["words"] is None
    assert seen(CHOSEN, texts=(None, "a", "b", "c", "d")).summary()["words"] is None
