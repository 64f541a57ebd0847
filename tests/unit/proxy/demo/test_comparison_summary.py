"""Adding up, and medians."""

from __future__ import annotations

import pytest

from support.tiny_corpus import answer
from vecsieve.proxy.demo.comparison import CameIn, Comparison, CopyOf, Counts, Note, Side, summarise, timing
from vecsieve.proxy.selection.values import Link


def side(*rows: int, notes: tuple[Note, ...] = (), **counts: int) -> Side:
    """``notes``: of the last results, one each."""
    known = {"by_vector": 0, "by_wording": 0, "by_either": 0, "kept_apart": 0, "beyond": 0} | counts
    told = ((),) * (len(rows) - len(notes)) + tuple((note,) for note in notes)
    return Side(rows=rows, texts=tuple(map(str, rows)), notes=told, counts=Counts(results=len(rows), **known))


def compared(direct: Side, proxied: Side) -> Comparison:
    return Comparison(direct=direct, proxied=proxied, cuts=(0.1, 0.3), short_factor=1.0, yardstick=0.1)


def copy(link: Link) -> CopyOf:
    return CopyOf(place=0, link=link, similarity=0.9, cut=0.1, is_longer=False)


CHANGED = compared(
    side(
        *(1, 2, 3),
        by_vector=2,
        by_wording=1,
        by_either=2,
        beyond=1,
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
    assert total.beyond == 1


def test_repeats_that_a_guard_keeps_are_counted_in_the_proxys_answers() -> None:
    guarded = compared(side(1, 2, by_either=1, kept_apart=1), side(1, 2, by_either=1, kept_apart=1))
    assert summarise([CHANGED, guarded]).kept_apart == 2


def test_changed_and_unchanged_answers_make_up_all_questions() -> None:
    total = summarise([CHANGED, LEFT_ALONE, OTHER_FIRST])
    assert (total.changed, total.unchanged) == (2, 1)
    assert total.first_kept == 2


def test_no_questions_add_up_to_nothing() -> None:
    total = summarise([])
    assert (total.questions, total.results, total.changed, total.unchanged) == (0, 0, 0, 0)
    assert total.by_vector == total.by_wording == total.by_either == total.with_repeats == (0, 0)
    assert not total.left_out


def test_one_slow_call_does_not_move_the_medians() -> None:
    pairs = [(answer(1, milliseconds=2.0), answer(1, milliseconds=milliseconds)) for milliseconds in (3.0, 3.5, 900.0)]
    measured = timing(pairs)
    assert measured.rounds == 3
    assert measured.direct_milliseconds == 2.0
    assert measured.proxied_milliseconds == 3.5
    assert measured.added_milliseconds == pytest.approx(1.5)
