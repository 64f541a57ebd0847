"""Plans for writes whose copies are not stored: the journal's rows, and the rest of the write. Pure.

A point whose id is stored, or occurs twice in the write, is an update. It is stored unchanged, because leaving it out would keep the old
content, and it replaces no other point. So if two writers store copies of each other concurrently, at most one removes the other's copy: the
one that read the database after the other's write.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from msgspec import Raw

from vecsieve.adapters.contract import Operation, Reason, UnsupportedError
from vecsieve.adapters.writes import PLAIN, LeavesPointsOut, MergesPoints, NewPoints

from ..search.collections.statements import ALL
from ..search.policy import ResolvedPolicy
from ..selection.reading.text import text_of as text_read
from ..telemetry.labels import WriteTier
from .events import EventPoint
from .facts import differing, facts_of, unites
from .holding import holds
from .judging import Verdict
from .merging import Copy, Settled, ignored_of, settled, text_of, text_path
from .rows import NO_ID, Kind, LeftOut

LISTED = 5  # copies listed in the message of a refusal


@dataclass(frozen=True, slots=True)
class Judged:
    """A write with one verdict per point. ``texts``: the paths of the texts that were compared."""

    points: NewPoints
    verdicts: Sequence[Verdict]
    texts: Sequence[str] = ()

    def notes(self) -> Mapping[int, bytes]:
        """The notes for each copy, by its place in the write."""
        return {
            row: b'{"duplicate_of":%s,"similarity":%.4f,"tier":"%s"}'
            % (verdict.of, verdict.similarity, verdict.tier.encode())
            for row, verdict in enumerate(self.verdicts)
            if verdict.of is not None
        }

    def event_points(self) -> list[EventPoint]:
        """The copies, for events."""
        return [
            _event_point(identifier, verdict.of, verdict.tier, verdict.similarity)
            for identifier, verdict in zip(self.points.ids, self.verdicts, strict=True)
            if verdict.of is not None
        ]

    def copies(self) -> list[int]:
        """The places of points whose text another point contains and whose id occurs once. Their payloads are not compared yet."""
        ids, often = self.points.ids, Counter(self.points.ids)
        return [row for row, verdict in enumerate(self.verdicts) if verdict.holders and often[ids[row]] == 1]

    def candidate_ids(self, *, is_merging: bool) -> list[bytes]:
        """The ids of the copies, and in mode merge of the points that contain them: a stored id is an update. Empty if the database creates ids."""
        if not self.points.has_ids:
            return []
        copies, members = self.copies(), frozenset(self.points.ids)
        ids = [self.points.ids[row] for row in copies]
        if is_merging:
            ids += [holder for row in copies for holder in self.verdicts[row].holders if holder in members]
        return list(dict.fromkeys(ids))

    def stored_holders(self) -> list[bytes]:
        """The ids of the stored points that contain copies."""
        members = frozenset(self.points.ids)
        holders = dict.fromkeys(holder for row in self.copies() for holder in self.verdicts[row].holders)
        return [holder for holder in holders if holder not in members]


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Stored points by their ids. ``updates``: those with ids of the write. ``holders``: complete, those that contain copies. ``unseen``: ids of the write
    whose stored contents reads may not show yet.
    """

    updates: Mapping[bytes, bytes]
    holders: Mapping[bytes, bytes]
    unseen: frozenset[bytes] = frozenset()

    def but(self, unseen: frozenset[bytes]) -> Known:
        """Without ids of which reads may show older contents: those of the write are updates, and the others are no originals."""
        holders = {holder: point for holder, point in self.holders.items() if holder not in unseen}
        return replace(self, holders=holders, unseen=unseen)

    def has(self, identifier: bytes) -> bool:
        """Whether a point of the write is an update."""
        return identifier in self.updates or identifier in self.unseen


@dataclass(frozen=True, slots=True)
class Plan:
    """``rows``: of the journal. ``body``: the rest of the write; None if nothing is left. ``removed``: stored points by their ids.
    ``left_out``: by the place of a left out point the place of its original in the write, None for a stored one; in the order of
    ``rows``. ``unheld``: the number of merged points that the collection cannot store; their copies are stored unchanged.
    """

    rows: tuple[LeftOut, ...]
    body: bytes | None
    left_out: Mapping[int, int | None]
    removed: Mapping[bytes, bytes] = field(default_factory=dict)
    unheld: int = 0


def chosen(verbs: LeavesPointsOut, judged: Judged, known: Known, policy: ResolvedPolicy) -> dict[int, bytes]:
    """By the place of a point that may be left out the id of its survivor. The survivor contains its text and its payload, except the fields that
    may differ, and is stored, or in the write and not left out. Raises UnsupportedError.
    """
    points, ignored = judged.points, ignored_of(policy)
    places = {identifier: row for row, identifier in enumerate(points.ids)}
    payloads = _Payloads(verbs, points, judged.texts, policy.tenant_keys)
    survivors: dict[int, bytes] = {}
    for row in judged.copies():
        if known.has(points.ids[row]):
            continue
        for holder in judged.verdicts[row].holders:
            at = places.get(holder)
            if at in survivors or (at is None and holder not in known.holders):
                continue  # left out itself, or no longer stored
            if at is None and not payloads.holds(row, holder, known.holders):
                continue  # changed since
            if ALL in ignored:
                survivors[row] = holder
                break
            other = payloads.of(at) if at is not None else payloads.stored(holder, known.holders)
            if not payloads.differ(payloads.of(row), other, ignored, is_united=policy.write.unites):
                survivors[row] = holder
                break
    return survivors


class _Payloads:
    """The payloads of a write and of stored points, with their facts. ``tenants``: the keys that copies share."""

    def __init__(self, verbs: LeavesPointsOut, points: NewPoints, texts: Sequence[str], tenants: Sequence[str]) -> None:
        self._verbs, self._points, self._texts, self._tenants = verbs, points, texts, tenants
        self._form = verbs.form_of(points) if isinstance(verbs, MergesPoints) else PLAIN
        self._read: dict[int | bytes, dict[str, object]] = {}

    def of(self, row: int) -> dict[str, object]:
        if row not in self._read:
            self._read[row] = self._form.payload_of(json.loads(self._verbs.point(self._points, row)))
        return self._read[row]

    def stored(self, identifier: bytes, known: Mapping[bytes, bytes]) -> dict[str, object]:
        if identifier not in self._read:
            self._read[identifier] = self._form.payload_of(json.loads(known[identifier]))
        return self._read[identifier]

    def holds(self, row: int, holder: bytes, known: Mapping[bytes, bytes]) -> bool:
        """Whether a stored point still has the tenant of a point of the write, and contains its text. The search that found it may lag behind."""
        payloads = self.of(row), self.stored(holder, known)
        one, other = ([payload.get(key) for key in self._tenants] for payload in payloads)
        if one != other:
            return False
        mine, theirs = (text_of(payload, self._texts) for payload in payloads)
        return not mine or mine == theirs or (bool(theirs) and holds(text_read(theirs), [text_read(mine)]))

    def differ(
        self, one: Mapping[str, object], other: Mapping[str, object], ignored: Sequence[str], *, is_united: bool
    ) -> bool:
        """Whether a field differs, as far as the database distinguishes values. ``other``: the stored form, if it is stored."""
        mine, theirs = (facts_of(payload, text_path(payload, self._texts)) for payload in (one, other))
        names = differing(mine, theirs, ignored)
        return any(
            not (is_united and unites(mine, theirs, name)) and not self._is_same(one, other, name.split(".", 1)[0])
            for name in names
        )

    def _is_same(self, one: Mapping[str, object], other: Mapping[str, object], key: str) -> bool:
        if key not in one or key not in other:
            return False
        payload = self._form.payload
        return self._form.same({payload: {key: other[key]}}, {payload: {key: one[key]}})


def without_copies(
    verbs: LeavesPointsOut, write: Operation, judged: Judged, known: Known, policy: ResolvedPolicy
) -> Plan:
    """Leave out all copies. Raises UnsupportedError."""
    points = judged.points
    copies = chosen(verbs, judged, known, policy)
    places = {identifier: row for row, identifier in enumerate(points.ids)}
    rows, left_out = [], {}
    for row, survivor in copies.items():
        point_id = points.ids[row] if points.has_ids else NO_ID
        made = _row(verbs, write, points, judged.verdicts[row])
        rows.append(made(id=point_id, survivor=survivor, point=verbs.point(points, row)))
        left_out[row] = places.get(survivor)
    is_some_left = bool(copies) and (len(copies) < len(points.ids) or verbs.does_more(points))
    return Plan(tuple(rows), verbs.without(points, list(copies)) if is_some_left else None, left_out)


def _row(verbs: LeavesPointsOut, write: Operation, points: NewPoints, verdict: Verdict) -> Callable[..., LeftOut]:
    """A row of the journal, but for its point."""
    return partial(
        LeftOut,
        collection=verbs.collection(write, points),
        partition=verbs.partition(points),
        tier=verdict.tier.value,
        similarity=verdict.similarity,
    )


def event_of(row: LeftOut) -> EventPoint:
    """The event point of a row."""
    return _event_point(row.id, row.survivor, WriteTier(row.tier), row.similarity)


def _event_point(identifier: bytes, original: bytes, tier: WriteTier, similarity: float) -> EventPoint:
    return EventPoint(id=Raw(identifier), duplicate_of=Raw(original), tier=tier, similarity=round(similarity, 4))


def refusal(rows: Sequence[LeftOut], count: int) -> str:
    """The message for a refused write of ``count`` points."""
    copies = [
        f"{row.id.decode()} of {row.survivor.decode()} ({row.tier}, {row.similarity:.4f})" for row in rows[:LISTED]
    ]
    more = f" and {len(rows) - LISTED} more" if len(rows) > LISTED else ""
    return f"{len(rows)} of {count} points are copies, which are rejected here: {', '.join(copies)}{more}. Nothing was stored"


def merged(
    verbs: MergesPoints,
    write: Operation,
    judged: Judged,
    known: Known,
    policy: ResolvedPolicy,
    *,
    waits: bool,
) -> Plan:
    """Keep one point of each family. ``known``: with the holders. ``waits``: whether the database answers after the write is done; otherwise the
    write may still fail, so nothing is removed for it. Raises UnsupportedError, also for points that could not be restored, such as those whose ids
    the database creates, and exceptions of a policy.
    """
    if not judged.points.has_ids or (judged.copies() and not verbs.restores(judged.points)):
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    points, rows = judged.points, []
    left_out: dict[int, int | None] = {}
    replaced: dict[int, bytes] = {}
    removed: dict[bytes, bytes] = {}
    unheld = 0
    for family in _families(verbs, judged, known, policy):
        family_plan = settled(family, policy.write, judged.texts)
        if not family_plan.others or not _is_possible(family_plan, judged, known, waits=waits):
            continue
        if not _is_storable(verbs, points, family_plan):
            unheld += 1
            continue
        rows += _rows(verbs, write, judged, family_plan)
        left_out |= {copy.row: family_plan.survivor.row for copy in family_plan.others if copy.row is not None}
        removed |= {copy.id: copy.point for copy in family_plan.others if copy.row is None}
        if family_plan.sent is not None and family_plan.survivor.row is not None:
            replaced[family_plan.survivor.row] = family_plan.survivor.point
    if not rows or (len(left_out) == len(points.ids) and not verbs.does_more(points)):
        return Plan(tuple(rows), None, left_out, removed, unheld)
    body = verbs.merged(write, points, left_out, replaced) if replaced else verbs.without(points, left_out)
    return Plan(tuple(rows), body, left_out, removed, unheld)


def _families(verbs: MergesPoints, judged: Judged, known: Known, policy: ResolvedPolicy) -> list[list[Copy]]:
    """The copies of each original, which comes first."""
    points = judged.points
    places = {identifier: row for row, identifier in enumerate(points.ids)}
    form = verbs.form_of(points)

    def copy(row: int) -> Copy:
        return Copy(points.ids[row], row, verbs.point(points, row), form)

    families: dict[bytes, list[Copy]] = {}
    for row, of in chosen(verbs, judged, known, policy).items():
        if of not in families:
            original = copy(places[of]) if of in places else Copy(of, None, known.holders[of], form)
            families[of] = [original]
        families[of].append(copy(row))
    return list(families.values())


def _is_possible(outcome: Settled, judged: Judged, known: Known, *, waits: bool) -> bool:
    often = Counter(judged.points.ids)
    is_update = any(copy.row is not None and (known.has(copy.id) or often[copy.id] > 1) for copy in outcome.others)
    return not is_update and (waits or all(copy.row is not None for copy in outcome.others))


def _is_storable(verbs: MergesPoints, points: NewPoints, outcome: Settled) -> bool:
    """Whether the collection can store the survivor with its merged values."""
    row = outcome.survivor.row
    return outcome.sent is None or row is None or verbs.holds(points, row, outcome.survivor.point)


def _rows(verbs: MergesPoints, write: Operation, judged: Judged, outcome: Settled) -> list[LeftOut]:
    points, survivor = judged.points, outcome.survivor
    verdicts = [judged.verdicts[copy.row] for copy in (survivor, *outcome.others) if copy.row is not None]
    alike = next(verdict for verdict in verdicts if verdict.holders)
    rows = []
    for copy in outcome.others:
        verdict = None if copy.row is None else judged.verdicts[copy.row]
        made = _row(verbs, write, points, verdict if verdict is not None and verdict.holders else alike)
        kind = Kind.REMOVED if copy.row is None else Kind.LEFT_OUT
        rows.append(made(id=copy.id, survivor=survivor.id, point=copy.point, kind=kind))
    if outcome.sent is not None:
        made = _row(verbs, write, points, alike)
        sent, became = outcome.sent, survivor.point
        rows.append(made(id=survivor.id, survivor=survivor.id, point=sent, kind=Kind.CHANGED, became=became))
    return rows
