"""Which points of a write are copies: of stored points, or of points before them in the same write.

A point is compared with its neighbours, as the database found them, and with the originals before it. It is a copy of the most similar
one that no guard keeps apart from it. Copies are never originals, stored ones neither, which their note tells: so no chain A~B~C joins
A and C, and an original that is stored anew is no copy of its own copy. A point with the id of another replaces it and is no copy of it. Guards and canonical texts are those of searches (proxy/selection).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import orjson

from vecsieve.adapters.base import NOTE
from vecsieve.adapters.contract import Pool
from vecsieve.adapters.writes import Neighbours, NewPoints, Tenant
from vecsieve.config.policy import WriteSettings

from ..search.candidates import Record, asked_for, records_of
from ..search.collections.paths import read_pool
from ..search.policy import Fields, ResolvedPolicy
from ..selection.distances import EQUAL
from ..selection.geometry import Rows, across, rows_of
from ..selection.grouping import asker
from ..selection.metric import is_unit
from ..selection.policy import Guards, TextRules
from ..selection.text.bounds import portions
from ..selection.text.features import complete
from ..selection.text.reading import read
from ..selection.values import Candidates, Metadata, Metric, Steps, Veto, finished
from ..telemetry.labels import WriteTier

# Of the payloads of so many points the texts are read together: what is read of each pool is bounded, not of each write.
READ_POINTS = 32
# Points that are judged in one step: 5 to 10 ms where each has neighbours whose texts are compared.
STEP_POINTS = 16
# Points whose similarities to all points before them are computed together: 2,048 of 1,536 dimensions take 15 ms.
BLOCK_POINTS = 128

Similarities = npt.NDArray[np.float32]


class Verdict(NamedTuple):
    """``of``: the id of the original, None of a point that counts as no copy. ``similarity``: to it, else to the most similar
    candidate, 0.0 without any. ``tier``: of that similarity. ``is_held``: whether a guard kept it from being a copy. ``nearest``: the id
    that the similarity is to; ``is_equal``: whether its canonical text is the same.
    """

    tier: WriteTier
    similarity: float = 0.0
    of: bytes | None = None
    is_held: bool = False
    nearest: bytes | None = None
    is_equal: bool = False


class _Candidate(NamedTuple):
    """A point that another may be a copy of. ``place``: in ``_Judge.records``."""

    similarity: float
    id: bytes
    place: int


def judge(points: NewPoints, near: Neighbours, policy: ResolvedPolicy, *, is_cosine: bool) -> Steps[list[Verdict]]:
    """One verdict for each point, in steps. ``is_cosine``: whether the neighbours' scores are cosine similarities; else their
    vectors are compared, length included.
    """
    judging = _Judge(points, near, policy, is_cosine=is_cosine)
    verdicts: list[Verdict] = []
    for start in range(0, len(points.ids), BLOCK_POINTS):
        earlier = judging.similarities(start, start + BLOCK_POINTS)
        # Of most points nothing is near: they are unique, and are not looked at one by one. Only earlier points count.
        is_near = np.asarray(np.tril(earlier >= policy.write.related, start - 1).any(axis=1), np.bool_)
        yield
        yield from judging.reading(start, earlier)
        for row, similarities in enumerate(earlier, start):
            if row % STEP_POINTS == 0:
                yield
            is_alone = not (is_near[row - start] or judging.has_neighbours(row))
            verdicts.append(judging.unique(row) if is_alone else judging.verdict(row, similarities))
    return verdicts


class _Judge:
    """The texts and tenants of the points come first, those of the neighbours behind them."""

    def __init__(self, points: NewPoints, near: Neighbours, policy: ResolvedPolicy, *, is_cosine: bool) -> None:
        self.points = points
        self.near = near
        self.policy = policy
        self.is_cosine = is_cosine
        self._originals = np.zeros(len(points.ids), np.bool_)
        last = {identifier: row for row, identifier in enumerate(points.ids)}
        # Whether a point is stored as it is: no later one of the same id replaces it.
        self._stays = [last[identifier] == row for row, identifier in enumerate(points.ids)]
        self._ids = frozenset(last)
        self._canonical: dict[int, str] = {}
        keys = policy.tenant_keys
        self._tenants = [tenant_of(keys, fields) for fields in (*points.fields, *near.fields)]

    @cached_property
    def settings(self) -> WriteSettings:
        return self.policy.write

    @cached_property
    def _rows(self) -> Rows:
        return rows_of(self.points.vectors)

    @cached_property
    def records(self) -> list[Record]:
        """Of the points, then of the neighbours."""
        fields = fields_of(self.policy)
        texts = self._texts() if fields.guesses else ()
        each = [row[:-1] for row in (*self.points.fields, *self.near.fields)]
        found: list[Record] = []
        for start in range(0, len(each), READ_POINTS):
            part = each[start : start + READ_POINTS]
            pool = Pool(scores=np.zeros(len(part)), vectors=np.empty((len(part), 0), np.float32), fields=tuple(part))
            found += records_of(pool, tenant_keys=self.policy.tenant_keys, fields=fields, texts=texts)
        return found

    def _texts(self) -> tuple[str, ...]:
        """Where searches have not shown yet which path has the texts, the points and their neighbours do."""
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
    def _stored(self) -> dict[int, list[_Candidate]]:
        """By point, the neighbours it may be a copy of, the most similar first."""
        found: dict[int, list[_Candidate]] = {}
        for place, (row, identifier, similarity) in enumerate(
            zip(self.near.of.tolist(), self.near.ids, self._near_similarities().tolist(), strict=True)
        ):
            is_original = identifier not in self._ids and self.near.fields[place][-1] is None
            if is_original and similarity >= self.settings.related:
                found.setdefault(row, []).append(_Candidate(similarity, identifier, len(self.points.ids) + place))
        return found

    def _near_similarities(self) -> npt.NDArray[np.float64]:
        """Of each neighbour to its point (m,); -inf where one has no usable vector."""
        near = self.near
        if self.is_cosine:
            usable = self._rows.usable[near.of]
            return np.where(np.isfinite(near.scores) & usable, np.minimum(near.scores, 1.0), -np.inf)
        if near.vectors.shape[1] != self.points.vectors.shape[1]:
            return np.full(len(near.ids), -np.inf)
        theirs = rows_of(near.vectors)
        found = np.empty(len(near.ids))
        for row in np.unique(near.of).tolist():
            places = np.flatnonzero(near.of == row)
            found[places] = 1.0 - across(self._rows.at(np.array([row])), theirs.at(places), magnitude=True)[0]
        return found

    def has_neighbours(self, row: int) -> bool:
        """Whether a stored point is at least related."""
        return row in self._stored

    def reading(self, start: int, earlier: Similarities) -> Steps[None]:
        """Read the texts that are likely to be compared, many at once: a tenth of the time of two by two. ``earlier``: (b, e) of the
        points from ``start`` on.
        """
        least = self.settings.exact if least_of(self.settings) is WriteTier.EXACT else self.settings.semantic
        later, before = np.nonzero(np.tril(earlier >= least, start - 1))
        wanted = {*(later + start).tolist(), *before.tolist()}
        for row in range(start, start + len(earlier)):
            near = [each.place for each in self._stored.get(row, ()) if each.similarity >= least]
            wanted.update((row, *near) if near else ())
        texts = [text for place in sorted(wanted) if (text := self.records[place].text) is not None]
        costs = [text.cost() for text in texts]
        for portion in portions(costs, [place for place, price in enumerate(costs) if price >= 0]):
            complete([texts[place].unwrap() for place in portion])
            yield

    def unique(self, row: int) -> Verdict:
        """Of a point that nothing is near."""
        self._originals[row] = self._stays[row]
        return Verdict(WriteTier.UNIQUE)

    def verdict(self, row: int, earlier: Similarities) -> Verdict:
        """``earlier``: similarities to all points up to the block's end (e,)."""
        candidates = sorted(
            [*self._stored.get(row, ()), *self._before(row, earlier)], key=lambda each: -each.similarity
        )
        candidates = [each for each in candidates if self._shares_tenant(row, each.place)]
        ranked = sorted(((self._tier(row, each), each) for each in candidates), key=lambda pair: _ORDER[pair[0]])
        verdict = self._first_copy(row, ranked)
        self._originals[row] = self._stays[row] and verdict.of is None
        return verdict

    def _first_copy(self, row: int, ranked: Sequence[tuple[WriteTier, _Candidate]]) -> Verdict:
        """Of the first candidate that no guard keeps apart. ``ranked``: by tier, then similarity."""
        is_held = False
        for tier, candidate in ranked:
            if _ORDER[tier] > _ORDER[least_of(self.settings)]:
                break
            if not self._is_kept_apart(row, candidate.place):
                is_equal = self._is_equal(row, candidate.place)
                return Verdict(tier, candidate.similarity, candidate.id, nearest=candidate.id, is_equal=is_equal)
            is_held = True
        if not ranked:
            return Verdict(WriteTier.UNIQUE)
        tier, candidate = ranked[0]
        is_equal = self._is_equal(row, candidate.place)
        return Verdict(tier, candidate.similarity, is_held=is_held, nearest=candidate.id, is_equal=is_equal)

    def _before(self, row: int, earlier: Similarities) -> list[_Candidate]:
        """Originals of the same write, the most similar first; the earliest of equal ones."""
        places = np.flatnonzero(self._originals[:row] & (earlier[:row] >= self.settings.related))
        if not len(places):
            return []
        best = places[np.argsort(-earlier[places], kind="stable")[: self.settings.neighbours]]
        return [
            _Candidate(float(earlier[place]), self.points.ids[place], place)
            for place in best.tolist()
            if self.points.ids[place] != self.points.ids[row]
        ]

    def _tier(self, row: int, candidate: _Candidate) -> WriteTier:
        """Of a candidate that is at least related."""
        is_near = candidate.similarity >= self.settings.exact
        if self._is_equal(row, candidate.place) or (is_near and (self._tells or self._is_same(row, candidate.place))):
            return WriteTier.EXACT
        return WriteTier.SEMANTIC if candidate.similarity >= self.settings.semantic else WriteTier.RELATED

    @cached_property
    def _tells(self) -> bool:
        """Whether similarities tell copies. Those of positions depend on where the origin lies: far from it all points are similar, as
        all places on earth by their degrees are.
        """
        return self.is_cosine or (is_unit(self.points.vectors) and is_unit(self.near.vectors))

    def _is_same(self, row: int, place: int) -> bool:
        """Whether both have the same vector, but for rounding."""
        own = len(self.points.ids)
        mine, theirs = (
            (self.points.vectors[each] if each < own else self.near.vectors[each - own]).astype(np.float64)
            for each in (row, place)
        )
        apart = mine - theirs
        return bool(apart @ apart <= EQUAL * (mine @ mine + theirs @ theirs))

    def _shares_tenant(self, row: int, place: int) -> bool:
        return self._tenants[row] is not None and self._tenants[row] == self._tenants[place]

    def _is_equal(self, row: int, place: int) -> bool:
        """Whether both have the same canonical text."""
        rules = self.policy.selection.text
        if rules is None or not rules.identical:
            return False
        mine = self._form(row)
        return bool(mine) and mine == self._form(place)

    def _form(self, place: int) -> str:
        """The canonical text; "" where there is none, or nothing that can be seen, or too much to be read."""
        found = self._canonical.get(place)
        if found is None:
            text = self.records[place].text
            is_read = text is not None and text.cost() >= 0
            found = self._canonical[place] = text.unwrap().canonical if text is not None and is_read else ""
        return found

    def _is_kept_apart(self, row: int, place: int) -> bool:
        """Whether a guard holds, or a text of the two cannot be read: it may say anything."""
        mine, theirs = self.records[row], self.records[place]
        rules = self.policy.selection.text
        if rules is not None and any(_is_unread(record) for record in (mine, theirs)):
            return True
        return kept_apart(mine, theirs, rules, self.policy.selection.guards) is not Veto.NONE


def least_of(settings: WriteSettings) -> WriteTier:
    """The tier from which a point counts as a copy."""
    if settings.least is not None:
        return WriteTier(settings.least)
    return WriteTier.EXACT if settings.changes else WriteTier.SEMANTIC


def _is_unread(record: Record) -> bool:
    if record.text is None:
        return record.text_bytes > 0
    return record.text.cost() < 0


def kept_apart(mine: Record, theirs: Record, rules: TextRules | None, guards: Guards) -> Veto:
    """The first of the guards of searches that keeps two points apart."""
    known = Metadata(
        texts=None if rules is None else (mine.text, theirs.text),
        titles=(mine.title, theirs.title),
        sources=(mine.source, theirs.source),
    )
    two = Candidates(scores=np.zeros(2), vectors=np.empty((2, 0), np.float32), metric=Metric.COSINE, metadata=known)
    ask = asker(two, guards, None if rules is None else read(known, rules, learn_from=slice(0)))
    if ask is None:
        return Veto.NONE
    first, second = np.array([0], np.intp), np.array([1], np.intp)
    return Veto(int(finished(ask(first, second))[0]))


def tenant_of(keys: Sequence[str], fields: Sequence[bytes | None]) -> Tenant | None:
    """The values of the tenant keys, which are the first of a point's fields, in one spelling; None where one is missing, or is neither
    text nor an integer nor a boolean: such a point is compared with none.
    """
    found: list[tuple[str, bytes]] = []
    for key, raw in zip(keys, fields, strict=False):
        try:
            value = None if raw is None else orjson.loads(raw)
        except orjson.JSONDecodeError:
            return None
        if not isinstance(value, str | int):
            return None
        found.append((key, orjson.dumps(value)))
    return tuple(found)


def keys_of(policy: ResolvedPolicy) -> tuple[str, ...]:
    """What is read of each payload: the tenant's keys first, the note last."""
    must, may = asked_for(policy.tenant_keys, fields_of(policy))
    return (*must, *may, NOTE)


def fields_of(policy: ResolvedPolicy) -> Fields:
    """What is read of a payload: the texts, and what guards look at."""
    is_sourced = bool(policy.selection.guards.keep_sources)
    return replace(
        policy.fields,
        document=(),
        source=policy.metadata.source if is_sourced else (),
        span_start=(),
        span_end=(),
        chunk_index=(),
        updated=(),
        citations=(),
    )


_ORDER = {tier: place for place, tier in enumerate(WriteTier)}
