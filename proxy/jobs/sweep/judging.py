"""Which candidates of a sweep are copies, and which point of a family stays. Pure: arrays and texts in, arrays out.

A deletion is final, so it asks for more than a search (selection/judging, ``Tier.EXACT``): the text of a point that goes is one unbroken run of one
text that stays, read exactly. Points without texts are copies if their vectors are equal. Where only one of two has a text, both stay. A text that is
not read may say anything, so its point stays. What points say beside their texts is compared, too (writes/facts.py).

Families have a leader, and each member is held by the leader itself. Chains are no families: A may hold B, and B hold C of which A has nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ...selection.distances import EQUAL
from ...selection.geometry import NOISE, rows_of
from ...selection.judging.judge import Judge
from ...selection.policy import Tier
from ...selection.reading.text import Text, text_of
from ...selection.values import FloatMatrix, Indices, Link
from ...writes.holding import Holder
from ..pairs.fingerprints import readable

Codes = npt.NDArray[np.int8]


class Evidence(IntEnum):
    """Why one point of a pair says nothing that the other does not."""

    NONE = 0
    EQUAL = 1  # the same text
    CONTAINED = 2  # its text is one run of the other's
    EQUAL_VECTOR = 3  # neither has a text, and the vectors are equal
    SEARCHED = 4  # left alone here, though a search would collapse it


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """``evidence``: (p,) Evidence. ``holds``: (p, 2) whether the first point holds the second one, and the second the first. ``sizes``: (k,) tokens of the
    texts, 0 without one. ``similarities``: (p,) of the vectors, NaN without both.
    """

    evidence: Codes
    holds: npt.NDArray[np.bool_]
    sizes: Indices
    similarities: FloatMatrix


def judged(
    rows: Indices,
    vectors: FloatMatrix,
    has_vector: npt.NDArray[np.bool_],
    texts: Sequence[str | None],
    of_text: npt.NDArray[np.bool_],
    *,
    magnitude: bool,
) -> Judged:
    """``rows``: (p, 2) pairs of the k points of the other arguments. ``of_text``: (p,) which pairs share a fingerprint of their texts. ``magnitude``:
    whether the length of a vector matters.
    """
    evidence, holds = np.zeros(len(rows), np.int8), np.zeros((len(rows), 2), np.bool_)
    has_text = np.array([text is not None for text in texts], np.bool_)
    bare = np.flatnonzero(~has_text[rows].any(axis=1))
    same = bare[are_equal(vectors, rows[bare], has_vector, magnitude=magnitude)]
    evidence[same], holds[same] = Evidence.EQUAL_VECTOR, True
    pending = np.flatnonzero(of_text & has_text[rows].all(axis=1))
    read: list[Text | None] = [None] * len(texts)
    for row in np.unique(rows[pending]).tolist():
        read[row] = readable(texts[row])
    sizes = np.array([0 if text is None else len(text.passages(exact=True)[0].tokens) for text in read], np.intp)
    for tier in (Tier.EXACT, Tier.EDITED):
        for (pair, side), link in _links(rows, pending, read, sizes, tier).items():
            holds[pair, side] = True
            proof = Evidence.EQUAL if link is Link.EQUAL else Evidence.CONTAINED
            evidence[pair] = proof if tier is Tier.EXACT else Evidence.SEARCHED
        pending = pending[evidence[pending] == Evidence.NONE]
    return Judged(
        evidence=evidence,
        holds=holds,
        sizes=sizes,
        similarities=similarities(vectors, rows, has_vector, magnitude=magnitude),
    )


def _links(
    rows: Indices, pending: Indices, texts: Sequence[Text | None], sizes: Indices, tier: Tier
) -> dict[tuple[int, int], Link]:
    """Why one text of a pair leaves for the other: by pair and by which of the two holds, 0 or 1. A text is indexed once for all its pairs."""
    by_holder: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
    for pair in pending.tolist():
        one, other = rows[pair].tolist()
        if texts[one] is None or texts[other] is None:
            continue
        is_second = bool(sizes[other] > sizes[one])
        by_holder[other if is_second else one].append((pair, int(is_second)))
        if sizes[one] == sizes[other]:
            by_holder[other].append((pair, 1))
    links: dict[tuple[int, int], Link] = {}
    for holder, pairs in by_holder.items():
        judge = Judge(tier)
        text = texts[holder]
        assert text is not None  # noqa: S101 - looked at above
        judge.keep(0, text)
        for pair, side in pairs:
            leaving = texts[int(rows[pair, 1 - side])]
            assert leaving is not None  # noqa: S101 - looked at above
            verdict = judge.verdict(leaving)
            if verdict.holders:
                links[pair, side] = verdict.link
    return links


def are_contained(leaving: Sequence[str | None], staying: str | None) -> list[bool]:
    """Whether each text is one run of the one that stays, read exactly. Without texts there is nothing to compare."""
    if staying is None:
        return [text is None for text in leaving]
    holder = Holder(text_of(staying))
    return [text is not None and holder.link(text_of(text)) is not Link.NONE for text in leaving]


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """Who leads, of n points. ``sizes``: (n,) tokens, because a longer text may hold a shorter one. ``rank``: (n,) of equally long texts, the largest leads."""

    sizes: Indices
    rank: npt.NDArray[np.float64]


def heads_of(pairs: Indices, strength: FloatMatrix, order: Order) -> Indices:
    """For each of n points the leader of its family, itself for a leader. ``pairs``: (p, 2) points, each with one that contains it. ``strength``: (p,) of
    several leaders the one with the largest takes a point. Of equal rank the point that holds the most leads, then the first.

    A point at the edge of a family holds few: as the leader it would leave the others without one.
    """
    n = len(order.rank)
    heads = np.arange(n, dtype=np.intp)
    most = np.bincount(np.unique(pairs, axis=0)[:, 1], minlength=n)
    # For each point those that hold it, the strongest first, then by place.
    by = np.lexsort((pairs[:, 1], -strength, pairs[:, 0]))
    members, holders = pairs[by, 0], pairs[by, 1]
    contained, starts = np.unique(members, return_index=True)
    ends = np.append(starts[1:], len(members))
    is_leader = np.ones(n, np.bool_)
    is_leader[contained] = False  # not yet
    for number in np.lexsort((contained, -most[contained], -order.rank[contained], -order.sizes[contained])).tolist():
        point, above = contained[number], holders[starts[number] : ends[number]]
        leading = above[is_leader[above]]
        if len(leading):
            heads[point] = leading[0]
        else:
            is_leader[point] = True
    return heads


# The vectors of candidates, pair by pair: a batch holds thousands of pairs of almost as many points, and all distances would be a thousand times as many.


def similarities(
    vectors: FloatMatrix, rows: Indices, has_vector: npt.NDArray[np.bool_], *, magnitude: bool
) -> FloatMatrix:
    """(p,) float32 of the pairs ``rows`` (p, 2) of ``vectors`` (k, d): 1 - the distance of selection/geometry.py; NaN without both vectors.

    ``magnitude``: whether the length of a vector matters.
    """
    first, second = rows[:, 0], rows[:, 1]
    prepared = rows_of(vectors)
    with np.errstate(all="ignore"):
        products = np.einsum("ij,ij->i", prepared.values[first], prepared.values[second])
        lengths = np.ldexp(np.sqrt(prepared.squares.astype(np.float64)), prepared.exponents)
        one, other = lengths[first], lengths[second]
        scale = np.ldexp(1.0, prepared.exponents[first] + prepared.exponents[second])
        middle = (one**2 + other**2) / 2.0 if magnitude else one * other
        cosines: FloatMatrix = (products * scale / middle).astype(np.float32)
    usable = prepared.usable & has_vector
    cosines[~(usable[first] & usable[second])] = np.nan
    return cosines


def distances(similarities: FloatMatrix) -> FloatMatrix:
    """Of ``similarities``: infinite without both vectors, zero below the noise of float32."""
    far: FloatMatrix = np.where(np.isnan(similarities), np.float32(np.inf), np.float32(1.0) - similarities)
    far[far < NOISE] = 0.0
    return far


def are_equal(
    vectors: FloatMatrix, rows: Indices, has_vector: npt.NDArray[np.bool_], *, magnitude: bool
) -> npt.NDArray[np.bool_]:
    """(p,) whether both points of the pairs ``rows`` (p, 2) have the same vector, but for rounding; without ``magnitude``, whatever its length."""
    one, other = (vectors[rows[:, side]].astype(np.float64) for side in (0, 1))
    with np.errstate(all="ignore"):
        if not magnitude:
            one, other = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True) for vectors in (one, other))
        apart = np.square(one - other).sum(axis=1)
        close = apart <= EQUAL * (np.square(one).sum(axis=1) + np.square(other).sum(axis=1))
    equal: npt.NDArray[np.bool_] = close & has_vector[rows].all(axis=1)
    return equal
