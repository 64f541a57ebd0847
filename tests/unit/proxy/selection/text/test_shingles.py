"""3-grams, against plain sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.texts import gram_sets, passages
from vecsieve.proxy.selection.text import shingles
from vecsieve.proxy.selection.text.shingles import FEW, distinct, grams, shared
from vecsieve.proxy.selection.text.tokens import hashed, words

LONG = " ".join(f"w{i}" for i in range(100))


def known(*texts: str) -> shingles.Shared:
    return shared(grams(hashed(texts)))


@given(st.lists(passages(), max_size=14))
def test_counts_are_those_of_plain_sets(texts: list[str]) -> None:
    """Invariant: counts[i, j] == |A & B| and sizes[i] == |A| of the sets of word 3-grams."""
    sets = gram_sets([words(text) for text in texts])
    found = known(*texts)
    assert found.sizes.tolist() == [len(each) for each in sets]
    assert found.counts.tolist() == [[len(one & other) for other in sets] for one in sets]


@pytest.mark.parametrize("copies", [2, FEW - 1, FEW, FEW + 1, 3 * FEW])
def test_a_gram_of_any_number_of_texts_is_counted_once_a_pair(copies: int) -> None:
    counts = known(*["a b c d"] * copies, "x y z").counts
    assert (counts[:copies, :copies] == 2).all()
    assert counts[copies].tolist() == [0] * copies + [1]


def test_many_shared_grams_are_counted_in_several_products(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [LONG] * (FEW + 2) + [" ".join(LONG.split()[i:]) for i in range(1, 4)]
    whole = known(*texts).counts
    monkeypatch.setattr(shingles, "_BLOCK", 7)
    assert np.array_equal(known(*texts).counts, whole)
    assert whole[0].tolist() == [98] * (FEW + 2) + [97, 96, 95]


def test_one_and_two_words_are_one_gram() -> None:
    found = known("a", "a", "a b", "a b", "a b c", "")
    assert found.sizes.tolist() == [1, 1, 1, 1, 1, 0]
    assert found.counts[0].tolist() == [1, 1, 0, 0, 0, 0]
    assert found.counts[2].tolist() == [0, 0, 1, 1, 0, 0]


@given(st.lists(passages(), min_size=1, max_size=10))
def test_different_grams_are_sorted_and_each_is_there_once_a_text(texts: list[str]) -> None:
    """Invariant: (value, owner) pairs strictly ascend, and owners have as many as they have different 3-grams."""
    values, owners = distinct(grams(hashed(texts)))
    pairs = list(zip(values.tolist(), owners.tolist(), strict=True))
    assert pairs == sorted(set(pairs))
    sizes = [len(each) for each in gram_sets([words(text) for text in texts])]
    assert np.bincount(owners, minlength=len(texts)).tolist() == sizes
