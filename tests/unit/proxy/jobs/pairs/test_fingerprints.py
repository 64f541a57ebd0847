"""A text shares a fingerprint with each text that holds it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.jobs.pairs.fingerprints import TEXT_BANDS, bands_of, exact_hash, fingerprints, readable
from vecsieve.proxy.selection.judging.judge import Judge
from vecsieve.proxy.selection.policy import Tier
from vecsieve.proxy.selection.reading.text import Text

CODE = "def add(one, other):\n    total = one + other\n    return total\n"


def read(raw: str) -> Text:
    text = readable(raw)
    assert text is not None, raw
    return text


def share(one: str, other: str) -> bool:
    return bool(np.isin(fingerprints(read(one)), fingerprints(read(other))).any())


SENTENCES = st.lists(
    st.sampled_from(["stone", "river", "field", "light", "seven", "house"]), min_size=1, max_size=90
).map(lambda words: " ".join(words).capitalize() + ".")


@given(st.lists(SENTENCES, min_size=1, max_size=5), st.data())
def test_what_one_text_holds_shares_a_fingerprint_with_it(sentences: list[str], data: st.DataObject) -> None:
    """Invariant: if the judge says that one text is a run of another, read exactly, both have a fingerprint in common."""
    whole = " ".join(sentences)
    words = whole.split()
    start = data.draw(st.integers(0, len(words) - 1))
    part = " ".join(words[start : data.draw(st.integers(start + 1, len(words)))])
    judge = Judge(Tier.EXACT)
    judge.keep(0, read(whole))
    if judge.verdict(read(part)).holders:
        assert share(part, whole)


@pytest.mark.parametrize(
    ("part", "whole"),
    [
        ("Not here.", "We looked for it in the house. Not here. It was in the field."),
        ("日本語の文章です。", "これは前の文章です。日本語の文章です。"),
        (CODE, f"{CODE}\n\ndef other(one):\n    return one\n"),
        (CODE, CODE.replace(" + ", "  +  ")),
    ],
)
def test_short_texts_other_scripts_and_code_meet_what_holds_them(part: str, whole: str) -> None:
    assert share(part, whole)


@pytest.mark.parametrize(
    ("one", "other", "is_equal"),
    [
        ("The river  rises.", "The river rises.", True),
        ("The RIVER rises.", "The river rises.", True),
        ("It runs at 5 mW", "It runs at 5 MW", False),
        ("Sent by Anna to Ben", "Sent by Ben to Anna", False),
        (CODE, CODE.replace("    return", "return"), False),
    ],
)
def test_equal_texts_have_one_hash(one: str, other: str, is_equal: bool) -> None:
    hashes = [exact_hash(raw, read(raw)) for raw in (one, other)]
    assert (hashes[0] == hashes[1]) == is_equal


@pytest.mark.parametrize("raw", [None, "", "\u200b", "word " * 30_000, "ab, " * 24_000])
def test_what_is_not_read_has_no_fingerprints(raw: str | None) -> None:
    assert readable(raw) is None


def test_equal_fingerprints_are_in_one_band() -> None:
    hashes = np.arange(1000, dtype=np.uint64)
    assert set(bands_of(hashes).tolist()) == set(range(TEXT_BANDS))
    assert (bands_of(hashes) == bands_of(hashes.copy())).all()
