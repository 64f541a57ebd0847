"""Runs every search of one transport: prepares it, measures or improves it, and answers plainly where that fails.

    improved answer ── our failure ─► first top_k of what was fetched ── nothing usable ─► the original bytes, once

Nothing is sent to the client before one of these answers is complete, so each later one is still possible. Only searches take this path,
and a search only reads, so its original may be sent once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from functools import partial
from typing import TypeVar

from vecsieve.adapters.contract import Adapter, DeclinedError, Dialect, Operation, Reason, UnsupportedError
from vecsieve.adapters.fusions import SAME, Ending

from ..runtime.memory import Pressure
from ..telemetry.labels import (
    AttemptKind,
    Bypass,
    BypassReason,
    FailOpen,
    Outcome,
    OwnRead,
    Retry,
    Stage,
    UpstreamError,
)
from ..telemetry.reports import Report
from ..telemetry.requests import RequestRecord
from ..telemetry.tracing import Stopwatch
from .collections.learned import named_in
from .context.overrides import overridden
from .errors import LostReplyError, PassedReplyError, RefusedReplyError, RejectedReplyError, first_success
from .exchange import CollectionInfo, Exchange, TransportAnswer
from .fetch import Attempt, fitted, needs_of, plan
from .hedge import Race
from .limits import Hold
from .policy import ResolvedPolicy, Rules
from .report import report_of, rows_of
from .retrievers import Retrievers
from .searcher import TURN_BYTES, Searcher
from .services import ProcessServices

A = TypeVar("A", bound=TransportAnswer)


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
        self._adapter = adapter
        self._searcher = Searcher(adapter, services.scaling, services.features, services.work, services.texts)
        self._retrievers = Retrievers(adapter, services.metrics, services.scaling, services.work, services.own)
        self._collection_info = CollectionInfo(adapter, services.metrics, services.clock, services.learned.descriptions)
        self._dialect, self._services, self._number_bytes, self._waiting = dialect, services, number_bytes, waiting

    def policy(
        self, operation: Operation, ruled_by: str, headers: Iterable[tuple[str, str]], record: RequestRecord
    ) -> tuple[Rules, ResolvedPolicy]:
        """The rules in force and the policy of one search. Raises OverrideError.

        ``ruled_by``: the collection's name as rules know it. ``headers``: fields or metadata, overrides among them.
        """
        record.classified(operation)
        rules = self._services.rules.now
        own = rules.policies.resolve(self._services.backend, ruled_by)
        given = [(name.lower(), value) for name, value in headers]  # most requests have none
        return rules, overridden(given, rules.overrides, own, record) if given else own

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
        full = self.no_room(record)
        if full is not None:
            record.failed_open(full)
            return await original()
        exchange = await read()
        if isinstance(exchange, Bypass):
            record.bypassed(exchange)
            return await original()
        return await self.search(exchange, record, sample=sample)

    def no_room(self, record: RequestRecord) -> FailOpen | None:
        """Why no search can be improved now; None if there is room."""
        services, limits = self._services, self._services.limits
        is_full = record.searches_in_flight + self._waiting() >= limits.searches_in_flight
        if is_full or services.turns.lag_seconds > limits.searches_lag_seconds:
            return FailOpen.OVERLOAD
        return FailOpen.MEMORY if services.memory.pressure() is Pressure.HIGH else None

    async def search(self, exchange: Exchange[A], record: RequestRecord, *, sample: float) -> A:
        """Answer a search whose body was read. ``sample``: the share of searches that mode shadow measures."""

        async def prepare() -> Attempt | BypassReason:
            if self._services.own.is_quiet(exchange.operation):
                return Bypass.QUOTA  # no additional request is sent, so none can use up the client's quota
            too_large = self.too_large(exchange)
            if len(exchange.plain) > TURN_BYTES:
                await asyncio.sleep(0)
            info = self._collection_info
            return too_large or self.prepare(exchange, await info.of(exchange) if info.is_asked else None)

        with record.searching():
            prepared = await first_success([prepare], lambda _: record.failed_open(FailOpen.INTERNAL))
            if prepared is None:
                return await exchange.original(AttemptKind.ORIGINAL)
            if not isinstance(prepared, Attempt):
                self._services.own.asked(exchange.operation)
                record.bypassed(prepared)
                return await exchange.original(AttemptKind.ORIGINAL)
            self._services.own.asked(exchange.operation, len(prepared.call.searches))
            if exchange.policy.mode == "shadow":
                return await self._shadowed(exchange, prepared, record, sample)
            best = partial(self.best_answer, exchange, prepared)
            answer, report = await (
                best() if exchange.policy.session.key is None else self._services.sessions.around(prepared, best)
            )
            record.reported(report)
            return answer

    async def _shadowed(self, exchange: Exchange[A], attempt: Attempt, record: RequestRecord, sample: float) -> A:
        async def measure() -> Report | None:
            report = await self.measure(exchange, attempt)
            if report is not None:
                record.trace.staged(report.marks)
            return report

        answer = await exchange.original(AttemptKind.ORIGINAL)
        is_due = self._services.shadow.is_due(sample)
        if is_due and self._services.own.take(exchange.operation, OwnRead.SHADOW, len(attempt.call.searches)):
            self._services.shadow.start(measure, attempt)
            record.shadowed()
        else:
            attempt.release()
            record.bypassed(Bypass.QUOTA if is_due else Bypass.SHADOW_NOT_SAMPLED)
        return answer

    def original_answered(self, operation: Operation, status: int, body: bytes = b"", *, seconds: float) -> None:
        self._services.hedges.attempt_timeout.answered_plainly(operation, seconds)
        self.status_received(operation.collection, status, body)

    def status_received(self, collection: str, status: int, body: bytes = b"") -> None:
        """The database answered a client's request. ``collection``: "" when unknown. ``body``: as for Dialect.is_quota."""
        if self._dialect.is_quota(status, body):
            self._services.own.refused(collection)

    def success_received(self, collection: str, body: bytes) -> None:
        """``body``: a whole reply that the transport calls a success."""
        if self._dialect.is_quota_in_success(body):
            self._services.own.refused(collection)

    def too_large(self, exchange: Exchange[A]) -> Reason | None:
        """Why a request is too large to parse; None if it is not. Called before anything else reads the body."""
        try:
            self._adapter.check_size(exchange.operation, exchange.plain, self._services.bounds)
        except UnsupportedError as verdict:
            return verdict.reason
        return None

    def prepare(self, exchange: Exchange[A], known: object | None = None) -> Attempt | Reason | Bypass:
        """Parse the request and plan its pools, or return why the search is bypassed. ``known``: as ``Needs.known``."""
        services, operation = self._services, exchange.operation
        collection, texts = named_in(self._adapter, operation, exchange.plain), services.texts
        policy = texts.applied(exchange.policy, collection)
        if services.egress.is_spent:
            return Bypass.BUDGET
        watch = Stopwatch(services.clock, keeps_marks=services.keeps_marks)
        hint, seen = services.learned.hint(operation), texts.needs(policy, collection)
        is_look, is_by_texts = texts.is_look(policy, collection), texts.decide(policy, collection)
        vectors = is_look or not is_by_texts
        needs = needs_of(policy, hint, known=known, bounds=services.bounds, texts=seen, vectors=vectors)
        try:
            with watch.stage(Stage.PARSE):
                read = partial(self._searcher.read, operation, exchange.plain, demotes=policy.demotes)
                whole = partial(read, needs if vectors else replace(needs, vectors=True, query=True))
                lean, repeat, held, recall = None, None, None, self._searcher.recall
                if recall is not None and vectors and not policy.is_surrounded:
                    settled = policy.is_settled and not is_look
                    lean, repeat = recall.lean(operation, exchange.plain, needs, read, is_settled=settled)
                if lean is not None and repeat is not None:
                    held = services.own.hold(operation, len(lean.searches), is_repeat=repeat.is_known)
                    lean = None if held is None else lean  # a second read would fetch what memory lacks
                call = read(needs) if lean is None else lean
        except UnsupportedError as verdict:
            return verdict.reason
        longest = max([len(each.query) for each in call.searches if each.query is not None], default=0)
        vector_bytes = longest * self._number_bytes or None if vectors else None
        each = services.held.candidate_bytes(operation, vector_bytes=vector_bytes)
        wanted = plan(call, policy, cap := services.learned.cap(operation))
        planned = None if wanted is None else fitted(call.searches, wanted, services.held.reply_bytes // each)
        if planned is None:
            if held is not None:
                held.release()
            return Bypass.WINDOW_TOO_LARGE if wanted is None else Bypass.REPLY_TOO_LARGE
        room = int(min(services.held.reply_bytes, services.egress.remaining_bytes)) // each
        first = partial(services.depths.first, call, planned, policy)
        return Attempt(
            call=call,
            collection=collection,
            spare=whole if lean is not None or not vectors else None,
            is_by_texts=is_by_texts,
            is_look=is_look,
            repeat=repeat,
            held=held,
            policy=policy,
            plan=planned,
            watch=watch,
            candidate_bytes=each,
            first=first(cap=cap, room=room, is_by_texts=is_by_texts and not is_look),
        )

    async def best_answer(self, exchange: Exchange[A], attempt: Attempt) -> tuple[A, Report]:
        """The best answer to a prepared search, and its report."""
        room = self._room(exchange.operation, attempt)
        if not isinstance(room, Hold):
            attempt.release()
            attempt.reason = room
            return await self._original(exchange, attempt)
        attempt.room, attempt.is_raced = room, True
        hedges = self._services.hedges
        race = hedges.race(exchange, attempt)
        try:
            if hedges.may_widen(exchange.operation, attempt):
                return await self._raced(exchange, attempt, race)
            self._services.breaker.abandoned()
            room.release()
            attempt.reason = FailOpen.SLOW
            return await self._original(exchange, attempt)
        except asyncio.CancelledError:
            self._services.hedges.attempt_timeout.gave_up(exchange.operation, attempt.watch.elapsed())
            raise
        finally:
            await race.drop()
            hedges.done(exchange.operation, attempt)
            attempt.release()

    async def _raced(self, exchange: Exchange[A], attempt: Attempt, race: Race[A]) -> tuple[A, Report]:
        """The improved answer or the original's, whichever is usable first; if neither is, the original is sent now."""
        operation, timeout = exchange.operation, exchange.client_timeout_seconds
        learned = self._services.hedges.attempt_timeout
        last = learned.attempt_seconds(operation, timeout)
        from_pool = partial(self._answer_from_pool, exchange, attempt, Outcome.DEDUP)
        answered = await race.run(from_pool, first=learned.hedge_seconds(operation, timeout), last=last)
        if attempt.reason is FailOpen.NO_VECTORS:
            self._services.learned.contradicted(operation)
        if answered is not None and not race.is_first:
            return answered
        if attempt.room is not None:
            attempt.room.release()  # the original's answer is streamed, not held
        if race.is_first:
            attempt.reason = FailOpen.OVERFETCH_TIMEOUT
            if attempt.watch.elapsed() >= last:
                self._services.breaker.failed()
        response, report = await self._own(exchange, attempt, race)
        if attempt.is_declined and response.is_success:
            # The client's own request succeeded, so the cause is the widened one: too many candidates, as Pinecone refuses an answer beyond
            # 4 MB, with whatever words. The next request asks for half as many, until it fits.
            asked = attempt.first or attempt.plan
            self._services.learned.refused(exchange.operation, max(size or 0 for size in asked) // 2)
        return response, report

    async def _own(self, exchange: Exchange[A], attempt: Attempt, race: Race[A]) -> tuple[A, Report]:
        """The answer to the client's own search, which was sent before or is sent now."""
        if race.is_sent:
            reason = attempt.reason or FailOpen.INTERNAL
            with attempt.watch.stage(Stage.UPSTREAM):
                response = await race.answer()
            report = report_of(exchange.operation, attempt, outcome=Outcome.FAIL_OPEN, reason=reason, hedged=True)
            return response, report
        if attempt.has_asked:
            self._services.own.spend(exchange.operation, OwnRead.REPLAY, len(attempt.call.searches))
        with self._services.replays.one():
            return await self._original(exchange, attempt)

    async def measure(self, exchange: Exchange[A], attempt: Attempt) -> Report | None:
        """Run the pipeline for its figures; nothing is sent to a client. None without an answer."""
        room = self._room(exchange.operation, attempt)
        if not isinstance(room, Hold):
            attempt.release()
            return None
        attempt.room = room
        try:
            answered = await self._answer_from_pool(exchange, attempt, Outcome.SHADOW)
        finally:
            attempt.release()
        return None if answered is None else answered[1]

    def _room(self, operation: Operation, attempt: Attempt) -> Hold | FailOpen:
        """A reservation for the widened reply, to be released; or why no request is sent."""
        services = self._services
        if services.replays.is_spent:
            return FailOpen.BREAKER
        if services.own.is_overdrawn(operation):
            return FailOpen.BUDGET
        room = services.held.hold(attempt.first or attempt.plan, attempt.candidate_bytes)
        if room is None and attempt.first:
            attempt.first = ()
            room = services.held.hold(attempt.plan, attempt.candidate_bytes)
        if room is None:
            return FailOpen.OVERLOAD
        if not services.breaker.allow():  # last: if allowed, this search may be the probe, which must then be sent
            room.release()
            return FailOpen.BREAKER
        return room

    async def _answer_from_pool(
        self, exchange: Exchange[A], attempt: Attempt, outcome: Outcome
    ) -> tuple[A, Report] | None:
        """The improved answer, else the plain one from the same pool: neither needs another request."""

        async def improved() -> tuple[A, Report]:
            return await self._improved(exchange, attempt, outcome)

        async def plain() -> tuple[A, Report]:
            body = self._searcher.plain(attempt)
            report = report_of(
                exchange.operation, attempt, outcome=Outcome.FAIL_OPEN, reason=attempt.reason, hedged=attempt.is_hedged
            )
            return exchange.answer(body, report), report

        sent_bytes = 0
        try:
            answered = await first_success([improved, plain], attempt.failed)
            if answered is not None and outcome is Outcome.DEDUP:  # shadow's answer is never sent to a client
                sent_bytes = answered[0].body_bytes
        except asyncio.CancelledError:
            self._services.breaker.abandoned()
            raise
        finally:
            self._services.egress.spend(exchange.operation, attempt.received_bytes - sent_bytes)
            if (lookups := attempt.lookups) is not None and lookups.outcome is not None:
                self._services.metrics.looked_up(lookups.outcome, lookups.read_units)
        return answered

    async def _improved(self, exchange: Exchange[A], attempt: Attempt, outcome: Outcome) -> tuple[A, Report]:
        async def fetch(body: bytes) -> bytes:
            def granted() -> None:
                if attempt.reply is not None:
                    kind, searches = OwnRead.GROW if attempt.is_grown else OwnRead.RECALL, attempt.call.searches
                    is_paged = any(search.pages for search in searches)
                    self._services.own.grant(
                        exchange.operation, kind, len(searches), held=attempt.held, is_paged=is_paged
                    )

            send = partial(self._fetch, exchange, attempt)
            if attempt.policy.per_retriever:
                return await self._retrievers.fetch(attempt, body, send, granted=granted)
            granted()
            return await send(body)

        try:
            cap = self._services.learned.cap(exchange.operation)
            look = partial(self._services.vector_fetcher.send, exchange, attempt, self._dialect)
            body = await self._searcher.improve(
                attempt, fetch, cap=cap, reply_bytes=self._services.held.reply_bytes, look=look
            )
            self._services.depths.learn(attempt, cap=cap)
        except DeclinedError as declined:
            if (limit := self._dialect.refused_limit(0, declined.words)) is None:
                self._services.learned.contradicted(exchange.operation)
            else:
                self._services.learned.refused(exchange.operation, limit)
            raise RejectedReplyError(FailOpen.OVERFETCH_STATUS) from declined
        except PassedReplyError:
            report = report_of(exchange.operation, attempt, outcome=Outcome.FAIL_OPEN, reason=attempt.reason)
            return exchange.refusal() if attempt.refusal is None else exchange.answer(attempt.refusal, report), report
        finally:
            self._services.learned.learn(exchange.operation, attempt.reply)
            if not (attempt.is_grown or attempt.is_divided):
                self._services.held.learn(exchange.operation, attempt.first or attempt.plan, attempt.received_bytes)
        report = report_of(
            exchange.operation, attempt, outcome=outcome, rows=rows_of(attempt), hedged=attempt.is_hedged
        )
        self._services.observer.answered(attempt, report)
        return exchange.answer(body, report), report

    async def _fetch(self, exchange: Exchange[A], attempt: Attempt, body: bytes, *, ending: Ending = SAME) -> bytes:
        """Send a widened request. ``ending``: as for ``Exchange.send``. Raises RejectedReplyError, or PassedReplyError when upstream's
        answer is passed on.
        """
        services = self._services
        started = services.clock()
        seconds = services.hedges.seconds(exchange, attempt, started)
        try:
            assert attempt.room is not None  # noqa: S101 - both callers have set it
            fetched = await exchange.send(body, seconds=seconds, fits=(fits := attempt.room.arriving()), ending=ending)
            if not fits(len(fetched)):
                raise LostReplyError(FailOpen.OVERLOAD, received_bytes=len(fetched))  # noqa: TRY301 - as the transport says it earlier
        except LostReplyError as lost:
            self._lost(exchange.operation, attempt, lost)
            raise RejectedReplyError(lost.reason) from lost
        except RefusedReplyError as refused:
            services.hedges.timely(exchange.operation, attempt, services.clock() - started)
            raise self._verdict(exchange.operation, attempt, refused) from refused
        finally:
            services.metrics.upstream_done(AttemptKind.OVERFETCH, services.clock() - started)
        services.hedges.timely(exchange.operation, attempt, services.clock() - started)
        attempt.deadline = max(
            attempt.deadline, services.clock() + self._services.hedges.attempt_timeout.hedge_times.hedge_least
        )
        self._received(attempt, fetched)
        services.breaker.succeeded()
        if self._dialect.is_quota_in_success(fetched):
            attempt.refusal = fetched
            raise self._limited(exchange.operation, attempt)
        return fetched

    def _received(self, attempt: Attempt, message: bytes) -> None:
        self._services.metrics.received(len(message))
        attempt.received(len(message))

    def _lost(self, operation: Operation, attempt: Attempt, lost: LostReplyError) -> None:
        attempt.received_bytes += lost.received_bytes
        if lost.reason is FailOpen.TOO_LARGE:
            # The client's own limit may fit where five times as many candidates do not, and the plan where more do not.
            is_deeper = attempt.first or attempt.reply is not None
            self._services.learned.refused(operation, max(attempt.first_sizes) if is_deeper else None)
        if lost.reason in {FailOpen.TOO_LARGE, FailOpen.MALFORMED, FailOpen.OVERLOAD}:
            self._services.breaker.succeeded()  # the database answered
        else:
            self._services.breaker.failed()

    def _verdict(self, operation: Operation, attempt: Attempt, refused: RefusedReplyError) -> Exception:
        """The exception for an unsuccessful answer; learns from it."""
        self._received(attempt, refused.words)
        if self._dialect.is_quota(refused.status, refused.words):
            self._services.breaker.succeeded()  # the database answered
            return self._limited(operation, attempt)
        attempt.is_declined = self._is_declined(operation, refused)
        is_unknown = self._dialect.names_unknown_vector(refused.status, refused.words)
        return RejectedReplyError(FailOpen.NOT_FOUND_VECTOR if is_unknown else FailOpen.OVERFETCH_STATUS)

    def _limited(self, operation: Operation, attempt: Attempt) -> Exception:
        """The exception for a quota refusal: the refusal is the client's answer, unless there is already a pool."""
        self._services.own.refused(operation.collection)
        if attempt.reply is not None:
            return RejectedReplyError(FailOpen.OVERFETCH_STATUS)
        attempt.reason = FailOpen.OVERFETCH_STATUS
        return PassedReplyError()  # sending the original as well would use up the client's quota twice

    def _is_declined(self, operation: Operation, refused: RefusedReplyError) -> bool:
        """Learn from a refusal; whether it is a client error of unknown cause."""
        services = self._services
        if refused.is_server_error:
            services.breaker.failed()
            services.metrics.upstream_failed(UpstreamError.SERVER_ERROR)
            return False
        services.breaker.succeeded()  # the database answered: refusing the request is no failure of the database
        if (limit := self._dialect.refused_limit(refused.status, refused.words)) is not None:
            services.learned.refused(operation, limit)
            return False
        if self._dialect.names_unknown_vector(refused.status, refused.words):
            services.learned.forget(operation.collection)  # the collection has been replaced
            return False
        services.learned.contradicted(operation)  # the field may have existed when the collection was described
        return refused.may_be_size

    async def _original(self, exchange: Exchange[A], attempt: Attempt) -> tuple[A, Report]:
        reason, kind = attempt.reason or FailOpen.INTERNAL, AttemptKind.ORIGINAL
        if attempt.has_asked:
            kind = AttemptKind.REPLAY
            self._services.metrics.retried(Retry.of(reason))
        with attempt.watch.stage(Stage.UPSTREAM):
            response = await exchange.original(kind)
        return response, report_of(exchange.operation, attempt, outcome=Outcome.FAIL_OPEN, reason=reason)
