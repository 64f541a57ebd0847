"""Plans for writes whose copies are not stored: the journal's rows, and the rest of the write. Pure.

A point whose id is stored, or occurs twice in the write, is an update. It is stored unchanged, because leaving it out would keep the old
content, and it replaces no other point. So if two writers store copies of each other at once, at most one removes the other's: the one that
read the database after the other had written.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from msgspec import Raw

from vecsieve.adapters.contract import Operation, Reason, UnsupportedError
from vecsieve.adapters.writes import LeavesPointsOut, MergesPoints, NewPoints

from ..search.policy import ResolvedPolicy
from ..telemetry.labels import WriteTier
from .events import EventPoint
from .journal import NO_ID, Kind, LeftOut
from .judging import Verdict
from .merging import Copy, Settled, settled

TOLD = 5  # copies that the message of a refusal names


@dataclass(frozen=True, slots=True)
class Judged:
    """A write with one verdict per point."""

    points: NewPoints
    verdicts: Sequence[Verdict]

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
        """The places of copies whose id occurs once."""
        often = Counter(self.points.ids)
        return [
            row for row, each in enumerate(self.verdicts) if each.of is not None and often[self.points.ids[row]] == 1
        ]

    def concerned(self, *, is_merging: bool) -> list[bytes]:
        """The ids that must be looked up in the database: of the copies, and of their originals if they are merged. Raises UnsupportedError
        for ids that the database creates, because a merged point could not be restored by its id.
        """
        if is_merging and not self.points.has_ids:
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
        copies = self.copies()
        ids = [self.points.ids[row] for row in copies] if self.points.has_ids else []
        if is_merging:
            ids += [of for row in copies if (of := self.verdicts[row].of) is not None]
        return list(dict.fromkeys(ids))


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


def without_copies(verbs: LeavesPointsOut, write: Operation, judged: Judged, known: Mapping[bytes, bytes]) -> Plan:
    """Leave out all copies. ``known``: the stored points by id, of those in ``concerned``. Raises UnsupportedError."""
    points = judged.points
    rows = [row for row in judged.copies() if points.ids[row] not in known]
    places = {identifier: row for row, identifier in enumerate(points.ids)}
    noted, gone = [], {}
    for row in rows:
        verdict = judged.verdicts[row]
        assert verdict.of is not None  # noqa: S101 - it is a copy
        own = points.ids[row] if points.has_ids else NO_ID
        noted.append(_row(verbs, write, points, verdict, id=own, survivor=verdict.of, point=verbs.point(points, row)))
        gone[row] = places.get(verdict.of)
    is_some_left = 0 < len(rows) < len(points.ids)
    return Plan(tuple(noted), verbs.without(points, rows) if is_some_left else None, gone)


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
    known: Mapping[bytes, bytes],
    policy: ResolvedPolicy,
    *,
    waits: bool,
) -> Plan:
    """Keep one point of each family. ``known``: as in `without_copies`, with their content. ``waits``: whether the database answers after
    the write is done; otherwise it may still fail, so nothing is removed for it. Raises UnsupportedError, and exceptions of a policy.
    """
    points, rows = judged.points, []
    gone: dict[int, int | None] = {}
    shown: dict[int, bytes] = {}
    removed: dict[bytes, bytes] = {}
    unheld = 0
    for family in _families(verbs, judged, known):
        found = settled(family, policy.write, policy.text_paths)
        if not _is_possible(found, judged, known, waits=waits):
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


def _families(verbs: MergesPoints, judged: Judged, known: Mapping[bytes, bytes]) -> list[list[Copy]]:
    """The copies of each original, which comes first unless it was removed in the meantime."""
    points = judged.points
    places = {identifier: row for row, identifier in enumerate(points.ids)}
    form = verbs.form_of(points)

    def copy(row: int) -> Copy:
        return Copy(points.ids[row], row, verbs.point(points, row), form)

    families: dict[bytes, list[Copy]] = {}
    for row in judged.copies():
        of = judged.verdicts[row].of
        if of is None or points.ids[row] in known:
            continue
        if of not in families:
            stored = [Copy(of, None, known[of], form)] if of in known else []
            families[of] = [copy(places[of])] if of in places else stored
        families[of].append(copy(row))
    return [family for family in families.values() if len(family) > 1]


def _is_possible(found: Settled, judged: Judged, known: Mapping[bytes, bytes], *, waits: bool) -> bool:
    often = Counter(judged.points.ids)
    is_update = any(copy.row is not None and (copy.id in known or often[copy.id] > 1) for copy in found.gone)
    return not is_update and (waits or all(copy.row is not None for copy in found.gone))


def _is_held(verbs: MergesPoints, points: NewPoints, found: Settled) -> bool:
    """Whether the survivor can be stored with what was added to it."""
    row = found.survivor.row
    return found.sent is None or row is None or verbs.holds(points, row, found.survivor.point)


def _rows(verbs: MergesPoints, write: Operation, judged: Judged, found: Settled) -> list[LeftOut]:
    points, survivor = judged.points, found.survivor
    verdicts = [judged.verdicts[copy.row] for copy in (survivor, *found.gone) if copy.row is not None]
    alike = next(verdict for verdict in verdicts if verdict.of is not None)
    rows = []
    for copy in found.gone:
        own = None if copy.row is None else judged.verdicts[copy.row]
        rows.append(
            _row(
                verbs,
                write,
                points,
                own if own is not None and own.of is not None else alike,
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
