"""The near-text signals: which are asked, in which order, about whom."""

from __future__ import annotations

import numpy as np

from support.texts import rules
from vecsieve.proxy.selection.text.matching import signals
from vecsieve.proxy.selection.text.tokens import hashed
from vecsieve.proxy.selection.values import Link

TEXT = " ".join(f"w{i}" for i in range(20))
EVERYTHING = rules(containment=0.5, jaccard=0.5, indel=0.5, minhash=0.5, simhash=64)
EACH = np.arange(3, dtype=np.intp)


def test_signals_come_in_the_order_of_links() -> None:
    found = [signal.link for signal in signals(hashed([TEXT] * 3), EACH, EACH, np.ones((3, 3), np.bool_), EVERYTHING)]
    assert found == [Link.CONTAINMENT, Link.JACCARD, Link.INDEL, Link.MINHASH, Link.SIMHASH]
    assert found == sorted(found)


def test_what_is_switched_off_is_not_asked() -> None:
    asked = signals(hashed([TEXT] * 3), EACH, EACH, np.ones((3, 3), np.bool_), rules(indel=0.5))
    assert [signal.link for signal in asked] == [Link.INDEL]


def test_no_signal_passes_a_pair_that_is_not_compared_or_has_no_words() -> None:
    compared = np.ones((3, 3), np.bool_)
    compared[0, 1] = False
    for signal in signals(hashed([TEXT, TEXT, ""]), EACH, EACH, compared, EVERYTHING):
        assert signal.passed.tolist() == [[True, False, False], [True, True, False], [False, False, False]], signal.link
        assert signal.similarity.dtype == np.float32


def test_rows_and_columns_choose_the_texts() -> None:
    known = hashed([TEXT, "other words than these", TEXT])
    for signal in signals(known, np.array([2]), np.array([0, 1]), np.ones((1, 2), np.bool_), rules(jaccard=0.5)):
        assert signal.passed.tolist() == [[True, False]]
        assert signal.similarity.tolist() == [[1.0, 0.0]]
