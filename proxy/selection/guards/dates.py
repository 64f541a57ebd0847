"""The dates of a text: days, months, years, times of day, in the spellings of English, ISO and plain digits.

A date is split into parts that are compared kind by kind (day 10-15, month 10, year 2024, weekday, time, decade), because one text often
leaves out what another says: "October 15th" does not contradict 2024-10-15, but contradicts every other day.
"""

from __future__ import annotations

import re

Found = tuple[list[str], str]  # parts of dates, and the text without them

_MONTHS = "january february march april may june july august september october november december"
_SHORT = {month[:3]: i for i, month in enumerate(f"{_MONTHS}".split(), 1)} | {"sept": 9}
_NUMBERS = _SHORT | {month: i for i, month in enumerate(f"{_MONTHS}".split(), 1)}
_MONTH = rf"(?P<month>{'|'.join(sorted(_NUMBERS, key=len, reverse=True))})\b\.?"
_YEAR = r"(?P<year>(?:1[5-9]|20|21)\d\d)"
_DAY = r"(?P<day>0?[1-9]|[12]\d|3[01])(?:st|nd|rd|th)?"
_ALONE = r"(?<![\w.,/:-])"
_END = r"(?![\w/:]|[.,-]\d)"

_PATTERNS = (
    re.compile(
        rf"(?<!\d){_YEAR}(?P<sep>[-/.])(?P<month>\d\d?)(?P=sep)(?P<day>\d\d?)(?!\d)"
    ),  # 2024-10-15, also before a T
    re.compile(
        rf"{_ALONE}(?P<one>\d\d?)(?P<sep>[-/.])(?P<two>\d\d?)(?P=sep)(?P<year>\d{{4}}|(?<=/)\d\d){_END}"
    ),  # 15.10.2024
    re.compile(rf"{_ALONE}{_YEAR} ?年(?: ?(?P<month>\d\d?) ?月)?(?: ?(?P<day>\d\d?) ?日)?"),
    re.compile(r"(?<!\d)(?P<month>\d\d?) ?月(?: ?(?P<day>\d\d?) ?日)?"),
    re.compile(rf"{_ALONE}{_DAY}(?: of)? {_MONTH}(?:,? {_YEAR})?{_END}"),  # 15th of October 2024
    re.compile(rf"\b{_MONTH} {_DAY}(?:,? {_YEAR})?{_END}"),  # Oct. 15, 2024
    re.compile(rf"\b{_MONTH},? {_YEAR}{_END}"),
    # Without a day or year, only months that are no other word: not may, march, august.
    re.compile(r"\b(?P<month>january|february|april|june|july|september|october|november|december)\b"),
    re.compile(r"(?<!\d)(?P<hour>[01]?\d|2[0-3]):(?P<minute>[0-5]\d)(?::[0-5]\d)?(?: ?(?P<half>[ap])\.?m\b\.?)?(?!\d)"),
    re.compile(rf"{_ALONE}(?P<hour>0?[1-9]|1[0-2]) ?(?P<half>[ap])\.?m\b\.?"),
    re.compile(rf"{_ALONE}(?P<one>\d\d?)/(?P<two>\d\d?){_END}"),  # 15/10
    re.compile(rf"{_ALONE}(?P<decade>(?:1[5-9]|20)\d0'?s)\b"),
    re.compile(r"\b(?P<weekday>(?:mon|tues|wednes|thurs|fri|satur|sun)day)s?\b"),
)
_YEAR_ALONE = re.compile(rf"(?<![\w.,/:]){_YEAR}(?![\w/:]|[.,]\d)")


def dates(text: str) -> Found:
    """The dates of a spelled text. Bare years are not included: a number with a unit is an amount."""
    found: list[str] = []
    for pattern in _PATTERNS:
        text = _take(pattern, text, found)
    return found, text


def years(text: str) -> Found:
    """Numbers that can only be read as years: four digits, 1500 to 2199, no unit, no group."""
    found: list[str] = []
    return found, _take(_YEAR_ALONE, text, found)


def _take(pattern: re.Pattern[str], text: str, found: list[str]) -> str:
    """``text`` without the dates that ``pattern`` matches; their parts are added to ``found``."""

    def read(match: re.Match[str]) -> str:
        parts = _parts(match.groupdict())
        found.extend(parts)
        return " ; " if parts else match[0]

    return pattern.sub(read, text)


def _parts(said: dict[str, str | None]) -> list[str]:
    """The parts of one date; none if there is no such day."""
    if (weekday := said.get("weekday")) or said.get("decade"):
        return [f"weekday {weekday}" if weekday else f"decade {(said['decade'] or '')[:4]}"]
    if hour := said.get("hour"):
        return [_time(int(hour), said.get("minute") or "00", said.get("half"))]
    if one := said.get("one"):
        return _by_digits(int(one), int(said["two"] or 0), said.get("year"))
    month, day, year = said.get("month"), said.get("day"), said.get("year")
    parts = [] if year is None else [f"year {year}"]
    if month is None:
        return parts
    number = _NUMBERS.get(month) or int(month)
    if not 1 <= number <= 12 or (day is not None and not 1 <= int(day) <= 31):
        return []
    return parts + ([f"month {number:02}"] if day is None else _day(number, int(day)))


def _by_digits(one: int, two: int, year: str | None) -> list[str]:
    """Day and month in either order. If both numbers could be the month, the written order is kept."""
    if not (1 <= min(one, two) <= 12 and max(one, two) <= 31):
        return []
    parts = [] if year is None else [f"year {year if len(year) == 4 else '20' + year}"]
    if max(one, two) > 12 or one == two:
        return parts + _day(min(one, two), max(one, two))
    return [*parts, f"day {one:02}/{two:02}"]


def _day(month: int, day: int) -> list[str]:
    return [f"month {month:02}", f"day {month:02}-{day:02}"]


def _time(hour: int, minute: str, half: str | None) -> str:
    """24 hours; half is a or p."""
    if half is not None and 1 <= hour <= 12:
        hour = hour % 12 + (12 if half == "p" else 0)
    return f"time {hour:02}:{minute}"
