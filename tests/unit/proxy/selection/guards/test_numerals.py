"""Numbers in every usual spelling come out the same, and what is no number comes out as none."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.selection.guards.numerals import exact, in_digits, read, shifted, spelled

SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
)
TENS = "twenty thirty forty fifty sixty seventy eighty ninety"


@pytest.mark.parametrize(
    ("written", "numbers"),
    [
        ("7,000", ["7000"]),
        ("1,234,567.50", ["1234567.50"]),
        ("1,00,000", ["100000"]),
        ("7.000,5", ["7000.5"]),
        ("1.234.567", ["1234567"]),
        ("1'000", ["1000"]),
        ("10,5", ["10.5"]),
        ("1,2,3", ["1", "2", "3"]),
        ("007", ["7"]),
        ("0", ["0"]),
        ("3.0", ["3"]),
        ("3.10", ["3.10"]),
    ],
)
def test_groups_and_points_are_read_as_they_are_meant(written: str, numbers: list[str]) -> None:
    assert read(written) == numbers


@pytest.mark.parametrize(
    ("words", "digits"),
    [
        ("seven thousand dead", "7,000 dead"),
        ("twenty-five people", "25 people"),
        ("one hundred and five", "105"),
        ("two hundred thirty", "230"),
        ("a million", "1,000,000"),
        ("five hundred thousand", "500,000"),
        ("two thousand and five", "2,005"),
        ("a dozen eggs", "12 eggs"),
        ("two dozen", "24"),
        ("two and three", "2 3"),
        ("twenty nineteen", "20 19"),
        ("zero", "0"),
        ("three, four", "3 4"),
        ("once daily", "1 daily"),
        ("twice a day", "2 a day"),
        ("thrice per week", "3 per week"),
    ],
)
def test_number_words_are_digits(words: str, digits: str) -> None:
    assert in_digits(words) == digits


@pytest.mark.parametrize(
    "text",
    [
        "once it is open",
        "think twice",
        "no one",
        "one of the",
        "thousands of people",
        "a second",
        "someone often",
        "7 million",
        "weight",
        "stone",
    ],
)
def test_words_that_are_no_number_by_themselves_stay(text: str) -> None:
    assert in_digits(text) == text


def test_a_run_of_scales_is_no_number_that_grows_with_the_text() -> None:
    assert in_digits("hundred hundred hundred") == "100 100 100"
    assert len(in_digits("thousand " * 2000)) < 100_000


@given(st.integers(0, 999_999))
def test_a_number_in_words_is_that_number(number: int) -> None:
    # Invariant: English as it is taught, with and without "and", reads back as the number.
    for joint in (" ", " and "):
        words = in_english(number, joint)
        assert in_digits(words).replace(",", "") == ("one" if number == 1 else str(number))


def in_english(number: int, joint: str) -> str:
    if number < 20:
        return SMALL.split()[number]
    if number < 100:
        return TENS.split()[number // 10 - 2] + (f"-{in_english(number % 10, joint)}" if number % 10 else "")
    scale, name = (1000, "thousand") if number >= 1000 else (100, "hundred")
    head, rest = f"{in_english(number // scale, joint)} {name}", number % scale
    return f"{head}{joint if rest < 100 else ' '}{in_english(rest, joint)}" if rest else head


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("１２％", "12%"),
        ("٣ كتب", "3 كتب"),
        ("7\u00a0000", "7,000"),
        ("7\u202f000\u202f000", "7,000,000"),
        ("\u22125 °C", "-5 °c"),
        ("Don\u2019t", "don't"),
        ("  Two \n lines ", "two lines"),
        ("co\u00adoperate", "cooperate"),
    ],
)
def test_a_text_is_spelled_plainly(text: str, plain: str) -> None:
    assert spelled(text) == plain


@given(st.text())
def test_spelling_is_done_once(text: str) -> None:
    # Invariant: what is spelled plainly stays as it is, whatever the text, lone surrogates included.
    assert spelled(spelled(text)) == spelled(text)


@given(st.text(alphabet=st.characters(codec="ascii")))
def test_ascii_takes_a_short_cut_and_no_other_way(text: str) -> None:
    # Invariant: a character beyond ASCII elsewhere changes nothing of the spelling of the rest.
    assert spelled(f"{text} ж").removesuffix("ж").strip() == spelled(text)


@given(st.integers(0, 10**9), st.integers(0, 999), st.integers(0, 12))
def test_shifting_is_multiplying_by_a_power_of_ten(whole: int, thousandths: int, places: int) -> None:
    # Invariant: exact decimal arithmetic, in the spelling of amounts.
    scaled = (whole * 1000 + thousandths) * 10**places
    assert shifted(f"{whole}.{thousandths:03}", places) == exact(f"{scaled // 1000}.{scaled % 1000:03}")


def test_an_amount_has_no_zeros_that_carry_nothing() -> None:
    assert [exact(number) for number in ("1.50", "01.0", "0.50", "10", "0")] == ["1.5", "1", "0.5", "10", "0"]
