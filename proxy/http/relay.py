"""Passthrough: one request to the database and its answer back, streamed both ways, nothing held, nothing re-sent.

Back-pressure goes through: neither side is read faster than the other takes it. Framing is kept: a length stays a
length, chunks stay chunks, an answer that only the end of the connection ends still ends so. An answer cut short
upstream is a broken connection downstream, never a complete one.

Where HTTP through aiohttp cannot be exact (README, limits): interim answers such as 103 are dropped, 100 comes from
here; trailers of either side are dropped, and so are chunk boundaries and extensions; a client's trailers, or whatever
comes in one segment with the end of its chunks, end its connection with their answer (protocol.py), as an upgrade to
WebSocket does; white space around a field's value is dropped; a field or target with bytes that are no UTF-8 is refused
(400, from upstream 502) instead of altered; replies with a transfer coding other than chunked, or a blank before a colon, are
502 (message.py), a folded field is unfolded; methods aiohttp does not know are refused (400); absolute-form targets and
`OPTIONS *` are refused (400), upgrades are answered as ordinary requests; an HTTP/1.0 client's request goes out as 1.1;
a client that half-closes after its request is taken for gone.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass

from aiohttp import web

from vecsieve.proxy.http.answers import Editing, LocalAnswers, hold, readable
from vecsieve.proxy.http.body import RequestBody, decoded
from vecsieve.proxy.http.events import Events
from vecsieve.proxy.http.headers import RawHeaders, Target, for_client, traced, values
from vecsieve.proxy.http.message import RawResponse, Upload
from vecsieve.proxy.http.outflow import Backlog, Outflow
from vecsieve.proxy.http.upstream import Upstream, UpstreamReply, is_write
from vecsieve.proxy.search.errors import ClientBodyError, ClientFault, Trouble, UpstreamExchangeError, trouble_of
from vecsieve.proxy.telemetry.tracing import UNTOLD, Leg

# Answers that are read while they pass: each piece is noted as it goes by, nothing is held back and nothing is changed.
#
# What is too long, cut, no success, or in a content coding that is not read is not heard.

HEARD_BYTES = 2 * 1024 * 1024  # a thousand collections of Chroma's in one list; reading them takes a few milliseconds


class ReplyObserver:
    """One answer. ``learn``: total, gets the whole body without its content coding, at most once."""

    __slots__ = ("_coding", "_expected", "_learn", "_limit_bytes", "_pieces", "_size")

    def __init__(self, learn: Callable[[bytes], None], *, limit_bytes: int = HEARD_BYTES) -> None:
        self._learn = learn
        self._limit_bytes = limit_bytes
        self._pieces: list[bytes] | None = None
        self._size = 0
        self._expected: int | None = None
        self._coding = b""

    def begin(self, reply: UpstreamReply) -> None:
        """The head is here."""
        if not 200 <= reply.status < 300:
            return
        self._pieces = []
        self._coding = b",".join(values(reply.raw_headers, b"content-encoding"))
        length = b",".join(values(reply.raw_headers, b"content-length"))
        self._expected = int(length) if length.isdigit() else None

    def hear(self, piece: bytes) -> None:
        """Some of the body, about to be sent on. The last of it is read before it goes: a client that has a collection's
        document may search it at once.
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
        """The body is over, and not cut."""
        pieces, self._pieces = self._pieces, None
        plain = None if pieces is None else decoded(b"".join(pieces), self._coding, limit_bytes=self._limit_bytes)
        if plain is not None:
            self._learn(plain)


# Writes whose clients have gone: once sent whole they are seen through, because cutting them could undo half of one.
#
# Qdrant drops a request's work when its connection closes. A client that goes away before its body was sent whole takes
# the write with it, as it would without a proxy.


class Writes:
    """Owns the writes that outlive their clients."""

    def __init__(self) -> None:
        self._left_behind: set[asyncio.Task[None]] = set()

    def __len__(self) -> int:
        return len(self._left_behind)

    async def see_through(self, opening: Coroutine[None, None, UpstreamReply], upload: Upload | None) -> UpstreamReply:
        """Await the reply to a write. On cancellation it goes on alone when its body was sent whole, else it is cut.

        A write without a body counts as sent: it was when its head was.
        """
        task = asyncio.create_task(opening, name="vecsieve-write")
        try:
            await asyncio.wait({task})
        except asyncio.CancelledError:
            self._leave(task, cut=upload is not None and not upload.is_sent)
            raise
        return task.result()

    async def close(self, *, grace_seconds: float) -> None:
        """Wait for the writes left behind, then cut what remains."""
        if not self._left_behind:
            return
        _, late = await asyncio.wait(self._left_behind, timeout=grace_seconds)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    def _leave(self, task: asyncio.Task[UpstreamReply], *, cut: bool) -> None:
        if cut:
            task.cancel()
        rest = asyncio.create_task(_finish(task), name="vecsieve-write-left-behind")
        self._left_behind.add(rest)
        rest.add_done_callback(self._left_behind.discard)


async def _finish(task: asyncio.Task[UpstreamReply]) -> None:
    """Wait for the reply's head: the database has done the work. Nobody is left to be told."""
    try:
        await asyncio.wait({task})
    except asyncio.CancelledError:
        task.cancel()
        raise
    if task.cancelled():
        return
    try:
        reply = task.result()
    except (UpstreamExchangeError, ClientBodyError):
        return
    await reply.close()


Gate = Callable[[int], Awaitable[None]]
"""Told the status."""

# On, 0 seconds: closing sends a reset, the only sign that a close-delimited body can give of being cut.
LINGER_RESET = struct.pack("ii", 1, 0)


def _stay() -> None:
    """Nobody counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """Passes requests through to the database.

    ``stream_idle_seconds``: how long a client may take none of its answer.
    """

    upstream: Upstream
    answers: LocalAnswers
    writes: Writes
    events: Events
    backlog: Backlog
    stream_idle_seconds: float

    async def relay(  # noqa: PLR0913 - a request passes through so many hands
        self,
        request: web.BaseRequest,
        body: RequestBody,
        *,
        is_search: bool = False,
        target: Target | None = None,
        editing: Editing | None = None,
        hearing: ReplyObserver | None = None,
        leg: Leg = UNTOLD,
        gate: Gate | None = None,
        leave: Callable[[], None] = _stay,
    ) -> RawResponse:
        """Send the request, stream its answer, return the response already sent, or one of ours still to be sent.

        ``is_search``: a POST that only reads, for the pool and for what an
        aborting client means: its search is cancelled, its write is finished once it was sent whole. ``target``: where it
        goes when a route was found. ``editing``: how the answer is changed; it is held until it is whole. ``hearing``: who reads one
        that is not, as it passes. ``leg``: what a trace is told of it. ``gate``: waited for before anything of the answer goes out.
        ``leave``: called when the answer's client turns out to be slow, once or more: whoever counts requests may count another one.
        """
        target = Target(request.raw_path, request.raw_path) if target is None else target
        headers = traced(request.raw_headers if editing is None else readable(request.raw_headers), leg.traceparent)
        try:
            reply = await self._open(request, body, target, headers, is_search=is_search)
        except UpstreamExchangeError as failure:
            return self.refuse(trouble_of(failure.kind), request.raw_path)
        except ClientBodyError as failure:
            return self.refuse_body(failure, request.raw_path)
        leg.answered(reply.status)
        try:
            if gate is not None:
                await gate(reply.status)
            return await self._answer(request, reply, editing, hearing, leg, leave)
        except UpstreamExchangeError as failure:  # while the answer was held: nothing of it has gone out
            leg.cut()
            return self.refuse(trouble_of(failure.kind), request.raw_path)
        finally:
            await reply.close()

    def refuse(self, trouble: Trouble, path: str) -> RawResponse:
        """An answer of our own, counted. ``path``: as the client asked for it."""
        self.events.answered_locally(trouble.value)
        return self.answers.response(trouble, path)

    def refuse_body(self, failure: ClientBodyError, path: str) -> RawResponse:
        """An answer of our own to a body that did not come, counted."""
        self.events.client_failed(failure.fault.value)
        return self.refuse(trouble_of(failure.fault), path)

    async def _open(
        self, request: web.BaseRequest, body: RequestBody, target: Target, headers: RawHeaders, *, is_search: bool
    ) -> UpstreamReply:
        upload = None
        if body.exists:
            arrived = body.arrived()
            source = body.chunks() if arrived is None else arrived
            upload = self.upstream.upload(source, content_length=body.content_length)
        opening = self.upstream.open(
            method=request.method,
            raw_target=target.raw,
            headers=headers,
            upload=upload,
            content_length=body.content_length,
            is_search=is_search,
            origin=target.origin,
        )
        if is_write(request.method, is_search=is_search):
            return await self.writes.see_through(opening, upload)
        return await opening

    async def _answer(
        self,
        request: web.BaseRequest,
        reply: UpstreamReply,
        editing: Editing | None,
        hearing: ReplyObserver | None,
        leg: Leg,
        leave: Callable[[], None],
    ) -> RawResponse:
        begun: list[bytes] = []
        edited: RawResponse | None = None
        if editing is not None:
            begun, is_whole = await hold(reply, editing.limit_bytes)
            edited = editing.answer(reply, b"".join(begun)) if is_whole else None
        is_ready = bool(begun) or not reply.has_more_to_wait_for
        response = (
            edited
            if edited is not None
            else RawResponse(reply.status, reply.reason, for_client(reply.raw_headers), is_ready=is_ready)
        )
        if not reply.is_upload_over:
            response.force_close()  # an early 403 or 413: what is left of the body must not be read as a request
        if edited is not None:
            return response
        flow = Outflow(
            request,
            response,
            reply,
            backlog=self.backlog,
            events=self.events,
            stall_seconds=self.stream_idle_seconds,
            leave=leave,
        )
        return await self._stream(request, response, begun, reply, flow, hearing, leg)

    async def _stream(
        self,
        request: web.BaseRequest,
        response: RawResponse,
        begun: list[bytes],
        reply: UpstreamReply,
        flow: Outflow,
        hearing: ReplyObserver | None,
        leg: Leg,
    ) -> RawResponse:
        if hearing is not None:
            hearing.begin(reply)
        try:
            await response.prepare(request)
            for chunk in begun:
                await flow.send(chunk)
            async for chunk in reply.iter():
                if hearing is not None:
                    hearing.hear(chunk)
                await flow.send(chunk)
            if hearing is not None:
                hearing.end()
            await flow.end()
        except UpstreamExchangeError:
            leg.cut()
            _break(request, response)
        except TimeoutError:
            self.events.client_failed(ClientFault.TOO_SLOW.value)
            _abort(request)
        except ConnectionError:
            if not flow.is_cut:
                self.events.client_failed(ClientFault.GONE.value)
            _abort(request)
        finally:
            flow.close()
        return response


def _break(request: web.BaseRequest, response: RawResponse) -> None:
    """End the client's connection so that nobody takes what was sent for the whole answer."""
    raw: socket.socket | None = request.transport.get_extra_info("socket") if request.transport is not None else None
    if response.is_close_delimited and raw is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_RESET)
        _abort(request)
    request.protocol.force_close()


def _abort(request: web.BaseRequest) -> None:
    """End the client's connection now: a client that does not read would keep an orderly end waiting for ever."""
    if request.transport is not None:
        request.transport.abort()
    request.protocol.force_close()
