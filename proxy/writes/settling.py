"""What follows the database's answer to a changed write: what was left out is looked at again, written down, told, and what was replaced is removed.

Between verdict and answer other clients write. A point is left out only if, after the rest of its write was stored, its original still is as it was
judged, and nothing is stored under its own id; else it is sent after all, in the client's own bytes. A stored point is removed only if it still is as
it was judged.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial

from msgspec import Raw

from vecsieve.adapters.contract import DeclinedError, MalformedReplyError, NativeAnswer, Operation
from vecsieve.adapters.writes import Deletion, LeavesPointsOut, MergesPoints, NewPoints, Told, WriteAdapter

from ..runtime.loop import to_the_end
from ..search.errors import FailureKind, UpstreamExchangeError, first_success
from ..search.exchange import WriteQuestioner
from ..search.policy import ResolvedPolicy
from ..search.service import ProcessServices
from ..telemetry.labels import PointResult
from .events import EventName, EventPoint, Feed
from .journal import Journal
from .plans import told as event_of
from .reads import Reads
from .rows import JournalError, Kind, LeftOut, State

LOGGER = logging.getLogger("vecsieve.writes")


@dataclass(frozen=True, slots=True)
class Removal:
    """Stored points that others take the place of: by id as they were read, and what takes their place."""

    verbs: MergesPoints
    points: NewPoints
    victims: Mapping[bytes, bytes]

    def after(self, told: Told | None, rows: Sequence[LeftOut]) -> Removal | None:
        """Without the points whose survivors the database did not take; None where nothing is left to be removed."""
        failed = {self.points.ids[row] for row in told.failed} if told is not None else set()
        spared = {row.id for row in rows if row.kind == Kind.REMOVED and row.survivor in failed}
        left = {each: point for each, point in self.victims.items() if each not in spared}
        return replace(self, victims=left) if left else None


@dataclass(frozen=True, slots=True)
class Change:
    """What goes out in the place of a write that was judged. ``body``: None where that is the write as it came, or nothing: then the client
    gets ``answer``. ``stored``: the ids of the points that are then stored, ``place``: in this collection and partition, None where the journal
    does not follow them; ``since``: the place in the journal before it. ``doubted``: rows of the journal that it may supersede. ``left_out``: in the journal. ``removal``: begun when the write
    was carried out. ``told``: makes the client's answer of the database's; None where that is the client's. ``gone``: the places of the
    points that were left out, in the order of ``left_out``. ``points``: the whole write; ``originals``: by id the stored points for which others were left out.
    """

    body: bytes | None = None
    answer: NativeAnswer | None = None
    stored: tuple[bytes, ...] = ()
    place: tuple[str, bytes] | None = None
    since: float = 0.0
    doubted: tuple[int, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    removal: Removal | None = None
    told: Callable[[bytes], Told] | None = None
    gone: tuple[int, ...] = ()
    points: NewPoints | None = None
    originals: Mapping[bytes, bytes] = field(default_factory=dict)

    def places(self) -> list[tuple[LeftOut, int]]:
        """The points that were left out, with their places in the write."""
        return list(zip([row for row in self.left_out if row.kind == Kind.LEFT_OUT], self.gone, strict=True))

    def lost(self, told: Told | None) -> list[LeftOut]:
        """Points that were left out for others of the same write that the database did not take."""
        refused = frozenset[int]() if told is None else told.refused
        return [row for row, place in self.places() if place in refused]


class Settling:
    """Of one transport. ``fell``: counts why a step was not done."""

    def __init__(
        self,
        adapter: WriteAdapter,
        services: ProcessServices,
        *,
        journal: Journal | None,
        reads: Reads,
        feed: Feed,
        fell: Callable[[Exception], None],
    ) -> None:
        self._adapter = adapter
        self._services = services
        self._journal = journal
        self._reads = reads
        self._feed = feed
        self._fell = fell
        settled, backend = services.metrics.write_points_settled_total, services.metrics.backend
        self._settled = {result: settled.labels(backend, result) for result in PointResult}

    def answer(self, change: Change, body: bytes) -> Told | None:
        """What the client gets of a successful answer to the changed write; None where that was a refusal, which it gets."""
        try:
            return Told(body=body) if change.told is None else change.told(body)
        except DeclinedError:
            return None
        except MalformedReplyError:
            LOGGER.warning("the answer to a write cannot be read: the client gets it as it is")
            return Told(body=body, is_read=False)

    async def settle(
        self,
        change: Change,
        exchange: WriteQuestioner,
        policy: ResolvedPolicy,
        *,
        is_success: bool,
        told: Told | None = None,
    ) -> Change:
        """Write down how the database answered, and remove what was replaced, before the client is answered. Returns what was done in the end.
        Raises UpstreamExchangeError where the client may not be told that its write is stored. ``told``: by `answer`.
        """
        if is_success:
            change = await self._looked_again(change, told, exchange, policy)
        removal = None
        if is_success and change.removal is not None:
            is_read = told.is_read if told is not None else change.told is None
            removal = change.removal.after(told, change.left_out) if is_read else None
        if self._journal is not None and change.left_out:
            lost = change.lost(told)
            kept = [row for row in change.left_out if row not in lost]
            try:
                if change.doubted and not is_success:
                    await self._journal.believe(change.doubted, until=change.since)
                if is_success:
                    kept = [row for row in kept if row.kind != Kind.REMOVED]
                await self._journal.settle(kept, State.DONE if is_success else State.REFUSED)
                if lost:
                    await self._journal.settle(lost, State.REFUSED)
            except (JournalError, TimeoutError):
                LOGGER.warning("the journal cannot be written: a write is not acknowledged")
                raise _not_stored("the journal cannot be written") from None
        if is_success:
            await self._supersede(change, told)
            self.tell_stored(change, exchange.operation)
        if removal is not None:
            await to_the_end(self._removed(removal, change.left_out, exchange, policy))
        return change

    async def _looked_again(
        self, change: Change, told: Told | None, exchange: WriteQuestioner, policy: ResolvedPolicy
    ) -> Change:
        """Left out points that must be stored after all are sent, and count as stored."""
        late = await self._late(change, told, exchange, policy)
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
            gone=tuple([place for _, place in kept]),
        )

    async def _supersede(self, change: Change, told: Told | None) -> None:
        """What the journal had under these ids is older."""
        is_whole = told is None or (told.is_read and not told.failed)
        lost = change.lost(told)
        own = [row.id for row in change.left_out if row.kind == Kind.LEFT_OUT and row not in lost]
        ids = (*(change.stored if is_whole else ()), *own)
        if self._journal is None or change.place is None or not ids:
            return
        collection, partition = change.place
        # Without it `undo` may restore an older content, under an id that is free by then.
        with suppress(JournalError, TimeoutError):
            older = [Deletion(collection=collection, partition=partition, ids=ids)]
            await self._journal.outdate(older, until=change.since)

    async def _late(
        self, change: Change, told: Told | None, exchange: WriteQuestioner, policy: ResolvedPolicy
    ) -> list[tuple[LeftOut, int]]:
        """The left out points that must be stored after all, with their places. Where that cannot be read, all that have a stored original."""
        refused = change.lost(told)
        each = [(row, place) for row, place in change.places() if row not in refused]
        if not each or change.points is None:
            return []
        seconds = policy.write.deadline_seconds

        async def look() -> list[tuple[LeftOut, int]]:
            now = await self._now(change, exchange, self._services.clock() + seconds)
            unseen = await self._unseen(each[0][0], [*change.originals, *(row.id for row, _ in each)])
            gone = {
                identifier
                for identifier, point in change.originals.items()
                if identifier in unseen or identifier not in now or json.loads(now[identifier]) != json.loads(point)
            }
            return [(row, place) for row, place in each if row.survivor in gone or row.id in now or row.id in unseen]

        found = await first_success([look], self._fell)
        return [(row, place) for row, place in each if row.survivor in change.originals] if found is None else found

    async def _unseen(self, row: LeftOut, ids: Sequence[bytes]) -> frozenset[bytes]:
        """Where reads may show older contents of these ids, of the collection and partition of a row."""
        assert self._journal is not None  # noqa: S101 - it has the row
        return await self._journal.unseen(row.collection, row.partition, ids)

    async def _now(self, change: Change, exchange: WriteQuestioner, until: float) -> Mapping[bytes, bytes]:
        """What is stored by now of the originals, and under the ids of the points that were left out."""
        verbs, points = self._adapter, change.points
        assert isinstance(verbs, LeavesPointsOut) and points is not None  # noqa: S101, PT018 - they left points out
        own = [row.id for row, _ in change.places()] if points.has_ids else []
        ids = list(dict.fromkeys([*own, *change.originals]))
        questions = verbs.ask_stored(exchange.operation, points, ids, whole=True)
        bodies = await self._reads.answers(exchange, questions, until)
        return await self._reads.done(exchange, lambda: _stored_in(verbs, points, bodies), bodies)

    async def _sent(
        self, change: Change, late: Sequence[tuple[LeftOut, int]], exchange: WriteQuestioner, policy: ResolvedPolicy
    ) -> None:
        """Send these points, once. Raises UpstreamExchangeError where the database did not take all of them."""
        verbs, points, journal = self._adapter, change.points, self._journal
        assert isinstance(verbs, LeavesPointsOut) and points is not None and journal is not None  # noqa: S101, PT018 - as above
        places = {place for _, place in late}
        others = [row for row in range(len(points.ids)) if row not in places]

        async def send() -> Told:
            if change.place is not None:
                await journal.note(*change.place, [row.id for row, _ in late])
            body = verbs.without(points, others) if others else exchange.plain
            answer = await exchange.again(body, seconds=policy.write.deadline_seconds)
            return verbs.told(exchange.operation, points, dict.fromkeys(others), answer)

        told = await first_success([send], self._fell)
        if told is None or told.failed or not told.is_read:
            raise _not_stored("a point whose original was changed could not be stored")

    async def _removed(
        self, removal: Removal, rows: Sequence[LeftOut], exchange: WriteQuestioner, policy: ResolvedPolicy
    ) -> None:
        """A stored point that stays beside the one that replaced it is a copy, no loss. A removal that was begun must end, or `undo` would count it
        as under way.
        """
        verbs, seconds, journal = removal.verbs, policy.write.deadline_seconds, self._journal
        assert journal is not None  # noqa: S101 - it has what is to be removed

        going: list[LeftOut] = []

        async def in_time() -> None:
            removed = [row for row in rows if row.kind == Kind.REMOVED]
            await journal.reading(removed)
            victims = await self._unchanged(removal, exchange, self._services.clock() + seconds)
            unseen = await self._unseen(removed[0], list(victims))
            may = [row for row in removed if row.id in victims and row.id not in unseen]
            ids = await journal.removing(may)
            going.extend(row for row in may if row.id in ids)
            victims = {each: point for each, point in victims.items() if each in ids}
            until = self._services.clock() + seconds  # the client waits, for all of them together
            for question in verbs.ask_removed(exchange.operation, removal.points, victims) if victims else ():
                if (left := until - self._services.clock()) <= 0.0:
                    raise TimeoutError
                verbs.removed(await exchange.ask(question, seconds=left))
            gone = [event_of(row) for row in going]
            self._settled[PointResult.REMOVED].inc(len(gone))
            self.tell(EventName.EVICTED, exchange.operation, gone)

        await first_success([in_time], self._fell)
        if going:  # also of a removal that failed: it is under way no longer
            await first_success([partial(journal.removed, going)], self._fell)

    async def _unchanged(self, removal: Removal, exchange: WriteQuestioner, until: float) -> Mapping[bytes, bytes]:
        """The points that may be removed, read again. Members may come in any order."""
        verbs, points, victims = removal.verbs, removal.points, removal.victims
        questions = verbs.ask_stored(exchange.operation, points, list(victims), whole=True)
        bodies = await self._reads.answers(exchange, questions, until)

        def same() -> Mapping[bytes, bytes]:
            now = _stored_in(verbs, points, bodies)
            return {
                each: point
                for each, point in victims.items()
                if each in now and json.loads(now[each]) == json.loads(point)
            }

        return await self._reads.done(exchange, same, bodies)

    def tell_stored(self, change: Change, write: Operation) -> None:
        """Tell of a write that was carried out."""
        rows = change.left_out
        skipped = [event_of(row) for row in rows if row.kind == Kind.LEFT_OUT]
        merged = {row.survivor for row in rows if row.kind != Kind.LEFT_OUT}
        added = [identifier for identifier in change.stored if identifier not in merged]
        self._settled[PointResult.ADDED].inc(len(added))
        self._settled[PointResult.LEFT_OUT].inc(len(skipped))
        self._settled[PointResult.MERGED].inc(len(merged))
        if rows or self._feed.is_heard:
            self.tell(EventName.ADDED, write, [EventPoint(id=Raw(each)) for each in added], is_logged=bool(rows))
        self.tell(EventName.SKIPPED, write, skipped)
        self.tell(EventName.MERGED, write, [EventPoint(id=Raw(each)) for each in sorted(merged)])

    def tell(self, name: EventName, write: Operation, points: Sequence[EventPoint], *, is_logged: bool = True) -> None:
        """A line of the log has numbers alone."""
        if not points:
            return
        if is_logged:
            LOGGER.info(name.value, extra={"fields": {"points": len(points)}})
        if self._feed.is_heard:
            self._feed.tell(name, write.collection, points)


class ChangedWrite:
    """A judged write while it goes out. ``body``: what is sent in place of the client's; None: the client's. ``is_edited``: whether the
    client's answer may differ from the database's.
    """

    __slots__ = ("_change", "_exchange", "_is_declined", "_policy", "_settling", "_told", "body", "is_edited")

    def __init__(self, settling: Settling, change: Change, exchange: WriteQuestioner, policy: ResolvedPolicy) -> None:
        self._settling = settling
        self._change = change
        self._exchange = exchange
        self._policy = policy
        self.body = change.body
        self.is_edited = change.told is not None
        self._told: Told | None = None
        self._is_declined = False

    def edited(self, body: bytes) -> bytes:
        """The client's answer, made of the database's success."""
        self._told = told = self._settling.answer(self._change, body)
        self._is_declined = told is None
        return body if told is None else told.body

    async def settle(self, *, is_success: bool) -> None:
        """The database has answered; the client gets its answer afterwards. Raises UpstreamExchangeError as `Settling.settle`."""
        is_success = is_success and not self._is_declined
        await self._settling.settle(self._change, self._exchange, self._policy, is_success=is_success, told=self._told)


def _stored_in(verbs: LeavesPointsOut, points: NewPoints, bodies: Sequence[bytes]) -> dict[bytes, bytes]:
    return {identifier: point for body in bodies for identifier, point in verbs.stored(points, body).items()}


def _not_stored(why: str) -> UpstreamExchangeError:
    return UpstreamExchangeError(FailureKind.RESET, why)
