"""How many points have a copy, at one cut or another: the curve that says how much hangs on the choice of the cut."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from vecsieve.proxy.jobs.analyze.families import leaders
from vecsieve.proxy.jobs.analyze.gathered import Gathered
from vecsieve.proxy.selection.geometry import NOISE, Mask
from vecsieve.proxy.selection.values import Indices

CUTS = (0.01, 0.02, 0.05, 0.08, 0.10, 0.15, 0.20, 0.25, 0.30)


@dataclass(frozen=True, slots=True, kw_only=True)
class Density:
    """One point of the curve. ``with_copy``: points looked at that have another within the cut.

    ``redundant``: those that could go if every family kept one; None for a sample, where families are not whole.
    """

    cut: float
    with_copy: int
    redundant: int | None


def density(gathered: Gathered, firsts: Indices, cut: float) -> Density:
    """The curve at one cut. ``firsts``: as families.first_copies gives it."""
    return Density(
        cut=cut,
        with_copy=int(near(gathered, firsts, cut).sum()),
        redundant=redundant(leaders(gathered, firsts, cut)) if gathered.whole else None,
    )


def near(gathered: Gathered, firsts: Indices, cut: float) -> Mask:
    """Which of the m points looked at have a copy: another within the cut, or one of the same text."""
    within: Mask = gathered.distances[:, 0] <= cut + NOISE
    return within | exact(gathered, firsts)


def exact(gathered: Gathered, firsts: Indices) -> Mask:
    """Which of the m points looked at have an exact copy."""
    sizes = np.bincount(firsts, minlength=len(firsts))
    many: Mask = sizes[firsts[gathered.looked]] > 1
    return many


def redundant(heads: Indices) -> int:
    """How many points are not the one their family keeps."""
    return int((heads != np.arange(len(heads))).sum())
