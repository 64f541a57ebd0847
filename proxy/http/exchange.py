"""A search over HTTP: its widened requests go out with the client's own head, its answers with upstream's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace

from aiohttp import web

from vecsieve.adapters.contract import Lookup, Operation, Question
from vecsieve.proxy.addresses import Origin
from vecsieve.proxy.http.headers import (
    Headers,
    RawHeaders,
    Target,
    around_other_bytes,
    for_client,
    framed,
    replaced,
    traced,
    values,
)
from vecsieve.proxy.http.message import RawResponse
from vecsieve.proxy.http.upstream import NoRoomError, ReplyTooLargeError, Upstream, UpstreamReply
from vecsieve.proxy.search.errors import (
    FailureKind,
    LostReplyError,
    RefusedReplyError,
    RejectedReplyError,
    UpstreamExchangeError,
)
from vecsieve.proxy.search.exchange import Fits, Gate
from vecsieve.proxy.search.policy import ResolvedPolicy
from vecsieve.proxy.search.report import REPORT_HEADER, Report, header_value
from vecsieve.proxy.telemetry.labels import AttemptKind, FailOpen
from vecsieve.proxy.telemetry.tracing import UNTOLD, UNTRACED, Leg, Trace

# A lookup or a question over HTTP: the client's own credentials and none of its body's fields; nothing of the answer reaches a client.

# What describes a request's body. Its length and the coding of its transfer are the connection's business.
_OF_A_BODY = frozenset({b"content-type", b"content-encoding", b"content-language", b"content-md5", b"digest"})


async def looked_up(
    lookup: Lookup,
    *,
    upstream: Upstream,
    origin: Origin | None,
    headers: RawHeaders,
    seconds: float,
    limit_bytes: int,
    leg: Leg = UNTOLD,
) -> bytes:
    """The body of a success. ``origin``: where the search went; ``headers``: the search's own. Raises LostReplyError or RefusedReplyError."""
    sending = upstream.send(
        method=lookup.method,
        raw_target=lookup.target,
        headers=traced(_without_body(headers), leg.traceparent),
        body=None,
        deadline_seconds=seconds,
        origin=origin,
    )
    return await _success(sending, limit_bytes, leg)


async def asked(
    question: Question,
    *,
    upstream: Upstream,
    origin: Origin | None,
    headers: RawHeaders,
    seconds: float,
    limit_bytes: int,
    leg: Leg = UNTOLD,
) -> bytes:
    """As ``looked_up``, of a question: JSON, where it has a body."""
    own = traced(_without_body(headers), leg.traceparent)
    sending = upstream.send(
        method=question.method,
        raw_target=question.target,
        headers=replaced(own, b"content-type", b"application/json") if question.body else own,
        body=question.body or None,
        is_search=True,
        deadline_seconds=seconds,
        origin=origin,
    )
    return await _success(sending, limit_bytes, leg)


async def _success(sending: AbstractAsyncContextManager[UpstreamReply], limit_bytes: int, leg: Leg) -> bytes:
    try:
        async with sending as reply:
            leg.answered(reply.status)
            body = await reply.read_bounded(limit_bytes)
    except UpstreamExchangeError as failure:
        leg.cut()
        is_late = failure.kind is FailureKind.TIMEOUT
        raise LostReplyError(FailOpen.OVERFETCH_TIMEOUT if is_late else FailOpen.OVERFETCH_RESET) from failure
    except ReplyTooLargeError as failure:
        leg.cut()
        raise LostReplyError(FailOpen.TOO_LARGE, received_bytes=limit_bytes) from failure
    if not 200 <= reply.status < 300:
        raise RefusedReplyError(reply.status, body, is_server_error=reply.status >= 500, may_be_size=False)
    if any(value.strip().lower() != b"identity" for value in values(reply.raw_headers, b"content-encoding")):
        raise LostReplyError(FailOpen.MALFORMED, received_bytes=len(body))
    return body


def _without_body(raw: RawHeaders) -> RawHeaders:
    kept = [pair for pair in raw if pair[0].lower() not in _OF_A_BODY]
    return replaced(kept, b"accept-encoding", b"identity")


# Statuses of a refusal that may be about the size of what was asked for.
TOO_LARGE = frozenset({400, 413, 422})
LOST_BY = {FailureKind.TIMEOUT: FailOpen.OVERFETCH_TIMEOUT}


@dataclass(frozen=True, slots=True)
class _Head:
    """The head of upstream's answer, kept for the answer that is made of it."""

    status: int
    reason: str
    headers: Headers


@dataclass(slots=True, kw_only=True)
class HttpExchange:
    """One classified request, its body read. ``plain``: the body without its content coding.

    ``relay``: sends the client's original request and streams the answer back. ``reply_body_bytes``: how much of a widened
    answer is held.
    """

    request: web.BaseRequest
    target: Target
    operation: Operation
    policy: ResolvedPolicy
    plain: bytes
    client_timeout_seconds: float | None
    report_header: bool
    upstream: Upstream
    reply_body_bytes: int
    relay: Callable[[AttemptKind, Gate | None], Awaitable[RawResponse]]
    trace: Trace = UNTRACED
    _head: _Head | None = field(default=None, init=False)
    _refusal: RawResponse | None = field(default=None, init=False)

    async def send(self, body: bytes, *, seconds: float, fits: Fits) -> bytes:
        """Send a widened request; the body of upstream's success. Raises LostReplyError or RefusedReplyError."""
        try:
            with self.trace.leg(AttemptKind.OVERFETCH, self.request.method, self.target.origin) as leg:
                return await self._sent(body, seconds, leg, fits)
        except UpstreamExchangeError as failure:
            raise LostReplyError(LOST_BY.get(failure.kind, FailOpen.OVERFETCH_RESET)) from failure
        except ReplyTooLargeError as failure:
            raise LostReplyError(FailOpen.TOO_LARGE, received_bytes=self.reply_body_bytes) from failure
        except NoRoomError as failure:
            raise LostReplyError(FailOpen.OVERLOAD, received_bytes=failure.received_bytes) from failure

    async def _sent(self, body: bytes, seconds: float, leg: Leg, fits: Fits) -> bytes:
        async with self.upstream.send(
            method=self.request.method,
            raw_target=self.target.raw,
            headers=traced(_widened_headers(self.request.raw_headers), leg.traceparent),
            body=body,
            is_search=True,
            deadline_seconds=seconds,
            origin=self.target.origin,
        ) as reply:
            leg.answered(reply.status)
            try:
                fetched = await reply.read_bounded(self.reply_body_bytes, fits=fits)
            except (UpstreamExchangeError, ReplyTooLargeError, NoRoomError):
                leg.cut()
                raise
            return self._accepted(reply, fetched)

    async def look_up(self, lookup: Lookup, *, seconds: float) -> bytes:
        """Send a lookup; the body of upstream's success. Raises LostReplyError or RefusedReplyError."""
        with self.trace.leg(AttemptKind.LOOKUP, lookup.method, self.target.origin) as leg:
            return await looked_up(
                replace(lookup, target=self.target.beside(lookup.target)),
                upstream=self.upstream,
                origin=self.target.origin,
                headers=self.request.raw_headers,
                seconds=seconds,
                limit_bytes=self.reply_body_bytes,
                leg=leg,
            )

    async def ask(self, question: Question, *, seconds: float) -> bytes:
        """Send a question; the body of upstream's success. Raises LostReplyError or RefusedReplyError."""
        with self.trace.leg(AttemptKind.LOOKUP, question.method, self.target.origin) as leg:
            return await asked(
                replace(question, target=self.target.beside(question.target)),
                upstream=self.upstream,
                origin=self.target.origin,
                headers=self.request.raw_headers,
                seconds=seconds,
                limit_bytes=self.reply_body_bytes,
                leg=leg,
            )

    def _accepted(self, reply: UpstreamReply, fetched: bytes) -> bytes:
        if not 200 <= reply.status < 300:
            whole = framed(for_client(reply.raw_headers), length=len(fetched), chunked=False)
            self._refusal = RawResponse(reply.status, reply.reason, whole, body=fetched)
            raise RefusedReplyError(
                reply.status,
                fetched,
                is_server_error=reply.status >= 500,
                may_be_size=reply.status in TOO_LARGE,
            )
        if any(value.strip().lower() != b"identity" for value in values(reply.raw_headers, b"content-encoding")):
            # Identity was asked for; what cannot be read is not cut.
            raise LostReplyError(FailOpen.MALFORMED, received_bytes=len(fetched))
        self._head = _Head(reply.status, reply.reason, around_other_bytes(reply.raw_headers))
        return fetched

    def answer(self, body: bytes, report: Report) -> RawResponse:
        """Upstream's own head around our body. Raises RejectedReplyError when there is no head."""
        head = self._head
        if head is None:
            raise RejectedReplyError(FailOpen.INTERNAL)
        headers = framed(head.headers, length=len(body), chunked=False)
        if self.report_header and report.figures:  # a plain answer has none, and `returned=0` beside results is false
            headers.append((REPORT_HEADER, header_value(report)))
        return RawResponse(head.status, head.reason, headers, body=body)

    def refusal(self) -> RawResponse:
        """Upstream's last refusal, as it came."""
        if self._refusal is None:
            raise RejectedReplyError(FailOpen.INTERNAL)
        return self._refusal

    async def original(self, kind: AttemptKind, gate: Gate | None = None) -> RawResponse:
        """Upstream's own answer to the client's own bytes, streamed."""
        return await self.relay(kind, gate)


def _widened_headers(raw: RawHeaders) -> RawHeaders:
    """The client's fields for a body that was rewritten and an answer that is to be read: no coding on either."""
    return replaced(replaced(raw, b"content-encoding", None), b"accept-encoding", b"identity")
