"""Which candidates of a sweep are copies, and which point of a family stays. Pure: arrays and texts in, arrays out.

A sweep decides about deletion, so it is stricter than a search. Two points are copies if their canonical texts are equal, if they share
nearly all word 3-grams, or if their vectors are nearly equal and their texts do not contradict. The guards of searches (selection/guards)
apply here, too. Of two texts that differ in the words at one place, vectors that are nearly equal must say that this is an edit.

Families have a leader, and each member is a copy of the leader itself. Chains are no families: A may be near B, and B near C, while A and C
have little in common.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from ...selection.geometry import NOISE
from ...selection.guards.templates import are_exchanged, gaps, is_substituted, words_of
from ...selection.guards.veto import vetoes
from ...selection.policy import Guards
from ...selection.text.features import RECORD, Form, Text, complete
from ...selection.values import FloatMatrix, Indices, Metadata, finished
from ..pairs.comparing import similarities as similarities_of

Codes = npt.NDArray[np.int8]

# Texts that share fewer of their 3-grams contradict their vectors: nearly equal vectors of texts in other words show what a model considers
# the same, which is no reason to delete one of them.
LEAST_SHARED = 0.5


class Evidence(IntEnum):
    """Why two points are copies."""

    NONE = 0
    SAME_TEXT = 1
    NEAR_TEXT = 2
    NEAR_VECTOR = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """``similarity``: of vectors, from which on points are copies. ``shared``: Jaccard similarity of the 3-grams from which on texts are.
    ``magnitude``: whether the length of a vector matters.
    """

    similarity: float
    shared: float
    magnitude: bool
    guards: Guards


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """``evidence``: (p,) Evidence. ``similarities``: (p,) of the vectors, NaN without both. ``forbidden``: pairs that a guard kept
    apart.
    """

    evidence: Codes
    similarities: FloatMatrix
    forbidden: int


def judged(
    rows: Indices,
    vectors: FloatMatrix,
    has_vector: npt.NDArray[np.bool_],
    texts: Sequence[str | None],
    terms: Terms,
    of_text: npt.NDArray[np.bool_],
) -> Judged:
    """``rows``: (p, 2) pairs of the k points of the other arguments. ``of_text``: (p,) which pairs may have nearly equal texts.

    Most of the others are unrelated points whose vectors share a band by chance: if their vectors are far apart, their texts are not read.
    """
    similarities = similarities_of(vectors, rows, has_vector, magnitude=terms.magnitude)
    with np.errstate(invalid="ignore"):
        asked = np.flatnonzero(of_text | (similarities >= terms.similarity - NOISE))
    wanted = set(rows[asked].ravel().tolist())
    some = [text if place in wanted else None for place, text in enumerate(texts)]
    found, forbidden = _evidence(rows[asked, 0], rows[asked, 1], similarities[asked], some, terms)
    evidence = np.zeros(len(rows), np.int8)
    evidence[asked] = found
    return Judged(evidence=evidence, similarities=similarities, forbidden=forbidden)


def _evidence(
    first: Indices, second: Indices, similarities: FloatMatrix, texts: Sequence[str | None], terms: Terms
) -> tuple[Codes, int]:
    """The evidence of each pair, and the number of pairs that a guard kept apart."""
    read = [None if text is None else Text(text) for text in texts]
    forms = [None if text is None or text.cost() < 0 else text.unwrap() for text in read]
    complete([form for form in forms if form is not None])
    same, shared = _shared(forms, first, second)
    evidence = np.zeros(len(first), np.int8)
    with np.errstate(invalid="ignore"):
        near = similarities >= terms.similarity - NOISE
        # If one side has no text, only the vectors decide.
        evidence[near & ~(shared < LEAST_SHARED)] = Evidence.NEAR_VECTOR
        evidence[shared >= terms.shared] = Evidence.NEAR_TEXT
    evidence[same] = Evidence.SAME_TEXT
    unread = np.array([text is not None and form is None for text, form in zip(read, forms, strict=True)], np.bool_)
    evidence[unread[first] | unread[second]] = Evidence.NONE  # such a text may say anything
    asked = np.flatnonzero((evidence != Evidence.NONE) & ~same)
    forbidden = _forbidden(read, forms, first[asked], second[asked], terms.guards)
    if terms.guards.templates:
        forbidden |= _say_otherwise(forms, first[asked], second[asked], near[asked])
    evidence[asked[forbidden]] = Evidence.NONE
    return evidence, int(forbidden.sum())


def heads_of(pairs: Indices, strength: FloatMatrix, rank: npt.NDArray[np.float64]) -> Indices:
    """For each of n points the leader of its family, itself for a leader. ``pairs``: (p, 2) copies. ``strength``: (p,) of the similarity.
    ``rank``: (n,) the largest of a family leads; of equal ones the one with the most copies, then the first.

    A copy at the edge of a family is often near its original only: as the leader it would leave the others without one.
    """
    n = len(rank)
    heads = np.arange(n, dtype=np.intp)
    ends = np.concatenate((pairs, pairs[:, ::-1]))
    copied = np.bincount(np.unique(ends, axis=0)[:, 0], minlength=n)
    # For each point its copies, the most similar first, then by place.
    order = np.lexsort((ends[:, 1], -np.concatenate((strength, strength)), ends[:, 0]))
    starts, others = ends[order, 0], ends[order, 1]
    borders = np.searchsorted(starts, np.arange(n + 1))
    is_leader = np.ones(n, np.bool_)
    is_seen = np.zeros(n, np.bool_)
    for point in np.lexsort((np.arange(n), -copied, -rank)).tolist():
        copies = others[borders[point] : borders[point + 1]]
        if not len(copies):
            continue
        leading = copies[is_seen[copies] & is_leader[copies]]
        is_seen[point] = True
        if len(leading):
            is_leader[point] = False
            heads[point] = leading[0]
    return heads


def _shared(forms: Sequence[Form | None], first: Indices, second: Indices) -> tuple[npt.NDArray[np.bool_], FloatMatrix]:
    """Which pairs have equal canonical texts (p,), and the Jaccard similarity of their 3-grams (p,), NaN without both texts."""
    records = [np.frombuffer(form.record or b"", RECORD)[0] if form is not None else None for form in forms]
    grams = [np.frombuffer(form.grams or b"", np.uint32) if form is not None else None for form in forms]
    same, shared = np.zeros(len(first), np.bool_), np.full(len(first), np.nan, np.float32)
    for pair, (one, other) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        mine, theirs = records[one], records[other]
        left, right = grams[one], grams[other]
        if mine is None or theirs is None or left is None or right is None or not mine["words"] or not theirs["words"]:
            continue
        same[pair] = mine["number"] == theirs["number"]
        both = len(np.intersect1d(left, right, assume_unique=True))
        shared[pair] = both / max(len(left) + len(right) - both, 1)
    return same, shared


def _forbidden(
    texts: Sequence[Text | None], forms: Sequence[Form | None], first: Indices, second: Indices, guards: Guards
) -> npt.NDArray[np.bool_]:
    """Which pairs (p,) a guard keeps apart. Two texts at a time, because the budget of guards is for one page."""
    found = np.zeros(len(first), np.bool_)
    pair = np.array([0], np.intp), np.array([1], np.intp)
    for number, places in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        counts = np.array([_words(forms[place]) for place in places], np.int64)
        both = [texts[place] for place in places]
        canonical: Sequence[Hashable] = [_number(forms[place], place) for place in places]
        codes = finished(vetoes(both, Metadata(), *pair, guards, counts, canonical.__getitem__))
        found[number] = bool(codes[0])
    return found


def _say_otherwise(
    forms: Sequence[Form | None], first: Indices, second: Indices, near: npt.NDArray[np.bool_]
) -> npt.NDArray[np.bool_]:
    """Which pairs (p,) exchange two words, or have other words in a gap although their vectors are not ``near`` (p,) or not known."""
    found = np.zeros(len(first), np.bool_)
    for pair, (one, other) in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        mine, theirs = forms[one], forms[other]
        if mine is not None and theirs is not None:
            words = words_of(mine.body), words_of(theirs.body)
            found[pair] = are_exchanged(*words) or (not near[pair] and any(is_substituted(gap) for gap in gaps(*words)))
    return found


def _words(form: Form | None) -> int:
    return -1 if form is None else int(np.frombuffer(form.record or b"", RECORD)[0]["words"])


def _number(form: Form | None, place: int) -> Hashable:
    return ("unread", place) if form is None else int(np.frombuffer(form.record or b"", RECORD)[0]["number"])
