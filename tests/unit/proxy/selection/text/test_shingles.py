"""3-grams, against plain sets."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.texts import gram_sets, passages
from vecsieve.proxy.selection.text import shingles
from vecsieve.proxy.selection.text.shingles import (
    CONTAINED_AT_LEAST,
    COVERED_AT_LEAST,
    FEW,
    containment,
    distinct,
    grams,
    jaccard,
    shared,
)
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


@given(st.lists(passages(), max_size=14))
def test_jaccard_is_that_of_plain_sets(texts: list[str]) -> None:
    """Invariant: |A & B| / |A | B|, and 0 where both are empty."""
    sets = gram_sets([words(text) for text in texts])
    wanted = [[len(one & other) / max(len(one | other), 1) for other in sets] for one in sets]
    assert np.allclose(jaccard(known(*texts)), np.reshape(wanted, (len(texts), len(texts))), atol=1e-6)


@given(st.lists(passages(largest=40), max_size=14))
def test_containment_is_that_of_plain_sets(texts: list[str]) -> None:
    """Invariant: |A & B| / min(|A|, |B|) where the smaller has eight and the later one half its own in the other."""
    sets = gram_sets([words(text) for text in texts])
    n = len(texts)
    wanted = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            both, smaller, later = len(sets[i] & sets[j]), min(len(sets[i]), len(sets[j])), len(sets[max(i, j)])
            if smaller >= CONTAINED_AT_LEAST and both >= COVERED_AT_LEAST * later:
                wanted[i, j] = both / smaller
    assert np.allclose(containment(known(*texts)), wanted, atol=1e-6)


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


def test_a_passage_inside_a_longer_better_ranked_text_is_contained() -> None:
    part = " ".join(LONG.split()[20:60])
    assert containment(known(LONG, part))[0, 1] == 1.0


def test_a_longer_text_behind_the_passage_it_contains_says_more() -> None:
    part = " ".join(LONG.split()[20:60])
    assert containment(known(part, LONG))[0, 1] == 0.0


def test_a_few_words_are_a_copy_of_no_text_that_has_them() -> None:
    few = " ".join(LONG.split()[: CONTAINED_AT_LEAST + 1])  # seven 3-grams
    enough = " ".join(LONG.split()[: CONTAINED_AT_LEAST + 2])
    assert containment(known(LONG, few))[0, 1] == 0.0
    assert containment(known(LONG, enough))[0, 1] == 1.0


def test_the_order_of_words_counts() -> None:
    assert jaccard(known("a b c", "c b a"))[0, 1] == 0.0
    assert jaccard(known("a b", "b a"))[0, 1] == 0.0


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
