"""Interleaving: A B A B, so that a neighbour's burst or a clock change hits both sides of a comparison."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

Outcome = TypeVar("Outcome")
Turns = Iterator[int]
"""Where each round of a script begins, so that no round asks the same first."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How long to look. ``seconds`` is one round of one side."""

    rounds: int
    seconds: float
    upload_rounds: int
    kernel_rounds: int


FULL = Effort(rounds=5, seconds=2, upload_rounds=5, kernel_rounds=25)
QUICK = Effort(rounds=3, seconds=1, upload_rounds=2, kernel_rounds=9)


def turns() -> Turns:
    """Steps that share no divisor with any number of questions."""
    return itertools.count(0, 37)


def interleave(sides: Mapping[str, Callable[[], Outcome]], *, rounds: int) -> dict[str, list[Outcome]]:
    """Run every side once per round, in the given order; the outcomes per side, in order."""
    outcomes: dict[str, list[Outcome]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, run in sides.items():
            outcomes[name].append(run())
    return outcomes
