"""Reports clients' deletions and partial updates to the journal. `vecsieve undo` does not restore what a client deleted, and nothing is left out or
removed because of points that reads still show.

A deletion is sent once, unchanged. While it is, the points that it may affect are in doubt. After the database's answer they are superseded, or in doubt
no more. If the answer is unknown, as after a kill, or a filter selected the points, the doubt stays and the user decides.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus

from vecsieve.adapters.base import Deletes
from vecsieve.adapters.contract import DeclinedError, MalformedReplyError, Operation, RequestHead
from vecsieve.adapters.writes import Deletion, LeavesPointsOut, MergesPoints, WriteAdapter

from ..search.errors import LostReplyError, RefusedReplyError
from ..search.exchange import WriteQuestioner
from ..telemetry.spans import Code
from .journal import Journal
from .reads import NotJudgedError, Reads
from .rows import ANY, EVERYWHERE, JournalError, new_number

LOGGER = logging.getLogger("vecsieve.writes")
# How long a deletion waits for the description of its collection.
DESCRIBED_SECONDS = 1.0
_REFUSALS = frozenset(
    {
        Code.INVALID_ARGUMENT,
        Code.PERMISSION_DENIED,
        Code.UNAUTHENTICATED,
        Code.FAILED_PRECONDITION,
        Code.UNIMPLEMENTED,
        Code.RESOURCE_EXHAUSTED,
    }
)


@dataclass(slots=True)
class Pending:
    """A deletion that is being sent. ``is_done``: whether the database deleted; None if unknown."""

    is_done: bool | None = False


class Deletions:
    """Of one transport."""

    def __init__(self, adapter: WriteAdapter, deletes: Deletes, reads: Reads, journal: Journal) -> None:
        self._adapter = adapter
        self._deletes = deletes
        self._reads = reads
        self._journal = journal

    def classify(self, head: RequestHead) -> Operation | None:
        """The deletion of a request; None for any other. Never raises."""
        return self._deletes.classify(head)

    def is_change(self, request: Operation) -> bool:
        """Whether a request only changes points."""
        return request.name in self._deletes.changes

    async def follows(self, exchange: WriteQuestioner, request: Operation, query: str) -> bool:
        """Whether the journal records a request. Changes that reads show at once are not recorded."""
        return not self.is_change(request) or await self._lags(exchange, query, None)

    async def _lags(self, exchange: WriteQuestioner, query: str, known: object | None) -> bool:
        """Whether reads may still show what a request deletes or changes."""
        if not isinstance(self._adapter, LeavesPointsOut):
            return False
        return not await self._reads.done(exchange, partial(self._adapter.shows_unread, query, exchange.plain, known))

    @asynccontextmanager
    async def followed(
        self, exchange: WriteQuestioner, body: bytes | None, *, query: str, now: float
    ) -> AsyncIterator[Pending]:
        """Record a deletion before it is sent, and its end, however that comes. ``body``: None if it is not read. ``query``: of its target.
        ``now``: of the process's clock.
        """
        known = None
        concerned = await self._reads.done(exchange, partial(self._deletes.of, exchange.operation, body, None))
        if not concerned:  # a batch of upserts
            yield Pending()
            return
        if self._deletes.is_described and body is not None:
            with suppress(NotJudgedError, LostReplyError, RefusedReplyError, MalformedReplyError, TimeoutError):
                known = await self._reads.known(exchange, now + DESCRIBED_SECONDS)
            concerned = await self._reads.done(exchange, partial(self._deletes.of, exchange.operation, body, known))
        deletions = [deletion for deletion in concerned if not deletion.is_change]
        number, place, pending = new_number(), None, Pending()
        try:
            try:
                place = await self._journal.deletions_begun(number, deletions)
            except (JournalError, TimeoutError):
                LOGGER.warning("the journal cannot be written: undo may restore what a client deletes")
            with suppress(JournalError, TimeoutError):
                if await self._lags(exchange, query, known):
                    await self._noted(concerned)
            pending.is_done = None
            yield pending
        finally:
            with suppress(JournalError, TimeoutError):  # its points stay in doubt
                await self._journal.deletions_ended(number, deletions, is_done=pending.is_done, place=place)

    async def _noted(self, deletions: Sequence[Deletion]) -> None:
        """Note ids whose old contents reads may still show: nothing is left out or removed because of them. A collection disappears at once."""
        for deletion in deletions:
            if deletion.ids is not None:
                partition = ANY if deletion.partition is None else deletion.partition
                await self._journal.note(deletion.collection or EVERYWHERE, partition, deletion.ids)
            elif deletion.partition is not None or not deletion.is_certain:
                await self._journal.note(deletion.collection or EVERYWHERE, deletion.partition or ANY, [ANY])

    def is_done(self, status: int, *, is_grpc: bool, body: bytes | None) -> bool | None:
        """Whether the database deleted; None if unknown. ``body``: of a success that may contain a refusal. A missing point counts as deleted."""
        if is_grpc:
            is_success, is_refusal = status in {Code.OK, Code.NOT_FOUND}, status in _REFUSALS
        else:
            is_success = 200 <= status < 300 or status == HTTPStatus.NOT_FOUND
            is_refusal = 400 <= status < 500
        if not is_success:
            return False if is_refusal else None
        if body is None or not isinstance(self._adapter, MergesPoints):
            return True
        try:
            self._adapter.removed(body)
        except DeclinedError:
            return False
        except MalformedReplyError:
            return None
        return True
