"""The diversifiers of the optional library pyversity: MSD, COVER and SSD.

The library is called with its own defaults, so its documentation applies here. Rows are scaled to unit length first, because the library's
own scaling overflows on components near the end of float32's range. An unusable row becomes zero, which the library treats as unlike
everything, as MMR and DPP do. Candidates that it leaves out are appended by rank, so the page is full.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import partial

import numpy as np

from ..geometry import rows_of
from ..values import FloatMatrix, FloatVector, Indices
from .choice import Choice


class Method(StrEnum):
    """The library's name of a strategy, and the settings'."""

    MSD = "msd"
    COVER = "cover"
    SSD = "ssd"


@dataclass(frozen=True, slots=True)
class External:
    """``diversity``: 0.0 = relevance only, 1.0 = diversity only."""

    method: Method
    diversity: float

    def pick(self, choice: Choice, count: int) -> Indices:
        """See Diversifier."""
        gains = choice.scaled_gains(self.diversity)
        return external(gains, choice.vectors(), method=self.method, diversity=self.diversity, count=count)


DIVERSIFIERS = {method.value: partial(External, method) for method in Method}


def external(gains: FloatVector, vectors: FloatMatrix, *, method: Method, diversity: float, count: int) -> Indices:
    """``count`` picks (all, if there are fewer), as indices in pick order; ties go to the lower index.

    At diversity 0 the library is not called, because its sort by relevance is not stable.

    ``gains``: (m,) finite, scaled to [0, 1], higher is more relevant. ``vectors``: (m, d). Raises ModuleNotFoundError if the library is
    missing.
    """
    count = min(count, len(gains))
    by_relevance = np.argsort(-gains, kind="stable").astype(np.intp, copy=False)
    if diversity == 0.0 or not count:
        return by_relevance[:count]
    from pyversity import diversify  # optional

    result = diversify(_unit(vectors), gains, count, strategy=method.value, diversity=diversity)
    picks = result.indices.astype(np.intp)
    rest = by_relevance[~np.isin(by_relevance, picks)]
    return np.concatenate((picks, rest))[:count]


def _unit(vectors: FloatMatrix) -> FloatMatrix:
    """Rows of length one, zero if not usable (m, d)."""
    rows = rows_of(vectors)
    unit = np.zeros_like(rows.values)
    unit[rows.usable] = rows.values[rows.usable] / np.sqrt(rows.squares[rows.usable])[:, None]
    return unit
