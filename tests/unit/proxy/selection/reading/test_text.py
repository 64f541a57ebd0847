"""The passages of a text: tokens, sentences, articles; kept by content; never raised, whatever the text."""

from __future__ import annotations

import pytest
from hypothesis import given

from support.selection.judgements import laid, plain, tokens
from support.selection.texts import ANY_TEXT, HOSTILE, ODD_TEXT, forget, hostile_text
from vecsieve.proxy.selection.reading.text import UNREAD, Text, text_of


def sentences(raw: str) -> list[str]:
    passage = plain(raw)
    return [" ".join(passage.tokens[one:other]) for one, other in zip(passage.bounds, passage.bounds[1:], strict=False)]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("It runs. It hums. It stops.", 3),
        ("It runs! It hums? It stops.", 3),
        ('He said: "It runs." Then it stopped.', 2),
        ("See Dr. Berg at 5 p.m. on Monday.", 1),
        ("See fig. 3 of it.", 1),
        ("It costs 3.50 a day.", 1),
        ("Die Pumpe l\u00e4uft z.B. nachts. Sie ist alt.", 2),
        ("\u6cf5\u5728\u8fd0\u884c\u3002\u58f0\u97f3\u5f88\u5927\uff01", 2),
        ("\u0645\u0636\u062e\u0629 \u062a\u0639\u0645\u0644. \u0647\u064a \u0642\u062f\u064a\u0645\u0629\u061f", 2),
        ("\u0938\u092d\u093e \u0939\u0948\u0964 \u0935\u0939 \u0938\u092e\u093e\u092a\u094d\u0924 \u0939\u0948\u0964", 2),
        ("- clean the filter\n- close the valve", 2),
    ],
)  # fmt: skip
def test_sentences_are_found_in_any_script(text: str, count: int) -> None:
    assert len(sentences(text)) == count


@pytest.mark.parametrize(
    ("one", "other"),
    [("Open the valve of a pump.", "Open valve of pump."), ("An engine is here.", "Engine is here.")],
)
def test_articles_say_nothing_in_english(one: str, other: str) -> None:
    assert tokens(one) == tokens(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("It has a few parts.", "It has few parts."),
        ("Take vitamin A daily.", "Take vitamin daily."),
        ("It is of type A.", "It is of type."),
        ("Il y a une pompe.", "Il y une pompe."),
        ("Voy a casa de la tia.", "Voy casa de la tia."),
        ("Il la vede e la porta via.", "Il vede e la porta via."),
    ],
)
def test_an_article_that_says_something_counts(one: str, other: str) -> None:
    assert tokens(one) != tokens(other)


def test_an_exact_reading_has_the_articles_and_the_spelling() -> None:
    assert tokens("the colour of final things", exact=True) != tokens("color of final things", exact=True)
    assert tokens("the colour of final things") == tokens("color of final things")


def test_a_text_of_prose_has_one_passage_and_one_with_code_two() -> None:
    assert text_of("The mill stands. It is old.").passages()[1] is None
    assert laid("def f(x):\n    return x").tokens != plain("def f(x):\n    return x").tokens


def test_a_quote_begins_where_somebody_else_speaks() -> None:
    passage = plain("I see.\n\nOn Monday Bo wrote:\n> It is closed.")
    assert passage.words(passage.quote, len(passage.tokens)).endswith("It is closed.")
    assert plain("It is closed.").quote == 3


def test_a_passage_gives_the_words_as_they_were_written() -> None:
    passage = plain("The Pump takes 5 mW, (at most) 10 mW.")
    assert passage.words(0, len(passage.tokens)) == "The Pump takes 5 mW, (at most) 10 mW." or passage.words(
        0, len(passage.tokens)
    ).startswith("Pump takes 5 mW")
    assert plain("word " * 50).words(0, 50, most=3) == "word word word \u2026"


def test_the_same_text_is_the_same_object_until_it_is_forgotten() -> None:
    forget()
    one = text_of("The mill stands.")
    assert text_of("The mill stands.") is one
    assert one.passages() is one.passages()
    forget()
    assert text_of("The mill stands.") is not one


def test_an_unread_text_is_never_read() -> None:
    assert UNREAD.cost() < 0


@given(ANY_TEXT | ODD_TEXT | hostile_text())
def test_reading_never_raises_and_is_the_same_again(raw: str) -> None:
    """Whatever a text is, it is read or not, its sentences are in order, and a second reading is equal."""
    text = Text(raw)
    if text.cost() < 0:
        return
    for exact in (False, True):
        first = text.passages(exact=exact)
        assert Text(raw).passages(exact=exact) == first
        for passage in first:
            if passage is not None:
                assert len(passage.origins) == len(passage.tokens)
                assert passage.bounds[0] == 0
                assert list(passage.bounds) == sorted(set(passage.bounds))
                assert passage.bounds[-1] == len(passage.tokens)
                assert 0 <= passage.quote <= len(passage.tokens)


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_text_is_read_or_not_and_never_raises(name: str) -> None:
    text = Text(HOSTILE[name])
    if text.cost() >= 0:
        text.passages()
