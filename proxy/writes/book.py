"""The journal's file. A SQLite file in WAL mode with ``synchronous=FULL``: a row is on disk when its transaction returns.

Rows have an order, that of their times: a row that is entered, or settled as DONE, comes behind all others, whatever the time of day. A place in this
order is the time of the row that was the latest: what is older than an event is told by its place, never by a clock.
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
from .rows import ANY, BUSY_SECONDS, EVERYWHERE, NO_ID, WANTED, Head, JournalError, LeftOut, Row, State

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
# Ids of writes that reads may not show yet. ``at``: seconds of the machine's steady clock, which no correction of the time moves.
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
# The machine was started since, or a version that took the time of day wrote them: from now on they count as written now.
_FROM_AHEAD = "UPDATE unseen SET at = ? WHERE at > ?"
# Ids that a client's deletion, or a removal by the gate, is about to delete: one row for each that has not ended. ``at``: as above.
_GOING = """
CREATE TABLE IF NOT EXISTS going (
    number INTEGER PRIMARY KEY,
    collection TEXT NOT NULL,
    partition BLOB NOT NULL,
    id BLOB NOT NULL,
    at REAL NOT NULL
)
"""
_GO = "INSERT INTO going (collection, partition, id, at) VALUES (?, ?, ?, ?)"
# Rows of equal ids are alike: which of them ends does not matter.
_GONE = """
DELETE FROM going WHERE number = (SELECT min(number) FROM going WHERE collection = ? AND partition = ? AND id = ?)
"""
_FORGOTTEN = "DELETE FROM going WHERE at < ? OR at > ?"
_IS_GOING = f"""EXISTS (
    SELECT 1 FROM going WHERE going.at >= ? AND going.collection IN (points.collection, '{EVERYWHERE}')
    AND going.partition IN (points.partition, CAST('{ANY.decode()}' AS BLOB)) AND going.id IN (points.id, CAST('{ANY.decode()}' AS BLOB)))
"""  # noqa: S608 - constants
MOST_GOING = 100  # ids of one deletion that are named; of more all of its collection count as going
# Seconds after which reads show a write: a queue of updates that takes longer is a database out of order.
UNSEEN_SECONDS = 600.0
_BY_ID = "CREATE INDEX IF NOT EXISTS points_by_id ON points (collection, id)"
_BY_AT = "CREATE INDEX IF NOT EXISTS points_by_at ON points (at)"
_PARTS = {"points", "unseen", "going", "points_by_id", "points_by_at"}
_LATEST = "SELECT coalesce(max(at), 0) FROM points"
# While the time of day is behind that of the latest row, a row comes a microsecond after that.
_AT = f"max(?, ({_LATEST}) + 1e-6)"
# Added later: files without these columns get them, and programs that do not know them can still use the file.
_ADDED = {"kind": "TEXT NOT NULL DEFAULT 'left_out'", "became": "BLOB"}
# The same point again is the same row. A row that is DONE stays as it is until the new write was carried out too, and so does one that may be being
# deleted: if it is stored, it stays so. One that was restored or refused is left out again.
_ENTER = f"""
INSERT INTO points (state, at, collection, partition, hash, id, survivor, tier, similarity, point, kind, became)
VALUES (?, {_AT}, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (collection, partition, hash) DO UPDATE
SET state = excluded.state, at = excluded.at, survivor = excluded.survivor,
    tier = excluded.tier, similarity = excluded.similarity, kind = excluded.kind, became = excluded.became
WHERE state NOT IN ('done', 'doubted') OR excluded.state = 'done'
"""  # noqa: S608 - the text is above
_WHICH = "collection = ? AND partition = ? AND hash = ?"
# Two writes may share a row, for example if both are copies of one stored point. The write that was carried out decides the state and the
# survivor, whatever became of the other. A restored point without an id stays UNDONE: a second restore would store it twice. A changed point that
# a client deleted meanwhile is that client's: it does not become DONE.
_CARRIED_OUT = f"""
UPDATE points SET state = 'done', at = {_AT}, survivor = ?, tier = ?, similarity = ?, kind = ?, became = ?
WHERE {_WHICH} AND NOT (state = 'undone' AND id = ?) AND (kind = 'left_out' OR state IN ('pending', 'done'))
"""  # noqa: S608 - the text is above
# A stored point is read once more before it is removed: one that was deleted before that read, and that it shows, was stored anew. One that is deleted
# after it may be gone the next moment.
_READING = f"UPDATE points SET state = 'pending' WHERE {_WHICH} AND state = 'superseded'"  # noqa: S608 - the same
# What was changed once, and stored again since, is removed now.
_REMOVING = f"""
UPDATE points SET state = 'done', at = {_AT}, survivor = ?, tier = ?, similarity = ?, kind = 'removed', became = NULL
WHERE {_WHICH} AND state IN ('pending', 'done')
"""  # noqa: S608 - the same
# It may have been deleted, and stored anew, or restored, while it was removed.
_REMOVED = f"UPDATE points SET state = 'doubted' WHERE {_WHICH} AND state IN ('superseded', 'undone')"  # noqa: S608 - the same
_NOT_CARRIED_OUT = f"UPDATE points SET state = ? WHERE {_WHICH} AND state = 'pending'"  # noqa: S608 - the same
_UNDONE = "UPDATE points SET state = 'undone' WHERE number = ?"
_OLDER = """
UPDATE points SET state = 'superseded' WHERE state IN ('done', 'doubted') AND EXISTS (
    SELECT 1 FROM points AS newer WHERE newer.number = ? AND CAST(newer.id AS TEXT) != 'null' AND newer.id = points.id AND newer.collection = points.collection
    AND newer.partition = points.partition AND (newer.at, newer.number) > (points.at, points.number))
"""
_BELIEVE = "UPDATE points SET state = 'done' WHERE number = ? AND state = 'doubted' AND at <= ?"
# Rows that a deletion of a client concerns: what was left out before it, and what was stored, though it was removed or changed while the deletion was
# under way. And those that a later write of their ids concerns: a point that was removed is not restored over another.
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
        _made_private(path)
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
        """False if the file was removed or replaced: what is written to it would be lost."""
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
        (found,) = run("PRAGMA user_version").fetchone()
        if found not in {0, FORMAT}:
            raise JournalError(
                f"{self._path}: saw a journal of format {found}, wanted {FORMAT}: a newer version wrote it"
            )
        parts = {name for (name,) in run("SELECT name FROM sqlite_master")}
        columns = {name for _, name, *_ in run("PRAGMA table_info(points)")}
        return (_PARTS - parts) | (_ADDED.keys() - columns)

    def _upgrade(self, lacking: set[str]) -> None:
        run = self._connection.execute
        for statement in (_SCHEMA, _UNSEEN, _GOING, _BY_ID, _BY_AT):
            run(statement)
        for name in _ADDED.keys() & lacking:
            run(f"ALTER TABLE points ADD COLUMN {name} {_ADDED[name]}")
        run(f"PRAGMA user_version = {FORMAT}")

    def latest(self) -> float:
        """The place of the latest row: later rows come behind it. 0 without rows."""
        ((place,),) = self._found(_LATEST, ())
        return float(place)

    def enter(self, points: Sequence[LeftOut], state: State, *, at: float) -> float:
        """Record points in one transaction. Returns the place before them."""
        rows = [
            (
                state,
                at,
                *each.key,
                each.id,
                each.survivor,
                each.tier,
                each.similarity,
                each.point,
                each.kind,
                each.became,
            )
            for each in points
        ]
        with self._transaction():
            place = self.latest()
            self._connection.executemany(_ENTER, rows)
        return place

    def settle(self, points: Sequence[LeftOut], state: State, *, at: float) -> None:
        """Set the final state of points. A state other than DONE is set only where they are still PENDING."""
        if state is not State.DONE:
            self._all((_NOT_CARRIED_OUT, [(state, *each.key) for each in points]))
            return
        told = [(at, each.survivor, each.tier, each.similarity, each.kind, each.became) for each in points]
        self._all((_CARRIED_OUT, [(*row, *each.key, NO_ID) for row, each in zip(told, points, strict=True)]))

    def reading(self, points: Sequence[LeftOut]) -> None:
        """Stored points that are to be removed are about to be read once more."""
        self._all((_READING, [each.key for each in points]))

    def removing(self, points: Sequence[LeftOut], *, at: float, steady: float) -> frozenset[bytes]:
        """Stored points that are about to be removed become DONE. Returns the ids of those that may be. ``steady``: of the machine's steady clock."""
        question = f"SELECT id FROM points WHERE {_WHICH} AND state = 'done'"  # noqa: S608 - above
        with self._transaction():
            self._connection.executemany(
                _REMOVING, [(at, each.survivor, each.tier, each.similarity, *each.key) for each in points]
            )
            may = [each for each in points if self._found(question, each.key)]
            self._connection.executemany(_GO, [(*_place(each), steady) for each in may])
            return frozenset(each.id for each in may)

    def removed(self, points: Sequence[LeftOut]) -> None:
        """They are removed."""
        self._all((_REMOVED, [each.key for each in points]), (_GONE, [_place(each) for each in points]))

    def go(self, deletions: Sequence[Deletion], *, at: float) -> None:
        """Deletions of clients are about to go out: until each has ended, `undo` restores nothing that they may concern. ``at``: of the machine's
        steady clock. After a crash of the machine these rows may be lost.
        """
        going = [(*place, at) for place in _places(deletions)]
        with self._fenced():
            self._connection.execute("PRAGMA synchronous = NORMAL")
        try:
            self._all((_FORGOTTEN, [(at - UNSEEN_SECONDS, at)]), (_GO, going))
        finally:
            with self._fenced():
                self._connection.execute("PRAGMA synchronous = FULL")

    def nothing_goes(self) -> None:
        """No deletion is under way: the processes that began them are gone."""
        self._all(("DELETE FROM going", [()]))

    def gone(self, deletions: Sequence[Deletion]) -> None:
        """They have ended."""
        self._all((_GONE, _places(deletions)))

    def note(self, collection: str, partition: bytes, ids: Sequence[bytes], *, at: float) -> None:
        """Remember ids whose write reads may not show yet. ``at``: of the machine's steady clock."""
        noted = [(collection, partition, each, at) for each in ids]
        self._all((_FROM_AHEAD, [(at, at)]), (_FORGET, [(at - UNSEEN_SECONDS,)]), (_NOTE, noted))

    def unseen(self, collection: str, partition: bytes, ids: Sequence[bytes], *, at: float) -> frozenset[bytes]:
        """Those of these ids whose write reads may not show yet; all after a write that was not parsed. ``at``: of the machine's steady clock."""
        where = "collection IN (?, ?) AND partition IN (?, ?) AND at >= ?"
        values = [collection, EVERYWHERE, partition, ANY, at - UNSEEN_SECONDS]
        found: set[bytes] = set()
        for some in _parts(ids):
            question = f"SELECT id FROM unseen WHERE {where} AND id IN (?, {_marks(some)})"  # noqa: S608 - values are bound
            found.update(each for (each,) in self._found(question, [*values, ANY, *some]))
        return frozenset(ids) if ANY in found else frozenset(found)

    def undone(self, numbers: Iterable[int]) -> None:
        """Mark points as stored, and older contents of their ids as superseded."""
        marked = [(number,) for number in numbers]
        self._all((_UNDONE, marked), (_OLDER, marked))

    def supersede(self, deletions: Sequence[Deletion], *, until: float) -> None:
        """Points that clients deleted: what the journal had of them up to this place, before they began, is not to be restored."""
        self._mark(State.SUPERSEDED, deletions, _OLD, until)
        self._mark(State.SUPERSEDED, deletions, _STORED_BEFORE)

    def outdate(self, newer: Sequence[Deletion], *, until: float) -> None:
        """Points that clients stored anew: the same of what was left out under their ids."""
        self._mark(State.SUPERSEDED, newer, _OLD, until)

    def doubt(self, deletions: Sequence[Deletion], *, until: float | None = None) -> list[int]:
        """Points that clients may be deleting: restored only where the user asks for them. ``until``: a place, None for all rows. Returns which were
        not in doubt.
        """
        return [
            *self._mark(State.DOUBTED, deletions, _LEFT_OUT, until),
            *self._mark(State.DOUBTED, deletions, _STORED),
        ]

    def believe(self, numbers: Iterable[int], *, until: float) -> None:
        """These are not deleted: the database refused it."""
        self._all((_BELIEVE, [(number, until) for number in numbers]))

    def _mark(self, state: State, deletions: Sequence[Deletion], which: str, until: float | None = None) -> list[int]:
        """Returns the numbers of the rows that get this state. Without any nothing is locked."""
        if until is not None:
            which = f"{which} AND at <= ?"
        values = () if until is None else (until,)
        found = [number for deletion in deletions for number in self._among(deletion, which, values)]
        if not found:
            return []
        # Another worker may have marked them since.
        statement = f"UPDATE points SET state = ? WHERE number = ? AND {which}"  # noqa: S608 - values are bound
        with self._transaction():
            run = self._connection.execute
            return [number for number in found if run(statement, (state, number, *values)).rowcount]

    def _among(self, deletion: Deletion, which: str, values: Sequence[object]) -> list[int]:
        """The numbers of such rows."""
        named = {"collection": deletion.collection, "partition": deletion.partition}
        given = {name: value for name, value in named.items() if value is not None}
        where = " AND ".join([*(f"{name} = ?" for name in given), which])
        question = f"SELECT number FROM points WHERE {where}"  # noqa: S608 - values are bound
        bound = [*given.values(), *values]
        if deletion.ids is None:
            return [number for (number,) in self._found(question, bound)]
        found = [
            self._found(f"{question} AND id IN ({_marks(some)})", [*bound, *some]) for some in _parts(deletion.ids)
        ]
        return [number for rows in found for (number,) in rows]

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
        steady clock: what a deletion under way may concern is in doubt; None: no matter.
        """
        where, chosen = _restorable(also, steady)
        return self._heads(where, chosen, collection, since, ids)

    def doubted(
        self, *, collection: str | None, since: float, ids: Sequence[bytes] | None, steady: float | None
    ) -> int:
        """How many points clients may have deleted. ``steady``: as in `heads`."""
        where, values = "state = 'doubted'", list[object]()
        if steady is not None:
            where, values = f"({where} OR state = 'done' AND {_IS_GOING})", [steady - UNSEEN_SECONDS]
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
        return [Head(*row) for row in self._found(question, chosen)]

    def rows(self, numbers: Sequence[int]) -> list[Row]:
        """These rows, oldest first."""
        return self._rows(numbers, "true", [])

    def restorable(self, numbers: Sequence[int], *, also: Sequence[State], steady: float | None) -> list[Row]:
        """Those of these rows that `heads` would list now, oldest first."""
        return self._rows(numbers, *_restorable(also, steady))

    def _rows(self, numbers: Sequence[int], which: str, values: Sequence[object]) -> list[Row]:
        where = f"number IN ({_marks(numbers)}) AND {which}"
        question = f"SELECT {_COLUMNS} FROM points WHERE {where} ORDER BY at, number"  # noqa: S608 - values are bound
        names = _COLUMNS.split(", ")
        return [Row(**dict(zip(names, row, strict=True))) for row in self._found(question, [*numbers, *values])]

    def left_out(self, *, collection: str | None = None, since: float = 0.0, id: bytes | None = None) -> list[Row]:  # noqa: A002 - as the option
        """The points that are DONE, oldest first. ``id``: JSON."""
        heads = self.heads(collection=collection, since=since, ids=None if id is None else [id])
        return [row for some in _parts(heads) for row in self.rows([head.number for head in some])]

    def _found(self, question: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        with self._fenced():
            return self._connection.execute(question, values).fetchall()

    def close(self) -> None:
        self._connection.close()

    def _all(self, *each: tuple[str, Sequence[Sequence[object]]]) -> None:
        """Statements, each with its rows, in one transaction; without rows nothing is locked."""
        if not any(rows for _, rows in each):
            return
        with self._transaction():
            for statement, rows in each:
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
            # SQLite's own words are about the file, those about statements name columns: neither shows a value.
            raise JournalError(f"{self._path}: saw {error}, {WANTED}") from None


def _restorable(also: Sequence[State], steady: float | None) -> tuple[str, list[object]]:
    """The condition of `Book.heads`, and its values."""
    where = f"state IN ({_marks((State.DONE, *also))})"
    if steady is None or State.DOUBTED in also:
        return where, [State.DONE, *also]
    return f"{where} AND NOT {_IS_GOING}", [State.DONE, *also, steady - UNSEEN_SECONDS]


def _place(point: LeftOut) -> tuple[str, bytes, bytes]:
    return point.collection, point.partition, point.id


def _places(deletions: Sequence[Deletion]) -> list[tuple[str, bytes, bytes]]:
    """The ids that deletions name, in any partition where none is named; ANY for those that name none, or very many."""
    return [
        (each.collection or EVERYWHERE, ANY if each.partition is None else each.partition, identifier)
        for each in deletions
        for identifier in (each.ids if each.ids is not None and len(each.ids) <= MOST_GOING else (ANY,))
    ]


def _made_private(path: Path) -> None:
    """Only the owner may read a new file, because it holds texts. SQLite gives its other files the same mode."""
    try:
        # Without O_NONBLOCK a pipe in its place would hold the thread for ever.
        handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_NONBLOCK, 0o600)
    except OSError as error:
        raise JournalError(f"{path}: saw {reason(error)}, {WANTED}") from None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise JournalError(f"{path}: saw no regular file, {WANTED}")
    finally:
        os.close(handle)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _parts(values: Sequence[T]) -> Iterator[Sequence[T]]:
    return (values[start : start + _MOST] for start in range(0, len(values), _MOST))
