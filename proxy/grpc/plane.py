"""Every call on a gRPC port: admitted, classified, then relayed or intercepted; counted when it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import grpc

from vecsieve.adapters.backends import Transport
from vecsieve.adapters.contract import Adapter, Operation, Question, RequestHead
from vecsieve.proxy.addresses import Origin
from vecsieve.proxy.grpc.exchange import GrpcExchange, Outcome
from vecsieve.proxy.grpc.frames import Calls
from vecsieve.proxy.grpc.metadata import Pairs, trace_id, trace_parents, traced
from vecsieve.proxy.grpc.relay import Context, Relayed, answer, end_with, received, relay, send
from vecsieve.proxy.grpc.status import Code, Failure, code, given, invented, met, speaker, status
from vecsieve.proxy.grpc.upstream import Channels
from vecsieve.proxy.resources import LARGE_MESSAGE_BYTES, Pressure
from vecsieve.proxy.search.collections import WriteInvalidation
from vecsieve.proxy.search.errors import WORDING, Trouble, first_success
from vecsieve.proxy.search.exchange import Gate
from vecsieve.proxy.search.policy import OverrideError, ResolvedPolicy, Rules, is_override
from vecsieve.proxy.search.service import SearchService
from vecsieve.proxy.search.services import ProcessServices
from vecsieve.proxy.telemetry.labels import AttemptKind, Bypass, LocalError, Shed
from vecsieve.proxy.telemetry.requests import Ended, RequestRecord
from vecsieve.proxy.telemetry.tracing import Trace

LOGGER = logging.getLogger("vecsieve.grpc")
# For a message that is relayed to be whole: 256 MiB at 1 MB/s. gRPC tells nothing of how much of it has come.
MESSAGE_SECONDS = 300.0

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What the planes of all ports share.

    ``database_key``: the metadata in which clients name a database.
    """

    services: ProcessServices
    calls: Calls
    adapter: Adapter
    transport: Transport
    database_key: str | None
    searches: SearchService
    write_invalidation: WriteInvalidation
    channels: Channels


@dataclass(slots=True, kw_only=True)
class _Call:
    """One call with one message, None where the client sent none. ``relayed``: upstream's own answer, once there is one."""

    head: RequestHead
    context: Context
    trace: Trace
    message: bytes | None = None
    is_read: bool = False
    relayed: Outcome | None = None

    @property
    def metadata(self) -> Pairs:
        """As the client sent it."""
        return tuple(self.context.invocation_metadata() or ())

    def said(self, name: str | None) -> str:
        """What its metadata say under a name first; "" without."""
        return next((str(value) for key, value in self.metadata if key == name), "")

    @property
    def overrides(self) -> list[tuple[str, str]]:
        """What of it is ours."""
        return [(key, str(value)) for key, value in self.metadata if is_override(key)]


class Plane(grpc.GenericRpcHandler):
    """The handlers of one port. ``origin``: where its calls go; ``host``: what a head says of that, "" for one upstream."""

    def __init__(self, shared: Shared, origin: Origin, *, host: str = "") -> None:
        self._shared = shared
        self._services = shared.services
        self._origin = origin
        self._host = host
        self.owed = 0  # calls that are answered, but whose answers the library has not sent

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any]:
        """The handler of any method there is."""
        head = RequestHead(method="POST", path=handler_call_details.method, host=self._host)
        if head.path in self._shared.transport.unary:
            return grpc.stream_unary_rpc_method_handler(partial(self._single, head))
        return grpc.stream_stream_rpc_method_handler(partial(self._stream, head))

    async def _stream(self, head: RequestHead, _messages: object, context: Context) -> None:
        """A call of a shape nobody knows: its end is told by the context."""

        async def relayed() -> Relayed:
            leg = visit.trace.leg(AttemptKind.ORIGINAL, "POST", self._origin)
            with self._shared.write_invalidation.passing(head), leg:
                parent = leg.traceparent
                passed = await relay(
                    self._shared.channels, context, method=head.path, origin=self._origin, traceparent=parent
                )
                leg.ended(code(passed.failure))
            if passed.failure is not None:
                self._heard_of("", passed.failure)
                met(self._services.recorder.metrics, passed.failure)
                given(self._services.recorder.metrics, passed.failure)
            return passed

        visit = self._begun(context)
        done: Relayed | None = None
        try:
            outcome = await self._fenced(visit, relayed)
            done = end_with(context, outcome, Relayed()) if isinstance(outcome, Failure) else outcome
        finally:
            self._ended(visit, _ended_stream(done))
        self._handed_over(context)

    async def _single(self, head: RequestHead, _messages: object, context: Context) -> bytes:
        """A call of one message each way."""
        visit = self._begun(context)
        call = _Call(head=head, context=context, trace=visit.trace)
        outcome: Outcome | None = None
        try:
            outcome = await self._fenced(visit, partial(self._heard, call, visit), first=partial(self._read, call))
        finally:
            self._ended(visit, _ended_single(call, outcome))
        self._handed_over(context)
        return await answer(context, outcome)

    def _handed_over(self, context: Context) -> None:
        """The answer is the library's, which sends it as fast as the client takes it."""

        def sent(_: object) -> None:
            self.owed -= 1
            self._shared.calls.taken -= 1

        self.owed += 1
        self._shared.calls.taken += 1
        context.add_done_callback(sent)  # type: ignore[arg-type]  # - the stubs want a class where any callable does

    def _ended(self, visit: RequestRecord, ended: Ended) -> None:
        self._shared.calls.taken -= 1
        self._services.recorder.end(visit, ended)

    def _begun(self, context: Context) -> RequestRecord:
        self._shared.calls.taken += 1
        metadata = context.invocation_metadata() or ()
        trace = self._services.tracing.begin(trace_parents(metadata))
        return self._services.recorder.begin(trace_id=trace_id(metadata), trace=trace)

    async def _fenced(
        self,
        visit: RequestRecord,
        work: Callable[[], Awaitable[T]],
        *,
        first: Callable[[], Awaitable[Failure | None]] | None = None,
    ) -> T | Failure:
        """Run what answers a call; a fault of ours is an answer too, and so is having no room.

        ``first``: reads the message, before the call takes one of the last places: these are for calls that are here.
        """

        async def admitted() -> T | Failure:
            if first is not None and self._services.admission.is_for_whole_requests:
                late = await first()
                if late is not None:
                    return late
            return await self._admitted(visit, work)

        def fell(error: Exception) -> None:
            fields = {"error": type(error).__name__, "request_id": visit.request_id}
            LOGGER.error("a call failed", extra={"fields": fields})
            self._services.recorder.metrics.local_error(LocalError.INTERNAL)

        done = await first_success([admitted], fell)
        return invented(Code.INTERNAL, WORDING[Trouble.INTERNAL][1]) if done is None else done

    async def _admitted(self, visit: RequestRecord, work: Callable[[], Awaitable[T]]) -> T | Failure:
        admission = self._services.admission
        if not await admission.enter():
            return _shed(visit, Shed.IN_FLIGHT)
        try:
            if self._services.memory.pressure() is Pressure.CRITICAL:
                return _shed(visit, Shed.MEMORY)
            return await work()
        finally:
            admission.leave()

    async def _heard(self, call: _Call, visit: RequestRecord) -> Outcome:
        """The outcome of a call whose message may be still to come."""
        late = await self._read(call)
        return await self._answered(call, visit) if late is None else late

    async def _read(self, call: _Call) -> Failure | None:
        """Read its message, unless that was done; what it is answered when it does not come in time."""
        if call.is_read:
            return None
        is_search = self._shared.adapter.classify(call.head) is not None
        try:
            async with asyncio.timeout(self._services.limits.body_timeout_seconds if is_search else MESSAGE_SECONDS):
                call.message = await received(call.context)
        except TimeoutError:
            return invented(Code.DEADLINE_EXCEEDED, WORDING[Trouble.BODY_TIMEOUT][1])
        call.is_read = True
        return None

    async def _answered(self, call: _Call, visit: RequestRecord) -> Outcome:
        """Upstream's answer to a call, or ours to a search."""
        head, message = call.head, call.message
        told = replace(head, message=message or b"", database=call.said(self._shared.database_key))
        operation = None if message is None else self._shared.adapter.classify(told)
        if message is None or operation is None:
            with self._shared.write_invalidation.passing(told):
                answered = await self._original(call)
            self._heard_of(self._shared.transport.collection_of(told), answered)
            return answered
        try:
            rules, policy = self._shared.searches.policy(operation, operation.collection, call.overrides, visit)
        except OverrideError as refusal:
            return invented(Code.INVALID_ARGUMENT, str(refusal))
        relayed = partial(self._counted, call, visit, operation)

        async def read() -> GrpcExchange | Bypass:
            if len(message) > self._services.limits.request_body_bytes:
                return Bypass.TOO_LARGE
            return self._exchange(call, message, operation, policy, rules, relayed)

        return await self._shared.searches.answer(
            policy, visit, sample=rules.shadow_sample, read=read, original=partial(relayed, AttemptKind.ORIGINAL)
        )

    def _exchange(
        self,
        call: _Call,
        message: bytes,
        operation: Operation,
        policy: ResolvedPolicy,
        rules: Rules,
        relayed: Callable[[AttemptKind, Gate | None], Awaitable[Outcome]],
    ) -> GrpcExchange:
        return GrpcExchange(
            operation=operation,
            policy=policy,
            plain=message,
            client_timeout_seconds=call.context.time_remaining(),
            report_header=rules.report_header,
            widened=partial(self._widened, call),
            relayed=relayed,
            asked=partial(self._asked, call),
        )

    async def _counted(
        self, call: _Call, visit: RequestRecord, operation: Operation, kind: AttemptKind, gate: Gate | None = None
    ) -> Outcome:
        async def passing(answered: Outcome) -> None:
            seconds = self._services.clock() - started
            self._shared.searches.patience.answered_plainly(operation, seconds)
            self._heard_of(operation.collection, answered)
            if gate is not None:
                await gate(answered.is_success)

        started = self._services.clock()
        with visit.original(kind):
            return await self._original(call, kind, passing)

    def _heard_of(self, collection: str, answered: Outcome) -> None:
        """Tell what a client's own call was answered with."""
        searches = self._shared.searches
        if not isinstance(answered, Failure):
            searches.heard_success(collection, answered.message)
        elif answered.kind is None:
            searches.heard(collection, answered.code, answered.details.encode(errors="replace"))

    async def _original(
        self,
        call: _Call,
        kind: AttemptKind = AttemptKind.ORIGINAL,
        passing: Callable[[Outcome], Awaitable[None]] | None = None,
    ) -> Outcome:
        """The client's own message, and upstream's own answer to it. ``passing``: waited for before it is the client's."""
        seconds = call.context.time_remaining()
        answered = await self._send(call, call.message, kind, seconds=seconds, is_search=False)
        if passing is not None:
            await passing(answered)
        call.relayed = answered
        if isinstance(call.relayed, Failure):
            given(self._services.recorder.metrics, call.relayed)
        return call.relayed

    async def _widened(self, call: _Call, message: bytes, seconds: float) -> Outcome:
        return await self._send(call, message, AttemptKind.OVERFETCH, seconds=seconds, is_search=True)

    async def _asked(self, call: _Call, question: Question, seconds: float) -> Outcome:
        asking = replace(call, head=replace(call.head, path=question.target))
        return await self._send(asking, question.body, AttemptKind.LOOKUP, seconds=seconds, is_search=True)

    async def _send(
        self, call: _Call, message: bytes | None, kind: AttemptKind, *, seconds: float | None, is_search: bool
    ) -> Outcome:
        with call.trace.leg(kind, "POST", self._origin) as leg:
            outcome = await send(
                self._shared.channels,
                message,
                method=call.head.path,
                origin=self._origin,
                metadata=traced(call.metadata, leg.traceparent),
                deadline_seconds=seconds,
                is_search=is_search,
            )
            leg.ended(code(outcome if isinstance(outcome, Failure) else None))
        if isinstance(outcome, Failure):
            met(self._services.recorder.metrics, outcome)
        elif len(outcome.message) >= LARGE_MESSAGE_BYTES:
            self._shared.calls.freed(len(outcome.message))  # the core's own copy
        return outcome


def _shed(visit: RequestRecord, reason: Shed) -> Failure:
    visit.shed(reason)
    return invented(Code.UNAVAILABLE, WORDING[Trouble.OVERLOADED][1])


# Of whom a call is and on which connection, gRPC knows nothing: every one comes in by the socket between our port and its server.
def _ended_stream(relayed: Relayed | None) -> Ended:
    failure = None if relayed is None else relayed.failure
    return Ended(
        method="POST",
        status=None if relayed is None else status(failure),
        origin=speaker(failure),
        request_bytes=0 if relayed is None else relayed.request_bytes,
        response_bytes=0 if relayed is None else relayed.response_bytes,
        is_relayed=True,
        is_loopback=None,
        code=None if relayed is None else code(failure),
    )


def _ended_single(call: _Call, outcome: Outcome | None) -> Ended:
    failure = outcome if isinstance(outcome, Failure) else None
    return Ended(
        method="POST",
        status=None if outcome is None else status(failure),
        origin=speaker(failure),
        request_bytes=len(call.message or b""),
        response_bytes=0 if outcome is None else outcome.body_bytes,
        is_relayed=outcome is call.relayed,
        is_loopback=None,
        code=None if outcome is None else code(failure),
    )
