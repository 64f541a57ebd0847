"""Runs every search of one transport: prepares it, measures or improves it, and answers plainly where that fails.

    improved answer ── our failure ─► first top_k of what was fetched ── nothing usable ─► the original bytes, once

Nothing is sent to the client before one of these answers is complete, so each later one is still possible. Only searches take this path,
and a search only reads, so its original may be sent once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

from vecsieve.adapters.backends import Transport
from vecsieve.adapters.contract import (
    Adapter,
    Bounds,
    DeclinedError,
    Dialect,
    NamesInBody,
    Operation,
    Reason,
    UnsupportedError,
)
from vecsieve.config.schema import LimitSettings

from ..runtime.loop import LongWork
from ..runtime.memory import MemoryGuard, Pressure
from ..selection.policy import Short
from ..telemetry.labels import AttemptKind, Bypass, BypassReason, FailOpen, Outcome, ReadKind, Retry, Stage
from ..telemetry.metrics import Metrics
from ..telemetry.reports import Report
from ..telemetry.requests import RequestRecord, RequestRecorder
from ..telemetry.tracing import Clock, Stopwatch
from ..telemetry.verdict import Plain
from .collections.learned import WriteInvalidation, named_in
from .collections.profiles import Scaling
from .collections.texts import CollectionTexts
from .context.canary import Canary
from .context.clients import Client
from .context.overrides import overridden
from .context.repeats import first_pages
from .context.sessions import Sessions, of_question
from .errors import PassedReplyError, RejectedReplyError, first_success
from .exchange import CollectionInfo, Exchange, Shadow, TransportAnswer, VectorFetcher
from .fetch import Depths, needs_of
from .governor import Governor, Grant
from .hedge import Race
from .limits import Admission, Turns
from .memory.points import FeatureMemory
from .policy import ResolvedPolicy, Rules, RulesInForce
from .pools.retrievers import FusionDivision, Retrievers
from .pools.source import TURN_BYTES, Source
from .pools.values import Planned, Selected
from .report import report_of
from .searcher import Searcher

A = TypeVar("A", bound=TransportAnswer)


class Observer(Protocol):
    """Keeps improved answers for the admin port. The answer does not depend on it."""

    def answered(self, selected: Selected, report: Report) -> None:
        """An improved answer is ready. Must return at once."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessServices:
    """What all searches of a process share.

    ``features``: None if nothing is remembered. ``work``: closed by the process.
    """

    backend: str
    rules: RulesInForce
    limits: LimitSettings
    clock: Clock
    # Admission.
    admission: Admission
    turns: Turns
    memory: MemoryGuard
    # What improves a search.
    scaling: Scaling
    texts: CollectionTexts
    features: FeatureMemory | None
    depths: Depths
    vector_fetcher: VectorFetcher
    shadow: Shadow
    canary: Canary
    work: LongWork
    # What limits it.
    bounds: Bounds
    governor: Governor
    # Where it is recorded.
    recorder: RequestRecorder
    metrics: Metrics
    observer: Observer
    sessions: Sessions

    def write_invalidation(self, transport: Transport) -> WriteInvalidation:
        """Invalidates what is known of a collection when it is created, changed, deleted or renamed."""
        features = () if self.features is None else (self.features,)
        return WriteInvalidation(transport.reshaped, self.governor.learned, self.scaling, self.texts, *features)


class SearchService:
    """Runs the searches of one transport. ``dialect``: reads the database's errors. ``number_bytes``: size of one number of a vector.
    ``waiting``: calls queued in the transport, without a handler yet.
    """

    def __init__(
        self,
        adapter: Adapter,
        dialect: Dialect,
        services: ProcessServices,
        *,
        number_bytes: int,
        waiting: Callable[[], int] | None = None,
    ) -> None:
        self._adapter, self._governor = adapter, (governor := services.governor)
        self._searcher = Searcher(adapter, services.scaling, services.features, services.work, services.texts)
        self._retrievers = Retrievers(adapter, services.metrics, services.scaling, services.work, governor.reads)
        self._collection_info = CollectionInfo(adapter, services.metrics, services.clock, governor.learned.descriptions)
        self._dialect, self._services, self._number_bytes, self._waiting = dialect, services, number_bytes, waiting

    async def ruled_by(self, operation: Operation, read: Callable[[], Awaitable[Exchange[A] | Bypass]]) -> str | None:
        """The name by which rules decide on a search whose head has none, from its body; "" for unknown, None if it names collections with
        several policies.
        """
        services, adapter = self._services, self._adapter
        policies = services.rules.now.policies
        if operation.collection or not policies.has_rules or not isinstance(adapter, NamesInBody):
            return operation.collection
        exchange = await read()
        if isinstance(exchange, Bypass):
            return ""
        try:
            self._adapter.check_size(operation, exchange.plain, services.bounds)
        except UnsupportedError:
            return ""
        names = {policies.rule_of(services.backend, name): name for name in adapter.collections_in(exchange.plain)}
        return None if len(names) > 1 else next(iter(names.values()), "")

    def policy(
        self,
        operation: Operation,
        ruled_by: str | None,
        headers: Collection[tuple[str, str]],
        record: RequestRecord,
        client: Callable[[], Client],
    ) -> tuple[Rules, ResolvedPolicy]:
        """The rules in force and the policy of one search. Raises OverrideError.

        ``ruled_by``: the collection's name as rules know it; None for collections with several policies, of which none is applied. ``headers``: fields or metadata, overrides among them. ``client``: who sent it.
        """
        record.classified(operation)
        services, rules, is_raised = self._services, self._services.rules.now, False
        policy = rules.policies.resolve(services.backend, ruled_by or "")
        if ruled_by is None:
            policy = replace(policy, mode="off")
        elif (canary := rules.canary) is not None and policy.mode == "shadow" and not services.canary.is_stopped:
            is_raised = canary.members.admits(client(), operation, ruled_by)
            policy = canary.policies.resolve(services.backend, ruled_by) if is_raised else policy
        if headers:
            given = [(name.lower(), value) for name, value in headers]
            policy = overridden(given, rules.forbidden_overrides, policy, record)
        if is_raised and policy.mode == "on":
            plain = self._governor.attempt_timeout.of(operation).plain
            may_be_short = policy.selection.short is Short.ALLOW
            record.watch = services.canary.watch(operation.collection, plain, may_be_short=may_be_short)
        if policy.session.question_seconds is not None and policy.mode == "on":
            policy = of_question(policy, client())
        return rules, policy

    async def answer(
        self,
        policy: ResolvedPolicy,
        record: RequestRecord,
        *,
        sample: float,
        read: Callable[[], Awaitable[Exchange[A] | Bypass]],
        original: Callable[[], Awaitable[A]],
    ) -> A:
        """Answer a classified search.

        ``sample``: the share of searches that mode shadow measures. ``read``: reads the body, or returns why the search
        is bypassed. ``original``: sends the client's own bytes.
        """
        if policy.mode == "off":
            record.bypassed(Bypass.DISABLED)
            return await original()
        full = self.no_room()
        if full is not None:
            record.failed_open(full)
            return await original()
        exchange = await read()
        if isinstance(exchange, Bypass):
            record.bypassed(exchange)
            return await original()
        return await self.search(exchange, record, sample=sample)

    def no_room(self) -> FailOpen | None:
        """Why no search can be improved now; None if there is room."""
        services, limits = self._services, self._services.limits
        waiting = 0 if self._waiting is None else self._waiting()
        is_full = services.recorder.searches_in_flight + waiting >= limits.searches_in_flight
        if is_full or services.turns.lag_seconds > limits.lag_seconds:
            return FailOpen.OVERLOAD
        return FailOpen.MEMORY if services.memory.pressure() is Pressure.HIGH else None

    async def search(self, exchange: Exchange[A], record: RequestRecord, *, sample: float) -> A:
        """Answer a search whose body was read. ``sample``: the share of searches that mode shadow measures."""
        reads, operation = self._governor.reads, exchange.operation
        recorder = self._services.recorder
        recorder.searches_in_flight += 1
        try:
            prepared = await first_success(
                [partial(self._prepared, exchange)], lambda _: record.failed_open(FailOpen.INTERNAL)
            )
            if not isinstance(prepared, Source):
                if prepared is not None:
                    reads.count(operation)
                    record.bypassed(prepared)
                return await exchange.original(AttemptKind.ORIGINAL)
            reads.count(operation, len(prepared.call.searches))
            if exchange.policy.mode == "shadow":
                return await self._shadowed(exchange, prepared, record, sample)
            if exchange.policy.session_key is None:
                answer, report = await self.best_answer(exchange, prepared)
            else:
                best = partial(self.best_answer, exchange, prepared)
                answer, report = await self._services.sessions.around(prepared, best)
            record.reported(report)
            return answer
        finally:
            recorder.searches_in_flight -= 1

    async def _prepared(self, exchange: Exchange[A]) -> Source | BypassReason:
        """The source of a planned search's pools, or why it is bypassed."""
        operation, info = exchange.operation, self._collection_info
        withheld = self._governor.withheld(operation)
        if withheld is not None:
            return withheld
        try:  # before anything else parses the body
            self._adapter.check_size(operation, exchange.plain, self._services.bounds)
        except UnsupportedError as verdict:
            return verdict.reason
        if len(exchange.plain) > TURN_BYTES:
            await asyncio.sleep(0)
        return self.prepare(exchange, await info.of(exchange) if info.is_needed else None)

    async def _shadowed(self, exchange: Exchange[A], source: Source, record: RequestRecord, sample: float) -> A:
        async def measure() -> Report | None:
            report = await self.measure(exchange, source)
            if report is not None and record.trace is not None:
                record.trace.staged(report.marks)
            return report

        clock, shadow = self._services.clock, self._services.shadow
        since, running = clock(), shadow.running
        answer = await exchange.original(AttemptKind.ORIGINAL)
        plain = Plain(None if running or shadow.running else clock() - since, answer.body_bytes)
        is_due = answer.is_success and not record.is_refused and shadow.is_due(sample, source.planned.collection)
        if is_due and self._governor.reads.take(exchange.operation, ReadKind.SHADOW, len(source.call.searches)):
            shadow.start(measure, source, plain)
            record.shadowed()
        else:
            _grant(source.planned).close()
            why = Bypass.QUOTA if is_due else Bypass.SHADOW_NOT_SAMPLED
            record.bypassed(Bypass.REFUSED if record.is_refused else why)
        return answer

    def original_answered(self, operation: Operation, status: int, body: bytes = b"", *, seconds: float) -> None:
        self._governor.attempt_timeout.of(operation).plain.append(seconds)
        self.status_received(operation.collection, status, body)

    def status_received(self, collection: str, status: int, body: bytes = b"") -> None:
        """The database answered a client's request. ``collection``: "" when unknown. ``body``: as for Dialect.is_quota."""
        if self._dialect.is_quota(status, body):
            self._governor.reads.refused(collection)

    def success_received(self, collection: str, body: bytes) -> bool:
        """Whether a whole reply that the transport calls a success refuses the client's request."""
        is_quota = self._dialect.is_quota_in_success(body)
        if is_quota:
            self._governor.reads.refused(collection)
        return not is_quota and self._dialect.refusal_in_success(body) is not None

    def prepare(self, exchange: Exchange[A], known: object | None = None) -> Source | Reason | Bypass:
        """Parse the request and plan its pools, or return why the search is bypassed. ``known``: as ``Needs.known``."""
        services, governor, operation = self._services, self._governor, exchange.operation
        learned, reads = governor.learned, governor.reads
        collection = operation.collection or named_in(self._adapter, exchange.plain)
        texted = services.texts.plan(exchange.policy, collection)
        policy, is_by_texts, watch = texted.policy, texted.is_by_texts, Stopwatch(services.clock, services.clock())
        hint, cap = learned.hint(operation), learned.cap(operation)
        vectors = texted.is_look or not is_by_texts
        needs = needs_of(policy, hint, known=known, bounds=services.bounds, texts=texted, vectors=vectors)
        pace = governor.attempt_timeout.of(operation)
        grant = Grant(governor, self._dialect, pace, operation, exchange.client_timeout_seconds)
        try:
            parse = partial(self._adapter.parse_request, operation, exchange.plain)
            read = partial(first_pages, parse) if policy.demotes else parse
            whole = partial(read, needs if vectors else replace(needs, vectors=True, query=True))
            lean, repeat, recall = None, None, self._searcher.recall
            if recall is not None and vectors and not policy.is_surrounded:
                settled = policy.is_settled and not texted.is_look
                lean, repeat = recall.lean(operation, exchange.plain, needs, read, is_settled=settled)
            if lean is not None and repeat is not None:
                grant.reserved = reads.hold(operation, len(lean.searches), is_repeat=repeat.is_known)
                lean = None if grant.reserved is None else lean  # a second read would fetch what memory lacks
            call = read(needs) if lean is None else lean
        except UnsupportedError as verdict:
            return verdict.reason
        watch.marks.append((Stage.PARSE, watch.started, watch.clock()))
        number_bytes = self._number_bytes if vectors else 0
        is_settled = is_by_texts and not texted.is_look
        sizes = services.depths.sizes(
            call, policy, grant, governor, cap=cap, number_bytes=number_bytes, is_settled=is_settled
        )
        if isinstance(sizes, Bypass):
            grant.close()
            return sizes
        planned = Planned(
            call=call,
            policy=policy,
            plan=sizes[0],
            watch=watch,
            grant=grant,
            collection=collection,
            spare=whole if lean is not None or not vectors else None,
            is_by_texts=is_by_texts,
            is_look=texted.is_look,
            first=sizes[1],
            repeat=repeat,
            cap=cap,
        )
        return self._source(exchange, planned, grant)

    def _source(self, exchange: Exchange[A], planned: Planned, grant: Grant) -> Source:
        send = partial(grant.fetch, exchange.send)
        look = partial(self._services.vector_fetcher.send, exchange, grant, self._dialect)
        division = FusionDivision(self._retrievers, send) if planned.policy.per_retriever else None
        return self._searcher.source(planned, send, look=look, division=division)

    async def best_answer(self, exchange: Exchange[A], source: Source) -> tuple[A, Report]:
        """The answer to a prepared search, and its report: the improved one or the original's, whichever is first; else the original, sent now."""
        grant, race = _grant(source.planned), None
        try:
            if self._is_open(source, grant):
                race = grant.race(exchange.original)
            if race is None:
                grant.close()
                return await self._original(exchange, source, grant)
            answered = await race.run(partial(self._answer_from_pool, exchange, source, grant, Outcome.DEDUP))
            if answered is not None and not race.is_first:
                return answered
            return await self._answer_from_original(exchange, source, grant, race)
        except asyncio.CancelledError:
            grant.gave_up(self._services.clock() - source.planned.watch.started)
            raise
        finally:
            if race is not None:
                await race.drop()
            grant.close()

    def _is_open(self, source: Source, grant: Grant) -> bool:
        """Whether a widened request may be sent; reserves its reply."""
        planned = source.planned
        sizes = grant.opened(planned.first, planned.plan) if planned.first else grant.opened(planned.plan)
        if sizes is planned.plan and planned.first:
            source.planned = replace(planned, first=())
        return sizes is not None

    async def _answer_from_original(
        self, exchange: Exchange[A], source: Source, grant: Grant, race: Race[A]
    ) -> tuple[A, Report]:
        """The answer to the client's own search, which was sent before or is sent now."""
        operation, watch, planned = exchange.operation, source.planned.watch, source.planned
        if grant.reason is FailOpen.NO_VECTORS:
            self._governor.learned.contradicted(operation)
        grant.free()
        if race.is_first:
            grant.overtaken(is_overdue=watch.clock() - watch.started >= race.last)
        if race.is_sent:
            since, reason = watch.clock(), grant.reason or FailOpen.INTERNAL
            exchange.failed_open(reason)
            response = await race.answer()
            watch.marks.append((Stage.UPSTREAM, since, watch.clock()))
            report = report_of(source, outcome=Outcome.FAIL_OPEN, reason=reason, hedged=True)
        else:
            if grant.has_sent:
                self._governor.reads.spend(operation, ReadKind.REPLAY, grant.searches)
            with self._governor.replays.one():
                response, report = await self._original(exchange, source, grant)
        if grant.is_declined and response.is_success:
            # The client's own request succeeded, so the cause is the widened one: too many candidates, as Pinecone refuses an answer beyond
            # 4 MB, with whatever words. The next request asks for half as many, until it fits.
            requested = planned.first or planned.plan
            self._governor.learned.refused(operation, max(size or 0 for size in requested) // 2)
        return response, report

    async def measure(self, exchange: Exchange[A], source: Source) -> Report | None:
        """Run the pipeline for its figures; nothing is sent to a client. None without an answer."""
        grant = _grant(source.planned)
        try:
            if not self._is_open(source, grant):
                return None
            answered = await self._answer_from_pool(exchange, source, grant, Outcome.SHADOW)
        finally:
            grant.close()
        return None if answered is None else answered[1]

    async def _answer_from_pool(
        self, exchange: Exchange[A], source: Source, grant: Grant, outcome: Outcome
    ) -> tuple[A, Report] | None:
        """The improved answer, else the plain one from the same pool: neither needs another request."""
        sent_bytes = 0
        try:
            ways = (
                partial(self._improved, exchange, source, grant, outcome),
                partial(self._plain, exchange, source, grant),
            )
            answered = await first_success(ways, grant.failed)
            if answered is not None and outcome is Outcome.DEDUP:  # shadow's answer is never sent to a client
                sent_bytes = answered[0].body_bytes
        except asyncio.CancelledError:
            self._governor.breaker.abandoned()
            raise
        finally:
            self._governor.egress.spend(exchange.operation, grant.received_bytes - sent_bytes)
            if (lookups := source.lookups) is not None and lookups.outcome is not None:
                self._services.metrics.looked_up(lookups.outcome, lookups.read_units)
        return answered

    async def _plain(self, exchange: Exchange[A], source: Source, grant: Grant) -> tuple[A, Report]:
        body = self._searcher.plain(source)
        report = report_of(source, outcome=Outcome.FAIL_OPEN, reason=grant.reason, hedged=grant.is_hedged)
        return exchange.answer(body, report), report

    async def _improved(
        self, exchange: Exchange[A], source: Source, grant: Grant, outcome: Outcome
    ) -> tuple[A, Report]:
        in_flight, planned = self._governor.bytes_in_flight, source.planned
        try:
            selected = await self._searcher.select(source, cap=planned.cap, reply_bytes=in_flight.reply_bytes)
            answer = await self._searcher.answer(source, selected)
            self._services.depths.learn(selected, cap=planned.cap)
        except DeclinedError as declined:
            grant.declined(declined)
            raise RejectedReplyError(FailOpen.OVERFETCH_STATUS) from declined
        except PassedReplyError:
            report = report_of(source, outcome=Outcome.FAIL_OPEN, reason=grant.reason)
            return exchange.refusal() if grant.refusal is None else exchange.answer(grant.refusal, report), report
        finally:
            if source.last is not None:
                self._governor.learned.learn(exchange.operation, source.last.reply)
            if not (source.is_grown or source.is_divided):
                in_flight.learn(exchange.operation, planned.first or planned.plan, grant.received_bytes)
        hedged, is_noted = grant.is_hedged, answer.is_noted
        report = report_of(source, outcome=outcome, selected=selected, is_noted=is_noted, hedged=hedged)
        self._services.observer.answered(selected, report)
        return exchange.answer(answer.body, report), report

    async def _original(self, exchange: Exchange[A], source: Source, grant: Grant) -> tuple[A, Report]:
        reason, watch = grant.reason or FailOpen.INTERNAL, source.planned.watch
        if grant.has_sent:
            self._services.metrics.retries_total.labels(Retry.of(reason)).inc()
        exchange.failed_open(reason)
        since = watch.clock()
        try:
            response = await exchange.original(AttemptKind.REPLAY if grant.has_sent else AttemptKind.ORIGINAL)
        finally:
            watch.marks.append((Stage.UPSTREAM, since, watch.clock()))
        return response, report_of(source, outcome=Outcome.FAIL_OPEN, reason=reason)


def _grant(planned: Planned) -> Grant:
    assert planned.grant is not None  # noqa: S101 - prepare() has made it
    return planned.grant
