"""What speaks for and against every pair being copies, brought into one matrix: vectors, texts, tenants, guards.

A pair that texts say are copies is at distance 0, a pair that may not share a cluster is infinitely far apart, everything
else is as far apart as its vectors; where one side has no vector, farther than any cut. So one clustering serves all.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.selection.guards.veto import vetoes
from vecsieve.proxy.selection.policy import Guards, TextRules
from vecsieve.proxy.selection.steps import Steps
from vecsieve.proxy.selection.text.bounds import short
from vecsieve.proxy.selection.text.matching import matches
from vecsieve.proxy.selection.text.reading import Texts
from vecsieve.proxy.selection.values import Candidates, FloatMatrix, Indices, Link, Veto

# Farther than any distance (distances.FARTHEST) and any cut, and finite: not known to be alike is not the same as forbidden
# to meet.
UNKNOWN = np.float32(1e9)

# Candidates that are clustered once more without a turn for others before: a few milliseconds.
FEW = 150

Codes = npt.NDArray[np.int8]
Ask = Callable[[Indices, Indices], Steps[Codes]]
"""Gives the Veto of pairs (first[i], second[i]), first < second."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """``distance``: (n, m) float32, for clustering. ``links``: (n, m) Link, by texts only. ``similarities``: (n, m)."""

    distance: FloatMatrix
    links: Codes
    similarities: FloatMatrix


def weigh(
    distance: FloatMatrix,
    texts: Texts,
    rows: Indices,
    columns: Indices,
    *,
    rules: TextRules,
    typical: float,
    largest: float = math.inf,
) -> Steps[Evidence]:
    """Lay what the texts say over the ``distance`` (n, m) of candidates ``rows`` to candidates ``columns``.

    Infinite distances that stem from missing vectors must be told apart from forbidden ones before: see ``opened``.
    ``typical``: the pool's typical distance. ``largest``: a distance beyond this is near by chance, whatever the texts' length.
    """
    reach = np.inf if rules.reach is None else rules.reach * typical
    compared = (distance <= reach) | (distance == UNKNOWN)
    compared &= np.isfinite(distance) & (rows[:, None] != columns[None, :])
    yield from texts.reading(np.union1d(rows, columns).tolist())
    found = yield from matches(texts, rows, columns, compared, rules)
    distance = _eased(distance, texts, rows, columns, rules, largest)
    return Evidence(np.where(found.links != Link.NONE, np.float32(0.0), distance), found.links, found.similarities)


def _eased(
    distance: FloatMatrix, texts: Texts, rows: Indices, columns: Indices, rules: TextRules, largest: float
) -> FloatMatrix:
    """The distance with two short texts nearer by the short factor.

    Short texts say one thing, in many ways: on sets of tickets, opinions and questions duplicates lie about where other
    topics begin, and merging them costs no answer. Short facts, where one word makes the difference, are the guards' work.
    """
    if rules.short_factor == 1.0:
        return distance
    is_short = short(texts.raw, texts.word_counts, rules.short_words)
    both = is_short[rows][:, None] & is_short[columns][None, :] & (distance <= largest) & (distance != UNKNOWN)
    return np.where(both, distance / np.float32(rules.short_factor), distance)


def opened(distance: FloatMatrix) -> FloatMatrix:
    """The distance with UNKNOWN where it is infinite: for texts to decide what vectors cannot."""
    if np.isfinite(distance).all():
        return distance
    return np.where(np.isinf(distance), UNKNOWN, distance)


def is_reached(distance: FloatMatrix, reach: float) -> bool:
    """Whether any two of a square ``distance`` are within ``reach``, or cannot be compared by their vectors."""
    near = (distance <= reach) | (distance == UNKNOWN) | np.isinf(distance)
    return int(np.count_nonzero(near)) > len(distance)  # the diagonal is always near


def settle(
    distance: FloatMatrix,
    label: Callable[[FloatMatrix], Indices],
    ask: Ask,
    *,
    reach: float,
) -> Steps[tuple[Indices, Codes]]:
    """Cluster until no cluster holds two that a guard keeps apart: (labels (n,), vetoes (n,)).

    ``label`` clusters a distance matrix. First only pairs that met in a cluster are asked about: whatever does not meet needs no guard. Once two of them are kept apart,
    all within ``reach`` are asked about: they would meet one after another, and a round for each takes seconds. Each pair is
    asked about once. ``distance`` is changed.
    Ends, because every round forbids at least one more pair and a forbidden pair never meets again.
    """
    n = len(distance)
    held: Codes = np.zeros(n, np.int8)
    asked = np.eye(n, dtype=np.bool_)
    while True:
        labels = label(distance)
        met = labels[:, None] == labels[None, :]
        if held.any():
            met |= distance <= reach
        first, second = np.nonzero(np.triu(met & ~asked))
        codes = (yield from ask(first, second)) if len(first) else np.empty(0, np.int8)
        kept_apart = np.flatnonzero(codes)
        if not len(kept_apart):
            return labels, held
        if n > FEW:
            yield
        asked[first, second] = True
        stay, best = np.unique(second[kept_apart], return_index=True)  # of several the best-ranked partner's veto
        held[stay] = codes[kept_apart[best]]
        distance[first[kept_apart], second[kept_apart]] = np.inf
        distance[second[kept_apart], first[kept_apart]] = np.inf


def asker(candidates: Candidates, guards: Guards, texts: Texts | None) -> Ask | None:
    """What ``settle`` asks; None where no guard can have anything to say."""
    known = candidates.metadata
    if (texts is None or known.texts is None) and (known.sources is None or not guards.keep_sources):
        return None
    raw = known.texts if known.texts is not None and texts is not None else (None,) * candidates.size
    counts = None if texts is None else texts.word_counts

    def form(place: int) -> str | None:
        return (None if texts is None else texts.canonical(place)) or raw[place]

    def ask(first: Indices, second: Indices) -> Steps[Codes]:
        return vetoes(raw, known.sources, first, second, guards, counts, form)

    return ask


def standing_vetoes(held: Codes, representative: Indices) -> Codes:
    """Only the vetoes that kept a candidate as a result of its own: (n,)."""
    alone = representative == np.arange(len(held))
    return np.where(alone, held, np.int8(Veto.NONE)).astype(np.int8)
