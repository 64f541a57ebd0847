"""Words in any script: as many, and as different, as the script has."""

from __future__ import annotations

import unicodedata

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.texts import ANY_TEXT, ODD_TEXT
from vecsieve.proxy.selection.text.canonical import folded, unwrapped
from vecsieve.proxy.selection.text.tokens import cut, words


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("hello, world_1!", ("hello", "world_1")),
        ("don’t", ("don", "t")),
        ("0.28 %", ("0", "28")),
        ("привет мир", ("привет", "мир")),
        ("日本語", ("日", "本", "語")),
        ("テキスト", ("テ", "キ", "ス", "ト")),
        ("ไทย", ("ไ", "ท", "ย")),
        ("foo漢bar", ("foo", "漢", "bar")),
        ("안녕 세상", ("안녕", "세상")),
        ("कि की", ("कि", "की")),
        ("مرحبا بالعالم", ("مرحبا", "بالعالم")),
        ("𝒳𠀀𠀁", ("𝒳", "𠀀", "𠀁")),
        ("👍 👎👍", ("👍", "👎", "👍")),
        ("?!", ("?", "!")),
        ("\ud800", ("\ud800",)),
        ("a \ud800", ("a",)),
        ("", ()),
    ],
)
def test_words_of_many_scripts(text: str, wanted: tuple[str, ...]) -> None:
    assert words(text) == wanted


@given(ANY_TEXT | ODD_TEXT)
def test_every_text_that_is_not_blank_has_words_and_they_stand_in_it(text: str) -> None:
    """Invariant: words are found in the text in their order; none only where the text is empty."""
    canonical = folded(unwrapped(text))
    found = words(canonical)
    assert bool(found) == bool(canonical)
    place = 0
    for word in found:
        assert word
        place = canonical.index(word, place) + len(word)


@given(st.lists(ANY_TEXT | ODD_TEXT, max_size=8))
def test_many_texts_at_once_have_the_words_that_each_has_alone(texts: list[str]) -> None:
    """Invariant: cutting texts together is cutting each of them."""
    known = [folded(unwrapped(text)) for text in texts]
    found = cut(known)
    together = [
        "".join(map(chr, found.codes[start:end].tolist()))
        for start, end in zip(found.starts.tolist(), found.ends.tolist(), strict=True)
    ]
    assert found.borders[0] == 0
    assert (
        [tuple(together[start:end]) for start, end in np.lib.stride_tricks.sliding_window_view(found.borders, 2)]
        == [words(text) for text in known]
        if known
        else len(together) == 0
    )


@given(st.characters(categories=("L", "M", "N")))
def test_every_letter_mark_and_digit_is_part_of_a_word(letter: str) -> None:
    """Invariant: between letters of a script with spaces it is never a separator."""
    assert "".join(words(f"a{letter}b")) == f"a{letter}b"


@given(st.characters(categories=("P", "S", "Z"), exclude_characters="_"))
def test_every_sign_and_blank_separates(sign: str) -> None:
    """Invariant: letters on both sides of it are two words."""
    assert words(f"a{sign}b") == ("a", "b")
    assert unicodedata.category(sign)[0] in "PSZ"
