"""Labelled pairs of points, one JSON object per line; the largest cut with the required precision on them, and the calibrated rule fitted
to them.

``{"a": id, "b": id, "copy": true}`` names two points of the collection; ``{"distance": 0.07, "copy": false}`` has a distance, for labels
made elsewhere with the same embedding model. A line may name its ``collection``, as the inspector's lines do; it then applies to that
collection only.

For the rule a pair is evaluated within the pool of its better-ranked point, because distances and rare words are relative to a pool. With
few labels only the constant is fitted, with many every coefficient; both stay near the shipped rule unless the labels contradict it. A
proposed fit is better than the shipped rule in leave-one-out validation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import numpy.typing as npt

from vecsieve.config.policy import PolicySettings
from vecsieve.config.problems import Problem, SettingsError

from ...runtime.files import read_input
from ...search.policy import resolved
from ...selection.certainty import FEATURES, SHIPPED, SIGNS, pair_features
from ...selection.distances import relative_distances
from ...selection.geometry import SCALE_FROM, across, rows_of
from ...selection.text.features import text_of as read_text
from ...selection.text.reading import read
from ...selection.values import FloatVector, Metadata
from ..source import Point, PointId, Source, text_of

MOST_PROBLEMS = 20  # a file of another format is wrong in every line
_READ_PAGE = 100


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    copy: bool
    a: int | str | None = None
    b: int | str | None = None
    distance: float | None = None
    collection: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """Either ``pair`` or ``distance`` is None."""

    copy: bool
    pair: tuple[PointId, PointId] | None
    distance: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """``distances``: (n,) float64. ``copies``: (n,) bool. ``missing``: labels whose points are deleted or have no vector."""

    distances: FloatVector
    copies: npt.NDArray[np.bool_]
    missing: int


def read_labels(path: Path, *, collection: str) -> tuple[Label, ...]:
    """The labels for this collection. Raises SettingsError that names each wrong line, up to twenty."""
    lines = read_input(path, place=str(path), wanted="a readable file of labelled pairs").splitlines()
    labels: list[Label] = []
    problems: list[Problem] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            label, of = _label(line)
            if of in {None, collection}:
                labels.append(label)
        except ValueError as error:
            wanted = '{"a": id, "b": id, "copy": true or false} or {"distance": number, "copy": true or false}'
            problems.append(Problem(f"{path}, line {number}", str(error), wanted))
    if problems:
        raise SettingsError(problems[:MOST_PROBLEMS])
    return tuple(labels)


def distances_of(labels: Sequence[Label], source: Source) -> Labelled:
    """The distances of the pairs; reads their points. Raises SourceError."""
    points = _points_of([label.pair for label in labels if label.pair], source)
    magnitude = source.shape().magnitude
    measured = [(_distance(label, points, magnitude=magnitude), label.copy) for label in labels]
    known = [(distance, copy) for distance, copy in measured if np.isfinite(distance)]
    return Labelled(
        distances=np.array([distance for distance, _ in known], np.float64),
        copies=np.array([copy for _, copy in known], np.bool_),
        missing=len(measured) - len(known),
    )


def _label(line: bytes) -> tuple[Label, str | None]:
    """A label and its collection, None for any. Raises ValueError with the value seen."""
    try:
        read = msgspec.json.decode(line, type=_Line)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    if read.distance is not None and read.a is None and read.b is None:
        if not 0.0 <= read.distance <= 2.0:
            raise ValueError(f"distance {read.distance}, which is no cosine distance")
        return Label(copy=read.copy, pair=None, distance=read.distance), read.collection
    if read.distance is None and read.a is not None and read.b is not None:
        if read.a == read.b:
            raise ValueError("the same point twice")
        return Label(copy=read.copy, pair=(read.a, read.b), distance=None), read.collection
    raise ValueError("neither two ids nor a distance" if read.distance is None else "a distance and ids")


def _distance(label: Label, points: dict[PointId, Point], *, magnitude: bool) -> float:
    if label.pair is None:
        return np.nan if label.distance is None else label.distance
    one, other = (points.get(each) for each in label.pair)
    if one is None or other is None or one.vector is None or other.vector is None:
        return np.nan
    return float(across(rows_of(one.vector[None]), rows_of(other.vector[None]), magnitude=magnitude)[0, 0])


def _points_of(pairs: Sequence[tuple[PointId, PointId]], source: Source) -> dict[PointId, Point]:
    """The existing points, by id. Raises SourceError."""
    named = sorted({each for pair in pairs for each in pair}, key=str)
    pages = (named[start : start + _READ_PAGE] for start in range(0, len(named), _READ_PAGE))
    return {point.id: point for page in pages for point in source.read(page)}


Counts = npt.NDArray[np.intp]

FEWEST_OF_A_KIND = 15  # copies, and other pairs: with fewer, any cut between two of them seems perfect
FEWEST_MERGED = 10  # below the cut: ten of ten have a lower bound of 0.72
_ROUNDING = 1e-9  # 0.9 x 10 must be 9
_Z = 1.959963984540054  # two-sided 95 % of the normal distribution


class CannotFitError(Exception):
    """No cut fits these labels. The message has the value seen and the value wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """``merged``: labelled pairs at or below ``cut``. ``right``: the copies among them. ``precision``: their ratio, with
    ``lower_bound``, Wilson's at 95 %. ``recall``: share of all labelled copies at or below the cut.
    """

    cut: float
    wanted: float
    merged: int
    right: int
    precision: float
    lower_bound: float
    recall: float
    labelled: int
    missing: int


def fit(labelled: Labelled, *, precision: float) -> Fit:
    """The largest distance of a copy up to which at least ``precision`` of the pairs are copies. Raises CannotFitError."""
    copies = int(labelled.copies.sum())
    others = len(labelled.copies) - copies
    if min(copies, others) < FEWEST_OF_A_KIND:
        gone = f" ({labelled.missing} more name points that were deleted or have no vector)" if labelled.missing else ""
        raise CannotFitError(
            f"too few labelled pairs: saw {copies} copies and {others} other pairs{gone}; wanted at least {FEWEST_OF_A_KIND} of each"
        )
    # Only copies' distances are candidates: a cut at another pair's distance would merge that pair and no further copy.
    # side="right": a cut merges all pairs of equal distance.
    distances = np.unique(labelled.distances[labelled.copies])
    merged = np.searchsorted(np.sort(labelled.distances), distances, side="right")
    right = np.searchsorted(np.sort(labelled.distances[labelled.copies]), distances, side="right")
    enough = merged >= FEWEST_MERGED
    distances, merged, right = distances[enough], merged[enough], right[enough]
    good = np.flatnonzero(right >= precision * merged - _ROUNDING)
    if not len(good):
        raise CannotFitError(_no_cut(distances, right, merged, precision))
    at = int(good[-1])
    return Fit(
        cut=float(distances[at]),
        wanted=precision,
        merged=int(merged[at]),
        right=int(right[at]),
        precision=float(right[at] / merged[at]),
        lower_bound=wilson_lower_bound(int(right[at]), int(merged[at])),
        recall=float(right[at] / copies),
        labelled=len(labelled.copies),
        missing=labelled.missing,
    )


def wilson_lower_bound(right: int, of: int) -> float:
    """Lower end of the 95 % interval of a share (Wilson 1927), valid for few trials and shares near one."""
    if of == 0:
        return 0.0
    share, z2 = right / of, _Z * _Z
    middle = share + z2 / (2 * of)
    spread = _Z * math.sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    return max(0.0, (middle - spread) / (1 + z2 / of))


def _no_cut(distances: FloatVector, right: Counts, merged: Counts, precision: float) -> str:
    best = int(np.argmax(right / merged))
    return (
        f"no cut with at least {FEWEST_MERGED} pairs reaches precision {precision:g}: "
        f"the best is {right[best] / merged[best]:.3f} at distance {distances[best]:.4f} ({merged[best]} pairs). "
        "In this collection vectors alone cannot distinguish copies from neighbours that well"
    )


FEWEST = 20  # labels for a shift: its interval is then about ±1
FEWEST_OF_A_SIDE = 3  # copies, and others: with fewer, the labels only show how they were chosen
ENOUGH = 200  # labels for the coefficients: a dozen per coefficient
MOST = 1000  # labels: their pools are 300 MB at 1536 dimensions
SHIFT_SPREAD = (
    1.0  # standard deviation of collections around the shipped constant: of twelve labelled sets half are within .7
)
SPREAD = 0.5  # the same for a coefficient, in units of its feature's spread
LARGEST_SHIFT, LARGEST = 4.0, 20.0  # as the settings allow
ROUNDS = 50
SMALLEST_STEP = 1e-8
_BATCH = 2  # pools in one request, as in the survey

Matrix = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """Pairs that both have a text: ``features`` (n, f), ``copies`` (n,) bool. ``missing``: labels of other pairs."""

    features: Matrix
    copies: npt.NDArray[np.bool_]
    missing: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """How well probabilities recognize copies. ``loss``: mean logarithmic loss. ``right``: share of copies among those of .5 or more, NaN
    for none; ``found``: share of the copies that have .5 or more.
    """

    loss: float
    right: float
    found: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleFit:
    """``shift`` with its 95 % interval; ``coefficients`` by name, empty unless they were fitted. ``left_out``: each label judged by the fit
    without it; ``shipped``: by the shipped rule. ``how``: what is proposed; "shipped" if nothing was better.
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
    """Judge the pairs; reads the pool of each pair's first point. Raises SourceError."""
    pairs = [(label.pair, label.copy) for label in labels if label.pair is not None][:MOST]
    points = _points_of([pair for pair, _ in pairs], source)
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
    """The parameters of a fit: logits (n,) are ``offset`` + ``design`` (n, k) @ change (k,). ``tight``: (k,) the penalty on each change.
    ``low``, ``high``: (k,) its bounds.
    """

    design: Matrix
    offset: FloatVector
    tight: FloatVector
    low: FloatVector
    high: FloatVector

    def fitted(self, known: FloatVector, weights: FloatVector, start: FloatVector) -> tuple[FloatVector, Matrix]:
        """The most likely change within its bounds, and the curvature there (k, k)."""
        change, curve = newton(self.design, known, weights, self.tight, offset=self.offset, start=start)
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
    """A shift, or coefficients if they are better, or neither; None for too few labels."""
    known, copies = pairs.copies.astype(np.float64), int(pairs.copies.sum())
    if len(known) < FEWEST or min(copies, len(known) - copies) < FEWEST_OF_A_SIDE:
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
    """All coefficients, near the shipped ones, with plausible signs."""
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


def newton(
    design: Matrix,
    known: FloatVector,
    weights: FloatVector,
    tight: FloatVector,
    *,
    offset: FloatVector,
    start: FloatVector,
) -> tuple[FloatVector, Matrix]:
    """The coefficients (k,) of a logistic model with a ridge, by Newton's method, and the curvature there (k, k).

    Logits (n,) are ``offset`` + ``design`` (n, k) @ coefficients. ``tight``: (k,) the ridge. ``start``: the first guess.
    """
    found, curve = start.copy(), np.diag(tight)
    for _ in range(ROUNDS):
        told = 1.0 / (1.0 + np.exp(-np.clip(offset + design @ found, -30.0, 30.0)))
        slope = design.T @ (weights * (told - known)) + tight * found
        curve = (design * (weights * told * (1.0 - told))[:, None]).T @ design + np.diag(tight)
        step = np.linalg.solve(curve, slope)
        found -= step
        if float(np.abs(step).max()) < SMALLEST_STEP:
            break
    return found, curve


def snippet(found: RuleFit) -> tuple[str, ...]:
    """The lines of the settings, as members of a policy; none if the shipped rule is as good."""
    if found.how == "shipped":
        return ()
    if found.how == "shift":
        return (f"calibrated: {{shift: {found.shift:g}}}",)
    return ("calibrated:", "  coefficients:", *(f"    {name}: {value:g}" for name, value in found.coefficients.items()))
