"""Searches of the toy backend on a transport that is a script: what goes out is remembered, what comes back is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from prometheus_client import CollectorRegistry

from support.backends.toy_backend import COPIES, OPERATION, ToyAdapter, ToyDialect, ToyUpstream, ranking
from support.process.clocks import ManualClock
from support.process.manual_time import Timers
from support.process.turning import calm
from vecsieve.adapters.contract import Bounds, Operation, Question
from vecsieve.adapters.fusions import SAME, Ending
from vecsieve.config.schema import LimitSettings, Settings
from vecsieve.proxy.admin.pools import Pools
from vecsieve.proxy.admin.recent import Observed, Recent
from vecsieve.proxy.runtime.lifecycle import Board
from vecsieve.proxy.runtime.loop import LongWork
from vecsieve.proxy.runtime.memory import MemoryGuard
from vecsieve.proxy.search.budgets import Egress, ReadBudget
from vecsieve.proxy.search.collections.learned import Learned
from vecsieve.proxy.search.collections.profiles import Scaling
from vecsieve.proxy.search.collections.texts import CollectionTexts
from vecsieve.proxy.search.context.canary import Canary
from vecsieve.proxy.search.context.sessions import InProcess, Sessions
from vecsieve.proxy.search.errors import LostReplyError, RefusedReplyError, RejectedReplyError
from vecsieve.proxy.search.exchange import Shadow, VectorFetcher
from vecsieve.proxy.search.fetch import Depths
from vecsieve.proxy.search.governor import Governor, Grant
from vecsieve.proxy.search.hedge import AttemptTimeout, Fits, Gate, Replays
from vecsieve.proxy.search.limits import Admission, Breaker, BytesInFlight
from vecsieve.proxy.search.policy import Policies, ResolvedPolicy, Rules, RulesInForce
from vecsieve.proxy.search.pools.source import Source
from vecsieve.proxy.search.service import ProcessServices, SearchService
from vecsieve.proxy.telemetry.labels import AttemptKind, FailOpen
from vecsieve.proxy.telemetry.metrics import Metrics
from vecsieve.proxy.telemetry.reports import Report
from vecsieve.proxy.telemetry.requests import RequestRecorder

BAD_REQUEST, SERVER_ERROR = 400, 500


@dataclass(frozen=True, slots=True)
class ToyAnswer:
    """What a client would get. ``report``: of one that was made here; None for upstream's own."""

    body: bytes
    report: Report | None = None
    is_success: bool = True

    @property
    def body_bytes(self) -> int:
        return len(self.body)


UPSTREAM_ANSWER = ToyAnswer(b"upstream's own answer")


def refused(status: int = BAD_REQUEST, words: bytes = b"no") -> RefusedReplyError:
    """A refusal, judged as over HTTP."""
    return RefusedReplyError(
        status,
        words,
        is_server_error=status >= SERVER_ERROR,
        may_be_size=status == BAD_REQUEST,
    )


def policy(**members: object) -> ResolvedPolicy:
    """The policy of settings that say this."""
    return Policies(Settings.model_validate({"policy": members})).resolve("toy", "c")


Answering = Callable[[bytes], Any]
"""Upstream's answer to a widened request: a body, or an exception to be raised."""


@dataclass(slots=True, kw_only=True)
class ToyExchange:
    """One search. ``upstream``: answers widened requests; by default from a ranking with copies."""

    policy: ResolvedPolicy = field(default_factory=policy)
    plain: bytes = b'[{"k": 4}]'
    client_timeout_seconds: float | None = None
    answering: Answering | None = None
    specific: ToyAnswer = UPSTREAM_ANSWER
    operation: Operation = OPERATION
    upstream: ToyUpstream = field(default_factory=lambda: ToyUpstream(ranking(COPIES)))
    sent: list[tuple[bytes, float]] = field(default_factory=list)
    originals: list[AttemptKind] = field(default_factory=list)
    failed: FailOpen | None = None

    async def send(self, body: bytes, *, seconds: float, fits: Fits, ending: Ending = SAME) -> bytes:
        self.sent.append((body, seconds))
        answer = await self.upstream.fetch(body) if self.answering is None else self.answering(body)
        if isinstance(answer, BaseException):
            raise answer
        assert isinstance(answer, bytes)
        if not fits(len(answer)):
            raise LostReplyError(FailOpen.OVERLOAD, received_bytes=len(answer))
        return answer

    async def ask(self, question: Question, *, seconds: float) -> bytes:
        raise LostReplyError(FailOpen.OVERFETCH_RESET)

    def answer(self, body: bytes, report: Report) -> ToyAnswer:
        if not self.sent:
            raise RejectedReplyError(FailOpen.INTERNAL)
        return ToyAnswer(body, report)

    def refusal(self) -> ToyAnswer:
        return ToyAnswer(b"the refusal", is_success=False)

    def failed_open(self, reason: FailOpen) -> None:
        self.failed = reason

    async def original(self, kind: AttemptKind, gate: Gate | None = None) -> ToyAnswer:
        self.originals.append(kind)
        if gate is not None:
            await gate(self.specific.is_success)
        return self.specific


@dataclass(slots=True)
class Toys:
    """A search service, and what it shares with others."""

    clock: ManualClock
    registry: CollectorRegistry
    timers: Timers
    services: ProcessServices
    service: SearchService

    def count(self, name: str, **labels: str) -> float:
        sample = self.registry.get_sample_value(f"vecsieve_{name}", labels)
        return 0.0 if sample is None else sample


def toys(
    *,
    budget_bytes: int | None = None,
    keep: int = 0,
    buffered_bytes: int = 1 << 26,
    reply_bytes: int = 1 << 24,
    parts: int = 100,
    in_flight: Callable[[], int] = lambda: 100,
    extra_reads_share: float = 1.0,
    **other: Any,
) -> Toys:
    """Fresh ones. ``other``: members of ProcessServices."""
    clock, registry, timers = ManualClock(100.0), CollectorRegistry(), Timers()
    metrics = Metrics(registry, backend="qdrant")
    reads = ReadBudget(extra_reads_share, metrics=metrics, clock=clock)
    recorder, turns = RequestRecorder(metrics, log=lambda _: None, clock=clock), calm()
    shared: dict[str, Any] = {
        "backend": "toy",
        "rules": RulesInForce(Rules.of(Settings())),
        "limits": LimitSettings(),
        "clock": clock,
        "admission": Admission(limit=8, wait_seconds=1.0, turns=turns, lag_seconds=1.0),
        "turns": turns,
        "memory": MemoryGuard(None, resident_bytes=lambda: 0, clock=clock),
        "scaling": Scaling(None, None, lambda _profile, _event: None),
        "texts": CollectionTexts(),
        "features": None,
        "depths": Depths(),
        "vector_fetcher": VectorFetcher(Breaker(clock, jitter=lambda _: 0.0), reads, metrics, clock),
        "shadow": Shadow(recorder=recorder, limit=4),
        "canary": Canary(Board(0), metrics, None, now=lambda: 0.0),
        "work": LongWork(),
        "bounds": Bounds(searches=128, parts=parts, nesting=4),
        "governor": Governor(
            learned=Learned(clock),
            bytes_in_flight=BytesInFlight(buffered_bytes, reply_bytes=reply_bytes, clock=clock),
            breaker=Breaker(clock, jitter=lambda _: 0.0),
            replays=Replays(in_flight),
            reads=reads,
            egress=Egress(budget_bytes, now=clock),
            attempt_timeout=AttemptTimeout(longest_seconds=5.0, clock=clock),
            metrics=metrics,
            clock=clock,
            later=timers,
        ),
        "recorder": recorder,
        "metrics": metrics,
        "sessions": Sessions(InProcess(sessions=9, results=99, clock=clock), clock=clock, failed=lambda: None),
        "observer": Observed(Recent(keep, now=clock), Pools(keep=False, clock=clock, work=LongWork())),
    }
    services = ProcessServices(**{**shared, **other})
    return Toys(clock, registry, timers, services, SearchService(ToyAdapter(), ToyDialect(), services, number_bytes=12))


def grant(governor: Governor | None = None, *, deadline: float = 0.0) -> Grant:
    """One of which nothing was spent yet."""
    governor = toys().services.governor if governor is None else governor
    made = Grant(governor, ToyDialect(), governor.attempt_timeout.of(OPERATION), OPERATION, None)
    made.deadline = deadline
    return made


def shadowed(exchange: ToyExchange) -> ToyExchange:
    """The same exchange in mode shadow."""
    return replace(exchange, policy=replace(exchange.policy, mode="shadow"))


def prepared(around: Toys, exchange: ToyExchange) -> Source:
    attempt = around.service.prepare(exchange)
    assert isinstance(attempt, Source)
    return attempt


async def answered(around: Toys, exchange: ToyExchange) -> tuple[ToyAnswer, Report]:
    return await around.service.best_answer(exchange, prepared(around, exchange))
