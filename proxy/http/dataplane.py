"""Handles every request on a data port: admits, classifies, passes through or intercepts, and counts it."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from functools import partial
from typing import cast

from aiohttp import web

from vecsieve.adapters.backends import Backend
from vecsieve.adapters.contract import Dialect, Operation, RequestHead

from ..runtime.memory import Pressure
from ..search.collections.learned import Names, WriteInvalidation
from ..search.context.overrides import OverrideError
from ..search.errors import ORIGIN, ClientBodyError, Trouble, UpstreamExchangeError, trouble_of
from ..search.hedge import Gate
from ..search.limits import Place
from ..search.policy import ResolvedPolicy, Rules
from ..search.report import bypass_headers
from ..search.searcher import TURN_BYTES
from ..search.service import ProcessServices, SearchService
from ..telemetry.labels import AttemptKind, Bypass, Shed
from ..telemetry.labels import Origin as Speaker
from ..telemetry.requests import Ended, RequestRecord
from ..telemetry.tracing import NAME as TRACE_PARENT
from ..telemetry.tracing import sampled_trace_id
from ..writes.deletions import Deletions
from ..writes.gate import WriteGate
from .answers import LocalAnswers, RawResponse
from .body import RequestBody, coding_of, decoded
from .exchange import HttpExchange, HttpQuestions, HttpWrite
from .headers import RawHeaders, Target, shape_of, values, wants_exact_bytes
from .protocol import ClientConnection
from .relay import Relay, ReplyObserver
from .routes import Asked, Heads, Routes, Unrouted
from .upstream import Upstream

REFUSAL_BYTES = 2048  # longer successes contain no refusal
TIMEOUT = re.compile(r"[?&]timeout=(\d{1,6})(?:&|$)")
LOOPBACK = frozenset({"127.0.0.1", "::1"})
# RFC 9110 12.5.3: identity is acceptable unless it is excluded by name, or by `*` without being named.
NO_IDENTITY = re.compile(rb"(?:^|,)\s*(identity|\*)\s*;\s*q=0(?:\.0{0,3})?\s*(?=,|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataPlane:
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
    gate: WriteGate | None

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        parents = request.headers.getall(TRACE_PARENT, ())
        trace = self.services.tracing.begin(parents)
        record = self.services.recorder.begin(trace_id=sampled_trace_id(parents), trace=trace)
        is_reused = _connection(request).begin(record.request_id)
        response: RawResponse | None = None
        try:
            response = await self._admitted(request, record)
        finally:
            self.services.recorder.end(record, _ended(request, response, is_reused=is_reused))
        if not response.prepared:
            response.send_now(request)
        return response

    async def _admitted(self, request: web.BaseRequest, record: RequestRecord) -> RawResponse:
        body = RequestBody(request, idle_seconds=self.services.limits.stream_idle_timeout_seconds)
        if self.services.admission.is_for_whole_requests:
            try:
                await body.gathered()
            except ClientBodyError as failure:
                return self.relay.refuse_body(failure, request.raw_path)
        asked = self.heads.read(request.method, request.raw_path, request.headers, _connection(request).index)
        is_search = isinstance(asked, Asked) and asked.operation is not None
        if not await self.services.admission.enter(is_search=is_search):
            return self._shed(request, record, Shed.IN_FLIGHT)
        place = Place(self.services.admission, is_search=is_search)
        try:
            if self.services.memory.pressure() is Pressure.CRITICAL:
                return self._shed(request, record, Shed.MEMORY)
            return await self._route(request, body, asked, record, place)
        finally:
            place.leave()

    def _shed(self, request: web.BaseRequest, record: RequestRecord, reason: Shed) -> RawResponse:
        record.shed(reason)
        return self.answers.response(Trouble.OVERLOADED, request.raw_path)

    async def _route(
        self, request: web.BaseRequest, body: RequestBody, asked: Asked | Unrouted, record: RequestRecord, place: Place
    ) -> RawResponse:
        if isinstance(asked, Unrouted):
            if asked.trouble is not None:
                return self.relay.refuse(asked.trouble, request.raw_path)
            head = RequestHead(method=request.method, path=request.raw_path)
            leg = record.trace.leg(AttemptKind.ORIGINAL, request.method, None)
            with self.write_invalidation.passing(head), leg:
                return await self.relay.relay(request, body, target=asked.target, leg=leg, leave=place.leave)
        target, operation = asked.target, asked.operation
        if operation is None:
            if asked.deletion is not None and self.gate is not None and self.gate.deletions is not None:
                return await self._deleting(request, body, asked, record, place, asked.deletion, self.gate.deletions)
            return await self._written(request, body, asked, record, place)
        operation, ruled_by = self.names.known(operation)
        fields = request.headers.items() if shape_of(request.raw_headers).has_overrides else ()
        try:
            rules, policy = self.searches.policy(operation, ruled_by, fields, record)
        except OverrideError as refusal:
            return self.answers.native(self.dialect.error(400, str(refusal)))
        search = _Search(request, body, target, operation, policy, rules, place)
        return await self.searches.answer(
            policy,
            record,
            sample=rules.shadow_sample,
            read=partial(self._read, search, record),
            original=partial(self._original, search, record),
        )

    async def _passed(
        self,
        request: web.BaseRequest,
        body: RequestBody,
        asked: Asked,
        record: RequestRecord,
        place: Place,
        *,
        write: HttpWrite | None = None,
        observer: ReplyObserver | None = None,
    ) -> RawResponse:
        """Pass on a request that is no ranked search. ``write``: one that was judged. ``observer``: of its answer."""
        target = asked.target
        gate, editing = (None, None) if write is None else (write.settling, write.editing)
        editing = editing or self.routes.editing(request.method, request.raw_headers, target)
        leg = record.trace.leg(AttemptKind.ORIGINAL, request.method, target.origin)
        with self.write_invalidation.passing(asked.head), self.names.passing(asked.head) as learn, leg:
            observer = observer if learn is None else ReplyObserver(learn)
            answer = await self.relay.relay(
                request, body, target=target, editing=editing, observer=observer, leg=leg, gate=gate, leave=place.leave
            )
        self.searches.status_received(asked.collection, answer.status)
        return answer

    async def _written(
        self,
        request: web.BaseRequest,
        body: RequestBody,
        asked: Asked,
        record: RequestRecord,
        place: Place,
        *,
        observer: ReplyObserver | None = None,
    ) -> RawResponse:
        """Pass on a request that is no ranked search, through the write gate if that examines it."""
        policy = None
        if asked.write is not None and self.gate is not None:
            policy = self.gate.policy_of(asked.write, self.names.ruled_by(asked.write))
        if policy is None:
            return await self._passed(request, body, asked, record, place, observer=observer)
        return await self._gated(request, body, asked, record, place, policy)

    async def _deleting(
        self,
        request: web.BaseRequest,
        body: RequestBody,
        asked: Asked,
        record: RequestRecord,
        place: Place,
        deletion: Operation,
        deletions: Deletions,
    ) -> RawResponse:
        """Pass on a deletion, of which the journal hears."""
        plain = await self._plain(request, body)
        questions = HttpQuestions(
            request=request,
            target=self.routes.beside(asked.target),
            operation=deletion,
            plain=plain or b"",
            client_timeout_seconds=None,
            upstream=self.upstream,
            reply_body_bytes=self.services.limits.reply_body_bytes,
            trace=record.trace,
        )
        doubted = await deletions.begun(questions, plain, now=self.services.clock())
        said: list[bytes] = []
        observer = ReplyObserver(said.append, limit_bytes=REFUSAL_BYTES) if self.backend.refuses_in_success else None
        answer = await self._written(request, body, asked, record, place, observer=observer)
        is_done = deletions.is_done(answer.status, is_grpc=False, body=said[0] if said else None)
        if is_done and observer is not None and not said:
            is_done = None
        await deletions.ended(doubted, is_done=is_done)
        return answer

    async def _plain(self, request: web.BaseRequest, body: RequestBody) -> bytes | None:
        """The body of a deletion without its content coding; None if it is too large or too slow, or cannot be decoded."""
        limits = self.services.limits
        coding = coding_of(values(request.raw_headers, b"content-encoding"), self.backend.request_codings)
        try:
            raw = await body.whole(limit_bytes=limits.write_body_bytes, deadline_seconds=limits.body_timeout_seconds)
        except ClientBodyError:
            return None  # the relay finds the same error in the body, and answers
        return None if raw is None or coding is None else decoded(raw, coding, limit_bytes=limits.write_body_bytes)

    async def _gated(
        self,
        request: web.BaseRequest,
        body: RequestBody,
        asked: Asked,
        record: RequestRecord,
        place: Place,
        policy: ResolvedPolicy,
    ) -> RawResponse:
        """Pass on an upsert, which the write gate examines."""
        assert self.gate is not None and asked.write is not None  # noqa: S101, PT018 - both gave the policy
        write = HttpWrite(
            gate=self.gate,
            request=request,
            body=body,
            target=self.routes.beside(asked.target),
            write=asked.write,
            policy=policy,
            limits=self.services.limits,
            upstream=self.upstream,
            client_timeout_seconds=client_timeout(asked.target),
            trace=record.trace,
        )
        answer: RawResponse | None = None
        try:
            native = await write.before()
            if native is not None:
                answer = self.answers.native(native)
            else:
                answer = await self._passed(request, body, asked, record, place, write=write)
        except UpstreamExchangeError as failure:  # of the journal: nothing was sent
            answer = self.relay.refuse(trouble_of(failure.kind), request.raw_path, cause=failure.cause)
        finally:
            write.after(answer)
        return answer

    async def _read(self, search: _Search, record: RequestRecord) -> HttpExchange | Bypass:
        coding = self._coding(search.request.raw_headers)
        if isinstance(coding, Bypass):
            return coding
        limits = self.services.limits
        limit = limits.request_body_bytes
        try:
            raw = await search.body.whole(limit_bytes=limit, deadline_seconds=limits.body_timeout_seconds)
        except ClientBodyError:
            raw = None  # the relay finds the same error in the body, and answers
        if raw is None:
            return Bypass.TOO_LARGE
        plain = decoded(raw, coding, limit_bytes=limit)
        if plain is None:
            return Bypass.ENCODING
        if plain is not raw and len(plain) > TURN_BYTES:
            await asyncio.sleep(0)  # decoding took this turn's time
        return HttpExchange(
            request=search.request,
            target=search.target,
            operation=search.operation,
            policy=search.policy,
            plain=plain,
            client_timeout_seconds=client_timeout(search.target),
            report_header=search.rules.report_header,
            upstream=self.upstream,
            reply_body_bytes=limits.reply_body_bytes,
            relay=partial(self._original, search, record),
            trace=record.trace,
        )

    def _coding(self, raw: RawHeaders) -> bytes | Bypass:
        """The coding of a search's body, or the bypass reason if its head excludes the search."""
        if wants_exact_bytes(raw):
            return Bypass.EXACT_BYTES
        coding = coding_of(values(raw, b"content-encoding"), self.backend.request_codings)
        return Bypass.ENCODING if coding is None or not accepts_identity(raw) else coding

    async def _original(
        self,
        search: _Search,
        record: RequestRecord,
        attempt: AttemptKind = AttemptKind.ORIGINAL,
        gate: Gate | None = None,
    ) -> RawResponse:
        """Send the client's own bytes and stream upstream's own answer."""

        async def passing(status: int) -> None:
            self.searches.original_answered(search.operation, status, seconds=self.services.clock() - started)
            if gate is not None:
                await gate(200 <= status < 300)

        started = self.services.clock()
        request, target, collection = search.request, search.target, search.operation.collection
        observer = None
        if self.backend.refuses_in_success:
            observer = ReplyObserver(partial(self.searches.success_received, collection), limit_bytes=REFUSAL_BYTES)
        leg = record.trace.leg(attempt, request.method, target.origin)
        with record.original(attempt), leg:
            return await self.relay.relay(
                request,
                search.body,
                is_search=True,
                target=target,
                observer=observer,
                leg=leg,
                gate=passing,
                leave=search.place.leave,
                added=list(bypass_headers(record.bypass, is_on=search.wants_report)),
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

    @property
    def wants_report(self) -> bool:
        return self.rules.report_header and self.policy.mode == "on"


def _connection(request: web.BaseRequest) -> ClientConnection:
    return cast(ClientConnection, request.protocol)


def _ended(request: web.BaseRequest, response: RawResponse | None, *, is_reused: bool) -> Ended:
    """A relayed answer has been sent by now; one of our own is sent after the handler returns."""
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
        cause="" if response is None else response.cause,
    )


def accepts_identity(raw: RawHeaders) -> bool:
    """Whether an answer without content coding is acceptable to the client."""
    line = b",".join(values(raw, b"accept-encoding"))
    if b"=0" not in line:
        return True
    excluded = {name.lower() for name in NO_IDENTITY.findall(line)}
    if b"identity" in excluded:
        return False
    return b"*" not in excluded or re.search(rb"(?:^|,)\s*identity\s*(?:;|,|$)", line, re.IGNORECASE) is not None


def client_timeout(target: Target) -> float | None:
    """The timeout in the query string in seconds; None without one."""
    match = TIMEOUT.search(target.raw[len(target.path) :])
    return float(match[1]) if match else None
