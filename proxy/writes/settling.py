"""Settles a changed write after the database's answer: verifies left out points, updates the journal, emits events, removes replaced points.

Other clients may write between verdict and answer. A point stays left out only if, after the rest of its write was stored, its original is unchanged
and nothing is stored under its id. Otherwise it is sent, in the client's bytes. A stored point is removed only if it is unchanged since the verdict.
"""

from __future__ import annotations

import json
import logging
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial

from msgspec import Raw

from vecsieve.adapters.contract import DeclinedError, MalformedReplyError, NativeAnswer, Operation
from vecsieve.adapters.writes import Deletion, LeavesPointsOut, MergesPoints, NewPoints, Receipt, WriteAdapter

from ..runtime.loop import LongWork, Owner
from ..search.errors import FailureKind, UpstreamExchangeError, first_success
from ..search.exchange import WriteQuestioner
from ..search.policy import ResolvedPolicy
from ..search.service import ProcessServices
from ..telemetry.labels import PointResult
from .events import EventName, EventPoint, Feed
from .journal import Journal
from .plans import event_of
from .reads import Reads
from .rows import JournalError, Kind, LeftOut, State, new_number

LOGGER = logging.getLogger("vecsieve.writes")


class Room:
    """The bytes of writes that the gates of a process have reserved. One write always has room."""

    __slots__ = ("_limit", "_used")

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._used = 0

    def take(self, size: int) -> bool:
        """Reserve bytes until ``give``. False without room."""
        if self._used and self._used + size > self._limit:
            return False
        self._used += size
        return True

    def give(self, size: int) -> None:
        self._used -= size


@dataclass(frozen=True, slots=True)
class Shared:
    """Parts that the gates of a process share. ``work``: a separate thread, so that searches do not wait for bulk uploads; ``owner``: of what goes on
    without its client. Both are closed by the process.
    """

    room: Room
    work: LongWork
    journal: Journal | None
    feed: Feed
    owner: Owner


@dataclass(frozen=True, slots=True)
class Removal:
    """Replaced stored points. ``victims``: by id, as they were read. ``points``: the write that replaces them."""

    verbs: MergesPoints
    points: NewPoints
    victims: Mapping[bytes, bytes]

    def after(self, receipt: Receipt | None, rows: Sequence[LeftOut]) -> Removal | None:
        """Without the points whose survivors the database did not store; None if no point is left."""
        failed = {self.points.ids[row] for row in receipt.failed} if receipt is not None else set()
        spared = {row.id for row in rows if row.survivor in failed}
        left = {identifier: point for identifier, point in self.victims.items() if identifier not in spared}
        return replace(self, victims=left) if left else None


@dataclass(frozen=True, slots=True)
class Change:
    """The change of a judged write. ``body``: None for the unchanged write, or for nothing, if there is an ``answer`` for the client. ``stored``: the
    ids of its stored points. ``place``: their collection and partition, None if the journal does not follow them. ``since``: the place in the journal
    before it; None if it supersedes nothing. ``left_out``: its rows. ``removal``: begun when the write was carried out. ``receipt_of``:
    reads the database's answer; None if the client gets that. ``left_out_places``: in the order of ``left_out``. ``points``: the whole write.
    ``originals``: by id the stored points of which others are copies.
    """

    body: bytes | None = None
    answer: NativeAnswer | None = None
    stored: tuple[bytes, ...] = ()
    place: tuple[str, bytes] | None = None
    since: float | None = None
    left_out: tuple[LeftOut, ...] = ()
    removal: Removal | None = None
    receipt_of: Callable[[bytes], Receipt] | None = None
    left_out_places: tuple[int, ...] = ()
    points: NewPoints | None = None
    originals: Mapping[bytes, bytes] = field(default_factory=dict)

    @property
    def removed(self) -> list[LeftOut]:
        """The stored points that are removed."""
        return [row for row in self.left_out if row.kind == Kind.REMOVED]

    def places(self) -> list[tuple[LeftOut, int]]:
        """The points that were left out, with their places in the write."""
        return list(zip([row for row in self.left_out if row.kind == Kind.LEFT_OUT], self.left_out_places, strict=True))

    def lost(self, receipt: Receipt | None) -> list[LeftOut]:
        """Left out points whose originals in the same write the database did not store."""
        refused = frozenset[int]() if receipt is None else receipt.refused
        return [row for row, place in self.places() if place in refused]


class Settling:
    """Of one transport. ``fell``: counts why a step failed."""

    def __init__(
        self,
        adapter: WriteAdapter,
        services: ProcessServices,
        shared: Shared,
        *,
        reads: Reads,
        fell: Callable[[Exception], None],
    ) -> None:
        self._adapter = adapter
        self._services = services
        self._owner = shared.owner
        self._journal = shared.journal
        self._feed = shared.feed
        self._reads = reads
        self._fell = fell
        settled = services.metrics.write_points_settled_total
        self._settled = {result: settled.labels(result) for result in PointResult}

    def answer(self, change: Change, body: bytes) -> Receipt | None:
        """The receipt of a successful answer to a changed write; None for a refusal, which the client gets unchanged."""
        try:
            receipt = Receipt(body=body) if change.receipt_of is None else change.receipt_of(body)
            return receipt if change.body is not None else replace(receipt, body=body)
        except DeclinedError:
            return None
        except MalformedReplyError:
            LOGGER.warning("the answer to a write cannot be read: the client gets it as it is")
            return Receipt(body=body, is_read=False)

    @asynccontextmanager
    async def ending(self, change: Change) -> AsyncIterator[None]:
        """Settle a write, however it ends: what is not DONE by then was not acknowledged."""
        try:
            yield
        finally:
            if self._journal is not None and change.left_out:
                await self._journal.drop(change.left_out)

    async def settle(
        self,
        change: Change,
        exchange: WriteQuestioner,
        policy: ResolvedPolicy,
        *,
        is_success: bool,
        receipt: Receipt | None = None,
    ) -> Change:
        """Record the database's answer and remove replaced points, before the client is answered. Returns the final change. ``receipt``: by
        `answer`. Raises UpstreamExchangeError if the write must not be acknowledged.
        """
        if is_success and change.left_out_places:
            change = await self._looked_again(change, receipt, exchange, policy)
        removal = None
        if is_success and change.removal is not None:
            is_read = receipt is None or receipt.is_read
            removal = change.removal.after(receipt, change.removed) if is_read else None
        if self._journal is not None and is_success and change.left_out:
            lost = [*change.lost(receipt), *change.removed]
            try:
                await self._journal.settle([row for row in change.left_out if row not in lost], State.DONE)
            except (JournalError, TimeoutError):
                LOGGER.warning("the journal cannot be written: a write is not acknowledged")
                raise _not_stored("the journal cannot be written") from None
        if is_success:
            await self._supersede(change, receipt)
            self.emit_stored(change, exchange.operation)
        if removal is not None:
            await self._owner.to_the_end(self._removed(removal, change.removed, exchange, policy))
        return change

    async def _looked_again(
        self, change: Change, receipt: Receipt | None, exchange: WriteQuestioner, policy: ResolvedPolicy
    ) -> Change:
        """Send left out points that must be stored after all; they count as stored."""
        late = await self._late(change, receipt, exchange, policy)
        if not late:
            return change
        await self._sent(change, late, exchange, policy)
        places = {place for _, place in late}
        others = [row for row in change.left_out if row.kind != Kind.LEFT_OUT]
        kept = [(row, place) for row, place in change.places() if place not in places]
        return replace(
            change,
            stored=(*change.stored, *(row.id for row, _ in late)),
            left_out=(*others, *(row for row, _ in kept)),
            left_out_places=tuple([place for _, place in kept]),
        )

    async def _supersede(self, change: Change, receipt: Receipt | None) -> None:
        """Mark older rows of the stored ids as superseded."""
        if self._journal is None or change.place is None or change.since is None:
            return
        is_whole = receipt is None or (receipt.is_read and not receipt.failed)
        lost = change.lost(receipt)
        skipped = [row.id for row in change.left_out if row.kind == Kind.LEFT_OUT and row not in lost]
        ids = (*(change.stored if is_whole else ()), *skipped)
        if not ids:
            return
        collection, partition = change.place
        # Otherwise `undo` could restore older contents under ids that were freed since.
        with suppress(JournalError, TimeoutError):
            older = [Deletion(collection=collection, partition=partition, ids=ids)]
            await self._journal.outdate(older, until=change.since)

    async def _late(
        self, change: Change, receipt: Receipt | None, exchange: WriteQuestioner, policy: ResolvedPolicy
    ) -> list[tuple[LeftOut, int]]:
        """The left out points that must be stored after all, with their places. If the read fails: all with a stored original."""
        refused = change.lost(receipt)
        rows = [(row, place) for row, place in change.places() if row not in refused]
        journal, seconds = self._journal, policy.write.deadline_seconds
        if not rows or change.points is None or journal is None:
            return []

        async def look() -> list[tuple[LeftOut, int]]:
            now = await self._now(change, exchange, self._services.clock() + seconds)
            (first, _), ids = rows[0], [*change.originals, *(row.id for row, _ in rows)]
            unseen = await journal.unseen(first.collection, first.partition, ids)
            changed = {
                identifier
                for identifier, point in change.originals.items()
                if identifier in unseen or identifier not in now or json.loads(now[identifier]) != json.loads(point)
            }
            return [(row, place) for row, place in rows if row.survivor in changed or row.id in now or row.id in unseen]

        late = await first_success([look], self._fell)
        return [(row, place) for row, place in rows if row.survivor in change.originals] if late is None else late

    async def _now(self, change: Change, exchange: WriteQuestioner, until: float) -> Mapping[bytes, bytes]:
        """The current contents of the originals, and of the ids of left out points."""
        verbs, points = self._adapter, change.points
        assert isinstance(verbs, LeavesPointsOut) and points is not None  # noqa: S101, PT018 - they left points out
        skipped = [row.id for row, _ in change.places()] if points.has_ids else []
        ids = list(dict.fromkeys([*skipped, *change.originals]))
        questions = verbs.ask_stored(exchange.operation, points, ids, whole=True)
        bodies = await self._reads.answers(exchange, questions, until)
        return await self._reads.done(exchange, lambda: _stored_in(verbs, points, bodies), bodies)

    async def _sent(
        self, change: Change, late: Sequence[tuple[LeftOut, int]], exchange: WriteQuestioner, policy: ResolvedPolicy
    ) -> None:
        """Send these points once. Raises UpstreamExchangeError if the database did not store all of them."""
        verbs, points, journal = self._adapter, change.points, self._journal
        assert isinstance(verbs, LeavesPointsOut) and points is not None and journal is not None  # noqa: S101, PT018 - as above
        places = {place for _, place in late}
        others = [row for row in range(len(points.ids)) if row not in places]

        async def send() -> Receipt:
            if change.place is not None:
                await journal.note(*change.place, [row.id for row, _ in late])
            answer = await exchange.again(verbs.only(points, places), seconds=policy.write.deadline_seconds)
            return verbs.receipt(exchange.operation, points, dict.fromkeys(others), answer)

        receipt = await first_success([send], self._fell)
        if receipt is None or receipt.failed or not receipt.is_read:
            raise _not_stored("a point whose original was changed could not be stored")

    async def _removed(
        self, removal: Removal, rows: Sequence[LeftOut], exchange: WriteQuestioner, policy: ResolvedPolicy
    ) -> None:
        """Remove replaced points. A point that stays is a copy, no loss."""
        verbs, seconds, journal = removal.verbs, policy.write.deadline_seconds, self._journal
        assert journal is not None  # noqa: S101 - it has what is to be removed
        numbered = dict(enumerate(rows, new_number()))

        async def in_time() -> None:
            await journal.reading(rows)
            victims = await self._unchanged(removal, exchange, self._services.clock() + seconds)
            unseen = await journal.unseen(rows[0].collection, rows[0].partition, list(victims))
            ids = await journal.removing(
                {number: row for number, row in numbered.items() if row.id in victims and row.id not in unseen}
            )
            victims = {identifier: point for identifier, point in victims.items() if identifier in ids}
            until = self._services.clock() + seconds  # a limit for all of them, because the client waits
            for question in verbs.ask_removed(exchange.operation, removal.points, victims) if victims else ():
                if (left := until - self._services.clock()) <= 0.0:
                    raise TimeoutError
                verbs.removed(await exchange.ask(question, seconds=left))
            evicted = [event_of(row) for row in rows if row.id in ids]
            self._settled[PointResult.REMOVED].inc(len(evicted))
            self.emit(EventName.EVICTED, exchange.operation, evicted)

        try:
            await first_success([in_time], self._fell)
        finally:  # else `undo` would count it as pending
            await first_success([partial(journal.removed, numbered)], self._fell)

    async def _unchanged(self, removal: Removal, exchange: WriteQuestioner, until: float) -> Mapping[bytes, bytes]:
        """The points that are unchanged in a new read. Members may be in any order."""
        verbs, points, victims = removal.verbs, removal.points, removal.victims
        questions = verbs.ask_stored(exchange.operation, points, list(victims), whole=True)
        bodies = await self._reads.answers(exchange, questions, until)

        def same() -> Mapping[bytes, bytes]:
            now = _stored_in(verbs, points, bodies)
            return {
                identifier: point
                for identifier, point in victims.items()
                if identifier in now and json.loads(now[identifier]) == json.loads(point)
            }

        return await self._reads.done(exchange, same, bodies)

    def emit_stored(self, change: Change, write: Operation) -> None:
        """Count and emit the points of a write that was carried out."""
        rows = change.left_out
        skipped = [event_of(row) for row in rows if row.kind == Kind.LEFT_OUT]
        merged = {row.survivor for row in rows if row.kind != Kind.LEFT_OUT}
        added = [identifier for identifier in change.stored if identifier not in merged]
        self._settled[PointResult.ADDED].inc(len(added))
        self._settled[PointResult.LEFT_OUT].inc(len(skipped))
        self._settled[PointResult.MERGED].inc(len(merged))
        if rows or self._feed.is_heard:
            self.emit(
                EventName.ADDED, write, [EventPoint(id=Raw(point_id)) for point_id in added], is_logged=bool(rows)
            )
        self.emit(EventName.SKIPPED, write, skipped)
        self.emit(EventName.MERGED, write, [EventPoint(id=Raw(point_id)) for point_id in sorted(merged)])

    def emit(self, name: EventName, write: Operation, points: Sequence[EventPoint], *, is_logged: bool = True) -> None:
        """Emit an event; its line in the log has only numbers."""
        if not points:
            return
        if is_logged:
            LOGGER.info(name.value, extra={"fields": {"points": len(points)}})
        if self._feed.is_heard:
            self._feed.emit(name, write.collection, points)


class ChangedWrite:
    """A judged write that is being sent. ``body``: replaces the client's; None: unchanged. ``is_edited``: whether the client's answer may differ
    from the database's.
    """

    __slots__ = ("_change", "_exchange", "_is_declined", "_policy", "_receipt", "_settling", "body", "is_edited")

    def __init__(self, settling: Settling, change: Change, exchange: WriteQuestioner, policy: ResolvedPolicy) -> None:
        self._settling = settling
        self._change = change
        self._exchange = exchange
        self._policy = policy
        self.body = change.body
        self.is_edited = change.receipt_of is not None
        # Until the answer was read: it may be too large, or coded.
        self._receipt = Receipt(body=b"", is_read=False) if self.is_edited else None
        self._is_declined = False

    def edited(self, body: bytes) -> bytes:
        """The client's answer, from the database's success."""
        receipt = self._settling.answer(self._change, body)
        self._is_declined, self._receipt = receipt is None, receipt or self._receipt
        return body if receipt is None else receipt.body

    async def answered(self, status: int) -> None:
        """`settle`, by a status of HTTP."""
        await self.settle(is_success=200 <= status < 300)

    async def settle(self, *, is_success: bool) -> None:
        """Settle the write after the database's answer, before the client gets its own. Raises UpstreamExchangeError as `Settling.settle`."""
        is_success = is_success and not self._is_declined
        await self._settling.settle(
            self._change, self._exchange, self._policy, is_success=is_success, receipt=self._receipt
        )


def _stored_in(verbs: LeavesPointsOut, points: NewPoints, bodies: Sequence[bytes]) -> dict[bytes, bytes]:
    return {identifier: point for body in bodies for identifier, point in verbs.stored(points, body).items()}


def _not_stored(why: str) -> UpstreamExchangeError:
    return UpstreamExchangeError(FailureKind.RESET, why)
