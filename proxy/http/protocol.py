"""One client connection: aiohttp's, with deadlines, limits and fixed error texts.

aiohttp has no deadline for a request head and no connection limit, echoes the offending bytes of a malformed request to the client and the
log, and leaves a handler waiting when the body's chunks are malformed. Only this file overrides aiohttp's RequestHandler; ``listener.py``
lists the names that it relies on.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from aiohttp import web
from aiohttp.http import RawRequestMessage
from aiohttp.http_exceptions import BadHttpMessage, LineTooLong
from aiohttp.streams import StreamReader
from aiohttp.web_protocol import RequestHandler, RequestPayloadError

from ..runtime.addresses import Origin
from ..search.errors import Trouble
from ..telemetry.log import place_of
from .answers import LocalAnswers
from .connections import NEVER, Ages, Connections, Events

# Bytes of framing in one body that are always allowed. Clients that give a generator to their library send one chunk per piece: a JSON
# encoder's pieces have 18 bytes on average with vectors, fewer with integers. This allows 200,000 chunks.
FRAMING_BYTES = 1024 * 1024
# The required ratio of content to framing beyond that. A chunk's framing is 5 or 6 bytes, so chunks of more than 12 bytes on average are
# never too small.
CONTENT_A_BYTE = 2
# Bytes fed to the parser at once; doubled while they are content, because large chunks cost little.
LEAST_PIECE_BYTES = 4096
LARGEST_PIECE_BYTES = 32 * 1024
# Bytes of framing, heads and empty lines from one connection per turn of the loop: 800 chunks take 2 ms. Without it libuv reads up to 8 MiB
# of one connection in a turn.
TURN_FRAMING_BYTES = 4096


@dataclass(slots=True)
class ChunkWatch:
    """Measures how much of a chunked request body is framing. ``piece_bytes``: how much to feed the parser next.

    A chunk of one byte takes six bytes and three calls: llhttp reports the start, data and end of every chunk, 2.5 microseconds in all. One
    read of 256 KiB in such chunks held the loop for 0.13 s.
    """

    body: StreamReader | None = None  # the chunked one that is arriving
    _seen: int = 0  # of the body's content
    _content: int = 0
    _framing: int = 0
    piece_bytes: int = LEAST_PIECE_BYTES

    @property
    def is_flood(self) -> bool:
        """Whether the body has been almost only framing for too long."""
        return self._framing > FRAMING_BYTES and self._content < CONTENT_A_BYTE * self._framing

    def fed(self, size: int, body: StreamReader | None) -> int | None:
        """Count bytes that were fed while ``body`` was arriving; return how many of them were framing, None if the body has just begun."""
        if body is None or body is not self.body:
            self.body, self._content, self._framing = body, 0, 0
            self._seen = 0 if body is None else body.total_bytes
            self.piece_bytes = LEAST_PIECE_BYTES
            return None
        content, self._seen = body.total_bytes - self._seen, body.total_bytes
        framing = size - content
        self._content += content
        self._framing += framing
        if content < CONTENT_A_BYTE * framing:
            self.piece_bytes = LEAST_PIECE_BYTES
        elif framing <= TURN_FRAMING_BYTES // 4:
            self.piece_bytes = min(2 * self.piece_bytes, LARGEST_PIECE_BYTES)
        return framing


# The end of a chunk or of the head, the last chunk, no trailer. A trailer with this ending would be a line without a colon.
NO_TRAILERS = b"\r\n0\r\n\r\n"


@dataclass(slots=True)
class TrailerWatch:
    """Detects chunked bodies that may have had trailers, after which the connection must end.

    aiohttp's C parser (3.14.5) clears its lists when a message begins, but not the field it is collecting: the last trailer of a body
    becomes the first field of the next request, such as somebody else's `api-key` behind a shared load balancer. The parser does not report
    trailers, so their absence is derived from the bytes. Envoy and nginx drop trailers as well.
    """

    _open: list[tuple[Any, Any]] = field(default_factory=list)
    _tail: bytes = b""

    @property
    def chunked(self) -> StreamReader | None:
        """The chunked body that is arriving."""
        return self._open[0][1] if self._open and self._open[0][0].chunked else None

    def following(self, data: bytes, made: Sequence[tuple[Any, Any]]) -> int | None:
        """How many of the messages parsed from ``data`` follow a body that may have had trailers; None without such a body."""
        self._tail = (self._tail + data[-len(NO_TRAILERS) :])[-len(NO_TRAILERS) :]
        if not self._open and len(made) == 1 and made[0][1].is_eof() and not getattr(made[0][0], "chunked", True):
            return None  # a request without a body, as most
        messages = [*self._open, *made]
        requests = [number for number, message in enumerate(messages) if isinstance(message[0], RawRequestMessage)]
        for number in requests:
            message, payload = messages[number]
            has_next = number != requests[-1]
            if message.chunked and (has_next or (payload.is_eof() and self._tail != NO_TRAILERS)):
                return len(messages) - number - 1 if has_next else 0
        self._open = [messages[number] for number in requests[-1:] if not messages[number][1].is_eof()]
        return None


LOGGER = logging.getLogger("vecsieve.http")
# aiohttp's own wording; its exception class is the same for all malformed requests.
TOO_MANY_FIELDS = "Too many headers received"
# Seconds for a handler to answer a flooding client, and for the client to receive the answer.
CUT_SECONDS = 1.0


HTTP2 = b"PRI * HTTP/2.0\r\n"  # how a client begins that speaks only HTTP/2
_FIRST_FRAME = slice(27, 33)  # of its SETTINGS, behind the preface and a length: type, flags and stream (RFC 9113 3.4)


@dataclass(frozen=True, slots=True)
class ConnectionRules:
    """What all connections of a listener share. ``http2``: makes, for a connection of HTTP/2, what answers its bytes, and None to what is no frame;
    None: all are malformed.
    """

    head_timeout_seconds: float
    connections: Connections
    answers: LocalAnswers
    events: Events
    ages: Ages | None = None
    http2: Callable[[], Callable[[bytes], bytes | None]] | None = None

    def refuse_late(self, transport: asyncio.Transport, *, has_begun: bool) -> None:
        """Count a head that did not come in time, and answer it if it has begun. The connection is closed by the caller."""
        self.events.connection_rejected("head_timeout" if has_begun else "silent")
        if has_begun:
            self.events.answered_locally(Trouble.HEAD_TIMEOUT.value)
            transport.write(self.answers.wire(Trouble.HEAD_TIMEOUT))


class ClientConnection(RequestHandler):
    """A connection on a data port. ``index``: of that port.

    A head must be complete ``head_timeout_seconds`` after its first byte. A new connection without any byte is closed after the same time,
    without an answer that could be taken for the answer to a request just being sent. Between requests a connection may idle for
    keep-alive's time; a fragment of a next head that came in one segment with a request's end counts as idle until its next byte.
    """

    __slots__ = (
        "_chunks",
        "_end",
        "_head_timer",
        "_http2",
        "_is_cut",
        "_is_in_head",
        "_is_last",
        "_is_next",
        "_is_turned_away",
        "_request_id",
        "_rest",
        "_rules",
        "_trailers",
        "index",
    )

    def __init__(self, manager: web.Server, rules: ConnectionRules, index: Origin | None, **settings: Any) -> None:
        super().__init__(manager, loop=asyncio.get_running_loop(), **settings)
        self.index = index
        self._rules = rules
        self._head_timer: asyncio.TimerHandle | None = None
        self._is_in_head = False
        self._is_turned_away = False
        self._is_last = False
        self._end = NEVER if rules.ages is None else rules.ages.end()
        self._trailers = TrailerWatch()
        self._chunks = ChunkWatch()
        self._rest = b""  # data that was read and waits for the next turn
        self._is_next = False
        self._is_cut = False
        self._http2: Callable[[bytes], bytes | None] | None = None
        self._request_id: str | None = None

    def begin(self, request_id: str) -> bool:
        """Record the request being answered, by its id in the log; return whether the connection is reused."""
        is_reused = self._request_id is not None
        self._request_id = request_id
        return is_reused

    @property
    def must_close(self) -> bool:
        """Whether the next answer must end this connection."""
        is_old = not self._messages and time.monotonic() >= self._end  # closing would lose no pipelined request
        return self._is_last or is_old or self._rules.connections.must_close

    @property
    def is_idle(self) -> bool:
        """Whether no request is being received, handled or answered, and at least one has been."""
        return self._is_waiting and self._head_timer is None and not self._messages

    def leave(self) -> None:
        """Close a connection that is idle, or has sent no request yet."""
        self.force_close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not self._rules.connections.admit(self):
            self._is_turned_away = True
            cast(asyncio.Transport, transport).abort()
            return
        super().connection_made(transport)
        self._start_head_timer()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._stop_head_timer()
        if self._is_turned_away:
            return
        self._rules.connections.forget(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Feed the parser, in pieces if many small chunks may come: each costs far more than its bytes."""
        if self._is_turned_away or self._is_cut:
            return
        if not self._request_count and (self._http2 is not None or data.startswith(HTTP2)) and self._is_http2(data):
            return
        if data and self._rest:
            self._rest += data
        elif len(data) <= self._chunks.piece_bytes or (self._is_receiving_body and self._chunks.body is None):
            self._feed(data)
        else:
            self._feed_pieces(data)

    def _is_http2(self, data: bytes) -> bool:
        """Whether it was answered as such. What is no frame behind the preface is malformed HTTP/1."""
        is_begun = data.startswith(HTTP2) and data[_FIRST_FRAME] in {b"", b"\x04\0\0\0\0\0"}
        if self._http2 is None and self._rules.http2 is not None and not self._is_in_head and is_begun:
            self._http2 = self._rules.http2()
            self._rules.events.answered_locally(Trouble.VERSION.value)
        if self._http2 is not None and self.transport is not None:
            answer = self._http2(data)
            if answer is None:
                self.transport.close()
            else:
                self.transport.write(answer)
        return self._http2 is not None

    def _feed_pieces(self, data: bytes) -> None:
        """Feed one turn's share; the rest waits for the next turn, or until the body is read."""
        at = spent = 0
        while at < len(data) and not self._is_cut:
            piece = data[at : at + self._chunks.piece_bytes]
            spent += self._feed(piece)
            at += len(piece)
            is_spent = spent > TURN_FRAMING_BYTES
            if at < len(data) and (is_spent or self._reading_paused or self._buffer_paused):
                self._rest = data[at:]
                self._pause_transport_reading()
                if is_spent and not self._reading_paused:
                    self._resume_transport_reading()
                return

    def resume_reading(self, resume_parser: bool = True) -> None:
        """Resume only where reading was paused.

        aiohttp (3.14.5) calls it for every piece of a body that is read, and then feeds its parser nothing: 20
        microseconds each.
        """
        if self._reading_paused:
            super().resume_reading(resume_parser)

    def _resume_transport_reading(self) -> None:
        """Feed what has been read before reading more."""
        if not self._rest:
            super()._resume_transport_reading()
        elif not self._is_next:
            self._is_next = True
            self._loop.call_soon(self._at_next_turn)

    def _at_next_turn(self) -> None:
        self._is_next = False
        if self._is_cut or self.transport is None or self._reading_paused or self._buffer_paused:
            return
        rest, self._rest = self._rest, b""
        self._feed_pieces(rest)
        if not self._rest and not self._reading_paused and not self._buffer_paused and not self._is_cut:
            self._resume_transport_reading()

    def _feed(self, data: bytes) -> int:
        """Feed the parser and keep the head's deadline; return how many of the bytes were no content of an arriving body."""
        before = self._request_count
        was_in_body = self._is_receiving_body
        super().data_received(data)
        self._end_after_trailers(data, self._request_count - before)
        if self._request_count > before:
            self._is_in_head = False
            self._stop_head_timer()
            self._rules.connections.head_received(self)
            if self._messages and not isinstance(self._messages[-1][0], RawRequestMessage):
                self._fail_body_of_malformed_request()
        elif not was_in_body and not self._is_in_head and data.strip(b"\r\n"):
            # An empty line after a body is no head: RFC 9112 2.2, and old clients send one.
            self._is_in_head = True
            self._start_head_timer()
        framing = self._chunks.fed(len(data), self._trailers.chunked)
        if framing and self._chunks.is_flood:
            self._cut_flood()
        if self._request_count > before or not was_in_body:
            return len(data)
        return framing or 0

    def _cut_flood(self) -> None:
        """Stop reading; the request's handler gets a body error and answers 400."""
        self._is_cut = self._is_last = True
        self._rest = b""
        self._rules.events.connection_rejected("flood")
        self._pause_transport_reading()
        self._lingering_time = 0.0  # nothing waits
        if self._chunks.body is not None:
            self._chunks.body.set_exception(RequestPayloadError("chunks without content"))
        self.close()
        self._loop.call_later(CUT_SECONDS, self.force_close)

    def _end_after_trailers(self, data: bytes, made: int) -> None:
        """Drop requests that could contain a trailer of the previous one: answer that one, then close."""
        if self._is_last:
            return
        following = self._trailers.following(data, list(self._messages)[-made:] if made else ())
        if following is None and not self._upgraded:  # bytes after an upgrade are parsed elsewhere
            return
        for _ in range(following or 0):
            self._messages.pop()
        self._is_last = True
        self.close()

    @property
    def _is_receiving_body(self) -> bool:
        if self._messages:
            return not self._messages[-1][1].is_eof()
        if self._current_request is not None:
            return not self._current_request.content.is_eof()
        # Before the first request there is no body, although no task waits: uvloop reads before the serving task runs.
        return (
            self._request_count > 0 and not self._is_waiting
        )  # aiohttp drops the rest of a body that was answered early

    @property
    def _is_waiting(self) -> bool:
        return self._waiter is not None and not self._waiter.done()

    def _fail_body_of_malformed_request(self) -> None:
        """Wake a handler whose body will never end.

        When llhttp meets a bad chunk, aiohttp (3.14.5) queues the error as a further message and forgets the stream of the request it
        belongs to, whose handler would then wait for its idle deadline.
        """
        waiting = [payload for _, payload in list(self._messages)[:-1]]
        if self._current_request is not None:
            waiting.append(self._current_request.content)
        for payload in waiting:
            if not payload.is_eof():
                payload.set_exception(RequestPayloadError("malformed chunk"))

    def _start_head_timer(self) -> None:
        self._stop_head_timer()
        self._head_timer = self._loop.call_later(self._rules.head_timeout_seconds, self._head_is_late)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _head_is_late(self) -> None:
        self._head_timer = None
        if self.transport is None:
            return
        if not self._is_waiting or self._messages:
            self._start_head_timer()  # a pipelined head: its time begins when it could be served
        else:
            self._rules.refuse_late(self.transport, has_begun=self._is_in_head)
            self.force_close()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer in fixed words; log a class and a place, never a message, which may quote a header."""
        trouble = _trouble_of(status, exc)
        if trouble is Trouble.INTERNAL:
            fields = {"request_id": self._request_id}
            LOGGER.error("a request handler failed: %s", place_of(exc), extra={"fields": fields})
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun: the connection can only be closed")
        self._rules.events.answered_locally(trouble.value)
        return self._rules.answers.response(trouble, request.raw_path)

    def log_exception(self, *args: object, **kw: object) -> None:
        LOGGER.error("a connection failed: %s", place_of(sys.exc_info()[1]))

    def log_debug(self, *args: object, **kw: object) -> None:
        """Log nothing: aiohttp's words may quote a request."""


def _trouble_of(status: int, exc: BaseException | None) -> Trouble:
    if status == 504:
        return Trouble.UPSTREAM_TIMEOUT
    if status >= 500:
        return Trouble.INTERNAL
    if isinstance(exc, LineTooLong):
        return Trouble.HEAD_TOO_LARGE
    if isinstance(exc, BadHttpMessage) and exc.message == TOO_MANY_FIELDS:
        return Trouble.HEAD_TOO_LARGE
    return Trouble.MALFORMED
