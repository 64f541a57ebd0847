"""Why a result left the page or stays on it, in words.

A result that left names the results that say it; one that stays names the first thing that the page would miss. The kind of a reason needs no text.
Its words are of the texts, so they are shown only where the settings allow texts.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from ..selection.geometry import Mask
from ..selection.judging.covering import LONG
from ..selection.judging.judge import Missing, Verdict
from ..selection.judging.walk import explained
from ..selection.policy import Policy
from ..selection.reading.text import Passage, Text
from ..selection.values import Candidates, Link, Selection
from .pools import KeptPool

# From this required similarity on, vectors are nearly equal; a policy's own cut is lower.
NEARLY_EQUAL = 0.99
# Characters of a quotation: one run of a text without blanks can be long.
QUOTED = 80
# Differences of an edited copy that are quoted.
MOST_QUOTED = 3
# The share of a text that is said before the first thing that is not.
ALIKE = 0.25
# Tokens within which two equal texts agree again after a difference, and how many must agree.
WITHIN, AGREE = 8, 2
# The share of its words that make a short text like another.
HALF = 0.5


def why_left(link: Link, numbers: Sequence[int | str], similarity: float, cut: float, *, but: str = "") -> str:
    """``numbers``: the results that say it, as the reader sees them, the main one first. ``similarity``, ``cut``: as in Selection. ``but``: what was
    passed over.
    """
    first, all_of_them = str(numbers[0]), listed(numbers)
    match link:
        case Link.EQUAL:
            return f"says the same as {first}{but and f' but for {but}'}"
        case Link.CONTAINED | Link.JOINED:
            return f"all of it is in {all_of_them}"
        case Link.EDITED:
            return f"an edited copy of {all_of_them}{but and f': {but}'}"
        case Link.REWORDED:
            return f"repeats {first} in other words (doubt {_short(1.0 - similarity)})"
        case _:
            return _by_vector(first, similarity, cut)


def _by_vector(number: str, similarity: float, cut: float) -> str:
    if cut >= NEARLY_EQUAL:
        return f"nearly the same vector as {number}"
    if not math.isfinite(similarity):
        return f"in one cluster with {number} by their vectors"
    required = f", cut {_short(cut)}" if math.isfinite(cut) else ""
    return f"a vector near that of {number} ({_short(similarity)}{required})"


def _short(share: float) -> str:
    """A share with two digits: .21, 1.00."""
    return f"{max(share, 0.0):.2f}".removeprefix("0")


def listed(numbers: Sequence[int | str]) -> str:
    """7 · 7 and 9 · 7, 9 and 12."""
    *most, last = map(str, numbers)
    return f"{', '.join(most)} and {last}" if most else last


def why_stays(missing: Missing, number: int, *, has_words: bool) -> str:
    """``number``: of the result that is like it, as the reader sees it. ``has_words``: whether words of the texts may be shown."""
    if not missing.words and not missing.instead:
        return f"stays: only a part of it is in {number}"
    if not missing.words:
        goes_on = f"stays: in {number} the sentence goes on"
        return f"{goes_on}: {quoted(missing.instead)}" if has_words else goes_on
    if not missing.instead:
        return f"stays: adds {quoted(missing.words)} to {number}" if has_words else f"stays: says more than {number}"
    if has_words:
        words, instead = missing.words.split(" "), missing.instead.split(" ")
        # Without the words that both begin with, but not without all.
        at = min(_common(words, instead), len(words) - 1, len(instead) - 1)
        return f"stays: {quoted(' '.join(words[at:]))} for {quoted(' '.join(instead[at:]))} in {number}"
    return f"stays: says something else than {number}"


def quoted(words: str) -> str:
    """Words of a text in quotation marks, cut to a bounded length."""
    words = words.removesuffix(" …") if len(words) > QUOTED else words
    return f"'{words[:QUOTED].rstrip()} …'" if len(words) > QUOTED else f"'{words}'"


def passed_over(verdict: Verdict, text: Text, holder: Text) -> str:
    """What differs between a text that left and the one that says it, in words; "" if nothing that could be named."""
    if verdict.link is Link.EQUAL and text.raw != holder.raw:
        return _difference(text.passages(exact=True)[0], holder.passages(exact=True)[0])
    if verdict.link is not Link.EDITED:
        return ""
    differences = [_changed(mine, theirs) for mine, theirs in verdict.passed if mine or theirs]
    more = len(differences) - MOST_QUOTED
    return ", ".join(differences[:MOST_QUOTED]) + (f" and {more} more" if more > 0 else "")


def _changed(mine: str, theirs: str) -> str:
    if not mine:
        return f"{quoted(theirs)} left out"
    return f"{quoted(mine)} for {quoted(theirs)}" if theirs else f"{quoted(mine)} added"


def _difference(mine: Passage, theirs: Passage) -> str:
    """The first difference of two texts that say the same: of the words, else only of how they are set."""
    at = _common(mine.tokens, theirs.tokens)
    if at == len(mine.tokens) == len(theirs.tokens):
        return "its layout"
    more, less = _agreeing(mine.tokens[at:], theirs.tokens[at:])
    words, instead = mine.words(at, at + more), theirs.words(at, at + less)
    return f"{quoted(words)} for {quoted(instead)}" if words and instead else quoted(words or instead)


def _common(mine: Sequence[str], theirs: Sequence[str]) -> int:
    """How many tokens both begin with."""
    pairs = zip(mine, theirs, strict=False)
    return next((place for place, pair in enumerate(pairs) if pair[0] != pair[1]), min(len(mine), len(theirs)))


def _agreeing(mine: Sequence[str], theirs: Sequence[str]) -> tuple[int, int]:
    """After how many tokens of each both go on equally."""
    for total in range(1, WITHIN + 1):
        for more in range(total + 1):
            less = total - more
            if more <= len(mine) and less <= len(theirs) and mine[more : more + AGREE] == theirs[less : less + AGREE]:
                return more, less
    return min(len(mine), WITHIN), min(len(theirs), WITHIN)


def verdicts(candidates: Candidates, policy: Policy, standing: Mask) -> dict[int, Verdict]:
    """The verdict on each candidate with a text, by the results before it that stand (n,), in words.

    The judge names what is like a short text only if a sentence or six words in a row are equal. For a person the nearest words is named.
    """
    texts = candidates.metadata.texts
    if policy.texts is None or texts is None:
        return {}
    by_place, kept = explained(candidates, policy, np.flatnonzero(standing)), list[_Wording]()
    for place, verdict in by_place.items():
        text = texts[place]
        words = None if text is None else _wording(place, text)
        if words is None:
            continue
        if not verdict.holders and (verdict.missing is None or verdict.missing.text < 0):
            missing = words.missing(kept if candidates.tenants is None else _of_tenant(kept, candidates.tenants, place))
            by_place[place] = verdict if missing is None else replace(verdict, missing=missing)
        if standing[place]:
            kept.append(words)
    return by_place


def _of_tenant(kept: Sequence[_Wording], tenants: npt.NDArray[np.int64], place: int) -> list[_Wording]:
    return [holder for holder in kept if tenants[holder.place] == tenants[place]]


@dataclass(frozen=True, slots=True)
class _Wording:
    """A short text. ``words``: its different tokens."""

    place: int
    passage: Passage
    words: frozenset[str]

    def missing(self, kept: Sequence[_Wording]) -> Missing | None:
        """What the text with most of its words does not say; None if none has half of them."""
        shares = [len(self.words & wording.words) / max(len(self.words), len(wording.words)) for wording in kept]
        nearest = max(range(len(kept)), key=shares.__getitem__, default=-1)
        if nearest < 0 or shares[nearest] < HALF:
            return None
        mine, theirs = self.passage, kept[nearest].passage
        at = _common(mine.tokens, theirs.tokens)
        more, less = _agreeing(mine.tokens[at:], theirs.tokens[at:])
        # One token more: what a number counts; and what an omission is before, so that it does not seem to be the end.
        further = at + more < len(mine.tokens) and (more == 0 or mine.tokens[at + more - 1][-1:].isdigit())
        words, instead = mine.words(at, at + more + further), theirs.words(at, at + less + further)
        return Missing(words, instead, kept[nearest].place)


def _wording(place: int, text: Text) -> _Wording | None:
    """None for a text that is not read, or is long."""
    if text.cost() < 0:
        return None
    passage = text.passages()[0]
    return _Wording(place, passage, frozenset(passage.tokens)) if 0 < len(passage.tokens) < LONG else None


def in_words(pool: KeptPool, selection: Selection, *, has_words: bool) -> Mapping[int, str]:
    """The reason of each candidate of a selection, by its rank: of those that are like another. Numbers are ranks, from 1. It reads all texts."""
    candidates = pool.candidates()
    texts = candidates.metadata.texts or ()
    standing = selection.representative == np.arange(candidates.size)
    reasons: dict[int, str] = {}
    for place, verdict in verdicts(candidates, pool.policy, standing).items():
        missing = verdict.missing
        if not standing[place]:
            reasons |= _of_left(place, verdict, selection, texts) if has_words else {}
        elif missing is not None and is_alike(verdict):
            reasons[place] = why_stays(missing, missing.text + 1, has_words=has_words)
    return reasons


def is_alike(verdict: Verdict) -> bool:
    """Whether a text that stays is so much like a kept one that a person would ask why: a quarter of it is there, or little is missing."""
    missing = verdict.missing
    return missing is not None and missing.text >= 0 and (verdict.share >= ALIKE or not missing.words.endswith("…"))


def _of_left(place: int, verdict: Verdict, selection: Selection, texts: Sequence[Text | None]) -> dict[int, str]:
    """The reason of a candidate that left, if its verdict is the one by which it left."""
    head, text = int(selection.representative[place]), texts[place]
    if verdict.link != selection.links[place] or verdict.holders[:1] != (head,) or text is None:
        return {}
    holder = texts[head]
    but = "" if holder is None else passed_over(verdict, text, holder)
    numbers = [number + 1 for number in verdict.holders]
    return {place: why_left(verdict.link, numbers, verdict.share, math.nan, but=but)}
