"""The pairs of sentences are what they say, and the tool that tries them counts what a search loses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from quality.other_words import BESIDE, background, losing, unit
from quality.sentences import FIRST, LACKING, SECOND, Sentences

from support.jobs.eval_data import NEEDS_EVAL_DATA
from vecsieve.proxy.selection.values import FloatMatrix

WORDS = 256


def by_words(texts: Sequence[str]) -> FloatMatrix:
    """Texts as counts of their words, each word at a place of its own or nearly: the more words differ, the farther they are."""
    rows = np.zeros((len(texts), WORDS), np.float32)
    for row, text in enumerate(texts):
        for word in text.lower().split():
            rows[row, sum(map(ord, word)) % WORDS] += 1.0
    return rows


def others() -> tuple[list[str], FloatMatrix]:
    texts = [f"subject{number} verb{7 * number} object{13 * number} place{3 * number}" for number in range(2 * BESIDE)]
    return texts, unit(by_words(texts))


@pytest.mark.parametrize("sentences", [FIRST, SECOND, LACKING], ids=lambda each: each.name)
def test_no_pair_occurs_twice_and_no_sentence_is_its_own_partner(sentences: Sentences) -> None:
    pairs = [*sentences.different, *sentences.reworded]
    assert len({frozenset(pair) for pair in pairs}) == len(pairs)
    assert all(one != other for one, other in pairs)


def test_the_second_pairs_share_none_with_the_first() -> None:
    assert not {each for pair in FIRST.different for each in pair} & {
        each for pair in SECOND.different for each in pair
    }


def test_a_copy_loses_one_and_two_unlike_sentences_lose_none() -> None:
    copy = ("The committee approved the budget for the library.", "THE COMMITTEE APPROVED THE BUDGET FOR THE LIBRARY.")
    unlike = ("The committee approved the budget.", "Add two cups of flour and stir.")
    assert losing((copy, unlike), by_words, others()) == [copy]


def test_a_sentence_is_followed_by_the_same_text_as_its_partner() -> None:
    asked: list[str] = []

    def listening(texts: Sequence[str]) -> FloatMatrix:
        asked.extend(texts)
        return by_words(texts)

    losing((("One is here.", "Two are here."),), listening, others(), followed="And more.")
    assert asked == ["One is here. And more.", "Two are here. And more."]


@NEEDS_EVAL_DATA
def test_the_background_is_all_labelled_sets_with_vectors_of_length_one() -> None:
    texts, vectors = background()
    assert len(texts) == len(vectors) > 5_000
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1.0, atol=1e-2)
