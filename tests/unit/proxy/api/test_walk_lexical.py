from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.chunks import TEXTS
from vecsieve.proxy.api.walk import Reader, bare, jaccard, lexicon_of

TEXT_LISTS = st.lists(TEXTS, min_size=1, max_size=6)


def words(*texts: str) -> list[np.ndarray[tuple[int], np.dtype[np.uint32]]]:
    return [each.vocabulary for each in Reader().read(texts)]


@given(TEXT_LISTS)
def test_the_rows_and_the_matrix_say_the_same(texts: list[str]) -> None:
    """For any texts: the Jaccard coefficients of the last with each are a row of those of all pairs, and so are sets' own."""
    found = words(*texts)
    matrix = jaccard(found)
    row = lexicon_of(found).jaccards(found[-1])
    assert matrix[-1] == pytest.approx(row, abs=1e-6)
    sets = [set(each.tolist()) for each in found]
    for (i, j), value in np.ndenumerate(matrix):
        union = sets[i] | sets[j]
        assert value == pytest.approx(len(sets[i] & sets[j]) / len(union) if union else 0.0, abs=1e-6)


@given(TEXT_LISTS, TEXTS)
def test_the_cosines_are_those_of_the_definition(texts: list[str], text: str) -> None:
    """For any texts: the TF-IDF cosine is that of binary counts and smoothed frequencies."""
    *before, own = words(*texts, text)
    sets = [set(each.tolist()) for each in (*before, own)]
    weights = {
        word: math.log((1 + len(sets)) / (1 + sum(word in each for each in sets))) + 1 for word in set().union(*sets)
    }

    def length(words: set[int]) -> float:
        return math.sqrt(sum(weights[word] ** 2 for word in words))

    for value, each in zip(lexicon_of(before).cosines(own), sets, strict=False):
        shared = sum(weights[word] ** 2 for word in each & sets[-1])
        assert value == pytest.approx(shared / (length(each) * length(sets[-1])) if shared else 0.0, abs=1e-9)


@given(TEXT_LISTS, TEXT_LISTS)
def test_what_is_read_of_a_text_does_not_depend_on_what_comes_behind(texts: list[str], more: list[str]) -> None:
    """For any texts: reading them at once, one by one and with others behind is the same."""
    alone, reader = Reader().read(texts), Reader()
    one_by_one = [reader.read([text])[0] for text in texts]
    among = Reader().read([*texts, *more])[: len(texts)]
    for found in (one_by_one, among):
        assert [each.key for each in found] == [each.key for each in alone]
        assert [each.vocabulary.tolist() for each in found] == [each.vocabulary.tolist() for each in alone]


def test_reading_ends_with_the_first_text_beyond_the_budget() -> None:
    texts = [f"{number} " + "word " * 19_000 for number in range(13)]
    found = Reader().read([*texts, "short"])
    has_words = [len(each.vocabulary) > 0 for each in found]
    assert has_words == [True] * has_words.count(True) + [False] * has_words.count(False)
    assert not has_words[-1]
    assert found[-1].key == "short"


def test_a_text_that_is_dear_to_read_is_not_read() -> None:
    (found,) = Reader().read(["a" + "\u0301" * 50_000])
    assert len(found.vocabulary) == 0


@pytest.mark.parametrize(
    ("canonical", "wanted"),
    [("", ""), ("...", "..."), ("a, b.", "a b"), ("(a) [b] 'c'", "a b c"), ("- a", "- a"), ("a.b", "a.b"), ("?", "?")],
)
def test_only_what_surrounds_words_is_stripped(canonical: str, wanted: str) -> None:
    assert bare(canonical) == wanted


def test_scripts_without_spaces_share_neighbouring_characters() -> None:
    one, same, other = words("退款需要三个工作日", "退款需要三个工作日内", "三日内需要退货个工")
    shares = lexicon_of([same, other]).shares(one)
    assert shares[0] == 1.0
    assert shares[1] < 0.6


def test_of_no_words_nothing_is_shared() -> None:
    nothing, some = words("", "a b")
    found = lexicon_of([nothing, some])
    for row in (found.jaccards(nothing), found.cosines(nothing), found.shares(nothing)):
        assert row.tolist() == [0.0, 0.0]
