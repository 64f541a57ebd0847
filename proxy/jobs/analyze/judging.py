"""From what was gathered to what it says: shares, families by size, the curve over the cuts. Pure."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from vecsieve.proxy.jobs.analyze.density import CUTS, Density, density, exact, near, redundant
from vecsieve.proxy.jobs.analyze.families import saturated
from vecsieve.proxy.jobs.analyze.gathered import Gathered
from vecsieve.proxy.jobs.analyze.report import Families, Family, Share, Sizes
from vecsieve.proxy.selection.values import Indices

SIZES = ((2, 2), (3, 3), (4, 4), (5, 5), (6, 10), (11, 20), (21, 50), (51, 100), (101, None))


def exact_share(gathered: Gathered, firsts: Indices) -> Share:
    """Copies by equal text, or equal vector where there is no text."""
    return Share(with_copy=int(exact(gathered, firsts).sum()), redundant=redundant(firsts) if gathered.whole else None)


def near_share(gathered: Gathered, firsts: Indices, heads: Indices, cut: float) -> Share:
    """Copies by the cut, the exact ones among them."""
    return Share(
        with_copy=int(near(gathered, firsts, cut).sum()), redundant=redundant(heads) if gathered.whole else None
    )


def families_found(gathered: Gathered, heads: Indices, cut: float, examples: Iterable[Family]) -> Families:
    """The families by size. ``heads``: (n,) leaders."""
    sizes = np.bincount(heads, minlength=len(heads))
    sizes = sizes[sizes > 1]
    return Families(
        count=len(sizes),
        largest=int(sizes.max(initial=0)),
        saturated=saturated(gathered, cut),
        sizes=tuple(_between(sizes, smallest, largest) for smallest, largest in SIZES),
        examples=tuple(examples),
    )


def curve(gathered: Gathered, firsts: Indices, cuts: Iterable[float | None]) -> tuple[Density, ...]:
    """The density at the usual cuts and at ``cuts``, rising, each once."""
    chosen = sorted({*CUTS, *(cut for cut in cuts if cut is not None)})
    return tuple(density(gathered, firsts, cut) for cut in chosen)


def _between(sizes: Indices, smallest: int, largest: int | None) -> Sizes:
    chosen = sizes[(sizes >= smallest) & (sizes <= (np.inf if largest is None else largest))]
    return Sizes(smallest=smallest, largest=largest, families=len(chosen), points=int(chosen.sum()))
