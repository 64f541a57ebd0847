"""Dates in every usual spelling, part by part, and the rest of the text without them."""

from __future__ import annotations

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.selection.guards.dates import dates, years
from vecsieve.proxy.selection.guards.numerals import spelled

FIFTEENTH = ["day 10-15", "month 10"]


@pytest.mark.parametrize(
    "text",
    [
        "October 15th",
        "15 October",
        "15th of October",
        "Oct. 15",
        "oct 15",
        "15/10",
        "10/15",
        "10月15日",
        "on October 15, at",
    ],
)
def test_one_day_in_many_spellings(text: str) -> None:
    assert sorted(dates(spelled(text))[0]) == FIFTEENTH


@pytest.mark.parametrize(
    "text",
    [
        "2024-10-15",
        "2024/10/15",
        "15.10.2024",
        "15/10/2024",
        "10/15/24",
        "15-10-2024",
        "October 15th, 2024",
        "15 Oct 2024",
        "2024年10月15日",
    ],
)
def test_one_date_in_many_spellings(text: str) -> None:
    assert sorted(dates(spelled(text))[0]) == [*FIFTEENTH, "year 2024"]


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("in May 2019", ["month 05", "year 2019"]),
        ("every November", ["month 11"]),
        ("at 5pm", ["time 17:00"]),
        ("at 5:30 p.m.", ["time 17:30"]),
        ("12 am", ["time 00:00"]),
        ("12:00 pm", ["time 12:00"]),
        ("17:30:59", ["time 17:30"]),
        ("2024-10-15T12:30", ["day 10-15", "month 10", "time 12:30", "year 2024"]),
        ("on Thursday", ["weekday thursday"]),
        ("on Mondays", ["weekday monday"]),
        ("the 1980s", ["decade 1980"]),
        ("the 1980's", ["decade 1980"]),
        ("5/10", ["day 05/10"]),
        ("5/5", ["day 05-05", "month 05"]),
        ("2024年", ["year 2024"]),
    ],
)
def test_parts_of_dates(text: str, parts: list[str]) -> None:
    assert sorted(dates(spelled(text))[0]) == parts


@pytest.mark.parametrize(
    "text",
    [
        "you may go",
        "march on",
        "99/98",
        "2024-99-99",
        "45.67.2024",
        "25:99",
        "13 pm",
        "1.2.3",
        "ratio 3:2",
        "40/50/60",
        "8 mayors",
        "15/10/8",
    ],
)
def test_what_is_no_date_stays_in_the_text(text: str) -> None:
    assert dates(text) == ([], text)


def test_what_was_read_is_gone_and_the_rest_stays() -> None:
    found, rest = dates("on october 15th 3 people met")
    assert sorted(found) == FIFTEENTH
    assert rest.split() == ["on", ";", "3", "people", "met"]


@pytest.mark.parametrize(("text", "found"), [("since 2019", ["year 2019"]), ("2010-2015", ["year 2010", "year 2015"])])
def test_a_bare_year(text: str, found: list[str]) -> None:
    assert years(text)[0] == found


@pytest.mark.parametrize("text", ["2,019", "12019", "1200", "2019.5", "v2019", "20190"])
def test_what_is_no_year(text: str) -> None:
    assert years(text) == ([], text)


@given(st.dates(dt.date(1500, 1, 1), dt.date(2199, 12, 31)))
def test_any_date_reads_the_same_in_words_and_digits(day: dt.date) -> None:
    # Invariant: ISO and the two English spellings have the same parts.
    month = day.strftime("%B")
    texts = (day.isoformat(), f"{day.day} {month} {day.year}", f"{month} {day.day}, {day.year}")
    first, *others = (sorted(dates(spelled(text))[0]) for text in texts)
    assert first == [f"day {day.month:02}-{day.day:02}", f"month {day.month:02}", f"year {day.year}"]
    assert others == [first, first]


@given(st.text(alphabet="0123456789/-.:年月日 apmthjunoctfriday,", max_size=60))
def test_any_text_is_read_without_an_error(text: str) -> None:
    # Invariant: all that is found is one of the six kinds.
    kinds = {part.partition(" ")[0] for part in dates(text)[0]}
    assert kinds <= {"day", "month", "year", "weekday", "time", "decade"}
