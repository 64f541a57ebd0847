"""The journal's file. A SQLite file in WAL mode with ``synchronous=FULL``: a row is on disk when its transaction returns.

Rows are ordered by their times. A row that is entered, or settled as DONE, becomes the last one, whatever the time of day. A place in this order is
the time of the latest row. Places, not clocks, decide which rows are older than an event.
"""

from __future__ import annotations

import math
import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeVar

from vecsieve.adapters.writes import Deletion

from ..runtime.files import reason
from .rows import (
    ANY,
    BUSY_SECONDS,
    EVERYWHERE,
    EXPECTED,
    NO_ID,
    UNSEEN_SECONDS,
    Head,
    JournalError,
    LeftOut,
    Row,
    State,
)

FORMAT = 1
T = TypeVar("T")
_values = attrgetter("id", "survivor", "tier", "similarity", "point", "kind", "became")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS points (
    number INTEGER PRIMARY KEY,
    state TEXT NOT NULL,
    at REAL NOT NULL,
    collection TEXT NOT NULL,
    partition BLOB NOT NULL,
    hash BLOB NOT NULL,
    id BLOB NOT NULL,
    survivor BLOB NOT NULL,
    tier TEXT NOT NULL,
    similarity REAL NOT NULL,
    point BLOB NOT NULL,
    kind TEXT NOT NULL,
    became BLOB,
    UNIQUE (collection, partition, hash)
)
"""
# Ids of writes that reads may not show yet. ``at``: seconds of the machine's steady clock, which time corrections do not change.
_UNSEEN = """
CREATE TABLE IF NOT EXISTS unseen (
    collection TEXT NOT NULL,
    partition BLOB NOT NULL,
    id BLOB NOT NULL,
    at REAL NOT NULL,
    PRIMARY KEY (collection, partition, id)
) WITHOUT ROWID
"""
_NOTE = "INSERT INTO unseen VALUES (?, ?, ?, ?) ON CONFLICT (collection, partition, id) DO UPDATE SET at = excluded.at"
_FORGET = "DELETE FROM unseen WHERE at < ?"
_SEEN = "DELETE FROM unseen WHERE collection = ? AND partition = ? AND id = ?"
# The machine was restarted: these rows count as written now.
_FROM_AHEAD = "UPDATE unseen SET at = ? WHERE at > ?"
# Ids of pending deletions: one row per id until the deletion ends. ``number``: random, chosen by its process. ``at``: as above. ``is_ours``: a
# removal by the gate; else a client deletes.
_DELETIONS = """
CREATE TABLE IF NOT EXISTS going (
    number INTEGER PRIMARY KEY,
    collection TEXT NOT NULL,
    partition BLOB NOT NULL,
    id BLOB NOT NULL,
    at REAL NOT NULL,
    is_ours INTEGER NOT NULL
)
"""
_DELETION_BEGUN = "INSERT INTO going (number, collection, partition, id, at, is_ours) VALUES (?, ?, ?, ?, ?, ?)"
_DELETION_ENDED = "DELETE FROM going WHERE number = ?"
_MATCHES = f"""going.collection IN (points.collection, '{EVERYWHERE}')
    AND going.partition IN (points.partition, CAST('{ANY.decode()}' AS BLOB)) AND going.id IN (points.id, CAST('{ANY.decode()}' AS BLOB))
"""
# A point that a client may delete, or whose newer content is being left out, is in doubt. ``?``: the moment from which the gate's removals count.
_IS_IN_DOUBT = f"""(EXISTS (SELECT 1 FROM going WHERE (NOT is_ours OR going.at >= ?) AND {_MATCHES}) OR EXISTS (
    SELECT 1 FROM points AS newer WHERE newer.state = 'pending' AND newer.kind = 'left_out' AND newer.id = points.id AND newer.at > points.at
    AND newer.collection = points.collection AND newer.partition = points.partition AND CAST(newer.id AS TEXT) != 'null'))
"""  # noqa: S608 - constants
MOST_IDS = 10_000  # ids listed for one deletion; a larger one counts for its whole collection
_BY_ID = "CREATE INDEX IF NOT EXISTS points_by_id ON points (collection, id)"
_BY_AT = "CREATE INDEX IF NOT EXISTS points_by_at ON points (at)"
_DELETIONS_BY_ID = "CREATE INDEX IF NOT EXISTS going_by_id ON going (id)"
_LATEST = "SELECT coalesce(max(at), 0) FROM points"
# If the clock is behind the latest row, a new row is one microsecond after that row.
_AT = f"max(?, ({_LATEST}) + 1e-6)"
# A repeated point reuses its row. A DONE or DOUBTED row keeps its state until the new write was carried out. A restored or refused point is left
# out again.
_ENTER = f"""
INSERT INTO points (state, at, collection, partition, hash, id, survivor, tier, similarity, point, kind, became)
VALUES (?, {_AT}, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (collection, partition, hash) DO UPDATE
SET state = excluded.state, at = excluded.at, survivor = excluded.survivor,
    tier = excluded.tier, similarity = excluded.similarity, kind = excluded.kind, became = excluded.became
WHERE state NOT IN ('done', 'doubted') OR excluded.state = 'done'
"""  # noqa: S608 - the text is above
_WHICH = "collection = ? AND partition = ? AND hash = ?"
# Two writes can share a row, for example if both are copies of one stored point. The write that was carried out decides the state and the
# survivor. A restored point without an id stays UNDONE: a second restore would store it twice. A changed point that a client deleted meanwhile
# does not become DONE.
_CARRIED_OUT = f"""
UPDATE points SET state = 'done', at = {_AT}, survivor = ?, tier = ?, similarity = ?, kind = ?, became = ?
WHERE {_WHICH} AND NOT (state = 'undone' AND id = ?) AND (kind = 'left_out' OR state IN ('pending', 'done', 'refused'))
"""  # noqa: S608 - the text is above
# A stored point is read again before it is removed. If that read shows a point that was deleted before, it was stored anew. A deletion after the
# read can take effect at any moment.
_READING = f"UPDATE points SET state = 'pending' WHERE {_WHICH} AND state IN ('superseded', 'refused')"  # noqa: S608 - the same
# A point that was changed and then stored again becomes a removed point. One that a client is deleting is not removed.
_REMOVING = f"""
UPDATE points SET state = 'done', at = {_AT}, survivor = ?, tier = ?, similarity = ?, kind = 'removed', became = NULL
WHERE {_WHICH} AND state IN ('pending', 'done') AND NOT EXISTS (SELECT 1 FROM going WHERE NOT is_ours AND {_MATCHES})
"""  # noqa: S608 - the same
# During the removal the point may have been deleted and stored anew, or restored.
_REMOVED = f"UPDATE points SET state = 'doubted' WHERE {_WHICH} AND state IN ('superseded', 'undone')"  # noqa: S608 - the same
_IS_PENDING = f"SELECT 1 FROM points WHERE {_WHICH} AND state = 'pending'"  # noqa: S608 - the same
_NOT_CARRIED_OUT = f"UPDATE points SET state = ? WHERE {_WHICH} AND state = 'pending'"  # noqa: S608 - the same
_MARK = "UPDATE points SET state = ? WHERE number = ?"
_UNDONE = "UPDATE points SET state = 'undone' WHERE number = ?"
_OLDER = """
UPDATE points SET state = 'superseded' WHERE state IN ('done', 'doubted') AND EXISTS (
    SELECT 1 FROM points AS newer WHERE newer.number = ? AND CAST(newer.id AS TEXT) != 'null' AND newer.id = points.id AND newer.collection = points.collection
    AND newer.partition = points.partition AND (newer.at, newer.number) > (points.at, points.number))
"""
# Rows affected by a client's deletion: points left out before it, and stored points that were removed or changed during it. Rows affected by a later
# write of their ids: a removed point is not restored over a newer one.
_LEFT_OUT = "kind = 'left_out' AND state = 'done'"
_OLD = "kind = 'left_out' AND state IN ('done', 'doubted', 'rejected')"
_STORED = "kind != 'left_out' AND state IN ('pending', 'done')"
_STORED_BEFORE = "kind != 'left_out' AND state IN ('pending', 'done', 'doubted')"
_COLUMNS = "number, at, collection, partition, id, survivor, tier, similarity, point, kind, became"
_HEAD = "number, collection, partition, id, length(point), kind"
_MOST = 1000  # rows that are read at once: the number of values that an SQL statement accepts everywhere


class Book:
    """The file. Not for the event loop. Raises JournalError."""

    def __init__(self, path: Path, *, must_exist: bool = False) -> None:
        if must_exist and not path.is_file():
            raise JournalError(f"there is no journal at {path}")
        self._path = path
        _create_private(path)
        with self._fenced():
            self._connection = sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None)
        try:
            with self._fenced():
                self._prepare()
        except JournalError:
            self._connection.close()
            raise
        self._file = _identity(path)

    @property
    def is_in_place(self) -> bool:
        """False if the file was removed or replaced: writes to it would be lost."""
        return self._file == _identity(self._path)

    def _prepare(self) -> None:
        run = self._connection.execute
        (version,) = run("PRAGMA user_version").fetchone()
        if version not in {0, FORMAT}:
            seen = f"saw a journal of format {version}, wanted {FORMAT}"
            raise JournalError(f"{self._path}: {seen}: a newer version wrote it")
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        if version == 0:
            with self._transaction():
                for statement in (_SCHEMA, _UNSEEN, _DELETIONS, _BY_ID, _BY_AT, _DELETIONS_BY_ID):
                    run(statement)
                run(f"PRAGMA user_version = {FORMAT}")

    def latest(self) -> float:
        """The place of the latest row; 0 without rows."""
        ((place,),) = self._queried(_LATEST, ())
        return float(place)

    def enter(self, points: Sequence[LeftOut], state: State, *, at: float) -> float:
        """Record points in one transaction. Returns the place before them. Those that a job has DONE were read before, so reads show their writes."""
        rows = [(state, at, *point.key, *_values(point)) for point in points]
        seen = [(point.collection, point.partition, point.id) for point in points if state is State.DONE]
        with self._transaction():
            place = self.latest()
            self._connection.executemany(_ENTER, rows)
            self._connection.executemany(_SEEN, seen)
        return place

    def settle(self, points: Sequence[LeftOut], state: State, *, at: float) -> None:
        """Set the final state of points. A state other than DONE is set only where they are still PENDING."""
        if state is not State.DONE:
            pending = [point for point in points if self._queried(_IS_PENDING, point.key)]  # mostly none
            self._all((_NOT_CARRIED_OUT, [(state, *point.key) for point in pending]))
            return
        outcomes = [(at, point.survivor, point.tier, point.similarity, point.kind, point.became) for point in points]
        self._all((_CARRIED_OUT, [(*row, *point.key, NO_ID) for row, point in zip(outcomes, points, strict=True)]))

    def reading(self, points: Sequence[LeftOut]) -> None:
        """Record that stored points are read again before their removal."""
        self._all((_READING, [point.key for point in points]))

    def removing(self, numbered: Mapping[int, LeftOut], *, at: float, steady: float) -> frozenset[bytes]:
        """Mark stored points DONE before they are removed. Returns the ids that may be removed. ``numbered``: by the numbers of their deletions.
        ``steady``: of the machine's steady clock.
        """
        run, may = self._connection.execute, set[bytes]()
        with self._transaction():
            for number, point in numbered.items():
                if run(_REMOVING, (at, point.survivor, point.tier, point.similarity, *point.key)).rowcount:
                    run(_DELETION_BEGUN, (number, *_place(point), steady, True))
                    may.add(point.id)
        return frozenset(may)

    def removed(self, numbered: Mapping[int, LeftOut]) -> None:
        """Record that removals have ended. Those that were not begun have no row."""
        with self._transaction():
            for number, point in numbered.items():
                if self._connection.execute(_DELETION_ENDED, (number,)).rowcount:
                    self._connection.execute(_REMOVED, point.key)

    def deletions_begun(self, number: int, deletions: Sequence[Deletion], *, at: float) -> float:
        """Record deletions before they are sent: until they end, their points are in doubt. Returns the place before them. ``at``: of the machine's
        steady clock. A crash of the machine may lose deletions that concern no point yet.
        """
        rows = [(index, *place, at, False) for index, place in enumerate(_places(deletions), number)]
        is_concerned = any(self._among(deletion, "true", ()) for deletion in deletions)
        with self._synchronous("FULL" if is_concerned else "NORMAL"), self._transaction():
            self._expire("at < ? OR at > ?", (at - UNSEEN_SECONDS, at))
            self._connection.executemany(_DELETION_BEGUN, rows)
            return self.latest()

    def deletions_ended(
        self, number: int, deletions: Sequence[Deletion], *, is_done: bool | None, place: float | None
    ) -> None:
        """Record the database's answer: points that were deleted for certain are superseded, others that may have been are doubted. ``is_done``: False
        for a refusal, None if unknown. ``place``: before the deletions; None if unknown.
        """
        with self._transaction():
            if is_done is not False:
                is_known = is_done is not None and place is not None
                certain = [deletion for deletion in deletions if is_known and deletion.is_certain]
                self._mark(State.SUPERSEDED, certain, _OLD, place)
                self._mark(State.SUPERSEDED, certain, _STORED_BEFORE)
                others = [deletion for deletion in deletions if deletion not in certain]
                self._mark(State.DOUBTED, others, _LEFT_OUT, place if is_known else None)
                self._mark(State.DOUBTED, others, _STORED)
            ended = enumerate(_places(deletions), number)
            self._connection.executemany(_DELETION_ENDED, [(number,) for number, _ in ended])

    def forget_deletions(self) -> None:
        """The processes that began deletions have ended: what clients were deleting is in doubt."""
        with self._transaction():
            self._expire("true", ())

    def _expire(self, which: str, values: Sequence[object]) -> None:
        stale = f"SELECT number, collection, partition, id FROM going WHERE ({which})"  # noqa: S608 - values are bound
        for _, *named in self._queried(f"{stale} AND NOT is_ours", values):
            collection, partition, identifier = (None if value in (ANY, EVERYWHERE) else value for value in named)
            ids = None if identifier is None else (identifier,)
            lost = [Deletion(collection=collection, partition=partition, ids=ids)]
            self._mark(State.DOUBTED, lost, f"(({_LEFT_OUT}) OR ({_STORED}))")
        self._connection.execute(f"DELETE FROM going WHERE ({which})", values)  # noqa: S608 - the same

    def note(self, collection: str, partition: bytes, ids: Sequence[bytes], *, at: float) -> None:
        """Remember ids whose write reads may not show yet. ``at``: of the machine's steady clock."""
        noted = [(collection, partition, identifier, at) for identifier in ids]
        self._all((_FROM_AHEAD, [(at, at)]), (_FORGET, [(at - UNSEEN_SECONDS,)]), (_NOTE, noted))

    def unseen(self, collection: str, partition: bytes, ids: Sequence[bytes], *, at: float) -> frozenset[bytes]:
        """The ids whose writes reads may not show yet; all of them after a write that was not parsed. ``at``: of the machine's steady clock."""
        where = "collection IN (?, ?) AND partition IN (?, ?) AND at >= ?"
        values = [collection, EVERYWHERE, partition, ANY, at - UNSEEN_SECONDS]
        hits: set[bytes] = set()
        for some in _parts(ids):
            question = f"SELECT id FROM unseen WHERE {where} AND id IN (?, {_marks(some)})"  # noqa: S608 - values are bound
            hits.update(identifier for (identifier,) in self._queried(question, [*values, ANY, *some]))
        return frozenset(ids) if ANY in hits else frozenset(hits)

    def undone(self, numbers: Iterable[int]) -> None:
        """Mark points as stored, and older contents of their ids as superseded."""
        marked = [(number,) for number in numbers]
        self._all((_UNDONE, marked), (_OLDER, marked))

    def before(self, collection: str, partition: bytes, ids: Sequence[bytes]) -> float | None:
        """The place before a write of these ids; None if it will supersede nothing."""
        older = Deletion(collection=collection, partition=partition, ids=tuple(ids))
        return self.latest() if self._among(older, _OLD, ()) else None

    def outdate(self, newer: Sequence[Deletion], *, until: float) -> None:
        """Mark points that clients stored anew: `undo` does not restore what was left out under their ids."""
        with self._transaction():
            self._mark(State.SUPERSEDED, newer, _OLD, until)

    def _mark(self, state: State, deletions: Sequence[Deletion], which: str, until: float | None = None) -> None:
        values = () if until is None else (until,)
        which = which if until is None else f"{which} AND at <= ?"
        numbers = [number for deletion in deletions for number in self._among(deletion, which, values)]
        self._connection.executemany(_MARK, [(state, number) for number in numbers])

    def _among(self, deletion: Deletion, which: str, values: Sequence[object]) -> list[int]:
        """The numbers of such rows."""
        named = {"collection": deletion.collection, "partition": deletion.partition}
        given = {name: value for name, value in named.items() if value is not None}
        where = " AND ".join([*(f"{name} = ?" for name in given), which])
        question = f"SELECT number FROM points WHERE {where}"  # noqa: S608 - values are bound
        bound = [*given.values(), *values]
        if deletion.ids is None:
            return [number for (number,) in self._queried(question, bound)]
        pages = [
            self._queried(f"{question} AND id IN ({_marks(some)})", [*bound, *some]) for some in _parts(deletion.ids)
        ]
        return [number for rows in pages for (number,) in rows]

    def heads(
        self,
        *,
        collection: str | None = None,
        since: float = 0.0,
        ids: Sequence[bytes] | None = None,
        also: Sequence[State] = (),
        steady: float | None = None,
    ) -> list[Head]:
        """The points that are DONE, oldest first. ``ids``: JSON; None: all. ``also``: includes those in these states. ``steady``: of the machine's
        steady clock: points of pending deletions are in doubt; None: not checked.
        """
        return self._heads(*_restorable(also, steady), collection, since, ids)

    def doubted(
        self, *, collection: str | None, since: float, ids: Sequence[bytes] | None, steady: float | None
    ) -> int:
        """How many points clients may have deleted. ``steady``: as in `heads`."""
        where = f"(state = 'doubted' OR state = 'done' AND {_IS_IN_DOUBT})"
        return len(self._heads(where, [_since(steady)], collection, since, ids))

    def _heads(
        self, which: str, values: Sequence[object], collection: str | None, since: float, ids: Sequence[bytes] | None
    ) -> list[Head]:
        where = f"{which} AND at >= ?"
        chosen: list[object] = [*values, since]
        if collection is not None:
            where, chosen = where + " AND collection = ?", [*chosen, collection]
        if ids is not None:
            where, chosen = where + f" AND id IN ({_marks(ids)})", [*chosen, *ids]
        question = f"SELECT {_HEAD} FROM points WHERE {where} ORDER BY at, number"  # noqa: S608 - values are bound
        return [Head(*row) for row in self._queried(question, chosen)]

    def rows(self, numbers: Sequence[int]) -> list[Row]:
        """These rows, oldest first."""
        return self._rows(numbers, "true", [])

    def restorable(self, numbers: Sequence[int], *, also: Sequence[State], steady: float | None) -> list[Row]:
        """The rows that `heads` would list now, oldest first."""
        return self._rows(numbers, *_restorable(also, steady))

    def _rows(self, numbers: Sequence[int], which: str, values: Sequence[object]) -> list[Row]:
        where = f"number IN ({_marks(numbers)}) AND {which}"
        question = f"SELECT {_COLUMNS} FROM points WHERE {where} ORDER BY at, number"  # noqa: S608 - values are bound
        names = _COLUMNS.split(", ")
        return [Row(**dict(zip(names, row, strict=True))) for row in self._queried(question, [*numbers, *values])]

    def _queried(self, question: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        with self._fenced():
            return self._connection.execute(question, values).fetchall()

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def _synchronous(self, how: str) -> Iterator[None]:
        """FULL, or NORMAL for transactions that may be lost in a crash of the machine."""
        with self._fenced():
            self._connection.execute(f"PRAGMA synchronous = {how}")
        try:
            yield
        finally:
            with self._fenced():
                self._connection.execute("PRAGMA synchronous = FULL")

    def _all(self, *statements: tuple[str, Sequence[Sequence[object]]]) -> None:
        """Run statements with their rows in one transaction. Without rows the file is not locked."""
        if not any(rows for _, rows in statements):
            return
        with self._transaction():
            for statement, rows in statements:
                self._connection.executemany(statement, rows)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        """All or nothing. Raises JournalError."""
        with self._fenced():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except (sqlite3.Error, JournalError):
                self._connection.rollback()
                raise

    @contextmanager
    def _fenced(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            # SQLite's messages name the file or columns, never values.
            raise JournalError(f"{self._path}: saw {error}, {EXPECTED}") from None


def _restorable(also: Sequence[State], steady: float | None) -> tuple[str, list[object]]:
    """The condition of `Book.heads`, and its values."""
    where = f"state IN ({_marks((State.DONE, *also))})"
    if State.DOUBTED in also:
        return where, [State.DONE, *also]
    return f"{where} AND NOT {_IS_IN_DOUBT}", [State.DONE, *also, _since(steady)]


def _since(steady: float | None) -> float:
    """From which moment removals count."""
    return math.inf if steady is None else steady - UNSEEN_SECONDS


def _place(point: LeftOut) -> tuple[str, bytes, bytes]:
    return point.collection, point.partition, point.id


def _places(deletions: Sequence[Deletion]) -> list[tuple[str, bytes, bytes]]:
    """The ids of deletions with their partitions; ANY for an unnamed partition, and for no ids or too many."""
    return [
        (deletion.collection or EVERYWHERE, ANY if deletion.partition is None else deletion.partition, identifier)
        for deletion in deletions
        for identifier in (deletion.ids if deletion.ids is not None and len(deletion.ids) <= MOST_IDS else (ANY,))
    ]


def _create_private(path: Path) -> None:
    """Only the owner may read a new file, because it holds texts. SQLite gives its other files the same mode."""
    try:
        # Without O_NONBLOCK a pipe in its place would block the thread for ever.
        handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise JournalError(f"{path}: saw {reason(error)}, {EXPECTED}") from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise JournalError(f"{path}: saw no regular file, {EXPECTED}")
    finally:
        os.close(handle)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _parts(values: Sequence[T]) -> Iterator[Sequence[T]]:
    return (values[start : start + _MOST] for start in range(0, len(values), _MOST))
