"""The API's listener. Its connections work as on the data ports: deadlines for request heads, a bounded number, draining on shutdown.

With several workers, all workers accept on one shared socket, as on the data ports. Access: with a token, a request must carry it. Without
a token, the Host header must name this machine, which prevents DNS rebinding by other websites. A request takes a slot before its body is
read. Its work runs in a thread of the API, so a search never waits behind it in ``LongWork``. Under memory pressure the API refuses
requests first, which protects the data ports.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
import time
from collections.abc import Callable
from functools import partial
from http import HTTPStatus

from aiohttp import web

from vecsieve.config.schema import Settings

from ..admin.access import has_token, names_this_machine, token_in
from ..grpc.shared_port import SharedPort
from ..http.answers import LocalAnswers, RawResponse
from ..http.connections import Events
from ..http.listener import DataServer, Listener, listen
from ..runtime.addresses import API_CONNECTIONS, DataPort
from ..runtime.loop import LongWork
from ..runtime.memory import MemoryGuard, Pressure
from ..search.errors import ORIGIN, first_success
from ..search.limits import REFUSES_AT, Admission, Turns
from ..telemetry.labels import ApiRoute
from ..telemetry.log import FIELDS, place_of
from ..telemetry.metrics import Metrics
from ..writes.events import Feed
from .events import EVENTS, LINES, EventStream, LineWork, abort, body_of, late, too_large, watched
from .problems import CONTENT_TYPE, Kind, ProblemDialect, ProblemError
from .routes import JSON, PATH, Route, described

LOGGER = logging.getLogger("vecsieve.api")
TOKEN_FILE = "api.token_file"  # noqa: S105 - the name of a setting
KEEP_ALIVE_SECONDS = 75.0  # the default of nginx; an idle client can reconnect
NO_STORE = ("Cache-Control", "no-store")


class Api:
    """The listener of one process. Make it inside the event loop. Raises SettingsError for an unusable token."""

    def __init__(self, settings: Settings, routes: tuple[Route, ...], *, metrics: Metrics, memory: MemoryGuard) -> None:
        loop, api = asyncio.get_running_loop(), settings.api
        limits = settings.limits
        self._limits = limits.model_copy(
            update={
                "connections": API_CONNECTIONS,
                "keep_alive_seconds": min(KEEP_ALIVE_SECONDS, limits.keep_alive_seconds),
            }
        )
        self._body_bytes = api.body_bytes
        self._token = token_in(api.token_file, TOKEN_FILE)
        self._metrics = metrics
        self._memory = memory
        self._work = LongWork()
        self._places = Admission(
            limit=api.in_flight,
            wait_seconds=limits.in_flight_queue_seconds,
            turns=Turns(time.monotonic, loop.call_soon),
            lag_seconds=REFUSES_AT * limits.lag_seconds,
        )
        self._routes = {route.path: route for route in _with_document(routes, needs_token=self._token is not None)}
        self._server = DataServer(self._handle, self._limits, LocalAnswers(ProblemDialect()), Events())
        self._listener: Listener | None = None
        self.in_flight = 0

    async def open(self, port: DataPort, tls: ssl.SSLContext | None) -> int:
        """Listen; returns the port's number. Raises OSError or IncompatibleLibraryError."""
        fronts = {} if tls is None else {port: SharedPort(self._server.rules, tls=tls)}
        self._listener = await listen(self._server, self._limits, port, fronts=fronts)
        return self._listener.ports[0]

    def drain(self) -> None:
        """From now on every reply closes its connection. Ends the feeds."""
        self._hang_up()
        if self._listener is not None:
            self._listener.drain()

    def _hang_up(self) -> None:
        for route in self._routes.values():
            if route.feed is not None:
                route.feed.hang_up()

    def stop_accepting(self) -> None:
        if self._listener is not None:
            self._listener.stop_accepting()

    async def close(self, *, grace_seconds: float) -> None:
        """Let requests finish for the grace period, then cut them."""
        self._hang_up()
        if self._listener is not None:
            await self._listener.close(grace_seconds=grace_seconds)
        self._work.close()

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        began, status = time.monotonic(), None
        route = self._routes.get(request.raw_path.partition("?")[0])
        self.in_flight += 1
        try:
            answered = await first_success([partial(self._answer, request, route)], _failed)
            if answered is None and request.writer.output_size:
                abort(request)  # the stream has begun, so no error reply is possible
            failed = _refusal(ProblemError(Kind.FAILED, "VecSieve's log has the details"))
            response, status = answered or (failed, failed.status)
            await self._send(request, response)
            return response
        finally:
            self.in_flight -= 1
            name = ApiRoute.OTHER if route is None else route.name
            self._metrics.api_request_done(name, status=status, seconds=time.monotonic() - began)

    async def _answer(self, request: web.BaseRequest, route: Route | None) -> tuple[RawResponse, int]:
        """The reply, and the status for the metrics. The reply of a stream has been sent already."""
        try:
            self._allow(request)
            if route is None:
                raise ProblemError(Kind.NOT_FOUND, f"the endpoints are {', '.join(self._routes)}")  # noqa: TRY301 - handled like the other problems
            _check_method(request, route)
            if route.takes is None and route.work is not None:
                response = _response(200, route.work(b""), ("Content-Type", JSON))
                return response, response.status
            if route.feed is not None:
                return await self._watched(request, route.feed)
            return await self._worked(request, route)
        except ProblemError as problem:
            return _refusal(problem), problem.kind.status

    def _allow(self, request: web.BaseRequest) -> None:
        """Raises ProblemError unless the request has access."""
        if self._token is None:
            if not names_this_machine(request.headers.get("Host")):
                raise ProblemError(
                    Kind.FOREIGN_HOST, "without api.token_file, Host must be localhost, 127.0.0.1 or [::1]"
                )
            # Browsers say so of each request to this machine; a page elsewhere could hold the places of all readers.
            if request.headers.get("Sec-Fetch-Site", "none") not in {"none", "same-origin"}:
                raise ProblemError(
                    Kind.FOREIGN_HOST, "without api.token_file, no page of another site may ask (Sec-Fetch-Site)"
                )
        elif not has_token(self._token, request.headers.get("Authorization")):
            raise ProblemError(
                Kind.NO_TOKEN,
                "send Authorization: Bearer TOKEN, with the token of api.token_file",
                fields=(("WWW-Authenticate", "Bearer"),),
            )

    async def _watched(self, request: web.BaseRequest, feed: Feed) -> tuple[RawResponse, int]:
        """Send the feed. Readers have their own limit and do not delay the shutdown. Raises ProblemError."""
        accepted = request.headers.get("Accept", "*/*").lower()
        if EVENTS not in accepted and "*/*" not in accepted:
            raise _not_acceptable()
        if self._memory.pressure() is not Pressure.NONE:
            raise _busy("ask again in a moment")
        return await watched(request, feed, self._limits)

    async def _worked(self, request: web.BaseRequest, route: Route) -> tuple[RawResponse, int]:
        """The reply to a request with a body or a query. Raises ProblemError."""
        streams = None if route.takes is None else _check_body(request, route, self._body_bytes)
        if self._memory.pressure() is not Pressure.NONE or not await self._places.enter():
            raise _busy("ask again in a moment")
        try:
            if streams is not None:
                return await EventStream(request, streams(), self._work, self._limits, self._body_bytes).answer()
            query = request.raw_path.partition("?")[2].encode("utf-8", "surrogateescape")
            pieces = [query] if route.takes is None else await self._read(request)
            if route.asks is not None:
                answer = await route.asks(b"".join(pieces), request.headers.get("api-key"))
            else:
                answer = await self._work.run(partial(_work_on, route, pieces))
        except TimeoutError:
            raise _busy("the work took too long") from None
        finally:
            self._places.leave()
        return _response(200, answer, ("Content-Type", JSON)), 200

    async def _read(self, request: web.BaseRequest) -> list[bytes]:
        """The whole body, in pieces. Raises ProblemError."""
        seconds = self._limits.body_timeout_seconds
        try:
            async with asyncio.timeout(seconds):
                return [piece async for piece in body_of(request, seconds, self._body_bytes)]
        except TimeoutError:
            raise late("the whole body", seconds) from None

    async def _send(self, request: web.BaseRequest, response: RawResponse) -> None:
        """Send a complete reply. If the client does not read it in time, its connection is closed."""
        try:
            async with asyncio.timeout(self._limits.stream_idle_timeout_seconds):
                await response.prepare(request)
                await response.write_eof()
        except (TimeoutError, ConnectionError):
            abort(request)


def _work_on(route: Route, pieces: list[bytes]) -> bytes:
    """The reply to a body. Joining the pieces of a process's first large body takes 8 ms."""
    return b"" if route.work is None else route.work(b"".join(pieces))


def _with_document(routes: tuple[Route, ...], *, needs_token: bool) -> tuple[Route, ...]:
    document_route = Route(
        name=ApiRoute.OPENAPI,
        path=PATH,
        summary="This document.",
        description="OpenAPI 3.1, generated from the types of the messages.",
        work=lambda _body: document,
        gives=None,
    )
    document = described((*routes, document_route), needs_token=needs_token)
    return (*routes, document_route)


def _check_method(request: web.BaseRequest, route: Route) -> None:
    allowed = ("POST",) if route.takes is not None else ("GET", "HEAD") if route.feed is None else ("GET",)
    if request.method not in allowed:
        words = ", ".join(allowed)
        raise ProblemError(Kind.METHOD, f"{route.path} takes {words}", fields=(("Allow", words),))


def _check_body(request: web.BaseRequest, route: Route, limit_bytes: int) -> Callable[[], LineWork] | None:
    """The handler for a body of lines; None for JSON. Raises ProblemError if the head already shows that the body is invalid."""
    essence = request.headers.get("Content-Type", "").partition(";")[0].strip().lower()
    streams = route.lines if essence == LINES else None
    if essence != JSON and streams is None:
        expected = JSON if route.lines is None else f"{JSON} or {LINES}"
        raise ProblemError(
            Kind.MEDIA_TYPE,
            "the media type is not supported",
            where="Content-Type",
            saw=essence or "nothing",
            wanted=expected,
        )
    if streams is not None and EVENTS not in request.headers.get("Accept", "").lower():
        raise _not_acceptable()
    coding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if coding != "identity":
        raise ProblemError(
            Kind.MEDIA_TYPE,
            "the body must not be compressed",
            where="Content-Encoding",
            saw=coding,
            wanted="identity",
            fields=(("Accept-Encoding", "identity"),),
        )
    length = request.headers.get("Content-Length")
    if length is not None and int(length) > limit_bytes:
        raise too_large(f"{length} bytes", limit_bytes)
    return streams


def _not_acceptable() -> ProblemError:
    return ProblemError(
        Kind.NOT_ACCEPTABLE, "the reply is an event stream", where="Accept", saw="other types", wanted=EVENTS
    )


def _busy(detail: str) -> ProblemError:
    return ProblemError(Kind.BUSY, detail, fields=(("Retry-After", "1"),))


def _refusal(error: ProblemError) -> RawResponse:
    response = _response(error.kind.status, error.body, ("Content-Type", CONTENT_TYPE), *error.fields)
    if error.kind in {Kind.LATE, Kind.TOO_LARGE}:
        response.force_close()  # because the rest of the body is not read
    return response


def _response(status: int, body: bytes, *fields: tuple[str, str]) -> RawResponse:
    headers = [("Content-Length", str(len(body))), NO_STORE, ORIGIN, *fields]
    return RawResponse(status, HTTPStatus(status).phrase, headers, body=body)


def _failed(error: Exception) -> None:
    LOGGER.error("an API request failed", extra={FIELDS: {"error": place_of(error)}})
