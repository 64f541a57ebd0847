"""The amounts of a text: numbers with a currency, a percent sign or a unit, before or behind, glued or spaced.

The unit is brought to one spelling, the number is not converted: two days and 48 hours count as different amounts. That
errs on the side of keeping both.
"""

from __future__ import annotations

import re

from vecsieve.proxy.selection.guards.numerals import NOT_WITHIN, NUMBER, POWERS, exact, read, shifted

Found = tuple[list[str], str]  # amounts, and the text without them

# One spelling for each, behind it the others. Left out: "in" and single letters that stand apart, which are words.
_CURRENCIES = {
    "$": "usd dollar dollars us$ bucks",
    "€": "eur euro euros",
    "£": "gbp pound pounds quid",
    "¥": "jpy cny yen yuan rmb",
    "₹": "inr rs rupee rupees",
    "₽": "rub ruble rubles rouble roubles",
    "₩": "krw",
    "₺": "try lira",
    "chf": "franc francs",
    "cent": "cents ¢",
}
_CODES = "aud cad nzd sek nok dkk pln czk huf brl mxn zar sgd hkd ₴ ₪ ฿ ₫ ₿ btc"
_UNITS = {
    "%": "percent pct prozent procent процент процентов percentage-points ％",
    "°": "degree degrees °c °f ℃ ℉",
    "ns": "nanosecond nanoseconds",
    "µs": "us microsecond microseconds μs",
    "ms": "msec millisecond milliseconds",
    "s": "sec secs second seconds",
    "min": "mins minute minutes",
    "h": "hr hrs hour hours",
    "day": "days",
    "week": "weeks wk wks",
    "month": "months",
    "year": "years yr yrs",
    "b": "byte bytes",
    "kb": "kilobyte kilobytes",
    "mb": "megabyte megabytes",
    "gb": "gigabyte gigabytes gig gigs",
    "tb": "terabyte terabytes",
    "mg": "milligram milligrams",
    "g": "gram grams gramme grammes",
    "kg": "kilo kilos kilogram kilograms kgs",
    "lb": "lbs",
    "oz": "ounce ounces",
    "t": "ton tons tonne tonnes",
    "mm": "millimetre millimetres millimeter millimeters",
    "cm": "centimetre centimetres centimeter centimeters",
    "m": "metre metres meter meters",
    "km": "kilometre kilometres kilometer kilometers kms",
    "mi": "mile miles",
    "ft": "foot feet",
    "yd": "yard yards",
    "ml": "millilitre millilitres milliliter milliliters",
    "l": "litre litres liter liters",
    "km/h": "kmh kph",
    "w": "watt watts",
    "v": "volt volts",
    "hz": "hertz",
}
_MORE_UNITS = (
    "kib mib gib tib pb kbit mbit gbit bps kbps mbps gbps khz mhz ghz kw mw gw kwh mwh mph rpm bpm px pt kcal mah ha"
)


def _spellings(table: dict[str, str], more: str) -> dict[str, str]:
    listed = {other: name for name, others in table.items() for other in (name, *others.split())}
    return listed | {name: name for name in more.split()}


_MONEY = _spellings(_CURRENCIES, _CODES)
_MEASURE = _spellings(_UNITS, _MORE_UNITS)


def _any(words: list[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))


_SHORT_POWERS = {"k": 3, "m": 6, "b": 9, "t": 12}
_POWER = rf"(?: ?(?P<power>{'|'.join(POWERS)})(?!\w)|(?P<short>[kmbt])(?!\w))?"
_SIGN = r"(?P<sign>(?<![\w)])-)?"
_BEFORE = re.compile(rf"{_SIGN}(?<!\w)(?P<unit>{_any(list(_MONEY))}) ?(?P<minus>-)?(?P<number>{NUMBER}){_POWER}")
_BEHIND = re.compile(
    rf"{_SIGN}{NOT_WITHIN}(?P<number>{NUMBER}){_POWER}[ -]?(?P<unit>{_any(list(_MONEY))}|per ?cent(?! ?\w*s\b))(?!\w)"
)
# Letters glued to the number are a unit; letters that stand apart need two of them, or four blanks make a sentence.
_GLUED = re.compile(rf"{_SIGN}{NOT_WITHIN}(?P<number>{NUMBER})(?P<unit>{_any(list(_MEASURE))})(?!\w)")
_SPACED = re.compile(
    rf"{_SIGN}{NOT_WITHIN}(?P<number>{NUMBER})(?: ?(?P<power>{'|'.join(POWERS)}))?[ -]"
    rf"(?P<unit>{_any([unit for unit in _MEASURE if len(unit) > 1 or not unit.isalpha()])})(?!\w)"
)


def amounts(text: str) -> Found:
    """The amounts of a spelled text whose number words are digits."""
    found: list[str] = []

    def take(match: re.Match[str]) -> str:
        found.extend(_read(match))
        return " ; "

    for pattern in (_BEFORE, _BEHIND, _GLUED, _SPACED):
        text = pattern.sub(take, text)
    return found, text


def _read(match: re.Match[str]) -> list[str]:
    said = match.groupdict()
    unit = said["unit"].replace(" ", "")
    name = "%" if unit == "percent" else _MONEY.get(unit) or _MEASURE[unit]
    power = POWERS.get(said.get("power") or "", 0) + _SHORT_POWERS.get(said.get("short") or "", 0)
    sign = "-" if said["sign"] or said.get("minus") else ""
    return [f"{sign}{shifted(number, power) if power else exact(number)} {name}" for number in read(said["number"])]
