"""SimHash: equal sets, equal bits; small edits, few bits; unrelated texts, half of them."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from support.texts import passages
from vecsieve.proxy.selection.text.shingles import distinct, grams
from vecsieve.proxy.selection.text.signals.simhash import BITS, hamming, simhash
from vecsieve.proxy.selection.text.tokens import hashed, mixed

LONG = [f"w{i}" for i in range(200)]


def prints(*texts: str) -> list[int]:
    found: list[int] = simhash(grams(hashed(texts))).tolist()
    return found


@given(st.lists(passages(), min_size=1, max_size=8))
def test_each_bit_is_the_majority_of_the_texts_own_grams(texts: list[str]) -> None:
    """Invariant: bit b is set exactly when more than half of the different 3-grams have it set."""
    found = grams(hashed(texts))
    values, owners = distinct(found)
    bits = mixed(values).tolist()
    for text, fingerprint in enumerate(simhash(found).tolist()):
        own = [value for value, owner in zip(bits, owners.tolist(), strict=True) if owner == text]
        wanted = sum(1 << bit for bit in range(BITS) if 2 * sum(value >> bit & 1 for value in own) > len(own))
        assert fingerprint == wanted


def test_an_edit_moves_few_bits_and_another_text_moves_half() -> None:
    edited = LONG.copy()
    edited[100] = "other"
    one, near, far = prints(" ".join(LONG), " ".join(edited), " ".join(f"v{i}" for i in range(200)))
    assert 0 < (one ^ near).bit_count() <= 12
    assert 20 <= (one ^ far).bit_count() <= 44


def test_equal_sets_of_grams_have_equal_bits() -> None:
    one, other = prints("a b c a b c a b c", "a b c a b c")
    assert one == other


def test_a_text_without_words_has_no_bits() -> None:
    assert prints("", "a b c")[0] == 0


@given(st.lists(st.integers(0, 2**64 - 1), max_size=5), st.lists(st.integers(0, 2**64 - 1), max_size=5))
def test_hamming_counts_different_bits(left: list[int], right: list[int]) -> None:
    """Invariant: the number of ones in the exclusive or."""
    found = hamming(np.array(left, np.uint64), np.array(right, np.uint64))
    assert found.shape == (len(left), len(right))
    assert found.tolist() == [[(one ^ other).bit_count() for other in right] for one in left]
