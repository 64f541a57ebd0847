"""A search over HTTP: widened requests are sent with the client's head, answers are returned with upstream's head. And a write with the
write gate.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from aiohttp import web

from vecsieve.adapters.contract import NativeAnswer, Operation, Question
from vecsieve.adapters.fusions import SAME, Ending
from vecsieve.adapters.writes import Told
from vecsieve.config.schema import LimitSettings

from ..search.errors import (
    ClientBodyError,
    FailureKind,
    LostReplyError,
    RefusedReplyError,
    RejectedReplyError,
    UpstreamExchangeError,
)
from ..search.hedge import Fits, Gate
from ..search.policy import ResolvedPolicy
from ..search.report import report_headers
from ..telemetry.labels import AttemptKind, FailOpen, WriteOutcome
from ..telemetry.reports import Report
from ..telemetry.tracing import UNTRACED, Leg, Trace
from ..writes.gate import WriteGate
from ..writes.settling import Change
from .answers import Editing, RawResponse
from .body import RequestBody
from .headers import (
    Headers,
    RawHeaders,
    Target,
    around_other_bytes,
    for_client,
    framed,
    replaced,
    traced,
    values,
    wants_exact_bytes,
)
from .upstream import NoRoomError, ReplyTooLargeError, Upstream, UpstreamReply

# The fields that describe a request's body. Length and transfer coding belong to the connection.
_OF_A_BODY = frozenset({b"content-type", b"content-encoding", b"content-language", b"content-md5", b"digest"})
# Statuses of refusals that may be caused by the size of the request.
TOO_LARGE = frozenset({400, 413, 422})


@dataclass(frozen=True, slots=True)
class _Head:
    status: int
    reason: str
    headers: Headers


@dataclass(slots=True, kw_only=True)
class HttpQuestions:
    """Additional reads beside a request whose body has been read. ``plain``: the body without its content coding.

    ``reply_body_bytes``: the largest reply that is read into memory.
    """

    request: web.BaseRequest
    target: Target
    operation: Operation
    plain: bytes
    client_timeout_seconds: float | None
    upstream: Upstream
    reply_body_bytes: int
    trace: Trace = UNTRACED

    async def ask(self, question: Question, *, seconds: float) -> bytes:
        """Send a read of ours with the client's credentials; return the body of a successful reply.

        Raises LostReplyError or RefusedReplyError.
        """
        kept = [pair for pair in self.request.raw_headers if pair[0].lower() not in _OF_A_BODY]
        headers = replaced(kept, b"accept-encoding", b"identity")
        if question.body:
            headers = replaced(headers, b"content-type", b"application/json")
        with self.trace.leg(AttemptKind.LOOKUP, question.method, self.target.origin) as leg:
            target, body = self.target.beside(question.target), question.body or None
            reply, fetched = await self._read(leg, question.method, target, headers, body, seconds=seconds)
        return _success(reply, fetched)

    async def again(self, body: bytes, *, seconds: float) -> bytes:
        """As in the protocol."""
        headers = replaced(self.request.raw_headers, b"accept-encoding", b"identity")
        with self.trace.leg(AttemptKind.LOOKUP, self.request.method, self.target.origin) as leg:
            method, target = self.request.method, self.target.raw
            reply, fetched = await self._read(leg, method, target, headers, body, seconds=seconds, is_search=False)
        return _success(reply, fetched)

    async def _read(  # noqa: PLR0913 - a request has so many parts
        self,
        leg: Leg,
        method: str,
        target: str,
        headers: RawHeaders,
        body: bytes | None,
        *,
        seconds: float,
        fits: Fits = lambda _: True,
        is_search: bool = True,
    ) -> tuple[UpstreamReply, bytes]:
        """One reply and its whole body. Raises LostReplyError."""
        with _losses(self.reply_body_bytes):
            reply = await self.upstream.open(
                method=method,
                raw_target=target,
                headers=traced(headers, leg.traceparent),
                upload=self.upstream.upload(body, content_length=None),
                content_length=None if body is None else len(body),
                is_search=is_search,
                deadline_seconds=seconds,
                origin=self.target.origin,
            )
            leg.answered(reply.status)
            try:
                return reply, await reply.read_bounded(self.reply_body_bytes, fits=fits)
            except (UpstreamExchangeError, ReplyTooLargeError, NoRoomError):
                leg.cut()
                raise
            finally:
                await reply.close()


@contextmanager
def _losses(most_bytes: int) -> Iterator[None]:
    """Turn the failures of a reply into LostReplyError. ``most_bytes``: the largest reply that is read."""
    try:
        yield
    except UpstreamExchangeError as failure:
        is_late = failure.kind is FailureKind.TIMEOUT
        raise LostReplyError(FailOpen.OVERFETCH_TIMEOUT if is_late else FailOpen.OVERFETCH_RESET) from failure
    except ReplyTooLargeError as failure:
        raise LostReplyError(FailOpen.TOO_LARGE, received_bytes=most_bytes) from failure
    except NoRoomError as failure:
        raise LostReplyError(FailOpen.OVERLOAD, received_bytes=failure.received_bytes) from failure


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnQuestions:
    """Requests of our own, without a client. ``prefix``: before the database's own paths. ``headers``: our credential."""

    upstream: Upstream
    prefix: str
    headers: RawHeaders
    reply_body_bytes: int
    seconds: float

    async def ask(self, question: Question) -> bytes:
        """Send a read; return the body of a successful reply. Raises LostReplyError or RefusedReplyError."""
        headers = (*self.headers, (b"accept-encoding", b"identity"), (b"content-type", b"application/json"))
        body = question.body or None
        with _losses(self.reply_body_bytes):
            reply = await self.upstream.open(
                method=question.method,
                raw_target=f"{self.prefix}{question.target}",
                headers=headers,
                upload=self.upstream.upload(body, content_length=None),
                content_length=None if body is None else len(body),
                is_search=question.method != "PUT",  # a write is never sent twice
                deadline_seconds=self.seconds,
            )
            try:
                fetched = await reply.read_bounded(self.reply_body_bytes)
            finally:
                await reply.close()
        return _success(reply, fetched)


def _is_own(key: str) -> bool:
    """Whether metadata with this key is text for a database or a cloud: a credential, or the address of a cluster."""
    return key.startswith("x-") and not key.endswith("-bin")


@dataclass(frozen=True, slots=True, kw_only=True)
class RestBesideGrpc:
    """Additional REST reads beside gRPC calls, for databases that answer them over REST only. ``prefix``: before the database's own paths."""

    upstream: Upstream
    prefix: str
    reply_body_bytes: int

    async def ask(self, metadata: Iterable[tuple[str, str | bytes]], question: Question, seconds: float) -> bytes:
        """``metadata``: of the call. Its credentials become header fields of the same names; nothing else is sent. Raises LostReplyError or
        RefusedReplyError.
        """
        kept = [(key, str(value)) for key, value in metadata if key == "authorization" or _is_own(key)]
        headers = [(key.encode(), value.encode()) for key, value in kept]
        own = OwnQuestions(
            upstream=self.upstream,
            prefix=self.prefix,
            headers=tuple(headers),
            reply_body_bytes=self.reply_body_bytes,
            seconds=seconds,
        )
        return await own.ask(question)


@dataclass(slots=True, kw_only=True)
class HttpExchange(HttpQuestions):
    """One search. ``relay``: sends the client's original request and streams the answer back."""

    policy: ResolvedPolicy
    report_header: bool
    relay: Callable[[AttemptKind, Gate | None], Awaitable[RawResponse]]
    _head: _Head | None = field(default=None, init=False)
    _refusal: RawResponse | None = field(default=None, init=False)

    async def send(self, body: bytes, *, seconds: float, fits: Fits, ending: Ending = SAME) -> bytes:
        """As in the protocol."""
        # The body was rewritten and the answer is read here: neither may have a content coding.
        headers = replaced(
            replaced(self.request.raw_headers, b"content-encoding", None), b"accept-encoding", b"identity"
        )
        with self.trace.leg(AttemptKind.OVERFETCH, self.request.method, self.target.origin) as leg:
            reply, fetched = await self._read(
                leg, self.request.method, self.target.ending(ending), headers, body, seconds=seconds, fits=fits
            )
        if not 200 <= reply.status < 300:
            whole = framed(for_client(reply.raw_headers), length=len(fetched))
            self._refusal = RawResponse(reply.status, reply.reason, whole, body=fetched)
        fetched = _success(reply, fetched)
        self._head = _Head(reply.status, reply.reason, around_other_bytes(reply.raw_headers))
        return fetched

    def answer(self, body: bytes, report: Report) -> RawResponse:
        """Send ``body`` with the head of the last successful reply. Raises RejectedReplyError when there is none."""
        head = self._head
        if head is None:
            raise RejectedReplyError(FailOpen.INTERNAL)
        headers = framed(head.headers, length=len(body))
        headers += report_headers(report, is_wanted=self.report_header)
        return RawResponse(head.status, head.reason, headers, body=body)

    def refusal(self) -> RawResponse:
        if self._refusal is None:
            raise RejectedReplyError(FailOpen.INTERNAL)
        return self._refusal

    async def original(self, kind: AttemptKind, gate: Gate | None = None) -> RawResponse:
        return await self.relay(kind, gate)


@dataclass(slots=True, kw_only=True)
class HttpWrite:
    """One write whose policy has a gate, which examines it before it is sent, or beside it. In both cases the relay sends it once.

    ``client_timeout_seconds``: as the client named it.
    """

    gate: WriteGate
    request: web.BaseRequest
    body: RequestBody
    target: Target
    write: Operation
    policy: ResolvedPolicy
    limits: LimitSettings
    upstream: Upstream
    client_timeout_seconds: float | None
    trace: Trace
    _held_bytes: int = field(default=0, init=False)
    _change: Change | None = field(default=None, init=False)
    _asked: HttpQuestions | None = field(default=None, init=False)
    _told: Told | None = field(default=None, init=False)
    _is_declined: bool = field(default=False, init=False)

    async def before(self) -> NativeAnswer | None:
        """Replace the body if the gate changes it; prepare to keep it if the gate only observes. Returns the answer if nothing is left to
        send. Raises UpstreamExchangeError if the journal could not be written.
        """
        limit = self.limits.write_body_bytes
        size = limit if self.body.content_length is None else self.body.content_length
        raw = self.request.raw_headers
        if size > limit or wants_exact_bytes(raw) or values(raw, b"content-encoding"):
            self.gate.passed(WriteOutcome.NOT_READ)
        elif not self.gate.room.take(size):
            self.gate.passed(WriteOutcome.OVERLOAD)
        else:
            self._held_bytes = size
            if self.policy.write.mode == "observe":
                self.body.keep(limit)
            else:
                return await self._changed(limit)
        return None

    async def _changed(self, limit: int) -> NativeAnswer | None:
        try:
            plain = await self.body.whole(limit_bytes=limit, deadline_seconds=self.limits.body_timeout_seconds)
        except ClientBodyError:
            plain = None  # the relay finds the same error in the body, and answers
        if plain is None:
            self.gate.passed(WriteOutcome.NOT_READ)
            return None
        self._asked = questions = self._questions(plain, self.trace)
        query = self.target.raw[len(self.target.path) :]
        self._change = change = await self.gate.changed(questions, self.policy, query=query)
        if change is None:
            return None
        if change.answer is not None:
            await self.gate.settle(change, questions, self.policy, is_success=True)
        elif change.body is not None:
            self.body.replace(change.body)
        return change.answer

    @property
    def settling(self) -> Callable[[int], Awaitable[None]] | None:
        """Called with the status before the client is answered; None if the write was not judged."""
        return None if self._change is None else self._settled

    @property
    def editing(self) -> Editing | None:
        """How the answer is edited, if the client's differs from the database's."""
        if self._change is None or self._change.told is None:
            return None
        return Editing(change=self._answered, limit_bytes=self.limits.reply_body_bytes)

    def _answered(self, body: bytes) -> bytes:
        assert self._change is not None  # noqa: S101 - it has this editing
        self._told = told = self.gate.answer(self._change, body)
        self._is_declined = told is None
        return body if told is None else told.body

    async def _settled(self, status: int) -> None:
        if self._change is not None and self._asked is not None:
            is_success = 200 <= status < 300 and not self._is_declined
            await self.gate.settle(self._change, self._asked, self.policy, is_success=is_success, told=self._told)

    def after(self, answer: RawResponse | None) -> None:
        """Begin to observe a write that was stored. ``answer``: None without one. Ends what `before` began."""
        plain = self.body.kept() if answer is not None and answer.is_success else None
        if plain is None:
            self._release()
        else:
            self.gate.observe(self._questions(plain, UNTRACED), self.policy, self._release)

    def _release(self) -> None:
        self.gate.room.give(self._held_bytes)
        self._held_bytes = 0

    def _questions(self, plain: bytes, trace: Trace) -> HttpQuestions:
        return HttpQuestions(
            request=self.request,
            target=self.target,
            operation=self.write,
            plain=plain,
            client_timeout_seconds=self.client_timeout_seconds,
            upstream=self.upstream,
            reply_body_bytes=self.limits.reply_body_bytes,
            trace=trace,
        )


def _success(reply: UpstreamReply, body: bytes) -> bytes:
    """The body of a readable success. Raises LostReplyError or RefusedReplyError."""
    status = reply.status
    if not 200 <= status < 300:
        raise RefusedReplyError(status, body, is_server_error=status >= 500, may_be_size=status in TOO_LARGE)
    if any(value.strip().lower() != b"identity" for value in values(reply.raw_headers, b"content-encoding")):
        raise LostReplyError(FailOpen.MALFORMED, received_bytes=len(body))  # identity was requested
    return body
