"""Which pairs of candidates may not share a cluster, and by which guard.

A guard looks at the raw texts, because the canonical form may already have lost what it reads. Only short texts are
looked at: in a long one a number more or less is a detail, and every long text denies something.

Reading has a budget. A short text beyond it may state anything, so it shares a cluster with no short text but an equal one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.selection.guards.figures import dates_differ, differ, figures, versions_differ
from vecsieve.proxy.selection.guards.many import Facts, many
from vecsieve.proxy.selection.guards.negation import contradict, polarity
from vecsieve.proxy.selection.policy import Guards
from vecsieve.proxy.selection.steps import Steps
from vecsieve.proxy.selection.text.bounds import cost, short
from vecsieve.proxy.selection.values import Indices, Veto

# Texts remembered: some pools' worth of the short ones. What is read of a text takes at most some 20 kB.
REMEMBERED = 1024
# A text that has more numbers is a table, of which each row may differ from the next, and not worth the time.
MOST_NUMBERS = 64
# Characters that are read of each so many ranks, the best-ranked first: 1 to 3 microseconds each. Texts of 30 words have 180.
RANKS, CHARACTERS = 50, 12_288

# Units of cost a character (bounds.py): emoji have four, what becomes many characters has more.
_DEAREST = 4

# Characters that are read in one step (3 to 8 ms), and pairs that are compared together.
STEP_CHARACTERS, MOST_PAIRS = 3_072, 1 << 14

# Pairs, from which on all of them are looked at together: 2 microseconds each one by one, a tenth of it together.
MANY = 512

_DIGITS = re.compile(r"\d+")

Codes = npt.NDArray[np.int8]


def vetoes(
    texts: Sequence[str | None],
    sources: Sequence[str | None] | None,
    first: Indices,
    second: Indices,
    guards: Guards,
    word_counts: npt.NDArray[np.int64] | None,
    form: Callable[[int], str | None],
) -> Steps[Codes]:
    """For each of p pairs, ``first[i]`` with ``second[i]``, the first Veto that applies, else NONE (p,).

    ``texts``: raw, one a candidate. ``sources``: one a candidate, None: none is known. ``word_counts``: (n,), -1 of a text that
    was not read, None: no text is. ``form``: what equal texts have in common.
    """
    codes = np.zeros(len(first), np.int8)
    if sources is not None and guards.keep_sources:
        kept = np.fromiter((source in guards.keep_sources for source in sources), np.bool_, len(sources))
        codes[kept[first] | kept[second]] = Veto.SOURCE
    checks = _checks(guards)
    if word_counts is None or not checks:
        return codes
    is_short = short(texts, word_counts, guards.short_words)
    open_pairs = np.flatnonzero((codes == Veto.NONE) & is_short[first] & is_short[second])
    left, right = first[open_pairs], second[open_pairs]
    is_read = _within_bounds(texts, is_short & (word_counts >= 0))
    said = yield from _read(texts, np.unique(np.concatenate((left, right))), is_read)
    has_facts = np.fromiter((said.get(which) is not None for which in range(len(texts))), np.bool_, len(texts))
    known = has_facts[left] & has_facts[right]
    codes[open_pairs[known]] = yield from _judged(said, left[known], right[known], checks)
    codes[open_pairs[~known]] = _unread(form, left[~known], right[~known])
    return codes


def _read(
    texts: Sequence[str | None], which: Indices, is_read: npt.NDArray[np.bool_]
) -> Steps[Mapping[int, Facts | None]]:
    """What these texts state, by place; None of one that is not read."""
    said: dict[int, Facts | None] = {}
    left = STEP_CHARACTERS
    for place in which[is_read[which]].tolist():
        text = texts[place]
        if text is None:
            continue
        left -= len(text)
        if left < 0:
            yield
            left = STEP_CHARACTERS - len(text)
        said[place] = _facts(text)
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
    for pair, (one, other) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        mine, theirs = said[one], said[other]
        if mine is not None and theirs is not None and mine is not theirs:
            codes[pair] = _veto(mine, theirs, checks)
    return codes


def _unread(form: Callable[[int], str | None], first: Indices, second: Indices) -> Codes:
    """UNREAD for each pair (p,) but those of equal texts."""
    if not len(first):
        return np.empty(0, np.int8)
    numbers: dict[str | None, int] = {}
    involved, which = np.unique(np.concatenate((first, second)), return_inverse=True)
    forms = np.array([numbers.setdefault(form(place), len(numbers)) for place in involved.tolist()], np.intp)[which]
    return np.where(forms[: len(first)] == forms[len(first) :], Veto.NONE.value, Veto.UNREAD.value).astype(np.int8)


def _within_bounds(texts: Sequence[str | None], is_short: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which of the short texts are read (n,). It depends on the texts up to the end of a text's own RANKS alone."""
    lengths = np.fromiter((0 if text is None else len(text) for text in texts), np.int64, len(texts))
    counted = np.where(is_short, lengths, 0)
    spent = np.cumsum(np.pad(counted, (0, -len(counted) % RANKS)).reshape(-1, RANKS), axis=1).ravel()[: len(texts)]
    found: npt.NDArray[np.bool_] = (counted > 0) & (spent <= CHARACTERS)
    return found


_Check = tuple[Veto, Callable[[Facts, Facts], bool]]

# In Veto's order.
_ALL: tuple[_Check, ...] = (
    (Veto.VERSION, lambda one, other: versions_differ(one.figures, other.figures)),
    (Veto.DATE, lambda one, other: dates_differ(one.figures.dates, other.figures.dates)),
    (Veto.AMOUNT, lambda one, other: differ(one.figures.amounts, other.figures.amounts)),
    (Veto.NUMBER, lambda one, other: differ(one.figures.numbers, other.figures.numbers)),
    (Veto.NEGATION, lambda one, other: contradict(one.polarity, other.polarity)),
)


def _checks(guards: Guards) -> tuple[_Check, ...]:
    wanted = (guards.versions, guards.dates, guards.amounts, guards.numbers, guards.negation)
    return tuple(check for check, is_on in zip(_ALL, wanted, strict=True) if is_on)


def _veto(one: Facts, other: Facts, checks: tuple[_Check, ...]) -> Veto:
    return next((veto for veto, applies in checks if applies(one, other)), Veto.NONE)


@lru_cache(maxsize=REMEMBERED)
def _facts(text: str) -> Facts | None:
    """Pure memoisation: facts depend on the text alone. None for what is no sentence, or dear to read."""
    price = cost(text)
    if price is None or price > _DEAREST * len(text) or len(_DIGITS.findall(text)) > MOST_NUMBERS:
        return None
    return Facts(figures(text), polarity(text))
