"""Two answers side by side: notes and counts."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.jobs.demo_policies import FIXED, SHIPPED, choosing
from support.jobs.tiny_corpus import NEAR_A, A, B, C, D, answer, corpus_of
from support.selection.policies import SCALED_MMR
from vecsieve.proxy.demo.comparison import (
    PASSED_OVER,
    WORDING_SHARE,
    Comparison,
    Counts,
    Doubtful,
    Note,
    Side,
    Sign,
    compare,
    most_shared_earlier,
    nearest_earlier,
    nearness,
    repeats,
    summarise,
    timing,
)
from vecsieve.proxy.demo.corpus import Corpus, Vectors
from vecsieve.proxy.demo.database import Answer
from vecsieve.proxy.demo.reasons import Pool
from vecsieve.proxy.search.policy import ResolvedPolicy
from vecsieve.proxy.selection.policy import Fixed
from vecsieve.proxy.selection.values import Link

NARROW = choosing(dataclasses.replace(FIXED.selection, threshold=Fixed(value=0.0005)))
BANS = "The ministry bans exports of rice to all its neighbours"
LIFTS = "The ministry lifts its ban on exports of rice to all its neighbours"
OTHER = "Quite another text stands here"
SENTENCES = (
    "Insert item x in list a and keep it sorted, whatever the items of the list are and however long it is.",
    "It is assumed that list a is sorted already before the call, because the place of the item is found by halving it.",
    "If x is there already, the place is to the right of all that are equal, so that the order of insertion is kept.",
    "Slice bounds lo and hi limit the part of the list that is searched, and by default the whole list is used.",
)


def judged(
    corpus: Corpus,
    pool: Answer,
    direct: tuple[int, ...],
    proxied: tuple[int, ...],
    *,
    policy: ResolvedPolicy = FIXED,
) -> Comparison:
    return compare(corpus, Pool(answer=pool, first=9, policy=policy), direct=answer(*direct), proxied=answer(*proxied))


CAME_IN_FOURTH = Note(sign=Sign.CAME_IN, words="came in, was number 4")


def only(notes: tuple[Note, ...]) -> Note:
    (note,) = notes
    return note


def test_a_copy_names_the_result_above_and_why_and_what_came_in_names_its_direct_rank() -> None:
    corpus = corpus_of([A, NEAR_A, B, C])
    seen = judged(corpus, answer(0, 1, 2, 3), (0, 1, 2), (0, 2, 3))
    assert seen.direct.notes[0] == seen.direct.notes[2] == ()
    copy = only(seen.direct.notes[1])
    assert (copy.sign, copy.place, copy.link) == (Sign.COPY, 0, Link.DISTANCE)
    assert copy.words == "a vector near that of 1 (1.00, cut .90)"
    assert copy.similarity == pytest.approx(0.999, abs=1e-4)
    assert seen.proxied.notes == ((), (), (CAME_IN_FOURTH,))


def test_a_text_that_two_results_above_hold_names_both() -> None:
    texts = [" ".join(SENTENCES[:3]), " ".join(SENTENCES[1:]), " ".join(SENTENCES)]
    seen = judged(corpus_of([A, B, C], texts=texts), answer(0, 1, 2), (0, 1, 2), (0, 1), policy=SHIPPED)
    copy = only(seen.direct.notes[2])
    assert (copy.words, copy.place, copy.link) == ("all of it is in 1 and 2", 0, Link.JOINED)


def test_a_result_that_says_more_than_one_like_it_says_so_in_both_lists_and_is_counted() -> None:
    corpus = corpus_of([A, NEAR_A, B, C], texts=[BANS, LIFTS, BANS, OTHER])
    seen = judged(corpus, answer(0, 1, 2, 3), (0, 1, 2), (0, 1, 3), policy=SHIPPED)
    stays = only(seen.direct.notes[1])
    assert (stays.sign, stays.place) == (Sign.STAYS, 0)
    assert stays.words.startswith("stays: 'lifts its ban on' for 'bans")
    assert only(seen.proxied.notes[1]) == stays
    assert (seen.proxied.counts.by_either, seen.proxied.counts.say_more) == (1, 1)


def test_what_came_in_from_below_can_be_like_one_above_too() -> None:
    corpus = corpus_of([A, A, NEAR_A, C], texts=[BANS, BANS, LIFTS, OTHER])
    came, stays = judged(corpus, answer(0, 1, 2, 3), (0, 1), (0, 2), policy=SHIPPED).proxied.notes[1]
    assert came.words == "came in, was number 3"
    assert (stays.sign, stays.place) == (Sign.STAYS, 0)


def test_a_repeat_by_vector_that_selection_does_not_see_says_how_far_it_lies() -> None:
    corpus = corpus_of([A, NEAR_A, B], texts=["word " * 31, "other " * 31, "third"])
    alike = only(judged(corpus, answer(0, 1, 2), (0, 1), (0, 1), policy=NARROW).proxied.notes[1])
    assert (alike.sign, alike.place, alike.words) == (Sign.ALIKE, 0, "like 1: 0.001 apart")


def test_a_repeat_by_wording_alone_says_its_share() -> None:
    text = "a b c d e f g h i j"  # eight runs, of which the other text has five of its eight
    corpus = corpus_of([A, B], texts=[text, "a b c d e f g x y z"])
    alike = only(judged(corpus, answer(0, 1), (0, 1), (0, 1)).direct.notes[1])
    assert (alike.sign, alike.words) == (Sign.ALIKE, "62% of its words are in 1")


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
    assert only(seen.notes[1]).sign is Sign.COPY
    assert seen.counts.by_either == 0


def test_what_is_no_copy_and_still_went_out_was_passed_over() -> None:
    seen = judged(corpus_of([A, B, C, D]), answer(0, 1, 2, 3), (0, 1, 2), (0, 1, 3))
    assert only(seen.direct.notes[2]) == PASSED_OVER


def test_what_lies_beyond_the_pool_came_from_further_down() -> None:
    seen = judged(corpus_of([A, NEAR_A, B, C]), answer(0, 1, 2), (0, 1), (0, 3))
    assert only(seen.proxied.notes[1]).words == "came in from further down"


def test_a_policy_that_reads_no_texts_and_diversifies_is_explained_as_well() -> None:
    seen = judged(corpus_of([A, NEAR_A, B]), answer(0, 1, 2), (0, 1), (0, 2), policy=choosing(SCALED_MMR))
    assert only(seen.direct.notes[1]).link is Link.DISTANCE


@pytest.mark.parametrize(
    ("rows", "proxied", "changed", "first_kept"),
    [((0, 1), (0, 1), False, True), ((0, 1), (1, 0), True, False), ((), (), False, True)],
)
def test_a_change_and_another_first_result_are_noticed(
    rows: tuple[int, ...], proxied: tuple[int, ...], changed: bool, first_kept: bool
) -> None:
    seen = judged(corpus_of([A, B, C]), answer(*rows), rows, proxied)
    assert (seen.changed, seen.first_kept) == (changed, first_kept)
    assert changed or not any((*seen.direct.notes, *seen.proxied.notes))


def test_one_of_several_equal_texts_stands_for_the_others() -> None:
    corpus = corpus_of([A, A, B], texts=["one text", "one text", "another text"])
    seen = judged(corpus, answer(0, 1, 2), (0, 2), (1, 2))
    assert not seen.changed
    assert seen.first_kept
    assert seen.direct.notes == seen.proxied.notes == ((), ())


def test_of_equal_texts_the_one_shown_has_the_notes_of_the_one_chosen() -> None:
    corpus = corpus_of([A, A, NEAR_A, NEAR_A], texts=[BANS, BANS, LIFTS, LIFTS])
    came, stays = judged(corpus, answer(0, 1, 2, 3), (0, 1), (0, 3), policy=SHIPPED).proxied.notes[1]
    assert came.words == "came in, was number 3"
    assert (stays.sign, stays.place) == (Sign.STAYS, 0)


# What counts as a repeat.


SENTENCE = "insert item x in list a and keep it sorted"


def vectors_of(*rows: tuple[float, ...]) -> Vectors:
    return corpus_of(rows).vectors


def vector_repeats(vectors: Vectors, threshold: float) -> int:
    repeats_by_vector = repeats(vectors, [""] * len(vectors), threshold)
    assert all(repeat.by_wording is None for repeat in repeats_by_vector)
    assert [repeat.is_repeat for repeat in repeats_by_vector] == [
        repeat.by_vector is not None for repeat in repeats_by_vector
    ]
    return sum(repeat.is_repeat for repeat in repeats_by_vector)


def wording_repeats(texts: Sequence[str]) -> int:
    far_apart = np.eye(len(texts), dtype=np.float32)
    repeats_by_wording = repeats(far_apart, texts, 0.5)
    assert all(repeat.by_vector is None for repeat in repeats_by_wording)
    assert [repeat.is_repeat for repeat in repeats_by_wording] == [
        repeat.by_wording is not None for repeat in repeats_by_wording
    ]
    return sum(repeat.is_repeat for repeat in repeats_by_wording)


def test_the_nearest_result_above_is_named_with_its_distance_and_of_equals_the_higher() -> None:
    assert [near and near.place for near in nearest_earlier(vectors_of(A, B, A, A, NEAR_A))] == [None, 0, 0, 0, 0]
    near = nearest_earlier(vectors_of(A, B, NEAR_A))[2]
    assert near is not None
    assert near.distance == pytest.approx(0.001, abs=1e-4)
    assert vector_repeats(vectors_of(A, NEAR_A), near.distance) == 1
    assert vector_repeats(vectors_of(A, NEAR_A), near.distance / 2) == 0


@given(st.lists(st.sampled_from([A, B, NEAR_A]), max_size=8), st.floats(0.0, 2.0))
def test_repeats_by_vector_are_what_the_plain_definition_says(rows: list[tuple[float, ...]], threshold: float) -> None:
    """The count equals the number of rows within the threshold of any earlier row, computed pair by pair."""
    vectors = vectors_of(*rows) if rows else np.empty((0, 4), dtype=np.float32)
    distances = 1.0 - vectors @ vectors.T
    plain = sum(any(max(0.0, distances[row, above]) <= threshold for above in range(row)) for row in range(len(rows)))
    assert vector_repeats(vectors, threshold) == plain


@pytest.mark.parametrize(
    ("texts", "count"),
    [
        ([SENTENCE, SENTENCE.upper().replace(" ", "  ")], 1),  # case and spacing
        ([SENTENCE, "return the number of seconds since the epoch as a float"], 0),
        (["a b c d e f", "a b c d x y"], 1),  # abc bcd | cdx dxy: half
        (["a b c d e f", "a b c x y z"], 0),  # abc | bcx cxy xyz: a quarter
        (["a b c d", "w x y z", "a b c m n w x y"], 0),  # pieced together from two others
        (["a b c", "a b c d e f g h i j"], 0),  # a long one brings news
        (["a b c d e f g h i j", "c d e f"], 1),
        (["a b", "a b", ""], 0),  # shorter than a run
        ([], 0),
    ],
)
def test_half_of_its_runs_in_one_text_above_make_a_repeat(texts: list[str], count: int) -> None:
    assert wording_repeats(texts) == count


@given(st.lists(st.text(alphabet="ab ", max_size=30), max_size=6))
def test_the_first_result_is_never_a_repeat_by_wording(texts: list[str]) -> None:
    """There are at most as many repeats as results after the first, and appending a copy never lowers the count."""
    count = wording_repeats(texts)
    assert 0 <= count <= max(0, len(texts) - 1)
    assert wording_repeats([*texts, *texts[:1]]) >= count


@given(st.lists(st.text(alphabet="ab ", max_size=30), max_size=6))
def test_the_text_named_is_the_first_of_those_that_hold_most(texts: list[str]) -> None:
    """The share lies in [0, 1], is that of the named text, and no earlier text holds more, nor as much further up."""
    runs = [{tuple(text.split()[at : at + 3]) for at in range(len(text.split()) - 2)} for text in texts]
    for row, shared_most in enumerate(most_shared_earlier(texts)):
        if shared_most is None:
            assert row == 0 or not runs[row]
            continue
        shared = [len(runs[row] & earlier) for earlier in runs[:row]]
        assert shared_most.place == shared.index(max(shared))
        assert shared_most.share == shared[shared_most.place] / len(runs[row])


def test_a_result_may_repeat_one_by_vector_and_another_by_wording() -> None:
    repeat = repeats(vectors_of(A, B, NEAR_A), ["one text here", SENTENCE, SENTENCE], 0.1)[2]
    assert repeat.by_vector is not None
    assert repeat.by_wording is not None
    assert (repeat.by_vector.place, repeat.by_wording.place) == (0, 1)
    assert repeat.by_wording.share >= WORDING_SHARE


def test_nearness_is_a_fifth_of_the_typical_distance_within_bounds() -> None:
    assert nearness(0.5) == pytest.approx(0.1)
    assert nearness(0.0) == pytest.approx(0.02)
    assert nearness(2.0) == pytest.approx(0.30)


# Adding up, and medians.


def side(*rows: int, notes: tuple[Note, ...] = (), **counts: int) -> Side:
    """``notes``: of the last results, one each."""
    known = {"by_vector": 0, "by_wording": 0, "by_either": 0, "say_more": 0} | counts
    notes_by_row = ((),) * (len(rows) - len(notes)) + tuple((note,) for note in notes)
    return Side(rows=rows, texts=tuple(map(str, rows)), notes=notes_by_row, counts=Counts(results=len(rows), **known))


def compared(direct: Side, proxied: Side) -> Comparison:
    return Comparison(direct=direct, proxied=proxied, yardstick=0.1)


def copy(link: Link, *, similarity: float = 0.9, place: int = 0) -> Note:
    return Note(sign=Sign.COPY, words="", place=place, link=link, similarity=similarity)


CHANGED = compared(
    side(
        *(1, 2, 3),
        by_vector=2,
        by_wording=1,
        by_either=2,
        notes=(copy(Link.EQUAL), copy(Link.DISTANCE)),
    ),
    side(1, 4, 5, by_wording=1, by_either=1, say_more=1, notes=(CAME_IN_FOURTH, copy(Link.DISTANCE))),
)
LEFT_ALONE = compared(side(6, 7), side(6, 7))
OTHER_FIRST = compared(
    side(1, 2, by_vector=1, by_either=1, notes=(copy(Link.EQUAL),)), side(2, 1, by_vector=1, by_either=1)
)


def test_counts_of_both_sides_are_added_up_apart() -> None:
    total = summarise([CHANGED, LEFT_ALONE, OTHER_FIRST])
    assert (total.questions, total.results) == (3, 7)
    copies = compared(replace(side(1, 2, 3), texts=("a b", "a  b", "c")), side(1))
    assert summarise([copies, LEFT_ALONE]).word_for_word == (1, 0)
    assert (total.changed, total.first_kept) == (2, 2)
    assert total.by_vector == (3, 1)
    assert total.by_wording == (1, 1)
    assert total.by_either == (3, 2)
    assert total.with_repeats == (2, 2)


def test_direct_results_left_out_are_counted_by_reason_and_the_other_answers_are_not() -> None:
    total = summarise([CHANGED, LEFT_ALONE, OTHER_FIRST])
    assert dict(total.left_out) == {Link.EQUAL: 2, Link.DISTANCE: 1}


@pytest.mark.parametrize("link", [Link.EDITED, Link.REWORDED, Link.DISTANCE])
def test_doubtful_are_those_of_the_direct_answers_that_left_without_a_proof(link: Link) -> None:
    note = copy(link)
    seen = compared(side(1, 2, 3, notes=(copy(Link.EQUAL), note)), side(1, 4, notes=(note,)))
    assert summarise([seen, LEFT_ALONE, OTHER_FIRST]).doubtful == (Doubtful(row=3, above=1, note=note),)
    assert summarise([LEFT_ALONE, OTHER_FIRST]).doubtful == ()


def test_the_least_similar_pair_stands_first_and_equals_in_the_order_of_the_corpus() -> None:
    sure, close = copy(Link.DISTANCE, similarity=0.99), copy(Link.EDITED, similarity=0.81)
    lower = copy(Link.DISTANCE, similarity=0.755, place=1)
    comparisons = [
        compared(side(9, 8, notes=(sure,)), side(9)),
        compared(side(7, 4, 6, 5, notes=(close, lower)), side(7)),
    ]
    comparisons.append(compared(side(7, 3, notes=(close,)), side(7)))
    assert [(pair.row, pair.above) for pair in summarise(comparisons).doubtful] == [(5, 4), (3, 7), (6, 7), (8, 9)]


def test_a_pair_that_several_questions_have_stands_once_with_its_smallest_similarity() -> None:
    sure, close = copy(Link.DISTANCE, similarity=0.95), copy(Link.DISTANCE, similarity=0.9)
    for notes in ((sure, close), (close, sure)):
        comparisons = [compared(side(1, 2, notes=(note,)), side(1)) for note in notes]
        assert summarise(comparisons).doubtful == (Doubtful(row=2, above=1, note=close),)
        assert summarise(comparisons).left_out == {Link.DISTANCE: 2}


def test_repeats_that_say_more_are_counted_in_the_proxys_answers() -> None:
    more = compared(side(1, 2, by_either=1, say_more=1), side(1, 2, by_either=1, say_more=1))
    assert summarise([CHANGED, more]).say_more == 2


def test_one_slow_call_does_not_move_the_medians() -> None:
    pairs = [(answer(1, milliseconds=2.0), answer(1, milliseconds=milliseconds)) for milliseconds in (3.0, 3.5, 900.0)]
    measured = timing(pairs)
    assert measured.rounds == 3
    assert measured.direct_milliseconds == 2.0
    assert measured.proxied_milliseconds == 3.5
    assert measured.proxied_milliseconds - measured.direct_milliseconds == pytest.approx(1.5)
