"""MinHash: rows agree as often as sets overlap; bands meet where the S-curve says so."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.texts import passages
from vecsieve.proxy.selection.text.shingles import grams, shared
from vecsieve.proxy.selection.text.signals import minhash
from vecsieve.proxy.selection.text.signals.minhash import BANDS, ROWS, meet, signatures
from vecsieve.proxy.selection.text.signals.overlap import jaccard
from vecsieve.proxy.selection.text.tokens import hashed

LONG = [f"w{i}" for i in range(400)]


def test_the_share_of_equal_rows_estimates_jaccard() -> None:
    texts = [" ".join(LONG[start : start + 200]) for start in range(0, 200, 10)]
    found = grams(hashed(texts))
    signature = signatures(found)
    agreeing = (signature[:, None, :] == signature[None, :, :]).mean(axis=2)
    # 128 rows: a standard error of at most .045; four of them, over 400 pairs.
    assert np.abs(agreeing - jaccard(shared(found))).max() < 0.18


def test_alike_texts_meet_and_unlike_ones_do_not() -> None:
    edited = LONG.copy()
    edited[200] = "other"
    texts = [" ".join(LONG), " ".join(edited), " ".join(f"v{i}" for i in range(400))]
    assert meet(signatures(grams(hashed(texts)))).tolist() == [
        [True, True, False],
        [True, True, False],
        [False, False, True],
    ]


def test_one_band_is_enough_and_one_row_is_not() -> None:
    signature = np.arange(3 * BANDS * ROWS, dtype=np.uint64).reshape(3, -1)
    signature[1, 8:16] = signature[0, 8:16]
    signature[2, ::9] = signature[0, ::9]
    assert np.argwhere(np.triu(meet(signature), 1)).tolist() == [[0, 1]]


def test_texts_without_words_meet_nobody() -> None:
    assert not meet(signatures(grams(hashed(["", "", "a b c"]))))[:2].any()


def test_the_permutations_are_the_same_for_ever() -> None:
    # Signatures may be stored: a changed permutation would make all of them strangers.
    assert signatures(grams(hashed(["one two three"])))[0, :2].tolist() == [6226248563163659902, 14599424787755129266]


def test_signatures_do_not_depend_on_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    found = grams(hashed([" ".join(LONG), "", " ".join(LONG[:7]), "a"]))
    whole = signatures(found)
    monkeypatch.setattr(minhash, "_BLOCK", 5)
    assert np.array_equal(signatures(found), whole)


@given(st.lists(passages(), min_size=1, max_size=8))
def test_a_signature_depends_on_its_own_text_alone(texts: list[str]) -> None:
    """Invariant: signatures of many texts are the signatures of each; equal sets of 3-grams meet."""
    found = signatures(grams(hashed(texts)))
    assert found.tolist() == [signatures(grams(hashed([text])))[0].tolist() for text in texts]
    together = meet(found)
    for i, text in enumerate(texts):
        assert together[i, i] == bool(text)
