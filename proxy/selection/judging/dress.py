"""What reading sets aside, and what counts nevertheless where two texts differ in it.

Case within a sentence: china and China, `der Gefangene floh` and `der gefangene Floh`. Only of a heading whose words all begin with a capital it
says nothing. Points of Arabic and Hebrew, which most texts leave out: where both write them, they are part of the word.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..reading.marks import POINTS, TATWEEL
from ..reading.text import OPENERS, Passage
from .covering import Run

# Letters of a word whose case is compared: of shorter ones the reader keeps it.
LEAST = 4
_POINTED = re.compile(f"\\w*[{POINTS}][\\w{POINTS}]*+")
_POINT = re.compile(f"[{POINTS}]+")
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
        words = _other_case(mine, run, texts[run.text])
        if words is not None:
            return Difference(*words, run.text)
    own = _pointed(raw)
    if not own:
        return None
    known: dict[str, tuple[str, int]] = {}
    forms: set[str] = set()
    for number in dict.fromkeys(run.text for run in runs):
        for bare, words_ in _pointed(raws[number]).items():
            forms |= words_
            known.setdefault(bare, (min(words_), number))
    return next(
        (
            Difference(min(words_ - forms), *known[bare])
            for bare, words_ in own.items()
            if bare in known and words_ - forms
        ),
        None,
    )


def _pointed(text: str) -> dict[str, set[str]]:
    """The words with points, by their letters."""
    if text.isascii() or _POINT.search(text) is None:
        return {}
    text = text.replace(TATWEEL, "")
    found: dict[str, set[str]] = {}
    for word in _POINTED.findall(text):
        found.setdefault(_POINT.sub("", word), set()).add(word)
    return found


def _other_case(mine: Passage, run: Run, theirs: Passage) -> tuple[str, str] | None:
    """A word within a sentence that has another case than in the kept text, where the sentence is no heading in capitals there or here."""
    if not run.edits and mine.origins[run.start : run.end] == theirs.origins[run.at : run.until]:
        return None
    bounds, kept_bounds = frozenset(mine.bounds), frozenset(theirs.bounds)
    words: list[tuple[str, str]] = []  # of one sentence, here and there
    for place in range(run.start, run.end):
        if place in bounds:
            if (found := _meant(words)) is not None:
                return found
            words = []
        at = run.place(place)
        if at < 0 or place in bounds or at in kept_bounds:
            continue
        one, other = _word(mine.origins[place]), _word(theirs.origins[at])
        if one and one.lower() == other.lower():
            words.append((one, other))
    return _meant(words)


def _word(origin: str) -> str:
    """A word in small letters but for the first; "" for anything else."""
    word = origin.lstrip(OPENERS).rstrip(_TAIL)
    return word if len(word) >= LEAST and word.isalpha() and word[1:].islower() else ""


def _meant(words: Sequence[tuple[str, str]]) -> tuple[str, str] | None:
    differing = next((pair for pair in words if pair[0] != pair[1]), None)
    if differing is None or len(words) < 2:
        return differing
    is_heading = all(here[0].isupper() for here, _ in words) or all(there[0].isupper() for _, there in words)
    return None if is_heading else differing
