"""What counts as a repeat."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.tiny_corpus import NEAR_A, A, B, corpus_of
from vecsieve.proxy.demo.comparison import WORDING_SHARE, most_shared_earlier, nearest_earlier, nearness, repeats
from vecsieve.proxy.demo.corpus import Vectors

SENTENCE = "insert item x in list a and keep it sorted"


def vectors_of(*rows: tuple[float, ...]) -> Vectors:
    return corpus_of(rows).vectors


def vector_repeats(vectors: Vectors, threshold: float) -> int:
    found = repeats(vectors, [""] * len(vectors), threshold)
    assert all(repeat.by_wording is None for repeat in found)
    assert [repeat.is_repeat for repeat in found] == [repeat.by_vector is not None for repeat in found]
    return sum(repeat.is_repeat for repeat in found)


def wording_repeats(texts: Sequence[str]) -> int:
    far_apart = np.eye(len(texts), dtype=np.float32)
    found = repeats(far_apart, texts, 0.5)
    assert all(repeat.by_vector is None for repeat in found)
    assert [repeat.is_repeat for repeat in found] == [repeat.by_wording is not None for repeat in found]
    return sum(repeat.is_repeat for repeat in found)


def test_the_first_result_has_nothing_above_it() -> None:
    assert nearest_earlier(vectors_of(A))[0] is None


def test_the_nearest_result_above_is_named_with_its_distance() -> None:
    near = nearest_earlier(vectors_of(A, B, NEAR_A))[2]
    assert near is not None
    assert near.place == 0
    assert near.distance == pytest.approx(0.001, abs=1e-4)


def test_of_two_results_as_near_the_higher_is_named() -> None:
    near = nearest_earlier(vectors_of(A, A, A))[2]
    assert near is not None
    assert near.place == 0


def test_results_below_do_not_count() -> None:
    assert vector_repeats(vectors_of(A, B, A), 0.1) == 1
    assert vector_repeats(vectors_of(B, A, A), 0.1) == 1


def test_the_threshold_itself_still_counts() -> None:
    near = nearest_earlier(vectors_of(A, NEAR_A))[1]
    assert near is not None
    assert vector_repeats(vectors_of(A, NEAR_A), near.distance) == 1
    assert vector_repeats(vectors_of(A, NEAR_A), near.distance / 2) == 0


def test_an_empty_list_repeats_nothing() -> None:
    nothing = np.empty((0, 4), dtype=np.float32)
    assert nearest_earlier(nothing) == ()
    assert vector_repeats(nothing, 1.0) == 0
    assert wording_repeats([]) == 0


@given(st.lists(st.sampled_from([A, B, NEAR_A]), max_size=8), st.floats(0.0, 2.0))
def test_repeats_by_vector_are_what_the_plain_definition_says(rows: list[tuple[float, ...]], threshold: float) -> None:
    """The count equals the number of rows within the threshold of any earlier row, computed pair by pair."""
    vectors = vectors_of(*rows) if rows else np.empty((0, 4), dtype=np.float32)
    distances = 1.0 - vectors @ vectors.T
    plain = sum(any(max(0.0, distances[row, above]) <= threshold for above in range(row)) for row in range(len(rows)))
    assert vector_repeats(vectors, threshold) == plain


def test_the_same_words_are_a_repeat_whatever_their_case_and_spacing() -> None:
    assert wording_repeats([SENTENCE, SENTENCE.upper().replace(" ", "  ")]) == 1


def test_other_words_are_no_repeat() -> None:
    assert wording_repeats([SENTENCE, "return the number of seconds since the epoch as a float"]) == 0


def test_half_of_the_runs_said_before_is_a_repeat_and_less_is_not() -> None:
    told = "a b c d e f"  # four runs
    assert wording_repeats([told, "a b c d x y"]) == 1  # abc bcd | cdx dxy: half
    assert wording_repeats([told, "a b c x y z"]) == 0  # abc | bcx cxy xyz: a quarter


def test_a_result_pieced_together_from_two_others_is_no_repeat() -> None:
    assert wording_repeats(["a b c d", "w x y z", "a b c m n w x y"]) == 0


def test_a_long_result_that_contains_a_short_one_brings_news() -> None:
    assert wording_repeats(["a b c", "a b c d e f g h i j"]) == 0


def test_a_short_result_contained_in_a_long_one_above_is_a_repeat() -> None:
    assert wording_repeats(["a b c d e f g h i j", "c d e f"]) == 1


def test_texts_shorter_than_a_run_are_never_repeats() -> None:
    assert wording_repeats(["a b", "a b", ""]) == 0


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
    for row, told in enumerate(most_shared_earlier(texts)):
        if told is None:
            assert row == 0 or not runs[row]
            continue
        shared = [len(runs[row] & earlier) for earlier in runs[:row]]
        assert told.place == shared.index(max(shared))
        assert told.share == shared[told.place] / len(runs[row])


def test_the_text_that_holds_most_is_named_with_its_share() -> None:
    told = most_shared_earlier(["a b c d x", "a b c d e", "a b c d e f"])[2]
    assert told is not None
    assert (told.place, told.share) == (1, 0.75)


def test_a_result_may_repeat_one_by_vector_and_another_by_wording() -> None:
    found = repeats(vectors_of(A, B, NEAR_A), ["one text here", SENTENCE, SENTENCE], 0.1)[2]
    assert found.by_vector is not None
    assert found.by_wording is not None
    assert (found.by_vector.place, found.by_wording.place) == (0, 1)
    assert found.by_wording.share >= WORDING_SHARE


def test_nearness_is_a_fifth_of_the_typical_distance_within_bounds() -> None:
    assert nearness(0.5) == pytest.approx(0.1)
    assert nearness(0.0) == pytest.approx(0.02)
    assert nearness(2.0) == pytest.approx(0.30)
