"""One intercepted request on any transport, and the additional reads sent beside its search.

The transports implement ``Exchange``. Mode shadow, vector fetches and collection descriptions work on all of them.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

from vecsieve.adapters.contract import (
    DescribesCollections,
    Dialect,
    Lookup,
    MalformedReplyError,
    Operation,
    Question,
)
from vecsieve.adapters.fusions import SAME, Ending

from ..runtime.memory import LARGE_MESSAGE_BYTES, TRIM_SECONDS
from ..telemetry.labels import AttemptKind, FailOpen, ReadKind, VectorFetchOutcome
from ..telemetry.metrics import Metrics
from ..telemetry.reports import Report
from ..telemetry.requests import RequestRecorder
from ..telemetry.tracing import Clock
from ..telemetry.verdict import Measured, Plain, measured_rows
from .budgets import ReadBudget
from .collections.learned import Description, Expiring
from .errors import (
    LookupFailedError,
    LostReplyError,
    RefusedReplyError,
    first_success,
)
from .governor import Grant
from .hedge import Fits, Gate
from .limits import Breaker
from .policy import ResolvedPolicy
from .pools.source import Source


class TransportAnswer(Protocol):
    """An answer in a transport's own form. ``body_bytes``: of an answer that was sent, or that VecSieve has built."""

    @property
    def body_bytes(self) -> int: ...

    @property
    def is_success(self) -> bool: ...


class Questioner(Protocol):
    """Sends additional reads to the upstream of one search, with the client's credentials.

    ``plain``: the search's body without its content coding. ``client_timeout_seconds``: None when the client names none.
    """

    @property
    def operation(self) -> Operation: ...

    @property
    def plain(self) -> bytes: ...

    @property
    def client_timeout_seconds(self) -> float | None: ...

    async def ask(self, question: Question, *, seconds: float) -> bytes:
        """Return the body of a successful reply. Raises LostReplyError or RefusedReplyError."""
        ...


class WriteQuestioner(Questioner, Protocol):
    """Of one write."""

    async def again(self, body: bytes, *, seconds: float) -> bytes:
        """Send the client's request with another body, once; return the body of a successful reply. Raises LostReplyError or RefusedReplyError."""
        ...


A_co = TypeVar("A_co", bound=TransportAnswer, covariant=True)


class Exchange(Questioner, Protocol[A_co]):
    """One classified request whose body has been read, on its transport."""

    @property
    def policy(self) -> ResolvedPolicy: ...

    async def send(self, body: bytes, *, seconds: float, fits: Fits, ending: Ending = SAME) -> bytes:
        """Send a widened request; return the body of a successful reply. Raises LostReplyError or RefusedReplyError.

        ``ending``: replaces the end of the path, for an additional read. ``fits``: called as the body arrives, if the transport can; a body
        that does not fit is dropped as overload.
        """
        ...

    def answer(self, body: bytes, report: Report) -> A_co:
        """Send ``body`` with the head of the last successful reply. Raises RejectedReplyError when there is none."""
        ...

    def failed_open(self, reason: FailOpen) -> None:
        """The original is the answer, because VecSieve failed for ``reason``."""
        ...

    def refusal(self) -> A_co:
        """Return upstream's last refusal unchanged."""
        ...

    async def original(self, kind: AttemptKind, gate: Gate | None = None) -> A_co:
        """Send the client's own bytes and return upstream's own answer."""
        ...


LOGGER = logging.getLogger("vecsieve.shadow")

SHADOWS_PENDING = 16  # each keeps its request; further measurements are skipped and counted
ROUNDING = 1e-9  # twenty times 0.05 is not exactly 1
# The pause after measuring a large reply, until its memory is freed. Three replies of 16 MB over gRPC in a row took 62 MiB at the peak;
# with this pause 45.
REST_SECONDS = 2 * TRIM_SECONDS

Measure = Callable[[], Awaitable[Report | None]]
"""Runs the pipeline of one search to measure it only."""

FIRST = 50  # searches of a collection that are all measured: a first verdict within a minute, with caches as warm as in mode `on`
COLLECTIONS = 64  # of which the first searches are measured: at most so many times FIRST reads
WARM_AFTER = 10  # measured searches in a row
KEPT = 1000  # measured searches: 200 kB


@dataclass(slots=True)
class _Sampled:
    """One collection: how many of its searches were measured, and how many since one was not."""

    measured: int = 0
    in_a_row: int = 0


class Shadow:
    """Runs the measurements of mode shadow: at most ``limit`` pending, cancelled when the process ends.

    A measurement starts after the client's answer was sent, so it adds no latency. Measurements run one at a time: no client waits for
    them, and each holds a reply, of which grpcio makes three copies (three of 15 MB: 120 MiB). ``rows``: the last measured searches.
    """

    def __init__(self, *, recorder: RequestRecorder, limit: int = SHADOWS_PENDING) -> None:
        self._recorder = recorder
        self._limit = limit
        self._running: set[asyncio.Task[None]] = set()
        self.rows = deque[Measured](maxlen=KEPT)
        self._sampled: dict[str, _Sampled] = {}
        self._debt = 1.0
        self._alone = asyncio.Lock()

    @property
    def running(self) -> int:
        """How many are pending, the running one included."""
        return len(self._running)

    def is_due(self, sample: float, collection: str) -> bool:
        """Whether to measure the next search: the first ones of a collection, then the sample.

        The sample is even, not random: at 0.25 one search is measured, and then every fourth.
        """
        if sample <= 0.0:
            return False
        has_room, sampled = len(self._running) < self._limit, self._of(collection)
        if sampled is not None and sampled.measured < FIRST:
            return has_room
        is_owed = self._debt > 1.0 - ROUNDING
        is_due = is_owed and has_room
        if sampled is not None and not is_owed:
            sampled.in_a_row = 0
        if is_owed and not is_due:
            self._debt = 1.0  # of the searches skipped at the limit, one is measured later
        else:
            self._debt += sample - is_due
        return is_due

    def _of(self, collection: str) -> _Sampled | None:
        """None if too many collections are known."""
        if len(self._sampled) < COLLECTIONS:
            return self._sampled.setdefault(collection, _Sampled())
        return self._sampled.get(collection)

    def forget(self) -> None:
        """Begin again: other settings are in force."""
        self.rows.clear()
        self._sampled.clear()

    def start(self, measure: Measure, source: Source, plain: Plain) -> None:
        """Queue one measurement. ``source``: of its pools. ``plain``: the client's own search."""
        is_warm = False
        if (sampled := self._of(source.planned.collection)) is not None:
            is_warm = sampled.in_a_row >= WARM_AFTER
            sampled.measured += 1
            sampled.in_a_row += 1
        task = asyncio.create_task(self._measure(measure, source, plain, is_warm=is_warm), name="vecsieve-shadow")
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    async def settled(self) -> None:
        """Wait for the pending ones."""
        await asyncio.gather(*self._running, return_exceptions=True)

    async def close(self) -> None:
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    async def _measure(self, measure: Measure, source: Source, plain: Plain, *, is_warm: bool) -> None:
        async with self._alone:
            planned = source.planned
            planned.watch.started = planned.watch.clock()
            report = await first_success(
                [measure], lambda error: LOGGER.warning("not measured: %s", type(error).__name__)
            )
            if report is not None:
                self._recorder.measured(report)
            reason = (None if planned.grant is None else planned.grant.reason) or FailOpen.INTERNAL
            self.rows.extend(measured_rows(report, reason, plain, collection=planned.collection, is_warm=is_warm))
            is_large = source.fetched_bytes >= LARGE_MESSAGE_BYTES
            del measure, source, report  # the source has the reply
            if is_large:
                await asyncio.sleep(REST_SECONDS)


_OUTCOMES = {
    FailOpen.OVERFETCH_TIMEOUT: VectorFetchOutcome.TIMEOUT,
    FailOpen.TOO_LARGE: VectorFetchOutcome.TOO_LARGE,
    FailOpen.MALFORMED: VectorFetchOutcome.MALFORMED,
}


@dataclass(frozen=True, slots=True)
class VectorFetcher:
    """Sends the vector lookups of a process, within the time left for their search.

    ``breaker``: separate from the searches' breaker. While lookups fail, none is sent, and searches are still widened.
    """

    breaker: Breaker
    reads: ReadBudget
    metrics: Metrics
    clock: Clock

    async def send(self, exchange: Questioner, grant: Grant, dialect: Dialect, lookup: Lookup) -> bytes:
        """Return the body of a successful reply. Raises LookupFailedError."""
        started, received_bytes = self.clock(), 0
        if started >= grant.deadline:
            raise LookupFailedError(VectorFetchOutcome.TIMEOUT)
        if not self.breaker.allow():
            raise LookupFailedError(VectorFetchOutcome.BREAKER)
        if not self.reads.take(exchange.operation, ReadKind.LOOKUP):
            self.breaker.abandoned()
            raise LookupFailedError(VectorFetchOutcome.WITHHELD)
        question = Question(method=lookup.method, target=lookup.target)
        try:
            body = await exchange.ask(question, seconds=grant.deadline - started)
        except LostReplyError as lost:
            received_bytes = lost.received_bytes
            self.breaker.failed()
            raise LookupFailedError(_OUTCOMES.get(lost.reason, VectorFetchOutcome.RESET)) from lost
        except RefusedReplyError as refused:
            received_bytes = len(refused.words)
            self.breaker.failed()
            if dialect.is_quota(refused.status, refused.words):
                self.reads.refused(exchange.operation.collection)
            raise LookupFailedError(VectorFetchOutcome.STATUS) from refused
        except asyncio.CancelledError:
            self.breaker.abandoned()
            raise
        else:
            received_bytes = len(body)
            self.breaker.succeeded()
            return body
        finally:
            self.metrics.upstream_done(AttemptKind.LOOKUP, self.clock() - started, received_bytes)
            grant.received(received_bytes)


KNOWN_SECONDS = 60.0  # a collection may be dropped and recreated, or get new fields, at any time
# A search waits for a description at most once a minute and collection; a server answers from memory in milliseconds.
ASK_SECONDS = 0.5
# A description is read on the event loop, in 20 ms if it is so large; usual ones have some kilobytes.
DESCRIPTION_BYTES = 256 * 1024
# Of a question: it is a key of the cache, and over Milvus' REST it has names of any length from the client's body.
QUESTION_BYTES = 4096


class CollectionInfo:
    """Requests descriptions of collections for an adapter, with the client's own credentials.

    ``descriptions``: the cache. It holds shapes only, so clients with different credentials may share it. A client that may search but not describe
    triggers no new request while the entry lasts. A wrong or missing entry costs improvement, never a wrong answer. ``is_needed``: whether
    the adapter needs descriptions.
    """

    __slots__ = ("_clock", "_describer", "_descriptions", "_metrics", "is_needed")

    def __init__(
        self, adapter: object, metrics: Metrics, clock: Clock, descriptions: Expiring[tuple[str, str], Description]
    ) -> None:
        self._describer = adapter if isinstance(adapter, DescribesCollections) else None
        self.is_needed = self._describer is not None
        self._metrics = metrics
        self._clock = clock
        self._descriptions = descriptions

    async def of(self, exchange: Questioner) -> object | None:
        """What is known of the searched collection; None if unknown, or if the adapter needs no description."""
        if self._describer is None:
            return None
        question = self._describer.describe(exchange.operation, exchange.plain)
        if question is None or len(question.target) + len(question.body) > QUESTION_BYTES:
            return None
        key = (exchange.operation.collection, question.target + question.body.decode("latin-1"))
        description = self._descriptions.get(key)
        if description is None:
            description = Description(await self._ask(self._describer, exchange, question))
            self._descriptions.put(key, description, seconds=KNOWN_SECONDS)
        return description.known

    async def _ask(self, describer: DescribesCollections, exchange: Questioner, question: Question) -> object | None:
        limit = exchange.client_timeout_seconds
        started, received_bytes = self._clock(), 0
        try:
            body = await exchange.ask(question, seconds=ASK_SECONDS if limit is None else min(ASK_SECONDS, limit / 4))
            received_bytes = len(body)
            return None if len(body) > DESCRIPTION_BYTES else describer.parse_description(body)
        except (LostReplyError, RefusedReplyError, MalformedReplyError):
            return None
        finally:
            self._metrics.upstream_done(AttemptKind.LOOKUP, self._clock() - started, received_bytes)
