"""Which pairs of candidates must not share a cluster, and by which guard.

Guards read raw texts, because the canonical form may lack what they need. Most guards read only short texts: in a long text a different
number is a detail, and every long text denies something.

Reading has a budget. A short text beyond it may state anything, so it shares a cluster with no short text except an equal one.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain
from typing import cast

import numpy as np
import numpy.typing as npt

from ..policy import Guards
from ..text.bounds import lengths_of, short
from ..text.features import Text
from ..text.memo import Memo
from ..values import Indices, Metadata, Steps, Veto
from .figures import NONE as NO_FIGURES
from .figures import (
    Figures,
    counted,
    dates_differ,
    differ,
    figures,
    of_kind,
    versions_differ,
)
from .negation import ALIKE, Polarity, contradict, denies, polarity
from .subjects import HEAD, NOTHING, Subject, subject, subjects_differ

# The verdicts of the guards for many pairs at once: the number of facts that two texts share is a matrix product.
#
# The verdicts are the same as pair by pair (figures.py, negation.py). This is for pools in which hundreds of short texts are close to one
# another: 200 tickets that differ in their number are 20,000 pairs.

# From this many pairs on each check is a step of its own: 2 to 8 ms.
STEP_PAIRS = 1 << 12

Codes = npt.NDArray[np.int8]
Mask = npt.NDArray[np.bool_]
_Sets = Sequence[AbstractSet[Hashable]]


@dataclass(frozen=True, slots=True)
class Facts:
    """What guards read of one text. ``counts``: whether it has any figure. ``points``: whether it denies anything or names a side of an
    opposite.
    """

    figures: Figures
    polarity: Polarity
    counts: bool
    points: bool


def many(said: Mapping[int, Facts | None], first: Indices, second: Indices, checks: Sequence[Veto]) -> Steps[Codes]:
    """The first of ``checks`` that applies to each pair (p,), else NONE; one check per step. ``said``: facts by place; None: no facts."""
    (left, rows), (right, columns) = _of(said, first), _of(said, second)
    known = (rows >= 0) & (columns >= 0)
    codes = np.zeros(len(first), np.int8)
    if not known.any():
        return codes
    found = np.zeros(int(known.sum()), np.int8)
    for number, veto in enumerate(reversed(checks)):
        if number and len(first) > STEP_PAIRS:
            yield
        found[_APPLIES[veto](left, right)[rows[known], columns[known]]] = veto
    codes[known] = found
    return codes


def _of(said: Mapping[int, Facts | None], places: Indices) -> tuple[list[Facts], Indices]:
    """The facts of these places, once each, and the index of each place's facts (p,), -1 if there are none."""
    found: list[Facts] = []
    different, which = np.unique(places, return_inverse=True)
    at = np.full(len(different), -1, np.intp)
    for number, place in enumerate(different.tolist()):
        facts = said[place]
        if facts is not None:
            at[number] = len(found)
            found.append(facts)
    return found, at[which]


def _shared(left: _Sets, right: _Sets) -> npt.NDArray[np.float32]:
    """The number of common members of each two sets (n, m). Members that occur only in the longer list are ignored."""
    if len(left) > len(right):
        return _shared(right, left).T
    known: dict[Hashable, int] = {}
    for each in left:
        for member in each:
            known.setdefault(member, len(known))
    sides = np.zeros((len(left), len(known)), np.float32), np.zeros((len(right), len(known)), np.float32)
    for rows, sets in zip(sides, (left, right), strict=True):
        for row, each in enumerate(sets):
            rows[row, [known[member] for member in each if member in known]] = 1.0
    product: npt.NDArray[np.float32] = sides[0] @ sides[1].T
    return product


def _sizes(left: _Sets, right: _Sets) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    sizes = [np.fromiter(map(len, sets), np.float32, len(sets)) for sets in (left, right)]
    return sizes[0][:, None], sizes[1][None, :]


def _differ(left: _Sets, right: _Sets) -> Mask:
    """Where each of the two has something that the other lacks, and neither is empty."""
    both, (mine, theirs) = _shared(left, right), _sizes(left, right)
    return (mine > 0) & (theirs > 0) & (both < mine) & (both < theirs)


def _by(kind: str) -> Callable[[Sequence[Facts], Sequence[Facts]], Mask]:
    def differ(left: Sequence[Facts], right: Sequence[Facts]) -> Mask:
        return _differ(*([counted(getattr(each.figures, kind)) for each in side] for side in (left, right)))

    return differ


def _numbers_differ(left: Sequence[Facts], right: Sequence[Facts]) -> Mask:
    return _by("numbers")(left, right) | _by("signs")(left, right)


def _dates_differ(left: Sequence[Facts], right: Sequence[Facts]) -> Mask:
    found = np.zeros((len(left), len(right)), np.bool_)
    for kind in sorted({fact.partition(" ")[0] for each in left for fact in each.figures.dates}):
        found |= _differ(*([counted(of_kind(each.figures.dates, kind)) for each in side] for side in (left, right)))
    return found


def _versions_differ(left: Sequence[Facts], right: Sequence[Facts]) -> Mask:
    return _by("versions")(left, right) | _named_differ(left, right) | _named_differ(right, left).T


def _named_differ(left: Sequence[Facts], right: Sequence[Facts]) -> Mask:
    """Where ``left`` names a version and ``right`` has bare numbers only, and each lacks something of the other (n, m).

    Only bare numbers that are no number of the other count. So they include all versions if the versions and the numbers of the same
    spelling together are included, and they are all versions if versions and numbers together include them.
    """
    if not any(each.figures.versions for each in left) or all(each.figures.versions for each in right):
        return np.zeros((len(left), len(right)), np.bool_)
    bare = [counted(() if each.figures.versions else each.figures.numbers) for each in right]
    named, together = [], []
    for each in left:
        versions, numbers = each.figures.versions, each.figures.numbers
        named.append(counted(versions + tuple(number for number in numbers if number in versions)))
        together.append(counted(versions + numbers if versions else ()))
    (mine, theirs), held = _sizes(named, bare), _shared(together, bare)
    return (mine > 0) & (theirs > 0) & (_shared(named, bare) < mine) & (held < theirs)


def _contradict(left: Sequence[Facts], right: Sequence[Facts]) -> Mask:
    mine, theirs = ([each.polarity for each in side] for side in (left, right))
    negated = [np.array([each.negated for each in side]) for side in (mine, theirs)]
    opposite: Mask = (negated[0][:, None] != negated[1][None, :]) != (
        _leaves_out(mine, theirs) | _leaves_out(theirs, mine).T
    )
    denied = _denied(mine, theirs) | _denied(theirs, mine).T
    if not opposite.any():
        return denied
    stems = [each.stems for each in mine], [each.stems for each in theirs]
    both, (one, other) = _shared(*stems), _sizes(*stems)
    opposite &= (one == 0) | (other == 0) | (2 * both >= np.float64(ALIKE) * (one + other))
    return opposite | denied


def _denied(left: Sequence[Polarity], right: Sequence[Polarity]) -> Mask:
    """Where ``left`` denies what ``right`` says (n, m)."""
    found = np.zeros((len(left), len(right)), np.bool_)
    for row, one in enumerate(left):
        if one.denied:
            found[row] = [denies(one, other) for other in right]
    return found


def _leaves_out(left: Sequence[Polarity], right: Sequence[Polarity]) -> Mask:
    """Where ``left`` has a side of which ``right`` has only the opposite (n, m)."""
    found: Mask = _shared([each.missing for each in left], [each.sides for each in right]) > 0
    return found


_APPLIES: Mapping[Veto, Callable[[Sequence[Facts], Sequence[Facts]], Mask]] = {
    Veto.VERSION: _versions_differ,
    Veto.DATE: _dates_differ,
    Veto.AMOUNT: _by("amounts"),
    Veto.NUMBER: _numbers_differ,
    Veto.NEGATION: _contradict,
}

# A text with more numbers is a table, whose rows may differ in any number; it is not worth the time.
MOST_NUMBERS = 64
# Characters that are read for each so many ranks, the best-ranked first: 1 to 3 microseconds each. Texts of 30 words have 180.
RANKS, CHARACTERS = 50, 12_288

# Units of cost per character (bounds.py): emoji have four; a character that expands to many has more.
_DEAREST = 4

# Characters that are read in one step (3 to 8 ms), and pairs that are compared together.
STEP_CHARACTERS, MOST_PAIRS = 3_072, 1 << 14

# From this many pairs on, all are compared together: one by one takes 2 microseconds each, together a tenth of it.
MANY = 512

_DIGITS = re.compile(r"\d+")


def vetoes(
    texts: Sequence[Text | None],
    known: Metadata,
    first: Indices,
    second: Indices,
    guards: Guards,
    word_counts: npt.NDArray[np.int64] | None,
    form: Callable[[int], Hashable],
) -> Steps[Codes]:
    """For each of p pairs, ``first[i]`` with ``second[i]``, the first Veto that applies, else NONE (p,).

    ``texts``: one per candidate, read or not. ``known``: titles and sources. ``word_counts``: (n,), -1 for a text that was not read; None:
    no text was read. ``form``: equal for equal texts.
    """
    codes = np.zeros(len(first), np.int8)
    if known.sources is not None and guards.keep_sources:
        kept = np.fromiter((source in guards.keep_sources for source in known.sources), np.bool_, len(known.sources))
        codes[kept[first] | kept[second]] = Veto.SOURCE
    if word_counts is None:
        return codes
    if _checks(guards):
        yield from _compare_facts(codes, texts, first, second, guards, word_counts, form)
    if guards.subjects:
        _mark_subjects(codes, texts, known.titles, list(zip(first.tolist(), second.tolist(), strict=True)), form)
    return codes


def _mark_subjects(
    codes: Codes,
    texts: Sequence[Text | None],
    titles: Sequence[str | None] | None,
    places: Sequence[tuple[int, int]],
    form: Callable[[int], Hashable],
) -> None:
    """Mark the open pairs of ``places`` (p) in which each side begins with a name, or has one in its title, that the other lacks."""
    involved = set(chain.from_iterable(places))
    begins = {place: NOTHING if (text := texts[place]) is None else text.subject for place in involved}
    if None in begins.values():
        begins = {place: _of_text(texts[place]) for place in involved}
    is_open = (codes == 0).tolist()
    apart = [pair for pair in _different(begins, places) if is_open[pair]]
    if apart:
        codes[apart] = Veto.SUBJECT.value
    if titles is None:
        return
    rest = [pair for pair, (one, other) in enumerate(places) if is_open[pair] and titles[one] != titles[other]]
    named = {place: names_in_title(titles[place]) for place in set(chain.from_iterable(places[pair] for pair in rest))}
    differ = [rest[pair] for pair in _different(named, [places[pair] for pair in rest])]
    # Equal texts are copies even if their titles differ.
    apart = [pair for pair in differ if form(places[pair][0]) != form(places[pair][1])]
    if apart:
        codes[apart] = Veto.SUBJECT.value


def _compare_facts(
    codes: Codes,
    texts: Sequence[Text | None],
    first: Indices,
    second: Indices,
    guards: Guards,
    word_counts: npt.NDArray[np.int64],
    form: Callable[[int], Hashable],
) -> Steps[None]:
    """Mark the open pairs (p,) of short texts that state different facts."""
    few = word_counts <= guards.short_words
    if not (few[first] & few[second]).any():
        return
    lengths = lengths_of(texts)
    is_short = short(lengths, word_counts, guards.short_words)
    open_pairs = np.flatnonzero((codes == 0) & is_short[first] & is_short[second])
    left, right = first[open_pairs], second[open_pairs]
    is_read = _within_bounds(lengths, is_short & (word_counts >= 0))
    said = yield from _read(texts, sorted({*left.tolist(), *right.tolist()}), is_read)
    has_facts = np.zeros(len(texts), np.bool_)
    has_facts[[place for place, facts in said.items() if facts is not None]] = True
    both = has_facts[left] & has_facts[right]
    codes[open_pairs[both]] = yield from _judged(said, left[both], right[both], _checks(guards))
    codes[open_pairs[~both]] = _unread(form, left[~both], right[~both])


def _of_text(text: Text | None) -> Subject:
    if text is None:
        return NOTHING
    if text.subject is None:
        text.subject = subject(text.raw[:HEAD])
    return text.subject


def names_in_title(title: str | None) -> Subject:
    """The names in a title, anywhere in it. Finding them takes 5 microseconds."""
    if title is None:
        return NOTHING
    head = title[:HEAD]
    found = _NAMES.get(head)
    if found is None:
        found = subject(f"{head}\n.")
        _NAMES.keep(head, found)
    return found


# The same documents are in many searches: 8 MB hold some twelve thousand titles.
_NAMES: Memo[str, Subject] = Memo(8 << 20, lambda title, names: sys.getsizeof(title) + 250 + sum(map(len, names)))


def _different(begins: Mapping[int, Subject | None], places: Sequence[tuple[int, int]]) -> list[int]:
    """Which of p pairs of places each begin with a name with which the other does not begin."""
    if not any(begins.values()):
        return []
    return [
        pair
        for pair, (one, other) in enumerate(places)
        if (mine := begins[one]) and (theirs := begins[other]) and mine != theirs and subjects_differ(mine, theirs)
    ]


def _read(
    texts: Sequence[Text | None], which: Sequence[int], is_read: npt.NDArray[np.bool_]
) -> Steps[Mapping[int, Facts | None]]:
    """The facts of these texts, by place; None for a text that is not read."""
    said: dict[int, Facts | None] = {}
    left = STEP_CHARACTERS
    for place in which:
        text = texts[place]
        if text is None or not is_read[place]:
            continue
        if text.facts is None:
            left -= len(text.raw)
            if left < 0:
                yield
                left = STEP_CHARACTERS - len(text.raw)
            text.facts = (_facts(text),)
        (said[place],) = cast("tuple[Facts | None]", text.facts)
    return said


def _judged(
    said: Mapping[int, Facts | None], first: Indices, second: Indices, checks: tuple[_Check, ...]
) -> Steps[Codes]:
    """The first of the checks that applies to each pair (p,), else NONE."""
    codes = np.zeros(len(first), np.int8)
    if len(first) > MANY:
        for start in range(0, len(first), MOST_PAIRS):
            if start:
                yield
            part = slice(start, start + MOST_PAIRS)
            codes[part] = yield from many(said, first[part], second[part], tuple(veto for veto, _ in checks))
        return codes
    states = {place for place, facts in said.items() if facts is not None and (facts.counts or facts.points)}
    for pair, (one, other) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        if one in states or other in states:
            mine, theirs = said[one], said[other]
            if mine is not None and theirs is not None and mine is not theirs:
                codes[pair] = _veto(mine, theirs, checks)
    return codes


def _unread(form: Callable[[int], Hashable], first: Indices, second: Indices) -> Codes:
    """UNREAD for each pair (p,) except those of equal texts."""
    if not len(first):
        return np.empty(0, np.int8)
    numbers: dict[Hashable, int] = {}
    involved, which = np.unique(np.concatenate((first, second)), return_inverse=True)
    forms = np.array([numbers.setdefault(form(place), len(numbers)) for place in involved.tolist()], np.intp)[which]
    return np.where(forms[: len(first)] == forms[len(first) :], Veto.NONE.value, Veto.UNREAD.value).astype(np.int8)


def _within_bounds(lengths: npt.NDArray[np.int64], is_short: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which of the short texts are read (n,). For each text it depends only on texts within the same RANKS or before."""
    counted = np.where(is_short, lengths, 0)
    if int(counted.sum()) <= CHARACTERS:
        return counted > 0
    spent = np.cumsum(np.pad(counted, (0, -len(counted) % RANKS)).reshape(-1, RANKS), axis=1).ravel()[: len(counted)]
    found: npt.NDArray[np.bool_] = (counted > 0) & (spent <= CHARACTERS)
    return found


_Check = tuple[Veto, Callable[[Facts, Facts], bool]]

# In the order of Veto.
_ALL: tuple[_Check, ...] = (
    (Veto.VERSION, lambda one, other: versions_differ(one.figures, other.figures)),
    (Veto.DATE, lambda one, other: dates_differ(one.figures.dates, other.figures.dates)),
    (Veto.AMOUNT, lambda one, other: differ(one.figures.amounts, other.figures.amounts)),
    (
        Veto.NUMBER,
        lambda one, other: (
            differ(one.figures.numbers, other.figures.numbers) or differ(one.figures.signs, other.figures.signs)
        ),
    ),
    (Veto.NEGATION, lambda one, other: contradict(one.polarity, other.polarity)),
)


def _checks(guards: Guards) -> tuple[_Check, ...]:
    wanted = (guards.versions, guards.dates, guards.amounts, guards.numbers, guards.negation)
    return tuple(check for check, is_on in zip(_ALL, wanted, strict=True) if is_on)


def _veto(one: Facts, other: Facts, checks: tuple[_Check, ...]) -> Veto:
    if not (one.counts and other.counts):  # a text without figures differs in none
        checks = checks[-1:] if (one.points or other.points) and checks[-1][0] is Veto.NEGATION else ()
    for veto, applies in checks:
        if applies(one, other):
            return veto
    return Veto.NONE


def _facts(text: Text) -> Facts | None:
    """None for a text that is no sentence, or too expensive to read."""
    price = text.cost()
    if price < 0 or price > _DEAREST * len(text.raw) or len(_DIGITS.findall(text.raw)) > MOST_NUMBERS:
        return None
    counts, points = figures(text.raw), polarity(text.raw)
    return Facts(counts, points, counts is not NO_FIGURES, points.negated or bool(points.sides))
