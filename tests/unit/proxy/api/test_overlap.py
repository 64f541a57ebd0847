from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.jobs.chunks import TEXTS
from vecsieve.proxy.api.overlap import Words, jaccard, shares, words_of
from vecsieve.proxy.selection.reading.text import Text

TEXT_LISTS = st.lists(TEXTS, min_size=1, max_size=6)


def words(*texts: str) -> list[Words]:
    return words_of([Text(text) for text in texts])


@given(TEXT_LISTS)
def test_the_coefficients_are_those_of_the_definition(texts: list[str]) -> None:
    """For any texts: the Jaccard coefficients of all pairs are those of their sets of words."""
    word_sets = words(*texts)
    for (i, j), value in np.ndenumerate(jaccard(word_sets)):
        union = word_sets[i] | word_sets[j]
        assert value == pytest.approx(len(word_sets[i] & word_sets[j]) / len(union) if union else 0.0, abs=1e-6)


def test_words_that_many_texts_have_are_counted_as_those_of_few() -> None:
    coefficients = jaccard(words(*(f"common words and number{number} alone" for number in range(9))))
    assert coefficients == pytest.approx(np.where(np.eye(9, dtype=bool), 1.0, 4 / 6), abs=1e-6)


def test_scripts_without_spaces_share_characters() -> None:
    one, same, other = words("退款需要三个工作日", "退款需要三个工作日内", "天气很好")
    assert shares([same, other], one).tolist() == [1.0, 0.0]


def test_of_no_words_nothing_is_shared() -> None:
    nothing, some = words("", "a b")
    assert jaccard([nothing, some])[0].tolist() == [0.0, 0.0]
    assert shares([nothing, some], nothing).tolist() == [0.0, 0.0]
    assert words_of([None]) == [frozenset()]
