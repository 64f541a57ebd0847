"""The journal of points that were left out of writes, deleted or changed, for the event loop: all data to restore them.

A point has a row in state PENDING before the rest of its write is sent; the row is settled after the database has answered, and before the client
is answered. So every acknowledged point is stored, or is DONE here. Rows that a killed process left PENDING were never acknowledged.

One thread beside the event loop does all work on the file. The workers of one proxy and jobs share the file. A second proxy is refused,
because its database may be another one.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from vecsieve.adapters.writes import Deletion

from ..runtime.loop import LongWork
from .rows import UNSEEN_SECONDS, JournalError, LeftOut, State

if TYPE_CHECKING:
    from .book import Book

LOGGER = logging.getLogger("vecsieve.journal")

T = TypeVar("T")


class Journal:
    """The file, for the event loop; opened at its first use. ``now``: seconds since the epoch, ``steady``: of the machine's steady clock. All but
    `close` raise JournalError, or TimeoutError.
    """

    def __init__(self, path: Path, *, now: Callable[[], float], steady: Callable[[], float] = time.monotonic) -> None:
        from .book import Book  # loads SQLite: 2 MB that a process without a journal does not need

        self._path, self._open = path, Book
        self._now, self._steady = now, steady
        self._work = LongWork()
        self._book: Book | None = None
        self._trouble = ""
        self._blind_until = -math.inf

    async def before(self, collection: str, partition: bytes, ids: Sequence[bytes]) -> float | None:
        """As in `Book`; None without a file. Creates no file."""
        return await self._followed(lambda book: book.before(collection, partition, ids))

    async def enter(self, points: Sequence[LeftOut], state: State) -> float:
        """Record points; they are on disk when this returns. Returns the place before them."""
        at = self._now()
        try:
            return await self._done(lambda book: book.enter(points, state, at=at))
        except (TimeoutError, asyncio.CancelledError):  # the thread may enter them all the same
            self._work.begin(lambda: self._opened().settle(points, State.REFUSED, at=at))
            raise

    async def settle(self, points: Sequence[LeftOut], state: State) -> None:
        """Settle points; their state is on disk when this returns."""
        at = self._now()
        await self._done(lambda book: book.settle(points, state, at=at))

    async def drop(self, points: Sequence[LeftOut]) -> None:
        """Settle points of a write that is not acknowledged, also if the waiter leaves."""
        with suppress(JournalError, TimeoutError):
            await self._ended(lambda book: book.settle(points, State.REFUSED, at=0.0))

    async def note(self, collection: str, partition: bytes, ids: Sequence[bytes]) -> None:
        """Remember ids whose write reads may not show yet, also if the waiter leaves. If that fails, all ids count as such for as long."""
        try:
            await self._logged(lambda: self._opened().note(collection, partition, ids, at=self._steady()), is_kept=True)
        except JournalError:
            self._blind_until = self._steady() + UNSEEN_SECONDS
            raise

    async def unseen(self, collection: str, partition: bytes, ids: Sequence[bytes]) -> frozenset[bytes]:
        """The ids whose writes reads may not show yet."""
        if self._steady() < self._blind_until:
            return frozenset(ids)
        return await self._logged(lambda: self._opened().unseen(collection, partition, ids, at=self._steady()))

    async def outdate(self, newer: Sequence[Deletion], *, until: float) -> None:
        """As in `Book`; nothing without a file."""
        await self._followed(lambda book: book.outdate(newer, until=until))

    async def reading(self, points: Sequence[LeftOut]) -> None:
        """As in `Book`."""
        await self._done(lambda book: book.reading(points))

    async def removing(self, numbered: Mapping[int, LeftOut]) -> frozenset[bytes]:
        """As in `Book`."""
        at, steady = self._now(), self._steady()
        return await self._done(lambda book: book.removing(numbered, at=at, steady=steady))

    async def removed(self, numbered: Mapping[int, LeftOut]) -> None:
        """As in `Book`, also if the waiter leaves."""
        await self._ended(lambda book: book.removed(numbered))

    async def deletions_begun(self, number: int, deletions: Sequence[Deletion]) -> float:
        """As in `Book`; 0 without a file."""
        return await self._followed(lambda book: book.deletions_begun(number, deletions, at=self._steady())) or 0.0

    async def deletions_ended(
        self, number: int, deletions: Sequence[Deletion], *, is_done: bool | None, place: float | None
    ) -> None:
        """As in `Book`, also if the waiter leaves; nothing without a file."""
        if self._path.is_file():
            await self._ended(lambda book: book.deletions_ended(number, deletions, is_done=is_done, place=place))

    async def close(self) -> None:
        """Finish the work that was begun."""
        try:
            await self._work.run(self._closed)
        finally:
            self._work.close()

    async def _done(self, work: Callable[[Book], T]) -> T:
        """Run work that writes: if it succeeds, trouble is over. A full disk can still be read, and rows settled that are none."""
        result = await self._logged(lambda: work(self._opened()))
        self._trouble = ""
        return result

    async def _ended(self, work: Callable[[Book], None]) -> None:
        """Record the end of what was begun, whether its beginning came into the file in time or not: behind it, and also if the waiter leaves."""
        await self._logged(lambda: work(self._opened()), is_kept=True)

    async def _followed(self, work: Callable[[Book], T]) -> T | None:
        """None without a file: nothing was left out yet. Creates no file."""
        return await self._logged(lambda: work(self._opened()) if self._path.is_file() else None)

    async def _logged(self, work: Callable[[], T], *, is_kept: bool = False) -> T:
        """Run work on the file. Logs a failure once."""
        try:
            return await self._work.run(work, is_kept=is_kept)
        except JournalError as error:
            if self._trouble != str(error):  # a full disk would fill the log with one line a write
                self._trouble = str(error)
                LOGGER.warning("the journal cannot be used: %s", error)
            raise

    def _opened(self) -> Book:
        if self._book is not None and not self._book.is_in_place:
            self._closed()
        if self._book is None:
            self._book = self._open(self._path)
        return self._book

    def _closed(self) -> None:
        if self._book is not None:
            with closing(self._book):
                self._book = None
