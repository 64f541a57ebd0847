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

import socket
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from aiohttp import web

from ..runtime.loop import Owner
from ..search.errors import ClientBodyError, Trouble, UpstreamExchangeError, trouble_of
from ..telemetry.labels import AttemptKind
from ..telemetry.tracing import Leg, Trace
from .answers import AT_ONCE_BYTES, Editing, LocalAnswers, RawResponse, hold, readable
from .body import RequestBody, decoded
from .connections import Events
from .headers import Headers, Target, for_client, traced, values
from .outflow import Backlog, Outflow
from .upstream import Upstream
from .upstream_connection import Exchange

# A list of a thousand Chroma collections; reading it takes a few milliseconds.
OBSERVED_BYTES = 2 * 1024 * 1024


class ReplyObserver:
    """Reads one reply while it passes, without delaying or changing it.

    Oversized, truncated, failed or undecodable replies are ignored. ``learn``: total; gets the whole decoded body, at most once.
    """

    __slots__ = ("_coding", "_expected", "_learn", "_limit_bytes", "_pieces", "_size")

    def __init__(self, learn: Callable[[bytes], None], *, limit_bytes: int = OBSERVED_BYTES) -> None:
        self._learn = learn
        self._limit_bytes = limit_bytes
        self._pieces: list[bytes] | None = None
        self._size = 0
        self._expected: int | None = None
        self._coding = b""

    def begin(self, reply: Exchange) -> None:
        if not 200 <= reply.status < 300:
            return
        self._pieces = []
        self._coding = b",".join(values(reply.raw_headers, b"content-encoding"))
        length = b",".join(values(reply.raw_headers, b"content-length"))
        self._expected = int(length) if length.isdigit() else None

    def receive(self, piece: bytes) -> None:
        """Add a piece before it is sent. After the last piece the body is read first, because a client that has a collection's document may
        search it at once.
        """
        if self._pieces is None:
            return
        self._pieces.append(piece)
        self._size += len(piece)
        if self._size > self._limit_bytes:
            self._pieces = None
        elif self._size == self._expected:
            self.end()

    def end(self) -> None:
        pieces, self._pieces = self._pieces, None
        plain = None if pieces is None else decoded(b"".join(pieces), self._coding, limit_bytes=self._limit_bytes)
        if plain is not None:
            self._learn(plain)


Gate = Callable[[int], Awaitable[None]]
"""Gets the status."""

# On, 0 seconds: closing sends a reset, the only sign by which a close-delimited body can show that it was cut.
LINGER_RESET = struct.pack("ii", 1, 0)


def _stay() -> None:
    pass


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

    async def relay(  # noqa: PLR0913 - a request passes through so many hands
        self,
        request: web.BaseRequest,
        body: RequestBody,
        *,
        target: Target,
        is_search: bool = False,
        editing: Editing | None = None,
        observer: ReplyObserver | None = None,
        trace: Trace | None = None,
        kind: AttemptKind = AttemptKind.ORIGINAL,
        gate: Gate | None = None,
        leave: Callable[[], None] = _stay,
        added: Callable[[], Headers] = list,
    ) -> RawResponse:
        """Send the request and stream its answer. Returns the response already sent, or one of our own still to be sent.

        ``is_search``: a POST that only reads; it is cancelled with its client, while a write that was sent completely is finished.
        ``editing``: changes the answer, which is held until it is complete. ``observer``: reads an answer as it passes. ``gate``: awaited
        before any of it is sent, and after ``editing``. ``leave``: called when the client turns out to be slow, perhaps repeatedly: its place
        may be given to another. ``added``: fields of ours, after those of a success; called behind the gate.
        """
        leg = Leg() if trace is None else trace.leg(kind, request.method, target.origin)
        headers = request.raw_headers if editing is None else readable(request.raw_headers)
        headers = headers if leg.traceparent is None else traced(headers, leg.traceparent)
        try:
            reply = await self.upstream.open(
                method=request.method,
                raw_target=target.raw,
                headers=headers,
                body=body.source(),
                content_length=body.content_length,
                is_search=is_search,
                origin=target.origin,
                leave=self.writes.start,
            )
            leg.status = reply.status
            try:
                buffered = None if editing is None else await _buffered(reply, editing)
                if gate is not None:
                    await gate(reply.status)
                return await self._answer(request, reply, buffered, observer, leg, leave, added())
            finally:
                await reply.close()
        except (UpstreamExchangeError, ClientBodyError) as failure:  # nothing of an answer has been sent
            leg.is_cut = True
            return self.failed(failure, request.raw_path)
        finally:
            if trace is not None:
                trace.ended(leg)

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

    async def _answer(
        self,
        request: web.BaseRequest,
        reply: Exchange,
        buffered: tuple[list[bytes], RawResponse | None] | None,
        observer: ReplyObserver | None,
        leg: Leg,
        leave: Callable[[], None],
        added: Headers,
    ) -> RawResponse:
        begun, response = ([], None) if buffered is None else buffered
        is_edited = response is not None
        if response is None:
            is_ready = bool(begun) or not reply.has_more_to_wait_for
            headers = [*for_client(reply.raw_headers), *(added if 200 <= reply.status < 300 else ())]
            response = RawResponse(reply.status, reply.reason, headers, is_ready=is_ready)
        if not reply.is_upload_over:
            response.force_close()  # an early 403 or 413: the rest of the body must not be read as a request
        if not is_edited and not (buffered is None and self._sent_at_once(request, response, reply, observer)):
            await self._stream(request, response, begun, reply, observer, leg, leave)
        return response

    def _sent_at_once(
        self, request: web.BaseRequest, response: RawResponse, reply: Exchange, observer: ReplyObserver | None
    ) -> bool:
        """Whether nothing of the answer is left to send: it was complete, and was sent in one write."""
        if request.protocol.writing_paused or (body := reply.at_once(AT_ONCE_BYTES)) is None:
            return False
        if observer is not None:
            observer.begin(reply)
            observer.receive(body)
            observer.end()
        try:
            response.send_whole(request, body)
        except ConnectionError:
            _abort(request)
        return True

    async def _stream(
        self,
        request: web.BaseRequest,
        response: RawResponse,
        begun: list[bytes],
        reply: Exchange,
        observer: ReplyObserver | None,
        leg: Leg,
        leave: Callable[[], None],
    ) -> None:
        flow = Outflow(
            request,
            response,
            reply,
            backlog=self.backlog,
            events=self.events,
            stall_seconds=self.stream_idle_seconds,
            leave=leave,
        )
        if observer is not None:
            observer.begin(reply)
        try:
            await response.prepare(request)
            for chunk in begun:
                await flow.send(chunk)
            while chunk := await reply.read():
                if observer is not None:
                    observer.receive(chunk)
                await flow.send(chunk)
            if observer is not None:
                observer.end()
            await flow.end()
        except UpstreamExchangeError:
            leg.is_cut = True
            _break(request, response)
        except (TimeoutError, ConnectionError):  # it is too slow, or gone
            _abort(request)
        finally:
            flow.close()


async def _buffered(reply: Exchange, editing: Editing) -> tuple[list[bytes], RawResponse | None]:
    """The arrived part of the answer, and the changed one; None if it is not changed."""
    begun, is_whole = await hold(reply, editing.limit_bytes)
    return begun, editing.answer(reply, b"".join(begun)) if is_whole else None


def _break(request: web.BaseRequest, response: RawResponse) -> None:
    """End the client's connection so that the part that was sent is not taken for the whole answer."""
    raw: socket.socket | None = request.transport.get_extra_info("socket") if request.transport is not None else None
    if response.is_close_delimited and raw is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
        _abort(request)
    request.protocol.force_close()


def _abort(request: web.BaseRequest) -> None:
    """End the client's connection now: an orderly close would wait forever for a client that does not read."""
    if request.transport is not None:
        request.transport.abort()
    request.protocol.force_close()
