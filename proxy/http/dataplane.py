"""Every request on a data port: admitted, classified, then passed through or intercepted; counted when it ends."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from functools import partial
from typing import cast

from aiohttp import web

from vecsieve.adapters.backends import Backend
from vecsieve.adapters.contract import Adapter, Dialect, Operation, RequestHead
from vecsieve.proxy.addresses import Origin
from vecsieve.proxy.http.answers import LocalAnswers
from vecsieve.proxy.http.body import RequestBody, coding_of, decoded
from vecsieve.proxy.http.exchange import HttpExchange
from vecsieve.proxy.http.headers import RawHeaders, Target, read_target, values, wants_exact_bytes
from vecsieve.proxy.http.message import RawResponse
from vecsieve.proxy.http.protocol import ClientConnection
from vecsieve.proxy.http.relay import Relay, ReplyObserver
from vecsieve.proxy.http.routes import Routes
from vecsieve.proxy.http.upstream import Upstream
from vecsieve.proxy.resources import Pressure
from vecsieve.proxy.search.collections import Names, WriteInvalidation
from vecsieve.proxy.search.errors import ORIGIN, ClientBodyError, Trouble
from vecsieve.proxy.search.exchange import Gate
from vecsieve.proxy.search.limits import Place
from vecsieve.proxy.search.policy import OverrideError, ResolvedPolicy, Rules
from vecsieve.proxy.search.searcher import TURN_BYTES
from vecsieve.proxy.search.service import SearchService
from vecsieve.proxy.search.services import ProcessServices
from vecsieve.proxy.telemetry.labels import AttemptKind, Bypass, Shed
from vecsieve.proxy.telemetry.labels import Origin as Speaker
from vecsieve.proxy.telemetry.requests import Ended, RequestRecord
from vecsieve.proxy.telemetry.tracing import NAME as TRACE_PARENT
from vecsieve.proxy.telemetry.tracing import sampled_trace_id

REFUSAL_BYTES = 2048  # longer successes are no refusals
TIMEOUT = re.compile(r"[?&]timeout=(\d{1,6})(?:&|$)")
LOOPBACK = frozenset({"127.0.0.1", "::1"})
# RFC 9110 12.5.3: identity is acceptable unless it is excluded by name, or by `*` without naming it.
NO_IDENTITY = re.compile(rb"(?:^|,)\s*(identity|\*)\s*;\s*q=0(?:\.0{0,3})?\s*(?=,|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPlane:
    """The handler. Built by the composition root."""

    services: ProcessServices
    routes: Routes
    backend: Backend
    adapter: Adapter
    dialect: Dialect
    searches: SearchService
    write_invalidation: WriteInvalidation
    names: Names
    relay: Relay
    upstream: Upstream
    answers: LocalAnswers

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        parents = request.headers.getall(TRACE_PARENT, ())
        trace = self.services.tracing.begin(parents)
        visit = self.services.recorder.begin(trace_id=sampled_trace_id(parents), trace=trace)
        is_reused = _connection(request).begin(visit.request_id)
        response: RawResponse | None = None
        try:
            response = await self._admitted(request, visit)
        finally:
            self.services.recorder.end(visit, _ended(request, response, is_reused=is_reused))
        return response

    async def _admitted(self, request: web.BaseRequest, visit: RequestRecord) -> RawResponse:
        body = RequestBody(request, idle_seconds=self.services.limits.stream_idle_timeout_seconds)
        if self.services.admission.is_for_whole_requests:
            try:
                await body.gathered()
            except ClientBodyError as failure:
                return self.relay.refuse_body(failure, request.raw_path)
        if not await self.services.admission.enter():
            return self._shed(request, visit, Shed.IN_FLIGHT)
        place = Place(self.services.admission)
        try:
            if self.services.memory.pressure() is Pressure.CRITICAL:
                return self._shed(request, visit, Shed.MEMORY)
            return await self._route(request, body, visit, place)
        finally:
            place.leave()

    def _shed(self, request: web.BaseRequest, visit: RequestRecord, reason: Shed) -> RawResponse:
        visit.shed(reason)
        return self.answers.response(Trouble.OVERLOADED, request.raw_path)

    async def _route(
        self, request: web.BaseRequest, body: RequestBody, visit: RequestRecord, place: Place
    ) -> RawResponse:
        asked = read_target(request.raw_path)
        target = None if asked is None else self.routes.find(asked, _index_behind(request))
        if isinstance(target, Trouble):
            return self.relay.refuse(target, request.raw_path)
        path = None if target is None else self.routes.matching(target)
        if target is None or path is None:
            with visit.trace.leg(AttemptKind.ORIGINAL, request.method, None) as leg:
                return await self.relay.relay(request, body, target=target, leg=leg, leave=place.leave)
        head = _head(request, target, path, version_field=self.backend.version_field)
        operation = self.adapter.classify(head)
        if operation is None:
            editing = self.routes.editing(request.method, request.raw_headers, target)
            leg = visit.trace.leg(AttemptKind.ORIGINAL, request.method, target.origin)
            with self.write_invalidation.passing(head), self.names.passing(head) as learn, leg:
                hearing = None if learn is None else ReplyObserver(learn)
                answer = await self.relay.relay(
                    request, body, target=target, editing=editing, hearing=hearing, leg=leg, leave=place.leave
                )
            self.searches.heard(self.backend.rest.collection_of(head), answer.status)
            return answer
        operation, ruled_by = self.names.known(operation)
        try:
            rules, policy = self.searches.policy(operation, ruled_by, request.headers.items(), visit)
        except OverrideError as refusal:
            return self.answers.native(self.dialect.error(400, str(refusal)))
        search = _Search(request, body, target, operation, policy, rules, place)
        return await self.searches.answer(
            policy,
            visit,
            sample=rules.shadow_sample,
            read=partial(self._read, search, visit),
            original=partial(self._original, search, visit),
        )

    async def _read(self, search: _Search, visit: RequestRecord) -> HttpExchange | Bypass:
        try:
            return await self._exchange(search, visit)
        except ClientBodyError:
            # The relay meets the same end of the body and answers it; nothing of it was lost.
            return Bypass.TOO_LARGE

    async def _exchange(self, search: _Search, visit: RequestRecord) -> HttpExchange | Bypass:
        coding = self._coding(search.request.raw_headers)
        if isinstance(coding, Bypass):
            return coding
        limit = self.services.limits.request_body_bytes
        raw = await search.body.whole(limit_bytes=limit, deadline_seconds=self.services.limits.body_timeout_seconds)
        if raw is None:
            return Bypass.TOO_LARGE
        plain = decoded(raw, coding, limit_bytes=limit)
        if plain is None:
            return Bypass.ENCODING
        if plain is not raw and len(plain) > TURN_BYTES:
            await asyncio.sleep(0)  # undoing the coding was this turn's work

        async def relay(kind: AttemptKind, gate: Gate | None) -> RawResponse:
            return await self._original(search, visit, kind, gate)

        return HttpExchange(
            request=search.request,
            target=search.target,
            operation=search.operation,
            policy=search.policy,
            plain=plain,
            client_timeout_seconds=client_timeout(search.target),
            report_header=search.rules.report_header,
            upstream=self.upstream,
            reply_body_bytes=self.services.limits.reply_body_bytes,
            relay=relay,
            trace=visit.trace,
        )

    def _coding(self, raw: RawHeaders) -> bytes | Bypass:
        """The coding of a search's body; or why its head alone says that it is not ours."""
        if wants_exact_bytes(raw):
            return Bypass.EXACT_BYTES
        coding = coding_of(values(raw, b"content-encoding"), self.backend.request_codings)
        return Bypass.ENCODING if coding is None or not accepts_identity(raw) else coding

    async def _original(
        self,
        search: _Search,
        visit: RequestRecord,
        attempt: AttemptKind = AttemptKind.ORIGINAL,
        gate: Gate | None = None,
    ) -> RawResponse:
        """The client's own bytes, and upstream's own answer to them."""

        async def passing(status: int) -> None:
            is_success = 200 <= status < 300
            self.searches.heard_own(search.operation, status, seconds=self.services.clock() - started)
            if gate is not None:
                await gate(is_success)

        started = self.services.clock()
        request, target, collection = search.request, search.target, search.operation.collection
        hearing = None
        if self.backend.refuses_in_success:
            hearing = ReplyObserver(partial(self.searches.heard_success, collection), limit_bytes=REFUSAL_BYTES)
        leg = visit.trace.leg(attempt, request.method, target.origin)
        with visit.original(attempt), leg:
            return await self.relay.relay(
                request,
                search.body,
                is_search=True,
                target=target,
                hearing=hearing,
                leg=leg,
                gate=passing,
                leave=search.place.leave,
            )


@dataclass(frozen=True, slots=True)
class _Search:
    """A classified request before its body is read."""

    request: web.BaseRequest
    body: RequestBody
    target: Target
    operation: Operation
    policy: ResolvedPolicy
    rules: Rules
    place: Place


def _index_behind(request: web.BaseRequest) -> Origin | None:
    """The index that plain paths lead to at the port this request came in by."""
    return _connection(request).index


def _connection(request: web.BaseRequest) -> ClientConnection:
    return cast(ClientConnection, request.protocol)


def _head(request: web.BaseRequest, target: Target, path: str, *, version_field: str | None) -> RequestHead:
    return RequestHead(
        method=request.method,
        path=path,
        content_type=request.headers.get("Content-Type", ""),
        host="" if target.origin is None else target.origin.authority + target.prefix,
        version="" if version_field is None else request.headers.get(version_field, ""),
    )


def _ended(request: web.BaseRequest, response: RawResponse | None, *, is_reused: bool) -> Ended:
    """One that was relayed is sent by now; one of ours goes out after the handler."""
    is_relayed = response is not None and response.prepared
    size = 0 if response is None else response.body_length if is_relayed else response.body_bytes
    is_ours = response is not None and ORIGIN[0] in response.headers
    return Ended(
        method=request.method,
        status=None if response is None else response.status,
        origin=Speaker.PROXY if is_ours else Speaker.UPSTREAM,
        request_bytes=request.content_length or 0,
        response_bytes=size,
        is_relayed=is_relayed,
        is_loopback=request.remote in LOOPBACK,
        is_reused=is_reused,
    )


def accepts_identity(raw: RawHeaders) -> bool:
    """Whether an answer without a content coding may be given; a client that excludes it gets upstream's own."""
    line = b",".join(values(raw, b"accept-encoding"))
    excluded = {name.lower() for name in NO_IDENTITY.findall(line)}
    if b"identity" in excluded:
        return False
    return b"*" not in excluded or re.search(rb"(?:^|,)\s*identity\s*(?:;|,|$)", line, re.IGNORECASE) is not None


def client_timeout(target: Target) -> float | None:
    """The timeout that the client names in its query string, in seconds; None without one."""
    match = TIMEOUT.search(target.raw[len(target.path) :])
    return float(match[1]) if match else None
