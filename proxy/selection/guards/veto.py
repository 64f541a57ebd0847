"""Which pairs of candidates may not share a cluster, and by which guard.

A guard looks at the raw texts, because the canonical form may already have lost what it reads. Only short texts are
looked at: in a long one a number more or less is a detail, and every long text denies something.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.selection.guards.figures import dates_differ, differ, figures, versions_differ
from vecsieve.proxy.selection.guards.many import Facts, many
from vecsieve.proxy.selection.guards.negation import contradict, polarity
from vecsieve.proxy.selection.policy import Guards
from vecsieve.proxy.selection.text.bounds import cost
from vecsieve.proxy.selection.values import Indices, Veto

# Texts remembered: some pools' worth of the short ones. What is read of a text takes at most some 20 kB.
REMEMBERED = 1024
# What has more characters for each word is no sentence, whatever the number of its words, and not worth the time.
LONGEST_WORD = 64
# Nor is what has more numbers: it is a table, of which each row may differ from the next.
MOST_NUMBERS = 64
# Characters that are read of each so many ranks, the best-ranked first: 1 to 3 microseconds each. Texts of 30 words have 180.
RANKS, CHARACTERS = 50, 12_288

# Units of cost a character (bounds.py): emoji have four, what becomes many characters has more.
_DEAREST = 4

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
) -> Codes:
    """For each of p pairs, ``first[i]`` with ``second[i]``, the first Veto that applies, else NONE (p,).

    ``texts``: raw, one a candidate. ``sources``: one a candidate, None: none is known. ``word_counts``: (n,), -1 where
    unknown, None: none is known; texts of unknown length are not looked at.
    """
    codes = np.zeros(len(first), np.int8)
    if sources is not None and guards.keep_sources:
        kept = np.fromiter((source in guards.keep_sources for source in sources), np.bool_, len(sources))
        codes[kept[first] | kept[second]] = Veto.SOURCE
    checks = _checks(guards)
    if word_counts is None or not checks:
        return codes
    is_short = (word_counts >= 0) & (word_counts <= guards.short_words)
    is_read = is_short & _within_bounds(texts, is_short, LONGEST_WORD * guards.short_words)
    open_pairs = np.flatnonzero((codes == Veto.NONE) & is_read[first] & is_read[second])
    left, right = first[open_pairs], second[open_pairs]
    involved = np.unique(np.concatenate((left, right))).tolist()
    said = {which: _facts(text) for which in involved if (text := texts[which]) is not None}
    if len(open_pairs) > MANY:
        codes[open_pairs] = many(said, left, right, tuple(veto for veto, _ in checks))
        return codes
    for pair, first_place, second_place in zip(open_pairs.tolist(), left.tolist(), right.tolist(), strict=True):
        one, other = said[first_place], said[second_place]
        if one is not None and other is not None and texts[first_place] != texts[second_place]:
            codes[pair] = _veto(one, other, checks)
    return codes


def _within_bounds(texts: Sequence[str | None], is_short: npt.NDArray[np.bool_], longest: int) -> npt.NDArray[np.bool_]:
    """Which of the short texts are read (n,). It depends on the texts up to the end of a text's own RANKS alone."""
    lengths = np.fromiter((0 if text is None else len(text) for text in texts), np.int64, len(texts))
    counted = np.where(is_short & (lengths <= longest), lengths, 0)
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
