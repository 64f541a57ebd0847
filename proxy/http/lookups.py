"""A lookup or a question over HTTP: the client's own credentials and none of its body's fields; nothing of the answer reaches a client."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager

from vecsieve.adapters.first_step import Question
from vecsieve.adapters.second_step import Lookup
from vecsieve.proxy.exchange import Lost, Refused
from vecsieve.proxy.failures import FailureKind, UpstreamFailure
from vecsieve.proxy.http.headers import RawHeaders, replaced, traced, values
from vecsieve.proxy.http.upstream import ReplyTooLarge, Upstream, UpstreamReply
from vecsieve.proxy.labels import FailOpen
from vecsieve.proxy.origin import Origin
from vecsieve.proxy.tracing import UNTOLD, Leg

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
    """The body of a success. ``origin``: where the search went; ``headers``: the search's own. Raises Lost or Refused."""
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
    except UpstreamFailure as failure:
        leg.cut()
        is_late = failure.kind is FailureKind.TIMEOUT
        raise Lost(FailOpen.OVERFETCH_TIMEOUT if is_late else FailOpen.OVERFETCH_RESET) from failure
    except ReplyTooLarge as failure:
        leg.cut()
        raise Lost(FailOpen.TOO_LARGE, received_bytes=limit_bytes) from failure
    if not 200 <= reply.status < 300:
        raise Refused(reply.status, body, is_server_error=reply.status >= 500, may_be_size=False)
    if any(value.strip().lower() != b"identity" for value in values(reply.raw_headers, b"content-encoding")):
        raise Lost(FailOpen.MALFORMED, received_bytes=len(body))
    return body


def _without_body(raw: RawHeaders) -> RawHeaders:
    kept = [pair for pair in raw if pair[0].lower() not in _OF_A_BODY]
    return replaced(kept, b"accept-encoding", b"identity")
