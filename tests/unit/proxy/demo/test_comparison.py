"""Two answers side by side: notes and counts."""

from __future__ import annotations

import dataclasses

import pytest

from support.demo_policies import ANY_CHANCE, CONTAINING, FIXED, choosing
from support.policies import SCALED_MMR
from support.tiny_corpus import NEAR_A, A, B, C, D, answer, corpus_of
from vecsieve.proxy.demo.comparison import Alike, CameIn, Comparison, CopyOf, KeptApart, Note, PassedOver, compare
from vecsieve.proxy.demo.corpus import Corpus
from vecsieve.proxy.demo.database import Answer
from vecsieve.proxy.demo.reasons import Pool
from vecsieve.proxy.search.policy import ResolvedPolicy
from vecsieve.proxy.selection.policy import Fixed
from vecsieve.proxy.selection.values import Link, Veto

NARROW = choosing(dataclasses.replace(FIXED.selection, threshold=Fixed(value=0.0005)))
LONG = "insert item x in list a and keep it sorted assuming that list a is sorted already before the call"
BANS = "The ministry bans exports of rice to all its neighbours"
LIFTS = "The ministry lifts its ban on exports of rice to all its neighbours"


def judged(
    corpus: Corpus,
    pool: Answer,
    direct: tuple[int, ...],
    proxied: tuple[int, ...],
    *,
    policy: ResolvedPolicy = FIXED,
    first: int = 9,
) -> Comparison:
    return compare(
        corpus, Pool(answer=pool, first=first, policy=policy), direct=answer(*direct), proxied=answer(*proxied)
    )


def only(notes: tuple[Note, ...]) -> Note:
    (note,) = notes
    return note


def test_a_copy_names_the_result_above_and_why_and_what_came_in_names_its_direct_rank() -> None:
    corpus = corpus_of([A, NEAR_A, B, C])
    seen = judged(corpus, answer(0, 1, 2, 3), (0, 1, 2), (0, 2, 3))
    assert seen.direct.notes[0] == seen.direct.notes[2] == ()
    copy = only(seen.direct.notes[1])
    assert isinstance(copy, CopyOf)
    assert (copy.place, copy.link, copy.is_longer) == (0, Link.DISTANCE, False)
    assert copy.similarity == pytest.approx(0.999, abs=1e-4)
    assert copy.cut == pytest.approx(0.9)  # as the similarity: 1 - 0.1
    assert seen.proxied.notes == ((), (), (CameIn(rank=4),))


def test_a_longer_text_that_holds_the_one_above_is_told_from_one_that_it_holds() -> None:
    shorter = LONG.removesuffix(" before the call")
    for texts, is_longer in (([LONG, shorter], False), ([shorter, LONG], True)):
        corpus = corpus_of([A, NEAR_A], texts=texts)
        copy = only(judged(corpus, answer(0, 1), (0, 1), (0,), policy=CONTAINING).direct.notes[1])
        assert isinstance(copy, CopyOf)
        assert (copy.link, copy.is_longer) == (Link.CONTAINMENT, is_longer)


def test_equal_texts_are_told_from_near_ones() -> None:
    corpus = corpus_of([A, A, NEAR_A], texts=["one text", "one text", "another text"])
    notes = judged(corpus, answer(0, 1, 2), (0, 1, 2), (0,)).direct.notes
    assert [[note.link for note in each if isinstance(note, CopyOf)] for each in notes] == [
        [],
        [Link.IDENTICAL],
        [Link.DISTANCE],
    ]


def test_a_copy_that_was_kept_is_still_called_a_copy_on_the_right() -> None:
    seen = judged(corpus_of([A, NEAR_A, B]), answer(0, 1, 2), (0, 2), (0, 1))
    assert isinstance(only(seen.proxied.notes[1]), CopyOf)


def test_a_look_alike_that_a_guard_keeps_says_so_in_both_lists_and_is_counted() -> None:
    corpus = corpus_of([A, NEAR_A, B, C], texts=[BANS, LIFTS, BANS, "quite another text stands here"])
    seen = judged(corpus, answer(0, 1, 2, 3), (0, 1, 2), (0, 1, 3))
    apart = KeptApart(place=0, veto=Veto.NEGATION, from_copy=False)
    assert only(seen.direct.notes[1]) == only(seen.proxied.notes[1]) == apart
    assert (seen.proxied.counts.by_either, seen.proxied.counts.kept_apart) == (1, 1)


def test_who_differs_from_a_copy_that_is_not_shown_names_the_result_that_stands_for_the_copy() -> None:
    neither, left, right = (f"Return the string with {ends} blanks removed" for ends in ("outer", "left", "right"))
    between = (0.9997, 0.0245, 0.0, 0.0)
    corpus = corpus_of([A, NEAR_A, between, C], texts=[neither, left, right, "quite another text stands here"])
    seen = judged(corpus, answer(0, 1, 2, 3), (0, 1, 2), (0, 2, 3))
    assert only(seen.direct.notes[2]) == KeptApart(place=1, veto=Veto.NEGATION, from_copy=False)
    assert only(seen.proxied.notes[1]) == KeptApart(place=0, veto=Veto.NEGATION, from_copy=True)


def test_what_came_in_from_below_can_be_kept_apart_too() -> None:
    corpus = corpus_of([A, A, NEAR_A, C], texts=[BANS, BANS, LIFTS, "quite another text stands here"])
    seen = judged(corpus, answer(0, 1, 2, 3), (0, 1), (0, 2))
    assert seen.proxied.notes[1] == (CameIn(rank=3), KeptApart(place=0, veto=Veto.NEGATION, from_copy=False))


def test_a_repeat_by_vector_that_selection_does_not_see_says_how_far_it_lies() -> None:
    corpus = corpus_of([A, NEAR_A, B], texts=["word " * 31, "other " * 31, "third"])
    alike = only(judged(corpus, answer(0, 1, 2), (0, 1), (0, 1), policy=NARROW).proxied.notes[1])
    assert isinstance(alike, Alike)
    assert (alike.place, alike.share) == (0, None)
    assert alike.distance == pytest.approx(0.001, abs=1e-4)


def test_a_repeat_by_wording_alone_says_its_share() -> None:
    told = "a b c d e f g h i j"  # eight runs, of which the other text has five of its eight
    corpus = corpus_of([A, B], texts=[told, "a b c d e f g x y z"])
    alike = only(judged(corpus, answer(0, 1), (0, 1), (0, 1)).direct.notes[1])
    assert isinstance(alike, Alike)
    assert alike.share == pytest.approx(5 / 8)


def test_copies_are_counted_on_both_sides() -> None:
    corpus = corpus_of([A, A, A, B], texts=["the same words here"] * 3 + ["quite another text stands here"])
    seen = judged(corpus, answer(0, 1, 2, 3), (0, 1, 2), (0, 3, 1))
    counts = seen.direct.counts
    assert (counts.results, counts.by_vector, counts.by_wording, counts.by_either) == (3, 2, 2, 2)
    assert (seen.proxied.counts.by_vector, seen.proxied.counts.by_wording) == (1, 1)


def test_a_repeat_by_vector_and_another_by_wording_are_two_by_either() -> None:
    same = "the same words here"
    corpus = corpus_of([A, NEAR_A, B, C], texts=[same, "quite another text", same, "and a third one"])
    counts = judged(corpus, answer(0, 1, 2, 3), (0, 1, 2, 3), (0, 3)).direct.counts
    assert (counts.by_vector, counts.by_wording, counts.by_either) == (1, 1, 2)


def test_the_yardstick_is_the_same_whatever_the_policy_cuts_at() -> None:
    corpus = corpus_of([A, NEAR_A, B, C])
    wide, narrow = (
        judged(corpus, answer(0, 1, 2, 3), (0, 1, 2), (0, 1, 2), policy=policy) for policy in (FIXED, NARROW)
    )
    assert wide.yardstick == narrow.yardstick == pytest.approx(0.2, abs=1e-3)
    assert wide.direct.counts.by_vector == narrow.direct.counts.by_vector == 1


def test_a_copy_to_selection_that_the_yardstick_does_not_see_is_no_repeat() -> None:
    corpus = corpus_of([A, (0.7, 0.714, 0.0, 0.0), C, D])  # 0.3 apart, the yardstick is at 0.2
    far = choosing(dataclasses.replace(FIXED.selection, threshold=Fixed(value=0.4)))
    seen = judged(corpus, answer(0, 1, 2, 3), (0, 1, 2), (0, 2, 3), policy=far).direct
    assert isinstance(only(seen.notes[1]), CopyOf)
    assert seen.counts.by_either == 0


def test_what_is_no_copy_and_still_went_out_was_passed_over() -> None:
    seen = judged(corpus_of([A, B, C, D]), answer(0, 1, 2, 3), (0, 1, 2), (0, 1, 3))
    assert only(seen.direct.notes[2]) == PassedOver()


def test_what_lies_beyond_the_pool_came_from_further_down() -> None:
    seen = judged(corpus_of([A, NEAR_A, B, C]), answer(0, 1, 2), (0, 1), (0, 3))
    assert only(seen.proxied.notes[1]) == CameIn(rank=None)


def test_the_cuts_of_the_page_are_those_of_the_policy() -> None:
    seen = judged(corpus_of([A, B, C, D]), answer(0, 1, 2, 3), (0, 1, 2), (0, 1, 2), policy=ANY_CHANCE)
    assert seen.cuts[0] == pytest.approx(0.85)
    assert 0.4 < seen.cuts[1] < 0.85


def test_a_policy_that_reads_no_texts_and_diversifies_is_explained_as_well() -> None:
    seen = judged(corpus_of([A, NEAR_A, B]), answer(0, 1, 2), (0, 1), (0, 2), policy=choosing(SCALED_MMR))
    copy = only(seen.direct.notes[1])
    assert isinstance(copy, CopyOf)
    assert copy.link is Link.DISTANCE


def test_equal_answers_are_unchanged() -> None:
    seen = judged(corpus_of([A, B, C]), answer(0, 1, 2), (0, 1), (0, 1))
    assert not seen.changed
    assert seen.first_kept
    assert seen.direct.notes == seen.proxied.notes == ((), ())


def test_another_first_result_is_noticed() -> None:
    seen = judged(corpus_of([A, B, C]), answer(0, 1, 2), (0, 1), (1, 0))
    assert seen.changed
    assert not seen.first_kept


def test_one_of_several_equal_texts_stands_for_the_others() -> None:
    corpus = corpus_of([A, A, B], texts=["one text", "one text", "another text"])
    seen = judged(corpus, answer(0, 1, 2), (0, 2), (1, 2))
    assert not seen.changed
    assert seen.first_kept
    assert seen.direct.notes == seen.proxied.notes == ((), ())


def test_of_equal_texts_the_one_shown_has_the_notes_of_the_one_chosen() -> None:
    corpus = corpus_of([A, A, NEAR_A, NEAR_A], texts=[BANS, BANS, LIFTS, LIFTS])
    seen = judged(corpus, answer(0, 1, 2, 3), (0, 1), (0, 3))
    assert seen.proxied.notes[1] == (CameIn(rank=3), KeptApart(place=0, veto=Veto.NEGATION, from_copy=False))


def test_an_empty_collection_compares_as_empty() -> None:
    seen = judged(corpus_of([A]), answer(), (), ())
    assert seen.direct.rows == seen.proxied.rows == ()
    assert not seen.changed
    assert seen.first_kept
