"""A classified search whose body is read, from there to its answer: prepared, left alone, measured or improved."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from vecsieve.adapters.contract import Bounds, Declined, Dialect, Operation, Reason, SearchCall, Unsupported
from vecsieve.proxy.resources import MemoryGuard, Pressure
from vecsieve.proxy.search.breaker import Breaker
from vecsieve.proxy.search.budgets import Egress, OwnReads
from vecsieve.proxy.search.collections import Learned
from vecsieve.proxy.search.errors import first_standing
from vecsieve.proxy.search.exchange import (
    Exchange,
    Knowing,
    Looking,
    Lost,
    Passed,
    Refused,
    Seen,
    Shadow,
    Weighed,
    note,
    records_of,
    report_of,
    rows_of,
)
from vecsieve.proxy.search.fetch import Appetite, Attempt, Rejected, fitted, needs_of, plan
from vecsieve.proxy.search.hedge import HEDGE_LEAST_SECONDS, Hedges, Patience, Race, Replays
from vecsieve.proxy.search.limits import HeldBytes, Hold, Turns
from vecsieve.proxy.search.report import Recent, Report
from vecsieve.proxy.search.searcher import TURN_BYTES, Searcher
from vecsieve.proxy.telemetry.labels import (
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
from vecsieve.proxy.telemetry.metrics import Metrics
from vecsieve.proxy.telemetry.requests import Visit
from vecsieve.proxy.telemetry.tracing import Clock, Stopwatch

# A ranked search on any transport: the failure ladder around one call.
#
#     improved answer ── our failure ─► first top_k of what was fetched ── nothing usable ─► the original bytes, once
#
# Nothing is sent to the client before a rung stands, so every lower rung is still free to answer. Only a search comes
# here, and a search reads: sending its original once more is safe.

A = TypeVar("A", bound=Weighed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What all searches of a process share, whatever their transport. ``keeps_marks``: as a Stopwatch does."""

    learned: Learned
    breaker: Breaker
    appetite: Appetite
    egress: Egress
    hedges: Hedges
    looking: Looking
    own: OwnReads
    metrics: Metrics
    recent: Recent
    held: HeldBytes
    bounds: Bounds
    replays: Replays
    clock: Clock
    keeps_marks: bool = False


class Ladder:
    """Answers classified searches of one adapter. ``dialect``: reads what upstream says on the adapter's transport.

    ``number_bytes``: what one number of a vector takes there.
    """

    def __init__(self, searcher: Searcher, dialect: Dialect, around: Surroundings, *, number_bytes: int) -> None:
        self._searcher = searcher
        self.dialect = dialect
        self._around = around
        self._number_bytes = number_bytes

    def too_large(self, exchange: Exchange[A]) -> Reason | None:
        """Why a request is too much to be read; None where it is not. To be asked before anything else reads it."""
        try:
            self._searcher.check_size(exchange.operation, exchange.plain, self._around.bounds)
        except Unsupported as verdict:
            return verdict.reason
        return None

    @property
    def patience(self) -> Patience:
        """What is known of how long searches take."""
        return self._around.hedges.patience

    def prepare(self, exchange: Exchange[A], known: object | None = None) -> Attempt | Reason | Bypass:
        """Read the request and plan the pool, or say why the search is left alone. ``known``: as ``Needs.known``."""
        if self._around.egress.is_spent:
            return Bypass.BUDGET
        watch = Stopwatch(self._around.clock, keeps_marks=self._around.keeps_marks)
        operation, policy, learned = exchange.operation, exchange.policy, self._around.learned
        needs = replace(needs_of(policy, learned.hint(operation)), known=known, bounds=self._around.bounds)
        try:
            with watch.stage(Stage.PARSE):
                call: SearchCall = self._searcher.read(operation, exchange.plain, needs)
                is_spare = self._around.own.has(operation, len(call.searches))  # for the vectors that memory may lack
                lean = self._searcher.lean(call, exchange.plain) if is_spare else None
        except Unsupported as verdict:
            return verdict.reason
        factor = self._around.appetite.factor(operation, policy)
        planned = plan(call, policy, learned.cap(operation), factor=factor)
        if planned is None:
            return Bypass.WINDOW_TOO_LARGE
        each = self._around.held.candidate_bytes(operation, vector_bytes=self._vector_bytes(call))
        most = self._around.held.reply_bytes // each
        planned = fitted(call.searches, planned, most)
        if planned is None:
            return Bypass.REPLY_TOO_LARGE
        ahead = self._around.appetite.ahead(call, planned, policy, cap=learned.cap(operation), is_spare=is_spare)
        asked, spare = (call, None) if lean is None else (lean, call)
        return Attempt(
            call=asked,
            spare=spare,
            policy=policy,
            plan=planned,
            watch=watch,
            factor=factor,
            candidate_bytes=each,
            ahead=ahead if sum(ahead) <= most else (),
        )

    def _vector_bytes(self, call: SearchCall) -> int | None:
        lengths = [len(search.query) for search in call.searches if search.query is not None]
        return max(lengths) * self._number_bytes if lengths else None

    async def answer(self, exchange: Exchange[A], attempt: Attempt) -> tuple[A, Report]:
        """The best answer that stands, and what it came to."""
        room = self._room(exchange.operation, attempt)
        if not isinstance(room, Hold):
            return await self._original(exchange, attempt, Seen(reason=room))
        hedges, seen = self._around.hedges, Seen(room=room, is_raced=True)
        race = hedges.race(exchange, attempt, seen)
        try:
            if hedges.may_widen(exchange.operation, attempt, seen):
                return await self._raced(exchange, attempt, seen, race)
            self._around.breaker.abandoned()
            room.release()
            seen.reason = FailOpen.SLOW
            return await self._original(exchange, attempt, seen)
        except asyncio.CancelledError:
            self.patience.gave_up(exchange.operation, attempt.watch.elapsed())
            raise
        finally:
            await race.drop()
            hedges.done(exchange.operation, attempt, seen)
            room.release()

    async def _raced(self, exchange: Exchange[A], attempt: Attempt, seen: Seen, race: Race[A]) -> tuple[A, Report]:
        """The improved answer or the original's, whichever is usable first; where there is neither, the original is sent now."""
        operation, timeout = exchange.operation, exchange.client_timeout_seconds
        last = self.patience.attempt_seconds(operation, timeout)

        async def climb() -> tuple[A, Report] | None:
            return await self._climb(exchange, attempt, seen, Outcome.DEDUP)

        answered = await race.run(climb, first=self.patience.hedge_seconds(operation, timeout), last=last)
        if seen.reason is FailOpen.NO_VECTORS:
            self._around.learned.contradicted(operation)
        if answered is not None and not race.is_first:
            return answered
        if seen.room is not None:
            seen.room.release()  # the original's answer is streamed, and held by nobody
        if race.is_first:
            seen.reason = FailOpen.OVERFETCH_TIMEOUT
            if attempt.watch.elapsed() >= last:
                self._around.breaker.failed()
        response, report = await self._own(exchange, attempt, seen, race)
        if seen.is_declined and response.is_success:
            # The client's own request was fine, so what was refused is what we made of it: too many candidates, as an
            # answer beyond Pinecone's 4 MB is refused, whatever the words. Half as many next time, until it fits.
            self._around.learned.refused(exchange.operation, max(size or 0 for size in attempt.plan) // 2)
        return response, report

    async def _own(self, exchange: Exchange[A], attempt: Attempt, seen: Seen, race: Race[A]) -> tuple[A, Report]:
        """What the client's own search is answered with: sent already, or now."""
        if race.is_sent:
            reason = seen.reason or FailOpen.INTERNAL
            with attempt.watch.stage(Stage.UPSTREAM):
                response = await race.answer()
            return response, report_of(
                exchange.operation, attempt, outcome=Outcome.FAIL_OPEN, reason=reason, hedged=True
            )
        if seen.has_asked:
            self._around.own.spend(exchange.operation, OwnRead.REPLAY, len(attempt.call.searches))
        with self._around.replays.one():
            return await self._original(exchange, attempt, seen)

    async def measure(self, exchange: Exchange[A], attempt: Attempt) -> Report | None:
        """Run the pipeline for its figures alone; nothing of it reaches a client. None when nothing stood, or nothing was sent."""
        room = self._room(exchange.operation, attempt)
        if not isinstance(room, Hold):
            return None
        try:
            answered = await self._climb(exchange, attempt, Seen(room=room), Outcome.SHADOW)
        finally:
            room.release()
        return None if answered is None else answered[1]

    def _room(self, operation: Operation, attempt: Attempt) -> Hold | FailOpen:
        """Room for what a widened request will bring, to be released; or why none is sent."""
        around = self._around
        if around.replays.is_spent:
            return FailOpen.BREAKER
        if around.own.is_overdrawn(operation):
            return FailOpen.BUDGET
        room = around.held.hold(attempt.ahead or attempt.plan, attempt.candidate_bytes)
        if room is None:
            return FailOpen.OVERLOAD
        if not around.breaker.allow():  # last: a yes may make this search the probe, which must then be sent
            room.release()
            return FailOpen.BREAKER
        return room

    async def _climb(
        self, exchange: Exchange[A], attempt: Attempt, seen: Seen, outcome: Outcome
    ) -> tuple[A, Report] | None:
        """Both rungs that need no second request: the improved answer, else the plain one from the same pool."""

        async def improved() -> tuple[A, Report]:
            return await self._improved(exchange, attempt, seen, outcome)

        async def plain() -> tuple[A, Report]:
            body = self._searcher.plain(attempt)
            report = report_of(
                exchange.operation, attempt, outcome=Outcome.FAIL_OPEN, reason=seen.reason, hedged=seen.is_hedged
            )
            return exchange.answer(body, report), report

        sent_bytes = 0
        try:
            answered = await first_standing([improved, plain], lambda error: note(seen, error))
            if answered is not None and outcome is Outcome.DEDUP:  # shadow's answer is never sent
                sent_bytes = answered[0].body_bytes
        except asyncio.CancelledError:
            self._around.breaker.abandoned()
            raise
        finally:
            self._around.egress.spend(exchange.operation, seen.received_bytes - sent_bytes)
            if attempt.lookups is not None and attempt.lookups.looked is not None:
                self._around.metrics.looked_up(attempt.lookups.looked, attempt.lookups.read_units)
        return answered

    async def _improved(
        self, exchange: Exchange[A], attempt: Attempt, seen: Seen, outcome: Outcome
    ) -> tuple[A, Report]:
        async def fetch(body: bytes) -> bytes:
            self._granted(exchange.operation, attempt)
            return await self._fetch(exchange, attempt, seen, body)

        try:
            cap = self._around.learned.cap(exchange.operation)
            look = self._around.looking.of(exchange, seen, self.dialect)
            body = await self._searcher.improve(
                attempt, fetch, cap=cap, reply_bytes=self._around.held.reply_bytes, look=look
            )
            self._around.appetite.saw(attempt, cap=cap)
            self._around.appetite.wanted(attempt)
        except Declined as declined:
            limit = self.dialect.refused_limit(0, declined.words)
            if limit is not None:
                self._around.learned.refused(exchange.operation, limit)
            else:
                self._around.learned.contradicted(exchange.operation)
            raise Rejected(FailOpen.OVERFETCH_STATUS) from declined
        except Passed:
            report = report_of(exchange.operation, attempt, outcome=Outcome.FAIL_OPEN, reason=seen.reason)
            return exchange.refusal() if seen.refusal is None else exchange.answer(seen.refusal, report), report
        finally:
            self._learn(exchange.operation, attempt)
            if attempt.rounds == 1:
                self._around.held.learn(exchange.operation, attempt.ahead or attempt.plan, seen.received_bytes)
        rows = rows_of(attempt)
        report = report_of(exchange.operation, attempt, outcome=outcome, rows=rows, hedged=seen.is_hedged)
        for record in records_of(attempt) if self._around.recent.keep else ():
            self._around.recent.add(record)
        return exchange.answer(body, report), report

    def _granted(self, operation: Operation, attempt: Attempt) -> None:
        """Every widened request but the first is a read of ours. Raises Rejected where the budget has no room for it.

        A page that is read by its offset would repeat or skip results in a pool that is too small: it goes over the budget. The next
        one fetches as much at once, so that there are no more of them than steps of growing.
        """
        if attempt.reply is None:
            return
        own, kind = self._around.own, OwnRead.GROW if attempt.rounds else OwnRead.RECALL
        reads = len(attempt.call.searches)
        if own.take(operation, kind, reads):
            return
        if not any(search.pages for search in attempt.call.searches) or own.is_recovering(operation):
            raise Rejected(FailOpen.BUDGET)
        own.spend(operation, kind, reads)

    def _learn(self, operation: Operation, attempt: Attempt) -> None:
        if attempt.reply is None:
            return
        for pool in attempt.reply.pools:
            if pool.vector_name is not None:
                self._around.learned.compared(operation, pool.vector_name)

    async def _fetch(self, exchange: Exchange[A], attempt: Attempt, seen: Seen, body: bytes) -> bytes:
        """Send a widened request. Raises Rejected, or Passed through the fence when upstream's answer stands as it is."""
        around = self._around
        started = around.clock()
        seconds = around.hedges.seconds(exchange, seen, started)
        try:
            assert seen.room is not None  # noqa: S101 - whoever climbs has some
            fetched = await exchange.send(body, seconds=seconds, fits=seen.room.fits)
            if not seen.room.fits(len(fetched)):
                raise Lost(FailOpen.OVERLOAD, received_bytes=len(fetched))  # noqa: TRY301 - as the transport says it earlier
        except Lost as lost:
            self._lost(exchange.operation, seen, lost)
            raise Rejected(lost.reason) from lost
        except Refused as refused:
            around.hedges.timely(exchange.operation, attempt, seen, around.clock() - started)
            raise self._verdict(exchange.operation, attempt, seen, refused) from refused
        finally:
            around.metrics.upstream_done(AttemptKind.OVERFETCH, around.clock() - started)
        around.hedges.timely(exchange.operation, attempt, seen, around.clock() - started)
        seen.deadline = max(seen.deadline, around.clock() + HEDGE_LEAST_SECONDS)
        self._received(seen, fetched)
        around.breaker.succeeded()
        if self.dialect.is_quota_in_success(fetched):
            seen.refusal = fetched
            raise self._limited(exchange.operation, attempt, seen)
        return fetched

    def _received(self, seen: Seen, message: bytes) -> None:
        self._around.metrics.received(len(message))
        seen.received(len(message))

    def _lost(self, operation: Operation, seen: Seen, lost: Lost) -> None:
        seen.received_bytes += lost.received_bytes
        if lost.reason is FailOpen.TOO_LARGE:
            # The client's own limit may fit where five times as many do not.
            self._around.learned.refused(operation, None)
        if lost.reason in {FailOpen.TOO_LARGE, FailOpen.MALFORMED, FailOpen.OVERLOAD}:
            self._around.breaker.succeeded()  # it answered
        else:
            self._around.breaker.failed()

    def _verdict(self, operation: Operation, attempt: Attempt, seen: Seen, refused: Refused) -> Exception:
        """What an answer that is no success means for this attempt, and for later ones."""
        self._received(seen, refused.words)
        if self.dialect.is_quota(refused.status, refused.words):
            self._around.breaker.succeeded()  # it answered
            return self._limited(operation, attempt, seen)
        seen.is_declined = self._is_declined(operation, refused)
        is_unknown = self.dialect.names_unknown_vector(refused.status, refused.words)
        return Rejected(FailOpen.NOT_FOUND_VECTOR if is_unknown else FailOpen.OVERFETCH_STATUS)

    def _limited(self, operation: Operation, attempt: Attempt, seen: Seen) -> Exception:
        """What a refusal for want of quota means: it is the client's answer, unless there is a pool already."""
        self._around.own.refused(operation.collection)
        if attempt.reply is not None:
            return Rejected(FailOpen.OVERFETCH_STATUS)
        seen.reason = FailOpen.OVERFETCH_STATUS
        return Passed()  # asking again with the original would burn the client's quota twice

    def _is_declined(self, operation: Operation, refused: Refused) -> bool:
        """Learn from a refusal; whether it was one as the client's mistake of which nothing is known."""
        around = self._around
        if refused.is_server_error:
            around.breaker.failed()
            around.metrics.upstream_failed(UpstreamError.SERVER_ERROR)
            return False
        around.breaker.succeeded()  # it answered: a refusal of what was asked is no failure of the database
        limit = self.dialect.refused_limit(refused.status, refused.words)
        if limit is not None:
            around.learned.refused(operation, limit)
            return False
        if self.dialect.names_unknown_vector(refused.status, refused.words):
            around.learned.forget(
                operation.collection
            )  # one that earlier replies taught us: the collection is another now
            return False
        around.learned.contradicted(operation)  # a field may be one that the collection had when it was described
        return refused.may_be_size

    async def _original(self, exchange: Exchange[A], attempt: Attempt, seen: Seen) -> tuple[A, Report]:
        reason, kind = seen.reason or FailOpen.INTERNAL, AttemptKind.ORIGINAL
        if seen.has_asked:
            kind = AttemptKind.REPLAY
            self._around.metrics.retried(Retry.of(reason))
        with attempt.watch.stage(Stage.UPSTREAM):
            response = await exchange.original(kind)
        return response, report_of(exchange.operation, attempt, outcome=Outcome.FAIL_OPEN, reason=reason)


def nobody() -> int:
    """Waits where every request is looked at as it comes."""
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Conduct:
    """The way of every search of one transport.

    ``most``: how many may be improved at once in this process, those included that are ``waiting`` to be looked at, where the transport
    keeps a queue of its own; ``lag_seconds``: none while turns of its loop take longer.
    """

    ladder: Ladder
    knowing: Knowing
    shadow: Shadow
    memory: MemoryGuard
    turns: Turns
    own: OwnReads
    lag_seconds: float
    most: int
    waiting: Callable[[], int] = nobody

    def no_room(self, visit: Visit) -> FailOpen | None:
        """Why no search can be improved now; None while there is room."""
        if visit.searches_in_flight + self.waiting() >= self.most or self.turns.lag_seconds > self.lag_seconds:
            return FailOpen.OVERLOAD
        return FailOpen.MEMORY if self.memory.pressure() is Pressure.HIGH else None

    async def answer(self, exchange: Exchange[A], visit: Visit, *, sample: float) -> A:
        """Answer it. ``sample``: the share of searches that mode shadow measures."""

        async def prepare() -> Attempt | BypassReason:
            if self.own.is_quiet(exchange.operation):
                return Bypass.QUOTA  # nothing of ours is sent, so nothing of ours is refused in the client's place
            too_large = self.ladder.too_large(exchange)
            if len(exchange.plain) > TURN_BYTES:
                await asyncio.sleep(0)
            return too_large or self.ladder.prepare(exchange, await self.knowing.of(exchange))

        with visit.searching():
            prepared = await first_standing([prepare], lambda _: visit.failed_open(FailOpen.INTERNAL))
            if prepared is None:
                return await exchange.original(AttemptKind.ORIGINAL)
            if not isinstance(prepared, Attempt):
                self.own.asked(exchange.operation)
                visit.bypassed(prepared)
                return await exchange.original(AttemptKind.ORIGINAL)
            self.own.asked(exchange.operation, len(prepared.call.searches))
            if exchange.policy.mode == "shadow":
                return await self._shadowed(exchange, prepared, visit, sample)
            answer, report = await self.ladder.answer(exchange, prepared)
            visit.reported(report)
            return answer

    async def _shadowed(self, exchange: Exchange[A], attempt: Attempt, visit: Visit, sample: float) -> A:
        async def measure() -> Report | None:
            report = await self.ladder.measure(exchange, attempt)
            if report is not None:
                visit.trace.staged(report.marks)
            return report

        answer = await exchange.original(AttemptKind.ORIGINAL)
        if not self.shadow.is_due(sample):
            visit.bypassed(Bypass.SHADOW_NOT_SAMPLED)
        elif not self.own.take(exchange.operation, OwnRead.SHADOW, len(attempt.call.searches)):
            visit.bypassed(Bypass.QUOTA)
        else:
            self.shadow.follow(measure, attempt)
            visit.shadowed()
        return answer

    def heard_own(self, operation: Operation, status: int, body: bytes = b"", *, seconds: float) -> None:
        """A client's own search was answered so, after so many seconds."""
        self.ladder.patience.answered_plainly(operation, seconds)
        self.heard(operation.collection, status, body)

    def heard(self, collection: str, status: int, body: bytes = b"") -> None:
        """The database refused a client's own request. ``collection``: "" where it cannot be told; ``body``: as Dialect.is_quota."""
        if self.ladder.dialect.is_quota(status, body):
            self.own.refused(collection)

    def heard_success(self, collection: str, body: bytes) -> None:
        """The whole of a reply that the transport calls a success."""
        if self.ladder.dialect.is_quota_in_success(body):
            self.own.refused(collection)
