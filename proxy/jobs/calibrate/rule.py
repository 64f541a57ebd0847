"""The calibrated rule fitted to a collection: labelled pairs as a search would see them, and a shift or coefficients for them.

A pair is read inside the pool of its better-ranked point, because distances and rare words count beside a pool's. With few labels
only the constant is fitted, with many every coefficient; both stay near the shipped rule, as far as the labels do not speak against
it. What is proposed does better than the shipped rule on each label in turn, fitted without it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import numpy.typing as npt

from vecsieve.config.policy import PolicySettings
from vecsieve.proxy.jobs.calibrate.labels import Label
from vecsieve.proxy.jobs.source import Point, PointId, Source, text_of
from vecsieve.proxy.search.policy import resolved
from vecsieve.proxy.selection.certainty import FEATURES, SHIPPED, SIGNS, pair_features
from vecsieve.proxy.selection.distances import relative_distances
from vecsieve.proxy.selection.geometry import SCALE_FROM
from vecsieve.proxy.selection.text.features import text_of as read_text
from vecsieve.proxy.selection.text.reading import read
from vecsieve.proxy.selection.values import FloatVector, Metadata

FEWEST = 20  # labels for a shift: its interval is then about ±1
FEWEST_OF_A_KIND = 3  # copies, and others: with fewer, the labels say how they were chosen and no more
ENOUGH = 200  # labels for the coefficients: a dozen for each
MOST = 1000  # labels: their pools are 300 MB at 1536 dimensions
SHIFT_SPREAD = 1.0  # how far collections are from the shipped constant: of twelve labelled sets half are within .7
SPREAD = 0.5  # the same of a coefficient, of its feature's own spread
LARGEST_SHIFT, LARGEST = 4.0, 20.0  # as the settings allow
ROUNDS = 30
SMALLEST_STEP = 1e-6
_Z = 1.959963984540054  # two-sided 95 % of the normal distribution
_BATCH = 2  # pools in one request, as in the survey

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Pairs that both have a text: ``features`` (n, f), ``copies`` (n,) bool. ``missing``: labels that are none such."""

    features: Matrix
    copies: npt.NDArray[np.bool_]
    missing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """How well probabilities tell copies. ``loss``: mean logarithmic loss. ``right``: share of copies among those of .5 or more, NaN for none;
    ``found``: share of the copies that have .5 or more.
    """

    loss: float
    right: float
    found: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFit:
    """``shift`` with its 95 % interval; ``coefficients`` by name, empty unless they were fitted. ``left_out``: each label judged by the fit
    without it; ``shipped``: by the shipped rule. ``how``: what is proposed; "shipped" where nothing did better.
    """

    how: Literal["shift", "coefficients", "shipped"]
    shift: float
    interval: tuple[float, float]
    coefficients: Mapping[str, float]
    shipped: Told
    left_out: Told
    labelled: int
    copies: int
    missing: int


def judged(labels: Sequence[Label], source: Source, fields: Sequence[str]) -> Judged:
    """Reads the pool of each pair's first point. Raises SourceError."""
    pairs = [(label.pair, label.copy) for label in labels if label.pair is not None][:MOST]
    named = sorted({each for pair, _ in pairs for each in pair}, key=str)
    points = {
        point.id: point for start in range(0, len(named), 100) for point in source.read(named[start : start + 100])
    }
    usable = [(pair, copy) for pair, copy in pairs if all(_is_usable(points.get(each), fields) for each in pair)]
    rows: list[FloatVector] = []
    for start in range(0, len(usable), _BATCH):
        rows += _features(source, [pair for pair, _ in usable[start : start + _BATCH]], points, fields)
    return Judged(
        features=np.array(rows, np.float64).reshape(len(rows), len(FEATURES)),
        copies=np.array([copy for _, copy in usable], np.bool_),
        missing=len(labels) - len(usable),
    )


def _is_usable(point: Point | None, fields: Sequence[str]) -> bool:
    if point is None or point.vector is None or not point.vector.any():
        return False
    text = text_of(point.payload, fields)
    return text is not None and bool(text.strip())


def _features(
    source: Source, pairs: Sequence[tuple[PointId, PointId]], points: Mapping[PointId, Point], fields: Sequence[str]
) -> Iterator[FloatVector]:
    vectors = np.stack([vector for one, _ in pairs if (vector := points[one].vector) is not None])
    pools = source.neighbours(vectors, count=SCALE_FROM)
    for (one, other), pool in zip(pairs, pools, strict=True):
        near = [point for point, _ in pool if point.id not in {one, other} and point.vector is not None]
        yield _of_pool([points[one], points[other], *near], source, fields)


def _of_pool(pool: Sequence[Point], source: Source, fields: Sequence[str]) -> FloatVector:
    """The features of the first two (f,)."""
    policy = resolved(PolicySettings(), mode=None).selection
    assert policy.text is not None  # noqa: S101 - the default policy reads texts
    vectors = np.stack([point.vector for point in pool if point.vector is not None])
    relative = relative_distances(vectors, source.shape().metric, chance=policy.chance)
    texts = [text_of(point.payload, fields) for point in pool]
    found = read(Metadata(texts=tuple(None if text is None else read_text(text) for text in texts)), policy.text)
    first, second = np.array([0], np.intp), np.array([1], np.intp)
    apart = relative.inside(0, len(pool)).distance[:1, 1].astype(np.float64)
    features: FloatVector = pair_features(found, first, second, np.where(np.isfinite(apart), apart, 1.0))[0]
    return features


@dataclass(frozen=True, slots=True)
class _Freedom:
    """What a fit may change: logits (n,) are ``offset`` + ``design`` (n, k) @ change (k,). ``tight``: (k,) how strongly a change is held at
    nothing. ``low``, ``high``: (k,) its bounds.
    """

    design: Matrix
    offset: FloatVector
    tight: FloatVector
    low: FloatVector
    high: FloatVector

    def fitted(self, known: FloatVector, weights: FloatVector, start: FloatVector) -> tuple[FloatVector, Matrix]:
        """The likeliest change within its bounds, by Newton's method, and the curvature there (k, k)."""
        change, curve = start.copy(), np.diag(self.tight)
        for _ in range(ROUNDS):
            told = _probability(self.offset + self.design @ change)
            slope = self.design.T @ (weights * (told - known)) + self.tight * change
            curve = (self.design * (weights * told * (1.0 - told))[:, None]).T @ self.design + np.diag(self.tight)
            step = np.linalg.solve(curve, slope)
            change -= step
            if float(np.abs(step).max()) < SMALLEST_STEP:
                break
        return np.clip(change, self.low, self.high), curve

    def left_out(self, known: FloatVector, change: FloatVector) -> FloatVector:
        """The logit of each pair by the fit without it (n,)."""
        found = np.empty(len(known))
        for place in range(len(known)):
            weights = np.ones(len(known))
            weights[place] = 0.0
            without, _ = self.fitted(known, weights, change)
            found[place] = self.offset[place] + self.design[place] @ without
        return found


def fit_rule(pairs: Judged) -> RuleFit | None:
    """A shift, or coefficients where they do better, or neither; None for too few labels."""
    known, copies = pairs.copies.astype(np.float64), int(pairs.copies.sum())
    if len(known) < FEWEST or min(copies, len(known) - copies) < FEWEST_OF_A_KIND:
        return None
    offset = pairs.features @ np.asarray(SHIPPED.texts)
    most = np.array([LARGEST_SHIFT])
    freedom = _Freedom(np.ones((len(known), 1)), offset, np.array([SHIFT_SPREAD**-2]), -most, most)
    change, curve = freedom.fitted(known, np.ones(len(known)), np.zeros(1))
    shift, wide = float(change[0]), _Z / math.sqrt(float(curve[0, 0]))
    found = RuleFit(
        how="shift",
        shift=round(shift, 3),
        interval=(shift - wide, shift + wide),
        coefficients={},
        shipped=_told(offset, known),
        left_out=_told(freedom.left_out(known, change), known),
        labelled=len(known),
        copies=copies,
        missing=pairs.missing,
    )
    if len(known) >= ENOUGH:
        other = _refitted(pairs, known, found)
        found = other if other.left_out.loss < found.left_out.loss else found
    return found if found.left_out.loss < found.shipped.loss else replace(found, how="shipped")


def _refitted(pairs: Judged, known: FloatVector, shifted: RuleFit) -> RuleFit:
    """All coefficients, near the shipped ones, with the signs that make sense."""
    own, spread = np.asarray(SHIPPED.texts), pairs.features.std(axis=0)
    used = np.flatnonzero((spread > 0.0) | (np.arange(len(FEATURES)) == FEATURES.index("one")))
    names, scale = [FEATURES[place] for place in used.tolist()], np.where(spread > 0.0, spread, 1.0)[used]
    signs = np.array([SIGNS.get(name, 0) for name in names])
    own_scaled = own[used] * scale
    freedom = _Freedom(
        design=pairs.features[:, used] / scale,
        offset=pairs.features @ own,
        tight=np.array([(SHIFT_SPREAD if name == "one" else SPREAD) ** -2 for name in names]),
        low=np.where(signs > 0, 0.0, -LARGEST * scale) - own_scaled,
        high=np.where(signs < 0, 0.0, LARGEST * scale) - own_scaled,
    )
    change, _ = freedom.fitted(known, np.ones(len(known)), np.zeros(len(used)))
    coefficients = (own_scaled + change) / scale
    return replace(
        shifted,
        how="coefficients",
        shift=0.0,
        coefficients={name: round(value, 3) for name, value in zip(names, coefficients.tolist(), strict=True)},
        left_out=_told(freedom.left_out(known, change), known),
    )


def _told(logits: FloatVector, known: FloatVector) -> Told:
    is_likely, is_copy = logits >= 0.0, known > 0.0
    right = float(is_copy[is_likely].mean()) if is_likely.any() else math.nan
    loss = float(np.logaddexp(0.0, np.where(is_copy, -logits, logits)).mean())
    return Told(loss=loss, right=right, found=float(is_likely[is_copy].mean()))


def _probability(logits: FloatVector) -> FloatVector:
    found: FloatVector = 1.0 / (1.0 + np.exp(-np.clip(logits, -30.0, 30.0)))
    return found


def snippet(found: RuleFit) -> tuple[str, ...]:
    """The lines of the settings, as members of a policy; none where the shipped rule does as well."""
    if found.how == "shipped":
        return ()
    if found.how == "shift":
        return (f"calibrated: {{shift: {found.shift:g}}}",)
    return ("calibrated:", "  coefficients:", *(f"    {name}: {value:g}" for name, value in found.coefficients.items()))
