"""Server-sent events: in answer to lines that are still coming (`application/x-ndjson` in, `text/event-stream` out), and the feed of
the write gate's events.

A line's events are sent before the next lines are read, and reading waits until the client has taken them: a client that does not read
is not read from either. Every wait has a deadline. Before the first event the answer may still be a problem with its own status; after
it a problem is the last event.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Protocol

from aiohttp import web

from vecsieve.config.schema import LimitSettings
from vecsieve.proxy.api.problems import Kind, ProblemError, invalid
from vecsieve.proxy.http.answers import RawResponse
from vecsieve.proxy.http.body import RequestBody
from vecsieve.proxy.process.runtime import LongWork
from vecsieve.proxy.search.errors import ORIGIN, ClientBodyError, ClientFault
from vecsieve.proxy.writes.events import MOST_READERS, Feed

LINES, EVENTS = "application/x-ndjson", "text/event-stream"
# A stream holds one of the places of api.in_flight. Its lines come from retrievers, which take seconds.
LONGEST_SECONDS = 300.0
LINE_BYTES = 4 * 1024 * 1024  # the most numbers of an embedding, and a text of half a million characters
_HEAD = [
    ("Content-Type", EVENTS),
    ("Transfer-Encoding", "chunked"),
    ("Cache-Control", "no-store"),
    ("X-Accel-Buffering", "no"),  # nginx would hold events back
    ORIGIN,
]


def abort(request: web.BaseRequest) -> None:
    """End the connection of an answer that cannot be finished."""
    if request.transport is not None:
        request.transport.abort()


HEARTBEAT_SECONDS = 15.0  # proxies cut what is silent for 30 to 60 s; half of that
LISTENING, HEARTBEAT = b": listening\n\n", b": alive\n\n"


async def watched(request: web.BaseRequest, feed: Feed, limits: LimitSettings) -> tuple[RawResponse, int]:
    """The feed as it comes, until the client goes or the process ends. Raises ProblemError where there is no place."""
    reader = feed.reader()
    if reader is None:
        raise ProblemError(Kind.BUSY, f"{MOST_READERS} read already", fields=(("Retry-After", "15"),))
    response = RawResponse(200, "OK", _HEAD, is_ready=False)

    async def put(data: bytes) -> None:
        async with asyncio.timeout(limits.stream_idle_timeout_seconds):
            await response.put(data)
            await response.emptied()

    try:
        await response.prepare(request)
        await put(LISTENING)
        while (taken := await reader.take(seconds=HEARTBEAT_SECONDS)) is not None:
            events = b"".join(event(told.name, told.data) for told in taken.events)
            lost = event("dropped", b'{"events":%d}' % taken.dropped) if taken.dropped else b""
            await put(events + lost or HEARTBEAT)
    except (TimeoutError, ConnectionError):
        abort(request)  # the client does not read, or is gone
    finally:
        feed.leave(reader)
    return response, response.status


class LineWork(Protocol):
    """The work behind a stream. Each call may take long and runs beside the loop, one at a time."""

    def begin(self, line: bytes) -> None:
        """The first line, with the options. Raises ProblemError."""

    def feed(self, lines: list[bytes]) -> tuple[bytes, ProblemError | None]:
        """The events of further lines, up to a line that cannot be used."""

    def end(self) -> bytes:
        """The events at the end."""


def event(name: str, data: bytes) -> bytes:
    """One event. JSON has line ends only between values, and an event's data none."""
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data.replace(b"\r", b" ").replace(b"\n", b" ").strip())


class EventStream:
    """One stream. ``beside``: where the work runs."""

    def __init__(
        self, request: web.BaseRequest, work: LineWork, beside: LongWork, limits: LimitSettings, body_bytes: int
    ) -> None:
        self._request = request
        self._work = work
        self._beside = beside
        self._limits = limits
        self._body_bytes = body_bytes

    async def answer(self) -> tuple[RawResponse, int]:
        """The answer, sent to its end, and the status that is counted for it. Raises ProblemError as long as nothing was sent."""
        response = RawResponse(200, "OK", _HEAD, is_ready=False)
        try:
            async with aclosing(self._lines()) as lines, asyncio.timeout(LONGEST_SECONDS):
                first = await anext(lines, None)
                if first is None:
                    raise invalid("line 1", "nothing", "a line with the options")
                await self._beside.run(partial(self._work.begin, first[0]))
                await response.prepare(self._request)
                return response, await self._answered(response, first[1:], lines)
        except (TimeoutError, ConnectionError):
            if not self._request.writer.output_size:
                raise
            # The client does not read, or is gone: there is no other answer than the end of the connection.
            abort(self._request)
            return response, Kind.LATE.status

    async def _answered(
        self, response: RawResponse, waiting: list[bytes], lines: AsyncGenerator[list[bytes], None]
    ) -> int:
        try:
            await self._fed(response, waiting)
            async for some in lines:
                await self._fed(response, some)
            await self._put(response, await self._beside.run(self._work.end))
        except ProblemError as problem:
            await self._put(response, event("error", problem.body))
            return problem.kind.status
        return response.status

    async def _fed(self, response: RawResponse, lines: list[bytes]) -> None:
        events, problem = await self._beside.run(partial(self._work.feed, lines))
        await self._put(response, events)
        if problem is not None:
            raise problem

    async def _put(self, response: RawResponse, events: bytes) -> None:
        if not events:
            return
        async with asyncio.timeout(self._limits.stream_idle_timeout_seconds):
            await response.put(events)
            await response.emptied()

    async def _lines(self) -> AsyncGenerator[list[bytes], None]:
        """The lines that came together, without blank ones. Raises ProblemError."""
        body = RequestBody(self._request, idle_seconds=self._limits.body_timeout_seconds)
        rest, size = b"", 0
        try:
            async for piece in body.chunks():
                size += len(piece)
                if size > self._body_bytes:
                    wanted = f"{self._body_bytes} bytes at most"
                    raise ProblemError(Kind.TOO_LARGE, "the lines are larger than api.body_bytes", wanted=wanted)
                *whole, rest = (rest + piece).split(b"\n")
                if len(rest) > LINE_BYTES:
                    raise ProblemError(Kind.TOO_LARGE, "a line is too long", wanted=f"{LINE_BYTES} bytes at most")
                if found := [line for line in whole if line.strip()]:
                    yield found
        except ClientBodyError as error:
            if error.fault is ClientFault.TOO_SLOW:
                seconds = self._limits.body_timeout_seconds
                raise ProblemError(Kind.LATE, f"a line must come within {seconds:g} seconds") from None
            raise ProblemError(Kind.INVALID, "the body broke off, or its chunks are malformed") from None
        if rest.strip():
            yield [rest]
