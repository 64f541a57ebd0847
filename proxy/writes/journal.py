"""The journal of points that were left out of writes, deleted or changed: everything needed to store them as they were.

A SQLite file in WAL mode with ``synchronous=FULL``: a row is on disk when its transaction returns. A point has a row in state PENDING
before the rest of its write is sent; the row is settled after the database has answered, and before the client is answered. So every
acknowledged point is stored, or is DONE here. Rows that a killed process left PENDING were never acknowledged.

All work on the file is done in one thread beside the loop. The workers of one proxy share the file, and jobs use it beside them; a
second proxy is refused, because its writes may be those of another database.
"""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from pathlib import Path
from typing import Any, TypeVar

from ..runtime.files import reason
from ..runtime.loop import LongWork

LOGGER = logging.getLogger("vecsieve.journal")
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
# Seconds after which reads show a write: a queue of updates that takes longer is a database out of order.
UNSEEN_SECONDS = 600.0
_BY_ID = "CREATE INDEX IF NOT EXISTS points_by_id ON points (collection, id)"
_BY_AT = "CREATE INDEX IF NOT EXISTS points_by_at ON points (at)"
_PARTS = {"points", "unseen", "points_by_id", "points_by_at"}
# Rows are in the order of their times: while the time of day is behind that of the latest row, a row comes a microsecond after that.
_AT = "max(?, (SELECT coalesce(max(at), 0) FROM points) + 1e-6)"
# Added later: files without these columns get them, and programs that do not know them can still use the file.
_ADDED = {"kind": "TEXT NOT NULL DEFAULT 'left_out'", "became": "BLOB"}
# The same point again is the same row. A row that is DONE stays as it is until the new write was carried out too; one that was restored or
# refused is left out again.
_ENTER = f"""
INSERT INTO points (state, at, collection, partition, hash, id, survivor, tier, similarity, point, kind, became)
VALUES (?, {_AT}, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (collection, partition, hash) DO UPDATE
SET state = excluded.state, at = excluded.at, survivor = excluded.survivor,
    tier = excluded.tier, similarity = excluded.similarity, kind = excluded.kind, became = excluded.became
WHERE state != 'done' OR excluded.state = 'done'
"""  # noqa: S608 - the text is above
_WHICH = "collection = ? AND partition = ? AND hash = ?"
# Two writes may share a row, for example if both are copies of one stored point. The write that was carried out decides the state and the
# survivor, whatever became of the other. A restored point without an id stays UNDONE: a second restore would store it twice.
_CARRIED_OUT = f"""
UPDATE points SET state = 'done', at = {_AT}, survivor = ?, tier = ?, similarity = ?, kind = ?, became = ?
WHERE {_WHICH} AND NOT (state = 'undone' AND id = ?)
"""  # noqa: S608 - the text is above
_NOT_CARRIED_OUT = f"UPDATE points SET state = ? WHERE {_WHICH} AND state = 'pending'"  # noqa: S608 - the same
_OLDER = """
UPDATE points SET state = 'superseded' WHERE state = 'done' AND EXISTS (
    SELECT 1 FROM points AS newer WHERE newer.number = ? AND CAST(newer.id AS TEXT) != 'null' AND newer.id = points.id AND newer.collection = points.collection
    AND newer.partition = points.partition AND (newer.at, newer.number) > (points.at, points.number))
"""
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
    SUPERSEDED = "superseded"  # a later content of its id was stored


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
        self._path = path
        _made_private(path)
        self._connection = self._fenced(lambda: sqlite3.connect(path, timeout=BUSY_SECONDS, isolation_level=None))
        try:
            self._fenced(self._prepare)
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
        if not lacking:
            return
        run("BEGIN IMMEDIATE")
        try:
            self._upgrade(self._lacks())  # another process may have done it in the meantime
            run("COMMIT")
        except sqlite3.Error:
            self._connection.rollback()
            raise

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
        for statement in (_SCHEMA, _UNSEEN, _BY_ID, _BY_AT):
            run(statement)
        for name in _ADDED.keys() & lacking:
            run(f"ALTER TABLE points ADD COLUMN {name} {_ADDED[name]}")
        run(f"PRAGMA user_version = {FORMAT}")

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
        keys = [(each.collection, each.partition, each.hash) for each in points]
        if state is not State.DONE:
            self._all(_NOT_CARRIED_OUT, [(state, *key) for key in keys])
            return
        told = [(at, each.survivor, each.tier, each.similarity, each.kind, each.became) for each in points]
        self._all(_CARRIED_OUT, [(*row, *key, NO_ID) for row, key in zip(told, keys, strict=True)])

    def note(self, collection: str, partition: bytes, ids: Sequence[bytes], *, at: float) -> None:
        """Remember ids whose write reads may not show yet. ``at``: of the machine's steady clock."""
        first = ((_FROM_AHEAD, (at, at)), (_FORGET, (at - UNSEEN_SECONDS,)))
        self._all(_NOTE, [(collection, partition, each, at) for each in ids], first=first)

    def unseen(self, collection: str, partition: bytes, ids: Sequence[bytes], *, at: float) -> frozenset[bytes]:
        """Those of these ids whose write reads may not show yet. ``at``: of the machine's steady clock."""
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

    def supersede(self, collection: str, partition: bytes, ids: Sequence[bytes]) -> None:
        """Contents of these ids were stored: what was left out under them before is not to be restored."""
        for start in range(0, len(ids), _MOST):
            some = ids[start : start + _MOST]
            where = f"collection = ? AND partition = ? AND state = 'done' AND id IN ({_marks(some)})"
            found = self._found(f"SELECT number FROM points WHERE {where}", [collection, partition, *some])  # noqa: S608 - values are bound
            if found:
                self._all("UPDATE points SET state = 'superseded' WHERE number = ?", found)

    def heads(
        self,
        *,
        collection: str | None = None,
        since: float = 0.0,
        ids: Sequence[bytes] | None = None,
        rejected: bool = False,
    ) -> list[Head]:
        """The points that are DONE, oldest first. ``ids``: JSON; None: all. ``rejected``: includes those of refused writes."""
        where, values = "(state = 'done' OR (? AND state = 'rejected')) AND at >= ?", [rejected, since]
        chosen: list[object] = [*values]
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
        return self._fenced(lambda: self._connection.execute(question, values).fetchall())

    def close(self) -> None:
        self._connection.close()

    def _all(
        self,
        statement: str,
        rows: Sequence[Sequence[object]],
        *,
        first: Sequence[tuple[str, Sequence[object]]] = (),
    ) -> None:
        """In one transaction. ``first``: statements before these."""

        def run() -> None:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                for each in first:
                    self._connection.execute(*each)
                self._connection.executemany(statement, rows)
                self._connection.execute("COMMIT")
            except sqlite3.Error:
                self._connection.rollback()
                raise

        self._fenced(run)

    def _fenced(self, work: Callable[[], T]) -> T:
        try:
            return work()
        except sqlite3.Error as error:
            # SQLite's own words are about the file, those about statements name columns: neither shows a value.
            raise JournalError(f"{self._path}: saw {error}, {WANTED}") from None


WANTED = "wanted a journal of VecSieve that this process may write, on a disk with room"


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


class Journal:
    """The file, for the event loop. Opened for the first point; ``now``: seconds since the epoch, ``steady``: of the machine's steady clock."""

    def __init__(self, path: Path, *, now: Callable[[], float], steady: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._now, self._steady = now, steady
        self._work = LongWork()
        self._book: Book | None = None
        self._trouble = ""

    async def enter(self, points: Sequence[LeftOut], state: State) -> None:
        """Record points; they are on disk when this returns. Raises JournalError, or TimeoutError."""
        at = self._now()
        await self._done(lambda book: book.enter(points, state, at=at))

    async def settle(self, points: Sequence[LeftOut], state: State) -> None:
        """Settle points; their state is on disk when this returns. Raises JournalError, or TimeoutError."""
        at = self._now()
        await self._done(lambda book: book.settle(points, state, at=at))

    async def note(self, collection: str, partition: bytes, ids: Sequence[bytes]) -> None:
        """Remember ids whose write reads may not show yet. Raises JournalError, or TimeoutError."""
        await self._done(lambda book: book.note(collection, partition, ids, at=self._steady()))

    async def unseen(self, collection: str, partition: bytes, ids: Sequence[bytes]) -> frozenset[bytes]:
        """Those of these ids whose write reads may not show yet. Raises JournalError, or TimeoutError."""
        return await self._done(lambda book: book.unseen(collection, partition, ids, at=self._steady()))

    async def supersede(self, collection: str, partition: bytes, ids: Sequence[bytes]) -> None:
        """As of the file. Raises JournalError, or TimeoutError."""
        await self._done(lambda book: book.supersede(collection, partition, ids))

    async def close(self) -> None:
        """Finish the work that was begun."""
        try:
            await self._work.run(self._closed)
        finally:
            self._work.close()

    async def _done(self, work: Callable[[Book], T]) -> T:
        try:
            found = await self._work.run(lambda: work(self._opened()))
        except JournalError as error:
            if self._trouble != str(error):  # a full disk would fill the log with one line a write
                self._trouble = str(error)
                LOGGER.warning("the journal cannot be used: %s", error)
            raise
        self._trouble = ""
        return found

    def _opened(self) -> Book:
        if self._book is not None and not self._book.is_in_place:
            self._closed()
        if self._book is None:
            self._book = Book(self._path)
        return self._book

    def _closed(self) -> None:
        if self._book is not None:
            with closing(self._book):
                self._book = None
