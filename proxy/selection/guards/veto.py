"""Which pairs of candidates may not share a cluster, and by which guard.

A guard looks at the raw texts, because the canonical form may already have lost what it reads. Only short texts are
looked at: in a long one a number more or less is a detail, and every long text denies something.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.selection.guards.figures import Figures, dates_differ, differ, figures, versions_differ
from vecsieve.proxy.selection.guards.negation import Polarity, contradict, polarity
from vecsieve.proxy.selection.policy import Guards
from vecsieve.proxy.selection.values import Indices, Veto

# Texts remembered: some pools' worth of the short ones, a few megabytes.
REMEMBERED = 2048
# What has more characters for each word is no sentence, whatever the number of its words, and not worth the time.
LONGEST_WORD = 64

Codes = npt.NDArray[np.int8]


@dataclass(frozen=True, slots=True)
class _Facts:
    """What the guards read of one text."""

    figures: Figures
    polarity: Polarity


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
    open_pairs = np.flatnonzero((codes == Veto.NONE) & is_short[first] & is_short[second])
    longest = LONGEST_WORD * guards.short_words
    for pair in open_pairs.tolist():
        one, other = texts[first[pair]], texts[second[pair]]
        if one is None or other is None or one == other or max(len(one), len(other)) > longest:
            continue
        codes[pair] = _veto(_facts(one), _facts(other), checks)
    return codes


_Check = tuple[Veto, Callable[[_Facts, _Facts], bool]]

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


def _veto(one: _Facts, other: _Facts, checks: tuple[_Check, ...]) -> Veto:
    return next((veto for veto, applies in checks if applies(one, other)), Veto.NONE)


@lru_cache(maxsize=REMEMBERED)
def _facts(text: str) -> _Facts:
    """Pure memoisation: facts depend on the text alone."""
    return _Facts(figures(text), polarity(text))
