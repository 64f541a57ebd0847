"""Normalizes the spelling of numbers: 7,000 becomes 7000, as do seven thousand and ７０００.

Only spellings are normalized, without arithmetic: numbers are compared as strings of digits, so that none is too long and none is rounded.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

# A number with any separators; read() decides what they mean. Possessive, and not starting inside a number (NOT_WITHIN), because text that
# is one long number would otherwise take quadratic time.
NUMBER = r"\d++(?:[.,']\d++)*+"
NOT_WITHIN = r"(?<![\d.,])(?<!\d')"
# Powers of ten after a number. Not dozen, which is not written with digits; not m, which is as often a metre.
POWERS = {"hundred": 2, "thousand": 3, "million": 6, "mn": 6, "billion": 9, "bn": 9, "trillion": 12}

_UNITS = "zero one two three four five six seven eight nine ten eleven twelve"
_TEENS = "thirteen fourteen fifteen sixteen seventeen eighteen nineteen"
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_SMALL = {word: value for value, word in enumerate(f"{_UNITS} {_TEENS}".split())} | {
    word: 20 + 10 * i for i, word in enumerate(f"{_TENS}".split())
}
_LARGE = {"hundred": 100, "dozen": 12, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_WORD = "|".join((*_SMALL, *_LARGE))
# From two to ten in the other largest languages, single words only. Not included: words with another common meaning (dos, sept, one).
OTHER_WORDS = {
    2: "deux dois duas zwei два две दो দুই اثنان اثنين",
    3: "tres trois três drei три तीन তিন ثلاثة ثلاث تین",
    4: "cuatro quatre quatro vier четыре चार চার أربعة أربع چار",
    5: "cinco cinq fünf пять पाँच पांच পাঁচ خمسة خمس پانچ",
    6: "seis sechs шесть छह ছয় ستة ست چھ",
    7: "siete sete sieben семь सात সাত سبعة سبع سات",
    8: "ocho huit oito acht восемь आठ আট ثمانية ثماني آٹھ",
    9: "nueve neuf nove neun девять नौ تسعة تسع",
    10: "diez dix dez zehn десять दस দশ عشرة عشر دس",
}
_RUN = re.compile(rf"(?<![\w.,'])(?<!\d[ -])(?:a[ -])?(?:{_WORD})(?:(?:[ -]|, | and )(?:{_WORD}))*(?!\w)")
# How often something is done. Alone, these words often mean something else: "once it is open", "think twice".
_OFTEN = {"once": "1", "twice": "2", "thrice": "3"}
_HOW_OFTEN = re.compile(
    r"(?<!\w)(once|twice|thrice)(?= (?:an?|per|each|every|daily|hourly|nightly|weekly|monthly|yearly)(?!\w))"
)
_POWERED = re.compile(rf"(?<=\d) ?({'|'.join(POWERS)})(?!\w)")

_GROUPED = re.compile(r"\d{1,3}(?:,\d{2,3})*,\d{3}(?:\.\d+)?")  # 7,000 and India's 1,00,000
_GROUPED_BY_POINTS = re.compile(
    r"\d{1,3}(?:\.\d{3})+,\d+|\d{1,3}(?:\.\d{3}){2,}"
)  # 7.000,50 and 1.234.567, but not 7.000
_WIDE_GROUPS = re.compile(r"(?<=\d)[\u00a0\u202f\u2009](?=\d{3}(?!\d))")  # non-breaking blanks, as in 7 000
_PLAIN_SIGNS = {0x2212: "-", 0x2010: "-", 0x2011: "-", 0x2019: "'", 0x2018: "'", 0x02BC: "'", 0xAD: None, 0x200B: None}
_OTHER_DIGITS = re.compile(r"(?![0-9])\d")


def spelled(text: str) -> str:
    """``text`` in the form that guards read: NFKC, ASCII digits, folded case, plain signs, single blanks."""
    if text.isascii():
        return " ".join(text.lower().split())
    text = unicodedata.normalize("NFKC", _WIDE_GROUPS.sub(",", text)).casefold()
    text = _OTHER_DIGITS.sub(lambda digit: str(unicodedata.digit(digit[0])), text)
    return " ".join(text.translate(_PLAIN_SIGNS).split())


_OTHERS = {spelled(word): str(value) for value, words in OTHER_WORDS.items() for word in words.split()}
_MARKS = "\u064b-\u065f\u0900-\u0dff"  # vowel signs and joiners, which do not end a word
_OTHER_WORD = re.compile(
    rf"(?<!\w)(?:{'|'.join(sorted(_OTHERS, key=lambda word: (-len(word), word)))})(?![\w{_MARKS}])"
)
_ANY_WORD = re.compile(r"[^\s!-/:-@،।۔？！，。]+")


def has_other_words(text: str) -> bool:
    """Whether a spelled text has any of OTHER_WORDS. Takes a tenth of the time of a full search, and most texts have none."""
    return not _OTHERS.keys().isdisjoint(_ANY_WORD.findall(text))


def in_digits(text: str) -> str:
    """Number words of a spelled text as digits: English ones, and from two to ten of some other languages.

    A lone "one" is kept, because it is more often a pronoun than a number. So are plurals (thousands), which are no numbers, and ordinals
    (second), which have other meanings.
    """
    text = _HOW_OFTEN.sub(lambda word: _OFTEN[word[0]], text)
    if has_other_words(text):
        text = _OTHER_WORD.sub(lambda word: _OTHERS[word[0]], text)
    return _RUN.sub(lambda run: " ".join(_read_words(run[0])), text)


def read(written: str) -> list[str]:
    """The numbers in a match of NUMBER: one, unless commas list several: 1,2,3.

    A point and zeros are removed only if nothing but zeros follows it: 3.0 becomes 3, but 3.10 is not 3.1, because it may be a version.
    """
    plain = written.replace("'", "")
    if _GROUPED.fullmatch(plain):
        plain = plain.replace(",", "")
    elif _GROUPED_BY_POINTS.fullmatch(plain):
        plain = plain.replace(".", "").replace(",", ".")
    elif plain.count(",") == 1 and "." not in plain:
        plain = plain.replace(",", ".")
    return [_trimmed(part) for part in plain.split(",")]


def shifted(number: str, places: int) -> str:
    """``number`` times ten to the power of ``places``."""
    whole, _, fraction = number.partition(".")
    fraction = fraction.ljust(places, "0")
    return exact(f"{whole}{fraction[:places]}.{fraction[places:]}")


def exact(number: str) -> str:
    """``number`` without zeros that have no value: an amount of 1.50 equals 1.5."""
    whole, point, fraction = number.partition(".")
    fraction = fraction.rstrip("0")
    return f"{_whole(whole)}{point}{fraction}" if fraction else _whole(whole)


def power_behind(text: str, end: int) -> tuple[int, int]:
    """The power of ten named directly after position ``end``, and where its word ends; (0, end) without one."""
    found = _POWERED.match(text, end)
    return (POWERS[found[1]], found.end()) if found else (0, end)


def _trimmed(number: str) -> str:
    whole, point, fraction = number.partition(".")
    return f"{_whole(whole)}{point}{fraction}" if fraction.strip("0") else _whole(whole)


def _whole(digits: str) -> str:
    return digits.lstrip("0") or "0"


def _read_words(run: str) -> Iterator[str]:
    """The numbers in a run of number words: "two hundred and five" is one, "two and three" are two."""
    total, current, words = 0, None, 0
    for word in re.findall(r"[a-z]+", run):
        if word in {"a", "and"}:
            continue
        if current is not None and not _continues(current, word):
            yield _flushed(total + current, words, run)
            total, current, words = 0, None, 0
        words += 1
        if word in _SMALL:
            current = (current or 0) + _SMALL[word]
        elif _LARGE[word] <= 100:
            current = (1 if current is None else current) * _LARGE[word]
        else:
            total, current = total + (1 if current is None else current) * _LARGE[word], 0
    yield _flushed(total + (current or 0), words, run)


def _continues(current: int, word: str) -> bool:
    """Whether ``word`` continues a number that has ``current`` below its last thousand."""
    if word in _LARGE:
        return 0 < current < min(_LARGE[word], 1000)
    return current % 100 == 0 or (current % 10 == 0 and current % 100 >= 20 and 0 < _SMALL[word] < 10)


def _flushed(value: int, words: int, run: str) -> str:
    """The number in digits, with its groups: two thousand people are no year."""
    return "one" if value == 1 and words == 1 and "one" in run else f"{value:,}"
