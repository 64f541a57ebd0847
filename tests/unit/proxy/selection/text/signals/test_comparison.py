"""The near-text signals: which there are, and about which pairs each of them may speak."""

from __future__ import annotations

import numpy as np
import pytest

from vecsieve.config.policy import TextSettings
from vecsieve.proxy.selection.geometry import Mask
from vecsieve.proxy.selection.text.signals import SIGNALS
from vecsieve.proxy.selection.text.signals.comparison import Comparison
from vecsieve.proxy.selection.text.tokens import hashed
from vecsieve.proxy.selection.values import Link

TEXT = " ".join(f"w{i}" for i in range(20))
EACH = np.arange(3, dtype=np.intp)
THRESHOLDS = {"containment": 0.5, "jaccard": 0.5, "indel": 0.5, "minhash": 0.5, "simhash": 16}


def compared(*texts: str, among: Mask) -> Comparison:
    return Comparison(hashed(texts), EACH, EACH, among)


def test_each_signal_has_a_setting_and_a_link_of_its_own() -> None:
    assert set(SIGNALS) == set(THRESHOLDS)
    assert set(SIGNALS) <= set(TextSettings.model_fields)
    assert {name: signal.link for name, signal in SIGNALS.items()} == {name: Link[name.upper()] for name in SIGNALS}


@pytest.mark.parametrize("name", THRESHOLDS)
def test_no_signal_passes_a_pair_that_is_not_compared_or_has_no_words(name: str) -> None:
    among = np.ones((3, 3), np.bool_)
    among[0, 1] = False
    near = SIGNALS[name].compare(compared(TEXT, TEXT, "", among=among), THRESHOLDS[name])
    assert near.passed.tolist() == [[True, False, False], [True, True, False], [False, False, False]]
    assert near.similarity.dtype == np.float32


@pytest.mark.parametrize("name", THRESHOLDS)
def test_rows_and_columns_choose_the_texts(name: str) -> None:
    known = hashed([TEXT, "other words than these", TEXT])
    texts = Comparison(known, np.array([2]), np.array([0, 1]), np.ones((1, 2), np.bool_))
    near = SIGNALS[name].compare(texts, THRESHOLDS[name])
    assert near.passed.tolist() == [[True, False]]
    assert near.similarity[0, 0] == 1.0


def test_what_signals_share_is_found_once() -> None:
    texts = compared(TEXT, TEXT, TEXT, among=np.ones((3, 3), np.bool_))
    assert texts.shared is texts.shared
    assert texts.few is texts.grams, "all texts are fingerprinted: their 3-grams are the same"
