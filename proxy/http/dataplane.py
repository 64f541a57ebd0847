"""Every request on a data port: admitted, classified, then passed through or intercepted; counted when it ends."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import cast

from aiohttp import web

from vecsieve.adapters.contract import Adapter, Dialect, Operation, RequestHead
from vecsieve.config.schema import LimitSettings, OverrideSettings, Settings
from vecsieve.proxy.http.admission import Admission
from vecsieve.proxy.http.answers import LocalAnswers, Trouble
from vecsieve.proxy.http.body import RequestBody
from vecsieve.proxy.http.content_coding import decoded
from vecsieve.proxy.http.exchange import Exchange
from vecsieve.proxy.http.failures import ClientBodyError
from vecsieve.proxy.http.fence import first_standing
from vecsieve.proxy.http.headers import RawHeaders, values
from vecsieve.proxy.http.intercept import Interceptor
from vecsieve.proxy.http.origin import Origin
from vecsieve.proxy.http.protocol import ClientConnection
from vecsieve.proxy.http.relay import Relay
from vecsieve.proxy.http.routes import Routes
from vecsieve.proxy.http.shadow import Shadow
from vecsieve.proxy.http.tally import Tally, Visit
from vecsieve.proxy.http.target import Target, read_target
from vecsieve.proxy.labels import AttemptKind, Bypass, BypassReason, FailOpen, Shed
from vecsieve.proxy.memory import MemoryGuard, Pressure
from vecsieve.proxy.overhearing import Overhearing
from vecsieve.proxy.overrides import HEADERS as OVERRIDES
from vecsieve.proxy.overrides import BadOverride, parse
from vecsieve.proxy.policies import Policies
from vecsieve.proxy.resolved import ResolvedPolicy
from vecsieve.proxy.search import Attempt

TIMEOUT = re.compile(r"[?&]timeout=(\d{1,6})(?:&|$)")
API_VERSION = "X-Pinecone-Api-Version"  # of the backends only Pinecone has clients that name their interface
# RFC 9110 12.5.3: identity is acceptable unless it is excluded by name, or by `*` without naming it.
NO_IDENTITY = re.compile(rb"(?:^|,)\s*(identity|\*)\s*;\s*q=0(?:\.0{0,3})?\s*(?=,|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Rules:
    """What a reload replaces as a whole: a request uses the ones it began with."""

    policies: Policies
    overrides: OverrideSettings
    shadow_sample: float
    report_header: bool

    @classmethod
    def of(cls, settings: Settings) -> Rules:
        """The rules of these settings."""
        return cls(Policies(settings), settings.overrides, settings.shadow.sample, settings.report_header)


@dataclass(slots=True, kw_only=True)
class DataPlane:
    """The handler. Built by the composition root; ``rules`` is the one member that changes."""

    rules: Rules
    limits: LimitSettings
    routes: Routes
    backend: str
    adapter: Adapter
    dialect: Dialect
    interceptor: Interceptor
    overhearing: Overhearing
    relay: Relay
    shadow: Shadow
    answers: LocalAnswers
    admission: Admission
    memory: MemoryGuard
    tally: Tally

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Answer one request."""
        visit = self.tally.begin()
        try:
            return visit.ends(await self._admitted(request, visit))
        finally:
            self.tally.end(visit, request)

    async def _admitted(self, request: web.BaseRequest, visit: Visit) -> web.StreamResponse:
        if not await self.admission.enter():
            return self._shed(request, visit, Shed.IN_FLIGHT)
        try:
            if self.memory.pressure() is Pressure.CRITICAL:
                return self._shed(request, visit, Shed.MEMORY)
            return await self._route(request, visit)
        finally:
            self.admission.leave()

    def _shed(self, request: web.BaseRequest, visit: Visit, reason: Shed) -> web.StreamResponse:
        visit.shed(reason)
        return self.answers.response(Trouble.OVERLOADED, request.raw_path)

    async def _route(self, request: web.BaseRequest, visit: Visit) -> web.StreamResponse:
        asked = read_target(request.raw_path)
        target = None if asked is None else self.routes.find(asked, _index_behind(request))
        if isinstance(target, Trouble):
            return self.relay.refuse(target, request.raw_path)
        path = None if target is None else self.routes.matching(target)
        if target is None or path is None:
            return await self.relay.relay(request, target=target)
        head = _head(request, target, path)
        operation = self.adapter.classify(head)
        if operation is None:
            editing = self.routes.editing(request.method, request.raw_headers, target)
            with self.overhearing.passing(head):
                return await self.relay.relay(request, target=target, editing=editing)
        visit.classified(operation)
        rules, headers = self.rules, list(request.headers.items())
        own = rules.policies.resolve(self.backend, operation.collection)
        try:
            policy = parse(headers, rules.overrides, own)
        except BadOverride as refusal:
            visit.bad_request()
            return self.answers.native(self.dialect.error(400, str(refusal)))
        if policy is not own:
            visit.overridden(OVERRIDES[name.lower()] for name, _ in headers if name.lower() in OVERRIDES)
        return await self._search(_Search(request, target, operation, policy, rules), visit)

    async def _search(self, search: _Search, visit: Visit) -> web.StreamResponse:
        request, policy = search.request, search.policy
        if policy.mode == "off":
            return await self._bypass(search, visit, Bypass.DISABLED)
        full = self._no_room(visit)
        if full is not None:
            visit.failed_open(full)
            return await self._original(search, visit)
        if not accepts_identity(request.raw_headers):
            return await self._bypass(search, visit, Bypass.ENCODING)
        body = RequestBody(request, idle_seconds=self.limits.stream_idle_timeout_seconds)
        try:
            exchange = await self._read(search, body)
        except ClientBodyError:
            # The relay meets the same end of the body and answers it; nothing of it was lost.
            return await self._bypass(search, visit, Bypass.TOO_LARGE, body)
        if isinstance(exchange, Bypass):
            return await self._bypass(search, visit, exchange, body)
        with visit.searching():
            return await self._answer(search, exchange, body, visit)

    def _no_room(self, visit: Visit) -> FailOpen | None:
        if visit.searches_in_flight >= self.limits.searches_in_flight:
            return FailOpen.OVERLOAD
        return FailOpen.MEMORY if self.memory.pressure() is Pressure.HIGH else None

    async def _read(self, search: _Search, body: RequestBody) -> Exchange | Bypass:
        limit = self.limits.request_body_bytes
        raw = await body.whole(limit_bytes=limit, deadline_seconds=self.limits.body_timeout_seconds)
        if raw is None:
            return Bypass.TOO_LARGE
        plain = decoded(raw, b",".join(values(search.request.raw_headers, b"content-encoding")), limit_bytes=limit)
        if plain is None:
            return Bypass.ENCODING
        return Exchange(
            request=search.request,
            target=search.target,
            operation=search.operation,
            policy=search.policy,
            plain=plain,
            client_timeout_seconds=client_timeout(search.target),
            report_header=search.rules.report_header,
        )

    async def _answer(self, search: _Search, exchange: Exchange, body: RequestBody, visit: Visit) -> web.StreamResponse:
        async def prepare() -> Attempt | BypassReason:
            return self.interceptor.prepare(exchange)

        async def replay() -> web.StreamResponse:
            return await self._original(search, visit, body, AttemptKind.REPLAY)

        prepared = await first_standing([prepare], lambda _: visit.failed_open(FailOpen.INTERNAL))
        if prepared is None:
            return await self._original(search, visit, body)
        if not isinstance(prepared, Attempt):
            return await self._bypass(search, visit, prepared, body)
        if search.policy.mode == "shadow":
            return await self._shadowed(search, exchange, prepared, body, visit)
        response, report = await self.interceptor.answer(exchange, prepared, replay)
        visit.reported(report)
        return response

    async def _shadowed(
        self, search: _Search, exchange: Exchange, attempt: Attempt, body: RequestBody, visit: Visit
    ) -> web.StreamResponse:
        response = await self._original(search, visit, body)
        if self.shadow.follow(exchange, attempt, sample=search.rules.shadow_sample):
            visit.shadowed()
        else:
            visit.bypassed(Bypass.SHADOW_NOT_SAMPLED)
        return response

    async def _bypass(
        self, search: _Search, visit: Visit, reason: BypassReason, body: RequestBody | None = None
    ) -> web.StreamResponse:
        visit.bypassed(reason)
        return await self._original(search, visit, body)

    async def _original(
        self,
        search: _Search,
        visit: Visit,
        body: RequestBody | None = None,
        attempt: AttemptKind = AttemptKind.ORIGINAL,
    ) -> web.StreamResponse:
        """The client's own bytes, and upstream's own answer to them."""
        with visit.original(attempt):
            return await self.relay.relay(search.request, body=body, is_search=True, target=search.target)


@dataclass(frozen=True, slots=True)
class _Search:
    """A classified request before its body is read."""

    request: web.BaseRequest
    target: Target
    operation: Operation
    policy: ResolvedPolicy
    rules: Rules


def _index_behind(request: web.BaseRequest) -> Origin | None:
    """The index that plain paths lead to at the port this request came in by."""
    return cast(ClientConnection, request.protocol).index


def _head(request: web.BaseRequest, target: Target, path: str) -> RequestHead:
    return RequestHead(
        method=request.method,
        path=path,
        content_type=request.headers.get("Content-Type", ""),
        host="" if target.origin is None else target.origin.authority,
        version=request.headers.get(API_VERSION, ""),
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
