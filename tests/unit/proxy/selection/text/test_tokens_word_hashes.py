"""Hashes of words: the same for the same word wherever it stands, in every process; another for another."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from support.texts import ANY_TEXT, ODD_TEXT
from vecsieve.proxy.selection.text import tokens
from vecsieve.proxy.selection.text.canonical import folded, unwrapped
from vecsieve.proxy.selection.text.tokens import hashed, mixed, words


@given(st.lists(ANY_TEXT | ODD_TEXT, max_size=10))
def test_equal_hashes_mean_equal_words(texts: list[str]) -> None:
    """Invariant: over all words of all texts, hash and word determine each other."""
    known = [folded(unwrapped(text)) for text in texts]
    pairs = {
        (word, number)
        for text, numbers in zip(known, hashed(known), strict=True)
        for word, number in zip(words(text), numbers.tolist(), strict=True)
    }
    assert len(pairs) == len({word for word, _ in pairs}) == len({number for _, number in pairs})


def test_a_hundred_thousand_words_have_as_many_hashes() -> None:
    (numbers,) = hashed([" ".join(f"{i:x}" for i in range(100_000))])
    assert len(np.unique(numbers)) == 100_000


def test_a_text_longer_than_a_batch_has_the_hashes_of_its_parts() -> None:
    text = " ".join(f"word{i}" for i in range(20_000))
    assert len(text) > tokens._BATCH
    whole, *parts = hashed([text, *(text.split())[-3:]])
    assert whole[-3:].tolist() == [part.item() for part in parts]


def test_batches_do_not_show() -> None:
    texts = [f"alpha beta {'x' * 20_000} n{i}" for i in range(12)]
    assert [part.tolist() for part in hashed(texts)] == [hashed([text])[0].tolist() for text in texts]


def test_hashes_are_the_same_in_every_process() -> None:
    program = "from vecsieve.proxy.selection.text.tokens import hashed; print(hashed(['ein Wort 漢 x_1'])[0].tolist())"
    seeds = [{"PYTHONHASHSEED": seed, "OPENBLAS_NUM_THREADS": "1"} for seed in ("1", "2")]
    printed = [
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=seed).stdout
        for seed in seeds
    ]
    assert printed[0] == printed[1] == f"{hashed(['ein Wort 漢 x_1'])[0].tolist()}\n"


def test_no_texts_have_no_hashes() -> None:
    assert hashed([]) == []
    assert [part.tolist() for part in hashed(["", ""])] == [[], []]


@given(st.lists(st.integers(0, 2**64 - 1), unique=True))
def test_mixing_is_one_to_one_and_leaves_its_argument(numbers: list[int]) -> None:
    """Invariant: different numbers, different outcomes."""
    values = np.array(numbers, np.uint64)
    assert len(np.unique(mixed(values))) == len(numbers)
    assert values.tolist() == numbers
