"""Which points say all of others, and the families that follow: for a sweep, which deletes, and for an analysis, which counts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from ...runtime.files import progress_bar
from ...selection.geometry import Mask
from ...selection.values import FloatMatrix, Indices
from ..pairs.store import Candidates, Places, Store
from .judging import Judged, Order, heads_of, judged


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverings:
    """``pairs``: (q, 2) places of points and of points that contain them; of each pair the ``evidence`` (q,), whether the facts agree (``agrees``, q), the
    ``similarities`` (q,) of the vectors, NaN without both, and the ``sizes`` (q, 2) of the texts in tokens.
    """

    pairs: npt.NDArray[np.int32]
    evidence: npt.NDArray[np.int8]
    agrees: Mask
    similarities: FloatMatrix
    sizes: npt.NDArray[np.int32]

    @classmethod
    def of(cls, parts: Sequence[Coverings]) -> Coverings:
        """All of them, each pair once."""
        all_of = {
            field.name: np.concatenate([getattr(part, field.name) for part in (_NONE, *parts)]) for field in fields(cls)
        }
        _, first = np.unique(all_of["pairs"], axis=0, return_index=True)
        return cls(**{name: values[first] for name, values in all_of.items()})


_NONE = Coverings(
    pairs=np.empty((0, 2), np.int32),
    evidence=np.empty(0, np.int8),
    agrees=np.empty(0, np.bool_),
    similarities=np.empty(0, np.float32),
    sizes=np.empty((0, 2), np.int32),
)


def coverings(
    pairs: Places | npt.NDArray[np.int32],
    rows: Indices,
    verdicts: Judged,
    agree: Callable[[int, int], bool] | None = None,
) -> Coverings:
    """``pairs``: (p, 2) places, as ``rows`` of the texts that were judged. ``agree``: whether the facts of two rows do; None: facts do not count."""
    parts = []
    for side in (0, 1):
        which, ends = np.flatnonzero(verdicts.holds[:, side]), [1 - side, side]
        sides = rows[which][:, ends]
        agrees = [True if agree is None else agree(*pair) for pair in sides.tolist()]
        parts.append(
            Coverings(
                pairs=pairs[which][:, ends].astype(np.int32),
                evidence=verdicts.evidence[which],
                agrees=np.array(agrees, np.bool_),
                similarities=verdicts.similarities[which],
                sizes=verdicts.sizes[sides].astype(np.int32),
            )
        )
    return Coverings.of(parts)


def compared(store: Store, of: Callable[[Candidates, Judged], Coverings], *, magnitude: bool) -> Coverings:
    """What all candidates of the store show. ``of``: what those of a part do."""
    parts: list[Coverings] = []
    with progress_bar("comparing candidates", store.pairs()) as advance:
        for part in store.candidates(store.stored()):
            verdicts = judged(part.rows, part.vectors, part.has_vector, part.texts, part.of_text, magnitude=magnitude)
            parts.append(of(part, verdicts))
            advance(len(part.pairs))
    return Coverings.of(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class Families:
    """Of n points the ``heads`` (n,), itself for a leader and for a point that nothing repeats, and the first of its equals (``firsts``, n)."""

    heads: Indices
    firsts: Indices

    @property
    def leaving(self) -> Mask:
        """(n,) who is no leader."""
        mask: Mask = self.heads != np.arange(len(self.heads))
        return mask


def families(pairs: Coverings, which: Mask, firsts: Indices, rank: npt.NDArray[np.float64]) -> Families:
    """``which``: (q,) of the pairs that count. ``firsts``: (n,) the first of a point's equals. ``rank``: (n,) as of Order."""
    between = firsts[pairs.pairs]  # equals are one point: a copy of one of them is a copy of all
    counts = which & (between[:, 0] != between[:, 1])
    sizes = np.zeros(len(firsts), np.intp)
    np.maximum.at(sizes, between, pairs.sizes)
    strength = -pairs.evidence[counts].astype(np.float32)
    heads = heads_of(between[counts], strength, Order(sizes=sizes, rank=rank))
    return Families(heads=heads[firsts], firsts=firsts)


def strongest(pairs: Coverings, family: Families, places: Indices) -> Indices:
    """For each of the ``places`` (g,) the number of the pair with the strongest evidence that its head, which is not its equal, says all of it."""
    n = np.int64(len(family.heads))
    between = family.firsts[pairs.pairs]
    keys = between[:, 0] * n + between[:, 1]
    by_key = np.lexsort((pairs.evidence, keys))
    return by_key[np.searchsorted(keys[by_key], family.firsts[places] * n + family.heads[places])]
