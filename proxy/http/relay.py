"""Passthrough: streams one request to the database and its answer back; holds nothing, re-sends nothing.

Back-pressure is passed on: neither side is read faster than the other reads. Framing is kept: a length stays a length,
chunks stay chunks, a close-delimited answer stays one. An answer cut short upstream is a broken connection downstream,
never a complete one.

Where HTTP through aiohttp cannot be exact (docs/limits.md): interim answers such as 103 are dropped, 100 comes from
here; trailers of either side are dropped, and so are chunk boundaries and extensions; a client's trailers, or whatever
comes in one segment with the end of its chunks, end its connection with their answer (protocol.py), as an upgrade to
WebSocket does; white space around a field's value is dropped; a field or target with bytes that are no UTF-8 is refused
(400, from upstream 502) instead of altered; replies with a transfer coding other than chunked, or a blank before a colon, are
502 (headers.py), a folded field is unfolded; methods aiohttp does not know are refused (400); absolute-form targets and
`OPTIONS *` are refused (400), upgrades are answered as ordinary requests; an HTTP/1.0 client's request goes out as 1.1;
a client that half-closes after its request is taken for gone.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from aiohttp import web

from ..runtime.loop import Owner
from ..search.errors import ClientBodyError, Trouble, UpstreamExchangeError, trouble_of
from ..telemetry.labels import AttemptKind
from ..telemetry.tracing import Leg, Trace
from .answers import Editing, LocalAnswers, RawResponse, hold, readable
from .body import RequestBody
from .connections import Events
from .headers import Target, for_client, traced
from .outflow import Backlog, Outflow, ReplyObserver
from .upstream import Upstream
from .upstream_connection import Exchange

Gate = Callable[[int], Awaitable[None]]
"""Gets the status."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """How one request is passed through.

    ``is_search``: a POST that only reads; it is cancelled with its client, while a write that was sent completely is finished.
    ``editing``: changes the answer, which is held until it is complete. ``observer``: reads an answer as it passes. ``gate``: awaited
    before any of it is sent, and after ``editing``. ``leave``: called when the client turns out to be slow, perhaps repeatedly: its place
    may be given to another. ``added``: fields of ours, after those of a success; called behind the gate.
    """

    target: Target
    is_search: bool = False
    editing: Editing | None = None
    observer: ReplyObserver | None = None
    trace: Trace | None = None
    kind: AttemptKind = AttemptKind.ORIGINAL
    gate: Gate | None = None
    leave: Callable[[], None] = lambda: None
    added: Callable[[], Sequence[tuple[str, str]]] = tuple


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """Passes requests through to the database. ``writes``: owns those that were sent completely before their clients disconnected, until the head of
    their reply: cutting one could undo half of it. One whose body was not sent completely is cut, as it would be without a proxy.
    ``stream_idle_seconds``: how long a client may read nothing of its answer.
    """

    upstream: Upstream
    answers: LocalAnswers
    writes: Owner
    events: Events
    backlog: Backlog
    stream_idle_seconds: float

    async def relay(self, request: web.BaseRequest, body: RequestBody, passage: Passage) -> RawResponse:
        """Send the request and stream its answer. Returns the response already sent, or one of our own still to be sent."""
        target, trace = passage.target, passage.trace
        leg = Leg() if trace is None else trace.leg(passage.kind, request.method, target.origin)
        headers = request.raw_headers if passage.editing is None else readable(request.raw_headers)
        headers = headers if leg.traceparent is None else traced(headers, leg.traceparent)
        try:
            reply = await self.upstream.open(
                method=request.method,
                raw_target=target.raw,
                headers=headers,
                body=body.source(),
                content_length=body.content_length,
                is_search=passage.is_search,
                origin=target.origin,
                leave=self.writes.start,
            )
            leg.status = reply.status
            try:
                return await self._answered(request, reply, passage, leg)
            finally:
                await reply.close()
        except (UpstreamExchangeError, ClientBodyError) as failure:  # nothing of an answer has been sent
            leg.is_cut = True
            return self.failed(failure, request.raw_path)
        finally:
            if trace is not None:
                trace.ended(leg)

    async def _answered(self, request: web.BaseRequest, reply: Exchange, passage: Passage, leg: Leg) -> RawResponse:
        begun, response = None, None
        if passage.editing is not None:
            begun, is_whole = await hold(reply, passage.editing.limit_bytes)
            response = passage.editing.answer(reply, b"".join(begun)) if is_whole else None
        if passage.gate is not None:
            await passage.gate(reply.status)
        if is_passed := response is None:
            headers = [*for_client(reply.raw_headers), *(passage.added() if 200 <= reply.status < 300 else ())]
            is_ready = bool(begun) or not reply.has_more_to_wait_for
            response = RawResponse(reply.status, reply.reason, headers, is_ready=is_ready)
        if not reply.is_upload_over:
            response.force_close()  # an early 403 or 413: the rest of the body must not be read as a request
        if is_passed:
            bounds = self.backlog, self.events, self.stream_idle_seconds
            flow = Outflow(request, response, reply, passage.observer, *bounds, passage.leave)
            leg.is_cut = not await flow.send(begun)
        return response

    def refuse(self, trouble: Trouble, path: str, *, cause: str = "") -> RawResponse:
        """Send our own answer, counted. ``path``: as the client sent it. ``cause``: for the log."""
        self.events.answered_locally(trouble.value)
        response = self.answers.response(trouble, path)
        response.cause = cause
        return response

    def failed(self, failure: UpstreamExchangeError | ClientBodyError, path: str) -> RawResponse:
        """Answer a request that the database did not answer, or whose body did not arrive; counted."""
        if isinstance(failure, UpstreamExchangeError):
            return self.refuse(trouble_of(failure.kind), path, cause=failure.cause)
        return self.refuse(trouble_of(failure.fault), path)
