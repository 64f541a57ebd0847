"""The journal of points that were left out of writes: everything that is needed to store them as they came.

A file of SQLite in WAL mode with ``synchronous=FULL``: a row is on the disk when its transaction returns. A point has a row before the
rest of its write goes out, in state PENDING; the row is settled when the database has answered, and before the client is. So every
point that was acknowledged is stored, or is DONE here. What a process that was killed left PENDING was never acknowledged.

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
from typing import TypeVar

from vecsieve.proxy.process.runtime import LongWork

FORMAT = 1
BUSY_SECONDS = 2.0  # for another process's transaction

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
# The same point again is the same row. One that is DONE stays so; one that was restored, or refused, is left out anew.
_ENTER = """
INSERT INTO points (state, at, collection, partition, hash, id, survivor, tier, similarity, point)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (collection, partition, hash) DO UPDATE
SET state = excluded.state, at = excluded.at, survivor = excluded.survivor, tier = excluded.tier, similarity = excluded.similarity
WHERE state <> 'done'
"""
_COLUMNS = "number, at, collection, partition, id, survivor, tier, similarity, point"


class JournalError(Exception):
    """The file cannot be read or written. The message names no content."""


class State(StrEnum):
    PENDING = "pending"  # the database has not answered
    DONE = "done"  # the client was told that it is stored, or is about to be
    REFUSED = "refused"  # the database refused the rest of the write
    UNDONE = "undone"  # it was stored after all


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A point that is not stored. ``partition``: the part of the collection that the write named, as it spelled it, b"" without one.
    ``id``, ``survivor``: JSON. ``point``: the client's own bytes, as the backend takes a point.
    """

    collection: str
    partition: bytes
    id: bytes
    survivor: bytes
    tier: str
    similarity: float
    point: bytes

    @property
    def hash(self) -> bytes:
        """Of the content: what makes two rows the same point."""
        return blake2b(self.point, digest_size=16).digest()


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(LeftOut):
    """A point in the journal. ``at``: seconds since the epoch."""

    number: int
    at: float


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
        run(_SCHEMA)
        run(f"PRAGMA user_version = {FORMAT}")

    def enter(self, points: Sequence[LeftOut], state: State, *, at: float) -> None:
        """Write down points in one transaction."""
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
            )
            for each in points
        ]
        self._all(_ENTER, rows)

    def settle(self, points: Sequence[LeftOut], state: State) -> None:
        """Give points that are PENDING their state."""
        rows = [(state, each.collection, each.partition, each.hash) for each in points]
        where = "collection = ? AND partition = ? AND hash = ? AND state = 'pending'"
        self._all(f"UPDATE points SET state = ? WHERE {where}", rows)  # noqa: S608 - the text is above

    def undone(self, numbers: Iterable[int]) -> None:
        """These points were stored."""
        self._all("UPDATE points SET state = 'undone' WHERE number = ?", [(number,) for number in numbers])

    def left_out(self, *, collection: str | None = None, since: float = 0.0, id: bytes | None = None) -> list[Row]:  # noqa: A002 - as the option
        """The points that are DONE, the oldest first. ``id``: JSON."""
        where, values = "state = 'done' AND at >= ?", [since]
        chosen: list[object] = [*values]
        if collection is not None:
            where, chosen = where + " AND collection = ?", [*chosen, collection]
        if id is not None:
            where, chosen = where + " AND id = ?", [*chosen, id]
        question = f"SELECT {_COLUMNS} FROM points WHERE {where} ORDER BY number"  # noqa: S608 - values are bound
        found = _fenced(lambda: self._connection.execute(question, chosen).fetchall())
        names = _COLUMNS.split(", ")
        return [Row(**dict(zip(names, row, strict=True))) for row in found]

    def close(self) -> None:
        self._connection.close()

    def _all(self, statement: str, rows: Sequence[Sequence[object]]) -> None:
        def run() -> None:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                self._connection.executemany(statement, rows)
                self._connection.execute("COMMIT")
            except sqlite3.Error:
                self._connection.rollback()
                raise

        _fenced(run)


def _made_private(path: Path) -> None:
    """A new file is for its owner alone: it holds texts. SQLite gives its other files the same mode."""
    try:
        os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
    except OSError as error:
        raise JournalError(f"the journal cannot be opened: {type(error).__name__}") from None


def _fenced(work: Callable[[], T]) -> T:
    try:
        return work()
    except sqlite3.Error as error:
        raise JournalError(f"the journal cannot be used: {type(error).__name__}") from None


class Journal:
    """The file, for the event loop. It is opened with the first point; ``now``: seconds since the epoch."""

    def __init__(self, path: Path, *, now: Callable[[], float]) -> None:
        self._path = path
        self._now = now
        self._work = LongWork()
        self._book: Book | None = None

    async def enter(self, points: Sequence[LeftOut], state: State) -> None:
        """The points are on the disk when this returns. Raises JournalError, or TimeoutError."""
        await self._work.run(partial(self._enter, points, state, self._now()))

    async def settle(self, points: Sequence[LeftOut], state: State) -> None:
        """So is their state. Raises JournalError, or TimeoutError."""
        await self._work.run(partial(self._settle, points, state))

    async def close(self) -> None:
        """Finish what was begun."""
        try:
            await self._work.run(self._closed)
        finally:
            self._work.close()

    def _enter(self, points: Sequence[LeftOut], state: State, at: float) -> None:
        self._opened().enter(points, state, at=at)

    def _settle(self, points: Sequence[LeftOut], state: State) -> None:
        self._opened().settle(points, state)

    def _opened(self) -> Book:
        if self._book is None:
            self._book = Book(self._path)
        return self._book

    def _closed(self) -> None:
        if self._book is not None:
            with closing(self._book):
                self._book = None
