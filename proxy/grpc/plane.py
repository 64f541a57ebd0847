"""Handles every call on a gRPC port: admits, classifies, relays or intercepts, and counts it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import grpc

from vecsieve.adapters.backends import Transport
from vecsieve.adapters.contract import Adapter, Operation, Question, RequestHead
from vecsieve.adapters.fusions import Ending

from ..runtime.addresses import Origin
from ..runtime.memory import LARGE_MESSAGE_BYTES, Pressure
from ..search.collections.learned import WriteInvalidation, nameable
from ..search.context.overrides import OverrideError
from ..search.errors import WORDING, Trouble, cause_of, first_success
from ..search.hedge import Gate
from ..search.policy import ResolvedPolicy, Rules
from ..search.report import bypass_headers
from ..search.service import ProcessServices, SearchService
from ..telemetry.labels import AttemptKind, Bypass, LocalError, Shed
from ..telemetry.requests import Ended, RequestRecord
from ..telemetry.spans import Code
from ..telemetry.tracing import sampled_trace_id
from ..writes.gate import WriteGate
from .exchange import GrpcExchange, Outcome
from .frames import Calls
from .relay import Context, Relayed, answer, end_with, received, relay, send
from .status import (
    Answer,
    Failure,
    answered_locally,
    code,
    local_failure,
    speaker,
    status,
    trace_parents,
    traced,
    upstream_failed,
)
from .upstream import Channels
from .writes import AskOverRest, Call, Writes

LOGGER = logging.getLogger("vecsieve.grpc")
# For receiving a relayed message: 256 MiB at 1 MB/s. gRPC does not report progress.
MESSAGE_SECONDS = 300.0
# A method with a longer name is refused, as a method that does not exist is: grpcio's client keeps every name until one comes a second time.
LONGEST_METHOD = 256

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaneServices:
    """What the planes of all ports share. ``database_key``: the metadata key in which clients name a database."""

    services: ProcessServices
    calls: Calls
    adapter: Adapter
    transport: Transport
    database_key: str | None
    searches: SearchService
    write_invalidation: WriteInvalidation
    channels: Channels
    gate: WriteGate | None
    over_rest: AskOverRest


class Plane(grpc.GenericRpcHandler):
    """The handlers of one port. ``origin``: the destination of its calls. ``host``: the same for classification, "" with one upstream."""

    def __init__(self, shared: PlaneServices, origin: Origin, *, host: str = "") -> None:
        self._shared = shared
        self._services = shared.services
        self._origin = origin
        self._host = host
        self._writes = Writes(
            services=self._services,
            gate=shared.gate,
            relayed=self._passed,
            asked=self._asked,
            over_rest=shared.over_rest if shared.transport.asks_over_rest else None,
        )
        self._known: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}  # handlers of the methods with this transport
        self._searches: dict[str, bool] = {}  # whether such a method is a search
        self.unsent = 0  # calls that are answered, but whose answers grpcio has not sent

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        path = handler_call_details.method
        if (handler := self._known.get(path)) is None and len(path) > LONGEST_METHOD:
            return None
        if handler is None:
            head = RequestHead(method="POST", path=path, host=self._host)
            if path not in self._shared.transport.unary:
                return self._streaming(head)
            handler = self._known[path] = self._unary(head)
        return handler

    # grpcio checks for each call whether its handler is a coroutine function, which takes 10 microseconds for a partial.

    def _streaming(self, head: RequestHead) -> grpc.RpcMethodHandler[Any, Any]:
        async def stream(_messages: object, context: Context) -> None:
            await self._stream(head, context)

        return grpc.stream_stream_rpc_method_handler(stream)

    def _unary(self, head: RequestHead) -> grpc.RpcMethodHandler[Any, Any]:
        async def single(_messages: object, context: Context) -> bytes:
            return await self._single(head, context)

        return grpc.stream_unary_rpc_method_handler(single)

    async def _stream(self, head: RequestHead, context: Context) -> None:
        """A call of unknown shape; the context carries its status."""
        if self._shared.gate is not None:
            self._shared.gate.streamed(head)

        async def relayed() -> Relayed:
            leg = record.trace.leg(AttemptKind.ORIGINAL, "POST", self._origin)
            with self._shared.write_invalidation.passing(head), leg:
                parent = leg.traceparent
                passed = await relay(
                    self._shared.channels, context, method=head.path, origin=self._origin, traceparent=parent
                )
                leg.ended(code(passed.failure))
            if passed.failure is not None:
                self._observe_reply("", passed.failure)
                upstream_failed(self._services.recorder.metrics, passed.failure)
                answered_locally(self._services.recorder.metrics, passed.failure)
            return passed

        record = self._begun(context.invocation_metadata() or ())
        done: Relayed | None = None
        try:
            outcome = await self._fenced(record, relayed)
            done = end_with(context, outcome, Relayed()) if isinstance(outcome, Failure) else outcome
        finally:
            self._ended(record, _ended_stream(done, self._origin))
        self._count_unsent(context)

    async def _single(self, head: RequestHead, context: Context) -> bytes:
        """A call of one message each way."""
        metadata = tuple(context.invocation_metadata() or ())
        record = self._begun(metadata)
        call = Call(head=head, context=context, metadata=metadata, trace=record.trace)
        outcome: Outcome | None = None
        try:
            outcome = await self._fenced(
                record,
                partial(self._read_and_answer, call, record),
                first=partial(self._read, call),
                head=head,
            )
        finally:
            self._ended(record, _ended_single(call, outcome, self._origin))
        self._count_unsent(context)
        return await answer(context, outcome)

    def _count_unsent(self, context: Context) -> None:
        """Count the answer as unsent until grpcio has sent it."""

        def sent(_: object) -> None:
            self.unsent -= 1
            self._shared.calls.taken -= 1

        self.unsent += 1
        self._shared.calls.taken += 1
        context.add_done_callback(sent)  # type: ignore[arg-type]  # - the stubs want a class where any callable does

    def _ended(self, record: RequestRecord, ended: Ended) -> None:
        self._shared.calls.taken -= 1
        self._services.recorder.end(record, ended)

    def _begun(self, metadata: Iterable[tuple[str, str | bytes]]) -> RequestRecord:
        self._shared.calls.taken += 1
        parents = trace_parents(metadata)
        trace = self._services.tracing.begin(parents)
        return self._services.recorder.begin(trace_id=sampled_trace_id(parents), trace=trace)

    async def _fenced(
        self,
        record: RequestRecord,
        work: Callable[[], Awaitable[T]],
        *,
        first: Callable[[], Awaitable[Failure | None]] | None = None,
        head: RequestHead | None = None,
    ) -> T | Failure:
        """Run the function that answers a call; exceptions of ours and a full process are answered too.

        ``first``: reads the message before the call takes one of the last places, which are for calls that have arrived. ``head``: of a
        call of known shape, which may be a search.
        """

        async def admitted() -> T | Failure:
            if first is not None and self._services.admission.is_for_whole_requests:
                late = await first()
                if late is not None:
                    return late
            return await self._admitted(record, work, is_search=head is not None and self._is_search(head))

        def fell(error: Exception) -> None:
            fields = {"error": type(error).__name__, "request_id": record.request_id}
            LOGGER.error("a call failed", extra={"fields": fields})
            self._services.recorder.metrics.local_error(LocalError.INTERNAL)

        done = await first_success([admitted], fell)
        return local_failure(Code.INTERNAL, WORDING[Trouble.INTERNAL][1]) if done is None else done

    async def _admitted(
        self, record: RequestRecord, work: Callable[[], Awaitable[T]], *, is_search: bool
    ) -> T | Failure:
        admission = self._services.admission
        if not await admission.enter(is_search=is_search):
            return _shed(record, Shed.IN_FLIGHT)
        try:
            if self._services.memory.pressure() is Pressure.CRITICAL:
                return _shed(record, Shed.MEMORY)
            return await work()
        finally:
            admission.leave(is_search=is_search)

    async def _read_and_answer(self, call: Call, record: RequestRecord) -> Outcome:
        late = await self._read(call)
        return await self._answered(call, record) if late is None else late

    async def _read(self, call: Call) -> Failure | None:
        """Read the message if that was not done before; return the failure if it is late."""
        if call.is_read:
            return None
        seconds = self._services.limits.body_timeout_seconds if self._is_search(call.head) else MESSAGE_SECONDS
        try:
            async with asyncio.timeout(seconds):
                call.message = await received(call.context)
        except TimeoutError:
            return local_failure(Code.DEADLINE_EXCEEDED, WORDING[Trouble.BODY_TIMEOUT][1])
        call.is_read = True
        return None

    def _is_search(self, head: RequestHead) -> bool:
        found = self._searches.get(head.path)
        if found is None:
            found = self._searches[head.path] = self._shared.adapter.classify(head) is not None
        return found

    async def _answered(self, call: Call, record: RequestRecord) -> Outcome:
        """Upstream's answer to a call, or our answer to a search."""
        message = call.message
        told = RequestHead(
            method=call.head.method,
            path=call.head.path,
            host=call.head.host,
            message=message or b"",
            database=call.value(self._shared.database_key),
        )
        is_search = message is not None and self._is_search(call.head)
        operation = nameable(self._shared.adapter.classify(told)) if is_search else None
        if message is None or operation is None:
            return await self._writes.passed(call, told)
        try:
            rules, policy = self._shared.searches.policy(operation, operation.collection, call.overrides, record)
        except OverrideError as refusal:
            return local_failure(Code.INVALID_ARGUMENT, str(refusal))
        relayed = partial(self._counted, call, record, operation)

        async def read() -> GrpcExchange | Bypass:
            if len(message) > self._services.limits.request_body_bytes:
                return Bypass.TOO_LARGE
            return self._exchange(call, message, operation, policy, rules, relayed)

        outcome = await self._shared.searches.answer(
            policy, record, sample=rules.shadow_sample, read=read, original=partial(relayed, AttemptKind.ORIGINAL)
        )
        added = bypass_headers(record.bypass, is_on=rules.report_header and policy.mode == "on")
        if added and isinstance(outcome, Answer) and outcome is call.relayed:
            outcome = call.relayed = replace(outcome, initial=(*outcome.initial, *added))
        return outcome

    async def _passed(self, call: Call, told: RequestHead) -> Outcome:
        """Forward a call that is no ranked search."""
        with self._shared.write_invalidation.passing(told):
            answered = await self._original(call)
        self._observe_reply(self._shared.transport.collection_of(told), answered)
        return answered

    def _exchange(
        self,
        call: Call,
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
            asked=partial(self._asked, call, is_search=True),
        )

    async def _counted(
        self, call: Call, record: RequestRecord, operation: Operation, kind: AttemptKind, gate: Gate | None = None
    ) -> Outcome:
        async def passing(answered: Outcome) -> None:
            seconds = self._services.clock() - started
            self._services.governor.attempt_timeout.of(operation).plain.append(seconds)
            self._observe_reply(operation.collection, answered)
            if gate is not None:
                await gate(answered.is_success)

        started = self._services.clock()
        with record.original(kind):
            return await self._original(call, kind, passing)

    def _observe_reply(self, collection: str, answered: Outcome) -> None:
        """Learn from the answer to a client's own call."""
        searches = self._shared.searches
        if not isinstance(answered, Failure):
            searches.success_received(collection, answered.message)
        elif answered.kind is None:
            searches.status_received(collection, answered.code, answered.details.encode(errors="replace"))

    async def _original(
        self,
        call: Call,
        kind: AttemptKind = AttemptKind.ORIGINAL,
        passing: Callable[[Outcome], Awaitable[None]] | None = None,
    ) -> Outcome:
        """Send the client's own message. ``passing``: awaited before the answer is sent to the client."""
        seconds = call.context.time_remaining()
        answered = await self._send(call, call.message, kind, seconds=seconds, is_search=False)
        if passing is not None:
            await passing(answered)
        call.relayed = answered
        if isinstance(call.relayed, Failure):
            answered_locally(self._services.recorder.metrics, call.relayed)
        return call.relayed

    async def _widened(self, call: Call, message: bytes, seconds: float, ending: Ending) -> Outcome:
        if (path := ending.of(call.head.path)) != call.head.path:
            call = replace(call, head=replace(call.head, path=path))
        return await self._send(call, message, AttemptKind.OVERFETCH, seconds=seconds, is_search=True)

    async def _asked(self, call: Call, question: Question, seconds: float, *, is_search: bool) -> Outcome:
        asking = replace(call, head=replace(call.head, path=question.target))
        return await self._send(asking, question.body, AttemptKind.LOOKUP, seconds=seconds, is_search=is_search)

    async def _send(
        self, call: Call, message: bytes | None, kind: AttemptKind, *, seconds: float | None, is_search: bool
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
            upstream_failed(self._services.recorder.metrics, outcome)
        elif len(outcome.message) >= LARGE_MESSAGE_BYTES:
            self._shared.calls.freed(len(outcome.message))  # the core's own copy
        return outcome


def _shed(record: RequestRecord, reason: Shed) -> Failure:
    record.shed(reason)
    return local_failure(Code.UNAVAILABLE, WORDING[Trouble.OVERLOADED][1])


def _ended_stream(done: Relayed | None, origin: Origin) -> Ended:
    relayed = Relayed() if done is None else done
    sizes = relayed.request_bytes, relayed.response_bytes
    return _ended(relayed.failure, origin, sizes, has_status=done is not None, is_relayed=True)


def _ended_single(call: Call, outcome: Outcome | None, origin: Origin) -> Ended:
    failure = outcome if isinstance(outcome, Failure) else None
    sizes = len(call.message or b""), 0 if outcome is None else outcome.body_bytes
    return _ended(failure, origin, sizes, has_status=outcome is not None, is_relayed=outcome is call.relayed)


def _ended(
    failure: Failure | None, origin: Origin, sizes: tuple[int, int], *, has_status: bool, is_relayed: bool
) -> Ended:
    """``sizes``: bytes of the messages of the request and of the response."""
    return Ended(
        method="POST",
        status=status(failure) if has_status else None,
        origin=speaker(failure),
        request_bytes=sizes[0],
        response_bytes=sizes[1],
        is_relayed=is_relayed,
        is_loopback=None,  # every call arrives through the socket between our port and the gRPC server
        code=code(failure) if has_status else None,
        cause="" if failure is None or failure.kind is None else cause_of(failure.kind, origin.authority),
    )
