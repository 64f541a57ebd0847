"""Deletes copies batch by batch, without a loss on interruption.

A batch is read again first, with its survivors. A point is deleted only if both are unchanged since they were compared. It is in the
journal, on disk and DONE, before it is deleted: ``vecsieve undo`` stores points that are DONE and no longer in the database, so a run that
was killed between the two steps has lost nothing and need not be repaired.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ...runtime.files import progress_bar
from ...writes.book import Book
from ...writes.rows import Kind, LeftOut, State
from ..pairs.store import Removal, Store
from ..source import PointId, Points, Whole, key_of

BATCH = 100  # points per request: their survivors are read with them


class Outcome(StrEnum):
    """What happened to a point that could be removed."""

    DELETED = "deleted"
    GONE = "gone"  # deleted by somebody else
    CHANGED = "changed"  # changed since it was compared, so it stays
    ALONE = "alone"  # its survivor was deleted or changed, so it stays


@dataclass(frozen=True, slots=True)
class Survivors:
    """What is done with the points that stay: nothing."""

    book: Book
    collection: str

    def is_as_compared(self, survivor: Whole, mark: int) -> bool:
        """``mark``: of the point that was compared."""
        return survivor.mark == mark

    def changes(self, _removals: Sequence[tuple[Removal, Whole]], _stored: Mapping[PointId, Whole]) -> list[LeftOut]:
        """Rows of the kind CHANGED, for survivors that are stored again before their copies are deleted. ``stored``: by id, as they are
        stored.
        """
        return []


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """The target of a deletion; ``survivors`` have its journal. ``now``: seconds since the epoch."""

    points: Points
    survivors: Survivors
    now: Callable[[], float] = time.time


def delete(store: Store, by: Deletion) -> Mapping[str, int]:
    """The number of points by outcome, of this run and earlier ones. Raises SourceError, JournalError."""
    counts = Counter(store.deleted or dict.fromkeys(Outcome, 0))
    store.progressed(counts)  # from now on the collection's ids differ from those that were read
    with progress_bar("deleting", store.count()) as advance:
        advance(counts.total())
        while batch := store.deletions(counts.total(), BATCH):
            counts.update(_deleted(batch, by))
            store.progressed(counts)
            advance(len(batch))
    return counts


def _deleted(batch: Sequence[Removal], by: Deletion) -> list[Outcome]:
    ids = dict.fromkeys([*(removal.id for removal in batch), *(removal.survivor for removal in batch)])
    stored = {point.id: point for point in by.points.whole(list(ids))}
    book, missing = by.survivors.book, [key_of(removal.id) for removal in batch if removal.id not in stored]
    # A killed run may have deleted them.
    heads = book.heads(collection=by.survivors.collection, ids=missing) if missing else ()
    ours = {head.id for head in heads}
    outcomes = [
        Outcome.DELETED if key_of(removal.id) in ours else _outcome(removal, stored, by.survivors) for removal in batch
    ]
    removals = [
        (removal, stored[removal.id])
        for removal, outcome in zip(batch, outcomes, strict=True)
        if outcome is Outcome.DELETED and removal.id in stored
    ]
    if removals:
        changes = by.survivors.changes(removals, stored)
        rows = [_row(removal, point, stored[removal.survivor], by.survivors.collection) for removal, point in removals]
        book.enter([*changes, *rows], State.DONE, at=by.now())
        for change in changes:
            assert change.became is not None  # noqa: S101 - of the kind CHANGED
            by.points.put(change.partition, [change.became])
        by.points.delete([point for _, point in removals])
    return outcomes


def _outcome(removal: Removal, stored: Mapping[PointId, Whole], survivors: Survivors) -> Outcome:
    point, survivor = stored.get(removal.id), stored.get(removal.survivor)
    if point is None:
        return Outcome.GONE
    if point.mark != removal.mark:
        return Outcome.CHANGED
    is_there = survivor is not None and survivors.is_as_compared(survivor, removal.survivor_mark)
    return Outcome.DELETED if is_there else Outcome.ALONE


def _row(removal: Removal, point: Whole, survivor: Whole, collection: str) -> LeftOut:
    return LeftOut(
        collection=collection,
        partition=point.partition,
        id=point.key,
        survivor=survivor.key,
        tier=removal.evidence,
        similarity=0.0 if removal.similarity is None else removal.similarity,
        point=point.body,
        kind=Kind.REMOVED,
    )
