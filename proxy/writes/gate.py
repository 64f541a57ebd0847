"""One write: its neighbours asked for, judged, changed, counted; on any transport.

Whatever fails, is late or has no room here, the client's own write goes out as it came, once, and a counter says why. In mode observe
the work begins when the write has been answered.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeVar

from msgspec import Raw

from vecsieve.adapters.contract import (
    DeclinedError,
    Dialect,
    MalformedReplyError,
    NativeAnswer,
    Operation,
    RequestHead,
    UnsupportedError,
)
from vecsieve.adapters.writes import (
    LeavesPointsOut,
    MergesPoints,
    NewPoints,
    Told,
    WriteAdapter,
    WriteNeeds,
)
from vecsieve.config.policy import WriteSettings

from ..runtime.loop import LongWork
from ..search.errors import (
    FailureKind,
    LostReplyError,
    RefusedReplyError,
    UpstreamExchangeError,
    first_success,
)
from ..search.exchange import Questioner
from ..search.limits import Breaker
from ..search.policy import ResolvedPolicy
from ..search.services import ProcessServices
from ..telemetry.labels import FailOpen, WriteOutcome
from .events import EventName, EventPoint, Feed
from .facts import ALL
from .journal import Journal, JournalError, Kind, LeftOut, State
from .judging import judge, keys_of
from .merging import ignored_of
from .plans import Judged, Known, Plan, merged, refusal, told, without_copies
from .reads import NotJudgedError, Reads, is_long

LOGGER = logging.getLogger("vecsieve.writes")

# Observations that wait or run, one after another; more are not begun.
MOST_OBSERVED = 16
# How long the breaker is first open: a copy that is stored meanwhile stays, and a probe costs one query.
REST_SECONDS = 1.0

T = TypeVar("T")


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
    does not follow them. ``left_out``: in the journal. ``removal``: begun when the write
    was carried out. ``told``: makes the client's answer of the database's; None where that is the client's. ``gone``: the places of the
    points that were left out, in the order of ``left_out``.
    """

    body: bytes | None = None
    answer: NativeAnswer | None = None
    stored: tuple[bytes, ...] = ()
    place: tuple[str, bytes] | None = None
    left_out: tuple[LeftOut, ...] = ()
    removal: Removal | None = None
    told: Callable[[bytes], Told] | None = None
    gone: tuple[int, ...] = ()

    def lost(self, told: Told | None) -> list[LeftOut]:
        """Points that were left out for others of the same write that the database did not take."""
        refused = frozenset[int]() if told is None else told.refused
        left_out = [row for row in self.left_out if row.kind == Kind.LEFT_OUT]
        return [row for row, place in zip(left_out, self.gone, strict=True) if place in refused]


class Room:
    """The bytes of writes that a process holds for its gates. One write always has room."""

    __slots__ = ("_held", "_limit")

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._held = 0

    def take(self, size: int) -> bool:
        """Hold so many bytes; ``give`` ends it. False where there is no room."""
        if self._held and self._held + size > self._limit:
            return False
        self._held += size
        return True

    def give(self, size: int) -> None:
        self._held -= size


@dataclass(frozen=True, slots=True)
class Shared:
    """What the gates of a process share. ``work``: a thread apart from that of searches, which would wait for bulk uploads; closed by the
    process.
    """

    room: Room
    work: LongWork
    journal: Journal | None
    feed: Feed


class WriteGate:
    """The gate of one transport. ``breaker``: apart from the one of searches; while queries for neighbours fail, none is sent."""

    def __init__(
        self,
        adapter: WriteAdapter,
        dialect: Dialect,
        services: ProcessServices,
        *,
        breaker: Breaker,
        shared: Shared,
    ) -> None:
        self.adapter = adapter
        self._dialect = dialect
        self._services = services
        self.room = shared.room
        self._work = shared.work
        self._journal = shared.journal
        self._feed = shared.feed
        self._reads = Reads(adapter, dialect, services, breaker=breaker, work=shared.work)
        self._observing: set[asyncio.Task[None]] = set()
        self._alone = asyncio.Lock()

    async def beside(self, work: Callable[[], T]) -> T:
        """Work on a write in the gate's own thread. Raises what it raises, or TimeoutError."""
        return await self._work.run(work)

    def any_policy_of(self, write: Operation) -> ResolvedPolicy:
        """The policy of a write, also where the gate is off."""
        policy = self._services.rules.now.policies.resolve(write.backend, write.collection)
        return self._services.texts.applied(policy, write.collection)

    def policy_of(self, write: Operation, ruled_by: str | None = None) -> ResolvedPolicy | None:
        """The policy of a write; None where the gate is off. ``ruled_by``: the collection's name for the rules, where it has another."""
        name = write.collection if ruled_by is None else ruled_by
        policy = self._services.rules.now.policies.resolve(write.backend, name)
        return None if policy.write.mode == "off" else self._services.texts.applied(policy, write.collection)

    def streamed(self, head: RequestHead) -> None:
        """Count a write that comes as a stream of messages, which is not read."""
        write = self.adapter.classify(head)
        if write is not None and self.policy_of(write) is not None:
            self.passed(WriteOutcome.UNSUPPORTED)

    def passed(self, outcome: WriteOutcome) -> None:
        """Count a write that is not looked at."""
        self._services.metrics.writes_total.labels(self._services.backend, outcome).inc()

    async def changed(self, exchange: Questioner, policy: ResolvedPolicy, *, query: str = "") -> Change | None:
        """What goes out in place of the write; None where it was not judged and goes out as it came. What is left out of it is on the
        disk by then. ``query``: of the client's target.
        """

        async def work(exchange: Questioner, policy: ResolvedPolicy, until: float) -> Change:
            if policy.write.changes:
                self._verbs(policy)  # nothing is asked for in vain
            judged = await self._judged(exchange, policy, until)
            return await self._changed(exchange, policy, judged, until, query=query)

        started = self._services.clock()
        found = await self._fenced(work, exchange, policy)
        self._services.metrics.write_wait_seconds.observe(self._services.clock() - started)
        return found

    async def told(
        self, exchange: Questioner, policy: ResolvedPolicy, *, query: str, is_write: bool
    ) -> tuple[Judged, Change]:
        """The verdicts as well. Raises what `changed` counts. ``is_write``: else nothing is changed, and nothing counted."""
        seconds = policy.write.deadline_seconds
        async with asyncio.timeout(seconds):
            until = self._services.clock() + seconds
            judged = await self._judged(exchange, policy, until, counts=is_write)
            if not is_write:
                return judged, Change()
            return judged, await self._changed(exchange, policy, judged, until, query=query)

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
        exchange: Questioner,
        policy: ResolvedPolicy,
        *,
        is_success: bool,
        told: Told | None = None,
    ) -> None:
        """Write down how the database answered, and remove what was replaced, before the client is answered. Raises UpstreamExchangeError
        where the first fails: a write that is not in the journal must not be acknowledged. ``told``: by `answer`.
        """
        is_whole = told is None or (told.is_read and not told.failed)
        if self._journal is not None and change.place is not None and is_success and is_whole:
            # Without it `undo` may restore an older content, under an id that is free by then.
            with suppress(JournalError, TimeoutError):
                await self._journal.supersede(*change.place, change.stored)
        if self._journal is not None and change.left_out:
            lost = change.lost(told)
            kept = [row for row in change.left_out if row not in lost]
            try:
                await self._journal.settle(kept, State.DONE if is_success else State.REFUSED)
                if lost:
                    await self._journal.settle(lost, State.REFUSED)
            except (JournalError, TimeoutError):
                LOGGER.warning("the journal cannot be written: a write is not acknowledged")
                raise UpstreamExchangeError(FailureKind.RESET, "the journal cannot be written") from None
        if not is_success:
            return
        self._stored(change, exchange.operation)
        is_read = told.is_read if told is not None else change.told is None
        removal = change.removal.after(told, change.left_out) if change.removal is not None and is_read else None
        if removal is not None:
            await self._removed(removal, change.left_out, exchange, policy)

    async def _removed(
        self, removal: Removal, rows: Sequence[LeftOut], exchange: Questioner, policy: ResolvedPolicy
    ) -> None:
        """A stored point that stays beside the one that replaced it is a copy, no loss."""
        verbs, seconds = removal.verbs, policy.write.deadline_seconds

        async def in_time() -> None:
            victims = await self._unchanged(removal, exchange, self._services.clock() + seconds)
            if not victims:
                return
            for question in verbs.ask_removed(exchange.operation, removal.points, victims):
                verbs.removed(await exchange.ask(question, seconds=seconds))
            gone = [told(row) for row in rows if row.kind == Kind.REMOVED and row.id in victims]
            self._services.metrics.write_points_removed_total.inc(len(gone))
            self._tell(EventName.EVICTED, exchange.operation, gone)

        await first_success([in_time], self._fell)

    async def _unchanged(self, removal: Removal, exchange: Questioner, until: float) -> Mapping[bytes, bytes]:
        """The points that may be removed, read again. Members may come in any order."""
        verbs, points, victims = removal.verbs, removal.points, removal.victims
        questions = verbs.ask_stored(exchange.operation, points, list(victims), whole=True)
        bodies = await self._reads.answers(exchange, questions, until)

        def same() -> Mapping[bytes, bytes]:
            now = {identifier: point for body in bodies for identifier, point in verbs.stored(points, body).items()}
            return {
                each: point
                for each, point in victims.items()
                if each in now and json.loads(now[each]) == json.loads(point)
            }

        return await self._reads.done(exchange, same, bodies)

    async def _known_of(
        self, verbs: LeavesPointsOut, exchange: Questioner, judged: Judged, until: float, policy: ResolvedPolicy
    ) -> Known:
        """What is stored under the ids of the copies; and the points that hold them, unless nothing but texts counts. One read."""
        points, write, is_merging = judged.points, exchange.operation, policy.write.mode == "merge"
        own, holders = judged.own_ids(is_merging=is_merging), judged.stored_holders()
        needs_holders = is_merging or ALL not in ignored_of(policy.write)
        ids = list(dict.fromkeys([*own, *(holders if needs_holders else ())]))
        questions = verbs.ask_stored(write, points, ids, whole=needs_holders) if ids else ()
        bodies = await self._reads.answers(exchange, questions, until) if questions else []

        def read() -> Known:
            found = {identifier: point for body in bodies for identifier, point in verbs.stored(points, body).items()}
            return Known(
                own={each: found[each] for each in own if each in found},
                holders={each: found[each] for each in holders if each in found} if needs_holders else None,
            )

        return await self._reads.done(exchange, read, bodies)

    def _stored(self, change: Change, write: Operation) -> None:
        """Tell of a write that was carried out."""
        metrics, rows = self._services.metrics, change.left_out
        skipped = [told(row) for row in rows if row.kind == Kind.LEFT_OUT]
        merged = {row.survivor for row in rows if row.kind != Kind.LEFT_OUT}
        added = [identifier for identifier in change.stored if identifier not in merged]
        metrics.write_points_added_total.inc(len(added))
        metrics.write_points_left_out_total.inc(len(skipped))
        metrics.write_points_merged_total.inc(len(merged))
        if rows or self._feed.is_heard:
            self._tell(EventName.ADDED, write, [EventPoint(id=Raw(each)) for each in added], is_logged=bool(rows))
        self._tell(EventName.SKIPPED, write, skipped)
        self._tell(EventName.MERGED, write, [EventPoint(id=Raw(each)) for each in sorted(merged)])

    def _tell(self, name: EventName, write: Operation, points: Sequence[EventPoint], *, is_logged: bool = True) -> None:
        """A line of the log has numbers alone."""
        if not points:
            return
        if is_logged:
            LOGGER.info(name.value, extra={"fields": {"points": len(points)}})
        if self._feed.is_heard:
            self._feed.tell(name, write.collection, points)

    def observe(self, exchange: Questioner, policy: ResolvedPolicy, over: Callable[[], None]) -> None:
        """Judge a write that was answered, soon. ``over``: called when that has ended, or does not begin."""
        if len(self._observing) >= MOST_OBSERVED:
            self.passed(WriteOutcome.OVERLOAD)
            over()
            return
        task = asyncio.create_task(self._observed(exchange, policy), name="vecsieve-write-observed")
        self._observing.add(task)
        task.add_done_callback(self._observing.discard)
        task.add_done_callback(lambda _: over())

    async def close(self) -> None:
        running = list(self._observing)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _observed(self, exchange: Questioner, policy: ResolvedPolicy) -> None:
        async with self._alone:
            judged = await self._fenced(self._judged, exchange, policy)
            if judged is not None:
                self._stored(Change(stored=judged.points.ids), exchange.operation)

    async def _changed(
        self, exchange: Questioner, policy: ResolvedPolicy, judged: Judged, until: float, *, query: str
    ) -> Change:
        if policy.write.changes:
            return await self._cut(exchange, policy, judged, until, query=query)
        notes = judged.notes() if policy.write.mode == "annotate" else {}
        if not notes:
            return Change(stored=judged.points.ids)
        body = await self._reads.done(exchange, partial(self.adapter.annotated, judged.points, notes))
        self._services.metrics.writes_annotated_total.inc()
        return Change(body, stored=judged.points.ids)

    def _verbs(self, policy: ResolvedPolicy) -> tuple[LeavesPointsOut, Journal]:
        """Raises NotJudgedError where the transport has not those of the mode, or a reload brought the mode without a journal."""
        verbs, journal = self.adapter, self._journal
        is_able = isinstance(verbs, MergesPoints if policy.write.mode == "merge" else LeavesPointsOut)
        if journal is None or not is_able or not isinstance(verbs, LeavesPointsOut):
            raise NotJudgedError(WriteOutcome.UNSUPPORTED)
        return verbs, journal

    async def _cut(
        self, exchange: Questioner, policy: ResolvedPolicy, judged: Judged, until: float, *, query: str
    ) -> Change:
        (verbs, journal), mode = self._verbs(policy), policy.write.mode
        write, points = exchange.operation, judged.points
        place = verbs.collection(write, points), verbs.partition(points)
        followed = place if points.has_ids else None

        async def going(ids: tuple[bytes, ...]) -> None:
            if points.has_ids and not verbs.shows(points, query):
                await journal.note(*place, ids)

        if not judged.copies():
            await going(points.ids)
            return Change(stored=points.ids, place=followed)
        known = await self._known_of(verbs, exchange, judged, until, policy)
        unseen = await journal.unseen(*place, judged.own_ids(is_merging=mode == "merge"))
        known = replace(known, unseen=unseen)
        plan = await self._planned(exchange, judged, known, policy, query)
        if plan.unheld:
            self.passed(WriteOutcome.UNSUPPORTED)
        if not plan.rows:
            await going(points.ids)
            return Change(stored=points.ids, place=followed)
        await journal.enter(plan.rows, State.REJECTED if mode == "reject" else State.PENDING)
        if mode == "reject":
            self._services.metrics.writes_rejected_total.inc()
            return Change(None, self._dialect.error(verbs.conflict, refusal(plan.rows, len(judged.points.ids))))
        answer = None if plan.body is not None else verbs.acknowledged(write, judged.points, query)
        stored = tuple(each for row, each in enumerate(judged.points.ids) if row not in plan.gone)
        await going(stored)
        told = partial(verbs.told, write, judged.points, plan.gone) if verbs.is_told and plan.body is not None else None
        removal = None
        if plan.removed and isinstance(verbs, MergesPoints):
            removal = Removal(verbs, judged.points, plan.removed)
        return Change(plan.body, answer, stored, followed, plan.rows, removal, told, tuple(plan.gone))

    async def _planned(
        self, exchange: Questioner, judged: Judged, known: Known, policy: ResolvedPolicy, query: str
    ) -> Plan:
        """A custom policy is anyone's code: never on the loop."""
        verbs, write = self.adapter, exchange.operation
        if policy.write.mode == "merge":
            assert isinstance(verbs, MergesPoints)  # noqa: S101 - the caller looked
            return await self._work.run(
                partial(merged, verbs, write, judged, known, policy, waits=verbs.waits(judged.points, query))
            )
        assert isinstance(verbs, LeavesPointsOut)  # noqa: S101 - the same
        return await self._reads.done(exchange, partial(without_copies, verbs, write, judged, known, policy))

    async def _fenced(
        self,
        work: Callable[[Questioner, ResolvedPolicy, float], Awaitable[T]],
        exchange: Questioner,
        policy: ResolvedPolicy,
    ) -> T | None:
        """What the work returns within its time, the end of which it gets; None where it fails, which is counted."""
        settings: WriteSettings = policy.write
        own, client = settings.deadline_seconds, exchange.client_timeout_seconds
        seconds = own if client is None else min(own, client / 4)

        async def in_time() -> T:
            async with asyncio.timeout(seconds):
                return await work(exchange, policy, self._services.clock() + seconds)

        return await first_success([in_time], self._fell)

    def _fell(self, error: Exception) -> None:
        match error:
            case NotJudgedError():
                outcome = error.outcome
            case UnsupportedError():
                outcome = WriteOutcome.UNSUPPORTED
            case RefusedReplyError() | DeclinedError():
                outcome = WriteOutcome.REFUSED
            case TimeoutError():
                outcome = WriteOutcome.LATE
            case LostReplyError() if error.reason is FailOpen.OVERFETCH_TIMEOUT:
                outcome = WriteOutcome.LATE
            case _:
                outcome = WriteOutcome.FAILED
                LOGGER.warning("a write was not judged", extra={"fields": {"error": type(error).__name__}})
        self.passed(outcome)

    async def _judged(
        self, exchange: Questioner, policy: ResolvedPolicy, until: float, *, counts: bool = True
    ) -> Judged:
        write = exchange.operation
        needs = WriteNeeds(
            vector_name=policy.vector,
            keys=keys_of(policy),
            most=self._services.limits.write_points,
            known=await self._reads.known(exchange, until),
            notes=policy.write.mode == "annotate",
            is_stored=policy.write.mode == "observe",
        )
        points = await self._reads.done(exchange, partial(self.adapter.parse, write, exchange.plain, needs))
        near, is_cosine = await self._reads.near(exchange, points, policy, until)
        verdicts, texts = await self._work.finished(
            judge(points, near, policy, is_cosine=is_cosine), nullcontext(), is_long=is_long(exchange)
        )
        judged = Judged(points, verdicts, texts)
        if counts:
            self._count(judged, write)
        return judged

    def _count(self, judged: Judged, write: Operation) -> None:
        metrics, backend = self._services.metrics, self._services.backend
        self.passed(WriteOutcome.JUDGED)
        for tier, count in Counter(each.tier for each in judged.verdicts).items():
            metrics.write_points_total.labels(backend, tier).inc(count)
        copies = judged.told()
        metrics.write_copies_total.inc(len(copies))
        self._tell(EventName.DUPLICATE_FOUND, write, copies)
