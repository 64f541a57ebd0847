"""The journal's file. A SQLite file in WAL mode with ``synchronous=FULL``: a row is on disk when its transaction returns.

Rows are ordered by their times. A row that is entered, or settled as DONE, becomes the last one, whatever the time of day. A place in this order is
the time of the latest row. Places, not clocks, decide which rows are older than an event.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from vecsieve.adapters.writes import Deletion

from ..runtime.files import reason
from .rows import ANY, BUSY_SECONDS, EVERYWHERE, EXPECTED, NO_ID, Head, JournalError, LeftOut, Row, State

FORMAT = 1
T = TypeVar("T")

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
# The machine was restarted, or an older version wrote the time of day: these rows count as written now.
_FROM_AHEAD = "UPDATE unseen SET at = ? WHERE at > ?"
# Ids of pending deletions, by clients or by the gate: one row per id until the deletion ends. ``at``: as above.
_DELETIONS = """
CREATE TABLE IF NOT EXISTS going (
    number INTEGER PRIMARY KEY,
    collection TEXT NOT NULL,
    partition BLOB NOT NULL,
    id BLOB NOT NULL,
    at REAL NOT NULL
)
"""
_DELETION_BEGUN = "INSERT INTO going (collection, partition, id, at) VALUES (?, ?, ?, ?)"
# Rows with equal ids are interchangeable.
_DELETION_ENDED = """
DELETE FROM going WHERE number = (SELECT min(number) FROM going WHERE collection = ? AND partition = ? AND id = ?)
"""
_FORGET_DELETIONS = "DELETE FROM going WHERE at < ? OR at > ?"
_IS_BEING_DELETED = f"""EXISTS (
    SELECT 1 FROM going WHERE going.at >= ? AND going.collection IN (points.collection, '{EVERYWHERE}')
    AND going.partition IN (points.partition, CAST('{ANY.decode()}' AS BLOB)) AND going.id IN (points.id, CAST('{ANY.decode()}' AS BLOB)))
"""  # noqa: S608 - constants
MOST_IDS = 100  # ids listed for one deletion; a larger one counts for its whole collection
# Seconds after which reads show a write. A longer update queue is a fault of the database.
UNSEEN_SECONDS = 600.0
_BY_ID = "CREATE INDEX IF NOT EXISTS points_by_id ON points (collection, id)"
_BY_AT = "CREATE INDEX IF NOT EXISTS points_by_at ON points (at)"
_PARTS = {"points", "unseen", "going", "points_by_id", "points_by_at"}
_LATEST = "SELECT coalesce(max(at), 0) FROM points"
# If the clock is behind the latest row, a new row is one microsecond after that row.
_AT = f"max(?, ({_LATEST}) + 1e-6)"
# Columns added later. Files without them are upgraded; older programs can still use the file.
_ADDED = {"kind": "TEXT NOT NULL DEFAULT 'left_out'", "became": "BLOB"}
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
WHERE {_WHICH} AND NOT (state = 'undone' AND id = ?) AND (kind = 'left_out' OR state IN ('pending', 'done'))
"""  # noqa: S608 - the text is above
# A stored point is read again before it is removed. If that read shows a point that was deleted before, it was stored anew. A deletion after the
# read can take effect at any moment.
_READING = f"UPDATE points SET state = 'pending' WHERE {_WHICH} AND state = 'superseded'"  # noqa: S608 - the same
# A point that was changed and then stored again becomes a removed point.
_REMOVING = f"""
UPDATE points SET state = 'done', at = {_AT}, survivor = ?, tier = ?, similarity = ?, kind = 'removed', became = NULL
WHERE {_WHICH} AND state IN ('pending', 'done')
"""  # noqa: S608 - the same
# During the removal the point may have been deleted and stored anew, or restored.
_REMOVED = f"UPDATE points SET state = 'doubted' WHERE {_WHICH} AND state IN ('superseded', 'undone')"  # noqa: S608 - the same
_NOT_CARRIED_OUT = f"UPDATE points SET state = ? WHERE {_WHICH} AND state = 'pending'"  # noqa: S608 - the same
_UNDONE = "UPDATE points SET state = 'undone' WHERE number = ?"
_OLDER = """
UPDATE points SET state = 'superseded' WHERE state IN ('done', 'doubted') AND EXISTS (
    SELECT 1 FROM points AS newer WHERE newer.number = ? AND CAST(newer.id AS TEXT) != 'null' AND newer.id = points.id AND newer.collection = points.collection
    AND newer.partition = points.partition AND (newer.at, newer.number) > (points.at, points.number))
"""
_BELIEVE = "UPDATE points SET state = 'done' WHERE number = ? AND state = 'doubted' AND at <= ?"
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
        run, lacking = self._connection.execute, self._lacks()
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        if lacking:
            with self._transaction():
                self._upgrade(self._lacks())  # another process may have done it in the meantime

    def _lacks(self) -> set[str]:
        """The parts and columns that this version added. Raises JournalError for a newer format."""
        run = self._connection.execute
        (version,) = run("PRAGMA user_version").fetchone()
        if version not in {0, FORMAT}:
            raise JournalError(
                f"{self._path}: saw a journal of format {version}, wanted {FORMAT}: a newer version wrote it"
            )
        parts = {name for (name,) in run("SELECT name FROM sqlite_master")}
        columns = {name for _, name, *_ in run("PRAGMA table_info(points)")}
        return (_PARTS - parts) | (_ADDED.keys() - columns)

    def _upgrade(self, lacking: set[str]) -> None:
        run = self._connection.execute
        for statement in (_SCHEMA, _UNSEEN, _DELETIONS, _BY_ID, _BY_AT):
            run(statement)
        for name in _ADDED.keys() & lacking:
            run(f"ALTER TABLE points ADD COLUMN {name} {_ADDED[name]}")
        run(f"PRAGMA user_version = {FORMAT}")

    def latest(self) -> float:
        """The place of the latest row; 0 without rows."""
        ((place,),) = self._queried(_LATEST, ())
        return float(place)

    def enter(self, points: Sequence[LeftOut], state: State, *, at: float) -> float:
        """Record points in one transaction. Returns the place before them."""
        rows = [
            (
                state,
                at,
                *point.key,
                point.id,
                point.survivor,
                point.tier,
                point.similarity,
                point.point,
                point.kind,
                point.became,
            )
            for point in points
        ]
        with self._transaction():
            place = self.latest()
            self._connection.executemany(_ENTER, rows)
        return place

    def settle(self, points: Sequence[LeftOut], state: State, *, at: float) -> None:
        """Set the final state of points. A state other than DONE is set only where they are still PENDING."""
        if state is not State.DONE:
            self._all((_NOT_CARRIED_OUT, [(state, *point.key) for point in points]))
            return
        outcomes = [(at, point.survivor, point.tier, point.similarity, point.kind, point.became) for point in points]
        self._all((_CARRIED_OUT, [(*row, *point.key, NO_ID) for row, point in zip(outcomes, points, strict=True)]))

    def reading(self, points: Sequence[LeftOut]) -> None:
        """Record that stored points are read again before their removal."""
        self._all((_READING, [point.key for point in points]))

    def removing(self, points: Sequence[LeftOut], *, at: float, steady: float) -> frozenset[bytes]:
        """Mark stored points DONE before they are removed. Returns the ids that may be removed. ``steady``: of the machine's steady clock."""
        question = f"SELECT id FROM points WHERE {_WHICH} AND state = 'done'"  # noqa: S608 - above
        with self._transaction():
            self._connection.executemany(
                _REMOVING, [(at, point.survivor, point.tier, point.similarity, *point.key) for point in points]
            )
            may = [point for point in points if self._queried(question, point.key)]
            self._connection.executemany(_DELETION_BEGUN, [(*_place(point), steady) for point in may])
            return frozenset(point.id for point in may)

    def removed(self, points: Sequence[LeftOut]) -> None:
        """Record that a removal has ended."""
        self._all((_REMOVED, [point.key for point in points]), (_DELETION_ENDED, [_place(point) for point in points]))

    def deletions_begun(self, deletions: Sequence[Deletion], *, at: float) -> None:
        """Record deletions before they are sent. Until they end, `undo` restores nothing that they may affect. ``at``: of the machine's steady
        clock. A crash of the machine may lose these rows.
        """
        rows = [(*place, at) for place in _places(deletions)]
        with self._fenced():
            self._connection.execute("PRAGMA synchronous = NORMAL")
        try:
            self._all((_FORGET_DELETIONS, [(at - UNSEEN_SECONDS, at)]), (_DELETION_BEGUN, rows))
        finally:
            with self._fenced():
                self._connection.execute("PRAGMA synchronous = FULL")

    def forget_deletions(self) -> None:
        """Forget all deletions: the processes that began them have ended."""
        self._all(("DELETE FROM going", [()]))

    def deletions_ended(self, deletions: Sequence[Deletion]) -> None:
        """Record that deletions have ended."""
        self._all((_DELETION_ENDED, _places(deletions)))

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

    def supersede(self, deletions: Sequence[Deletion], *, until: float) -> None:
        """Mark points that clients deleted: `undo` does not restore their rows up to this place, the one before the deletions."""
        self._mark(State.SUPERSEDED, deletions, _OLD, until)
        self._mark(State.SUPERSEDED, deletions, _STORED_BEFORE)

    def outdate(self, newer: Sequence[Deletion], *, until: float) -> None:
        """Mark points that clients stored anew: `undo` does not restore what was left out under their ids."""
        self._mark(State.SUPERSEDED, newer, _OLD, until)

    def doubt(self, deletions: Sequence[Deletion], *, until: float | None = None) -> list[int]:
        """Mark points that clients may be deleting: `undo` restores them only on request. ``until``: None for all rows. Returns the newly marked."""
        return [
            *self._mark(State.DOUBTED, deletions, _LEFT_OUT, until),
            *self._mark(State.DOUBTED, deletions, _STORED),
        ]

    def believe(self, numbers: Iterable[int], *, until: float) -> None:
        """Clear the doubt about rows: the database refused the deletion."""
        self._all((_BELIEVE, [(number, until) for number in numbers]))

    def _mark(self, state: State, deletions: Sequence[Deletion], which: str, until: float | None = None) -> list[int]:
        """Returns the numbers of the rows that get this state. Without rows the file is not locked."""
        if until is not None:
            which = f"{which} AND at <= ?"
        values = () if until is None else (until,)
        numbers = [number for deletion in deletions for number in self._among(deletion, which, values)]
        if not numbers:
            return []
        # Another worker may have marked them since.
        statement = f"UPDATE points SET state = ? WHERE number = ? AND {which}"  # noqa: S608 - values are bound
        with self._transaction():
            run = self._connection.execute
            return [number for number in numbers if run(statement, (state, number, *values)).rowcount]

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
        where, chosen = _restorable(also, steady)
        return self._heads(where, chosen, collection, since, ids)

    def doubted(
        self, *, collection: str | None, since: float, ids: Sequence[bytes] | None, steady: float | None
    ) -> int:
        """How many points clients may have deleted. ``steady``: as in `heads`."""
        where, values = "state = 'doubted'", list[object]()
        if steady is not None:
            where, values = f"({where} OR state = 'done' AND {_IS_BEING_DELETED})", [steady - UNSEEN_SECONDS]
        return len(self._heads(where, values, collection, since, ids))

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

    def left_out(self, *, collection: str | None = None, since: float = 0.0, id: bytes | None = None) -> list[Row]:  # noqa: A002 - as the option
        """The points that are DONE, oldest first. ``id``: JSON."""
        heads = self.heads(collection=collection, since=since, ids=None if id is None else [id])
        return [row for some in _parts(heads) for row in self.rows([head.number for head in some])]

    def _queried(self, question: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        with self._fenced():
            return self._connection.execute(question, values).fetchall()

    def close(self) -> None:
        self._connection.close()

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
    if steady is None or State.DOUBTED in also:
        return where, [State.DONE, *also]
    return f"{where} AND NOT {_IS_BEING_DELETED}", [State.DONE, *also, steady - UNSEEN_SECONDS]


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
