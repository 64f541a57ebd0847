"""One write: its neighbours asked for, judged, annotated, counted; on any transport.

Whatever fails, is late or has no room here, the client's own write goes out as it came, once, and a counter says why. In mode observe
the work begins when the write has been answered.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import Dialect, NativeAnswer, Operation, Question, UnsupportedError
from vecsieve.adapters.writes import Inquiry, LeavesPointsOut, Neighbours, NewPoints, WriteAdapter, WriteNeeds
from vecsieve.config.policy import WriteSettings
from vecsieve.proxy.process.runtime import LongWork
from vecsieve.proxy.search.collections.learned import Description
from vecsieve.proxy.search.errors import (
    FailureKind,
    LostReplyError,
    RefusedReplyError,
    UpstreamExchangeError,
    first_success,
)
from vecsieve.proxy.search.exchange import KNOWN_SECONDS, Questioner
from vecsieve.proxy.search.limits import Breaker
from vecsieve.proxy.search.policy import ResolvedPolicy
from vecsieve.proxy.search.services import ProcessServices
from vecsieve.proxy.telemetry.labels import FailOpen, OwnRead, WriteOutcome
from vecsieve.proxy.writes.journal import Journal, JournalError, LeftOut, State
from vecsieve.proxy.writes.judging import Verdict, judge, keys_of, tenant_of

LOGGER = logging.getLogger("vecsieve.writes")

# What this many bytes of a write hold is parsed and compared in 1 to 2 ms; more of it in the thread beside the loop.
INLINE_BYTES = 32 * 1024
# Observations that wait or run, one after another; more are not begun.
MOST_OBSERVED = 16
# Of a neighbour whose vector is asked for: a number as text, and all else.
NUMBER_BYTES, NEIGHBOUR_BYTES = 14, 256
_COSINE = "write: cosine "  # and the vector's name: what was learned of a collection

T = TypeVar("T")


class NotJudgedError(Exception):
    def __init__(self, outcome: WriteOutcome) -> None:
        super().__init__(outcome.value)
        self.outcome = outcome


@dataclass(frozen=True, slots=True)
class Judged:
    """A write with one verdict for each point."""

    points: NewPoints
    verdicts: Sequence[Verdict]

    def notes(self) -> Mapping[int, bytes]:
        """What is told of each copy, by its place in the write."""
        return {
            row: b'{"duplicate_of":%s,"similarity":%.4f,"tier":"%s"}' % (each.of, each.similarity, each.tier.encode())
            for row, each in enumerate(self.verdicts)
            if each.of is not None
        }


@dataclass(frozen=True, slots=True)
class Cut:
    """A write without its copies, which are in the journal. ``body``: None where nothing is left to be sent."""

    body: bytes | None
    left_out: tuple[LeftOut, ...]


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


class WriteGate:
    """The gate of one transport. ``breaker``: apart from the one of searches; while queries for neighbours fail, none is sent.
    ``work``: a thread apart from that of searches, which would wait for bulk uploads; closed by the process.
    """

    def __init__(
        self,
        adapter: WriteAdapter,
        dialect: Dialect,
        services: ProcessServices,
        *,
        breaker: Breaker,
        room: Room,
        work: LongWork,
        journal: Journal | None,
    ) -> None:
        self.adapter = adapter
        self._dialect = dialect
        self._services = services
        self._breaker = breaker
        self.room = room
        self._work = work
        self._journal = journal
        self._observing: set[asyncio.Task[None]] = set()
        self._alone = asyncio.Lock()

    def policy_of(self, write: Operation) -> ResolvedPolicy | None:
        """The policy of a write; None where the gate is off."""
        policy = self._services.rules.now.policies.resolve(write.backend, write.collection)
        return None if policy.write.mode == "off" else policy

    def passed(self, outcome: WriteOutcome) -> None:
        """Count a write that is not looked at."""
        self._services.metrics.writes_total.labels(self._services.backend, outcome).inc()

    async def annotated(self, exchange: Questioner, policy: ResolvedPolicy) -> bytes | None:
        """The write with notes in the payloads of copies; None where it goes out as it came."""
        started = self._services.clock()
        body = await self._fenced(self._annotated, exchange, policy)
        self._services.metrics.write_wait_seconds.observe(self._services.clock() - started)
        return body or None

    async def cut(self, exchange: Questioner, policy: ResolvedPolicy) -> Cut | None:
        """The write without its copies; None where it goes out as it came. What is left out is on the disk by then."""
        started = self._services.clock()
        found = await self._fenced(self._cut, exchange, policy)
        self._services.metrics.write_wait_seconds.observe(self._services.clock() - started)
        return found if found is not None and found.left_out else None

    async def settle(self, cut: Cut, *, is_success: bool) -> None:
        """Write down how the database answered the rest, before the client is answered. Raises UpstreamExchangeError where that fails: a
        write that is not in the journal must not be acknowledged.
        """
        assert self._journal is not None  # noqa: S101 - it has the points
        try:
            await self._journal.settle(cut.left_out, State.DONE if is_success else State.REFUSED)
        except (JournalError, TimeoutError):
            LOGGER.warning("the journal cannot be written: a write is not acknowledged")
            raise UpstreamExchangeError(FailureKind.RESET, "the journal cannot be written") from None
        if is_success:
            self._services.metrics.write_points_left_out_total.inc(len(cut.left_out))

    def acknowledged(self, write: Operation, query: str) -> NativeAnswer:
        """The answer to a write of which nothing is left to be sent."""
        assert isinstance(self.adapter, LeavesPointsOut)  # noqa: S101 - it left them out
        return self.adapter.acknowledged(write, query)

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
            await self._fenced(self._judged, exchange, policy)

    async def _annotated(self, exchange: Questioner, policy: ResolvedPolicy, until: float) -> bytes:
        """b"" where there is nothing to tell."""
        judged = await self._judged(exchange, policy, until)
        notes = judged.notes()
        if not notes:
            return b""
        body = await self._done(exchange, partial(self.adapter.annotated, judged.points, notes))
        self._services.metrics.writes_annotated_total.inc()
        return body

    async def _cut(self, exchange: Questioner, policy: ResolvedPolicy, until: float) -> Cut:
        verbs, journal = self.adapter, self._journal
        if journal is None or not isinstance(verbs, LeavesPointsOut):
            raise NotJudgedError(WriteOutcome.UNSUPPORTED)  # a reload brought the mode, without a journal
        judged = await self._judged(exchange, policy, until)
        points = judged.points
        often = Counter(points.ids)
        # A point of an id that is stored, or comes twice, replaces another: left out, the old content would stay.
        rows = [row for row, each in enumerate(judged.verdicts) if each.of is not None and often[points.ids[row]] == 1]
        if rows:
            body = await self._ask(exchange, verbs.ask_stored(exchange.operation, points, rows), until)
            known = await self._done(exchange, partial(verbs.stored, body))
            rows = [row for row in rows if points.ids[row] not in known]
        left_out = tuple([self._left_out(verbs, exchange.operation, judged, row) for row in rows])
        if not left_out:
            return Cut(None, ())
        rest = None
        if len(rows) < len(points.ids):
            rest = await self._done(exchange, partial(verbs.without, points, frozenset(rows)))
        await journal.enter(left_out, State.PENDING)
        return Cut(rest, left_out)

    def _left_out(self, verbs: LeavesPointsOut, write: Operation, judged: Judged, row: int) -> LeftOut:
        verdict = judged.verdicts[row]
        assert verdict.of is not None  # noqa: S101 - it is a copy
        return LeftOut(
            collection=write.collection,
            partition=verbs.partition(judged.points),
            id=judged.points.ids[row],
            survivor=verdict.of,
            tier=verdict.tier.value,
            similarity=verdict.similarity,
            point=verbs.point(judged.points, row),
        )

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
            case RefusedReplyError():
                outcome = WriteOutcome.REFUSED
            case TimeoutError():
                outcome = WriteOutcome.LATE
            case LostReplyError() if error.reason is FailOpen.OVERFETCH_TIMEOUT:
                outcome = WriteOutcome.LATE
            case _:
                outcome = WriteOutcome.FAILED
                LOGGER.warning("a write was not judged", extra={"fields": {"error": type(error).__name__}})
        self.passed(outcome)

    async def _judged(self, exchange: Questioner, policy: ResolvedPolicy, until: float) -> Judged:
        write = exchange.operation
        needs = WriteNeeds(
            vector_name=policy.vector,
            keys=keys_of(policy),
            most=self._services.limits.write_points,
        )
        points = await self._done(exchange, partial(self.adapter.parse, write, exchange.plain, needs))
        near, is_cosine = await self._near(exchange, points, policy, until)
        verdicts = await self._work.finished(
            judge(points, near, policy, is_cosine=is_cosine), nullcontext(), is_long=_is_long(exchange)
        )
        judged = Judged(points, verdicts)
        self._count(judged, policy)
        return judged

    async def _done(self, exchange: Questioner, work: Callable[[], T]) -> T:
        return await self._work.done(work, is_long=_is_long(exchange))

    async def _near(
        self, exchange: Questioner, points: NewPoints, policy: ResolvedPolicy, until: float
    ) -> tuple[Neighbours, bool]:
        """The stored neighbours, and whether their scores are cosine similarities. Points without a usable vector or a tenant have
        none.
        """
        tenants = [tenant_of(policy.tenant_keys, fields) for fields in points.fields]
        usable: npt.NDArray[np.bool_] = np.isfinite(points.vectors).all(axis=1) & (points.vectors != 0.0).any(axis=1)
        which = tuple(row for row, each in enumerate(tenants) if each is not None and usable[row])
        is_cosine = await self._is_cosine(exchange, points.vector_name, until)
        if not which:
            return _no_neighbours(points), is_cosine
        inquiry = Inquiry(
            which=which,
            tenants=tuple(each for row in which if (each := tenants[row]) is not None),
            count=self._count_of(points, len(which), policy, is_cosine=is_cosine),
            vectors=not is_cosine,
        )
        question = await self._done(exchange, partial(self.adapter.ask, exchange.operation, points, inquiry))
        if not self._services.own.take(exchange.operation, OwnRead.NEIGHBOURS, len(which)):
            raise NotJudgedError(WriteOutcome.WITHHELD)
        body = await self._ask(exchange, question, until)
        return await self._done(exchange, partial(self.adapter.found, points, inquiry, body)), is_cosine

    def _count_of(self, points: NewPoints, asked: int, policy: ResolvedPolicy, *, is_cosine: bool) -> int:
        """Neighbours of each point: one more than are compared, since the point itself may be stored; with their vectors no more than
        a reply may hold.
        """
        wanted = policy.write.neighbours + 1
        if is_cosine:
            return wanted
        each: int = points.vectors.shape[1] * NUMBER_BYTES + NEIGHBOUR_BYTES
        return max(1, min(wanted, self._services.limits.reply_body_bytes // (each * asked)))

    async def _is_cosine(self, exchange: Questioner, vector_name: str, until: float) -> bool:
        """Learned from the collection's description, and kept for a minute. False where the client may not read it."""
        write, held = exchange.operation, self._services.learned.descriptions
        key = (write.collection, _COSINE + vector_name)
        known = held.get(key)
        if known is None:
            try:
                body = await self._send(exchange, self.adapter.describe(write), until)
                known = Description(self.adapter.is_cosine(body, vector_name))
            except RefusedReplyError:
                known = Description(known=False)
            held.put(key, known, seconds=KNOWN_SECONDS)
        return known.known is True

    async def _ask(self, exchange: Questioner, question: Question, until: float) -> bytes:
        """Raises NotJudgedError, LostReplyError or RefusedReplyError."""
        if not self._breaker.allow():
            raise NotJudgedError(WriteOutcome.WITHHELD)
        try:
            body = await self._send(exchange, question, until)
        except LostReplyError:
            self._breaker.failed()
            raise
        except RefusedReplyError as refused:
            if self._dialect.is_quota(refused.status, refused.words):
                self._services.own.refused(exchange.operation.collection)
            (self._breaker.failed if refused.is_server_error else self._breaker.succeeded)()
            raise
        except asyncio.CancelledError:
            self._breaker.abandoned()
            raise
        self._breaker.succeeded()
        return body

    async def _send(self, exchange: Questioner, question: Question, until: float) -> bytes:
        started = self._services.clock()
        if started >= until:
            raise TimeoutError
        body = await exchange.ask(question, seconds=until - started)
        self._services.metrics.received(len(body))
        return body

    def _count(self, judged: Judged, policy: ResolvedPolicy) -> None:
        metrics, backend = self._services.metrics, self._services.backend
        self.passed(WriteOutcome.JUDGED)
        tiers = Counter(each.tier for each in judged.verdicts)
        copies = Counter(each.tier for each in judged.verdicts if each.of is not None)
        held = sum(each.is_held for each in judged.verdicts)
        for tier, count in tiers.items():
            metrics.write_points_total.labels(backend, tier).inc(count)
        metrics.write_copies_total.inc(sum(copies.values()))
        metrics.write_points_held_total.inc(held)
        if copies:
            fields: dict[str, object] = {"mode": policy.write.mode, "points": len(judged.verdicts), "held": held}
            fields |= {tier.value: count for tier, count in copies.items()}
            LOGGER.info("duplicate-found", extra={"fields": fields})


def _is_long(exchange: Questioner) -> bool:
    return len(exchange.plain) > INLINE_BYTES


def _no_neighbours(points: NewPoints) -> Neighbours:
    return Neighbours(
        of=np.empty(0, np.intp),
        ids=(),
        scores=np.empty(0),
        vectors=np.empty((0, points.vectors.shape[1]), np.float32),
        fields=(),
    )
