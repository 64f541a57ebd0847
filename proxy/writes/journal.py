"""The journal of points that were left out of writes, deleted or changed, for the event loop: all data to restore them.

A point has a row in state PENDING before the rest of its write is sent; the row is settled after the database has answered, and before the client
is answered. So every acknowledged point is stored, or is DONE here. Rows that a killed process left PENDING were never acknowledged.

One thread beside the event loop does all work on the file. The workers of one proxy and jobs share the file. A second proxy is refused,
because its database may be another one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from vecsieve.adapters.writes import Deletion

from ..runtime.loop import LongWork
from .rows import JournalError, LeftOut, State

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

    async def latest(self) -> float:
        """The place of the latest row; 0 without a file. Creates no file."""
        return await self._followed(lambda book: book.latest()) or 0.0

    async def enter(self, points: Sequence[LeftOut], state: State) -> float:
        """Record points; they are on disk when this returns. Returns the place before them."""
        at = self._now()
        return await self._done(lambda book: book.enter(points, state, at=at))

    async def settle(self, points: Sequence[LeftOut], state: State) -> None:
        """Settle points; their state is on disk when this returns."""
        at = self._now()
        await self._done(lambda book: book.settle(points, state, at=at))

    async def note(self, collection: str, partition: bytes, ids: Sequence[bytes]) -> None:
        """Remember ids whose write reads may not show yet."""
        await self._done(lambda book: book.note(collection, partition, ids, at=self._steady()))

    async def unseen(self, collection: str, partition: bytes, ids: Sequence[bytes]) -> frozenset[bytes]:
        """The ids whose writes reads may not show yet."""
        return await self._done(lambda book: book.unseen(collection, partition, ids, at=self._steady()))

    async def outdate(self, newer: Sequence[Deletion], *, until: float) -> None:
        """As in `Book`; nothing without a file."""
        await self._followed(lambda book: book.outdate(newer, until=until))

    async def reading(self, points: Sequence[LeftOut]) -> None:
        """As in `Book`."""
        await self._done(lambda book: book.reading(points))

    async def removing(self, points: Sequence[LeftOut]) -> frozenset[bytes]:
        """As in `Book`."""
        at, steady = self._now(), self._steady()
        return await self._done(lambda book: book.removing(points, at=at, steady=steady))

    async def removed(self, points: Sequence[LeftOut]) -> None:
        """As in `Book`."""
        await self._done(lambda book: book.removed(points))

    async def deletions_begun(self, deletions: Sequence[Deletion]) -> None:
        """As in `Book`; nothing without a file."""
        await self._followed(lambda book: book.deletions_begun(deletions, at=self._steady()))

    async def deletions_ended(self, deletions: Sequence[Deletion]) -> None:
        """As in `Book`; nothing without a file."""
        await self._followed(lambda book: book.deletions_ended(deletions))

    async def supersede(self, deletions: Sequence[Deletion], *, until: float) -> None:
        """As in `Book`; nothing without a file."""
        await self._followed(lambda book: book.supersede(deletions, until=until))

    async def doubt(self, deletions: Sequence[Deletion], *, until: float | None = None) -> list[int]:
        """As in `Book`; nothing without a file."""
        return await self._followed(lambda book: book.doubt(deletions, until=until)) or []

    async def believe(self, numbers: Sequence[int], *, until: float) -> None:
        """As in `Book`."""
        await self._done(lambda book: book.believe(numbers, until=until))

    async def close(self) -> None:
        """Finish the work that was begun."""
        try:
            await self._work.run(self._closed)
        finally:
            self._work.close()

    async def _done(self, work: Callable[[Book], T]) -> T:
        return await self._logged(lambda: work(self._opened()))

    async def _followed(self, work: Callable[[Book], T]) -> T | None:
        """None without a file: nothing was left out yet. Creates no file."""
        return await self._logged(lambda: work(self._opened()) if self._path.is_file() else None)

    async def _logged(self, work: Callable[[], T]) -> T:
        """Run work on the file. Logs a failure once."""
        try:
            result = await self._work.run(work)
        except JournalError as error:
            if self._trouble != str(error):  # a full disk would fill the log with one line a write
                self._trouble = str(error)
                LOGGER.warning("the journal cannot be used: %s", error)
            raise
        self._trouble = ""
        return result

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
