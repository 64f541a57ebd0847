"""The journal of points that were left out of writes, deleted or changed: everything needed to store them as they were.

A SQLite file in WAL mode with ``synchronous=FULL``: a row is on disk when its transaction returns. A point has a row in state PENDING
before the rest of its write is sent; the row is settled after the database has answered, and before the client is answered. So every
acknowledged point is stored, or is DONE here. Rows that a killed process left PENDING were never acknowledged.

All work on the file is done in one thread beside the loop. Several processes may share the file.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from vecsieve.adapters.writes import Deletion

from ..runtime.loop import LongWork

FORMAT = 1
BUSY_SECONDS = 2.0  # seconds to wait for another process's transaction

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
# Ids of writes that reads may not show yet. Created by the first one.
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
ANY = b"*"  # instead of the ids of a write that was not parsed
# Seconds after which reads show a write: a queue of updates that takes longer is a database out of order.
UNSEEN_SECONDS = 600.0
_BY_ID = "CREATE INDEX IF NOT EXISTS points_by_id ON points (collection, id)"
# Added later: files without these columns get them, and programs that do not know them can still use the file.
_ADDED = {"kind": "TEXT NOT NULL DEFAULT 'left_out'", "became": "BLOB"}
# The same point again is the same row. A row that is DONE stays as it is until the new write was carried out too, and so does one that may have
# been deleted, unless it is stored by now; one that was restored or refused is left out again.
_ENTER = """
INSERT INTO points (state, at, collection, partition, hash, id, survivor, tier, similarity, point, kind, became)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (collection, partition, hash) DO UPDATE
SET state = excluded.state, at = excluded.at, survivor = excluded.survivor,
    tier = excluded.tier, similarity = excluded.similarity, kind = excluded.kind, became = excluded.became
WHERE state NOT IN ('done', 'doubted') OR (state = 'doubted' AND excluded.kind != 'left_out') OR excluded.state = 'done'
"""
_WHICH = "collection = ? AND partition = ? AND hash = ?"
# Two writes may share a row, for example if both are copies of one stored point. The write that was carried out decides the state and the
# survivor, whatever became of the other. A restored point without an id stays UNDONE: a second restore would store it twice. A changed point that
# a client deleted meanwhile is that client's: it does not become DONE.
_CARRIED_OUT = f"""
UPDATE points SET state = 'done', at = ?, survivor = ?, tier = ?, similarity = ?, kind = ?, became = ?
WHERE {_WHICH} AND NOT (state = 'undone' AND id = ?) AND (kind = 'left_out' OR state IN ('pending', 'done'))
"""  # noqa: S608 - the text is above
# A stored point is read right before it is removed: one that was deleted is stored anew by then. One in doubt may be gone the next moment.
_REMOVING = f"UPDATE points SET state = 'done', at = ? WHERE {_WHICH} AND state IN ('pending', 'done', 'superseded')"  # noqa: S608 - the same
# It may have been deleted, and stored anew, while it was removed.
_REMOVED = f"UPDATE points SET state = 'doubted' WHERE {_WHICH} AND state = 'superseded'"  # noqa: S608 - the same
_NOT_CARRIED_OUT = f"UPDATE points SET state = ? WHERE {_WHICH} AND state = 'pending'"  # noqa: S608 - the same
_OLDER = """
UPDATE points SET state = 'superseded' WHERE state IN ('done', 'doubted') AND EXISTS (
    SELECT 1 FROM points AS newer WHERE newer.number = ? AND CAST(newer.id AS TEXT) != 'null' AND newer.id = points.id AND newer.collection = points.collection
    AND newer.partition = points.partition AND (newer.at, newer.number) > (points.at, points.number))
"""
# Rows that a deletion of a client concerns: what was left out before it, and what was stored, though it was removed or changed while the deletion was
# under way. And those that a later write of their ids concerns: a point that was removed is not restored over another.
_LEFT_OUT = "at < ? AND kind = 'left_out'"
_STORED = "at < ? AND kind != 'left_out'"
_OLD = f"{_LEFT_OUT} AND state IN ('done', 'doubted', 'rejected')"
_COLUMNS = "number, at, collection, partition, id, survivor, tier, similarity, point, kind, became"
_HEAD = "number, collection, partition, id, length(point), kind"
_MOST = 1000  # rows that are read at once: the number of values that an SQL statement accepts everywhere


NO_ID = b"null"  # of a point whose id the database would have created


class JournalError(Exception):
    """The file cannot be read or written. The message contains no content."""


class State(StrEnum):
    PENDING = "pending"  # the database has not answered
    DONE = "done"  # the client was told that it is stored, or soon will be
    REFUSED = "refused"  # the database refused the rest of the write
    UNDONE = "undone"  # it was stored after all
    REJECTED = "rejected"  # VecSieve refused the write and told the client
    SUPERSEDED = "superseded"  # a later content of its id was stored, or a client deleted it
    DOUBTED = "doubted"  # a client may have deleted it


class Kind(StrEnum):
    LEFT_OUT = "left_out"  # it is not stored
    REMOVED = "removed"  # it was stored, until a new point replaced it or a sweep deleted it
    CHANGED = "changed"  # it was stored, but changed


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A point that is not stored. ``partition``: the part of the collection that the write named, in its spelling, b"" without one. ``id``,
    ``survivor``: JSON. ``point``: in the form that the backend accepts; the client's own bytes, unless it was stored. ``became``: what is
    stored in place of a changed point, None for others.
    """

    collection: str
    partition: bytes
    id: bytes
    survivor: bytes
    tier: str
    similarity: float
    point: bytes
    kind: Kind = Kind.LEFT_OUT
    became: bytes | None = None

    @property
    def hash(self) -> bytes:
        """Of the content; rows with equal hashes are the same point."""
        return blake2b(self.point, digest_size=16).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(LeftOut):
    """A point in the journal. ``at``: seconds since the epoch."""

    number: int
    at: float


@dataclass(frozen=True, slots=True)
class Head:
    """The description of a row, without its content. ``size``: bytes of the content."""

    number: int
    collection: str
    partition: bytes
    id: bytes
    size: int
    kind: Kind


class Book:
    """The file. Not for the event loop. Raises JournalError."""

    def __init__(self, path: Path, *, must_exist: bool = False) -> None:
        if must_exist and not path.is_file():
            raise JournalError(f"there is no journal at {path}")
        _made_private(path)
        self._connection = _fenced(lambda: sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None))
        _fenced(self._prepare)

    def _prepare(self) -> None:
        run = self._connection.execute
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        (found,) = run("PRAGMA user_version").fetchone()
        if found not in {0, FORMAT}:
            raise JournalError(f"the journal has format {found}, wanted {FORMAT}")
        missing = _ADDED.keys() - {name for _, name, *_ in run("PRAGMA table_info(points)")}
        if not missing:
            return
        run("BEGIN IMMEDIATE")
        run(_SCHEMA)
        run(_BY_ID)
        known = {
            name for _, name, *_ in run("PRAGMA table_info(points)")
        }  # another process may have added it in the meantime
        for name in _ADDED.keys() - known:
            run(f"ALTER TABLE points ADD COLUMN {name} {_ADDED[name]}")
        run(f"PRAGMA user_version = {FORMAT}")
        run("COMMIT")

    def enter(self, points: Sequence[LeftOut], state: State, *, at: float) -> None:
        """Record points in one transaction."""
        rows = [
            (
                state,
                at,
                each.collection,
                each.partition,
                each.hash,
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
        self._all(_ENTER, rows)

    def settle(self, points: Sequence[LeftOut], state: State, *, at: float) -> None:
        """Set the final state of points. A state other than DONE is set only where they are still PENDING."""
        keys = [_key(each) for each in points]
        if state is not State.DONE:
            self._all(_NOT_CARRIED_OUT, [(state, *key) for key in keys])
            return
        told = [(at, each.survivor, each.tier, each.similarity, each.kind, each.became) for each in points]
        self._all(_CARRIED_OUT, [(*row, *key, NO_ID) for row, key in zip(told, keys, strict=True)])

    def removing(self, points: Sequence[LeftOut], *, at: float) -> frozenset[bytes]:
        """Stored points that are about to be removed become DONE. Returns the ids of those that may be."""
        self._all(_REMOVING, [(at, *_key(each)) for each in points])
        question = f"SELECT id FROM points WHERE {_WHICH} AND state = 'done'"  # noqa: S608 - above
        return frozenset(identifier for each in points for (identifier,) in self._found(question, _key(each)))

    def removed(self, points: Sequence[LeftOut]) -> None:
        """They are removed."""
        self._all(_REMOVED, [_key(each) for each in points])

    def note(self, collection: str, partition: bytes, ids: Sequence[bytes], *, at: float) -> None:
        """Remember ids whose write reads may not show yet."""
        _fenced(lambda: self._connection.execute(_UNSEEN))
        self._all(_NOTE, [(collection, partition, each, at) for each in ids], first=(_FORGET, (at - UNSEEN_SECONDS,)))

    def unseen(self, collection: str, partition: bytes, ids: Sequence[bytes], *, at: float) -> frozenset[bytes]:
        """Those of these ids whose write reads may not show yet; all after a write that was not parsed."""
        _fenced(lambda: self._connection.execute(_UNSEEN))
        recent = "SELECT 1 FROM unseen WHERE collection = ? AND partition = ? AND id = ? AND at >= ?"
        if self._found(recent, [collection, b"", ANY, at - UNSEEN_SECONDS]):
            return frozenset(ids)
        found: set[bytes] = set()
        for start in range(0, len(ids), _MOST):
            some = ids[start : start + _MOST]
            question = (
                f"SELECT id FROM unseen WHERE collection = ? AND partition = ? AND at >= ? AND id IN ({_marks(some)})"  # noqa: S608 - values are bound
            )
            found.update(each for (each,) in self._found(question, [collection, partition, at - UNSEEN_SECONDS, *some]))
        return frozenset(found)

    def undone(self, numbers: Iterable[int]) -> None:
        """Mark points as stored, and older contents of their ids as superseded."""
        marked = [(number,) for number in numbers]
        self._all("UPDATE points SET state = 'undone' WHERE number = ?", marked)
        self._all(_OLDER, marked)

    def supersede(self, deletions: Iterable[Deletion], *, before: float, now: float) -> None:
        """Points that clients deleted: what the journal had of them before they began is not to be restored."""
        self._supersede(deletions, _OLD, before)
        self._supersede(deletions, f"{_STORED} AND state IN ('pending', 'done', 'doubted')", now)

    def outdate(self, newer: Iterable[Deletion], *, before: float) -> None:
        """Points that clients stored anew: the same of what was left out under their ids."""
        self._supersede(newer, _OLD, before)

    def _supersede(self, deletions: Iterable[Deletion], state: str, before: float) -> None:
        found = [each for deletion in deletions for each in self._among(deletion, state, before)]
        self._all("UPDATE points SET state = 'superseded' WHERE number = ?", found)

    def doubt(self, deletions: Iterable[Deletion], *, before: float, now: float) -> list[int]:
        """Points that clients may be deleting: restored only where the user asks for them. Returns which were not in doubt."""
        each = [*deletions]
        found = [row for one in each for row in self._among(one, f"{_LEFT_OUT} AND state = 'done'", before)]
        found += [row for one in each for row in self._among(one, f"{_STORED} AND state IN ('pending', 'done')", now)]
        self._all("UPDATE points SET state = 'doubted' WHERE number = ?", found)
        return [number for (number,) in found]

    def believe(self, numbers: Iterable[int], *, before: float) -> None:
        """These are not deleted: the database refused it."""
        where = "number = ? AND state = 'doubted' AND at < ?"
        self._all(f"UPDATE points SET state = 'done' WHERE {where}", [(number, before) for number in numbers])  # noqa: S608 - above

    def _among(self, deletion: Deletion, state: str, before: float) -> list[tuple[int]]:
        """The numbers of the rows in this state."""
        named = {"collection": deletion.collection, "partition": deletion.partition}
        given = {name: value for name, value in named.items() if value is not None}
        where = " AND ".join([*(f"{name} = ?" for name in given), state])
        question = f"SELECT number FROM points WHERE {where}"  # noqa: S608 - values are bound
        values = [*given.values(), before]
        if deletion.ids is None:
            return self._found(question, values)
        parts = [deletion.ids[start : start + _MOST] for start in range(0, len(deletion.ids), _MOST)]
        return [row for ids in parts for row in self._found(f"{question} AND id IN ({_marks(ids)})", [*values, *ids])]

    def heads(
        self,
        *,
        collection: str | None = None,
        since: float = 0.0,
        ids: Sequence[bytes] | None = None,
        also: Sequence[State] = (),
    ) -> list[Head]:
        """The points that are DONE, oldest first. ``ids``: JSON; None: all. ``also``: includes those in these states."""
        return self._heads((State.DONE, *also), collection, since, ids)

    def doubted(self, *, collection: str | None, since: float, ids: Sequence[bytes] | None) -> int:
        """How many points clients may have deleted."""
        return len(self._heads((State.DOUBTED,), collection, since, ids))

    def _heads(
        self, states: Sequence[State], collection: str | None, since: float, ids: Sequence[bytes] | None
    ) -> list[Head]:
        where = f"state IN ({_marks(states)}) AND at >= ?"
        chosen: list[object] = [*states, since]
        if collection is not None:
            where, chosen = where + " AND collection = ?", [*chosen, collection]
        if ids is not None:
            where, chosen = where + f" AND id IN ({_marks(ids)})", [*chosen, *ids]
        question = f"SELECT {_HEAD} FROM points WHERE {where} ORDER BY at, number"  # noqa: S608 - values are bound
        return [Head(*row) for row in self._found(question, chosen)]

    def rows(self, numbers: Sequence[int]) -> list[Row]:
        """These rows, oldest first."""
        question = f"SELECT {_COLUMNS} FROM points WHERE number IN ({_marks(numbers)}) ORDER BY at, number"  # noqa: S608 - the same
        names = _COLUMNS.split(", ")
        return [Row(**dict(zip(names, row, strict=True))) for row in self._found(question, numbers)]

    def left_out(self, *, collection: str | None = None, since: float = 0.0, id: bytes | None = None) -> list[Row]:  # noqa: A002 - as the option
        """The points that are DONE, oldest first. ``id``: JSON."""
        heads = self.heads(collection=collection, since=since, ids=None if id is None else [id])
        return [
            row for at in range(0, len(heads), _MOST) for row in self.rows([h.number for h in heads[at : at + _MOST]])
        ]

    def _found(self, question: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        return _fenced(lambda: self._connection.execute(question, values).fetchall())

    def close(self) -> None:
        self._connection.close()

    def _all(
        self, statement: str, rows: Sequence[Sequence[object]], *, first: tuple[str, Sequence[object]] | None = None
    ) -> None:
        """In one transaction; without rows nothing is locked. ``first``: a statement before these."""

        def run() -> None:
            if not rows and first is None:
                return
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                if first is not None:
                    self._connection.execute(*first)
                self._connection.executemany(statement, rows)
                self._connection.execute("COMMIT")
            except sqlite3.Error:
                self._connection.rollback()
                raise

        _fenced(run)


def _key(point: LeftOut) -> tuple[str, bytes, bytes]:
    return point.collection, point.partition, point.hash


def _made_private(path: Path) -> None:
    """Only the owner may read a new file, because it holds texts. SQLite gives its other files the same mode."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise JournalError(f"the journal cannot be opened: {type(error).__name__}") from None


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _fenced(work: Callable[[], T]) -> T:
    try:
        return work()
    except sqlite3.Error as error:
        raise JournalError(f"the journal cannot be used: {type(error).__name__}") from None


class Journal:
    """The file, for the event loop. Opened for the first point; ``now``: seconds since the epoch."""

    def __init__(self, path: Path, *, now: Callable[[], float]) -> None:
        self._path = path
        self.now = now
        self._work = LongWork()
        self._book: Book | None = None

    async def enter(self, points: Sequence[LeftOut], state: State) -> None:
        """Record points; they are on disk when this returns. Raises JournalError, or TimeoutError."""
        await self._work.run(partial(self._enter, points, state, self.now()))

    async def settle(self, points: Sequence[LeftOut], state: State) -> None:
        """Settle points; their state is on disk when this returns. Raises JournalError, or TimeoutError."""
        await self._work.run(partial(self._settle, points, state, self.now()))

    async def note(self, collection: str, partition: bytes, ids: Sequence[bytes]) -> None:
        """Remember ids whose write reads may not show yet. Raises JournalError, or TimeoutError."""
        await self._work.run(lambda: self._opened().note(collection, partition, ids, at=self.now()))

    async def unseen(self, collection: str, partition: bytes, ids: Sequence[bytes]) -> frozenset[bytes]:
        """Those of these ids whose write reads may not show yet. Raises JournalError, or TimeoutError."""
        return await self._work.run(lambda: self._opened().unseen(collection, partition, ids, at=self.now()))

    async def supersede(self, deletions: Sequence[Deletion], *, before: float) -> None:
        """As of the file; without one nothing. Raises JournalError, or TimeoutError."""
        await self._followed(lambda book: book.supersede(deletions, before=before, now=self.now()))

    async def outdate(self, newer: Sequence[Deletion], *, before: float) -> None:
        """As of the file. Raises JournalError, or TimeoutError."""
        await self._work.run(lambda: self._opened().outdate(newer, before=before))

    async def removing(self, points: Sequence[LeftOut]) -> frozenset[bytes]:
        """As of the file. Raises JournalError, or TimeoutError."""
        return await self._work.run(lambda: self._opened().removing(points, at=self.now()))

    async def removed(self, points: Sequence[LeftOut]) -> None:
        """As of the file. Raises JournalError, or TimeoutError."""
        await self._work.run(lambda: self._opened().removed(points))

    async def doubt(self, deletions: Sequence[Deletion], *, before: float) -> list[int]:
        """As of the file; without one nothing. Raises JournalError, or TimeoutError."""
        return await self._followed(lambda book: book.doubt(deletions, before=before, now=self.now())) or []

    async def _followed(self, work: Callable[[Book], T]) -> T | None:
        """Deletions make no file."""
        return await self._work.run(lambda: work(self._opened()) if self._path.is_file() else None)

    async def believe(self, numbers: Sequence[int], *, before: float) -> None:
        """As of the file. Raises JournalError, or TimeoutError."""
        await self._work.run(lambda: self._opened().believe(numbers, before=before))

    async def close(self) -> None:
        """Finish the work that was begun."""
        try:
            await self._work.run(self._closed)
        finally:
            self._work.close()

    def _enter(self, points: Sequence[LeftOut], state: State, at: float) -> None:
        self._opened().enter(points, state, at=at)

    def _settle(self, points: Sequence[LeftOut], state: State, at: float) -> None:
        self._opened().settle(points, state, at=at)

    def _opened(self) -> Book:
        if self._book is None:
            self._book = Book(self._path)
        return self._book

    def _closed(self) -> None:
        if self._book is not None:
            with closing(self._book):
                self._book = None
