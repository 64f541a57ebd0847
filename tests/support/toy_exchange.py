"""Searches of the toy backend on a transport that is a script: what goes out is remembered, what comes back is given."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from prometheus_client import CollectorRegistry

from support.clocks import ManualClock
from support.manual_time import Timers
from support.toy_backend import OPERATION, ToyAdapter, ToyUpstream, ranking
from vecsieve.adapters.contract import Bounds, NativeAnswer, Operation
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.breaker import Breaker
from vecsieve.proxy.search.budgets import Egress, OwnReads
from vecsieve.proxy.search.collections import Learned
from vecsieve.proxy.search.exchange import Fits, Gate, Looking, Refused
from vecsieve.proxy.search.fetch import Appetite, Rejected
from vecsieve.proxy.search.hedge import Hedges, Patience, Replays
from vecsieve.proxy.search.limits import HeldBytes
from vecsieve.proxy.search.policy import Policies, ResolvedPolicy
from vecsieve.proxy.search.report import Recent, Report
from vecsieve.proxy.search.searcher import Searcher
from vecsieve.proxy.search.service import Ladder, Surroundings
from vecsieve.proxy.telemetry.labels import AttemptKind, FailOpen
from vecsieve.proxy.telemetry.metrics import Metrics

COPIES = [0, 0, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
BAD_REQUEST, SERVER_ERROR, TOO_MANY = 400, 500, 429
OUT_OF_QUOTA = b"out of quota"  # a success by name alone


@dataclass(frozen=True, slots=True)
class ToyAnswer:
    """What a client would get. ``report``: of one that was made here; None for upstream's own."""

    body: bytes
    report: Report | None = None
    is_success: bool = True

    @property
    def body_bytes(self) -> int:
        return len(self.body)


OWN = ToyAnswer(b"upstream's own answer")


class ToyDialect:
    """Refuses with `limit <number>` and `no vector`."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        return NativeAnswer(status=status, content_type="", body=message.encode())

    def is_quota(self, status: int, body: bytes) -> bool:
        return status == TOO_MANY

    def is_quota_in_success(self, body: bytes) -> bool:
        return body == OUT_OF_QUOTA

    def refused_limit(self, status: int, body: bytes) -> int | None:
        return int(body.removeprefix(b"limit ")) if body.startswith(b"limit ") else None

    def names_unknown_vector(self, status: int, body: bytes) -> bool:
        return body == b"no vector"


def refused(status: int = BAD_REQUEST, words: bytes = b"no") -> Refused:
    """A refusal, judged as over HTTP."""
    return Refused(
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
    own: ToyAnswer = OWN
    operation: Operation = OPERATION
    upstream: ToyUpstream = field(default_factory=lambda: ToyUpstream(ranking(COPIES)))
    sent: list[tuple[bytes, float]] = field(default_factory=list)
    originals: list[AttemptKind] = field(default_factory=list)

    async def send(self, body: bytes, *, seconds: float, fits: Fits) -> bytes:
        self.sent.append((body, seconds))
        answer = await self.upstream.fetch(body) if self.answering is None else self.answering(body)
        if isinstance(answer, BaseException):
            raise answer
        assert isinstance(answer, bytes)
        return answer

    def answer(self, body: bytes, report: Report) -> ToyAnswer:
        if not self.sent:
            raise Rejected(FailOpen.INTERNAL)
        return ToyAnswer(body, report)

    def refusal(self) -> ToyAnswer:
        return ToyAnswer(b"the refusal", is_success=False)

    async def original(self, kind: AttemptKind, gate: Gate | None = None) -> ToyAnswer:
        self.originals.append(kind)
        if gate is not None:
            await gate(self.own.is_success)
        return self.own


@dataclass(slots=True)
class Toys:
    """A ladder, and everything around it."""

    clock: ManualClock
    registry: CollectorRegistry
    timers: Timers
    around: Surroundings
    ladder: Ladder

    def count(self, name: str, **labels: str) -> float:
        found = self.registry.get_sample_value(f"vecsieve_{name}", labels)
        return 0.0 if found is None else found


def toys(
    *,
    budget_bytes: int | None = None,
    keep: int = 0,
    held_bytes: int = 1 << 26,
    reply_bytes: int = 1 << 24,
    parts: int = 100,
    in_flight: Callable[[], int] = lambda: 100,
    own_reads_share: float = 1.0,
) -> Toys:
    """Fresh ones."""
    clock, registry, timers = ManualClock(100.0), CollectorRegistry(), Timers()
    metrics = Metrics(registry)
    replays = Replays(in_flight)
    own = OwnReads(own_reads_share, metrics=metrics, clock=clock)
    around = Surroundings(
        learned=Learned(clock),
        breaker=Breaker(clock, jitter=lambda _: 0.0),
        appetite=Appetite(),
        egress=Egress(budget_bytes, now=clock),
        hedges=Hedges(patience=Patience(longest_seconds=5.0, clock=clock), own=own, replays=replays, later=timers),
        looking=Looking(Breaker(clock, jitter=lambda _: 0.0), own, metrics, clock),
        own=own,
        metrics=metrics,
        recent=Recent(keep, now=clock),
        held=HeldBytes(held_bytes, reply_bytes=reply_bytes, changed=metrics.selection_bytes_held, clock=clock),
        bounds=Bounds(searches=128, parts=parts, nesting=4),
        replays=replays,
        clock=clock,
    )
    return Toys(clock, registry, timers, around, Ladder(Searcher(ToyAdapter()), ToyDialect(), around, number_bytes=12))


def shadowed(exchange: ToyExchange) -> ToyExchange:
    """The same exchange in mode shadow."""
    return replace(exchange, policy=replace(exchange.policy, mode="shadow"))
