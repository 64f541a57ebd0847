"""The calibrated rule: the probability that a candidate repeats a better-ranked result, from features of the pair.

The rule is a logistic model over a few features. ``vecsieve evaluate --fit`` fits it to labelled sets in several embedding models and
writes its constants to calibrated.py. Among long texts, near vectors without shared words are weak evidence: 318 of 334 such pairs were no
copies. Among short texts they are strong evidence.

Without texts, a second model decides by the distance alone, and removes nothing below VECTORS_LEAST.

The features of a pair depend on its rank order and on the pool's typical distance; for short texts also on the rarity of words among the
first candidates. Equal texts count once there, so a copy of a candidate changes no other pair.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from .calibrated import TEXTS, VECTORS
from .geometry import Mask
from .policy import Certain, Model
from .text import bounds
from .text.pairs import differences, keys_of, most_shared, sentences, shared
from .text.rare_words import rare_overlaps
from .text.reading import Texts
from .values import FloatMatrix, Indices, Steps, finished

# From the second result on, the certainty falls over this many results to its last value. It falls fast at first, like the
# probability that a result is the answer.
FALLS_OVER = 6
FALL_POWER = 0.7

# Vectors alone remove nothing below this certainty. At .8, 97 % of what they remove is right on sets left out of the fit.
VECTORS_LEAST = 0.8

# Relative distances are clipped to this range.
NEAREST, FARTHEST = 0.02, 2.0
# The logarithm of the relative distance at which "far" ends and "near" begins: 0.37 of the typical distance.
KNEE = -1.0

# The share of the smaller text's 3-grams from which it counts as contained, and the share from which containment counts at all.
CONTAINED = 0.8
OVERLAPPING = 0.35

# The other text should have half of the later text's sentences: the missing share of that half counts against a copy.
HALF = 0.5

# Subjects of less weight are not shown: 0.1 changes a probability by at most .025.
LEAST_WEIGHT = 0.1

# The number of differences that count for pairs of long texts; the others are for short texts.
_OF_LONG = 4

# Log-odds from which on the probability is 1.0 in float64.
SURE = 36.0

Pairs = npt.NDArray[np.float64]
Columns = dict[int, Pairs]  # features of p pairs by their number; a missing one is 0 for all of them

# The meaning of each feature, in the order of the model's columns. ``long``: at least one text of the pair is long.
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

# What is shown of a pair: each subject with its features, the words if it speaks for a copy, and the words if it speaks against one.
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

# The sign that each coefficient must have to make sense; the fit leaves out a feature with the other sign. Constants of a kind of pair may
# have either.
SIGNS: Mapping[str, int] = {
    **dict.fromkeys(("far", "near", "short_far", "short_near"), -1),
    **dict.fromkeys(
        ("figures", "both_figures", "names", "both_names", "short_both_figures", "sentences", "opening"), -1
    ),
    **dict.fromkeys(("contained", "covered", "rare_shared", "rare_contained", "repetition"), 1),
}

SHIPPED = Model(texts=tuple(TEXTS[name] for name in FEATURES), vectors=tuple(VECTORS[name] for name in VECTOR_FEATURES))


def adjusted(shift: float, coefficients: Mapping[str, float]) -> Model | None:
    """The shipped model with these coefficients replaced, and a shift of the constant; None if nothing changes. The coefficients' signs
    must be those of SIGNS: bounds rely on them.
    """
    if not shift and not coefficients:
        return None
    texts = {**dict(zip(FEATURES, SHIPPED.texts, strict=True)), **coefficients}
    texts["one"] += shift
    return replace(SHIPPED, texts=tuple(texts[name] for name in FEATURES))


@dataclass(frozen=True, slots=True)
class ByChance:
    """Distances beyond which two candidates may be near by chance.

    ``largest``: for two candidates with texts; beyond it they merge only if one text contains the other. ``bare``: for two of which one has no
    text; beyond it they never merge. One number for all pairs, or one for each pair (any shape).
    """

    largest: float
    bare: FloatMatrix | float

    def per(self, unit: float) -> ByChance:
        """As shares of this distance."""
        return self if unit == 1.0 else ByChance(self.largest / unit, self.bare / unit)

    def at(self, places: Indices | Mask | slice) -> ByChance:
        """For some of the pairs. ``places``: in the flattened array of all pairs."""
        return ByChance(self.largest, self.bare.reshape(-1)[places]) if isinstance(self.bare, np.ndarray) else self


# How far the certainty has fallen after 0, 1, 2… kept results: 0 is not at all, 1 is completely.
_FALL = [max(0, stand - 1) / FALLS_OVER for stand in range(FALLS_OVER + 2)]


@lru_cache(maxsize=64)
def _doubts_allowed(first: float, last: float) -> list[float]:
    return [1.0 - (first - (first - last) * fallen**FALL_POWER) for fallen in _FALL]


def doubts_allowed(rule: Certain, count: int) -> list[float]:
    """1 - certainty after 0 to ``count - 1`` kept results. The first value is never used."""
    return _doubts_allowed(rule.first, rule.last)[:count] + [1.0 - rule.last] * (count - len(_FALL))


def by_vectors(distance: FloatMatrix, largest: FloatMatrix | float, model: Model = SHIPPED) -> FloatMatrix:
    """The doubt (n, m) from relative distances (n, m) only. ``largest``: the distance beyond which vectors may be close by chance, one of all
    or one of each pair.

    Equal vectors are copies. An infinite distance stays infinite.
    """
    near = distance <= np.minimum(largest, np.float32(reach_of_vectors(model.vectors)))
    doubt = np.where(np.isinf(distance), distance, np.float32(1.0))
    if near.any():
        doubt[near] = 1.0 - _by_vector(distance[near].astype(np.float64), model)
        doubt[distance == 0.0] = 0.0
    return doubt.astype(np.float32, copy=False)


@lru_cache(maxsize=64)
def reach_of_vectors(coefficients: tuple[float, ...]) -> float:
    """The distance beyond which no pair is removed by its vectors alone."""
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
    by_chance: ByChance,
    rule: Certain,
    bounded: bool = True,
) -> Steps[tuple[Pairs, Mask]]:
    """The doubt (p,) of p pairs of candidates, 1 - probability, and whether one text contains most of the smaller one.

    ``distance``: (p,) relative to the typical one, as ``by_chance``; 1.0 for pairs that vectors cannot compare. For a pair that ``rule`` cannot
    merge at any rank, the doubt may be too low; with ``bounded`` it is 1.0 if the pair could not merge even with as many shared 3-grams as
    the bit maps allow.
    """
    has_text = texts.numbers != 0
    known = None if np.count_nonzero(has_text) == len(has_text) else has_text.take(first) & has_text.take(second)
    if known is None or known.all():
        return (yield from _by_text(distance, texts, first, second, rule, by_chance.largest, bounded))
    doubt, is_contained = np.empty(len(first)), np.zeros(len(first), np.bool_)
    bare = distance[~known]
    doubt[~known] = 1.0 - _by_vector(bare, rule.model or SHIPPED) * (bare <= by_chance.at(~known).bare)
    doubt[known], is_contained[known] = yield from _by_text(
        distance[known], texts, first[known], second[known], rule, by_chance.largest, bounded
    )
    return doubt, is_contained


def _by_vector(distance: Pairs, model: Model) -> Pairs:
    """The probability (p,) that pairs are copies by their vectors alone; 0 if it is too low to remove anything."""
    bare = _probability(_logit(dict(enumerate(vector_features(distance).T)), model.vectors))
    return np.where(bare >= VECTORS_LEAST, bare, 0.0)


def _by_text(
    distance: Pairs,
    texts: Texts,
    first: Indices,
    second: Indices,
    rule: Certain,
    largest: float,
    bounded: bool,
) -> Steps[tuple[Pairs, Mask]]:
    """Missing sentences, different figures and names, and a shared opening only lower a probability, so they are computed only for pairs
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
            most = most_shared(texts, first, second)
            more = _overlaps(texts, most if compared is None else most * compared, first, second)
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
        common = yield from shared(texts, keys, first, second)
        more = _overlaps(texts, common if compared is None else common * compared.take(open_pairs), first, second)
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
    common = finished(shared(texts, keys, first, second))
    columns |= _overlaps(texts, common if compared is None else common * compared, first, second)
    partly = _is_partly_covered(texts, columns[_COVERED], first, second).nonzero()[0]
    if len(partly):
        rows = first[partly], second[partly]
        has = finished(sentences(texts, *rows))
        columns[_SENTENCES] = np.zeros(len(first))
        columns[_SENTENCES][partly] = _sentences(has, columns[_COVERED][partly])
    columns |= _differences(finished(differences(texts, keys, first, second)), short) | {_ONE: np.ones(len(first))}
    return np.stack([columns.get(place, np.zeros(len(first))) for place in range(len(FEATURES))], axis=1)


def _logit(columns: Columns, coefficients: tuple[float, ...]) -> Pairs:
    """The sum of these features' log-odds (p,). Added column by column, so that a pair's value does not depend on other pairs."""
    found = None
    for place, column in columns.items():
        part = column * coefficients[place]
        found = part if found is None else np.add(found, part, out=found)
    assert found is not None  # noqa: S101 - no caller has no features
    return found


def _logit_of(probability: float) -> float:
    """Slightly below the log-odds of the probability."""
    if not 0.0 < probability < 1.0:
        return -math.inf if probability <= 0.0 else SURE
    return min(math.log(probability / (1.0 - probability)), SURE) - 1e-9


def _probability(logit: Pairs) -> Pairs:
    found: Pairs = 1.0 / (1.0 + np.exp(-logit))
    return found


def _kinds(texts: Texts, first: Indices, second: Indices, distance: Pairs) -> tuple[Columns, Mask | None]:
    """The kind of each pair, its distance and, for short texts, its rare words; and which pairs are of short texts (p,), None if there are
    none.
    """
    logarithm = _logarithm(distance)
    if not texts.has_short:
        return {_FAR: np.maximum(logarithm, KNEE)}, None
    short: Mask = texts.is_short.take(first) & texts.is_short.take(second)
    pairs = short.nonzero()[0]
    if len(pairs):
        by_all, by_lighter, repetition = rare_overlaps(texts, first.take(pairs), second.take(pairs))
        # Equal vectors of texts without a common word: the model does not know the words, or the vector is of something else. They are no
        # evidence.
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
    """The pairs (p,) whose 3-grams are compared, None for all: not pairs of short texts, nor pairs beyond the number of words compared per
    pool.
    """
    if texts.words <= bounds.POOL_WORDS:
        return None if short is None else ~short
    but = np.zeros(len(first), np.bool_) if short is None else short
    return ~but & texts.compared(first, second, but=but)


def _overlaps(texts: Texts, shared: Pairs, first: Indices, second: Indices) -> Columns:
    """``shared``: the number of common 3-grams (p,)."""
    mine, theirs = texts.grams.take(first), texts.grams.take(second)
    later = texts.grams.take(np.maximum(first, second))
    contained = shared / np.minimum(mine, theirs) - OVERLAPPING
    return {_CONTAINED: np.maximum(contained, 0.0, out=contained), _COVERED: shared / later}


def _is_partly_covered(texts: Texts, covered: Pairs, first: Indices, second: Indices) -> Mask:
    """Which pairs (p,) are of long texts of which the later one is partly covered. A contained text has all its sentences covered."""
    partly: Mask = (covered > 0.0) & (covered < CONTAINED)
    return partly & ~(texts.is_short.take(first) | texts.is_short.take(second)) if texts.has_short else partly


def _sentences(has: FloatMatrix, covered: Pairs) -> Pairs:
    """The feature "sentences" of p pairs. ``has``: (p, 1) the share of sentences that the earlier text has. The smaller the overlap, the
    less the feature counts.
    """
    found: Pairs = np.maximum(HALF - has[:, 0].astype(np.float64), 0.0) * np.minimum(covered / OVERLAPPING, 1.0)
    return found


def _differences(apart: FloatMatrix, short: Mask | None) -> Columns:
    """``apart``: of p pairs, as of pairs.differences. ``short``: which pairs are of short texts, None: none is."""
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
    """The logarithm of relative distances (p,), clipped to the range NEAREST to FARTHEST."""
    return np.log(np.minimum(np.maximum(distance, NEAREST), FARTHEST))


@dataclass(frozen=True, slots=True)
class Weighed:
    """One subject of a pair. ``weight``: its log-odds relative to a pair at the typical distance with nothing in common and no differing
    figure or name. ``words``: the same in words.
    """

    subject: str
    weight: float
    words: str


def weighed(features: Sequence[float], model: Model = SHIPPED, *, most: int = 2) -> tuple[Weighed, ...]:
    """The ``most`` subjects with the largest weight in the probability of one pair, largest first, without those near 0. ``features``: in
    the order of FEATURES, or of VECTOR_FEATURES.
    """
    has_texts = len(features) == len(FEATURES)
    names = FEATURES if has_texts else VECTOR_FEATURES
    known = dict(zip(names, features, strict=True))
    beside = {"near": KNEE, "short_near": KNEE * known.get("short", 0.0)}  # values of the reference pair
    coefficients = dict(zip(names, model.texts if has_texts else model.vectors, strict=True))
    found = []
    for subject, (parts, speaks_for, speaks_against) in SUBJECTS.items():
        weight = sum(coefficients[each] * (known[each] - beside.get(each, 0.0)) for each in parts if each in known)
        found.append(Weighed(subject, weight, speaks_for if weight > 0.0 else speaks_against))
    return tuple(sorted((each for each in found if abs(each.weight) > LEAST_WEIGHT), key=_heaviest)[:most])


def _heaviest(one: Weighed) -> float:
    return -abs(one.weight)
