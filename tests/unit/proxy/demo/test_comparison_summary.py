"""Adding up, and medians."""

from __future__ import annotations

import pytest

from support.tiny_corpus import answer
from vecsieve.proxy.demo.comparison import (
    CameIn,
    Comparison,
    CopyOf,
    Counts,
    Doubtful,
    Note,
    Side,
    summarise,
    timing,
)
from vecsieve.proxy.selection.values import Link


def side(*rows: int, notes: tuple[Note, ...] = (), **counts: int) -> Side:
    """``notes``: of the last results, one each."""
    known = {"by_vector": 0, "by_wording": 0, "by_either": 0, "kept_apart": 0} | counts
    told = ((),) * (len(rows) - len(notes)) + tuple((note,) for note in notes)
    return Side(rows=rows, texts=tuple(map(str, rows)), notes=told, counts=Counts(results=len(rows), **known))


def compared(direct: Side, proxied: Side) -> Comparison:
    return Comparison(direct=direct, proxied=proxied, cuts=(0.85, 0.4), yardstick=0.1)


def copy(link: Link, *, similarity: float = 0.9, cut: float = 0.8, place: int = 0) -> CopyOf:
    return CopyOf(place=place, link=link, similarity=similarity, cut=cut, is_longer=False)


CHANGED = compared(
    side(
        *(1, 2, 3),
        by_vector=2,
        by_wording=1,
        by_either=2,
        notes=(copy(Link.IDENTICAL), copy(Link.DISTANCE)),
    ),
    side(1, 4, 5, by_wording=1, by_either=1, kept_apart=1, notes=(CameIn(rank=4), copy(Link.DISTANCE))),
)
LEFT_ALONE = compared(side(6, 7), side(6, 7))
OTHER_FIRST = compared(
    side(1, 2, by_vector=1, by_either=1, notes=(copy(Link.IDENTICAL),)), side(2, 1, by_vector=1, by_either=1)
)


def test_counts_of_both_sides_are_added_up_apart() -> None:
    total = summarise([CHANGED, LEFT_ALONE, OTHER_FIRST])
    assert (total.questions, total.results) == (3, 7)
    assert total.by_vector == (3, 1)
    assert total.by_wording == (1, 1)
    assert total.by_either == (3, 2)
    assert total.with_repeats == (2, 2)


def test_direct_results_left_out_are_counted_by_reason_and_the_other_answers_are_not() -> None:
    total = summarise([CHANGED, LEFT_ALONE, OTHER_FIRST])
    assert dict(total.left_out) == {Link.IDENTICAL: 2, Link.DISTANCE: 1}


def test_doubtful_are_the_near_ones_of_the_direct_answers_alone() -> None:
    total = summarise([CHANGED, LEFT_ALONE, OTHER_FIRST])
    assert total.doubtful == (Doubtful(row=3, above=1, similarity=0.9, cut=0.8),)
    assert total.doubtful[0].margin == pytest.approx(0.1)
    assert summarise([LEFT_ALONE, OTHER_FIRST]).doubtful == ()


def test_the_most_doubtful_pair_stands_first_and_equals_in_the_order_of_the_corpus() -> None:
    sure, close = copy(Link.DISTANCE, similarity=0.99), copy(Link.DISTANCE, similarity=0.81)
    higher = copy(Link.DISTANCE, similarity=0.855, cut=0.85, place=1)  # a smaller margin at a greater similarity
    told = [compared(side(9, 8, notes=(sure,)), side(9)), compared(side(7, 4, 6, 5, notes=(close, higher)), side(7))]
    told.append(compared(side(7, 3, notes=(close,)), side(7)))
    assert [(pair.row, pair.above) for pair in summarise(told).doubtful] == [(5, 4), (3, 7), (6, 7), (8, 9)]


def test_a_pair_that_several_questions_have_stands_once_with_its_smallest_margin() -> None:
    sure, close = copy(Link.DISTANCE, similarity=0.9, cut=0.4), copy(Link.DISTANCE, similarity=0.9, cut=0.85)
    for notes in ((sure, close), (close, sure)):
        told = [compared(side(1, 2, notes=(note,)), side(1)) for note in notes]
        assert summarise(told).doubtful == (Doubtful(row=2, above=1, similarity=0.9, cut=0.85),)
        assert summarise(told).left_out == {Link.DISTANCE: 2}


def test_the_same_two_the_other_way_round_are_another_pair() -> None:
    near = copy(Link.DISTANCE)
    told = [compared(side(1, 2, notes=(near,)), side(1)), compared(side(2, 1, notes=(near,)), side(2))]
    assert [(pair.row, pair.above) for pair in summarise(told).doubtful] == [(1, 2), (2, 1)]


def test_repeats_that_a_guard_keeps_are_counted_in_the_proxys_answers() -> None:
    guarded = compared(side(1, 2, by_either=1, kept_apart=1), side(1, 2, by_either=1, kept_apart=1))
    assert summarise([CHANGED, guarded]).kept_apart == 2


def test_changed_and_unchanged_answers_make_up_all_questions() -> None:
    total = summarise([CHANGED, LEFT_ALONE, OTHER_FIRST])
    assert (total.changed, total.questions) == (2, 3)
    assert total.first_kept == 2


def test_no_questions_add_up_to_nothing() -> None:
    total = summarise([])
    assert (total.questions, total.results, total.changed) == (0, 0, 0)
    assert total.by_vector == total.by_wording == total.by_either == total.with_repeats == (0, 0)
    assert not total.left_out


def test_one_slow_call_does_not_move_the_medians() -> None:
    pairs = [(answer(1, milliseconds=2.0), answer(1, milliseconds=milliseconds)) for milliseconds in (3.0, 3.5, 900.0)]
    measured = timing(pairs)
    assert measured.rounds == 3
    assert measured.direct_milliseconds == 2.0
    assert measured.proxied_milliseconds == 3.5
    assert measured.proxied_milliseconds - measured.direct_milliseconds == pytest.approx(1.5)
