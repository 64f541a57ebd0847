"""Handles every call on a gRPC port, and counts it."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

import grpc

from vecsieve.adapters.contract import RequestHead

from ..runtime.addresses import Origin
from ..search.errors import WORDING, Trouble, cause_of, first_success
from ..telemetry.labels import AttemptKind, LocalError
from ..telemetry.log import Ended
from ..telemetry.requests import RequestRecord
from ..telemetry.spans import Code
from ..telemetry.tracing import Leg
from .exchange import GrpcExchange, GrpcServices, observe_reply
from .relay import Context, Sizes, answer, end_with, relay
from .status import (
    HTTP_STATUSES,
    OVERLOADED,
    Outcome,
    answered_locally,
    local_failure,
    speaker,
    trace_parents,
    upstream_failed,
)

LOGGER = logging.getLogger("vecsieve.grpc")
# A method with a longer name is refused, as a method that does not exist is: grpcio's client keeps every name until one comes a second time.
LONGEST_METHOD = 256

_FELL = local_failure(Code.INTERNAL, WORDING[Trouble.INTERNAL][1])


class Plane(grpc.GenericRpcHandler):
    """The handlers of one port. ``origin``: the destination of its calls. ``host``: the same for classification, "" with one upstream."""

    def __init__(self, shared: GrpcServices, origin: Origin, host: str = "") -> None:
        self._shared = shared
        self._metrics = shared.services.metrics
        self._origin = origin
        self._host = host
        self._known: dict[str, grpc.RpcMethodHandler[Any, Any]] = {}  # handlers of the methods with this transport
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
        """For a call of unknown shape; the context carries its status."""

        async def stream(_messages: object, context: Context) -> None:
            if self._shared.gate is not None:
                self._shared.gate.streamed(head)
            record, sizes, outcome = self._begun(context), Sizes(), None
            try:
                answering = partial(self._relayed, head, context, record, sizes)
                outcome = await first_success([answering], partial(self._fell, record)) or _FELL
                end_with(context, outcome)
            finally:
                self._ended(record, outcome, sizes, is_relayed=True)
            self._count_unsent(context)

        return grpc.stream_stream_rpc_method_handler(stream)

    def _unary(self, head: RequestHead) -> grpc.RpcMethodHandler[Any, Any]:
        """For a call of one message each way."""
        shared, origin = self._shared, self._origin

        async def single(_messages: object, context: Context) -> bytes:
            record = self._begun(context)
            metadata = tuple(context.invocation_metadata() or ())
            exchange = GrpcExchange(record, record.trace, shared, head, origin, context, metadata)
            outcome: Outcome | None = None
            try:
                answering = partial(shared.pipeline.answer, exchange)
                outcome = await first_success([answering], partial(self._fell, record)) or _FELL
            finally:
                sizes = Sizes(len(exchange.message or b""), 0 if outcome is None else len(outcome.message))
                self._ended(record, outcome, sizes, is_relayed=outcome is exchange.answered)
            self._count_unsent(context)
            return await answer(context, outcome)

        return grpc.stream_unary_rpc_method_handler(single)

    async def _relayed(self, head: RequestHead, context: Context, record: RequestRecord, sizes: Sizes) -> Outcome:
        shared, trace = self._shared, record.trace
        place = await shared.pipeline.enter(record, is_search=False)
        if place is None:
            return OVERLOADED
        leg = Leg() if trace is None else trace.leg(AttemptKind.ORIGINAL, "POST", self._origin)
        try:
            with shared.write_invalidation.passing(head):
                outcome = await relay(
                    shared.channels,
                    context,
                    method=head.path,
                    origin=self._origin,
                    traceparent=leg.traceparent,
                    sizes=sizes,
                )
                leg.code = outcome.code
        finally:
            place.leave()
            if trace is not None:
                trace.ended(leg)
        if not outcome.is_success:
            observe_reply(shared, "", outcome)
            upstream_failed(self._metrics, outcome)
            answered_locally(self._metrics, outcome)
        return outcome

    def _count_unsent(self, context: Context) -> None:
        """Count the answer as unsent until grpcio has sent it."""

        def sent(_: object) -> None:
            self.unsent -= 1
            self._shared.calls.taken -= 1

        self.unsent += 1
        self._shared.calls.taken += 1
        context.add_done_callback(sent)  # type: ignore[arg-type]  # - the stubs want a class where any callable does

    def _begun(self, context: Context) -> RequestRecord:
        self._shared.calls.taken += 1
        return self._shared.services.recorder.begin(trace_parents(context.invocation_metadata() or ()))

    def _fell(self, record: RequestRecord, error: Exception) -> None:
        """An exception of ours, which is answered too."""
        LOGGER.error(
            "a call failed", extra={"fields": {"error": type(error).__name__, "request_id": record.request_id}}
        )
        self._metrics.local_errors_total.labels(LocalError.INTERNAL).inc()

    def _ended(self, record: RequestRecord, outcome: Outcome | None, sizes: Sizes, *, is_relayed: bool) -> None:
        ended = Ended(
            method="POST",
            status=None if outcome is None else HTTP_STATUSES.get(outcome.code, 500),
            origin=speaker(outcome),
            request_bytes=sizes.request_bytes,
            response_bytes=sizes.response_bytes,
            is_relayed=is_relayed,
            is_loopback=None,  # every call arrives through the socket between our port and the gRPC server
            code=None if outcome is None else outcome.code,
            cause="" if outcome is None or outcome.kind is None else cause_of(outcome.kind, self._origin.authority),
        )
        self._shared.calls.taken -= 1
        self._shared.services.recorder.end(record, ended)
