"""The largest cut that is right often enough on labelled pairs, and how sure one may be of it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.jobs.calibrate.labels import Labelled
from vecsieve.proxy.selection.values import FloatVector

Counts = npt.NDArray[np.intp]

FEWEST_OF_A_KIND = 15  # copies, and pairs that are none: with fewer any cut between two of them looks perfect
FEWEST_MERGED = 10  # below the cut: ten of ten right leave a lower bound of 0.72
_ROUNDING = 1e-9  # 0.9 x 10 must be 9
_Z = 1.959963984540054  # two-sided 95 % of the normal distribution


class CannotFit(Exception):  # noqa: N818 - says what is the matter with the labels, not with the program
    """No cut can be had from these labels. The text says what was seen and what was wanted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fit:
    """``merged``: labelled pairs at or below ``cut``; ``right``: those of them that are copies.

    ``precision`` is their ratio, ``lower_bound`` its Wilson lower bound at 95 %. ``recall``: share of all labelled
    copies at or below the cut.
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
    """The largest distance of a copy such that at least ``precision`` of the pairs up to it are copies. Raises CannotFit."""
    copies = int(labelled.copies.sum())
    others = len(labelled.copies) - copies
    if min(copies, others) < FEWEST_OF_A_KIND:
        raise CannotFit(
            f"too few labelled pairs: saw {copies} copies and {others} that are none"
            f"{_gone(labelled.missing)}; wanted at least {FEWEST_OF_A_KIND} of each"
        )
    # Only a copy's distance is a place to cut: to end on a pair that is none would let it in and find nothing by it. The
    # pairs up to a place are all at most that far apart, as a cut merges equal distances together.
    distances = np.unique(labelled.distances[labelled.copies])
    merged = np.searchsorted(np.sort(labelled.distances), distances, side="right")
    right = np.searchsorted(np.sort(labelled.distances[labelled.copies]), distances, side="right")
    enough = merged >= FEWEST_MERGED
    distances, merged, right = distances[enough], merged[enough], right[enough]
    good = np.flatnonzero(right >= precision * merged - _ROUNDING)
    if not len(good):
        raise CannotFit(_no_cut(distances, right, merged, precision))
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
    """Lower end of the 95 % interval of a share (Wilson 1927), which holds up at few trials and shares near one."""
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
