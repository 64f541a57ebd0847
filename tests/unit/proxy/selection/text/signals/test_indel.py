"""The indel ratio by words, against its definition and the length of a longest common subsequence found the slow way."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.texts import passages
from vecsieve.proxy.selection.text.signals.indel import ratios
from vecsieve.proxy.selection.text.tokens import hashed
from vecsieve.proxy.selection.values import FloatMatrix


def longest(one: Sequence[str], other: Sequence[str]) -> int:
    row = [0] * (len(other) + 1)
    for word in one:
        before = row.copy()
        for j, against in enumerate(other, 1):
            row[j] = before[j - 1] + 1 if word == against else max(before[j], row[j - 1])
    return row[-1]


def square(texts: Sequence[str], least: float) -> FloatMatrix:
    each = np.arange(len(texts))
    return ratios(hashed(texts), each, each, np.ones((len(texts), len(texts)), np.bool_), least)


@given(st.lists(passages(largest=12), max_size=6), st.sampled_from([0.0, 0.3, 0.5, 0.85, 1.0]))
def test_the_ratio_is_its_definition_where_it_is_large_enough(texts: list[str], least: float) -> None:
    """Invariant: 2 LCS / (a + b) where at least ``least``, else 0; 0 where a text has no words."""
    found = square(texts, least)
    for i, one in enumerate(texts):
        for j, other in enumerate(texts):
            a, b = one.split(), other.split()
            ratio = 2 * longest(a, b) / (len(a) + len(b)) if a and b else 0.0
            assert found[i, j] == pytest.approx(ratio if ratio >= least else 0.0, abs=1e-6)


def test_chunks_that_overlap_have_about_that_ratio() -> None:
    words = [f"w{i}" for i in range(300)]
    found = square([" ".join(words[:100]), " ".join(words[20:120]), " ".join(words[50:150])], 0.0)
    assert found[0].tolist() == pytest.approx([1.0, 0.8, 0.5])


def test_only_compared_pairs_are_looked_at() -> None:
    compared = np.array([[False, True], [False, False]])
    found = ratios(hashed(["a b c", "a b c"]), np.arange(2), np.arange(2), compared, 0.5)
    assert found.tolist() == [[0.0, 1.0], [0.0, 0.0]]


def test_rows_and_columns_may_be_any_of_the_texts() -> None:
    texts = hashed(["a b c d", "x", "a b c e", "x"])
    found = ratios(texts, np.array([2, 1]), np.array([3, 0, 2]), np.ones((2, 3), np.bool_), 0.5)
    assert found.tolist() == [[0.0, 0.75, 1.0], [1.0, 0.0, 0.0]]
