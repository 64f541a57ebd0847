"""Plans for writes whose copies are not stored: the journal's rows, and the rest of the write. Pure.

A point whose id is stored, or occurs twice in the write, is an update. It is stored unchanged, because leaving it out would keep the old
content, and it replaces no other point. So if two writers store copies of each other at once, at most one removes the other's: the one that
read the database after the other had written.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from msgspec import Raw

from vecsieve.adapters.contract import Operation, Reason, UnsupportedError
from vecsieve.adapters.writes import PLAIN, LeavesPointsOut, MergesPoints, NewPoints

from ..search.policy import ResolvedPolicy
from ..selection.reading.text import text_of as text_read
from ..telemetry.labels import WriteTier
from .events import EventPoint
from .facts import ALL, differing, facts_of, unites
from .holding import holds
from .judging import Verdict
from .merging import Copy, Settled, ignored_of, settled, text_of, text_path
from .rows import NO_ID, Kind, LeftOut

TOLD = 5  # copies that the message of a refusal names


@dataclass(frozen=True, slots=True)
class Judged:
    """A write with one verdict per point. ``texts``: the paths of the texts that were compared."""

    points: NewPoints
    verdicts: Sequence[Verdict]
    texts: Sequence[str] = ()

    def notes(self) -> Mapping[int, bytes]:
        """The notes for each copy, by its place in the write."""
        return {
            row: b'{"duplicate_of":%s,"similarity":%.4f,"tier":"%s"}' % (each.of, each.similarity, each.tier.encode())
            for row, each in enumerate(self.verdicts)
            if each.of is not None
        }

    def told(self) -> list[EventPoint]:
        """The copies, for events."""
        return [
            _told(own, each.of, each.tier, each.similarity)
            for own, each in zip(self.points.ids, self.verdicts, strict=True)
            if each.of is not None
        ]

    def copies(self) -> list[int]:
        """The places of points whose text another holds, and whose id occurs once. Whether they go is not decided: a payload may say more."""
        often = Counter(self.points.ids)
        return [row for row, each in enumerate(self.verdicts) if each.holders and often[self.points.ids[row]] == 1]

    def own_ids(self, *, is_merging: bool) -> list[bytes]:
        """The ids of the copies, and in mode merge of the points of the write that hold them: one that is stored is an update. Empty if the database
        creates ids.
        """
        if not self.points.has_ids:
            return []
        copies, own = self.copies(), frozenset(self.points.ids)
        ids = [self.points.ids[row] for row in copies]
        if is_merging:
            ids += [each for row in copies for each in self.verdicts[row].holders if each in own]
        return list(dict.fromkeys(ids))

    def stored_holders(self) -> list[bytes]:
        """The ids of the stored points that hold copies."""
        own = frozenset(self.points.ids)
        return list(
            dict.fromkeys(each for row in self.copies() for each in self.verdicts[row].holders if each not in own)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """Stored points by their ids. ``own``: those with ids of the write, so that they are updates. ``holders``: those that hold copies, complete. ``unseen``: ids of the write that are stored by now or soon, though reads do not show
    them yet.
    """

    own: Mapping[bytes, bytes]
    holders: Mapping[bytes, bytes]
    unseen: frozenset[bytes] = frozenset()

    def but(self, unseen: frozenset[bytes]) -> Known:
        """Where reads may show older contents of these ids: those of the write are updates, and the others are no originals."""
        holders = {each: point for each, point in self.holders.items() if each not in unseen}
        return replace(self, holders=holders, unseen=unseen)

    def has(self, identifier: bytes) -> bool:
        """Whether a point of the write is an update."""
        return identifier in self.own or identifier in self.unseen


@dataclass(frozen=True, slots=True)
class Plan:
    """``rows``: of the journal. ``body``: the rest of the write; None if nothing is left. ``removed``: stored points by their ids.
    ``gone``: the places of points that are left out, each with the place of its original in the same write, None for a stored one; in the
    order of ``rows``. ``unheld``: how many merged points the collection cannot hold; their copies are stored as they came.
    """

    rows: tuple[LeftOut, ...]
    body: bytes | None
    gone: Mapping[int, int | None]
    removed: Mapping[bytes, bytes] = field(default_factory=dict)
    unheld: int = 0


def chosen(verbs: LeavesPointsOut, judged: Judged, known: Known, policy: ResolvedPolicy) -> dict[int, bytes]:
    """For each place of a point that may be left out the id of the point that says all of it: its text, and its payload but for the fields that
    may differ. That point stays: it is stored, or in the write and not left out itself. Raises UnsupportedError.
    """
    points, ignored = judged.points, ignored_of(policy.write)
    places = {identifier: row for row, identifier in enumerate(points.ids)}
    payloads = _Payloads(verbs, points, judged.texts)
    found: dict[int, bytes] = {}
    for row in judged.copies():
        if known.has(points.ids[row]):
            continue
        for holder in judged.verdicts[row].holders:
            at = places.get(holder)
            if at in found or (at is None and holder not in known.holders):
                continue  # it goes itself, or is gone
            if at is None and not payloads.holds(row, holder, known.holders):
                continue  # it says something else by now
            if ALL in ignored:
                found[row] = holder
                break
            other = payloads.of(at) if at is not None else payloads.stored(holder, known.holders)
            if not payloads.differ(payloads.of(row), other, ignored, is_united=policy.write.unites):
                found[row] = holder
                break
    return found


class _Payloads:
    """The payloads of a write and of stored points, with their facts."""

    def __init__(self, verbs: LeavesPointsOut, points: NewPoints, texts: Sequence[str]) -> None:
        self._verbs, self._points, self._texts = verbs, points, texts
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
        """Whether a stored point still has the text for which it was found."""
        own, theirs = (text_of(each, self._texts) for each in (self.of(row), self.stored(holder, known)))
        return not own or own == theirs or (bool(theirs) and holds(text_read(theirs), [text_read(own)]))

    def differ(
        self, one: Mapping[str, object], other: Mapping[str, object], ignored: Sequence[str], *, is_united: bool
    ) -> bool:
        """Whether a field says something else, as far as the database distinguishes values. ``other``: as it is stored, if it is."""
        mine, theirs = (facts_of(each, text_path(each, self._texts)) for each in (one, other))
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
    noted, gone = [], {}
    for row, survivor in copies.items():
        own = points.ids[row] if points.has_ids else NO_ID
        point = verbs.point(points, row)
        noted.append(_row(verbs, write, points, judged.verdicts[row], id=own, survivor=survivor, point=point))
        gone[row] = places.get(survivor)
    is_some_left = 0 < len(copies) < len(points.ids)
    return Plan(tuple(noted), verbs.without(points, list(copies)) if is_some_left else None, gone)


def _row(  # noqa: PLR0913 - the columns
    verbs: LeavesPointsOut,
    write: Operation,
    points: NewPoints,
    verdict: Verdict,
    *,
    id: bytes,  # noqa: A002 - as in the journal
    survivor: bytes,
    point: bytes,
    kind: Kind = Kind.LEFT_OUT,
    became: bytes | None = None,
) -> LeftOut:
    return LeftOut(
        collection=verbs.collection(write, points),
        partition=verbs.partition(points),
        id=id,
        survivor=survivor,
        tier=verdict.tier.value,
        similarity=verdict.similarity,
        point=point,
        kind=kind,
        became=became,
    )


def told(row: LeftOut) -> EventPoint:
    """A point that is represented by another one."""
    return _told(row.id, row.survivor, WriteTier(row.tier), row.similarity)


def _told(own: bytes, other: bytes, tier: WriteTier, similarity: float) -> EventPoint:
    return EventPoint(id=Raw(own), duplicate_of=Raw(other), tier=tier, similarity=round(similarity, 4))


def refusal(rows: Sequence[LeftOut], count: int) -> str:
    """The message for a refused write of ``count`` points."""
    each = [f"{row.id.decode()} of {row.survivor.decode()} ({row.tier}, {row.similarity:.4f})" for row in rows[:TOLD]]
    more = f" and {len(rows) - TOLD} more" if len(rows) > TOLD else ""
    return f"{len(rows)} of {count} points are copies, which are rejected here: {', '.join(each)}{more}. Nothing was stored"


def merged(
    verbs: MergesPoints,
    write: Operation,
    judged: Judged,
    known: Known,
    policy: ResolvedPolicy,
    *,
    waits: bool,
) -> Plan:
    """Keep one point of each family. ``known``: with the holders. ``waits``: whether the database answers after the write is done; otherwise it
    may still fail, so nothing is removed for it. Raises UnsupportedError, also for points that could not be restored, such as those whose ids
    the database creates, and exceptions of a policy.
    """
    if not judged.points.has_ids or (judged.copies() and not verbs.restores(judged.points)):
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    points, rows = judged.points, []
    gone: dict[int, int | None] = {}
    shown: dict[int, bytes] = {}
    removed: dict[bytes, bytes] = {}
    unheld = 0
    for family in _families(verbs, judged, known, policy):
        found = settled(family, policy.write, judged.texts)
        if not found.gone or not _is_possible(found, judged, known, waits=waits):
            continue
        if not _is_held(verbs, points, found):
            unheld += 1
            continue
        rows += _rows(verbs, write, judged, found)
        gone |= {copy.row: found.survivor.row for copy in found.gone if copy.row is not None}
        removed |= {copy.id: copy.point for copy in found.gone if copy.row is None}
        if found.sent is not None and found.survivor.row is not None:
            shown[found.survivor.row] = found.survivor.point
    if not rows or len(gone) == len(points.ids):
        return Plan(tuple(rows), None, gone, removed, unheld)
    body = verbs.merged(write, points, gone, shown) if shown else verbs.without(points, gone)
    return Plan(tuple(rows), body, gone, removed, unheld)


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


def _is_possible(found: Settled, judged: Judged, known: Known, *, waits: bool) -> bool:
    often = Counter(judged.points.ids)
    is_update = any(copy.row is not None and (known.has(copy.id) or often[copy.id] > 1) for copy in found.gone)
    return not is_update and (waits or all(copy.row is not None for copy in found.gone))


def _is_held(verbs: MergesPoints, points: NewPoints, found: Settled) -> bool:
    """Whether the survivor can be stored with what was added to it."""
    row = found.survivor.row
    return found.sent is None or row is None or verbs.holds(points, row, found.survivor.point)


def _rows(verbs: MergesPoints, write: Operation, judged: Judged, found: Settled) -> list[LeftOut]:
    points, survivor = judged.points, found.survivor
    verdicts = [judged.verdicts[copy.row] for copy in (survivor, *found.gone) if copy.row is not None]
    alike = next(verdict for verdict in verdicts if verdict.holders)
    rows = []
    for copy in found.gone:
        own = None if copy.row is None else judged.verdicts[copy.row]
        rows.append(
            _row(
                verbs,
                write,
                points,
                own if own is not None and own.holders else alike,
                id=copy.id,
                survivor=survivor.id,
                point=copy.point,
                kind=Kind.REMOVED if copy.row is None else Kind.LEFT_OUT,
            )
        )
    if found.sent is not None:
        rows.append(
            _row(
                verbs,
                write,
                points,
                alike,
                id=survivor.id,
                survivor=survivor.id,
                point=found.sent,
                kind=Kind.CHANGED,
                became=survivor.point,
            )
        )
    return rows
