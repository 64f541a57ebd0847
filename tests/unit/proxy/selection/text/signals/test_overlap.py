"""Containment and Jaccard similarity, against plain sets."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from support.texts import gram_sets, passages
from vecsieve.proxy.selection.text.shingles import Shared, grams, shared
from vecsieve.proxy.selection.text.signals.overlap import CONTAINED_AT_LEAST, COVERED_AT_LEAST, containment, jaccard
from vecsieve.proxy.selection.text.tokens import hashed, words

LONG = " ".join(f"w{i}" for i in range(100))


def known(*texts: str) -> Shared:
    return shared(grams(hashed(texts)))


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
