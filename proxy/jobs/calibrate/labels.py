"""Labelled pairs of points, one JSON object a line; and the largest cut with the wanted precision on them.

``{"a": id, "b": id, "copy": true}`` names two points of the collection; ``{"distance": 0.07, "copy": false}`` has a
distance, for labels made elsewhere with the same embedding model. A line may name its ``collection``, as those do that the
inspector writes: it is for that collection alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from vecsieve.config.problems import Problem, SettingsError
from vecsieve.proxy.jobs.files import read_input
from vecsieve.proxy.jobs.source import Point, PointId, Source
from vecsieve.proxy.selection.geometry import across, rows_of
from vecsieve.proxy.selection.values import FloatVector

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


def resolved(labels: Sequence[Label], source: Source) -> Labelled:
    """The distances of the pairs; reads their points. Raises SourceError."""
    named = sorted({each for label in labels if label.pair for each in label.pair}, key=_order)
    points = {
        point.id: point
        for start in range(0, len(named), _READ_PAGE)
        for point in source.read(named[start : start + _READ_PAGE])
    }
    magnitude = source.shape().magnitude
    measured = [(_distance(label, points, magnitude=magnitude), label.copy) for label in labels]
    known = [(distance, copy) for distance, copy in measured if np.isfinite(distance)]
    return Labelled(
        distances=np.array([distance for distance, _ in known], np.float64),
        copies=np.array([copy for _, copy in known], np.bool_),
        missing=len(measured) - len(known),
    )


def _label(line: bytes) -> tuple[Label, str | None]:
    """A label and the collection that it is for, None for any. Raises ValueError with what was seen."""
    try:
        read = msgspec.json.decode(line, type=_Line)
    except msgspec.DecodeError as error:
        raise ValueError(str(error)) from None
    if read.distance is not None and read.a is None and read.b is None:
        if not 0.0 <= read.distance <= 2.0:
            raise ValueError(f"distance {read.distance}, which no cosine distance is")
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


def _order(value: PointId) -> tuple[bool, int, str]:
    """Numbers first, then texts: a file may hold both."""
    return (True, 0, value) if isinstance(value, str) else (False, value, "")


Counts = npt.NDArray[np.intp]

FEWEST_OF_A_KIND = 15  # copies, and other pairs: with fewer, any cut between two of them looks perfect
FEWEST_MERGED = 10  # below the cut: ten of ten have a lower bound of 0.72
_ROUNDING = 1e-9  # 0.9 x 10 must be 9
_Z = 1.959963984540054  # two-sided 95 % of the normal distribution


class CannotFitError(Exception):
    """No cut fits these labels. The text says what was seen and wanted."""


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
        raise CannotFitError(
            f"too few labelled pairs: saw {copies} copies and {others} that are none"
            f"{_gone(labelled.missing)}; wanted at least {FEWEST_OF_A_KIND} of each"
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


def _gone(missing: int) -> str:
    return f" ({missing} more name points that are gone or have no vector)" if missing else ""


def _no_cut(distances: FloatVector, right: Counts, merged: Counts, precision: float) -> str:
    best = int(np.argmax(right / merged))
    return (
        f"no cut with at least {FEWEST_MERGED} pairs reaches precision {precision:g}: "
        f"the best is {right[best] / merged[best]:.3f} at distance {distances[best]:.4f} ({merged[best]} pairs). "
        "In this collection vectors alone do not tell copies from neighbours that well"
    )
