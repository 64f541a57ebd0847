"""The calibrated rule: the probability that a candidate repeats a better-ranked result, from features of the pair.

The rule is a logistic model over a few features. ``vecsieve evaluate --fit`` fits it to labelled sets in several embedding
models and writes its constants to calibrated.py. Among long texts, near vectors without shared words are weak evidence: 318
of 334 such pairs were no copies. Among short texts they are strong evidence.

Without texts, a second model decides by the distance alone, and never below VECTORS_LEAST.

The features of a pair depend on its rank order and on the pool's typical distance; for short texts also on how rare a word is
among the first candidates. Equal texts count once there, so a copy of a candidate changes no other pair.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from .calibrated import TEXTS, VECTORS
from .geometry import Mask, ahead
from .policy import Certain, Model
from .text import bounds
from .text.pairs import DIFFERENCES, SHARED, differences, keys_of, most_shared, sentences
from .text.reading import Texts, Words, numbered, weight
from .values import FloatMatrix, Indices, Steps, finished

# From the second result on, the certainty falls over this many results to its last value. It falls fast at first, like the
# probability that a result is the answer.
FALLS_OVER = 6
FALL_POWER = 0.7

# Vectors alone remove nothing below this certainty. At .8, 97 % of what they remove is right on sets left out of the fit.
VECTORS_LEAST = 0.8

# Relative distances outside are read as these.
NEAREST, FARTHEST = 0.02, 2.0
# The logarithm of the relative distance at which "far" ends and "near" begins: 0.37 of the typical distance.
KNEE = -1.0

# Share of the smaller text's 3-grams from which a pair is called contained, and from which containment counts at all.
CONTAINED = 0.8
OVERLAPPING = 0.35

# Of the later text's sentences the other should have half: what is missing of it speaks against a copy.
HALF = 0.5

# How much a pool's short texts repeat one another: the overlap of rare words that a tenth of their pairs exceed. In pools of tickets that
# one intent floods it is .14, of claims and arguments on one topic .06 to .09. Up to this value it counts, and it is read as if the pool had so many
# pairs at least: of few texts two that are alike say nothing about the others.
EXCEEDED_BY = 0.1
MOST_REPETITION = 0.2
FEWEST_PAIRS = 190

# What weighs less is not told: a tenth changes a probability by .025 at most.
LEAST_WEIGHT = 0.1

# So many of the differences of a pair count where both are long: the others are of short texts.
_OF_LONG = 4

# Texts whose shared words are counted in one product.
BLOCK = 128

# The logarithm of odds beyond which float64 knows no doubt.
SURE = 36.0

Pairs = npt.NDArray[np.float64]
Columns = dict[int, Pairs]  # features of p pairs by their number; one that is missing is 0 for all of them

# What each feature says, in the order of the model's columns. ``long``: at least one text of the pair is long.
MEANINGS: Mapping[str, str] = {
    "one": "of any pair",
    "short": "both texts are short",
    "far": "distance of long texts",
    "short_far": "distance of short texts",
    "short_near": "nearness of short texts",
    "contained": "share of the smaller text that the other contains",
    "covered": "share of the later-ranked text that the earlier contains",
    "figures": "different figures",
    "both_figures": "each has a figure that the other lacks",
    "names": "different names",
    "both_names": "each has a name that the other lacks",
    "rare_shared": "rare words that both have, of all",
    "rare_contained": "rare words of the shorter text that both have",
    "short_both_figures": "each short text has a figure that the other lacks",
    "repetition": "how much the pool's short texts repeat one another",
    "sentences": "share missing of half of the later-ranked text's sentences",
    "opening": "share of the shorter of two short texts with which both begin",
}
FEATURES = tuple(MEANINGS)

# What is told of a pair: each subject with its features, and the words where it speaks for a copy and where against.
SUBJECTS: Mapping[str, tuple[tuple[str, ...], str, str]] = {
    "distance": (("far", "short_far", "short_near", "near"), "the vectors are near", "the vectors are far apart"),
    "contained": (("contained",), "much of the shorter text is in the longer one", ""),
    "covered": (("covered",), "much of this text is in the one that stays", ""),
    "figures": (("figures", "both_figures", "short_both_figures"), "", "the figures differ"),
    "names": (("names", "both_names"), "", "the names differ"),
    "words": (("rare_shared", "rare_contained"), "they share rare words", ""),
    "repetition": (("repetition",), "the texts of this search repeat one another often", ""),
    "sentences": (("sentences",), "", "the one that stays lacks most of its sentences"),
    "opening": (("opening",), "", "it is their beginning that they share"),
}
VECTOR_FEATURES = ("one", "far", "near")
_ONE, _SHORT, _FAR, _SHORT_FAR, _SHORT_NEAR, _CONTAINED, _COVERED = range(7)
_FIGURES, _BOTH_FIGURES, _NAMES, _BOTH_NAMES, _RARE_SHARED, _RARE_CONTAINED, _SHORT_BOTH_FIGURES = range(7, 14)
_REPETITION, _SENTENCES, _OPENING = range(14, len(FEATURES))

# The sign that each coefficient must have to make sense; the fit leaves out a feature that would have the other. Constants
# of a kind of pair may have either.
SIGNS: Mapping[str, int] = {
    **dict.fromkeys(("far", "near", "short_far", "short_near"), -1),
    **dict.fromkeys(
        ("figures", "both_figures", "names", "both_names", "short_both_figures", "sentences", "opening"), -1
    ),
    **dict.fromkeys(("contained", "covered", "rare_shared", "rare_contained", "repetition"), 1),
}

SHIPPED = Model(texts=tuple(TEXTS[name] for name in FEATURES), vectors=tuple(VECTORS[name] for name in VECTOR_FEATURES))


def adjusted(shift: float, coefficients: Mapping[str, float]) -> Model | None:
    """The shipped model with these coefficients in place of its own, and a shift of the constant; None where nothing changes. The signs
    of coefficients are those of SIGNS: bounds rely on them.
    """
    if not shift and not coefficients:
        return None
    texts = {**dict(zip(FEATURES, SHIPPED.texts, strict=True)), **coefficients}
    texts["one"] += shift
    return replace(SHIPPED, texts=tuple(texts[name] for name in FEATURES))


# How far the certainty has fallen when 0, 1, 2… results stand: 0 is nothing, 1 all the way.
_FALL = [max(0, stand - 1) / FALLS_OVER for stand in range(FALLS_OVER + 2)]


@lru_cache(maxsize=64)
def _doubts_allowed(first: float, last: float) -> list[float]:
    return [1.0 - (first - (first - last) * fallen**FALL_POWER) for fallen in _FALL]


def doubts_allowed(rule: Certain, count: int) -> list[float]:
    """1 - certainty when 0 to ``count - 1`` results stand already. Nothing is compared with none."""
    return _doubts_allowed(rule.first, rule.last)[:count] + [1.0 - rule.last] * (count - len(_FALL))


def by_vectors(distance: FloatMatrix, largest: float, model: Model = SHIPPED) -> FloatMatrix:
    """The doubt (n, m) from relative distances (n, m) alone. ``largest``: beyond it nearness may be chance.

    Equal vectors are copies as far as can be told. An infinite distance stays infinite.
    """
    near = distance <= min(largest, reach_of_vectors(model.vectors))
    doubt = np.where(np.isinf(distance), distance, np.float32(1.0))
    if near.any():
        doubt[near] = 1.0 - _by_vector(distance[near].astype(np.float64), largest, model)
        doubt[distance == 0.0] = 0.0
    return doubt.astype(np.float32, copy=False)


@lru_cache(maxsize=64)
def reach_of_vectors(coefficients: tuple[float, ...]) -> float:
    """A distance beyond which no pair is removed by its vectors alone."""
    distances = np.geomspace(NEAREST, FARTHEST, 1024)
    reached = (
        _probability(_logit(dict(enumerate(vector_features(distances).T)), coefficients)) >= VECTORS_LEAST
    ).nonzero()[0]
    if not len(reached):
        return 0.0
    return float(distances[reached[-1] + 1]) if reached[-1] + 1 < len(distances) else math.inf


def judged(
    distance: Pairs,
    texts: Texts,
    first: Indices,
    second: Indices,
    *,
    largest: float,
    rule: Certain,
    bounded: bool = True,
) -> Steps[tuple[Pairs, Mask]]:
    """The doubt (p,) of p pairs of candidates, 1 - probability, and whether most of the smaller text is in the other.

    ``distance``: (p,) relative to the typical one; 1.0 where two cannot be compared by vectors. ``largest``: beyond this
    distance a pair needs a contained text. The doubt of a pair that ``rule`` cannot merge at any place may be too low; with
    ``bounded`` it is 1.0 for those that it could not merge however many of the 3-grams that may be shared by their bit maps were.
    """
    has_text = texts.numbers != 0
    known = None if np.count_nonzero(has_text) == len(has_text) else has_text.take(first) & has_text.take(second)
    if known is None or known.all():
        return (yield from _by_text(distance, texts, first, second, rule, largest, bounded))
    doubt, is_contained = np.empty(len(first)), np.zeros(len(first), np.bool_)
    doubt[~known] = 1.0 - _by_vector(distance[~known], largest, rule.model or SHIPPED)
    doubt[known], is_contained[known] = yield from _by_text(
        distance[known], texts, first[known], second[known], rule, largest, bounded
    )
    return doubt, is_contained


def _by_vector(distance: Pairs, largest: float, model: Model) -> Pairs:
    """The probability (p,) that pairs are copies by their vectors alone, 0 where nothing may be removed by it."""
    bare = _probability(_logit(dict(enumerate(vector_features(distance).T)), model.vectors))
    return np.where((bare >= VECTORS_LEAST) & (distance <= largest), bare, 0.0)


def _by_text(
    distance: Pairs,
    texts: Texts,
    first: Indices,
    second: Indices,
    rule: Certain,
    largest: float,
    bounded: bool,
) -> Steps[tuple[Pairs, Mask]]:
    """Missing sentences, differences of figures and names and a shared beginning only lower a probability: they are read of the pairs
    that would be merged without them.
    """
    coefficients, least = (rule.model or SHIPPED).texts, _logit_of(min(rule.first, rule.last))
    columns, short = _kinds(texts, first, second, distance)
    logit = _logit(columns, coefficients) + coefficients[_ONE]
    compared = _compared(texts, first, second, short)
    doubt, contained = np.ones(len(first)), np.zeros(len(first), np.bool_)
    open_pairs = np.arange(len(first), dtype=np.intp)
    if bounded:
        bound = logit
        if compared is None or compared.any():
            shared = most_shared(texts, first, second)
            more = _overlaps(texts, shared if compared is None else shared * compared, first, second)
            bound = bound + _logit(more, coefficients)
        open_pairs = (bound >= least).nonzero()[0]
        if not len(open_pairs):
            return doubt, contained
    first, second = first.take(open_pairs), second.take(open_pairs)
    logit, distance = logit.take(open_pairs), distance.take(open_pairs)
    if texts.words > bounds.STEP_WORDS and texts.words_of(first, second) > bounds.STEP_WORDS:
        yield
    keys = keys_of(texts, first, second)
    is_contained, likely = contained.take(open_pairs), np.arange(len(open_pairs), dtype=np.intp)
    if compared is None or compared.any():
        shared = SHARED.of(texts, keys, first, second)[:, 0].astype(np.float64)
        more = _overlaps(texts, shared if compared is None else shared * compared.take(open_pairs), first, second)
        logit += _logit(more, coefficients)
        contained[open_pairs] = is_contained = more[_CONTAINED] >= CONTAINED - OVERLAPPING
        likely = (logit >= least).nonzero()[0]
        partly = likely[_is_partly_covered(texts, more[_COVERED].take(likely), first.take(likely), second.take(likely))]
        if len(partly):
            has = yield from sentences(texts, first.take(partly), second.take(partly))
            logit[partly] += coefficients[_SENTENCES] * _sentences(has, more[_COVERED].take(partly))
    if len(likely):
        apart = yield from differences(texts, keys.take(likely), first.take(likely), second.take(likely))
        if short is not None or apart[:, :_OF_LONG].any():
            are_short = None if short is None else short.take(open_pairs[likely])
            logit[likely] += _logit(_differences(apart, are_short), coefficients)
    doubt[open_pairs] = 1.0 - _probability(logit) * (is_contained | (distance <= largest))
    return doubt, contained


def vector_features(distance: Pairs) -> Pairs:
    """The features (p, 3) of p relative distances, in the order of VECTOR_FEATURES."""
    logarithm = _logarithm(distance)
    return np.stack((np.ones(len(distance)), np.maximum(logarithm, KNEE), np.minimum(logarithm, KNEE)), axis=1)


def pair_features(texts: Texts, first: Indices, second: Indices, distance: Pairs) -> Pairs:
    """The features (p, f) of p pairs of candidates that both have a text, in the order of FEATURES. ``distance``: (p,) relative
    to the typical one.
    """
    columns, short = _kinds(texts, first, second, distance)
    compared = _compared(texts, first, second, short)
    keys = keys_of(texts, first, second)
    shared = SHARED.of(texts, keys, first, second)[:, 0].astype(np.float64)
    columns |= _overlaps(texts, shared if compared is None else shared * compared, first, second)
    partly = _is_partly_covered(texts, columns[_COVERED], first, second).nonzero()[0]
    if len(partly):
        rows = first[partly], second[partly]
        has = finished(sentences(texts, *rows))
        columns[_SENTENCES] = np.zeros(len(first))
        columns[_SENTENCES][partly] = _sentences(has, columns[_COVERED][partly])
    columns |= _differences(DIFFERENCES.of(texts, keys, first, second), short) | {_ONE: np.ones(len(first))}
    return np.stack([columns.get(place, np.zeros(len(first))) for place in range(len(FEATURES))], axis=1)


def _logit(columns: Columns, coefficients: tuple[float, ...]) -> Pairs:
    """What these features add to the logarithm of the odds (p,): number by number, so that it does not depend on other pairs."""
    found = None
    for place, column in columns.items():
        part = column * coefficients[place]
        found = part if found is None else np.add(found, part, out=found)
    assert found is not None  # noqa: S101 - no caller has no features
    return found


def _logit_of(probability: float) -> float:
    """A little below the logarithm of these odds."""
    if not 0.0 < probability < 1.0:
        return -math.inf if probability <= 0.0 else SURE
    return min(math.log(probability / (1.0 - probability)), SURE) - 1e-9


def _probability(logit: Pairs) -> Pairs:
    found: Pairs = 1.0 / (1.0 + np.exp(-logit))
    return found


def _kinds(texts: Texts, first: Indices, second: Indices, distance: Pairs) -> tuple[Columns, Mask | None]:
    """What kind of pair each is, how far apart and, of short texts, by which words; and which are pairs of short texts (p,), None without any."""
    logarithm = _logarithm(distance)
    if not texts.has_short:
        return {_FAR: np.maximum(logarithm, KNEE)}, None
    short: Mask = texts.is_short.take(first) & texts.is_short.take(second)
    pairs = short.nonzero()[0]
    if len(pairs):
        by_all, by_lighter, repetition = _rare_overlaps(texts, first.take(pairs), second.take(pairs))
        # One vector for texts without a common word: the model does not know the words, or it is of something else. It tells nothing.
        logarithm[pairs[(by_all == 0.0) & (distance.take(pairs) == 0.0)]] = 0.0
    far = np.maximum(logarithm, KNEE)
    columns: Columns = {_FAR: far * ~short, _SHORT: short.astype(np.float64)}
    if len(pairs):
        columns |= {_SHORT_FAR: far * short, _SHORT_NEAR: np.minimum(logarithm, KNEE) * short}
        columns[_REPETITION] = np.where(short, repetition, 0.0)
        for place, share in ((_RARE_SHARED, by_all), (_RARE_CONTAINED, by_lighter)):
            columns[place] = np.zeros(len(first))
            columns[place][pairs] = share
    return columns, short


def _compared(texts: Texts, first: Indices, second: Indices, short: Mask | None) -> Mask | None:
    """Of which pairs (p,) 3-grams are looked at, None for all: not of short texts, nor of those behind as many words as are
    compared in one pool.
    """
    if texts.words <= bounds.POOL_WORDS:
        return None if short is None else ~short
    but = np.zeros(len(first), np.bool_) if short is None else short
    return ~but & texts.compared(first, second, but=but)


def _overlaps(texts: Texts, shared: Pairs, first: Indices, second: Indices) -> Columns:
    """``shared``: how many 3-grams (p,) two texts have in common."""
    mine, theirs = texts.grams.take(first), texts.grams.take(second)
    later = texts.grams.take(np.maximum(first, second))
    contained = shared / np.minimum(mine, theirs) - OVERLAPPING
    return {_CONTAINED: np.maximum(contained, 0.0, out=contained), _COVERED: shared / later}


def _is_partly_covered(texts: Texts, covered: Pairs, first: Indices, second: Indices) -> Mask:
    """Which pairs (p,) are of long texts of which the later one is covered in part. One that is contained has its sentences there."""
    partly: Mask = (covered > 0.0) & (covered < CONTAINED)
    return partly & ~(texts.is_short.take(first) | texts.is_short.take(second)) if texts.has_short else partly


def _sentences(has: FloatMatrix, covered: Pairs) -> Pairs:
    """The feature "sentences" of p pairs, of whose sentences one ``has`` a share (p, 1). The less they overlap, the less it says beside that."""
    found: Pairs = np.maximum(HALF - has[:, 0].astype(np.float64), 0.0) * np.minimum(covered / OVERLAPPING, 1.0)
    return found


def _differences(apart: FloatMatrix, short: Mask | None) -> Columns:
    """``apart``: of p pairs, as pairs.DIFFERENCES has them. ``short``: which are pairs of short texts, None: none is."""
    figures, both_figures, names, both_names, opening = apart.T.astype(np.float64)
    if short is None:
        return {_FIGURES: figures, _BOTH_FIGURES: both_figures, _NAMES: names, _BOTH_NAMES: both_names}
    return {
        _FIGURES: figures * ~short,
        _BOTH_FIGURES: both_figures * ~short,
        _NAMES: names * ~short,
        _BOTH_NAMES: both_names * ~short,
        _SHORT_BOTH_FIGURES: both_figures * short,
        _OPENING: opening * short,
    }


def _logarithm(distance: Pairs) -> Pairs:
    """Of relative distances (p,) within the bounds that are told apart."""
    return np.log(np.minimum(np.maximum(distance, NEAREST), FARTHEST))


def _rare_overlaps(texts: Texts, first: Indices, second: Indices) -> tuple[Pairs, Pairs, float]:
    """Shared words of p pairs of short texts (p,), each word as heavy as it is rare: by both texts' words, and by the lighter
    text's. And how much all short texts repeat one another.
    """
    used = texts.is_short
    if len(texts) > BLOCK:
        used = np.zeros(len(texts), np.bool_)
        used[first] = used[second] = True
    place = used.cumsum() - 1
    left, right = place.take(first), place.take(second)
    # Of a usual pool all short texts are looked at together, and once.
    sums, counts = _word_weights(texts, used) if len(texts) > BLOCK else texts.once(_short_words, used)[:2]
    both = counts.ravel().take(left * len(sums) + right)
    mine, theirs = sums.take(left), sums.take(right)
    by_all, by_lighter = (
        both / np.maximum(mine + theirs - both, 1e-6),
        both / np.maximum(np.minimum(mine, theirs), 1e-6),
    )
    return by_all, by_lighter, texts.once(_short_words, used)[2]


def _short_words(texts: Texts, used: Mask) -> tuple[Pairs, Pairs, float]:
    """As _word_weights, of all short texts of a usual pool and of the first ones of others; and how much the first ones repeat one another."""
    known = np.array([i for i in texts.first_different if texts.is_short[i]], np.intp)
    if len(texts) > BLOCK:
        used = np.zeros(len(texts), np.bool_)
        used[known] = True
    sums, counts = _word_weights(texts, used)
    rows = (used.cumsum() - 1).take(known)
    return sums, counts, _repetition(sums.take(rows), counts.take(rows, axis=0).take(rows, axis=1))


def _repetition(sums: Pairs, counts: Pairs) -> float:
    """The overlap of rare words that a tenth of the pairs of t texts exceed. ``sums`` (t,), ``counts`` (t, t): as of _word_weights."""
    first, second = ahead(len(sums))[:2]
    fewer = int(EXCEEDED_BY * max(len(first), FEWEST_PAIRS))
    if len(first) <= fewer:
        return 0.0
    both = counts[first, second]
    shares = both / np.maximum(sums.take(first) + sums.take(second) - both, 1e-6)
    return min(float(np.partition(shares, -1 - fewer)[-1 - fewer]), MOST_REPETITION)


def _word_weights(texts: Texts, used: Mask) -> tuple[Pairs, Pairs]:
    """What the different words of each of u texts weigh (u,), and the words that each two share (u, u)."""
    which = used.nonzero()[0].tolist()
    words, lengths = texts.vocabularies(which)
    owners = np.arange(len(lengths)).repeat(lengths)
    values, codes = numbered(words)
    counts = np.bincount(codes)
    weights = _rarity(texts, used, owners, values, codes)
    sums: Pairs = np.bincount(owners, weights.take(codes), len(lengths)).astype(np.float64, copy=False)
    if len(lengths) <= BLOCK:
        several = counts >= 2  # of the others none is shared
        place, met = several.cumsum() - 1, several.take(codes).nonzero()[0]
        codes = place.take(codes.take(met))
        return sums, _weights_shared(owners.take(met), codes, weights[several], slice(None), len(lengths))
    shared = np.zeros((len(lengths), len(lengths)))
    for start in range(0, len(lengths), BLOCK):
        # Only words of the block can be shared with it: the matrices stay small however many texts there are.
        inside = codes[(owners >= start) & (owners < start + BLOCK)]
        place = np.full(len(values), -1, np.intp)
        place[inside] = 0
        vocabulary = np.flatnonzero(place == 0)
        place[vocabulary] = np.arange(len(vocabulary))
        at = place[codes]
        meets = at >= 0
        block = slice(start, start + BLOCK)
        shared[block] = _weights_shared(owners[meets], at[meets], weights[vocabulary], block, len(lengths))
    return sums, shared


def _rarity(texts: Texts, used: Mask, owners: Indices, values: Words, codes: Indices) -> Pairs:
    """What each word weighs. ``codes``: of the words of the ``used`` texts, by ``values``; ``owners``: whose they are among these."""
    known = texts.first_different
    if not known or not used.take(known).all():
        return texts.rarity(values)
    # In a pool of short texts nothing needs to be counted twice.
    is_known = np.zeros(len(used), np.bool_)
    is_known[known] = True
    counts = np.bincount(codes[is_known[used].take(owners)], minlength=len(values))
    return weight(len(known), np.maximum(counts, 1))


def _weights_shared(owners: Indices, codes: Indices, weights: Pairs, block: slice, texts: int) -> Pairs:
    """The weight of the words that each text of ``block`` shares with each of all ``texts``."""
    every = np.zeros((texts, len(weights)))
    every.ravel()[owners * len(weights) + codes] = 1.0
    shared: Pairs = (every[block] * weights) @ every.T
    return shared


@dataclass(frozen=True, slots=True)
class Weighed:
    """One subject of a pair. ``weight``: what it adds to the logarithm of the odds of a copy, beside a pair at the typical distance
    that has nothing in common and no differing figure or name. ``words``: the same for people.
    """

    subject: str
    weight: float
    words: str


def weighed(features: Sequence[float], model: Model = SHIPPED, *, most: int = 2) -> tuple[Weighed, ...]:
    """The ``most`` subjects that weigh most in the probability of one pair, the heaviest first; none that weighs nothing. ``features``: in the
    order of FEATURES, or of VECTOR_FEATURES.
    """
    has_texts = len(features) == len(FEATURES)
    names = FEATURES if has_texts else VECTOR_FEATURES
    known = dict(zip(names, features, strict=True))
    beside = {"near": KNEE, "short_near": KNEE * known.get("short", 0.0)}  # of the pair that it is compared with
    coefficients = dict(zip(names, model.texts if has_texts else model.vectors, strict=True))
    found = []
    for subject, (parts, speaks_for, speaks_against) in SUBJECTS.items():
        weight = sum(coefficients[each] * (known[each] - beside.get(each, 0.0)) for each in parts if each in known)
        found.append(Weighed(subject, weight, speaks_for if weight > 0.0 else speaks_against))
    return tuple(sorted((each for each in found if abs(each.weight) > LEAST_WEIGHT), key=_heaviest)[:most])


def _heaviest(one: Weighed) -> float:
    return -abs(one.weight)
