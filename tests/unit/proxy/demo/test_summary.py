"""Adding up, and medians."""

from __future__ import annotations

import pytest

from support.tiny_corpus import answer
from vecsieve.proxy.demo.comparison import Comparison, Counts, Side
from vecsieve.proxy.demo.summary import summarise, timing


def side(*rows: int, by_vector: int = 0, by_wording: int = 0) -> Side:
    counts = Counts(results=len(rows), by_vector=by_vector, by_wording=by_wording)
    return Side(rows=rows, texts=tuple(map(str, rows)), notes=(None,) * len(rows), counts=counts)


CHANGED = Comparison(
    direct=side(1, 2, 3, by_vector=2, by_wording=1), proxied=side(1, 4, 5, by_wording=1), threshold=0.1
)
LEFT_ALONE = Comparison(direct=side(6, 7), proxied=side(6, 7), threshold=0.1)
OTHER_FIRST = Comparison(direct=side(1, 2, by_vector=1), proxied=side(2, 1, by_vector=1), threshold=0.1)


def test_counts_of_both_sides_are_added_up_apart() -> None:
    total = summarise([CHANGED, LEFT_ALONE, OTHER_FIRST])
    assert (total.questions, total.results) == (3, 7)
    assert total.by_vector == (3, 1)
    assert total.by_wording == (1, 1)
    assert total.with_repeats == (2, 1)


def test_changed_and_unchanged_answers_make_up_all_questions() -> None:
    total = summarise([CHANGED, LEFT_ALONE, OTHER_FIRST])
    assert (total.changed, total.unchanged) == (2, 1)
    assert total.first_kept == 2


def test_no_questions_add_up_to_nothing() -> None:
    total = summarise([])
    assert (total.questions, total.results, total.changed, total.unchanged) == (0, 0, 0, 0)
    assert total.by_vector == total.by_wording == total.with_repeats == (0, 0)


def test_one_slow_call_does_not_move_the_medians() -> None:
    pairs = [(answer(1, milliseconds=2.0), answer(1, milliseconds=milliseconds)) for milliseconds in (3.0, 3.5, 900.0)]
    measured = timing(pairs)
    assert measured.rounds == 3
    assert measured.direct_milliseconds == 2.0
    assert measured.proxied_milliseconds == 3.5
    assert measured.added_milliseconds == pytest.approx(1.5)
