"""Finds the points of a write that are copies of stored points or of earlier points of the write.

A point is compared with its neighbours from the database and with earlier points. It is an exact copy if one of them contains its text (holding.py);
without texts, if their vectors are equal. Other tiers are vector similarities: counted, never left out. A copy is never an original; stored copies have
a note. So no chain A~B~C joins A and C, and an original that is stored anew is no copy of its copy. A point with the id of another point replaces it
and is no copy of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from vecsieve.adapters.base import NOTE
from vecsieve.adapters.contract import Pool
from vecsieve.adapters.writes import Neighbours, NewPoints, Tenant
from vecsieve.config.policy import CHANGING

from ..search.candidates import Record, records_of
from ..search.collections.paths import read_pool
from ..search.policy import Fields, ResolvedPolicy
from ..search.policy import keys_of as payload_keys
from ..selection.distances import EQUAL
from ..selection.geometry import Rows, across, rows_of
from ..selection.values import Link, Steps
from ..telemetry.labels import WriteTier
from .holding import Holder

# Points whose texts are read together. The bound of a pool applies to them, not to the whole write.
READ_POINTS = 32
# Earlier points of a write that are compared with one. Points of one text can differ in their facts, and each may be the original.
EARLIER = 32
# Points whose similarities to all points before them are computed together: 2,048 of 1,536 dimensions take 15 ms.
BLOCK_POINTS = 128

Similarities = npt.NDArray[np.float32]


class Verdict(NamedTuple):
    """``of``: the id of the original, None for a point that is no copy. ``similarity``: to it, else to the most similar
    candidate, 0.0 without any. ``tier``: of that pair. ``nearest``: the id of that candidate; ``is_equal``: whether the texts are equal, read
    exactly. ``holders``: the ids of all points that contain its text, stored or of the same write, the most similar first.
    """

    tier: WriteTier
    similarity: float = 0.0
    of: bytes | None = None
    nearest: bytes | None = None
    is_equal: bool = False
    holders: tuple[bytes, ...] = ()


class _Candidate(NamedTuple):
    """A point that another may be a copy of. ``place``: in ``_Judge.records``. ``is_original``: whether it is no copy itself."""

    similarity: float
    id: bytes
    place: int
    is_original: bool = True


class _Pair(NamedTuple):
    """A candidate, the tier of the pair, and why the candidate holds the point."""

    tier: WriteTier
    candidate: _Candidate
    link: Link


def judge(
    points: NewPoints, near: Neighbours, policy: ResolvedPolicy, *, is_cosine: bool
) -> Steps[tuple[list[Verdict], tuple[str, ...]]]:
    """One verdict for each point, in steps, and the paths of the texts that were compared. ``is_cosine``: whether the neighbours' scores are cosine
    similarities; else their vectors are compared, length included.
    """
    judging = _Judge(points, near, policy, is_cosine=is_cosine)
    verdicts: list[Verdict] = []
    for start in range(0, len(points.ids), BLOCK_POINTS):
        earlier = judging.similarities(start, start + BLOCK_POINTS)
        # Most points have no near points: they are unique without a closer look. Only earlier points count.
        is_near = np.asarray(np.tril(earlier >= policy.write.related, start - 1).any(axis=1), np.bool_)
        if len(earlier) > READ_POINTS:
            yield  # of fewer points it takes less than a turn of the loop
        for row, similarities in enumerate(earlier, start):
            if not (is_near[row - start] or row in judging.neighbours):
                verdicts.append(judging.unique(row))
                continue
            yield  # reading its texts and those of its neighbours usually takes a millisecond
            verdicts.append(judging.verdict(row, similarities))
    return verdicts, judging.paths


class _Judge:
    """The texts and tenants of the points come first, those of the neighbours behind them."""

    def __init__(self, points: NewPoints, near: Neighbours, policy: ResolvedPolicy, *, is_cosine: bool) -> None:
        self.points = points
        self.near = near
        self.policy = policy
        self.settings = policy.write
        self._is_changing = policy.write.mode in CHANGING
        self.is_cosine = is_cosine
        self._originals = np.zeros(len(points.ids), np.bool_)
        last = {identifier: row for row, identifier in enumerate(points.ids)}
        # Whether no later point of the same id replaces the point.
        self._stays = [last[identifier] == row for row, identifier in enumerate(points.ids)]
        self._ids = frozenset(last)
        self._holders: dict[int, Holder] = {}
        self.paths: tuple[str, ...] = ()
        keys = policy.tenant_keys
        self._tenants = [tenant_of(keys, fields) for fields in (*points.fields, *near.fields)]

    @cached_property
    def _rows(self) -> Rows:
        return rows_of(self.points.vectors)

    @cached_property
    def records(self) -> list[Record]:
        """Of the points, then of the neighbours."""
        fields = fields_of(self.policy.fields)
        texts = self._texts() if fields.guesses else ()
        self.paths = (*fields.text, *texts)
        payloads = [row[:-1] for row in (*self.points.fields, *self.near.fields)]
        pool_records: list[Record] = []
        for start in range(0, len(payloads), READ_POINTS):
            part = payloads[start : start + READ_POINTS]
            pool = Pool(scores=np.zeros(len(part)), vectors=np.empty((len(part), 0), np.float32), fields=tuple(part))
            pool_records += records_of(pool, tenant_keys=self.policy.tenant_keys, fields=fields, texts=texts)
        return pool_records

    def _texts(self) -> tuple[str, ...]:
        """The paths of the texts, read from the points and their neighbours if searches have not shown them."""
        near, vectors = self.near, self.points.vectors
        rows = np.full((len(near.ids), vectors.shape[1]), np.nan, np.float32)
        if near.vectors.shape == rows.shape:
            rows = near.vectors
        payloads = tuple([row[:-1] for row in (*self.points.fields, *near.fields)])
        pool = Pool(scores=np.zeros(len(payloads)), vectors=np.concatenate((vectors, rows)), fields=payloads)
        return read_pool(pool, keys_of(self.policy)[:-1]).paths

    def similarities(self, start: int, end: int) -> Similarities:
        """Of the points from ``start`` to ``end`` to all points before ``end`` (b, end); -inf where one has no vector."""
        end = min(end, len(self.points.ids))
        rows = self._rows
        distance = across(rows.at(slice(start, end)), rows.at(slice(0, end)), magnitude=not self.is_cosine)
        return np.subtract(np.float32(1.0), distance)

    @cached_property
    def neighbours(self) -> dict[int, list[_Candidate]]:
        """By point, the neighbours that may be its originals, the most similar first."""
        candidates: dict[int, list[_Candidate]] = {}
        for place, (row, identifier, similarity) in enumerate(
            zip(self.near.of.tolist(), self.near.ids, self._near_similarities().tolist(), strict=True)
        ):
            is_original = identifier not in self._ids and self.near.fields[place][-1] is None
            if is_original and similarity >= self.settings.related:
                candidates.setdefault(row, []).append(_Candidate(similarity, identifier, len(self.points.ids) + place))
        return candidates

    def _near_similarities(self) -> npt.NDArray[np.float64]:
        """Of each neighbour to its point (m,); -inf without a usable vector."""
        near = self.near
        if self.is_cosine:
            usable = self._rows.usable[near.of]
            return np.where(np.isfinite(near.scores) & usable, np.minimum(near.scores, 1.0), -np.inf)
        if near.vectors.shape[1] != self.points.vectors.shape[1]:
            return np.full(len(near.ids), -np.inf)
        theirs = rows_of(near.vectors)
        similarities = np.empty(len(near.ids))
        for row in np.unique(near.of).tolist():
            places = np.flatnonzero(near.of == row)
            similarities[places] = 1.0 - across(self._rows.at(np.array([row])), theirs.at(places), magnitude=True)[0]
        return similarities

    def unique(self, row: int) -> Verdict:
        """Of a point without near points."""
        self._originals[row] = self._stays[row]
        return Verdict(WriteTier.UNIQUE)

    def verdict(self, row: int, earlier: Similarities) -> Verdict:
        """``earlier``: similarities to all points up to the block's end (e,)."""
        tenant = self._tenants[row]
        candidates = [] if tenant is None else [*self.neighbours.get(row, ()), *self._before(row, earlier)]
        pairs = [self._pair(row, candidate) for candidate in candidates if self._tenants[candidate.place] == tenant]
        pairs.sort(key=lambda pair: (_ORDER[pair.tier], -pair.candidate.similarity))
        verdict = self._decided(pairs)
        self._originals[row] = self._stays[row] and verdict.of is None
        return verdict

    def _decided(self, pairs: Sequence[_Pair]) -> Verdict:
        """``pairs``: by tier, then similarity."""
        least = WriteTier.EXACT if self._is_changing else WriteTier(self.settings.least)
        counting = (pair for pair in pairs if pair.candidate.is_original and _ORDER[pair.tier] <= _ORDER[least])
        copied = next(counting, None)
        nearest = copied or next((pair for pair in pairs if pair.candidate.is_original), None)
        if nearest is None:
            return Verdict(WriteTier.UNIQUE)
        return Verdict(
            nearest.tier,
            nearest.candidate.similarity,
            None if copied is None else copied.candidate.id,
            nearest=nearest.candidate.id,
            is_equal=nearest.link is Link.EQUAL,
            holders=tuple(pair.candidate.id for pair in pairs if pair.tier is WriteTier.EXACT),
        )

    def _before(self, row: int, earlier: Similarities) -> list[_Candidate]:
        """Earlier points of the write, the most similar first; among equal ones the earliest."""
        counts = np.array(self._stays[:row], np.bool_) if self._is_changing else self._originals[:row]
        places = np.flatnonzero(counts & (earlier[:row] >= self.settings.related))
        best = places[np.argsort(-earlier[places], kind="stable")[:EARLIER]]
        return [
            _Candidate(float(earlier[place]), self.points.ids[place], place, bool(self._originals[place]))
            for place in best.tolist()
            if self.points.ids[place] != self.points.ids[row]
        ]

    def _pair(self, row: int, candidate: _Candidate) -> _Pair:
        """Of a candidate that is at least related."""
        link = self._link(row, candidate.place)
        if link is not Link.NONE:
            return _Pair(WriteTier.EXACT, candidate, link)
        is_near = candidate.similarity >= self.settings.semantic
        return _Pair(WriteTier.SEMANTIC if is_near else WriteTier.RELATED, candidate, link)

    def _link(self, row: int, place: int) -> Link:
        """How the other point contains this one; NONE if it does not, or if only one of them has a text."""
        mine, theirs = self.records[row], self.records[place]
        if mine.text is None or theirs.text is None:
            is_bare = self._is_bare(row) and self._is_bare(place)
            return Link.DISTANCE if is_bare and self._is_same(row, place) else Link.NONE
        holder = self._holders.get(place)
        if holder is None:
            holder = self._holders[place] = Holder(theirs.text)
        return holder.link(mine.text)

    def _is_bare(self, place: int) -> bool:
        """Whether a point has no text, not even one that is too long to read."""
        return self.policy.selection.texts is None or not self.records[place].text_bytes

    def _is_same(self, row: int, place: int) -> bool:
        """Whether both vectors are equal up to rounding; with cosine scores their lengths do not matter."""
        count = len(self.points.ids)
        if place >= count and self.near.vectors.shape[1] != self.points.vectors.shape[1]:
            return False
        mine, theirs = (
            (self.points.vectors[at] if at < count else self.near.vectors[at - count]).astype(np.float64)
            for at in (row, place)
        )
        if self.is_cosine:
            with np.errstate(all="ignore"):
                mine, theirs = mine / np.linalg.norm(mine), theirs / np.linalg.norm(theirs)
        apart = mine - theirs
        return bool(apart @ apart <= EQUAL * (mine @ mine + theirs @ theirs))


def has_bare_points(points: NewPoints, policy: ResolvedPolicy) -> bool:
    """Whether a point of a write may have no text, so that its vector is compared with those of its neighbours."""
    keys = len(policy.tenant_keys)
    return any(all(raw is None or raw == b"null" for raw in row[keys:-1]) for row in points.fields)


def tenant_of(keys: Sequence[str], fields: Sequence[bytes | None]) -> Tenant | None:
    """The values of the tenant keys, which are the first of a point's fields, in one spelling; None where one is missing, or is neither
    text nor an integer nor a boolean: such a point is compared with none.
    """
    values: list[tuple[str, bytes]] = []
    for key, raw in zip(keys, fields, strict=False):
        try:
            value = None if raw is None else orjson.loads(raw)
        except orjson.JSONDecodeError:
            return None
        if not isinstance(value, str | int):
            return None
        values.append((key, orjson.dumps(value)))
    return tuple(values)


def keys_of(policy: ResolvedPolicy) -> tuple[str, ...]:
    """The keys that are read of each payload: the tenant's first, the note last."""
    return (*payload_keys(policy.tenant_keys, fields_of(policy.fields)), NOTE)


@lru_cache(maxsize=64)
def fields_of(fields: Fields) -> Fields:
    """The fields that are read of a payload: the texts."""
    return replace(fields, document=(), source=(), span_start=(), span_end=(), chunk_index=(), updated=(), citations=())


_ORDER = {tier: place for place, tier in enumerate(WriteTier)}
