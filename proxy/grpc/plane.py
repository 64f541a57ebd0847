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
from ..search.errors import WORDING, Trouble, UpstreamExchangeError, cause_of, first_success
from ..search.exchange import Gate, Questioner
from ..search.policy import ResolvedPolicy, Rules, is_override
from ..search.report import bypass_headers
from ..search.service import SearchService
from ..search.services import ProcessServices
from ..telemetry.labels import AttemptKind, Bypass, LocalError, Shed, WriteOutcome
from ..telemetry.requests import Ended, RequestRecord
from ..telemetry.spans import Code
from ..telemetry.tracing import UNTRACED, Trace, sampled_trace_id
from ..writes.gate import WriteGate
from .exchange import GrpcExchange, Outcome, Questions, message_of
from .frames import Calls
from .relay import Context, Relayed, answer, end_with, received, relay, send
from .status import (
    Answer,
    Failure,
    Pairs,
    answered_locally,
    code,
    for_upstream,
    is_sendable,
    local_answer,
    local_failure,
    speaker,
    status,
    trace_parents,
    traced,
    unreachable,
    upstream_failed,
)
from .upstream import Channels

LOGGER = logging.getLogger("vecsieve.grpc")
# For receiving a relayed message: 256 MiB at 1 MB/s. gRPC does not report progress.
MESSAGE_SECONDS = 300.0
# A method with a longer name is refused, as a method that does not exist is: grpcio's client keeps every name until one comes a second time.
LONGEST_METHOD = 256

T = TypeVar("T")

AskOverRest = Callable[[Pairs, Question, float], Awaitable[bytes]]
"""Sends a read to the database's REST, with the metadata of a call and within this many seconds."""


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


@dataclass(slots=True, kw_only=True)
class _Call:
    """One call with one message, None if the client sent none. ``relayed``: upstream's own answer."""

    head: RequestHead
    context: Context
    metadata: Pairs
    trace: Trace
    message: bytes | None = None
    is_read: bool = False
    relayed: Outcome | None = None

    def value(self, name: str | None) -> str:
        """The first value of a key; "" without one."""
        return "" if name is None else next((str(value) for key, value in self.metadata if key == name), "")

    @property
    def fields(self) -> list[tuple[str, str]]:
        """The metadata if it contains overrides."""
        has_overrides = any(is_override(key) for key, _ in self.metadata)
        return [(key, str(value)) for key, value in self.metadata] if has_overrides else []


class Plane(grpc.GenericRpcHandler):
    """The handlers of one port. ``origin``: the destination of its calls. ``host``: the same for classification, "" with one upstream."""

    def __init__(self, shared: PlaneServices, origin: Origin, *, host: str = "") -> None:
        self._shared = shared
        self._services = shared.services
        self._origin = origin
        self._host = host
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
        call = _Call(head=head, context=context, metadata=metadata, trace=record.trace)
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

    async def _read_and_answer(self, call: _Call, record: RequestRecord) -> Outcome:
        late = await self._read(call)
        return await self._answered(call, record) if late is None else late

    async def _read(self, call: _Call) -> Failure | None:
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

    async def _answered(self, call: _Call, record: RequestRecord) -> Outcome:
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
            gate = self._shared.gate
            # A call whose metadata cannot be forwarded is refused when it is sent.
            is_read = message is not None and is_sendable(call.metadata)
            write = nameable(gate.adapter.classify(told)) if gate is not None and is_read else None
            policy = None if write is None or gate is None else gate.policy_of(write)
            if message is None or gate is None or write is None or policy is None:
                return await self._passed(call, told)
            questions = self._questions(call, message, write, is_traced=policy.write.mode != "observe")
            return await self._gated(call, told, gate, questions, policy)
        try:
            rules, policy = self._shared.searches.policy(operation, operation.collection, call.fields, record)
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

    def _questions(self, call: _Call, message: bytes, write: Operation, *, is_traced: bool) -> Questioner:
        asking = call if is_traced else replace(call, trace=UNTRACED)

        async def over_grpc(question: Question, seconds: float) -> bytes:
            return message_of(await self._asked(asking, question, seconds))

        over_rest = partial(self._shared.over_rest, for_upstream(call.metadata))
        return Questions(
            operation=write,
            plain=message,
            client_timeout_seconds=call.context.time_remaining(),
            asked=over_rest if self._shared.transport.asks_over_rest else over_grpc,
        )

    async def _passed(self, call: _Call, told: RequestHead) -> Outcome:
        """Forward a call that is no ranked search."""
        with self._shared.write_invalidation.passing(told):
            answered = await self._original(call)
        self._observe_reply(self._shared.transport.collection_of(told), answered)
        return answered

    async def _gated(
        self, call: _Call, told: RequestHead, gate: WriteGate, questions: Questioner, policy: ResolvedPolicy
    ) -> Outcome:
        """Forward an upsert, which the write gate examines before it is sent, or beside it."""
        size = len(questions.plain)
        is_small = size <= self._services.limits.write_body_bytes
        if not is_small or not gate.room.take(size):
            gate.passed(WriteOutcome.OVERLOAD if is_small else WriteOutcome.NOT_READ)
            return await self._passed(call, told)
        release: Callable[[], None] | None = partial(gate.room.give, size)
        try:
            if policy.write.mode == "observe":
                answered = await self._passed(call, told)
                if answered.is_success:
                    gate.observe(questions, policy, partial(gate.room.give, size))
                    release = None
                return answered
            return await self._changed(call, told, gate, questions, policy)
        finally:
            if release is not None:
                release()

    async def _changed(
        self, call: _Call, told: RequestHead, gate: WriteGate, questions: Questioner, policy: ResolvedPolicy
    ) -> Outcome:
        """Forward the gate's version of a write, or answer if nothing is left of it."""
        change = await gate.changed(questions, policy)
        if change is None:
            return await self._passed(call, told)
        try:
            if change.answer is not None:
                await gate.settle(change, questions, policy, is_success=True)
                return local_answer(change.answer)
            sent = call if change.body is None else replace(call, message=change.body)
            answered = await self._passed(sent, told)
            shown = gate.answer(change, answered.message) if isinstance(answered, Answer) else None
            await gate.settle(change, questions, policy, is_success=shown is not None, told=shown)
        except UpstreamExchangeError as failure:  # of the journal
            return unreachable(failure.kind)
        if shown is not None and isinstance(answered, Answer):
            answered = sent.relayed = replace(answered, message=shown.body)
        call.relayed = sent.relayed
        return answered

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
        self, call: _Call, record: RequestRecord, operation: Operation, kind: AttemptKind, gate: Gate | None = None
    ) -> Outcome:
        async def passing(answered: Outcome) -> None:
            seconds = self._services.clock() - started
            self._services.hedges.attempt_timeout.answered_plainly(operation, seconds)
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
        call: _Call,
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

    async def _widened(self, call: _Call, message: bytes, seconds: float, ending: Ending) -> Outcome:
        if (path := ending.of(call.head.path)) != call.head.path:
            call = replace(call, head=replace(call.head, path=path))
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


def _ended_single(call: _Call, outcome: Outcome | None, origin: Origin) -> Ended:
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
