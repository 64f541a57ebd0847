"""What the guards say of many pairs at once: which facts two texts share is a product of matrices.

The same verdicts as pair by pair (figures.py, negation.py), for pools in which hundreds of short texts lie near one another:
200 tickets that differ in their number are 20,000 pairs.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.selection.guards.figures import Figures, counted, of_kind
from vecsieve.proxy.selection.guards.negation import ALIKE, Polarity
from vecsieve.proxy.selection.steps import Steps
from vecsieve.proxy.selection.values import Indices, Veto

# Pairs, from which on each check is a step of its own: 2 to 8 ms.
STEP_PAIRS = 1 << 12

Codes = npt.NDArray[np.int8]
Mask = npt.NDArray[np.bool_]
_Sets = Sequence[AbstractSet[Hashable]]


@dataclass(frozen=True, slots=True)
class Facts:
    """What the guards read of one text."""

    figures: Figures
    polarity: Polarity


def many(said: Mapping[int, Facts | None], first: Indices, second: Indices, checks: Sequence[Veto]) -> Steps[Codes]:
    """The first of ``checks`` that applies to each pair (p,), else NONE, a check a step. ``said``: by place; None says nothing."""
    (left, rows), (right, columns) = _of(said, first), _of(said, second)
    known = (rows >= 0) & (columns >= 0)
    codes = np.zeros(len(first), np.int8)
    if not known.any():
        return codes
    found = np.zeros(int(known.sum()), np.int8)
    for number, veto in enumerate(reversed(checks)):
        if number and len(first) > STEP_PAIRS:
            yield
        found[_APPLIES[veto](left, right)[rows[known], columns[known]]] = veto
    codes[known] = found
    return codes


def _of(said: Mapping[int, Facts | None], places: Indices) -> tuple[list[Facts], Indices]:
    """The facts of these places, once each, and where in them each place's stand (p,), -1 where nothing is said."""
    found: list[Facts] = []
    different, which = np.unique(places, return_inverse=True)
    at = np.full(len(different), -1, np.intp)
    for number, place in enumerate(different.tolist()):
        facts = said[place]
        if facts is not None:
            at[number] = len(found)
            found.append(facts)
    return found, at[which]


def _shared(left: _Sets, right: _Sets) -> npt.NDArray[np.float32]:
    """How many members each two sets have in common (n, m). What only the longer list has need not be known."""
    if len(left) > len(right):
        return _shared(right, left).T
    known: dict[Hashable, int] = {}
    for each in left:
        for member in each:
            known.setdefault(member, len(known))
    sides = np.zeros((len(left), len(known)), np.float32), np.zeros((len(right), len(known)), np.float32)
    for rows, sets in zip(sides, (left, right), strict=True):
        for row, each in enumerate(sets):
            rows[row, [known[member] for member in each if member in known]] = 1.0
    product: npt.NDArray[np.float32] = sides[0] @ sides[1].T
    return product


def _sizes(left: _Sets, right: _Sets) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    sizes = [np.fromiter(map(len, sets), np.float32, len(sets)) for sets in (left, right)]
    return sizes[0][:, None], sizes[1][None, :]


def _differ(left: _Sets, right: _Sets) -> Mask:
    """Where each of the two has something that the other lacks, and neither is empty."""
    both, (mine, theirs) = _shared(left, right), _sizes(left, right)
    return (mine > 0) & (theirs > 0) & (both < mine) & (both < theirs)


def _by(kind: str) -> Callable[[Sequence[Facts], Sequence[Facts]], Mask]:
    def differ(left: Sequence[Facts], right: Sequence[Facts]) -> Mask:
        return _differ(*([counted(getattr(each.figures, kind)) for each in side] for side in (left, right)))

    return differ


def _dates_differ(left: Sequence[Facts], right: Sequence[Facts]) -> Mask:
    found = np.zeros((len(left), len(right)), np.bool_)
    for kind in sorted({fact.partition(" ")[0] for each in left for fact in each.figures.dates}):
        found |= _differ(*([counted(of_kind(each.figures.dates, kind)) for each in side] for side in (left, right)))
    return found


def _versions_differ(left: Sequence[Facts], right: Sequence[Facts]) -> Mask:
    return _by("versions")(left, right) | _named_differ(left, right) | _named_differ(right, left).T


def _named_differ(left: Sequence[Facts], right: Sequence[Facts]) -> Mask:
    """Where ``left`` names a version and ``right`` has bare numbers alone, and each lacks something of the other (n, m).

    Of the bare numbers those count that are no number of the other. So they hold all versions if they hold the versions
    together with the numbers of the same spelling, and they are all versions if versions and numbers together hold them.
    """
    if not any(each.figures.versions for each in left) or all(each.figures.versions for each in right):
        return np.zeros((len(left), len(right)), np.bool_)
    bare = [counted(() if each.figures.versions else each.figures.numbers) for each in right]
    named, together = [], []
    for each in left:
        versions, numbers = each.figures.versions, each.figures.numbers
        named.append(counted(versions + tuple(number for number in numbers if number in versions)))
        together.append(counted(versions + numbers if versions else ()))
    (mine, theirs), held = _sizes(named, bare), _shared(together, bare)
    return (mine > 0) & (theirs > 0) & (_shared(named, bare) < mine) & (held < theirs)


def _contradict(left: Sequence[Facts], right: Sequence[Facts]) -> Mask:
    mine, theirs = ([each.polarity for each in side] for side in (left, right))
    negated = [np.array([each.negated for each in side]) for side in (mine, theirs)]
    opposite: Mask = (negated[0][:, None] != negated[1][None, :]) != (
        _leaves_out(mine, theirs) | _leaves_out(theirs, mine).T
    )
    if not opposite.any():
        return opposite
    stems = [each.stems for each in mine], [each.stems for each in theirs]
    both, (one, other) = _shared(*stems), _sizes(*stems)
    opposite &= (one == 0) | (other == 0) | (2 * both >= np.float64(ALIKE) * (one + other))
    return opposite


def _leaves_out(left: Sequence[Polarity], right: Sequence[Polarity]) -> Mask:
    """Where ``left`` has a side of which only ``right`` has the opposite (n, m)."""
    alone = [frozenset(side ^ 1 for side in each.sides if side ^ 1 not in each.sides) for each in left]
    found: Mask = _shared(alone, [each.sides for each in right]) > 0
    return found


_APPLIES: Mapping[Veto, Callable[[Sequence[Facts], Sequence[Facts]], Mask]] = {
    Veto.VERSION: _versions_differ,
    Veto.DATE: _dates_differ,
    Veto.AMOUNT: _by("amounts"),
    Veto.NUMBER: _by("numbers"),
    Veto.NEGATION: _contradict,
}
