"""What reading sets aside, and what counts nevertheless where two texts differ in it.

Case within a sentence: china and China, AIDS and aids, `der Gefangene floh` and `der gefangene Floh`. Only of a heading whose words all begin with a
capital it says nothing. Articles, brackets, emphasis, and the files of relative links, where both texts have them: a second dose is not the second
dose, and of four answers one is bold.
Points of Arabic and Hebrew, which most texts leave out: where both write them, they are part of the word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from ..reading.marks import BRACKETS, POINTS, QUOTES, TATWEEL, linked_files, stressed
from ..reading.text import OPENERS, Passage
from ..reading.words import IS_SPACELESS
from .covering import Run

# Letters of a word whose case is compared, and of one that has a capital in headings.
LEAST, IN_HEADINGS = 2, 4
_POINTED = re.compile(f"\\w*[{POINTS}][\\w{POINTS}]*+")
Pair = tuple[int, int]  # a token here, and the same there
_POINT = re.compile(f"[{POINTS}]+")
# Emphasised phrases that are looked for in the other text: each takes a pass over it.
MOST_PHRASES = 100
# What sets words apart within a sentence, behind or before quotes and emphasis.
_STOPS = frozenset(",;:،，、；：") | BRACKETS
_INSIDE = re.compile("[,;:،，、；：.!?。！？…]+")
_QUOTES = "".join(QUOTES) + "*_"
_TAIL = ".,;:!?\"'”’»)]}*_"


@dataclass(frozen=True, slots=True)
class Difference:
    """The first word that differs. ``text``: the number of the kept text."""

    word: str
    instead: str
    text: int


def difference(
    raw: str, mine: Passage, runs: Sequence[Run], texts: Mapping[int, Passage], raws: Mapping[int, str]
) -> Difference | None:
    """What differs between a text and the kept texts whose runs cover it; None if nothing does."""
    for run in runs:
        words = _other_dress(mine, run, texts[run.text])
        if words is not None:
            return Difference(*words, run.text)
    numbers = dict.fromkeys(run.text for run in runs)
    for number in numbers:
        phrases = _other_emphasis(raw, raws[number])
        if phrases is not None:
            return Difference(*phrases, number)
    marks = _marked(raw)
    if not marks:
        return None
    known: dict[str, tuple[str, int]] = {}
    forms: set[str] = set()
    for number in numbers:
        for bare, words_ in _marked(raws[number]).items():
            forms |= words_
            known.setdefault(bare, (min(words_), number))
    return next(
        (
            Difference(min(words_ - forms), *known[bare])
            for bare, words_ in marks.items()
            if bare in known and words_ - forms
        ),
        None,
    )


def _other_emphasis(raw: str, other: str) -> tuple[str, str] | None:
    """A phrase that is emphasised here alone, and one of the same text that is emphasised there alone."""
    mine = stressed(raw)
    theirs = stressed(other) if mine else mine
    more, less = mine - theirs, theirs - mine
    if not more or not less:
        return None
    bare = raw.lower()
    instead = next((phrase for phrase in islice(sorted(less), MOST_PHRASES) if phrase in bare), None)
    return None if instead is None else (min(more), instead)


def _marked(text: str) -> dict[str, set[str]]:
    """The words with points, by their letters, and the files that relative links lead to, by the words of the link."""
    marks: dict[str, set[str]] = {}
    for words, name in linked_files(text):
        marks.setdefault(f"[{words}]", set()).add(name)
    if not text.isascii() and _POINT.search(text) is not None:
        for word in _POINTED.findall(text.replace(TATWEEL, "")):
            marks.setdefault(_POINT.sub("", word), set()).add(word)
    return marks


def _other_dress(mine: Passage, run: Run, theirs: Passage) -> tuple[str, str] | None:
    """The first words of a run that differ in what both texts wear."""
    if not run.edits and _worn(mine, run.start, run.end) == _worn(theirs, run.at, run.until):
        return None
    places = _other_stop(mine, run, theirs)
    if places is not None:
        return mine.origins[places[0]], theirs.origins[places[1]]
    for sentence in _sentences(mine, run):
        for differing in (_other_case, _other_articles, _other_brackets):
            places = differing(mine, theirs, sentence)
            if places is not None:
                return mine.origins[places[0]], theirs.origins[places[1]]
    return None


def _worn(passage: Passage, start: int, end: int) -> tuple[tuple[str, ...], list[tuple[int, str]]]:
    articles = [(place - start, article) for place, article in passage.articles.items() if start <= place < end]
    return passage.origins[start:end], articles


def _other_stop(mine: Passage, run: Run, theirs: Passage) -> Pair | None:
    """A word with a stop behind it, where the other text has none: no refunds, and no, refunds. Which stop it is, is formatting."""
    rows, kept_rows = frozenset(mine.rows), frozenset(theirs.rows)
    for place in range(run.start, run.end - 1):
        at = run.place(place)
        if at < 0 or run.place(place + 1) != at + 1 or place + 1 in rows or at + 1 in kept_rows:
            continue  # a line's end is a stop, too
        one, other = mine.origins[place], theirs.origins[at]
        if one != other and IS_SPACELESS.search(one) is not None and _has_other_inside(one, other):
            return place, at
        if {_has_stop(mine, place), _has_stop(theirs, at)} == {True, False}:
            return place, at
    return None


def _has_other_inside(one: str, other: str) -> bool:
    """Whether two runs without blanks have the same characters and stops at other places."""
    if _INSIDE.sub("", one) != _INSIDE.sub("", other):
        return False
    return _INSIDE.sub(",", one).strip(",") != _INSIDE.sub(",", other).strip(",")


def _has_stop(passage: Passage, place: int) -> bool | None:
    """Whether a stop stands between this token and the next one; None if it may be a part of the word."""
    if passage.origins[place] is passage.origins[place + 1]:
        return None
    if passage.is_bound(place + 1) or passage.origins[place + 1].lstrip(_QUOTES)[:1] in BRACKETS:
        return True
    last = passage.origins[place].rstrip(_QUOTES)[-1:]
    return True if last in _STOPS else False if last.isalnum() else None


def _sentences(mine: Passage, run: Run) -> Iterator[list[Pair]]:
    """The tokens of a run, here and there, by sentences."""
    bounds = frozenset(mine.bounds)
    pairs: list[Pair] = []
    for place in range(run.start, run.end):
        if place in bounds and pairs:
            yield pairs
            pairs = []
        at = run.place(place)
        if at >= 0:
            pairs.append((place, at))
    yield pairs


def _other_case(mine: Passage, theirs: Passage, sentence: list[Pair]) -> Pair | None:
    """A word within the sentence with another case, where the sentence is no heading in capitals there or here."""
    words: list[tuple[str, str, Pair]] = []
    for pair in sentence:
        one, other = _word(mine, pair[0]), _word(theirs, pair[1])
        if one and one.lower() == other.lower():
            words.append((one, other, pair))
    differing = next((pair for one, other, pair in words if one != other), None)
    if differing is None or len(words) < 2:
        return differing
    long = [(one[0], other[0]) for one, other, _ in words if len(one) >= IN_HEADINGS]
    is_heading = bool(long) and any(all(map(str.isupper, letters)) for letters in zip(*long, strict=True))
    return None if is_heading else differing


def _other_articles(mine: Passage, theirs: Passage, sentence: list[Pair]) -> Pair | None:
    """A word with a definite article for an indefinite one, or one whose article stands elsewhere in the other text: an only child, only a child."""
    more = less = None
    for pair in sentence:
        one, other = mine.articles.get(pair[0]), theirs.articles.get(pair[1])
        if one and other and (one == "the") != (other == "the"):
            return pair
        more, less = more or (pair if one and not other else None), less or (pair if other and not one else None)
    return more if less is not None else None


def _other_brackets(mine: Passage, theirs: Passage, sentence: list[Pair]) -> Pair | None:
    """A word with other brackets, where both sentences have some: (a and b) or c, a and (b or c)."""
    pairs = [(_brackets(mine.origins[place]), _brackets(theirs.origins[at])) for place, at in sentence]
    if not (any(one for one, _ in pairs) and any(other for _, other in pairs)):
        return None
    return next((pair for pair, (one, other) in zip(sentence, pairs, strict=True) if one != other), None)


def _brackets(origin: str) -> list[str]:
    return [mark for mark in origin if mark in BRACKETS]


def _word(passage: Passage, place: int) -> str:
    """A plain word within a sentence; "" for anything else."""
    if passage.is_bound(place) and place not in passage.articles:
        return ""
    word = passage.origins[place].lstrip(OPENERS).rstrip(_TAIL)
    return word if len(word) >= LEAST and word.isalpha() and (word[1:].islower() or word.isupper()) else ""
