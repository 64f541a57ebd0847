"""Text evidence for pairs of candidates, combined with their distances.

Copies by text are at distance 0. Pairs that must not share a cluster are infinitely far apart. Every other pair has the distance of its
vectors, or the doubt of the calibrated rule.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ..certainty import SHIPPED, ByChance, by_vectors, judged
from ..geometry import Mask, ahead
from ..policy import Caps, Certain, Policy, Strategy, TextRules
from ..values import FloatMatrix, Indices, Link, Steps
from .bounds import STEP_PAIRS
from .matching import equal, matches
from .reading import Texts
from .seams import overlaps

# The distance of a pair that vectors cannot compare. It is above any distance (distances.FARTHEST) and any cut, but finite: such a pair may
# still share a cluster.
UNKNOWN = np.float32(1e9)

# numpy takes an IntEnum for a number only after many attribute lookups.
_SPAN, _SEAM = np.int8(Link.SPAN), np.int8(Link.SEAM)
_NONE, _IDENTICAL, _CONTAINMENT = np.int8(Link.NONE), np.int8(Link.IDENTICAL), np.int8(Link.CONTAINMENT)

Codes = npt.NDArray[np.int8]

ANY = ByChance(math.inf, math.inf)


@dataclass(frozen=True, slots=True)
class Evidence:
    """``distance``: (n, m) float32, for clustering. ``links``: (n, m) Link, by texts only. ``similarities``: (n, m)."""

    distance: FloatMatrix
    links: Codes
    similarities: FloatMatrix


def weigh(
    distance: FloatMatrix,
    texts: Texts,
    rows: Indices,
    columns: Indices,
    *,
    policy: Policy,
    typical: float,
    by_chance: ByChance = ANY,
) -> Steps[Evidence]:
    """Combine text evidence with the ``distance`` (n, m) of candidates ``rows`` to candidates ``columns``.

    Infinite distances of missing vectors must be replaced before, to tell them from forbidden pairs: see ``opened``. ``typical``: the
    pool's typical distance. ``by_chance``: for its pairs. Under the calibrated rule the result is a doubt, 1 - probability, instead of a
    distance.
    """
    rules = policy.text
    assert rules is not None  # noqa: S101 - or no text would have been read
    yield from texts.reading(rows.tolist() if rows is columns else np.union1d(rows, columns).tolist())
    are_many = len(rows) * len(columns) > STEP_PAIRS
    if are_many:
        yield
    overlap = None if rules.stitch is None else (yield from overlaps(texts, rows, columns))
    also = None if overlap is None else overlap.shares >= np.float32(rules.stitch or 0.0)
    pairs = _near(distance, rows, columns, math.inf if rules.reach is None else rules.reach * typical, also)
    links, similarities = yield from _by_text(texts, pairs, rules)
    if overlap is not None and also is not None:
        stitched = (also.reshape(-1).take(pairs.places) & (links != _IDENTICAL)).nonzero()[0]
        places = pairs.places.take(stitched)
        links[stitched] = np.where(overlap.by_spans.reshape(-1).take(places), _SPAN, _SEAM)
        similarities[stitched] = overlap.shares.reshape(-1).take(places)
    if not isinstance(policy.threshold, Certain):
        return pairs.evidence(pairs.laid(distance.copy(), np.float32(0.0), links.nonzero()[0]), links, similarities)
    if are_many:
        yield
    unit = typical or 1.0
    near = by_chance.at(pairs.places).per(unit)
    doubt = yield from _doubted(pairs, texts, links, similarities, policy, typical=unit, by_chance=near)
    doubts = np.ones(distance.shape, np.float32)
    is_forbidden = np.isinf(distance)
    if np.count_nonzero(is_forbidden):  # a third of the time of any()
        doubts[is_forbidden] = np.inf
    less = (doubt < 1.0).nonzero()[0]
    return pairs.evidence(pairs.laid(doubts, doubt.take(less), less), links, similarities)


def _doubted(
    pairs: _Pairs,
    texts: Texts,
    links: Codes,
    similarities: FloatMatrix,
    policy: Policy,
    *,
    typical: float,
    by_chance: ByChance,
) -> Steps[FloatMatrix]:
    """The doubt of each pair (p,) under the calibrated rule, 0 if texts alone link it already. Pairs in which one text contains the other
    are added to ``links`` and ``similarities``. ``by_chance``: for these pairs, as shares of the typical distance.
    """
    assert isinstance(policy.threshold, Certain)  # noqa: S101 - nobody else asks
    relative = pairs.apart if typical == 1.0 else pairs.apart / np.float32(typical)
    is_unknown = pairs.apart == UNKNOWN
    if np.count_nonzero(is_unknown):
        relative = np.where(is_unknown, np.float32(1.0), relative)
    doubt = np.zeros(len(links), np.float32)
    open_pairs = (links == _NONE).nonzero()[0] if np.count_nonzero(links) else slice(None)
    found, is_contained = yield from judged(
        relative[open_pairs].astype(np.float64),
        texts,
        pairs.first[open_pairs],
        pairs.second[open_pairs],
        by_chance=by_chance.at(open_pairs),
        rule=policy.threshold,
        bounded=policy.representative is Strategy.RANK and counts_clusters_alone(policy.caps),
    )
    doubt[open_pairs] = found
    if np.count_nonzero(is_contained):
        places = is_contained.nonzero()[0]
        contained = places if isinstance(open_pairs, slice) else open_pairs[places]
        links[contained] = _CONTAINMENT
        similarities[contained] = np.float32(1.0) - doubt[contained]
    return doubt


def counts_clusters_alone(caps: Caps) -> bool:
    """Whether documents and sources may have any number of results."""
    return caps.per_document is None and caps.per_source is None


def _by_text(texts: Texts, pairs: _Pairs, rules: TextRules) -> Steps[tuple[Codes, FloatMatrix]]:
    """The Link of each pair (p,) by texts alone, and its similarity, NaN without a link."""
    if rules.near or (texts.documents is not None and texts.spans is not None):
        each = np.arange(len(pairs.first), dtype=np.intp)
        compared = pairs.laid(np.zeros(pairs.shape, np.bool_), True, each)
        found = yield from matches(texts, pairs.rows, pairs.columns, compared, rules)
        return found.links.ravel()[pairs.places], found.similarities.ravel()[pairs.places]
    links, similarities = np.zeros(len(pairs.first), np.int8), np.full(len(pairs.first), np.nan, np.float32)
    if rules.identical and texts.has_equal:
        same = equal(texts, pairs.first, pairs.second).nonzero()[0]
        links[same], similarities[same] = _IDENTICAL, 1.0
    return links, similarities


@dataclass(frozen=True, slots=True)
class _Pairs:
    """p pairs of candidates ``rows`` (n,) and ``columns`` (m,), each once: ``first`` and ``second`` (p,).

    ``apart``: their distances. ``places``: their places in a flattened matrix (n, m). ``mirrored``: the places with rows and columns
    exchanged, None if rows are not columns.
    """

    rows: Indices
    columns: Indices
    first: Indices
    second: Indices
    apart: FloatMatrix
    places: Indices
    mirrored: Indices | None

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.rows), len(self.columns)

    def laid(self, matrix: npt.NDArray[Any], values: Any, among: Indices) -> npt.NDArray[Any]:
        """``matrix`` (n, m) with the ``values`` of the pairs ``among`` these set."""
        flat = matrix.reshape(-1)
        for places in (self.places,) if self.mirrored is None else (self.places, self.mirrored):
            flat[places.take(among)] = values
        return matrix

    def evidence(self, distance: FloatMatrix, links: Codes, similarities: FloatMatrix) -> Evidence:
        """The values (p,) of the linked pairs, as matrices."""
        linked = links.nonzero()[0]
        found = Evidence(distance, np.zeros(self.shape, np.int8), np.full(self.shape, np.nan, np.float32))
        if len(linked):
            self.laid(found.links, links.take(linked), linked)
            self.laid(found.similarities, similarities.take(linked), linked)
        return found


def _near(distance: FloatMatrix, rows: Indices, columns: Indices, reach: float, also: Mask | None = None) -> _Pairs:
    """The pairs within ``reach``, those of unknown distance, and those in ``also`` (n, m), without forbidden pairs and without a candidate
    and itself.
    """
    is_square = rows is columns or np.array_equal(rows, columns)
    if is_square:
        row, column, places, mirrored = ahead(len(rows))
    else:
        places = mirrored = np.arange(distance.size, dtype=np.intp)
        row, column = np.divmod(places, max(len(columns), 1))
    apart = distance.reshape(-1).take(places)
    near = apart <= min(reach, float(UNKNOWN))
    near |= apart == UNKNOWN
    if also is not None:
        near |= also.reshape(-1).take(places) & ~np.isinf(apart)
    if not is_square:
        near &= rows[row] != columns[column]
    chosen = near.nonzero()[0]
    return _Pairs(
        rows,
        columns,
        rows.take(row.take(chosen)),
        columns.take(column.take(chosen)),
        apart.take(chosen),
        places.take(chosen),
        mirrored.take(chosen) if is_square else None,
    )


def by_vectors_alone(distance: FloatMatrix, policy: Policy, *, typical: float, by_chance: ByChance) -> FloatMatrix:
    """The matrix to cluster when no text is read: the distance (n, m), or under the calibrated rule the doubt."""
    if not isinstance(policy.threshold, Certain):
        return distance
    unit = typical or 1.0
    return by_vectors(distance / np.float32(unit), by_chance.per(unit).bare, policy.threshold.model or SHIPPED)


def opened(distance: FloatMatrix) -> FloatMatrix:
    """The distance with UNKNOWN instead of infinity, so that texts can decide pairs that vectors cannot compare."""
    if np.count_nonzero(np.isfinite(distance)) == distance.size:
        return distance
    return np.where(np.isinf(distance), UNKNOWN, distance)


def is_reached(distance: FloatMatrix, reach: float) -> bool:
    """Whether any pair of a square ``distance`` is within ``reach``, or cannot be compared by vectors."""
    near = distance <= reach
    if np.count_nonzero(near) <= len(distance):  # the diagonal is always within reach
        near |= (distance == UNKNOWN) | np.isinf(distance)
    return int(np.count_nonzero(near)) > len(distance)
