"""A ranked search over HTTP: the failure ladder around one call.

    improved answer ── our failure ─► first top_k of what was fetched ── nothing usable ─► the original bytes, once

Nothing is sent to the client before a rung stands, so every lower rung is still free to answer. Only a search comes
here, and a search reads: sending its original once more is safe.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web

from vecsieve.adapters.contract import Dialect, Operation, Reason, SearchCall, Unsupported
from vecsieve.proxy.appetite import Appetite
from vecsieve.proxy.breaker import Breaker
from vecsieve.proxy.egress import Egress
from vecsieve.proxy.http.exchange import (
    Exchange,
    Head,
    Passed,
    Seen,
    answer_of,
    note,
    records_of,
    report_of,
    rows_of,
    verbatim_of,
)
from vecsieve.proxy.http.failures import FailureKind, UpstreamFailure
from vecsieve.proxy.http.fence import first_standing
from vecsieve.proxy.http.headers import for_client, framed, replaced, values
from vecsieve.proxy.http.raw_response import RawResponse
from vecsieve.proxy.http.upstream import ReplyTooLarge, Upstream, UpstreamReply
from vecsieve.proxy.labels import AttemptKind, Bypass, FailOpen, Outcome, Stage, UpstreamError
from vecsieve.proxy.learned import Learned
from vecsieve.proxy.metrics import Metrics
from vecsieve.proxy.patience import Patience
from vecsieve.proxy.recent import Recent
from vecsieve.proxy.report import Report
from vecsieve.proxy.search import Attempt, Rejected, Searcher, needs_of, plan
from vecsieve.proxy.stopwatch import Clock, Stopwatch

# Statuses of a refusal that may be about the size of what was asked for.
TOO_LARGE = frozenset({400, 413, 422})
TOO_MANY_REQUESTS = 429  # asking again with the original would burn the client's quota twice
REJECTED_BY = {FailureKind.TIMEOUT: FailOpen.OVERFETCH_TIMEOUT}


Answered = tuple[web.StreamResponse, Report]
Relay = Callable[[], Awaitable[web.StreamResponse]]
"""Sends the client's original request and streams the answer back."""


class Interceptor:
    """Answers classified searches; everything it is made of is handed in."""

    def __init__(  # noqa: PLR0913 - the composition root names every part
        self,
        *,
        searcher: Searcher,
        dialect: Dialect,
        upstream: Upstream,
        learned: Learned,
        breaker: Breaker,
        appetite: Appetite,
        egress: Egress,
        patience: Patience,
        metrics: Metrics,
        recent: Recent,
        reply_body_bytes: int,
        clock: Clock,
    ) -> None:
        self._searcher = searcher
        self._dialect = dialect
        self._upstream = upstream
        self._learned = learned
        self._breaker = breaker
        self._appetite = appetite
        self._egress = egress
        self._patience = patience
        self._metrics = metrics
        self._recent = recent
        self._reply_body_bytes = reply_body_bytes
        self._clock = clock

    def prepare(self, exchange: Exchange) -> Attempt | Reason | Bypass:
        """Read the request and plan the pool, or say why the search is left alone."""
        if self._egress.is_spent:
            return Bypass.BUDGET
        watch = Stopwatch(self._clock)
        operation, policy = exchange.operation, exchange.policy
        needs = needs_of(policy, self._learned.hint(operation))
        try:
            with watch.stage(Stage.PARSE):
                call: SearchCall = self._searcher.read(operation, exchange.plain, needs)
                lean = self._searcher.lean(call, exchange.plain)
        except Unsupported as verdict:
            return verdict.reason
        factor = self._appetite.factor(operation, policy)
        planned = plan(call, policy, self._learned.cap(operation), factor=factor)
        if planned is None:
            return Bypass.WINDOW_TOO_LARGE
        asked, spare = (call, None) if lean is None else (lean, call)
        return Attempt(call=asked, spare=spare, policy=policy, plan=planned, watch=watch, factor=factor)

    async def answer(self, exchange: Exchange, attempt: Attempt, relay: Relay) -> Answered:
        """The best answer that stands, and what it came to."""
        if not self._breaker.allow():
            return await self._original(exchange, attempt, relay, FailOpen.BREAKER)
        seen = Seen()
        answered = await self._climb(exchange, attempt, seen, Outcome.DEDUP)
        if answered is not None:
            return answered
        response, report = await self._original(exchange, attempt, relay, seen.reason or FailOpen.INTERNAL)
        if seen.is_declined and 200 <= response.status < 300:
            # The client's own request was fine, so what was refused is what we made of it: too many candidates, as an
            # answer beyond Pinecone's 4 MB is refused, whatever the words. Half as many next time, until it fits.
            self._learned.refused(exchange.operation, max(size or 0 for size in attempt.plan) // 2)
        return response, report

    async def measure(self, exchange: Exchange, attempt: Attempt) -> Report | None:
        """Run the pipeline for its figures alone; nothing of it reaches a client. None when nothing stood."""
        answered = await self._climb(exchange, attempt, Seen(), Outcome.SHADOW)
        return None if answered is None else answered[1]

    async def _climb(self, exchange: Exchange, attempt: Attempt, seen: Seen, outcome: Outcome) -> Answered | None:
        """Both rungs that need no second request: the improved answer, else the plain one from the same pool."""

        async def fetch(body: bytes) -> bytes:
            return await self._fetch(exchange, attempt, seen, body)

        async def improved() -> Answered:
            try:
                cap = self._learned.cap(exchange.operation)
                body = await self._searcher.improve(attempt, fetch, cap=cap)
                self._appetite.saw(attempt, cap=cap)
            except Passed:
                return verbatim_of(seen), report_of(exchange, attempt, outcome=Outcome.FAIL_OPEN, reason=seen.reason)
            finally:
                self._learn(exchange.operation, attempt)
            report = report_of(exchange, attempt, outcome=outcome, rows=rows_of(attempt))
            for record in records_of(attempt) if self._recent.keep else ():
                self._recent.add(record)
            return answer_of(exchange, seen, body, report), report

        async def plain() -> Answered:
            body = self._searcher.plain(attempt)
            report = report_of(exchange, attempt, outcome=Outcome.FAIL_OPEN, reason=seen.reason)
            return answer_of(exchange, seen, body, report), report

        sent_bytes = 0
        try:
            answered = await first_standing([improved, plain], lambda error: note(seen, error))
            if answered is not None and outcome is Outcome.DEDUP:  # shadow's answer is never sent
                sent_bytes = int(answered[0].headers["Content-Length"])
        except asyncio.CancelledError:
            self._breaker.abandoned()
            raise
        finally:
            self._egress.spend(exchange.operation, seen.received_bytes - sent_bytes)
        return answered

    def _learn(self, operation: Operation, attempt: Attempt) -> None:
        if attempt.reply is None:
            return
        for pool in attempt.reply.pools:
            if pool.vector_name is not None:
                self._learned.compared(operation, pool.vector_name)

    async def _fetch(self, exchange: Exchange, attempt: Attempt, seen: Seen, body: bytes) -> bytes:
        """Send a widened request. Raises Rejected, or Passed through the fence when upstream's answer stands as it is."""
        seconds = self._patience.attempt_seconds(exchange.client_timeout_seconds)
        started = self._clock()
        try:
            async with self._upstream.send(
                method=exchange.request.method,
                raw_target=exchange.target.raw,
                headers=_widened_headers(exchange.request.raw_headers),
                body=body,
                is_search=True,
                deadline_seconds=seconds,
                origin=exchange.target.origin,
            ) as reply:
                fetched = await reply.read_bounded(self._reply_body_bytes)
                self._patience.learn(self._clock() - started)
                return self._accepted(exchange.operation, attempt, seen, reply, fetched)
        except UpstreamFailure as failure:
            self._breaker.failed()
            raise Rejected(REJECTED_BY.get(failure.kind, FailOpen.OVERFETCH_RESET)) from failure
        except ReplyTooLarge as failure:
            # The client's own limit may fit where five times as many do not.
            self._learned.refused(exchange.operation, None)
            seen.received_bytes += self._reply_body_bytes
            raise Rejected(FailOpen.TOO_LARGE) from failure
        finally:
            self._metrics.upstream_done(AttemptKind.OVERFETCH, self._clock() - started)

    def _accepted(
        self, operation: Operation, attempt: Attempt, seen: Seen, reply: UpstreamReply, fetched: bytes
    ) -> bytes:
        self._metrics.received(len(fetched))
        seen.received_bytes += len(fetched)
        if 200 <= reply.status < 300:
            self._breaker.succeeded()
            if any(value.strip().lower() != b"identity" for value in values(reply.raw_headers, b"content-encoding")):
                raise Rejected(FailOpen.MALFORMED)  # identity was asked for; what cannot be read is not cut
            seen.head = Head(status=reply.status, reason=reply.reason, headers=for_client(reply.raw_headers))
            return fetched
        if reply.status == TOO_MANY_REQUESTS and attempt.reply is None:
            headers = framed(for_client(reply.raw_headers), length=len(fetched), chunked=False)
            seen.verbatim = RawResponse(reply.status, reply.reason, headers, body=fetched)
            seen.reason = FailOpen.OVERFETCH_STATUS
            raise Passed
        seen.is_declined = self._is_declined(operation, reply.status, fetched)
        is_unknown = self._dialect.names_unknown_vector(reply.status, fetched)
        raise Rejected(FailOpen.NOT_FOUND_VECTOR if is_unknown else FailOpen.OVERFETCH_STATUS)

    def _is_declined(self, operation: Operation, status: int, fetched: bytes) -> bool:
        """Learn from a refusal; whether it was one as the client's mistake of which nothing is known."""
        if status >= 500:
            self._breaker.failed()
            self._metrics.upstream_failed(UpstreamError.SERVER_ERROR)
            return False
        self._breaker.succeeded()  # it answered: a refusal of what was asked is no failure of the database
        limit = self._dialect.refused_limit(status, fetched)
        if limit is not None:
            self._learned.refused(operation, limit)
        elif self._dialect.names_unknown_vector(status, fetched):
            self._learned.forget(operation)  # the vector may be one that earlier replies taught us
        else:
            return status in TOO_LARGE
        return False

    async def _original(self, exchange: Exchange, attempt: Attempt, relay: Relay, reason: FailOpen) -> Answered:
        with attempt.watch.stage(Stage.UPSTREAM):
            response = await relay()
        return response, report_of(exchange, attempt, outcome=Outcome.FAIL_OPEN, reason=reason)


def _widened_headers(raw: tuple[tuple[bytes, bytes], ...]) -> list[tuple[bytes, bytes]]:
    """The client's fields for a body that was rewritten and an answer that is to be read: no coding on either."""
    return replaced(replaced(raw, b"content-encoding", None), b"accept-encoding", b"identity")
