"""Server-sent events: the reply to a stream of lines (`application/x-ndjson` in, `text/event-stream` out), and the feed of the write
gate. The webhook sends the events of the feed in batches to the receiver named in the settings.

The events of a line are sent before the next lines are read. Reading stops while the client does not read the events. Every wait has a
deadline. Before the first event, an error is a problem document with its own status. After the first event, it is the last event.

One task of the webhook takes events from a bounded queue, so a write never waits for the receiver. A batch is sent at most three times,
with the same `webhook-id`. Then it is dropped and counted. Events are not stored across a restart. Requests use their own connection
pool, with the same checks as the pool of the database: TLS is verified, redirects are not followed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from functools import partial
from secrets import token_hex
from typing import Protocol

from aiohttp import web

from vecsieve.config.addresses import origin_of
from vecsieve.config.applications import WebhookSettings
from vecsieve.config.schema import LimitSettings, UpstreamSettings

from ..admin.access import token_in
from ..http.answers import RawResponse
from ..http.body import RequestBody
from ..http.upstream import Upstream
from ..runtime.loop import LongWork
from ..search.errors import ORIGIN, ClientBodyError, ClientFault, first_success
from ..telemetry.labels import Delivery, EventSink
from ..telemetry.log import FIELDS
from ..telemetry.metrics import Metrics
from ..writes.events import MOST_READERS, SECRET_FILE, EncodedEvent, Feed, batch, key_of, signed
from .problems import Kind, ProblemError, invalid

# A receiver of events is another server.
_OF_THE_DATABASE = {"ca_file": None, "client_certificate": None, "client_key": None}
LINES, EVENTS = "application/x-ndjson", "text/event-stream"
# A stream occupies one slot of api.in_flight. Its lines come from retrievers, which take seconds.
LONGEST_SECONDS = 300.0
LINE_BYTES = 4 * 1024 * 1024  # room for the longest embedding and a text of half a million characters
_HEAD = [
    ("Content-Type", EVENTS),
    ("Transfer-Encoding", "chunked"),
    ("Cache-Control", "no-store"),
    ("X-Accel-Buffering", "no"),  # nginx would hold events back
    ORIGIN,
]


def abort(request: web.BaseRequest) -> None:
    """Close the connection of a reply that cannot be completed."""
    if request.transport is not None:
        request.transport.abort()


async def body_of(
    request: web.BaseRequest, idle_seconds: float, most_bytes: int, *, part: str = "the whole body"
) -> AsyncGenerator[bytes, None]:
    """The pieces of a body. ``part``: what must arrive in time. Raises ProblemError."""
    size = 0
    try:
        async for piece in RequestBody(request, idle_seconds=idle_seconds).chunks():
            size += len(piece)
            if size > most_bytes:
                raise too_large(f"more than {most_bytes} bytes", most_bytes)
            yield piece
    except ClientBodyError as error:
        if error.fault is ClientFault.TOO_SLOW:
            raise late(part, idle_seconds) from None
        raise ProblemError(Kind.INVALID, "the body is incomplete, or its chunked encoding is malformed") from None


def too_large(saw: str, most_bytes: int) -> ProblemError:
    return ProblemError(
        Kind.TOO_LARGE, "the body is larger than api.body_bytes", saw=saw, wanted=f"{most_bytes} bytes at most"
    )


def late(part: str, seconds: float) -> ProblemError:
    return ProblemError(Kind.LATE, f"{part} must arrive within {seconds:g} seconds")


HEARTBEAT_SECONDS = 15.0  # half of 30 s: proxies close connections that are idle for 30 to 60 s
LISTENING, HEARTBEAT = b": listening\n\n", b": alive\n\n"


async def watched(request: web.BaseRequest, feed: Feed, limits: LimitSettings) -> tuple[RawResponse, int]:
    """Send the feed until the client disconnects or the process ends. Raises ProblemError if there are too many readers."""
    reader = feed.reader()
    if reader is None:
        raise ProblemError(Kind.BUSY, f"the feed already has {MOST_READERS} readers", fields=(("Retry-After", "15"),))
    response = RawResponse(200, "OK", _HEAD, is_ready=False)

    try:
        await response.prepare(request)
        await _put(response, LISTENING, limits)
        while (taken := await reader.take(seconds=HEARTBEAT_SECONDS)) is not None:
            events = b"".join(event(encoded.name, encoded.data) for encoded in taken.events)
            lost = event("dropped", b'{"events":%d}' % taken.dropped) if taken.dropped else b""
            await _put(response, events + lost or HEARTBEAT, limits)
    except (TimeoutError, ConnectionError):
        abort(request)  # the client does not read, or has disconnected
    finally:
        feed.leave(reader)
    return response, response.status


async def _put(response: RawResponse, events: bytes, limits: LimitSettings) -> None:
    """Send events, if there are any. Raises TimeoutError if the client does not read them."""
    if events:
        async with asyncio.timeout(limits.stream_idle_timeout_seconds):
            await response.put(events)
            await response.emptied()


class LineWork(Protocol):
    """The handler of a stream. A call may take long. Calls run one at a time, in a thread beside the loop."""

    def begin(self, line: bytes) -> None:
        """Take the first line, which has the options. Raises ProblemError."""

    def feed(self, lines: list[bytes]) -> tuple[bytes, ProblemError | None]:
        """The events of further lines, up to the first invalid line, and the error of that line."""

    def end(self) -> bytes:
        """The events after the last line."""


def event(name: str, data: bytes) -> bytes:
    """One event. Line breaks in JSON are only between values, so they become blanks: the data of an event is one line."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data.replace(b"\r", b" ").replace(b"\n", b" ").strip())


@dataclass(frozen=True, slots=True)
class EventStream:
    """One stream. ``thread``: runs the calls of ``work``."""

    request: web.BaseRequest
    work: LineWork
    thread: LongWork
    limits: LimitSettings
    body_bytes: int

    async def answer(self) -> tuple[RawResponse, int]:
        """Send the whole reply. Returns it, and the status for the metrics. Raises ProblemError only if nothing was sent yet."""
        response = RawResponse(200, "OK", _HEAD, is_ready=False)
        try:
            async with aclosing(self._lines()) as lines, asyncio.timeout(LONGEST_SECONDS):
                first = await anext(lines, None)
                if first is None:
                    raise invalid("line 1", "nothing", "a line with the options")
                await self.thread.run(partial(self.work.begin, first[0]))
                await response.prepare(self.request)
                return response, await self._answered(response, first[1:], lines)
        except (TimeoutError, ConnectionError):
            if not self.request.writer.output_size:
                raise
            # The client does not read, or has disconnected. Closing the connection is all that is left.
            abort(self.request)
            return response, Kind.LATE.status

    async def _answered(
        self, response: RawResponse, waiting: list[bytes], lines: AsyncGenerator[list[bytes], None]
    ) -> int:
        try:
            await self._fed(response, waiting)
            async for some in lines:
                await self._fed(response, some)
            await _put(response, await self.thread.run(self.work.end), self.limits)
        except ProblemError as problem:
            await _put(response, event("error", problem.body), self.limits)
            return problem.kind.status
        return response.status

    async def _fed(self, response: RawResponse, lines: list[bytes]) -> None:
        events, problem = await self.thread.run(partial(self.work.feed, lines))
        await _put(response, events, self.limits)
        if problem is not None:
            raise problem

    async def _lines(self) -> AsyncGenerator[list[bytes], None]:
        """The lines in the order of arrival, in groups that arrived together, without blank lines. Raises ProblemError."""
        rest = b""
        async for piece in body_of(self.request, self.limits.body_timeout_seconds, self.body_bytes, part="each line"):
            *whole, rest = (rest + piece).split(b"\n")
            if len(rest) > LINE_BYTES:
                raise ProblemError(Kind.TOO_LARGE, "a line is too long", wanted=f"{LINE_BYTES} bytes at most")
            if lines := [line for line in whole if line.strip()]:
                yield lines
        if rest.strip():
            yield [rest]


LOGGER = logging.getLogger("vecsieve.webhook")
BATCH_BYTES = 256 * 1024
ANSWER_BYTES = 64 * 1024  # the connection of a longer reply is closed
DEADLINE_SECONDS = 5.0  # for one request and its answer
WAITS = (0.0, 1.0, 5.0)  # seconds before each attempt
FLUSH_SECONDS = 1.0  # a receiver that does not answer must not delay the shutdown
CONNECTIONS = 2
QUEUE_BYTES = 4 * 1024 * 1024  # of waiting events, per process; further ones are dropped and counted


class Webhook:
    """The webhook of one process. Make it inside the event loop. Raises SettingsError for an unusable secret."""

    def __init__(
        self,
        settings: WebhookSettings,
        url: str,
        upstream: UpstreamSettings,
        feed: Feed,
        *,
        metrics: Metrics,
        now: Callable[[], float],
        queue_bytes: int = QUEUE_BYTES,
    ) -> None:
        origin = origin_of(url)
        self._path = url.removeprefix(origin) or "/"
        self._key = key_of(token_in(settings.secret_file, SECRET_FILE) or b"")
        self._sender = Upstream(
            upstream.model_copy(update={**_OF_THE_DATABASE, "url": origin, "pool_connections": CONNECTIONS})
        )
        self._queue = feed.listener(EventSink.WEBHOOK, queue_bytes)
        self._metrics = metrics
        self._now = now
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="vecsieve-webhook")

    async def close(self) -> None:
        """Send queued events for up to FLUSH_SECONDS. The rest is dropped and counted."""
        self._queue.end()
        if self._task is not None:
            await asyncio.wait([self._task], timeout=FLUSH_SECONDS)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._queue.forget()
        await self._sender.close()

    async def _run(self) -> None:
        while (taken := await self._queue.take(most_bytes=BATCH_BYTES)) is not None:
            if taken.events:
                await self._delivered(taken.events, taken.dropped)

    async def _delivered(self, events: list[EncodedEvent], dropped: int) -> None:
        body = batch([event.data for event in events], dropped)
        token = token_hex(16)
        is_done = False
        try:
            for seconds in WAITS:
                await asyncio.sleep(seconds)
                is_done = await first_success([partial(self._sent, body, token)], _failed) or False
                result = Delivery.DELIVERED if is_done else Delivery.FAILED
                self._metrics.webhook_requests_total.labels(result).inc()
                if is_done:
                    return
        finally:
            if not is_done:
                self._queue.drop(len(events))

    async def _sent(self, body: bytes, token: str) -> bool:
        """Whether the receiver accepted the batch. Raises UpstreamExchangeError and LostReplyError."""
        fields = {"content-type": "application/json", **signed(self._key, body, id=token, seconds=int(self._now()))}
        reply = await self._sender.open(
            method="POST",
            raw_target=self._path,
            headers=tuple((name.encode(), value.encode()) for name, value in fields.items()),
            body=body,
            content_length=len(body),
            deadline_seconds=DEADLINE_SECONDS,
        )
        try:
            await reply.read_bounded(ANSWER_BYTES)
        finally:
            await reply.close()
        if not (is_taken := 200 <= reply.status < 300):
            LOGGER.warning("the webhook's receiver refused events", extra={FIELDS: {"status": reply.status}})
        return is_taken


def _failed(error: Exception) -> None:
    LOGGER.warning("the webhook's receiver could not be reached", extra={FIELDS: {"error": type(error).__name__}})
