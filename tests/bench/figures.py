"""One figure of the table: ours, the baseline of the same rounds, their ratio, and what was aimed at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from bench.stats import Spread, ratios, spread

Bound = Literal["<=", ">="]


@dataclass(frozen=True, slots=True)
class Aim:
    """A bound on the median of our own number or of the ratio."""

    of: Literal["ours", "ratio"]
    bound: Bound
    value: float

    def met_by(self, median: float) -> bool:
        """Whether the median keeps the bound."""
        return median <= self.value if self.bound == "<=" else median >= self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """``ours`` and ``baseline`` are in ``unit``; ``ratio`` is ours over baseline, taken round by round."""

    name: str
    unit: str
    ours: Spread
    against: str
    baseline: Spread
    ratio: Spread
    aims: tuple[Aim, ...] = ()
    note: str = ""

    @property
    def missed(self) -> tuple[Aim, ...]:
        """The aims that the medians do not keep."""
        medians = {"ours": self.ours.median, "ratio": self.ratio.median}
        return tuple(aim for aim in self.aims if not aim.met_by(medians[aim.of]))


@dataclass(frozen=True, slots=True)
class Sides:
    """The rounds of both sides of one figure, in the order they ran."""

    ours: Sequence[float]
    baseline: Sequence[float]


def figure(
    name: str, sides: Sides, *, unit: str, against: str, aims: tuple[Aim, ...] = (), note: str = ""
) -> Figure:  # one keyword per column of the table
    """Sum up the rounds of both sides."""
    return Figure(
        name=name,
        unit=unit,
        ours=spread(sides.ours),
        against=against,
        baseline=spread(sides.baseline),
        ratio=spread(ratios(sides.ours, sides.baseline)),
        aims=aims,
        note=note,
    )
