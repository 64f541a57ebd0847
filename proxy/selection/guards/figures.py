"""The figures of a text: its versions, dates, amounts and numbers. Each number is read once, as the first of these kinds that fits.

Spellings are normalized (0.28 % and 0.28 percent, 7,000 and seven thousand, October 15th and 15/10), so that a paraphrase has the same
figures. Kinds are kept apart, because each has its own guard.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import lru_cache

from .dates import dates, years
from .numerals import (
    NOT_WITHIN,
    NUMBER,
    POWERS,
    exact,
    has_other_words,
    in_digits,
    power_behind,
    read,
    shifted,
    spelled,
)

# The amounts of a text: numbers with a currency, a percent sign or a unit, before or behind, with or without a space.
#
# The unit's spelling is normalized, the number is not converted: two days and 48 hours are different amounts. The error is on the side of
# keeping both.

Found = tuple[list[str], str]  # amounts, and the text without them

# For each unit its name and its other spellings. Not included: "in" and single letters after a space, which are words.
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


# The same in the other largest languages: Spanish, French, Portuguese, German; Russian; Hindi, Bengali; Arabic, Urdu. Not included: words
# that follow numbers in English too (an, tag, metro). A dual or an ordinal is no amount.
_OTHER_CURRENCIES = {
    "$": "dólar dólares доллар доллара долларов डॉलर ডলার دولار ڈالر",
    "₽": "рубль рубля рублей",
    "₹": "रुपये रुपए",
    "৳": "টাকা",
}
_OTHER_UNITS = {
    "%": "porciento प्रतिशत শতাংশ بالمئة بالمائة فیصد",
    "s": "segundo segundos seconde secondes sekunde sekunden секунда секунды секунд सेकंड সেকেন্ড ثانية ثوان سیکنڈ",
    "min": "minuto minutos minuten минута минуты минут मिनट মিনিট دقيقة دقائق منٹ",
    "h": "hora horas heure heures stunde stunden час часа часов घंटा घंटे ঘণ্টা ساعة ساعات گھنٹے",
    "day": "día días dia dias jour jours tage tagen день дня дней दिन দিন يوم أيام دن",
    "week": "semana semanas semaine semaines woche wochen неделя недели недель सप्ताह हफ़्ते সপ্তাহ أسبوع أسابيع ہفتے",
    "month": "mes meses mês mois monat monate monaten месяц месяца месяцев महीना महीने মাস شهر أشهر مہینے",
    "year": "año años ano anos ans année années jahr jahre jahren год года лет साल वर्ष বছর سنة سنوات سال",
    "kg": "kilogramo kilogramos quilo quilos quilogramas kilogramm кг килограмм килограмма килограммов किलो কেজি كيلوغرام کلو",
    "km": "kilómetro kilómetros quilómetros quilômetros kilomètres км километр километра километров किमी किलोमीटर কিলোমিটার كيلومتر کلومیٹر",
    "m": "metros mètre mètres метр метра метров मीटर মিটার متر میٹر",
    "l": "litros литр литра литров लीटर লিটার لتر لیٹر",
}
# After a number in texts without blanks, whatever follows. Not 年 and 月, which are dates.
_SPACELESS_UNITS = {
    "小时": "h", "小時": "h", "時間": "h", "分钟": "min", "分鐘": "min", "秒": "s", "天": "day", "日間": "day", "周": "week", "週間": "week", "个月": "month",
    "個月": "month", "か月": "month", "公斤": "kg", "千克": "kg", "公里": "km", "千米": "km", "米": "m", "升": "l", "美元": "$", "人民币": "¥", "元": "¥", "円": "¥",
}  # fmt: skip


def _spellings(table: dict[str, str], others: dict[str, str], more: str) -> dict[str, str]:
    """From each spelling, as `spelled` writes it, to its normal name."""
    listed = {spelled(other): name for name, words in others.items() for other in words.split()}
    listed |= {other: name for name, words in table.items() for other in (name, *words.split())}
    return listed | {name: name for name in more.split()}


_MONEY = _spellings(_CURRENCIES, _OTHER_CURRENCIES, _CODES)
_MEASURE = _spellings(_UNITS, _OTHER_UNITS, _MORE_UNITS) | _SPACELESS_UNITS


def _any(words: list[str]) -> str:
    return "|".join(re.escape(word) for word in sorted(words, key=lambda word: (-len(word), word)))


_SHORT_POWERS = {"k": 3, "m": 6, "b": 9, "t": 12}
_POWER = rf"(?: ?(?P<power>{'|'.join(POWERS)})(?!\w)|(?P<short>[kmbt])(?!\w))?"
_SIGN = r"(?P<sign>(?<![\w)])-)?"
_BEFORE = re.compile(rf"{_SIGN}(?<!\w)(?P<unit>{_any(list(_MONEY))}) ?(?P<minus>-)?(?P<number>{NUMBER}){_POWER}")
_BEHIND = re.compile(
    rf"{_SIGN}{NOT_WITHIN}(?P<number>{NUMBER}){_POWER}[ -]?(?P<unit>{_any(list(_MONEY))}|per ?cent(?! ?\w*s\b))(?!\w)"
)
# A letter glued to the number is a unit. After a space a unit needs two letters, because four spaced letters can be a sentence.
_GLUED = re.compile(rf"{_SIGN}{NOT_WITHIN}(?P<number>{NUMBER})(?P<unit>{_any(list(_MEASURE))})(?!\w)")
_SPACED = re.compile(
    rf"{_SIGN}{NOT_WITHIN}(?P<number>{NUMBER})(?: ?(?P<power>{'|'.join(POWERS)}))?[ -]"
    rf"(?P<unit>{_any([unit for unit in _MEASURE if len(unit) > 1 or not unit.isalpha()])})(?!\w)"
)
_UNSPACED = re.compile(rf"{NOT_WITHIN}(?P<number>{NUMBER}) ?(?P<unit>{_any(list(_SPACELESS_UNITS))})")


def amounts(text: str) -> Found:
    """The amounts of a spelled text whose number words are digits."""
    found: list[str] = []

    def take(match: re.Match[str]) -> str:
        found.extend(_read(match))
        return " ; "

    for pattern in (
        (_BEFORE, _BEHIND, _GLUED, _SPACED) if text.isascii() else (_BEFORE, _BEHIND, _GLUED, _SPACED, _UNSPACED)
    ):
        text = pattern.sub(take, text)
    return found, text


def _read(match: re.Match[str]) -> list[str]:
    said = match.groupdict()
    unit = said["unit"].replace(" ", "")
    name = "%" if unit == "percent" else _MONEY.get(unit) or _MEASURE[unit]
    power = POWERS.get(said.get("power") or "", 0) + _SHORT_POWERS.get(said.get("short") or "", 0)
    sign = "-" if said.get("sign") or said.get("minus") else ""
    return [f"{sign}{shifted(number, power) if power else exact(number)} {name}" for number in read(said["number"])]


Facts = tuple[str, ...]

_HAS_DIGIT = re.compile(r"\d")
# A text without any of these has no figures: most short texts need no other check.
_MAY_COUNT = re.compile(
    r"\d|\b(?:jan|feb|apr|june|july|sept|oct|nov|dec|zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twel|"
    r"once|twice|thrice|thirteen|twenty|thirty|forty|fifty|hundred|dozen|thousand|mill|bill|trill)|teen|day\b|days\b"
)
_NAMED_VERSION = re.compile(
    r"(?<!\w)(?:v|ver|versions?|releases?|rev|revision|build)(?:\.|:)? ?#?(?P<parts>\d+(?:\.\d+)*)"
    r"(?P<stage>[-.]?(?:alpha|beta|dev|post|rc|a|b)\.?\d*)?(?!\w)"
)
_DOTTED = re.compile(
    r"(?<![\w.])(?P<parts>\d+(?:\.\d+){2,})(?P<stage>[-.]?(?:alpha|beta|dev|post|rc|a|b)\.?\d*)?(?!\w)"
)
_NUMBER = re.compile(rf"(?P<sign>(?<![\w).])-)?{NOT_WITHIN}(?P<number>{NUMBER})(?P<thousands>k(?!\w))?")


# Signs with a meaning that are no part of a word or number: comparisons, operations, and suffixes of a name or grade (C++, C#, A-). Not
# signs of layout: bullets, quotes, arrows, tags, lines of them, a dash between words.
_SIGNS = re.compile(
    r"(?<![<>=!-])(?P<compared><=|>=|<>|[!=]=|(?<![a-z\"'/])[<>](?![a-z/!?])|[<>](?=\d)|[≤≥≠≈])(?![<>=-])"
    r"|(?<![\w+#-])(?:[a-z]{1,2}(?:\+{1,2}|#)|(?:[a-z]|ab)-)(?![\w+#-])"
    r"|(?<=[\w)\]])[+*^×÷](?=[\w(\[])"
    r"|(?:(?<=\b\w )|(?<=\d )|(?<=[)\]] ))(?:[+*^×÷]|//?)(?= [\w(\[])"
    r"|(?<=\b\w )-(?= \w\b)"
)
_HAS_SIGN = re.compile(r"[<>≤≥≠≈=+#*^×÷/-]")
# A capital letter as a designation: vitamin C, plan B, the language C. Not at the beginning of a sentence, where it may be a word of another
# language; not an initial or a part of "C++". I is a word, or a Roman numeral.
_LETTER = re.compile(r"(?<=[^\W\dA-Z_] )[A-HJ-Z](?!\w|\.\w|[-'’+#&])")
# Roman numerals up to 39: of two letters or more in capitals, or any behind a word that is counted by them.
_ROMAN = re.compile(
    r"(?<![\w.'’-])(?:(?<=[Tt]ype )|(?<=[Pp]art )|(?<=[Pp]hase )|(?<=[Cc]lass )|(?<=[Ss]tage )|(?<=[Cc]hapter )|(?<=[Tt]itle )"
    r"|(?<=[Vv]olume )|(?<=[Bb]ook )|(?<=[Ss]ection )|(?<=[Aa]rticle )|(?<=[Gg]rade )|(?<=[Ll]evel )|(?<=[Ff]actor )"
    r"|(?<=[Aa]nnex )|(?<=[Aa]ppendix )|(?<=[Ss]chedule )|(?<=[Tt]ier )|(?<=[Cc]ategory )|(?<=World War )|(?=[IVX]{2}))"
    r"(?P<tens>X{0,3})(?P<ones>I[XV]|V?I{0,3})(?<=[IVX])(?![\w'’-]|\.\w)"
)
_MAY_BE_ROMAN = re.compile(r"\b[IVX]{1,7}\b")
_ROMAN_ONES = {"": 0, "I": 1, "II": 2, "III": 3, "IV": 4, "V": 5, "VI": 6, "VII": 7, "VIII": 8, "IX": 9}


@dataclass(frozen=True, slots=True)
class Figures:
    """Each field is a sorted multiset of normal spellings."""

    versions: Facts
    dates: Facts
    amounts: Facts
    numbers: Facts
    signs: Facts = ()


NONE = Figures((), (), (), ())


def figures(text: str) -> Figures:
    """The figures and the signs of any text."""
    plain = spelled(text)
    said = (signs(plain) if _HAS_SIGN.search(plain) else ()) + tuple(_LETTER.findall(text))
    found = _counted(plain)
    if _MAY_BE_ROMAN.search(text) and (roman := [_roman(match) for match in _ROMAN.finditer(text)]):
        found = replace(found, numbers=tuple(sorted((*found.numbers, *roman))))
    return replace(found, signs=tuple(sorted(said))) if said else found


def _roman(match: re.Match[str]) -> str:
    return str(10 * len(match["tens"]) + _ROMAN_ONES[match["ones"]])


def signs(text: str) -> Facts:
    """The signs of a spelled text (_SIGNS)."""
    return tuple(sorted(match[0] for match in _SIGNS.finditer(text) if match.start() or not match["compared"]))


def _counted(plain: str) -> Figures:
    if not _MAY_COUNT.search(plain) and not has_other_words(plain):
        return NONE
    rest = in_digits(plain)
    days, rest = dates(rest)
    if not _HAS_DIGIT.search(rest):
        return Figures((), tuple(sorted(days)), (), ()) if days else NONE
    versions, rest = _versions(rest)
    measured, rest = amounts(rest)
    later, rest = years(rest)
    return Figures(*(tuple(sorted(kind)) for kind in (versions, days + later, measured, _numbers(rest))))


def differ(one: Facts, other: Facts) -> bool:
    """Whether each of two multisets has something that the other lacks.

    Having more is no difference: a text that leaves a figure out does not deny it. Measured on 176 pairs of sentences at 0.10 or less: a
    veto for all unequal multisets keeps 4.8 % of the true duplicates apart, this rule none; of the pairs that still merge, 0.875 and 0.870
    are duplicates (0.835 without a guard). At 0.20 it is 6.0 and 0.4 %, and 0.776 for both.
    """
    if one == other or not one or not other:
        return False
    mine, theirs = counted(one), counted(other)
    return not (mine <= theirs or theirs <= mine)


def dates_differ(one: Facts, other: Facts) -> bool:
    """The same, kind by kind: "on Thursday" and "on May 5th" can be the same day."""
    if one == other or not one or not other:
        return False
    kinds = sorted({fact.partition(" ")[0] for fact in one})
    return any(differ(of_kind(one, kind), of_kind(other, kind)) for kind in kinds)


def versions_differ(one: Figures, other: Figures) -> bool:
    """The same, where one side may leave out the word: "release 1.0" and "Flask 3.0"."""
    if bool(one.versions) is bool(other.versions):
        return differ(one.versions, other.versions)
    named, bare = (one, other) if one.versions else (other, one)
    return differ(named.versions, tuple((Counter(bare.numbers) - Counter(named.numbers)).elements()))


@lru_cache(maxsize=1024)
def counted(facts: Facts) -> frozenset[tuple[str, int]]:
    """The multiset as a set: each fact with the number of its earlier occurrences. Two sets compare in a tenth of the time."""
    seen: Counter[str] = Counter()
    found = []
    for fact in facts:
        found.append((fact, seen[fact]))
        seen[fact] += 1
    return frozenset(found)


def of_kind(facts: Facts, kind: str) -> Facts:
    """The parts of dates of one kind."""
    return tuple(fact for fact in facts if fact.startswith(f"{kind} "))


def _versions(text: str) -> tuple[list[str], str]:
    """Numbers that are called a version, or have more points than a number can have."""
    found: list[str] = []

    def take(match: re.Match[str]) -> str:
        found.append(_version(match["parts"], match["stage"] or ""))
        return " ; "

    return found, _DOTTED.sub(take, _NAMED_VERSION.sub(take, text))


def _version(parts: str, stage: str) -> str:
    """1.0, 1.0.0 and 1 are the same version; 1.10 is not 1.1."""
    numbers = [part.lstrip("0") or "0" for part in parts.split(".")]
    while len(numbers) > 1 and numbers[-1] == "0":
        numbers.pop()
    return ".".join(numbers) + stage.strip(".-").replace(".", "")


def _numbers(text: str) -> list[str]:
    found: list[str] = []
    for match in _NUMBER.finditer(text):
        places = 3 if match["thousands"] else power_behind(text, match.end())[0]
        sign = "-" if match["sign"] else ""
        found += [sign + (shifted(number, places) if places else number) for number in read(match["number"])]
    return found
