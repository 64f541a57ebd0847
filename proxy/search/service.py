"""Runs every search of one transport: prepares it, measures or improves it, and answers plainly where that fails.

    improved answer ── our failure ─► first top_k of what was fetched ── nothing usable ─► the original bytes, once

Nothing is sent to the client before one of these answers is complete, so each later one is still possible. Only searches take this path,
and a search only reads, so its original may be sent once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, TypeVar

from vecsieve.adapters.backends import Transport
from vecsieve.adapters.contract import (
    Adapter,
    Bounds,
    DeclinedError,
    Dialect,
    Operation,
    Reason,
    UnsupportedError,
)
from vecsieve.config.schema import LimitSettings

from ..runtime.loop import LongWork
from ..runtime.memory import MemoryGuard, Pressure
from ..selection.policy import Short
from ..telemetry.labels import AttemptKind, Bypass, BypassReason, FailOpen, Outcome, OwnRead, Retry, Stage
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
from .context.sessions import Sessions, of_question
from .errors import PassedReplyError, RejectedReplyError, first_success
from .exchange import CollectionInfo, Exchange, Shadow, TransportAnswer, VectorFetcher
from .fetch import Attempt, Depths, fitted, needs_of, plan
from .governor import Governor, Grant
from .hedge import Race
from .limits import Admission, Turns
from .memory.points import FeatureMemory
from .policy import ResolvedPolicy, Rules, RulesInForce
from .report import report_of, rows_of
from .retrievers import Retrievers
from .searcher import TURN_BYTES, Searcher

A = TypeVar("A", bound=TransportAnswer)


class Observer(Protocol):
    """Keeps improved answers for the admin port. The answer does not depend on it."""

    def answered(self, attempt: Attempt, report: Report) -> None:
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
        waiting: Callable[[], int] = lambda: 0,
    ) -> None:
        self._adapter, self._governor = adapter, (governor := services.governor)
        self._searcher = Searcher(adapter, services.scaling, services.features, services.work, services.texts)
        self._retrievers = Retrievers(adapter, services.metrics, services.scaling, services.work, governor.own)
        self._collection_info = CollectionInfo(adapter, services.metrics, services.clock, governor.learned.descriptions)
        self._dialect, self._services, self._number_bytes, self._waiting = dialect, services, number_bytes, waiting

    def policy(
        self,
        operation: Operation,
        ruled_by: str,
        headers: Iterable[tuple[str, str]],
        record: RequestRecord,
        client: Callable[[], Client],
    ) -> tuple[Rules, ResolvedPolicy]:
        """The rules in force and the policy of one search. Raises OverrideError.

        ``ruled_by``: the collection's name as rules know it. ``headers``: fields or metadata, overrides among them. ``client``: who sent it.
        """
        record.classified(operation)
        services, rules, is_raised = self._services, self._services.rules.now, False
        policy = rules.policies.resolve(services.backend, ruled_by)
        if (canary := rules.canary) is not None and policy.mode == "shadow" and not services.canary.is_stopped:
            is_raised = canary.members.admits(client(), operation, ruled_by)
            policy = canary.policies.resolve(services.backend, ruled_by) if is_raised else policy
        given = [(name.lower(), value) for name, value in headers]  # most requests have none
        if given:
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
        is_full = services.recorder.searches_in_flight + self._waiting() >= limits.searches_in_flight
        if is_full or services.turns.lag_seconds > limits.lag_seconds:
            return FailOpen.OVERLOAD
        return FailOpen.MEMORY if services.memory.pressure() is Pressure.HIGH else None

    async def search(self, exchange: Exchange[A], record: RequestRecord, *, sample: float) -> A:
        """Answer a search whose body was read. ``sample``: the share of searches that mode shadow measures."""
        own, operation = self._governor.own, exchange.operation
        recorder = self._services.recorder
        recorder.searches_in_flight += 1
        try:
            prepared = await first_success(
                [partial(self._prepared, exchange)], lambda _: record.failed_open(FailOpen.INTERNAL)
            )
            if not isinstance(prepared, Attempt):
                if prepared is not None:
                    own.asked(operation)
                    record.bypassed(prepared)
                return await exchange.original(AttemptKind.ORIGINAL)
            own.asked(operation, len(prepared.call.searches))
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

    async def _prepared(self, exchange: Exchange[A]) -> Attempt | BypassReason:
        """A planned search, or why it is bypassed."""
        withheld = self._governor.withheld(exchange.operation)
        if withheld is not None:
            return withheld
        too_large = self.too_large(exchange)
        if len(exchange.plain) > TURN_BYTES:
            await asyncio.sleep(0)
        info = self._collection_info
        return too_large or self.prepare(exchange, await info.of(exchange) if info.is_asked else None)

    async def _shadowed(self, exchange: Exchange[A], attempt: Attempt, record: RequestRecord, sample: float) -> A:
        async def measure() -> Report | None:
            report = await self.measure(exchange, attempt)
            if report is not None and record.trace is not None:
                record.trace.staged(report.marks)
            return report

        clock, shadow = self._services.clock, self._services.shadow
        since, running = clock(), shadow.running
        answer = await exchange.original(AttemptKind.ORIGINAL)
        plain = Plain(None if running or shadow.running else clock() - since, answer.body_bytes)
        is_due = answer.is_success and shadow.is_due(sample, attempt.collection)
        if is_due and self._governor.own.take(exchange.operation, OwnRead.SHADOW, len(attempt.call.searches)):
            shadow.start(measure, attempt, plain)
            record.shadowed()
        else:
            _grant(attempt).close()
            record.bypassed(Bypass.QUOTA if is_due else Bypass.SHADOW_NOT_SAMPLED)
        return answer

    def original_answered(self, operation: Operation, status: int, body: bytes = b"", *, seconds: float) -> None:
        self._governor.attempt_timeout.of(operation).plain.append(seconds)
        self.status_received(operation.collection, status, body)

    def status_received(self, collection: str, status: int, body: bytes = b"") -> None:
        """The database answered a client's request. ``collection``: "" when unknown. ``body``: as for Dialect.is_quota."""
        if self._dialect.is_quota(status, body):
            self._governor.own.refused(collection)

    def success_received(self, collection: str, body: bytes) -> None:
        """``body``: a whole reply that the transport calls a success."""
        if self._dialect.is_quota_in_success(body):
            self._governor.own.refused(collection)

    def too_large(self, exchange: Exchange[A]) -> Reason | None:
        """Why a request is too large to parse; None if it is not. Called before anything else reads the body."""
        try:
            self._adapter.check_size(exchange.operation, exchange.plain, self._services.bounds)
        except UnsupportedError as verdict:
            return verdict.reason
        return None

    def prepare(self, exchange: Exchange[A], known: object | None = None) -> Attempt | Reason | Bypass:
        """Parse the request and plan its pools, or return why the search is bypassed. ``known``: as ``Needs.known``."""
        services, governor, operation = self._services, self._governor, exchange.operation
        collection, texts = named_in(self._adapter, operation, exchange.plain), services.texts
        texted = texts.plan(exchange.policy, collection)
        policy, is_by_texts = texted.policy, texted.is_by_texts
        watch = Stopwatch(services.clock)
        hint, vectors = governor.learned.hint(operation), texted.is_look or not is_by_texts
        needs = needs_of(policy, hint, known=known, bounds=services.bounds, texts=texted, vectors=vectors)
        grant = Grant(governor, self._dialect, operation, timeout_seconds=exchange.client_timeout_seconds)
        try:
            read = partial(self._searcher.read, operation, exchange.plain, demotes=policy.demotes)
            whole = partial(read, needs if vectors else replace(needs, vectors=True, query=True))
            lean, repeat, recall = None, None, self._searcher.recall
            if recall is not None and vectors and not policy.is_surrounded:
                settled = policy.is_settled and not texted.is_look
                lean, repeat = recall.lean(operation, exchange.plain, needs, read, is_settled=settled)
            if lean is not None and repeat is not None:
                grant.held = governor.own.hold(operation, len(lean.searches), is_repeat=repeat.is_known)
                lean = None if grant.held is None else lean  # a second read would fetch what memory lacks
            call = read(needs) if lean is None else lean
        except UnsupportedError as verdict:
            return verdict.reason
        watch.marks.append((Stage.PARSE, watch.started, watch.clock()))
        longest = max([len(each.query) for each in call.searches if each.query is not None], default=0)
        vector_bytes = longest * self._number_bytes or None if vectors else None
        grant.searches = len(call.searches)
        grant.candidate_bytes = each = governor.held.candidate_bytes(operation, vector_bytes=vector_bytes)
        wanted = plan(call, policy, cap := governor.learned.cap(operation))
        planned = None if wanted is None else fitted(call.searches, wanted, governor.held.reply_bytes // each)
        if planned is None:
            grant.close()
            return Bypass.WINDOW_TOO_LARGE if wanted is None else Bypass.REPLY_TOO_LARGE
        is_settled = is_by_texts and not texted.is_look
        first = partial(services.depths.first, call, planned, policy)
        return Attempt(
            call=call,
            collection=collection,
            spare=whole if lean is not None or not vectors else None,
            is_by_texts=is_by_texts,
            is_look=texted.is_look,
            repeat=repeat,
            policy=policy,
            plan=planned,
            grant=grant,
            watch=watch,
            first=first(cap=cap, room=governor.room(each), is_by_texts=is_settled),
        )

    async def best_answer(self, exchange: Exchange[A], attempt: Attempt) -> tuple[A, Report]:
        """The best answer to a prepared search, and its report: the improved one or the original's, whichever is usable first; if neither
        is, the original is sent now.
        """
        grant, race = _grant(attempt), None
        try:
            grant.reason = self._opened(attempt, grant)
            if grant.reason is None:
                race = grant.race(exchange.original)
                grant.reason = FailOpen.SLOW if race is None else None
            if race is None:
                grant.close()
                return await self._original(exchange, attempt)
            first, last = grant.times()
            from_pool = partial(self._answer_from_pool, exchange, attempt, Outcome.DEDUP)
            answered = await race.run(from_pool, first=first, last=last)
            if answered is not None and not race.is_first:
                return answered
            return await self._answer_from_original(exchange, attempt, race, last)
        except asyncio.CancelledError:
            grant.gave_up(self._services.clock() - attempt.watch.started)
            raise
        finally:
            if race is not None:
                await race.drop()
            grant.close()

    def _opened(self, attempt: Attempt, grant: Grant) -> FailOpen | None:
        """Why no widened request is sent; None if its reply has room."""
        options = (attempt.first, attempt.plan) if attempt.first else (attempt.plan,)
        opened = grant.opened(*options)
        if isinstance(opened, FailOpen):
            return opened
        if opened is attempt.plan:
            attempt.first = ()
        return None

    async def _answer_from_original(
        self, exchange: Exchange[A], attempt: Attempt, race: Race[A], last: float
    ) -> tuple[A, Report]:
        """The answer to the client's own search, which was sent before or is sent now."""
        grant, operation = _grant(attempt), exchange.operation
        if grant.reason is FailOpen.NO_VECTORS:
            self._governor.learned.contradicted(operation)
        grant.free()
        if race.is_first:
            grant.overtaken(is_overdue=attempt.watch.clock() - attempt.watch.started >= last)
        if race.is_sent:
            since, reason = attempt.watch.clock(), grant.reason or FailOpen.INTERNAL
            exchange.failed_open(reason)
            response = await race.answer()
            attempt.watch.marks.append((Stage.UPSTREAM, since, attempt.watch.clock()))
            report = report_of(operation, attempt, outcome=Outcome.FAIL_OPEN, reason=reason, hedged=True)
        else:
            if grant.has_sent:
                self._governor.own.spend(operation, OwnRead.REPLAY, len(attempt.call.searches))
            with self._governor.replays.one():
                response, report = await self._original(exchange, attempt)
        if grant.is_declined and response.is_success:
            # The client's own request succeeded, so the cause is the widened one: too many candidates, as Pinecone refuses an answer beyond
            # 4 MB, with whatever words. The next request asks for half as many, until it fits.
            asked = attempt.first or attempt.plan
            self._governor.learned.refused(operation, max(size or 0 for size in asked) // 2)
        return response, report

    async def measure(self, exchange: Exchange[A], attempt: Attempt) -> Report | None:
        """Run the pipeline for its figures; nothing is sent to a client. None without an answer."""
        grant = _grant(attempt)
        try:
            if self._opened(attempt, grant) is not None:
                return None
            answered = await self._answer_from_pool(exchange, attempt, Outcome.SHADOW)
        finally:
            grant.close()
        return None if answered is None else answered[1]

    async def _answer_from_pool(
        self, exchange: Exchange[A], attempt: Attempt, outcome: Outcome
    ) -> tuple[A, Report] | None:
        """The improved answer, else the plain one from the same pool: neither needs another request."""
        grant, sent_bytes = _grant(attempt), 0
        try:
            ways = (partial(self._improved, exchange, attempt, outcome), partial(self._plain, exchange, attempt))
            answered = await first_success(ways, grant.failed)
            if answered is not None and outcome is Outcome.DEDUP:  # shadow's answer is never sent to a client
                sent_bytes = answered[0].body_bytes
        except asyncio.CancelledError:
            self._governor.breaker.abandoned()
            raise
        finally:
            grant.spent(sent_bytes)
            if (lookups := attempt.lookups) is not None and lookups.outcome is not None:
                self._services.metrics.looked_up(lookups.outcome, lookups.read_units)
        return answered

    async def _plain(self, exchange: Exchange[A], attempt: Attempt) -> tuple[A, Report]:
        body, grant = self._searcher.plain(attempt), _grant(attempt)
        report = report_of(
            exchange.operation, attempt, outcome=Outcome.FAIL_OPEN, reason=grant.reason, hedged=grant.is_hedged
        )
        return exchange.answer(body, report), report

    async def _improved(self, exchange: Exchange[A], attempt: Attempt, outcome: Outcome) -> tuple[A, Report]:
        governor, grant = self._governor, _grant(attempt)
        cap = governor.learned.cap(exchange.operation)
        fetch = partial(self._fetch, exchange, attempt, grant)
        look = partial(self._services.vector_fetcher.send, exchange, grant, self._dialect)
        try:
            body = await self._searcher.improve(
                attempt, fetch, cap=cap, reply_bytes=governor.held.reply_bytes, look=look
            )
            self._services.depths.learn(attempt, cap=cap)
        except DeclinedError as declined:
            grant.declined(declined)
            raise RejectedReplyError(FailOpen.OVERFETCH_STATUS) from declined
        except PassedReplyError:
            report = report_of(exchange.operation, attempt, outcome=Outcome.FAIL_OPEN, reason=grant.reason)
            return exchange.refusal() if grant.refusal is None else exchange.answer(grant.refusal, report), report
        finally:
            governor.learned.learn(exchange.operation, attempt.reply)
            if not (attempt.is_grown or attempt.is_divided):
                governor.held.learn(exchange.operation, attempt.first or attempt.plan, grant.received_bytes)
        report = report_of(exchange.operation, attempt, outcome=outcome, rows=rows_of(attempt), hedged=grant.is_hedged)
        self._services.observer.answered(attempt, report)
        return exchange.answer(body, report), report

    async def _fetch(self, exchange: Exchange[A], attempt: Attempt, grant: Grant, body: bytes) -> bytes:
        """Send a widened request, divided if its policy says so. Raises as ``Grant.fetch``."""

        def granted() -> None:
            kind = OwnRead.GROW if attempt.is_grown else OwnRead.RECALL
            if attempt.reply is not None:
                grant.further(kind, is_paged=any(search.pages for search in attempt.call.searches))

        if attempt.policy.per_retriever:
            send = partial(grant.fetch, exchange.send)
            return await self._retrievers.fetch(attempt, body, send, granted=granted)
        granted()
        return await grant.fetch(exchange.send, body)

    async def _original(self, exchange: Exchange[A], attempt: Attempt) -> tuple[A, Report]:
        grant, kind = _grant(attempt), AttemptKind.ORIGINAL
        reason = grant.reason or FailOpen.INTERNAL
        if grant.has_sent:
            kind = AttemptKind.REPLAY
            self._services.metrics.retried(Retry.of(reason))
        exchange.failed_open(reason)
        since = attempt.watch.clock()
        try:
            response = await exchange.original(kind)
        finally:
            attempt.watch.marks.append((Stage.UPSTREAM, since, attempt.watch.clock()))
        return response, report_of(exchange.operation, attempt, outcome=Outcome.FAIL_OPEN, reason=reason)


def _grant(attempt: Attempt) -> Grant:
    assert attempt.grant is not None  # noqa: S101 - prepare() has made it
    return attempt.grant
