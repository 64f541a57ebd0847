"""What the calibrated rule reads of one text: different words, figures, names; of scripts without spaces, pairs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.texts import ANY_TEXT, ODD_TEXT, forget, gram_sets, hostile_text, passages, texts
from vecsieve.proxy.selection.text.canonical import folded
from vecsieve.proxy.selection.text.features import BITS, MOST_TOKENS, RECORD, Form, Text, complete, learn_words, text_of
from vecsieve.proxy.selection.text.margins import NO_MARGINS, Margins
from vecsieve.proxy.selection.text.tokens import hashed, words


def words_of(text: str) -> list[int]:
    form = Form(text)
    learn_words([form])
    found: list[int] = np.frombuffer(form.vocabulary or b"", np.uint32).tolist()
    return found


@pytest.mark.parametrize(
    ("text", "figures", "names"),
    [
        ("release 1.26.4 of numpy.add(x1, max_size=7)", {"1.26.4", "x1", "7"}, {"1.26.4", "numpy.add", "max_size"}),
        ("cve-2024-3094, in 5.6.1.", {"cve-2024-3094", "5.6.1"}, {"5.6.1"}),
        ("نسخة ٣٫٢ من numpy.add، v١ و (٤٥)", {"٣٫٢", "v١", "٤٥"}, {"numpy.add،"}),
        ("a sentence. another one - without any", set(), set()),
        ("", set(), set()),
    ],
)
def test_figures_and_names_are_tokens_with_a_digit_or_a_sign_inside(
    text: str, figures: set[str], names: set[str]
) -> None:
    assert [set(each) for each in Form(text).marks] == [figures, names]


def test_each_different_word_stands_once() -> None:
    assert words_of("to be or not to be") == sorted(
        int(each) >> 32 for each in set(hashed(["to be or not"])[0].tolist())
    )


def test_of_a_script_without_spaces_pairs_of_neighbours_are_words() -> None:
    one, turned = words_of("河流穿過古老的城市"), words_of("市城的老古過穿流河")
    assert not set(one) & set(turned)
    assert set(words_of("河流穿過城市")) & set(one)


def test_of_a_long_text_the_first_tokens_are_read() -> None:
    words = ["word"] * MOST_TOKENS
    assert Form(" ".join([*words, "x1"])).marks[0] == frozenset()
    assert Form(" ".join([*words[1:], "x1"])).marks[0] == {"x1"}


@given(hostile_text())
def test_any_text_has_features(text: str) -> None:
    """Invariant: words are ascending, and figures have a digit."""
    form = texts(text).form(0)
    if form is None:
        return
    learn_words([form])
    words = np.frombuffer(form.vocabulary or b"", np.uint32).astype(object)
    assert (np.diff(words) > 0).all()
    assert all(any(character.isdigit() for character in token) for token in form.marks[0])


def completed(known: list[str]) -> list[Form]:
    forms = [Form(text) for text in known]
    complete(forms)
    return forms


def grams_of(form: Form) -> list[int]:
    found: list[int] = np.frombuffer(form.grams or b"", np.uint32).tolist()
    return found


@given(st.lists(ANY_TEXT | ODD_TEXT | passages(), max_size=8))
def test_forms_have_the_same_features_together_and_alone(known: list[str]) -> None:
    """Invariant: whatever is completed with it, a form has as many words and different 3-grams as its text, and equal texts
    have equal records.
    """
    together = completed(known)
    assert [(form.record, form.grams) for form in together] == [
        (form.record, form.grams) for text in known for form in completed([text])
    ]
    for text, form, grams in zip(known, together, gram_sets([words(folded(text)) for text in known]), strict=True):
        record = np.frombuffer(form.record or b"", RECORD)[0]
        assert (record["words"], record["grams"]) == (len(words(folded(text))), len(grams))
        assert grams_of(form) == sorted(set(grams_of(form)))
        assert len(grams_of(form)) == len(grams)


@given(st.lists(passages(), min_size=2, max_size=2))
def test_the_bit_maps_bound_the_shared_grams(known: list[str]) -> None:
    """Invariant: two texts share no more 3-grams than the bits that both have, and those of one text that have no bit of their
    own.
    """
    one, other = completed(known)
    maps = [np.frombuffer(form.record or b"", RECORD)[0] for form in (one, other)]
    ones = [int.from_bytes(each["bits"].tobytes(), "little") for each in maps]
    both = (ones[0] & ones[1]).bit_count()
    doubled = min(int(each["grams"]) - mine.bit_count() for each, mine in zip(maps, ones, strict=True))
    assert len(set(grams_of(one)) & set(grams_of(other))) <= both + doubled
    assert max(ones) < 1 << BITS


def test_the_same_text_is_one_text_while_it_is_remembered() -> None:
    assert text_of("a text") is text_of("a text")
    before = text_of("a text")
    forget()
    assert text_of("a text") is not before


def test_a_text_says_how_much_it_holds() -> None:
    small, large = Text("a word"), Text("many words " * 1000)
    before = large.nbytes
    for each in (small, large):
        complete([each.unwrap()])
    assert small.nbytes < before < large.nbytes


@pytest.mark.parametrize("raw", ["a text of some words", "“quoted” and\nof two lines", "", "日本語のテキスト"])
@pytest.mark.parametrize("is_read", [False, True])
def test_a_text_is_made_again_of_its_essence(raw: str, is_read: bool) -> None:
    text = Text(raw)
    if is_read:
        assert text.cost() >= 0
        complete([text.unwrap()])
    again = Text.of_essence(text.essence)
    assert again.raw == raw
    assert again.essence == text.essence
    if is_read:
        assert again.unwrap().record == text.unwrap().record
        complete([again.unwrap()])
        assert again.unwrap().grams == text.unwrap().grams


def test_a_text_that_is_remembered_is_not_made_again() -> None:
    text = text_of("a text that is remembered")
    assert Text.of_essence(text.essence) is text


def test_the_lines_of_a_text_are_kept_once_for_each_of_its_forms() -> None:
    body = "a line of the body, long enough to be more than a record, and longer than what stands above and below it"
    text, margins = Text(f"header 7\n{body}\nthree"), Margins(frozenset({"header #"}), frozenset())
    assert text.unwrap() is text.unwrap()
    assert text.within(margins) is text.within(Margins(frozenset({"header #", "other"}), frozenset()))
    assert text.within(margins).body == f"{body}\nthree"
    assert text.within(NO_MARGINS) is text.unwrap()
