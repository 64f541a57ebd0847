"""Two answers side by side: notes and counts."""

from __future__ import annotations

import dataclasses

import pytest

from support.policies import DEFAULT
from support.tiny_corpus import BETWEEN_C_AND_D, NEAR_A, A, B, C, D, answer, corpus_of
from vecsieve.proxy.demo.collection import Answer
from vecsieve.proxy.demo.comparison import CameIn, Comparison, PassedOver, Pool, Repeat, compare
from vecsieve.proxy.demo.corpus import Corpus
from vecsieve.proxy.selection.policy import Fixed, Linkage, Policy

FIXED = dataclasses.replace(DEFAULT, threshold=Fixed(value=0.1))
SINGLE = dataclasses.replace(DEFAULT, threshold=Fixed(value=0.3), linkage=Linkage.SINGLE)


def judged(
    corpus: Corpus,
    pool: Answer,
    direct: tuple[int, ...],
    proxied: tuple[int, ...],
    *,
    policy: Policy = FIXED,
    first: int = 9,
) -> Comparison:
    return compare(
        corpus, Pool(answer=pool, first=first, policy=policy), direct=answer(*direct), proxied=answer(*proxied)
    )


def test_a_copy_names_the_result_above_and_what_came_in_names_its_direct_rank() -> None:
    corpus = corpus_of([A, NEAR_A, B, C])
    seen = judged(corpus, answer(0, 1, 2, 3), (0, 1, 2), (0, 2, 3))
    assert seen.direct.notes[0] is None
    repeat = seen.direct.notes[1]
    assert isinstance(repeat, Repeat)
    assert (repeat.place, repeat.same_text) == (0, False)
    assert repeat.distance == pytest.approx(0.001, abs=1e-4)
    assert seen.direct.notes[2] is None
    assert seen.proxied.notes == (None, None, CameIn(rank=4))


def test_copies_are_counted_on_both_sides() -> None:
    corpus = corpus_of([A, A, A, B], texts=["the same words here"] * 3 + ["quite another text stands here"])
    seen = judged(corpus, answer(0, 1, 2, 3), (0, 1, 2), (0, 3, 1))
    assert (seen.direct.counts.results, seen.direct.counts.by_vector, seen.direct.counts.by_wording) == (3, 2, 2)
    assert (seen.proxied.counts.by_vector, seen.proxied.counts.by_wording) == (1, 1)


def test_equal_texts_are_told_from_near_ones() -> None:
    corpus = corpus_of([A, A, NEAR_A], texts=["one text", "one text", "another text"])
    seen = judged(corpus, answer(0, 1, 2), (0, 1, 2), (0, 1, 2))
    assert [isinstance(note, Repeat) and note.same_text for note in seen.direct.notes] == [False, True, False]


def test_a_copy_that_was_kept_is_still_called_a_copy_on_the_right() -> None:
    corpus = corpus_of([A, NEAR_A, B])
    seen = judged(corpus, answer(0, 1, 2), (0, 2), (0, 1))
    assert isinstance(seen.proxied.notes[1], Repeat)


def test_what_is_no_copy_and_still_went_out_was_passed_over() -> None:
    corpus = corpus_of([A, B, C, D])
    seen = judged(corpus, answer(0, 1, 2, 3), (0, 1, 2), (0, 1, 3))
    assert seen.direct.notes[2] == PassedOver()


def test_what_a_cluster_reaches_through_a_third_result_is_named_by_its_cluster() -> None:
    corpus = corpus_of([C, D, BETWEEN_C_AND_D, A])
    seen = judged(corpus, answer(0, 1, 2, 3), (0, 1), (0, 3), policy=SINGLE)
    note = seen.direct.notes[1]
    assert isinstance(note, Repeat)
    assert note.place == 0
    assert note.distance == pytest.approx(1.0)  # farther than the cut: the candidate between them joins them


def test_what_lies_beyond_the_pool_came_from_further_down() -> None:
    corpus = corpus_of([A, NEAR_A, B, C])
    seen = judged(corpus, answer(0, 1, 2), (0, 1), (0, 3))
    assert seen.proxied.notes[1] == CameIn(rank=None)


def test_a_pool_with_enough_distinct_results_is_judged_without_its_tail() -> None:
    relative = judged(corpus_of([A, B, C, A]), answer(0, 1, 2, 3), (0, 1), (0, 1), policy=DEFAULT, first=3)
    assert relative.threshold == pytest.approx(0.2)  # 0.20 x the median of three distances of 1


def test_a_pool_that_lacks_distinct_results_is_judged_with_its_tail() -> None:
    corpus = corpus_of([A, A, B, C])
    small = judged(corpus, answer(0, 1), (0, 1), (0, 2), policy=DEFAULT, first=2)
    grown = judged(corpus, answer(0, 1, 2, 3), (0, 1), (0, 2), policy=DEFAULT, first=2)
    assert small.threshold == pytest.approx(0.02)  # two equal vectors: clipped from below
    assert grown.threshold > small.threshold


def test_equal_answers_are_unchanged() -> None:
    corpus = corpus_of([A, B, C])
    seen = judged(corpus, answer(0, 1, 2), (0, 1), (0, 1))
    assert not seen.changed
    assert seen.first_kept
    assert seen.direct.notes == seen.proxied.notes == (None, None)


def test_another_first_result_is_noticed() -> None:
    corpus = corpus_of([A, B, C])
    seen = judged(corpus, answer(0, 1, 2), (0, 1), (1, 0))
    assert seen.changed
    assert not seen.first_kept


def test_one_of_several_equal_texts_stands_for_the_others() -> None:
    corpus = corpus_of([A, A, B], texts=["one text", "one text", "another text"])
    seen = judged(corpus, answer(0, 1, 2), (0, 2), (1, 2))
    assert not seen.changed
    assert seen.first_kept
    assert seen.direct.notes == seen.proxied.notes == (None, None)


def test_an_empty_collection_compares_as_empty() -> None:
    seen = judged(corpus_of([A]), answer(), (), ())
    assert seen.direct.rows == seen.proxied.rows == ()
    assert not seen.changed
    assert seen.first_kept
