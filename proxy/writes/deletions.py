"""Deletions and partial updates of clients pass the gate, and the journal hears of them: what a client deleted, `vecsieve undo` does not bring
back, and for the sake of what reads show of them for a while nothing is left out or removed.

A deletion goes out once, unchanged. Before, what it may concern is in doubt; when the database has answered, that is superseded, or is as it was. Where
the answer is not known, as after a kill, or a filter chose, the doubt stays: the user decides.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress
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
from .rows import ANY, EVERYWHERE, JournalError

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


@dataclass(frozen=True, slots=True)
class Doubted:
    """What a deletion that goes out may concern. ``numbers``: of the rows that were not in doubt before; ``place``: the journal's before it,
    None where that is not known.
    """

    deletions: Sequence[Deletion]
    numbers: Sequence[int]
    place: float | None


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
        """Whether the journal must hear of a request: not of a change that reads show at once."""
        return not self.is_change(request) or await self._lags(exchange, query, None)

    async def _lags(self, exchange: WriteQuestioner, query: str, known: object | None) -> bool:
        """Whether reads may show for a while what a request deletes or changes."""
        if not isinstance(self._adapter, LeavesPointsOut):
            return False
        return not await self._reads.done(exchange, partial(self._adapter.shows_unread, query, exchange.plain, known))

    async def begun(self, exchange: WriteQuestioner, body: bytes | None, *, query: str, now: float) -> Doubted:
        """Before a deletion goes out. ``body``: None for one that is not read. ``query``: of its target. ``now``: of the process's clock."""
        known = None
        if self._deletes.is_described and body is not None:
            with suppress(NotJudgedError, LostReplyError, RefusedReplyError, MalformedReplyError, TimeoutError):
                known = await self._reads.known(exchange, now + DESCRIBED_SECONDS)
        concerned = await self._reads.done(exchange, partial(self._deletes.of, exchange.operation, body, known))
        deletions, place = [each for each in concerned if not each.is_change], None
        numbers: list[int] = []
        try:
            await self._journal.go(deletions)
            place = await self._journal.latest()
            numbers = await self._journal.doubt(deletions, until=place)
            if await self._lags(exchange, query, known):
                await self._noted(concerned)
        except (JournalError, TimeoutError):
            LOGGER.warning("the journal cannot be written: undo may restore what a client deletes")
        return Doubted(deletions, numbers, place)

    async def _noted(self, deletions: Sequence[Deletion]) -> None:
        """Reads may show for a while what was there before: nothing is left out or removed because of it. A collection itself goes at once."""
        for each in deletions:
            if each.ids is not None:
                partition = ANY if each.partition is None else each.partition
                await self._journal.note(each.collection or EVERYWHERE, partition, each.ids)
            elif each.partition is not None or not each.is_certain:
                await self._journal.note(each.collection or EVERYWHERE, each.partition or ANY, [ANY])

    def is_done(self, status: int, *, is_grpc: bool, body: bytes | None) -> bool | None:
        """Whether the database deleted; None for unknown. ``body``: of a success, where it may be a refusal. What is not there is deleted."""
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

    async def ended(self, doubted: Doubted, *, is_done: bool | None) -> None:
        """When the database has answered. ``is_done``: None for unknown."""
        with suppress(JournalError, TimeoutError):  # what is in doubt stays so
            await self._followed(doubted, is_done=is_done)
            await self._journal.gone(doubted.deletions)

    async def _followed(self, doubted: Doubted, *, is_done: bool | None) -> None:
        place = doubted.place
        if is_done is False:
            if place is not None:
                await self._journal.believe(doubted.numbers, until=place)
            return
        if is_done is None or place is None:
            # It may have been carried out at any moment until now, or which rows are older is not known: none is lost, none comes back.
            await self._journal.doubt(doubted.deletions)
            return
        certain = [each for each in doubted.deletions if each.is_certain]
        if certain:
            await self._journal.supersede(certain, until=place)
        others = [each for each in doubted.deletions if each not in certain]
        if others:
            # Points that were removed meanwhile, by a merge or a sweep.
            await self._journal.doubt(others, until=place)
