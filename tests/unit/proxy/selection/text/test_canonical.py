"""The canonical form: the same for what says the same, another for what does not."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.texts import ANY_TEXT, ODD_TEXT
from vecsieve.proxy.selection.text.canonical import _composed, _without_case, folded, unwrapped


def canonical(text: str) -> str:
    return folded(unwrapped(text))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Flow Control", "flow  control"),
        ("a\u00a0b", "a b"),
        ("mili\u00adtary", "military"),
        ("zero\u200bwidth", "zerowidth"),
        ("\ufeffstart", "start"),
        ("ﬁre", "fire"),
        ("STRASSE", "straße"),
        ("ｆｕｌｌ", "full"),
        ("é", "e\u0301"),
        ("mil-\nitary", "military"),
        ("mil-\r\nitary", "military"),
        ("mil- \n   itary", "military"),
        ("Москва", "МОСКВА"),
        (" a\tb\n\nc ", "a b c"),
        ("a\rb", "a b"),
    ],
)
def test_what_pipelines_change_is_gone(one: str, other: str) -> None:
    assert canonical(one) == canonical(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("1990-\n1995", "19901995"),  # a range, not a word
        ("Anglo-\nSaxon", "anglosaxon"),  # a capital continues no word
        ("a -\nb", "a b"),  # a dash between blanks joins nothing
        ("- \nitem", "item"),
        ("0.28 %", "0.19 %"),
        ("日本", "中国"),
        ("Москва", "Лондон"),
        ("👍", "👎"),
        ("café", "cafe"),
    ],
)
def test_what_says_something_else_stays_different(one: str, other: str) -> None:
    assert canonical(one) != canonical(other)


def test_lines_are_kept_until_the_text_is_folded() -> None:
    assert unwrapped("Title\r\nmil-\nitary\rend") == "Title\nmilitary\nend"


def test_a_text_of_nothing_visible_is_empty() -> None:
    assert canonical(" \u00a0\u200b\u00ad\n") == ""


@given(ANY_TEXT | ODD_TEXT)
def test_the_canonical_form_is_its_own_canonical_form(text: str) -> None:
    """Invariant: canonical(canonical(x)) == canonical(x)."""
    once = canonical(text)
    assert canonical(once) == once


@given(ANY_TEXT | ODD_TEXT)
def test_the_canonical_form_is_composed_and_has_single_blanks(text: str) -> None:
    """Invariant: NFKC, no run of blanks, none at the ends, nothing invisible."""
    once = canonical(text)
    assert unicodedata.is_normalized("NFKC", once)
    assert once == " ".join(once.split())
    assert not {"\u00ad", "\u200b", "\ufeff"} & set(once)


def test_every_single_character_settles() -> None:
    """In texts of 4,096 characters each, and by itself where it does not stay as it is."""
    unsettled = []
    for start in range(0, 0x110000, 4096):
        each = [f"a{chr(code)}b" for code in range(start, start + 4096)]
        once = canonical("|".join(each))
        assert canonical(once) == once
        same = set(once.split("|"))
        unsettled += [one for one in each if one not in same and (form := canonical(one)) != canonical(form)]
    assert not unsettled


def test_a_column_of_blank_lines_behind_a_hyphen_is_read_in_one_go() -> None:
    # A pattern that looks back would need two billion steps, and the test's deadline would end it.
    text = "a-" + "\n " * 50_000 + "1"
    assert unwrapped(text) == text


# What stands in otherwise plain texts, and next to it what composes or has case.
FEW_OTHERS_TEXT = st.text(
    st.sampled_from("aZ é“”–…\u00a0\u200b\u0301\u1100\u1161\u11a8ßİ가中\u2028\t\x1c-\n\u2010"), max_size=12
)


@given(ANY_TEXT | ODD_TEXT | FEW_OTHERS_TEXT)
def test_texts_with_few_other_characters_are_folded_as_all_are(text: str) -> None:
    """Invariant: the quick ways for ASCII and for characters that nothing changes give what the slow way gives."""
    composed = _composed(text)
    assert composed == _composed(text + "\u0133" * 20)[:-40]
    assert folded(composed) == " ".join(_without_case(composed).split())


@given(
    st.lists(
        st.sampled_from(["“quoted”", "re-\nsumed", "non‐\nbreaking", "well-\nKnown", "two\nlines", "-\n", "a"]),
        max_size=6,
    )
)
def test_both_hyphens_join_words_in_one_text(parts: list[str]) -> None:
    """Invariant: words that either hyphen splits are whole, whichever stands first."""
    found = unwrapped(" ".join(parts))
    assert found == " ".join(parts).replace("re-\nsumed", "resumed").replace("non‐\nbreaking", "nonbreaking")
