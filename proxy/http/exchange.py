"""One request over HTTP. Widened requests are sent with the client's head, answers are returned with upstream's head, and every other request is
relayed.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Collection
from contextlib import nullcontext
from dataclasses import dataclass
from http import HTTPStatus
from typing import cast

from aiohttp import web

from vecsieve.adapters.backends import Backend
from vecsieve.adapters.contract import Dialect, NativeAnswer, Question
from vecsieve.adapters.fusions import SAME, Ending

from ..search.collections.learned import Names, WriteInvalidation
from ..search.context.clients import Client
from ..search.errors import (
    ORIGIN,
    ClientBodyError,
    RejectedReplyError,
    Trouble,
    UpstreamExchangeError,
)
from ..search.hedge import Fits, Gate
from ..search.pools.source import TURN_BYTES
from ..search.report import report_headers
from ..search.service import ProcessServices, SearchService
from ..telemetry.labels import AttemptKind, Bypass, FailOpen, Origin
from ..telemetry.log import Ended
from ..telemetry.reports import Report
from ..telemetry.tracing import NAME as TRACE_PARENT
from ..writes.deletions import Deletions
from ..writes.pipeline import ClientExchange, Pipeline
from ..writes.settling import ChangedWrite
from .answers import Editing, LocalAnswers, RawResponse
from .body import RequestBody, coding_of, decoded
from .headers import (
    SIGNATURE,
    RawHeaders,
    Shape,
    accepts_identity,
    around_other_bytes,
    for_client,
    framed,
    replaced,
    shape_of,
    values,
)
from .outflow import ReplyObserver
from .protocol import ClientConnection
from .relay import Passage, Relay
from .routes import Classified, Heads, Routes
from .upstream import Upstream, success_of

LOOPBACK = frozenset({"127.0.0.1", "::1"})
REFUSAL_BYTES = 2048  # longer successes contain no refusal
TIMEOUT = re.compile(r"[?&]timeout=(\d{1,6})(?:&|$)")
# The fields that describe a request's body, or the answer to it: Elasticsearch refuses JSON if another form is accepted. Length and transfer coding
# belong to the connection.
_OF_A_BODY = frozenset(
    {b"accept", b"content-type", b"content-encoding", b"content-language", b"content-md5", b"digest"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpServices:
    """What the requests on all HTTP ports share."""

    services: ProcessServices
    routes: Routes
    heads: Heads
    backend: Backend
    dialect: Dialect
    searches: SearchService
    write_invalidation: WriteInvalidation
    names: Names
    relay: Relay
    upstream: Upstream
    answers: LocalAnswers


@dataclass(frozen=True, slots=True)
class DataPlane:
    """Handles every request on the HTTP data ports, and counts it."""

    pipeline: Pipeline
    http: HttpServices

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        http, connection = self.http, cast(ClientConnection, request.protocol)
        record = http.services.recorder.begin(request.headers.getall(TRACE_PARENT, ()))
        is_reused = connection.begin(record.request_id)
        response: RawResponse | None = None
        try:
            body = RequestBody(request, idle_seconds=http.services.limits.stream_idle_timeout_seconds)
            classified = http.heads.read(request.method, request.raw_path, request.headers, connection.index)
            is_search = classified.search is not None
            shape = shape_of(request.raw_headers)
            exchange = HttpExchange(record, record.trace, http, request, shape, body, classified, is_search)
            response = await self.pipeline.answer(exchange)
        finally:
            http.services.recorder.end(record, _ended(request, response, is_reused=is_reused))
        if not response.prepared:
            response.send_now(request)
        return response


@dataclass(slots=True)
class HttpExchange(ClientExchange[RawResponse]):
    _http: HttpServices
    _request: web.BaseRequest
    _shape: Shape
    _body: RequestBody
    _classified: Classified
    is_search: bool
    _head: tuple[int, str, RawHeaders] | None = None  # of the last success: status, reason, fields
    _success: bytes | None = None  # the database's answer to a deletion, where it may be a refusal

    async def gathered(self) -> RawResponse | None:
        try:
            await self._body.gathered()
        except ClientBodyError as failure:
            return self._http.relay.failed(failure, self._request.raw_path)
        return None

    async def classify(self) -> RawResponse | None:
        classified, names = self._classified, self._http.names
        self.search, self.write, self.deletion = classified.search, classified.write, classified.deletion
        if classified.trouble is not None:
            return self._http.relay.refuse(classified.trouble, self._request.raw_path)
        if self.search is not None and self.search.id:
            self.search, self.ruled_by = names.known(self.search)
        elif self.search is not None:
            self.ruled_by = self.search.collection
        elif self.write is not None:
            self.ruled_by = names.ruled_by(self.write)
        target = classified.target
        self.query = target.raw[len(target.path) :]
        if (match := TIMEOUT.search(target.raw, len(target.path))) is not None:
            self.client_timeout_seconds = float(match[1])
        return None

    def overrides(self) -> Collection[tuple[str, str]]:
        return self._request.headers.items() if self._shape.has_overrides else ()

    def client(self) -> Client:
        return Client.of(self._request.headers.items(), self._request.remote)

    def overloaded(self) -> RawResponse:
        return self._http.answers.response(Trouble.OVERLOADED, self._request.raw_path)

    def invalid(self, words: str) -> RawResponse:
        return self.native(self._http.dialect.error(400, words))

    def native(self, native: NativeAnswer) -> RawResponse:
        return self._http.answers.native(native)

    def unreachable(self, failure: UpstreamExchangeError) -> RawResponse:
        return self._http.relay.failed(failure, self._request.raw_path)

    # A search.

    async def read(self) -> HttpExchange | Bypass:
        headers, limit, shape = self._request.raw_headers, self._http.services.limits.request_body_bytes, self._shape
        if shape.credentials and any(headers[place][1].startswith(SIGNATURE) for place in shape.credentials):
            self._http.heads.warn_of_signatures()
            return Bypass.SIGNED
        if shape.is_exacting:
            return Bypass.EXACT_BYTES
        coding = self._coding() if shape.codings else b""
        if coding is None or (shape.accepts_codings and not accepts_identity(headers)):
            return Bypass.ENCODING
        raw = await self._whole(limit)
        if raw is None:
            return Bypass.TOO_LARGE
        plain = decoded(raw, coding, limit_bytes=limit) if coding else raw
        if plain is None:
            return Bypass.ENCODING
        if plain is not raw and len(plain) > TURN_BYTES:
            await asyncio.sleep(0)  # decoding took this turn's time
        self.plain = plain
        return self

    async def send(self, body: bytes, *, seconds: float, fits: Fits, ending: Ending = SAME) -> bytes:
        """As in the protocol."""
        # The body was rewritten and the answer is read here: neither may have a content coding.
        headers = replaced(self._request.raw_headers, b"accept-encoding", b"identity")
        if self._shape.codings:
            headers = replaced(headers, b"content-encoding", None)
        target = self._classified.target
        is_same = ending == SAME and self.operation.query is None
        raw_target = target.raw if is_same else target.ending(ending, self.operation.query)
        reply, body = await self._http.upstream.fetch(
            AttemptKind.OVERFETCH,
            self._request.method,
            raw_target,
            headers,
            body,
            seconds=seconds,
            trace=self._trace,
            origin=target.origin,
            fits=fits,
        )
        if not 200 <= reply.status < 300:
            whole = framed(for_client(reply.raw_headers), length=len(body))
            self._refusal = RawResponse(reply.status, reply.reason, whole, body=body)
        body = success_of(reply, body)
        self._head = reply.status, reply.reason, reply.raw_headers
        return body

    def answer(self, body: bytes, report: Report) -> RawResponse:
        """Send ``body`` with the head of the last successful reply. Raises RejectedReplyError when there is none."""
        if self._head is None:
            raise RejectedReplyError(FailOpen.INTERNAL)
        status, reason, headers = self._head
        answered = around_other_bytes(headers, len(body))
        answered += report_headers(report, is_requested=self.rules.report_header)
        return RawResponse(status, reason, answered, body=body)

    async def original(self, kind: AttemptKind = AttemptKind.ORIGINAL, gate: Gate | None = None) -> RawResponse:
        """Send the client's own bytes and stream upstream's own answer."""

        async def passing(status: int) -> None:
            self.record.is_refused = 400 <= status < 500 and status != HTTPStatus.TOO_MANY_REQUESTS
            http.searches.original_answered(self.operation, status, seconds=http.services.clock() - started)
            if gate is not None:
                await gate(200 <= status < 300)

        def received(body: bytes) -> None:
            self.record.is_refused = http.searches.success_received(self.operation.collection, body)

        http, target = self._http, self._classified.target
        started = http.services.clock()
        observer = None
        if http.backend.refuses_in_success:
            observer = ReplyObserver(received, limit_bytes=REFUSAL_BYTES)
        try:
            passage = Passage(
                is_search=True,
                target=target,
                observer=observer,
                trace=self._trace,
                kind=kind,
                gate=passing,
                leave=self.place.leave,
                added=self.plain_headers,
            )
            return await http.relay.relay(self._request, self._body, passage)
        finally:
            http.services.metrics.upstream_done(kind, http.services.clock() - started)

    async def ask(self, question: Question, *, seconds: float) -> bytes:
        """Send a read of ours with the client's credentials; return the body of a successful reply.

        Raises LostReplyError or RefusedReplyError.
        """
        kept = [pair for pair in self._request.raw_headers if pair[0].lower() not in _OF_A_BODY]
        headers = replaced(kept, b"accept-encoding", b"identity")
        if question.body:
            headers = replaced(headers, b"content-type", b"application/json")
        target = self._classified.target
        reply = await self._http.upstream.fetch(
            AttemptKind.LOOKUP,
            question.method,
            target.sibling(question.target),
            headers,
            question.body or None,
            seconds=seconds,
            trace=self._trace,
            origin=target.origin,
        )
        return success_of(*reply)

    # Any other request.

    def size_bytes(self, limit_bytes: int) -> int | None:
        shape, length = self._shape, self._body.content_length
        if (length or 0) > limit_bytes or shape.is_exacting or shape.codings:
            return None
        return limit_bytes if length is None else length

    def keep(self, limit_bytes: int) -> None:
        self._body.keep(limit_bytes)

    def is_kept(self) -> bool:
        plain = self._body.kept()
        self.plain, self._trace = plain or b"", None
        return plain is not None

    async def again(self, body: bytes, *, seconds: float) -> bytes:
        """As in the protocol."""
        headers = replaced(self._request.raw_headers, b"accept-encoding", b"identity")
        target = self._classified.target
        reply = await self._http.upstream.fetch(
            AttemptKind.LOOKUP,
            self._request.method,
            target.raw,
            headers,
            body,
            seconds=seconds,
            trace=self._trace,
            origin=target.origin,
            is_search=False,
        )
        return success_of(*reply)

    async def body_of(self, limit_bytes: int) -> bytes | None:
        coding, plain = self._coding() if self._shape.codings else b"", await self._whole(limit_bytes)
        if plain is not None and coding != b"":
            plain = None if coding is None else decoded(plain, coding, limit_bytes=limit_bytes)
        self.plain = plain or b""
        return plain

    def is_deleted(self, answer: RawResponse, deletions: Deletions) -> bool | None:
        is_done = deletions.is_done(answer.status, is_grpc=False, body=self._success)
        is_unread = answer.is_success and self._success is None
        return None if is_done and is_unread and self._http.backend.refuses_in_success else is_done

    async def relayed(self, changed: ChangedWrite | None = None) -> RawResponse:
        """As in the protocol."""
        http, classified, request = self._http, self._classified, self._request
        target, gate, editing = classified.target, None, None
        if changed is not None:
            gate = changed.answered
            if changed.body is not None:
                self._body.replace(changed.body)
            if changed.is_edited:
                editing = Editing(change=changed.edited, limit_bytes=http.services.limits.reply_body_bytes)
        editing = editing or http.routes.editing(request.method, request.raw_headers, target)
        observer = None
        if self.deletion is not None and http.backend.refuses_in_success:
            observer = ReplyObserver(self._succeeded, limit_bytes=REFUSAL_BYTES)
        naming = http.names.passing(classified.head) if classified.is_routed else nullcontext()
        with http.write_invalidation.passing(classified.head), naming as learn:
            observer = observer if learn is None else ReplyObserver(learn)
            passage = Passage(
                target=target,
                editing=editing,
                observer=observer,
                trace=self._trace,
                gate=gate,
                leave=self.place.leave,
            )
            answer = await http.relay.relay(request, self._body, passage)
        if classified.is_routed:
            http.searches.status_received(classified.collection, answer.status)
        return answer

    def _succeeded(self, body: bytes) -> None:
        self._success = body

    def _coding(self) -> bytes | None:
        """The coding of the body; None if the database might read it otherwise."""
        return coding_of(values(self._request.raw_headers, b"content-encoding"), self._http.backend.request_codings)

    async def _whole(self, limit_bytes: int) -> bytes | None:
        seconds = self._http.services.limits.body_timeout_seconds
        try:
            return await self._body.whole(limit_bytes=limit_bytes, deadline_seconds=seconds)
        except ClientBodyError:
            return None  # the relay finds the same error in the body, and answers


def _ended(request: web.BaseRequest, response: RawResponse | None, *, is_reused: bool) -> Ended:
    """A relayed answer has been sent by now; one of our own is sent after the handler returns."""
    is_relayed = response is not None and response.prepared
    is_ours = response is not None and ORIGIN[0] in response.headers
    return Ended(
        method=request.method,
        status=None if response is None else response.status,
        origin=Origin.PROXY if is_ours else Origin.UPSTREAM,
        request_bytes=request.content_length or 0,
        response_bytes=0 if response is None else response.body_bytes,
        is_relayed=is_relayed,
        is_loopback=request.remote in LOOPBACK,
        is_reused=is_reused,
        cause="" if response is None else response.cause,
    )
