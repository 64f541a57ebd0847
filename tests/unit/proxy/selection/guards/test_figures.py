"""Each number is read once, as the first kind it can be; and what makes the figures of two texts differ."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.selection.guards.figures import NONE, Figures, dates_differ, differ, figures, versions_differ

PARTS = "0 1 2 3 4 5 6 7 8 9 , . : / - % $ € v one two hundred million days october monday pm 年 月 日"


def kinds(text: str) -> dict[str, tuple[str, ...]]:
    found = figures(text)
    return {kind: facts for kind in Figures.__slots__ if (facts := getattr(found, kind))}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Singapore shares open 0.28% lower on Thursday", {"dates": ("weekday thursday",), "amounts": ("0.28 %",)}),
        ("Death toll tops 8,000", {"numbers": ("8000",)}),
        ("Death toll tops eight thousand", {"numbers": ("8000",)}),
        ("2,000 people in 2000", {"dates": ("year 2000",), "numbers": ("2000",)}),
        ("two thousand people", {"numbers": ("2000",)}),
        ("7 million people", {"numbers": ("7000000",)}),
        ("100k users", {"numbers": ("100000",)}),
        ("Release 3.0 is out", {"versions": ("3",)}),
        ("v2.3.1", {"versions": ("2.3.1",)}),
        ("2.0.0rc1 and 2.0.0", {"versions": ("2", "2rc1")}),
        ("version 1.10", {"versions": ("1.10",)}),
        ("192.168.0.1", {"versions": ("192.168.0.1",)}),
        ("Flask 1.0", {"numbers": ("1",)}),
        ("Python 3.10", {"numbers": ("3.10",)}),
        ("iPhone5, COVID-19, UTF-8", {"numbers": ("19", "5", "8")}),
        ("minus -5 and 2-1", {"numbers": ("-5", "1", "2")}),
        ("pages 10-20", {"numbers": ("10", "20")}),
        ("5 of 5", {"numbers": ("5", "5")}),
        ("３．５ und ٤", {"numbers": ("3.5", "4")}),
        ("No numbers, no days", {}),
        ("", {}),
        ("one of those days", {}),
    ],
)
def test_every_number_is_read_once_as_what_it_is(text: str, found: dict[str, tuple[str, ...]]) -> None:
    assert kinds(text) == found


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("tops 8,000", "tops eight thousand"),
        ("on October 15th", "on 15/10"),
        ("0.28 %", "0.28 percent"),
        ("version 2", "v2.0"),
        ("twenty-five", "25"),
        ("３", "3"),
    ],
)
def test_a_paraphrase_has_the_same_figures(one: str, other: str) -> None:
    assert figures(one) == figures(other) != NONE


@pytest.mark.parametrize(("often", "found"), [("once daily", "1"), ("twice a day", "2"), ("three times a day", "3")])
def test_how_often_something_is_done_is_a_figure(often: str, found: str) -> None:
    assert figures(f"Take one tablet {often}.").numbers == (found,)


@pytest.mark.parametrize(
    ("one", "other", "verdict"),
    [
        (("5",), ("6",), True),
        (("5",), ("5",), False),
        (("5",), (), False),
        (("5",), ("5", "6"), False),
        (("5", "5"), ("5", "6"), True),
        (("5", "7"), ("5", "6"), True),
        ((), (), False),
    ],
)
def test_two_differ_when_each_has_what_the_other_lacks(
    one: tuple[str, ...], other: tuple[str, ...], verdict: bool
) -> None:
    assert differ(one, other) is differ(other, one) is verdict


@pytest.mark.parametrize(
    ("one", "other", "verdict"),
    [
        ("on Thursday", "on Friday", True),
        ("on Thursday", "on May 5th", False),
        ("October 15th", "2024-10-15", False),
        ("October 15th", "October", False),
        ("October 15th", "October 16th", True),
        ("October 15th", "November", True),
        ("October 2019", "October 2020", True),
        ("in 2019", "at 5pm", False),
        ("at 5pm", "at 6pm", True),
        ("at 5pm", "at 17:00", False),
    ],
)
def test_dates_are_compared_kind_by_kind(one: str, other: str, verdict: bool) -> None:
    assert dates_differ(figures(one).dates, figures(other).dates) is verdict
    assert dates_differ(figures(other).dates, figures(one).dates) is verdict


@pytest.mark.parametrize(
    ("one", "other", "verdict"),
    [
        ("release 1.0", "release 3.0", True),
        ("release 1.0", "Flask 3.0", True),
        ("release 1.0", "Flask 1.0", False),
        ("release 1.0 fixes 5 bugs", "1.0 fixes 5 bugs", False),
        ("release 1.0 fixes 5 bugs", "the release fixes 5 bugs", False),
        ("version 1.1", "version 1.10", True),
        ("version 1.1", "the version", False),
        ("5 bugs", "6 bugs", False),
    ],
)
def test_versions_may_stand_without_the_word(one: str, other: str, verdict: bool) -> None:
    assert versions_differ(figures(one), figures(other)) is verdict
    assert versions_differ(figures(other), figures(one)) is verdict


@given(st.text(max_size=200))
def test_any_text_has_figures(text: str) -> None:
    # Invariant: no exception, sorted multisets, nothing differs from itself, the same at the second look.
    found = figures(text)
    assert found == figures(text)
    for kind in Figures.__slots__:
        facts = getattr(found, kind)
        assert list(facts) == sorted(facts)
        assert not differ(facts, facts)


@given(st.lists(st.sampled_from(PARTS.split()), max_size=30))
def test_any_mixture_of_figures_is_read(parts: list[str]) -> None:
    # Invariant: with and without blanks between them, no exception, and no kind holds an empty fact.
    for text in (" ".join(parts), "".join(parts)):
        found = figures(text)
        assert all(fact.strip() for kind in Figures.__slots__ for fact in getattr(found, kind))


@given(st.integers(0, 10**7))
def test_a_grouped_number_is_the_plain_one(number: int) -> None:
    # Invariant: commas, blanks that do not break and apostrophes group, and that is all they do.
    plain = figures(f"about {number:,} people").numbers
    for group in ("\u202f", "'", "\u00a0"):
        assert figures(f"about {number:,} people".replace(",", group)).numbers == plain == (str(number),)


@pytest.mark.parametrize("unit", ["1'", "1,", "1.", "1-", "$-1", "1/1/", "1 hundred ", "v1."])
def test_a_text_that_is_one_long_number_is_read_in_reasonable_time(unit: str) -> None:
    # A pattern that begins anew inside the number would need minutes here.
    assert figures(unit * 20_000) != NONE


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("We hire a C++ developer", "We hire a C# developer"),
        ("Blood type A- is needed", "Blood type AB+ is needed"),
        ("if (a <= b) return left;", "if (a != b) return left;"),
        ("The balance is > 20", "The balance is < 20"),
        ("the load is >5", "the load is <5"),
        ("return a + b", "return a - b"),
        ("x^2 + y", "x^2 * y"),
        ("the values are ≥ 3", "the values are ≤ 3"),
        ("a / b", "a // b"),
        ("An introduction to C for beginners", "An introduction to C++ for beginners"),
        ("Take vitamin C daily.", "Take vitamin D daily."),
        ("A vaccine against hepatitis A", "A vaccine against hepatitis B"),
    ],
)
def test_texts_with_different_signs_differ(one: str, other: str) -> None:
    assert differ(figures(one).signs, figures(other).signs)


@pytest.mark.parametrize(
    "text",
    [
        "A <b>bold</b> word",
        '<a href="x">there</a> and back',
        "> a quoted line",
        "see a -> b => c <- d",
        "Our title - a site | more",
        "and/or, 24/7, km/h",
        "* one item\n* another item\n+ a third",
        "==== head ====",
        "**bold** and --quiet, e.g. a t-shirt",
        "pre- and postwar",
        "no signs at all",
    ],
)
def test_what_only_sets_a_text_off_is_no_sign(text: str) -> None:
    assert figures(text).signs == ()


@pytest.mark.parametrize(
    "text",
    [
        "O jogo é no Brasil. A Maria e o João",
        "I think I know",
        "The U.S. army in a P.E. class",
        "O'Neil ate a T-bone and the P&L",
        "THE B C OF IT",
        "a b c",
    ],
)
def test_a_letter_that_may_be_a_word_or_part_of_one_designates_nothing(text: str) -> None:
    assert figures(text).signs == ()


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("a type I error", ("1",)),
        ("Type V collagen", ("5",)),
        ("chapter IX of the act", ("9",)),
        ("World War II", ("2",)),
        ("Louis XIV was king", ("14",)),
        ("XXXIX", ("39",)),
        ("part II, 3 pages", ("2", "3")),
        ("an IV and VI of XIIX or IIII", ("4", "6")),
        ("I am V", ()),
        ("stage IIIb of MIX", ()),
        ("vi and ii", ()),
    ],
)
def test_a_roman_numeral_is_a_number_in_capitals_or_behind_what_it_counts(text: str, numbers: tuple[str, ...]) -> None:
    assert figures(text).numbers == numbers


def test_a_text_that_leaves_a_sign_out_does_not_differ() -> None:
    assert not differ(figures("the balance is 20").signs, figures("the balance is > 20").signs)
