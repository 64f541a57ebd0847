"""Which way a text points: whether it denies or takes back, and which sides of opposites it names.

Two short texts that say almost the same and point opposite ways state opposite facts, however near their vectors are
("bans" and "lifts ban" are 0.06 apart). Two reversals cancel each other: what is not allowed is forbidden.

"Almost the same" is part of the rule. In a paraphrase in other words a "not" has its counterpart somewhere ("impractical",
"too young to"), and no list knows it. Measured on pairs at 0.20 or less: without the condition 8 to 28 % of the true duplicates
among claims and tickets were kept apart, with it 3 %; of edited sentences it changes nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from vecsieve.proxy.selection.guards import lexicon, opposites
from vecsieve.proxy.selection.guards.numerals import spelled

# Of the words of both texts but the cues themselves, the share (Dice) that must be common.
ALIKE = 0.6
# Letters by which two words are the same one: works and work, but seldom two different ones.
STEM = 4

_SPACELESS = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff"
_MARKS = "\u0300-\u036f\u0591-\u05c7\u064b-\u065f\u0900-\u0dff"
_WORD = re.compile(rf"[{_SPACELESS}]|(?:[^\W{_SPACELESS}]|[{_MARKS}])+(?:'t\b)?")
_ASCII_WORD = re.compile(r"\w+(?:'t\b)?")  # the same, three times as fast
_VOWELS = frozenset("aeiou")


@dataclass(frozen=True, slots=True)
class Polarity:
    """``negated``: whether anything is denied or taken back. ``sides``: the opposites named, 2a and 2a + 1 for pair a.

    ``stems``: the beginnings of all other words.
    """

    negated: bool
    sides: frozenset[int]
    stems: frozenset[str]


def polarity(text: str) -> Polarity:
    """Which way any text points."""
    plain = spelled(text)
    words = _words(plain)
    denying = _denying(plain, words)
    sides = {side for word in _SIDES.keys() & words for side in _SIDES[word]}
    if not _PHRASE_SIDES.keys().isdisjoint(words):
        sides.update(_PHRASE_SIDES[match[1]] for phrase in _PHRASES for match in phrase.finditer(plain))
    stems = frozenset(word[:STEM] for word in words if word not in _CUES and word not in denying)
    return Polarity(_is_negated(plain, words, denying), frozenset(sides), stems)


def contradict(one: Polarity, other: Polarity) -> bool:
    """Whether the two say almost the same and point opposite ways.

    Opposite: one is negated and the other is not, or they name opposite sides of something; both together is the same
    fact again ("is not allowed", "is forbidden").
    """
    opposite = (one.negated is not other.negated) is not _oppose(one.sides, other.sides)
    return opposite and _alike(one.stems, other.stems)


def _alike(one: frozenset[str], other: frozenset[str]) -> bool:
    if not one or not other:
        return True
    return 2 * len(one & other) >= ALIKE * (len(one) + len(other))


def _oppose(one: frozenset[int], other: frozenset[int]) -> bool:
    """Whether of some pair one has only the one side, and the other has the other side, alone or beside the first.

    "Leading and trailing" says more than "trailing": what strips both ends is not what strips the right one.
    """
    return _leaves_out(one, other) or _leaves_out(other, one)


def _leaves_out(one: frozenset[int], other: frozenset[int]) -> bool:
    """Whether ``one`` has a side of which only ``other`` has the opposite."""
    return any(side ^ 1 in other and side ^ 1 not in one for side in one)


def _denying(plain: str, words: list[str]) -> set[str]:
    """Those of the words that deny by themselves."""
    found = _NEGATING.intersection(words)
    if "n't" in plain:
        found = found.union(word for word in words if word.endswith("n't"))
    if "un" in plain:
        found = found.union(word for word in words if _UN.fullmatch(word))
    return set(found)


def _is_negated(plain: str, words: list[str], denying: set[str]) -> bool:
    if denying:
        rest = _DENIES_NOTHING.sub(" ", plain)
        left = _denying(rest, _words(rest))
        if left - {"no"} or (left and not _PORTUGUESE.search(plain)):
            return True
    if not _LIFTING.isdisjoint(words) and _LIFTED.search(plain):
        return True
    return not plain.isascii() and _PARTS.search(plain) is not None


def _words(plain: str) -> list[str]:
    return (_ASCII_WORD if plain.isascii() else _WORD).findall(plain)


def _inflected(word: str) -> set[str]:
    """The word and its regular forms; some that do not exist, which does no harm."""
    stem = word.removesuffix("e")
    forms = {word, f"{word}s", f"{word}es", f"{stem}ed", f"{stem}ing"}
    if word.endswith("y") and word[-2] not in _VOWELS:
        forms |= {f"{word[:-1]}ies", f"{word[:-1]}ied"}
    if word[-1] not in _VOWELS | set("wxy") and word[-2] in _VOWELS:
        forms |= {f"{word}{word[-1]}ed", f"{word}{word[-1]}ing"}
    return forms


def _all_sides(pairs: list[str]) -> dict[str, tuple[int, ...]]:
    """For each word the sides it names."""
    table: dict[str, tuple[int, ...]] = {}
    for pair, line in enumerate(pairs):
        for half, words in enumerate(line.split("|")):
            for form in {form for word in words.split(",") for form in _inflected(word.strip())}:
                table[form] = (*table.get(form, ()), 2 * pair + half)
    return table


_PAIRS = opposites.PAIRS.strip().splitlines()
_SIDES = _all_sides(_PAIRS)
_PHRASES = tuple(re.compile(phrase) for phrase in opposites.PHRASES)
_PHRASE_SIDES = {
    word: 2 * (len(_PAIRS) + i) + half
    for i, pair in enumerate(opposites.PHRASE_PAIRS)
    for half, words in enumerate(pair)
    for word in words.split()
}
_NEGATING = lexicon.NEGATIONS | {form for word in lexicon.REVERSALS.split() for form in _inflected(word)}
_LIFTING = {form for word in lexicon.LIFTINGS.split() for form in _inflected(word)}
_CUES = _SIDES.keys() | _NEGATING | _LIFTING
_LIFTED = re.compile(
    rf"\b(?:{'|'.join(sorted(_LIFTING))}) (?:[\w'-]+ ){{0,4}}?(?:{'|'.join(lexicon.RESTRAINTS.split())})\b"
)
_UN = re.compile(lexicon.UN_WORD)
_PARTS = re.compile("|".join(lexicon.NEGATING_PARTS))
_DENIES_NOTHING = re.compile(lexicon.NOT_NEGATIONS)
_PORTUGUESE = re.compile(lexicon.PORTUGUESE)
