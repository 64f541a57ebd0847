"""One call of one message each way over gRPC. Widened messages are sent with the client's metadata, answers are returned with upstream's, and every
other call is relayed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field, replace

from vecsieve.adapters.backends import Transport
from vecsieve.adapters.base import is_oversized
from vecsieve.adapters.contract import Adapter, NativeAnswer, Question, RequestHead
from vecsieve.adapters.fusions import SAME, Ending

from ..runtime.addresses import Origin
from ..runtime.memory import LARGE_MESSAGE_BYTES
from ..search.collections.learned import WriteInvalidation, nameable
from ..search.context.clients import Client
from ..search.errors import (
    WORDING,
    FailureKind,
    LostReplyError,
    RefusedReplyError,
    RejectedReplyError,
    Trouble,
    UpstreamExchangeError,
)
from ..search.hedge import Fits, Gate
from ..search.policy import is_override
from ..search.report import report_headers
from ..search.service import ProcessServices, SearchService
from ..telemetry.labels import AttemptKind, Bypass, FailOpen
from ..telemetry.reports import Report
from ..telemetry.spans import Code
from ..telemetry.tracing import Leg
from ..writes.deletions import Deletions
from ..writes.gate import WriteGate
from ..writes.pipeline import ClientExchange, Pipeline
from ..writes.settling import ChangedWrite
from .frames import Calls
from .relay import Context, received, send
from .status import (
    OVERLOADED,
    Outcome,
    Pairs,
    answered_locally,
    for_upstream,
    is_sendable,
    local_answer,
    local_failure,
    traced,
    unreachable,
    upstream_failed,
)
from .upstream import Channels

# For receiving a relayed message: 256 MiB at 1 MB/s. gRPC does not report progress.
MESSAGE_SECONDS = 300.0
# Codes of refusals that may be caused by the size of the request. UNKNOWN is what Weaviate, and every server whose handlers just return an
# error, returns for nearly all client errors: it is an answer, not a failure of the database.
TOO_LARGE = frozenset({Code.UNKNOWN, Code.INVALID_ARGUMENT, Code.FAILED_PRECONDITION, Code.OUT_OF_RANGE})
SERVER_ERRORS = frozenset({Code.CANCELLED, Code.DEADLINE_EXCEEDED, Code.INTERNAL, Code.UNAVAILABLE, Code.DATA_LOSS})
# The words of our own core for a message that is too long: its bound is `limits.reply_body_bytes`, and the message was never held.
_TOO_LONG_FOR_US = "Received message larger than max"
LOST_BY = {FailureKind.TIMEOUT: FailOpen.OVERFETCH_TIMEOUT}

AskOverRest = Callable[[Pairs, Question, float], Awaitable[bytes]]
"""Sends a read to the database's REST, with the metadata of a call and within this many seconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcServices:
    """What the calls on all gRPC ports share. ``database_key``: the metadata key in which clients name a database. ``over_rest``: sends the
    reads beside writes, for databases that answer them over REST only. ``searched``: by its path, whether a method is a search.
    """

    services: ProcessServices
    calls: Calls
    adapter: Adapter
    transport: Transport
    database_key: str | None
    searches: SearchService
    write_invalidation: WriteInvalidation
    channels: Channels
    gate: WriteGate | None
    pipeline: Pipeline
    over_rest: AskOverRest | None
    searched: dict[str, bool] = field(default_factory=dict)


@dataclass(slots=True)
class GrpcExchange(ClientExchange[Outcome]):
    """``_origin``: the destination of the call. ``message``: None if the client sent none. ``answered``: by upstream to the client's own message."""

    _grpc: GrpcServices
    _head: RequestHead
    _origin: Origin
    _context: Context
    _metadata: Pairs
    message: bytes | None = None
    answered: Outcome | None = None
    _is_read: bool = False
    _success: Outcome | None = None

    @property
    def is_search(self) -> bool:
        """Within the fence of a request: an adapter that fails must not end the call without an answer."""
        path = self._head.path
        known = self._grpc.searched.get(path)
        if known is None:
            known = self._grpc.searched[path] = self._grpc.adapter.classify(self._head) is not None
        return known

    async def gathered(self) -> Outcome | None:
        """Read the message; returns the failure if it is late."""
        seconds = self._grpc.services.limits.body_timeout_seconds if self.is_search else MESSAGE_SECONDS
        try:
            async with asyncio.timeout(seconds):
                self.message = await received(self._context)
        except TimeoutError:
            return local_failure(Code.DEADLINE_EXCEEDED, WORDING[Trouble.BODY_TIMEOUT][1])
        self._is_read = True
        return None

    async def classify(self) -> Outcome | None:
        if not self._is_read and (late := await self.gathered()) is not None:
            return late
        grpc, message = self._grpc, self.message
        self.plain = message or b""
        self._head = head = RequestHead(
            method=self._head.method,
            path=self._head.path,
            host=self._head.host,
            message=self.plain,
            database="" if grpc.database_key is None else _first(self._metadata, grpc.database_key),
        )
        self.client_timeout_seconds = self._context.time_remaining()
        if message is None:
            return None
        gate = grpc.gate
        if self.is_search:
            self.search = nameable(grpc.adapter.classify(head))
        if self.search is not None:
            self.ruled_by = self.search.collection
        elif gate is not None and is_sendable(self._metadata):  # else it is refused when it is sent
            self.write = nameable(gate.adapter.classify(head))
            self.ruled_by = "" if self.write is None else self.write.collection
            self.deletion = None if gate.deletions is None else nameable(gate.deletions.classify(head))
        return None

    def overrides(self) -> Collection[tuple[str, str]]:
        for key, _ in self._metadata:
            if is_override(key):
                return [(key, str(value)) for key, value in self._metadata]
        return ()

    def client(self) -> Client:
        """Behind our own socket the address of the connection is unknown."""
        return Client.of([(key, str(value)) for key, value in self._metadata], None)

    def overloaded(self) -> Outcome:
        return OVERLOADED

    def invalid(self, words: str) -> Outcome:
        return local_failure(Code.INVALID_ARGUMENT, words)

    def native(self, native: NativeAnswer) -> Outcome:
        return local_answer(native)

    def unreachable(self, failure: UpstreamExchangeError) -> Outcome:
        return unreachable(failure.kind)

    # A search.

    async def read(self) -> GrpcExchange | Bypass:
        return Bypass.TOO_LARGE if len(self.plain) > self._grpc.services.limits.request_body_bytes else self

    async def send(self, body: bytes, *, seconds: float, fits: Fits, ending: Ending = SAME) -> bytes:
        """As in the protocol."""
        path = ending.of(self._head.path)
        outcome = await self._sent(path, body, AttemptKind.OVERFETCH, seconds=seconds, is_search=True)
        if outcome.code != Code.OK:
            error = refused(outcome)
            if isinstance(error, RefusedReplyError):
                self._refusal = outcome
            raise error
        if not fits(len(outcome.message)):
            raise LostReplyError(FailOpen.OVERLOAD, received_bytes=len(outcome.message))
        self._success = outcome
        return outcome.message

    def answer(self, body: bytes, report: Report) -> Outcome:
        """Send ``body`` with upstream's own metadata. Raises RejectedReplyError when there is none."""
        if self._success is None:
            raise RejectedReplyError(FailOpen.INTERNAL)
        initial = (*self._success.initial, *report_headers(report, is_requested=self.rules.report_header))
        return Outcome(message=body, initial=initial, trailing=self._success.trailing)

    async def original(self, kind: AttemptKind = AttemptKind.ORIGINAL, gate: Gate | None = None) -> Outcome:
        """As in the protocol."""
        services, operation = self._grpc.services, self.operation
        started, seconds = services.clock(), self._context.time_remaining()
        try:
            answered = await self._sent(self._head.path, self.message, kind, seconds=seconds, is_search=False)
            services.governor.attempt_timeout.of(operation).plain.append(services.clock() - started)
            self.record.is_refused = observe_reply(self._grpc, operation.collection, answered)
            if gate is not None:
                await gate(answered.is_success)
        finally:
            services.metrics.upstream_done(kind, services.clock() - started)
        if (added := self.plain_headers()) and answered.is_success:
            answered = replace(answered, initial=(*answered.initial, *added))
        return self._as_answered(answered)

    async def ask(self, question: Question, *, seconds: float) -> bytes:
        """As in the protocol."""
        if self.search is None and self._grpc.over_rest is not None:
            return await self._grpc.over_rest(for_upstream(self._metadata), question, seconds)
        path, body = question.target, question.body
        return message_of(await self._sent(path, body, AttemptKind.LOOKUP, seconds=seconds, is_search=True))

    # Any other call.

    def size_bytes(self, limit_bytes: int) -> int | None:
        return None if len(self.plain) > limit_bytes else len(self.plain)

    def keep(self, limit_bytes: int) -> None:
        """The message is held in any case."""

    def is_kept(self) -> bool:
        self._trace = None
        return True

    async def again(self, body: bytes, *, seconds: float) -> bytes:
        """As in the protocol."""
        path = self._head.path
        return message_of(await self._sent(path, body, AttemptKind.LOOKUP, seconds=seconds, is_search=False))

    async def body_of(self, limit_bytes: int) -> bytes | None:
        return self.plain if len(self.plain) <= limit_bytes else None

    def is_deleted(self, answer: Outcome, deletions: Deletions) -> bool | None:
        if answer.is_success:
            return deletions.is_done(Code.OK, is_grpc=True, body=answer.message)
        return None if answer.kind is not None else deletions.is_done(answer.code, is_grpc=True, body=None)

    async def relayed(self, changed: ChangedWrite | None = None) -> Outcome:
        """As in the protocol."""
        message = self.message if changed is None or changed.body is None else changed.body
        with self._grpc.write_invalidation.passing(self._head):
            seconds, kind = self._context.time_remaining(), AttemptKind.ORIGINAL
            answered = await self._sent(self._head.path, message, kind, seconds=seconds, is_search=False)
            self._as_answered(answered)
        observe_reply(self._grpc, self._grpc.transport.collection_of(self._head), answered)
        if changed is None:
            return answered
        if answered.is_success:
            answered = replace(answered, message=changed.edited(answered.message))
        await changed.settle(is_success=answered.is_success)
        self.answered = answered
        return answered

    def _as_answered(self, answered: Outcome) -> Outcome:
        self.answered = answered
        answered_locally(self._grpc.services.metrics, answered)
        return answered

    async def _sent(
        self, path: str, message: bytes | None, kind: AttemptKind, *, seconds: float | None, is_search: bool
    ) -> Outcome:
        """Send a message to a method with the client's metadata, once."""
        grpc = self._grpc
        trace = self._trace
        leg = Leg() if trace is None else trace.leg(kind, "POST", self._origin)
        try:
            outcome = await send(
                grpc.channels,
                message,
                method=path,
                origin=self._origin,
                metadata=self._metadata if leg.traceparent is None else traced(self._metadata, leg.traceparent),
                deadline_seconds=seconds,
                is_search=is_search,
            )
            leg.code = outcome.code
        finally:
            if trace is not None:
                trace.ended(leg)
        if outcome.code != Code.OK:
            upstream_failed(grpc.services.metrics, outcome)
        elif len(outcome.message) >= LARGE_MESSAGE_BYTES:
            grpc.calls.freed(len(outcome.message))  # the core's own copy
        return outcome


def _first(metadata: Pairs, name: str) -> str:
    """The first value of a key; "" without one."""
    return next((str(value) for key, value in metadata if key == name), "")


def observe_reply(grpc: GrpcServices, collection: str, answered: Outcome) -> bool:
    """Learn from the answer to a client's own call. Whether it is a refusal for an error of the client."""
    if answered.is_success:
        return grpc.searches.success_received(collection, answered.message)
    if answered.kind is not None:
        return False
    grpc.searches.status_received(collection, answered.code, answered.details.encode(errors="replace"))
    return answered.code not in SERVER_ERRORS | {Code.RESOURCE_EXHAUSTED}


def refused(failure: Outcome) -> LostReplyError | RefusedReplyError:
    """The exception for a failed request of ours."""
    if failure.kind is not None:
        return LostReplyError(LOST_BY.get(failure.kind, FailOpen.OVERFETCH_RESET))
    if failure.code == Code.RESOURCE_EXHAUSTED and _TOO_LONG_FOR_US in failure.details:
        return LostReplyError(FailOpen.TOO_LARGE)
    words = failure.details.encode(errors="replace")
    return RefusedReplyError(
        failure.code,
        words,
        is_server_error=failure.code in SERVER_ERRORS,
        may_be_size=is_oversized(failure.code, words) or failure.code in TOO_LARGE,
    )


def message_of(outcome: Outcome) -> bytes:
    """The message of a success. Raises LostReplyError or RefusedReplyError."""
    if not outcome.is_success:
        raise refused(outcome)
    return outcome.message
