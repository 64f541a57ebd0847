"""Which marks count and which are formatting, which characters are the same, and which markup goes."""

from __future__ import annotations

import string
import unicodedata

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from support.selection.judgements import leaves, tokens
from support.selection.texts import ANY_TEXT, ODD_TEXT
from vecsieve.proxy.selection.policy import Tier
from vecsieve.proxy.selection.reading.marks import FORMATTING, undressed

# Each pair says the same.
SAME = {
    "composed": ("The caf\u00e9 opens", "The cafe\u0301 opens"),
    "hangul": ("\ud55c\uad6d\uc5b4 \uc218\uc5c5", unicodedata.normalize("NFD", "\ud55c\uad6d\uc5b4 \uc218\uc5c5")),
    "stops": ("The pump runs. It hums", "The pump runs; it hums!"),
    "quotes": ('He called it "a gift" twice', "He called it \u00aba gift\u00bb twice"),
    "curly": ("It's the owner's boat", "It\u2019s the owner\u2019s boat"),
    "dashes": ("the plan - and its cost - is public", "the plan \u2014 and its cost \u2013 is public"),
    "dashes without blanks": ("the plan—and its cost—is public", "the plan -- and its cost - is public"),
    "a minus": ("Store it at –5 degrees", "Store it at \u22125 degrees"),
    "brackets in prose": ("the plan (as of today) is public", "the plan, as of today, is public"),
    "bullets": ("- clean the filter\n- close the valve", "\u2022 clean the filter\n* close the valve"),
    "emphasis": ("press the **red** button _twice_", "press the red button twice"),
    "heading": ("## Cleaning the filter", "Cleaning the filter"),
    "ruler": ("Cleaning\n========\nOpen it first", "Cleaning\n\nOpen it first"),
    "soft hyphen": ("The regu\u00adla\u00adtion applies", "The regulation applies"),
    "zero width": ("The\u200b regulation\ufeff applies", "The regulation applies"),
    "word joiner": ("a\u2060b\u2060c counts", "abc counts"),
    "variation selector": ("\u2764\ufe0f for all", "\u2764 for all"),
    "zwnj": (
        "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u0628\u0631\u0648\u0645",
        "\u0645\u06cc\u062e\u0648\u0627\u0647\u0645 \u0628\u0631\u0648\u0645",
    ),
    "arabic points": (
        "\u0643\u064e\u062a\u064e\u0628\u064e \u0627\u0644\u0648\u064e\u0644\u064e\u062f\u064f",
        "\u0643\u062a\u0628 \u0627\u0644\u0648\u0644\u062f",
    ),
    "tatweel": (
        "\u0643\u0640\u0640\u062a\u0627\u0628 \u062c\u062f\u064a\u062f",
        "\u0643\u062a\u0627\u0628 \u062c\u062f\u064a\u062f",
    ),
    "hebrew points": (
        "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd \u05dc\u05db\u05dc",
        "\u05e9\u05dc\u05d5\u05dd \u05dc\u05db\u05dc",
    ),
    "hyphen at a line's end": ("the regu-\nlation of trade", "the regulation of trade"),
    "ligatures": ("the \ufb01nal o\ufb03ce", "the final office"),
    "full width": ("\uff21\uff22\uff23\uff11\uff12 is sold", "ABC12 is sold"),
    "half width kana": ("\uff76\uff9e\uff72\uff84\uff9e\u3092\u8aad\u3080", "\u30ac\u30a4\u30c9\u3092\u8aad\u3080"),
    "presentation forms": ("\ufefb \ufe8e", "\u0644\u0627 \u0627"),
    "subscript": ("the H\u2082O tank", "the H2O tank"),
    "micro": ("5 \u00b5m thick", "5 \u03bcm thick"),
    "html": ("<p>The pump <b>hums</b>.</p><br/>It is old", "The pump hums.\n\nIt is old"),
    "entities": ("Fish &amp; chips, 5 &lt; 6 &eacute;t&eacute;", "Fish & chips, 5 < 6 \u00e9t\u00e9"),
    "a comment": ("The pump<!-- todo --> hums", "The pump hums"),
    "colours of a terminal": ("\x1b[31mfailed\x1b[0m to start", "failed to start"),
    "a relative link": ("See [the manual](../manual.md#top) for more", "See the manual for more"),
    "a relative anchor": ('See <a href="manual.html">the manual</a> for more', "See the manual for more"),
    "a relative link from another folder": (
        "See [the manual](../manual.md) now",
        "See [the manual](manual.md#top) now",
    ),
    "a style": ('<p class="x">The <span style="color:red">pump</span> hums</p>', "The pump hums"),
    "a table's border": ("| a | b |\n|---|---|\n| 1 | 2 |", "| a | b |\n| 1 | 2 |"),
    "returns": ("one line\r\nand two", "one line\nand two"),
    "chinese stops": (
        "\u6cf5\u5728\u8fd0\u884c\uff0c\u58f0\u97f3\u5f88\u5927\u3002",
        "\u6cf5\u5728\u8fd0\u884c \u58f0\u97f3\u5f88\u5927",
    ),
}


@pytest.mark.parametrize("name", SAME)
def test_dress_says_nothing(name: str) -> None:
    one, other = SAME[name]
    assert tokens(one) == tokens(other)
    assert leaves(one, other)
    assert leaves(other, one)


# Each pair says two things.
OTHER = {
    "accents": ("The resume of the meeting", "The r\u00e9sum\u00e9 of the meeting"),
    "umlaut": ("Das Auto war schon da", "Das Auto war sch\u00f6n da"),
    "spanish": ("Tiene dos anos en la empresa", "Tiene dos a\u00f1os en la empresa"),
    "powers": ("The area is 10\u00b2 metres", "The area is 102 metres"),
    "raised html": ("The area is 10<sup>2</sup> metres", "The area is 102 metres"),
    "fractions": ("Add 1\u00bd cups of flour", "Add 11/2 cups of flour"),
    "roman numerals": ("See part \u2163 of it", "See part \u2162 of it"),
    "circled": ("Step \u2460 comes first", "Step \u2461 comes first"),
    "thumbs": ("Review of the change: \U0001f44d", "Review of the change: \U0001f44e"),
    "lights": ("The build is \U0001f7e2", "The build is \U0001f534"),
    "checks": ("signed \u2713 by both", "signed \u2717 by both"),
    "arrows": ("The value goes \u2191 over time", "The value goes \u2193 over time"),
    "equal": ("while a == b wait", "while a != b wait"),
    "less": ("Keep it < 5 degrees", "Keep it > 5 degrees"),
    "plus": ("charge + on the left", "charge = on the left"),
    "about": ("It takes ~5 minutes", "It takes 5 minutes"),
    "intervals": ("for x in [0, 1) the sum", "for x in [0, 1] the sum"),
    "accounting": ("The balance is (1,200)", "The balance is 1,200"),
    "a pipe": ("cat log | grep error now", "cat log grep error now"),
    "an ampersand": ("make build & test them", "make build test them"),
    "a percent": ("off by 5 % of it", "off by 5 of it"),
    "a currency": ("It costs \u20ac5 today", "It costs $5 today"),
    "a degree": ("at 5\u00b0 in the shade", "at 5 in the shade"),
    "a section": ("by \u00a7 5 of the act", "by 5 of the act"),
    "a question": ("You may leave now?", "You may leave now."),
    "a box": ("- [x] call the bank", "- [ ] call the bank"),
    "struck": ("Call <del>Anna</del> Berta today", "Call Anna Berta today"),
    "struck s": ("Call <s>Anna</s> Berta today", "Call Anna Berta today"),
    "struck tildes": ("Call ~~Anna~~ Berta today", "Call Anna Berta today"),
    "an absolute link": ("See [the page](https://a.example/x)", "See [the page](https://a.example/y)"),
    "an anchor": ('<a href="https://a.example/x">the page</a>', '<a href="https://a.example/y">the page</a>'),
    "case of a link": ("See https://a.example/Ab now", "See https://a.example/aB now"),
    "a placeholder": ("ssh <user> at <host> now", "ssh <host> at <user> now"),
    "a mark of no list": ("see note \u2020 below", "see note \u2021 below"),
    "music": ("in C\u266f major today", "in C\u266d major today"),
    "chess": ("then \u2654 moves", "then \u2655 moves"),
    "an escape": ("a snake\\_case name here", "a snake case name here"),
    "a greek question": ("Το γραφείο είναι ανοιχτό σήμερα;", "Το γραφείο είναι ανοιχτό σήμερα."),
    "feet and inches": ("The board is 5' long", "The board is 5\" long"),
    "an arabic question": ("المكتب مفتوح اليوم؟", "المكتب مفتوح اليوم."),
    "a chinese question": ("今天开门？", "今天开门。"),
    "a spanish question": ("¿Viene hoy?", "Viene hoy."),
    "tone": ("ใกล้ ไกล", "ไกล ไกล"),
    "kana": ("かきを食べた", "がきを食べた"),
    "yo": ("все готово сейчас", "всё готово сейчас"),
    "time of day": ("at 5 p.m. it opens", "at 5 a.m. it opens"),
    "cells": ("| a | | b |", "| a | b | |"),
    "cells with blanks": ("Ann, , 5, yes", "Ann, 5, , yes"),
    "a picture": ('<p>Valve: <img src="a.png" alt="open"></p>', '<p>Valve: <img src="a.png" alt="shut"></p>'),
    "a date": ("<time datetime=2024-05-01>Monday</time> it is", "<time datetime=2024-06-01>Monday</time> it is"),
    "a title": ("Our <abbr title='United States'>US</abbr> unit", "Our <abbr title='ultrasound'>US</abbr> unit"),
    "a number of a list": ('<ol start="3"><li>Open</ol>', '<ol start="5"><li>Open</ol>'),
    "a relative link with another file": ("See [the manual](v1/pump.pdf)", "See [the manual](v2/turbine.pdf)"),
    "a relative anchor with another file": ('<a href="/f/2023.pdf">Here</a> it is', '<a href="/f/2024.pdf">Here</a> it is'),
    "a picture without words": ("The state is ![](open.png)", "The state is ![](shut.png)"),
    "an entry of an index": ("Index\nPump (page 3)", "Index\nPump (page 4)"),
    "a rating": ("Rating\n****", "Rating\n*****"),
    "a finding": ("Protein\n+++", "Protein\n++++"),
    "a setting in a comment": ("debug: true\n# cache: true", "debug: true\ncache: true"),
    "a command in a comment": ("make clean\n# rm -rf build", "make clean\nrm -rf build"),
    "more than": ("Troponin\n> 40 ng/L", "Troponin\n40 ng/L"),
    "an operator of two marks": ("x = y++ + z", "x = y + ++z"),
    "hidden files": ("rm .*", "rm *"),
    "any characters": ("grep a.*b", "grep a*b"),
    "a loss in percent": ("Net result: (5%)", "Net result: 5%"),
    "a loss in euros": ("Net result: (€1,200)", "Net result: €1,200"),
    "a loss in millions": ("Cash flow: (1.2m)", "Cash flow: 1.2m"),
    "a pattern": ("^a|b$", "^(a|b)$"),
    "a slice": ("list(range(10))[1:]", "list(range(10))[:1]"),
    "a password": ("The key is passw0rd", "The key is password"),
    "a dash as a sign": ("Margin changed by – 3 points", "Margin changed by 3 points"),
    "a dash at a number": ("Store it at –5 °C", "Store it at 5 °C"),
    "a sign before a currency": ("Balance: -€40.00", "Balance: €40.00"),
    "a sign behind": ("Saldo: 40,00- EUR", "Saldo: 40,00 EUR"),
    "days from, to": ("Open Mon–Fri", "Open Mon, Fri"),
    "days from, to with blanks": ("Delivery Tuesday – Thursday", "Delivery Tuesday, Thursday"),
    "an open end": ("Mayor of the town (2019–)", "Mayor of the town (2019)"),
    "pros and cons": ("+ cheap\n- slow", "- cheap\n+ slow"),
    "a change": ("- retries 3\n+ retries 5", "+ retries 3\n- retries 5"),
    "circles": ("● Monday\n○ Tuesday", "○ Monday\n● Tuesday"),
}  # fmt: skip


@pytest.mark.parametrize("tier", list(Tier))
@pytest.mark.parametrize("name", OTHER)
def test_what_is_no_dress_counts(name: str, tier: Tier) -> None:
    one, other = OTHER[name]
    assert not leaves(one, other, tier=tier)
    assert not leaves(other, one, tier=tier)


def test_a_question_mark_says_nothing_where_the_sentence_asks_anyway() -> None:
    assert leaves("How can I change my address?", "How can I change my address")
    assert leaves("Wie kann ich das \u00e4ndern", "Wie kann ich das \u00e4ndern?")
    assert not leaves("What a day", "What a day?")


def test_markup_that_is_not_complete_stays() -> None:
    assert undressed("2 * 3 * 4 = 24") == "2 * 3 * 4 = 24"
    assert undressed("a < b and c > d") == "a < b and c > d"
    assert undressed("the __init__ method of snake_case_name") == "the __init__ method of snake_case_name"
    assert undressed("List<String> of <T>") == "List<String> of <T>"


def test_a_mark_at_the_border_of_markup_is_not_lost() -> None:
    assert "*" in undressed("a ** b")
    assert "~~" in undressed("a ~~ b")


@given(ANY_TEXT | ODD_TEXT)
def test_undressing_never_raises_and_is_composed(text: str) -> None:
    """Whatever the text, its dress comes off, and what is left is in form NFC but for subscripts."""
    composed = undressed(text)
    assert composed == "" or isinstance(composed, str)


LETTERS = ("river", "engine", "paper", "window", "garden", "bridge", "silver", "doctor", "cotton", "market", "signal")
# Printable, not blank, no formatting mark and no markup: each of them changes what a text says.
COUNTING = [
    *sorted(set(string.punctuation) - FORMATTING - set("*_#\\<>&~|$`")),
    *"$€£¥§¶†‡°±×÷≈≠≤≥∞∑√∂∆∈∉∩∪→←↑↓⇒⇔✓✗✔✘☐☑★☆♠♥♦♣♯♭©®™‰µ½¼¾²³№℃😀👍👎🟢🔴🇩Жя漢かก한ψé",
]


@st.composite
def prose(draw: st.DrawFn) -> list[str]:
    """3 to 120 words, in sentences."""
    words = draw(st.lists(st.sampled_from(LETTERS), min_size=3, max_size=120))
    return [word + ("." if place % 11 == 10 else "") for place, word in enumerate(words)]


def placed(words: list[str], place: int, inside: str, mark: str) -> str:
    """The text with a mark on its own, before a word, behind one, or within one."""
    word = words[place]
    with_mark = {
        "alone": f"{mark} {word}",
        "before": f"{mark}{word}",
        "behind": f"{word}{mark}",
        "within": f"{word[:2]}{mark}{word[2:]}",
    }[inside]
    return " ".join([*words[:place], with_mark, *words[place + 1 :]])


WHERE = st.sampled_from(["alone", "before", "behind", "within"])


@given(prose(), st.sampled_from(COUNTING), WHERE, st.sampled_from(list(Tier)), st.data())
def test_a_mark_more_or_less_keeps_a_result(
    words: list[str], mark: str, where: str, tier: Tier, data: st.DataObject
) -> None:
    """Any printable mark that is no formatting, inserted anywhere or taken out again, makes another text that stays."""
    text, more = " ".join(words), placed(words, data.draw(st.integers(0, len(words) - 1)), where, mark)
    assert not leaves(text, more, tier=tier)
    assume(where in {"before", "within"} or more.rstrip() != f"{text} {mark}".rstrip())
    if not more.startswith(text) and not more.endswith(text):  # else the whole of the other stands in it
        assert not leaves(more, text, tier=tier)


@given(prose(), st.sampled_from(COUNTING), st.sampled_from(COUNTING), WHERE, st.sampled_from(list(Tier)), st.data())
def test_a_mark_for_another_keeps_a_result(
    words: list[str], mark: str, other: str, where: str, tier: Tier, data: st.DataObject
) -> None:
    """Any two printable marks that are no formatting are different wherever they stand."""
    assume(undressed(mark) != undressed(other))
    place = data.draw(st.integers(0, len(words) - 1))
    assert not leaves(placed(words, place, where, mark), placed(words, place, where, other), tier=tier)
