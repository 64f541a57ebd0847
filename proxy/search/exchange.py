"""One intercepted exchange on any transport: what was asked, how widened requests go out, and the answers made of what
comes back. What its attempt has met, and the report made of it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar, runtime_checkable

from vecsieve.adapters.contract import (
    Adapter,
    DescribesCollections,
    Dialect,
    Lookup,
    MalformedReplyError,
    Operation,
    Question,
)
from vecsieve.proxy.search.breaker import Breaker
from vecsieve.proxy.search.budgets import OwnReads
from vecsieve.proxy.search.collections import Description, Expiring
from vecsieve.proxy.search.errors import (
    LookupFailedError,
    LostReplyError,
    RefusedReplyError,
    RejectedReplyError,
    first_success,
)
from vecsieve.proxy.search.fetch import Attempt
from vecsieve.proxy.search.lookups import SendVectorFetch
from vecsieve.proxy.search.policy import ResolvedPolicy
from vecsieve.proxy.search.report import Figures, Record, Report, explain, figures
from vecsieve.proxy.telemetry.labels import AttemptKind, FailOpen, Outcome, OwnRead, Stage, VectorFetchOutcome
from vecsieve.proxy.telemetry.metrics import Metrics
from vecsieve.proxy.telemetry.requests import RequestRecorder
from vecsieve.proxy.telemetry.tracing import Clock

Gate = Callable[[bool], Awaitable[None]]
"""Waited for when the head of the original's answer is here, and nothing of it has gone out; told whether it is a success."""


class TransportAnswer(Protocol):
    """A transport's answer."""

    @property
    def body_bytes(self) -> int:
        """The size of its body; only asked of one that was made here."""
        ...

    @property
    def is_success(self) -> bool:
        """Whether it says that the request was fine."""
        ...


A_co = TypeVar("A_co", bound=TransportAnswer, covariant=True)


class Exchange(Protocol[A_co]):
    """One classified request whose body is read, on its transport."""

    @property
    def operation(self) -> Operation:
        """Which search it is."""
        ...

    @property
    def policy(self) -> ResolvedPolicy:
        """What it is answered by."""
        ...

    @property
    def plain(self) -> bytes:
        """The body without its content coding."""
        ...

    @property
    def client_timeout_seconds(self) -> float | None:
        """What the client gives the whole exchange; None when it does not say."""
        ...

    async def send(self, body: bytes, *, seconds: float, fits: Fits) -> bytes:
        """Send a widened request; the body of upstream's success. Raises LostReplyError or RefusedReplyError.

        ``fits``: asked as the body arrives, where a transport can tell; what does not fit is lost to overload.
        """
        ...

    def answer(self, body: bytes, report: Report) -> A_co:
        """The head of upstream's last success around our body. Raises RejectedReplyError when there is none."""
        ...

    def refusal(self) -> A_co:
        """Upstream's last refusal, as it came."""
        ...

    async def original(self, kind: AttemptKind, gate: Gate | None = None) -> A_co:
        """Send the client's own bytes; upstream's own answer to them. ``kind``: whether widened ones went before. ``gate``: waited
        for when the answer begins, before anything of it goes out.
        """
        ...


Fits = Callable[[int], bool]
"""Whether a reply of at least so many bytes may be held."""


def rows_of(attempt: Attempt) -> tuple[Figures, ...]:
    """The figures of an improved answer, search by search."""
    assert attempt.reply is not None  # noqa: S101 - an improved answer was made of it
    searches = zip(attempt.call.searches, attempt.reply.pools, attempt.selections, strict=True)
    return tuple(figures(search, pool, selection) for search, pool, selection in searches)


def records_of(attempt: Attempt) -> tuple[Record, ...]:
    """What an improved answer is made of, search by search, without those that were sent as the client wrote them."""
    assert attempt.reply is not None  # noqa: S101 - an improved answer was made of it
    searches = zip(attempt.call.searches, attempt.reply.pools, attempt.selections, attempt.plan, strict=True)
    return tuple(
        explain(attempt.call.operation, search, pool, selection)
        for search, pool, selection, planned in searches
        if planned is not None
    )


def report_of(
    operation: Operation,
    attempt: Attempt,
    *,
    outcome: Outcome,
    reason: FailOpen | None = None,
    rows: tuple[Figures, ...] = (),
    hedged: bool = False,
) -> Report:
    """What the call has come to so far."""
    lookups = attempt.lookups
    return Report(
        backend=operation.backend,
        operation=operation.name,
        outcome=outcome,
        total_seconds=attempt.watch.elapsed(),
        upstream_seconds=attempt.watch.seconds(Stage.UPSTREAM),
        fail_open=reason,
        searches=len(attempt.call.searches),
        top_k=sum(search.top_k for search in attempt.call.searches),
        figures=rows,
        grown=attempt.rounds > 1,
        hedged=hedged,
        overfetch_bytes=attempt.fetched_bytes + (0 if lookups is None else lookups.fetched_bytes),
        recall=attempt.recall,
        looked=None if lookups is None else lookups.looked,
        extra_read_units=0 if lookups is None else lookups.read_units,
        stages=attempt.watch.stages(),
        marks=attempt.watch.marks(),
    )


def note(attempt: Attempt, error: Exception) -> None:
    """Remember the first reason why a rung fell: later ones follow from it."""
    if attempt.reason is not None:
        return
    if isinstance(error, RejectedReplyError):
        attempt.reason = error.reason
    elif isinstance(error, MalformedReplyError):
        attempt.reason = FailOpen.MALFORMED
    elif isinstance(error, MemoryError):
        attempt.reason = FailOpen.MEMORY
    else:
        attempt.reason = FailOpen.INTERNAL


# Mode shadow: the pipeline beside the untouched answer. It measures, and nothing of it reaches a client.

LOGGER = logging.getLogger("vecsieve.shadow")

ROUNDING = 1e-9  # twenty times 0.05 is not one

Measure = Callable[[], Awaitable[Report | None]]
"""Runs the pipeline of one search for its figures alone."""


class Shadow:
    """Owns the measurements that are under way: a bounded number, ended with the process.

    A measurement starts after the client's answer has gone out, so that it adds nothing to its time. They run one after
    another: nobody waits for them, and each holds a reply, of which grpcio makes three copies (three of 15 MB: 120 MiB).
    """

    def __init__(self, *, recorder: RequestRecorder, limit: int) -> None:
        self._tally = recorder
        self._limit = limit
        self._running: set[asyncio.Task[None]] = set()
        self._debt = 1.0
        self._alone = asyncio.Lock()

    @property
    def running(self) -> int:
        """How many are under way, all but one of which wait."""
        return len(self._running)

    def is_due(self, sample: float) -> bool:
        """Whether the next search is to be measured: one in so many, and no more at once than the limit.

        The sample is taken evenly, not at random: at 0.25 the first search is measured, and every fourth after it.
        """
        if sample <= 0.0:
            return False
        is_owed = self._debt > 1.0 - ROUNDING
        is_due = is_owed and len(self._running) < self._limit
        if is_owed and not is_due:
            self._debt = 1.0  # of those that found no room one is made up for
        else:
            self._debt += sample - is_due
        return is_due

    def follow(self, measure: Measure, attempt: Attempt) -> None:
        """Measure this search of which ``attempt`` is the memory."""
        task = asyncio.create_task(self._measure(measure, attempt), name="vecsieve-shadow")
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def close(self) -> None:
        """End what is under way."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _measure(self, measure: Measure, attempt: Attempt) -> None:
        async with self._alone:
            attempt.watch.restart()
            report = await first_success(
                [measure], lambda error: LOGGER.warning("not measured: %s", type(error).__name__)
            )
        if report is not None:
            self._tally.measured(report, attempt)


# How the lookups of a search go out on its transport, in what the search has left of its time, and what they cost.
#
# A breaker of their own ends them for a while when they keep failing: each would be waited for, and paid for, in vain.

_LOOKED_BY = {
    FailOpen.OVERFETCH_TIMEOUT: VectorFetchOutcome.TIMEOUT,
    FailOpen.TOO_LARGE: VectorFetchOutcome.TOO_LARGE,
    FailOpen.MALFORMED: VectorFetchOutcome.MALFORMED,
}


@runtime_checkable
class SendsVectorFetches(Protocol):
    """A transport that can send lookups."""

    @property
    def operation(self) -> Operation:
        """Which search they belong to."""
        ...

    async def look_up(self, lookup: Lookup, *, seconds: float) -> bytes:
        """The body of upstream's success. Raises LostReplyError or RefusedReplyError."""
        ...


@dataclass(frozen=True, slots=True)
class VectorFetcher:
    """The lookups of a process. ``breaker``: theirs alone, so that searches are widened whatever becomes of them."""

    breaker: Breaker
    own: OwnReads
    metrics: Metrics
    clock: Clock

    def of(self, exchange: object, attempt: Attempt, dialect: Dialect) -> SendVectorFetch | None:
        """What sends an exchange's lookups; None where its transport cannot."""
        if not isinstance(exchange, SendsVectorFetches):
            return None

        async def look(lookup: Lookup) -> bytes:
            return await self._look(exchange, attempt, lookup, dialect)

        return look

    async def _look(self, exchange: SendsVectorFetches, attempt: Attempt, lookup: Lookup, dialect: Dialect) -> bytes:
        started = self.clock()
        if started >= attempt.deadline:
            raise LookupFailedError(VectorFetchOutcome.TIMEOUT)
        if not self.breaker.allow():
            raise LookupFailedError(VectorFetchOutcome.BREAKER)
        if not self.own.take(exchange.operation, OwnRead.LOOKUP):
            self.breaker.abandoned()
            raise LookupFailedError(VectorFetchOutcome.WITHHELD)
        try:
            body = await exchange.look_up(lookup, seconds=attempt.deadline - started)
        except LostReplyError as lost:
            self._failed(attempt, lost.received_bytes)
            raise LookupFailedError(_LOOKED_BY.get(lost.reason, VectorFetchOutcome.RESET)) from lost
        except RefusedReplyError as refused:
            self._failed(attempt, len(refused.words))
            if dialect.is_quota(refused.status, refused.words):
                self.own.refused(exchange.operation.collection)
            raise LookupFailedError(VectorFetchOutcome.STATUS) from refused
        except asyncio.CancelledError:
            self.breaker.abandoned()
            raise
        finally:
            self.metrics.upstream_done(AttemptKind.LOOKUP, self.clock() - started)
        self.breaker.succeeded()
        self._received(attempt, len(body))
        return body

    def _failed(self, attempt: Attempt, received_bytes: int) -> None:
        self.breaker.failed()
        self._received(attempt, received_bytes)

    def _received(self, attempt: Attempt, size: int) -> None:
        self.metrics.received(size)
        attempt.received(size)


# What collections are like, asked with the caller's own credentials where an adapter wants to know, and kept for a minute.
#
# Shapes only, so that callers with different credentials may share it. Whoever may search but not describe is not asked for
# again for as long; a wrong or missing entry costs improvement, never a wrong answer.

KNOWN_SECONDS = 60.0  # a collection may be dropped and made anew, and fields added, while we run
# A search waits for it once a minute and collection: a description is answered from a server's memory in milliseconds.
ASK_SECONDS = 0.5


@runtime_checkable
class SendsDescriptions(Protocol):
    """A transport that can send questions, as an exchange of one search."""

    @property
    def operation(self) -> Operation:
        """Which search it is."""
        ...

    @property
    def plain(self) -> bytes:
        """The body without its content coding."""
        ...

    @property
    def client_timeout_seconds(self) -> float | None:
        """What the client gives the whole exchange; None when it does not say."""
        ...

    async def ask(self, question: Question, *, seconds: float) -> bytes:
        """The body of upstream's success. Raises LostReplyError or RefusedReplyError."""
        ...


class CollectionInfo:
    """What one transport's adapter has been told. ``held``: where it is kept. ``clock``: monotonic seconds."""

    __slots__ = ("_clock", "_held", "_metrics", "_step")

    def __init__(
        self, adapter: Adapter, metrics: Metrics, clock: Callable[[], float], held: Expiring[Description]
    ) -> None:
        self._step = adapter if isinstance(adapter, DescribesCollections) else None
        self._metrics = metrics
        self._clock = clock
        self._held = held

    async def of(self, exchange: object) -> object | None:
        """What is known of the collection that an exchange searches; None where nothing is, or nobody wants to know."""
        if self._step is None or not isinstance(exchange, SendsDescriptions):
            return None
        question = self._step.question(exchange.operation, exchange.plain)
        if question is None:
            return None
        key = (exchange.operation.collection, question.target + question.body.decode("latin-1"))
        told = self._held.get(key)
        if told is None:
            told = Description(await self._ask(self._step, exchange, question))
            self._held.put(key, told, seconds=KNOWN_SECONDS)
        return told.known

    async def _ask(self, step: DescribesCollections, exchange: SendsDescriptions, question: Question) -> object | None:
        limit = exchange.client_timeout_seconds
        started = self._clock()
        try:
            body = await exchange.ask(question, seconds=ASK_SECONDS if limit is None else min(ASK_SECONDS, limit / 4))
            self._metrics.received(len(body))
            return step.told(body)
        except (LostReplyError, RefusedReplyError, MalformedReplyError):
            return None
        finally:
            self._metrics.upstream_done(AttemptKind.LOOKUP, self._clock() - started)
