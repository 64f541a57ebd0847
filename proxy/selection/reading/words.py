"""The tokens of a run without blanks: words, numbers, identifiers, links and marks.

Runs are read once and kept, because a language has few of them: of a hundred words of a new text, ninety-five were seen before.

Case is folded in plain words only (Xxxx, xxxx, and XXXX of four letters or more): mW and MW, Mb and MB, Config and config as code are
different things. A number is one token with its sign, and so is an identifier, a version, a date, an address and a link. A mark that is no
formatting is a token.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from .marks import BRACKETS, CLOSERS, DASHES, ENDS, FORMATTING, VERBATIM


def word_set(words: str) -> frozenset[str]:
    """The words of a string, as they are listed in this package."""
    return frozenset(words.split())


class Run(NamedTuple):
    """A run without blanks. ``tokens``: in order. ``exact``: the same without any folding but that of case; None: the same tokens. ``ends``:
    whether a sentence may end behind it. ``asks``: whether it ends with a question mark, which is not among the tokens. ``is_number``: whether the
    last token is a number, so that a unit may follow. ``inner``: the number of tokens before each sentence that begins inside (scripts without
    blanks).
    """

    tokens: tuple[str, ...]
    exact: tuple[str, ...] | None
    ends: bool
    asks: bool
    is_number: bool
    inner: tuple[int, ...]


# First and last code points of scripts without blanks: one character is one token.
SPACELESS = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u2e80-\u2fdf\u3005-\u3007\u3021-\u302f\u3041-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uf900-\ufaff\U0001b000-\U0001b16f\U00020000-\U0003ffff"
)
# Any dash that is no hyphen, no sign and no bullet: Monday–Friday is no list, and – 5 degrees is frost. Which dash it is, is formatting.
DASH = "–"
IS_SPACELESS = re.compile(f"[{SPACELESS}]")
_ARE_SPACELESS = re.compile(f"[{SPACELESS}]+")


def _marks_of_letters() -> str:
    """Combining marks below U+AC00, as a character class: they belong to the word that they stand in, and are no letters to a pattern."""
    codes = (*range(0x300, 0x2100), *range(0xA000, 0xAC00))
    marks = dict.fromkeys(code for code in codes if unicodedata.category(chr(code))[0] == "M")
    firsts = [code for code in marks if code - 1 not in marks]
    lasts = [code for code in marks if code + 1 not in marks]
    return "".join(f"{chr(first)}-{chr(last)}" for first, last in zip(firsts, lasts, strict=True))


_LETTER = f"[\\w{_marks_of_letters()}]"
# Further parts of a number. No date, version or address has more, and a list of numbers before a letter would be read from each of its numbers on.
_MOST_PARTS = 15
# In the order of trial: a link or address; a number with its sign; a flag; a word or identifier whose parts are joined by one mark, perhaps with
# a sign behind it (C++, A-, F#); a struck word; any other mark.
_TOKEN = re.compile(
    f"""
    (?P<link>(?:[a-zA-Z][a-zA-Z0-9+.-]{{1,15}}://|www\\.)[^\\s<>"]+|{_LETTER}[\\w.+-]{{0,63}}@{_LETTER}[\\w.-]+)
  | (?P<number>(?:(?<![\\w)\\]])[-+–])?\\d+(?:[.,:/'’–-]\\d+){{0,{_MOST_PARTS}}}+(?!{_LETTER}))
  | (?P<flag>(?<![\\w)\\]-])--?(?=[^\\W\\d]){_LETTER}+(?:[-.=:/]{_LETTER}+)*+)
  | (?P<word>(?:(?<![\\w)\\].])[./])?{_LETTER}+(?:(?:[.\\-_/@:\\\\'+·]|://){_LETTER}+)*+(?:\\+\\+|[+#](?!\\w)|-(?![\\w>-]))?)
  | (?P<mark>\\S)
    """,
    re.VERBOSE,
)
_THOUSANDS = re.compile("\\d{1,3}(?:,\\d{3})+(?:\\.\\d+)?")
_PLAIN = re.compile("[^\\W\\d_]+")
_COMPOUND = re.compile("[^\\W\\d_]{3,}(?:-[^\\W\\d_]{3,})+|[eE]-[^\\W\\d_]{3,}")
_GREEK = re.compile("[\u0370-\u03ff]")  # its question mark is a semicolon
_OPERATOR = re.compile(
    "[!:]=|::|(?<=\\[):|:(?=\\])|(?<!\\w)\\.(?=\\*)|\\.(?=[*+]\\S)|->|<-|\\.\\.(?=/)|!(?=[\\w=])|(?<![^\\W\\d_]{2})(?<=[\\w)])(?:!(?![!?(])|[!?]{2,}(?![!?]))|(?<=\\w)'{1,3}(?=\\()"
    "|,(?=[\\])}:])|(?<=[\\[({:]),"
)
# Brackets of a pattern, a formula or a loss: in a run that has one of these marks, too.
_GROUPED = frozenset("|^*+=<>&\\%$€£¥")
_TRAILING = ".,;:!?…\"'”’»›)]}>*_`。，、；：！？」』）】"

# Before a point, these are abbreviations: no sentence ends there.
_ABBREVIATED = word_set(
    "mr mrs ms dr prof st no nr fig figs sec ch vol vs al etc e.g i.e z.b d.h bzw ca approx inc ltd co corp dept est art abs p pp ed eds jr sr "
    "gen col rev hon u.s u.k a.m p.m cf esp resp usw evtl ggf inkl sog str tel av no núm sr sra dra ej pág p.ej"
)

# Spellings of British English: stems that end with -our, and words that end with -re. No word whose American spelling is another word, too: cheque
# and check, storey and story.
_OUR = re.compile(
    "^((?:un|dis|mis)?(?:col|fav|hon|lab|behavi|neighb|flav|harb|hum|rum|vap|arm|od|parl|rig|sav|vig|endeav|cand|clam|splend|ferv|val|glam))our"
)
_ISE = re.compile("^(.{3,})is(e|ed|es|ing|er|ers|ation|ations|able)$")
_YSE = re.compile("^((?:an|par|cat|electrol|hydrol|dial)al|paral|anal|catal|dial)ys(e|ed|es|ing|er|ers)$")
_WORDS = {
    "centre": "center", "centres": "centers", "litre": "liter", "litres": "liters", "theatre": "theater",
    "theatres": "theaters", "fibre": "fiber", "fibres": "fibers", "kilometre": "kilometer", "kilometres": "kilometers", "centimetre": "centimeter",
    "centimetres": "centimeters", "millimetre": "millimeter", "millimetres": "millimeters", "defence": "defense", "offence": "offense",
    "licence": "license", "licences": "licenses", "grey": "gray", "catalogue": "catalog",
    "catalogues": "catalogs", "dialogue": "dialog", "dialogues": "dialogs",
    "travelled": "traveled", "travelling": "traveling", "traveller": "traveler", "travellers": "travelers", "cancelled": "canceled",
    "cancelling": "canceling", "modelled": "modeled", "modelling": "modeling", "labelled": "labeled", "labelling": "labeling", "fulfil": "fulfill",
    "enrol": "enroll", "enrolment": "enrollment", "instalment": "installment", "instalments": "installments", "aluminium": "aluminum",
    "judgement": "judgment", "jewellery": "jewelry", "mould": "mold", "sceptical": "skeptical",
}  # fmt: skip
# What is meant by a digit within the letters of a word: an error of OCR. In a long text no word has digits inside, and a password of short ones does. Not rn
# for m: a cornet is no comet.
_MISREAD = re.compile("[^\\W\\d_]*[01][^\\W\\d_01]*(?:[01][^\\W\\d_]*)*")
_MISREAD_DIGITS = {ord("1"): "l", ord("0"): "o"}

_REPEATED = 64  # longer runs are read again each time: they hardly come twice
_MOST_RUNS = 1 << 16
# Longer runs are one token: no word, link or formula is that long.
LONGEST_RUN = 1_000

_RUNS: dict[str, Run | str] = {}


def run_of(run: str) -> Run | str:
    """What a run says: a single plain word as its token, everything else as a Run."""
    known = _RUNS.get(run)
    if known is None:
        known = _read(run)
        if len(run) <= _REPEATED:
            if len(_RUNS) >= _MOST_RUNS:
                _RUNS.clear()
            _RUNS[run] = known
    return known


known_run = _RUNS.get


def _read(run: str) -> Run | str:
    if run.isascii() and run.isalpha():
        folded = fold(run)
        token = spelled(folded) if folded == run else folded
        return token if token == folded else Run((token,), (folded,), False, False, False, ())
    if run[:-1].isalpha() and run[-1] in ",;:." and run.isascii():
        folded = fold(run[:-1])
        ends = run[-1] == "." and run[:-1].lower() not in _ABBREVIATED
        token = spelled(folded) if folded == run[:-1] else folded
        return (
            Run((token,), None if token == folded else (folded,), ends, False, False, ())
            if ends or token != folded
            else token
        )
    if run[0] == VERBATIM:
        return Run((run,), None, False, False, False, ())
    if len(run) > LONGEST_RUN and not IS_SPACELESS.search(run):
        return Run((run,), None, False, False, False, ())  # encoded data: whatever differs in it counts
    bare = run.rstrip(CLOSERS)
    ends = bool(bare) and bare[-1] in ENDS and bare.rstrip(ENDS).lstrip("(\"'“„").lower() not in _ABBREVIATED
    tokens, exact, inner, is_number = _tokens(run)
    asks = bare[-1:] == ";" and _GREEK.search(run) is not None
    ends = ends or asks
    if tokens and tokens[-1] == "?" and bare[-1:] in "?？":
        tokens, exact, asks = tokens[:-1], exact[:-1], True
    if not ends and not inner and not is_number and len(tokens) == 1 and tokens == exact and not asks:
        return tokens[0]
    return Run(tuple(tokens), None if tokens == exact else tuple(exact), ends, asks, is_number, tuple(inner))


def _tokens(run: str) -> tuple[list[str], list[str], list[int], bool]:
    """The tokens of a run, the same in exact spelling, where sentences begin inside, and whether the last token is a number."""
    tokens: list[str] = []
    exact: list[str] = []
    inner: list[int] = []
    is_number = False
    is_code = len(run) > 2 and "`" in run
    has_brackets = ("(" in run or "[" in run) and not _GROUPED.isdisjoint(run)
    place, end = 0, len(run)
    while place < end:
        operator = _OPERATOR.match(run, place) if run[place] in "!?:-<.'," else None
        if operator is not None:
            tokens.append(operator[0])
            exact.append(operator[0])
            place, is_number = operator.end(), False
            continue
        match = _TOKEN.match(run, place)
        if match is None:
            place += 1
            continue
        kind, text = match.lastgroup, match[0]
        place = match.end()
        if kind == "mark":
            meaning = _meaning(text, tokens, has_brackets=has_brackets)
            if meaning:
                tokens.append(meaning)
                exact.append(meaning)
            ends_inside = text in ENDS and tokens and place < end and IS_SPACELESS.match(run[place]) is not None
            if ends_inside:
                inner.append(len(tokens))
            is_number = is_number and not meaning and not ends_inside
            continue
        is_number = kind == "number"
        for token in _split(text, kind or "", is_code=is_code):
            exact.append(token)
            tokens.append(_usual(token, is_number=is_number, is_word=text.islower() and not is_code))
    return _brackets(run, tokens, exact, inner, is_number=is_number)


def _usual(token: str, *, is_number: bool, is_word: bool) -> str:
    """A token in its usual spelling in English: without thousands commas, and American."""
    if is_number:
        return token.replace(",", "") if _THOUSANDS.fullmatch(token.lstrip("+-")) else token
    return spelled(token) if is_word else token


def _meaning(mark: str, before: list[str], *, has_brackets: bool) -> str:
    """The token of a mark; "" for formatting. ``before``: the tokens before it."""
    if mark in DASHES:
        return "" if before[-1:] == [DASH] else DASH
    if mark in FORMATTING:
        return "" if not has_brackets or mark not in BRACKETS else mark
    return "?" if mark == "？" else mark


_INTERVAL = re.compile("[\\[(]\\s?[-+]?[\\d.]+[^\\s]*?[\\])\\[(]")
_ACCOUNTING = re.compile("^\\W?\\([\\d.,]+[a-zA-Z]{0,2}\\)\\W?$")


def _brackets(
    run: str, tokens: list[str], exact: list[str], inner: list[int], *, is_number: bool
) -> tuple[list[str], list[str], list[int], bool]:
    """Brackets that belong to a number: (1,200) is a loss."""
    if len(tokens) == 1 and run[:1] in "($€£-" and _ACCOUNTING.match(run) is not None:
        tokens, exact = [f"({tokens[0]})"], [f"({exact[0]})"]
    return tokens, exact, inner, is_number


def _split(text: str, kind: str, *, is_code: bool) -> list[str]:
    """The tokens of one match."""
    if kind == "link":
        return [text.rstrip(_TRAILING)] if text.rstrip(_TRAILING) else []
    if kind == "number":
        return [_ascii_digits(text).replace("–", "-").replace("’", "'")]
    if IS_SPACELESS.search(text):
        return _spaceless(text)
    if not text.isascii():
        text = _ascii_digits(text)
    if is_code or kind == "flag":
        return [text]
    if _COMPOUND.fullmatch(text):
        text = "".join(part if place == 0 else part.lower() for place, part in enumerate(text.split("-")))
    return [fold(text)]


def _spaceless(text: str) -> list[str]:
    """Characters of scripts without blanks one by one; other runs within as they are."""
    if _ARE_SPACELESS.fullmatch(text):
        return list(text)
    pieces: list[str] = []
    start = 0
    for place, character in enumerate(text):
        if IS_SPACELESS.match(character):
            if start < place:
                pieces.append(fold(_ascii_digits(text[start:place])))
            pieces.append(character)
            start = place + 1
    if start < len(text):
        pieces.append(fold(_ascii_digits(text[start:])))
    return pieces


def _ascii_digits(text: str) -> str:
    if text.isascii():
        return text
    return "".join(str(unicodedata.decimal(character)) if character.isdecimal() else character for character in text)


def fold(word: str) -> str:
    """A word without the case that a sentence, a heading or emphasis gives it."""
    if word.islower():
        return word
    tail = word[1:]
    if tail and (tail.islower() or (len(word) >= 4 and word.isupper())) and _PLAIN.fullmatch(word.replace("'", "")):
        return word.lower()
    return word


def spelled(word: str) -> str:
    """A word in small letters in American spelling. Names keep theirs: Grey and Gray are two persons."""
    if len(word) < 4 or not word.isalpha():
        return word
    known = _WORDS.get(word)
    if known is not None:
        return known
    if "our" in word:
        word = _OUR.sub(r"\1or", word)
    if "is" in word and len(word) >= 7:
        word = _ISE.sub(r"\1iz\2", word)
    elif "ys" in word:
        word = _YSE.sub(r"\1yz\2", word)
    return word


def misread(word: str) -> str:
    """A word with the letters that OCR took for digits."""
    return word.translate(_MISREAD_DIGITS) if sum(map(str.isalpha, word)) >= 3 and _MISREAD.fullmatch(word) else word
