"""Judges one write of any transport: queries its neighbours, finds copies, changes the write, counts.

If a step fails, is late or has no room, the client's write is sent unchanged, once, and a counter has the reason. In mode observe the
work begins after the write was answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import Protocol, TypeVar

from vecsieve.adapters.base import Deletes
from vecsieve.adapters.contract import (
    DeclinedError,
    DescribesCollections,
    Dialect,
    NamesInBody,
    NativeAnswer,
    Operation,
    RequestHead,
    UnsupportedError,
)
from vecsieve.adapters.writes import (
    LeavesPointsOut,
    MergesPoints,
    WriteAdapter,
    WriteNeeds,
)
from vecsieve.config.policy import CHANGING

from ..runtime.loop import Owner
from ..search.collections.learned import named_in
from ..search.errors import (
    LostReplyError,
    RefusedReplyError,
    UpstreamExchangeError,
    first_success,
)
from ..search.exchange import TransportAnswer, WriteQuestioner
from ..search.limits import Breaker
from ..search.policy import ResolvedPolicy
from ..search.service import ProcessServices
from ..telemetry.labels import CopiesResult, FailOpen, WriteOutcome, WriteTier
from .deletions import Deletions
from .events import EventName
from .journal import Journal
from .judging import judge, keys_of
from .plans import Judged, Known, Plan, merged, refusal, without_copies
from .reads import NotJudgedError, Reads, is_long
from .rows import ANY, EVERYWHERE, JournalError, Kind, State
from .settling import Change, ChangedWrite, Removal, Settling, Shared

LOGGER = logging.getLogger("vecsieve.writes")

# Observations that wait or run, one at a time; further writes are not observed.
MOST_OBSERVED = 16
# First open time of the breaker: copies stored meanwhile stay, and a probe costs one query.
REST_SECONDS = 1.0

A = TypeVar("A", bound=TransportAnswer)
A_co = TypeVar("A_co", bound=TransportAnswer, covariant=True)
T = TypeVar("T")


class WriteExchange(WriteQuestioner, Protocol[A_co]):
    """One write on its transport, which relays it once. ``query``: of the client's target.

    `size_bytes`: the largest possible size of its body; None for a body that is not read: too large, coded, or certified. `body_of`: the body without
    its content coding, which is then in ``plain``; None if it is too large, too slow or broken. `keep`: the body is kept as it is relayed; `is_kept`: after the answer,
    whether all of it was: it is then in ``plain``, and later reads are not traced. `relayed` sends the client's request, or the changed one,
    and returns the database's answer. `native` and `unreachable`: answers of ours.
    """

    @property
    def query(self) -> str: ...

    def size_bytes(self, limit_bytes: int) -> int | None: ...
    async def body_of(self, limit_bytes: int) -> bytes | None: ...
    def keep(self, limit_bytes: int) -> None: ...
    def is_kept(self) -> bool: ...
    async def relayed(self, changed: ChangedWrite | None = None) -> A_co: ...
    def native(self, native: NativeAnswer) -> A_co: ...
    def unreachable(self, failure: UpstreamExchangeError) -> A_co: ...


class WriteGate:
    """The gate of one transport. ``breaker``: stops its queries while they fail, apart from searches. ``deletes``: the requests that delete points."""

    def __init__(
        self,
        adapter: WriteAdapter,
        dialect: Dialect,
        services: ProcessServices,
        *,
        breaker: Breaker,
        shared: Shared,
        deletes: Deletes | None = None,
    ) -> None:
        self.adapter = adapter
        self._dialect = dialect
        self._services = services
        self.room = shared.room
        self._work = shared.work
        self._journal = shared.journal
        self._feed = shared.feed
        self._reads = Reads(adapter, dialect, services, breaker=breaker, work=shared.work)
        self.settling = Settling(adapter, services, shared, reads=self._reads, fell=self._fell)
        self.deletions: Deletions | None = None
        if shared.journal is not None and deletes is not None:
            self.deletions = Deletions(adapter, deletes, self._reads, shared.journal)
        metrics = services.metrics
        self._writes = {outcome: metrics.writes_total.labels(outcome) for outcome in WriteOutcome}
        self._with_copies = {result: metrics.writes_with_copies_total.labels(result) for result in CopiesResult}
        self._points = {tier: metrics.write_points_total.labels(tier) for tier in WriteTier}
        self._observing = Owner()
        self._alone = asyncio.Lock()

    async def in_thread(self, work: Callable[[], T]) -> T:
        """Run work on a write in the gate's thread. Raises its exceptions, or TimeoutError."""
        return await self._work.run(work)

    def any_policy_of(self, write: Operation) -> ResolvedPolicy:
        """The policy of a write, also if the gate is off."""
        policy = self._services.rules.now.policies.resolve(write.backend, write.collection)
        return self._services.texts.applied(policy, write.collection)

    def policy_of(self, write: Operation, ruled_by: str | None = None) -> ResolvedPolicy | None:
        """The policy of a write; None if the gate is off. ``ruled_by``: the collection's name in the rules, if it differs."""
        name = write.collection if ruled_by is None else ruled_by
        policy = self._services.rules.now.policies.resolve(write.backend, name)
        return None if policy.write.mode == "off" else self._services.texts.applied(policy, write.collection)

    async def named(self, exchange: WriteExchange[A], write: Operation) -> Operation:
        """A write whose head has no collection, with the one that its body names, if policies may gate it. ``exchange``: its body is read then."""
        size = exchange.size_bytes(limit := self._services.limits.write_body_bytes)
        is_needed = isinstance(self.adapter, NamesInBody) and self._services.rules.now.policies.may_gate_writes
        if not is_needed or size is None or not self.room.take(size):
            return write
        try:
            body = await exchange.body_of(limit)
            if body is None:
                return write
            name = await self._reads.done(exchange, partial(named_in, self.adapter, body))
            return replace(write, collection=name)
        finally:
            self.room.give(size)

    def streamed(self, head: RequestHead) -> None:
        """Count a write that is a stream of messages: it is not read."""
        write = self.adapter.classify(head)
        if write is not None and self.policy_of(write) is not None:
            self.passed(WriteOutcome.UNSUPPORTED)

    def passed(self, outcome: WriteOutcome) -> None:
        """Count a write by its outcome."""
        self._writes[outcome].inc()

    async def relayed(self, exchange: WriteExchange[A], policy: ResolvedPolicy) -> A:
        """The answer to a write. The write is judged before it is sent or after its answer, and sent once."""
        limit = self._services.limits.write_body_bytes
        size = exchange.size_bytes(limit)
        if size is None or not self.room.take(size):
            self.passed(WriteOutcome.NOT_READ if size is None else WriteOutcome.OVERLOAD)
            return await exchange.relayed()
        try:
            if policy.write.mode == "observe":
                exchange.keep(limit)
                answer = await exchange.relayed()
                if answer.is_success and exchange.is_kept():
                    self._observe(exchange, policy, partial(self.room.give, size))
                    size = 0
                return answer
            change = None
            if await exchange.body_of(limit) is None:
                self.passed(WriteOutcome.NOT_READ)
            else:
                change = await self.changed(exchange, policy, query=exchange.query)
            if change is None:
                return await exchange.relayed()
            async with self.settling.ending(change):
                if change.answer is None:
                    return await exchange.relayed(ChangedWrite(self.settling, change, exchange, policy))
                await self.settling.settle(change, exchange, policy, is_success=True)
                return exchange.native(change.answer)
        except UpstreamExchangeError as failure:  # of the journal
            return exchange.unreachable(failure)
        finally:
            self.room.give(size)

    async def changed(self, exchange: WriteQuestioner, policy: ResolvedPolicy, *, query: str = "") -> Change | None:
        """The change of a write; None if the write was not judged and is sent unchanged. Left out points are on disk when this returns.
        ``query``: of the client's target.
        """
        started = self._services.clock()
        result = await first_success([partial(self.examine, exchange, policy, query=query, is_write=True)], self._fell)
        if result is None and policy.write.mode in CHANGING:
            await self._unjudged(exchange, policy, query)
        self._services.metrics.write_wait_seconds.observe(self._services.clock() - started)
        return None if result is None else result[1]

    async def _unjudged(self, exchange: WriteQuestioner, policy: ResolvedPolicy, query: str) -> None:
        """Record a write that is sent unjudged: points that reads may not show yet count as stored."""
        verbs, write = self.adapter, exchange.operation
        if self._journal is None or not isinstance(verbs, LeavesPointsOut):
            return
        with suppress(JournalError, TimeoutError):
            known = await self._reads.known(exchange, None)
            if await self._reads.done(exchange, partial(verbs.shows_unread, query, exchange.plain, known)):
                return
            needs = self._needs(policy, known)
            try:
                points = await self._reads.done(exchange, partial(self.adapter.parse, write, exchange.plain, needs))
                if points.has_ids:
                    await self._journal.note(verbs.collection(write, points), verbs.partition(points), points.ids)
            except UnsupportedError:
                # If the collection is known only from its description, it is unknown too.
                unknown = isinstance(verbs, DescribesCollections)
                await self._journal.note(EVERYWHERE if unknown else write.collection, ANY, [ANY])

    async def examine(
        self, exchange: WriteQuestioner, policy: ResolvedPolicy, *, query: str, is_write: bool
    ) -> tuple[Judged, Change]:
        """The verdicts and the change. Raises the errors that `changed` counts. ``is_write``: False changes and counts nothing."""
        limit, client, write = policy.write.deadline_seconds, exchange.client_timeout_seconds, exchange.operation
        seconds = limit if client is None else min(limit, client / 4)
        async with asyncio.timeout(seconds):
            until = self._services.clock() + seconds
            if is_write and policy.write.mode in CHANGING:
                self._verbs(policy)  # before any query is sent
            needs = self._needs(policy, await self._reads.known(exchange, until))
            points = await self._reads.done(exchange, partial(self.adapter.parse, write, exchange.plain, needs))
            near, is_cosine = await self._reads.near(exchange, points, policy, until)
            judging = judge(points, near, policy, is_cosine=is_cosine)
            judged = Judged(points, *await self._work.finished(judging, is_long=is_long(exchange)))
            if not is_write:
                return judged, Change()
            self._count(judged, write)
            return judged, await self._changed(exchange, policy, judged, until, query=query)

    async def _known_of(
        self, verbs: LeavesPointsOut, exchange: WriteQuestioner, judged: Judged, until: float, policy: ResolvedPolicy
    ) -> Known:
        """The stored points with ids of copies, and the points that contain them. One read."""
        points, write, is_merging = judged.points, exchange.operation, policy.write.mode == "merge"
        candidates, holders = judged.candidate_ids(is_merging=is_merging), judged.stored_holders()
        ids = list(dict.fromkeys([*candidates, *holders]))
        questions = verbs.ask_stored(write, points, ids, whole=True) if ids else ()
        bodies = await self._reads.answers(exchange, questions, until) if questions else []

        def read() -> Known:
            stored = {identifier: point for body in bodies for identifier, point in verbs.stored(points, body).items()}
            return Known(
                updates={key: stored[key] for key in candidates if key in stored},
                holders={key: stored[key] for key in holders if key in stored},
            )

        return await self._reads.done(exchange, read, bodies)

    def _observe(self, exchange: WriteQuestioner, policy: ResolvedPolicy, over: Callable[[], None]) -> None:
        """Schedule the verdict on an answered write. ``over``: called when it has ended, or is not begun."""
        if len(self._observing) >= MOST_OBSERVED:
            self.passed(WriteOutcome.OVERLOAD)
            over()
            return
        self._observing.start(self._observed(exchange, policy)).add_done_callback(lambda _: over())

    async def close(self) -> None:
        await self._observing.close()

    async def _observed(self, exchange: WriteQuestioner, policy: ResolvedPolicy) -> None:
        async with self._alone:
            result = await first_success([partial(self.examine, exchange, policy, query="", is_write=True)], self._fell)
            if result is not None:
                self.settling.emit_stored(result[1], exchange.operation)

    async def _changed(
        self, exchange: WriteQuestioner, policy: ResolvedPolicy, judged: Judged, until: float, *, query: str
    ) -> Change:
        if policy.write.mode in CHANGING:
            return await self._cut(exchange, policy, judged, until, query=query)
        notes = judged.notes() if policy.write.mode == "annotate" else {}
        if not notes:
            return Change(stored=judged.points.ids)
        body = await self._reads.done(exchange, partial(self.adapter.annotated, judged.points, notes))
        self._with_copies[CopiesResult.ANNOTATED].inc()
        return Change(body, stored=judged.points.ids)

    def _verbs(self, policy: ResolvedPolicy) -> tuple[LeavesPointsOut, Journal]:
        """Raises NotJudgedError if the transport lacks the verbs of the mode, or a reload set the mode without a journal."""
        verbs, journal = self.adapter, self._journal
        is_able = isinstance(verbs, MergesPoints if policy.write.mode == "merge" else LeavesPointsOut)
        if journal is None or not is_able or not isinstance(verbs, LeavesPointsOut):
            raise NotJudgedError(WriteOutcome.UNSUPPORTED)
        return verbs, journal

    async def _cut(
        self, exchange: WriteQuestioner, policy: ResolvedPolicy, judged: Judged, until: float, *, query: str
    ) -> Change:
        (verbs, journal), mode = self._verbs(policy), policy.write.mode
        write, points = exchange.operation, judged.points
        place = verbs.collection(write, points), verbs.partition(points)
        followed = place if points.has_ids else None

        async def note_unseen(ids: tuple[bytes, ...]) -> None:
            if points.has_ids and not verbs.shows(points, query):
                await journal.note(*place, ids)

        async def untouched() -> Change:
            since = await journal.before(*place, points.ids) if points.has_ids else None
            await note_unseen(points.ids)
            has_receipt = since is not None and verbs.has_receipts
            receipt_of = partial(verbs.receipt, write, points, {}) if has_receipt else None
            return Change(stored=points.ids, place=followed, since=since, receipt_of=receipt_of)

        if not judged.copies():
            return await untouched()
        known = await self._known_of(verbs, exchange, judged, until, policy)
        candidate_ids = judged.candidate_ids(is_merging=mode == "merge")
        known = known.but(await journal.unseen(*place, [*candidate_ids, *known.holders]))
        plan = await self._planned(exchange, judged, known, policy, query)
        if plan.unheld:
            self.passed(WriteOutcome.UNSUPPORTED)
        if not plan.rows:
            return await untouched()
        if mode == "reject":
            await journal.enter(plan.rows, State.REJECTED)
            self._with_copies[CopiesResult.REJECTED].inc()
            return Change(None, self._dialect.error(verbs.conflict, refusal(plan.rows, len(judged.points.ids))))
        stored = tuple(identifier for row, identifier in enumerate(points.ids) if row not in plan.left_out)
        await note_unseen(stored)
        since = await journal.enter(plan.rows, State.PENDING)  # the last step: what fails before it enters nothing
        change = Change(stored=stored, place=followed, since=since)
        return _with_plan(change, plan, verbs, judged, known, write, query)

    async def _planned(
        self, exchange: WriteQuestioner, judged: Judged, known: Known, policy: ResolvedPolicy, query: str
    ) -> Plan:
        """A custom policy is user code: it never runs on the event loop."""
        verbs, write = self.adapter, exchange.operation
        if policy.write.mode == "merge":
            assert isinstance(verbs, MergesPoints)  # noqa: S101 - checked by `_verbs`
            return await self._work.run(
                partial(merged, verbs, write, judged, known, policy, waits=verbs.waits(judged.points, query))
            )
        assert isinstance(verbs, LeavesPointsOut)  # noqa: S101 - the same
        return await self._reads.done(exchange, partial(without_copies, verbs, write, judged, known, policy))

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
            case JournalError():
                outcome = WriteOutcome.FAILED  # the journal's own line says why, once
            case _:
                outcome = WriteOutcome.FAILED
                LOGGER.warning("a write was not judged", extra={"fields": {"error": type(error).__name__}})
        self.passed(outcome)

    def _needs(self, policy: ResolvedPolicy, known: object | None) -> WriteNeeds:
        return WriteNeeds(
            vector_name=policy.vector,
            keys=keys_of(policy),
            most=self._services.limits.write_points,
            known=known,
            notes=policy.write.mode == "annotate",
            is_stored=policy.write.mode == "observe",
        )

    def _count(self, judged: Judged, write: Operation) -> None:
        self.passed(WriteOutcome.JUDGED)
        for tier, count in Counter(map(attrgetter("tier"), judged.verdicts)).items():
            self._points[tier].inc(count)
        copies = judged.event_points()
        self._services.metrics.write_copies_total.inc(len(copies))
        self.settling.emit(EventName.DUPLICATE_FOUND, write, copies)


def _with_plan(
    change: Change, plan: Plan, verbs: LeavesPointsOut, judged: Judged, known: Known, write: Operation, query: str
) -> Change:
    """The change that carries out a plan."""
    points, kept = judged.points, {row.survivor for row in plan.rows if row.kind == Kind.LEFT_OUT}
    removal, has_receipt = None, verbs.has_receipts and plan.body is not None
    if plan.removed and isinstance(verbs, MergesPoints):
        removal = Removal(verbs, points, plan.removed)
    return replace(
        change,
        body=plan.body,
        answer=None if plan.body is not None else verbs.acknowledged(write, points, query),
        left_out=plan.rows,
        removal=removal,
        receipt_of=partial(verbs.receipt, write, points, plan.left_out) if has_receipt else None,
        left_out_places=tuple(plan.left_out),
        points=points,
        originals={identifier: point for identifier, point in known.holders.items() if identifier in kept},
    )
