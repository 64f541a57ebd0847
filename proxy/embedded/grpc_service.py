"""The gRPC shell: one handler that finds the method, reads the message, calls the verb and fills the reply.

Messages come in and go out as bytes, so that what cannot be decoded is answered as the server answers it.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

import grpc

from vecsieve.adapters.proto_wire import number_field
from vecsieve.proxy.embedded import service
from vecsieve.proxy.embedded.errors import Refusal
from vecsieve.proxy.embedded.grpc_messages import decoded, messages
from vecsieve.proxy.embedded.grpc_methods import METHODS, Method
from vecsieve.proxy.embedded.grpc_status import code_of, details_of, trailers_of
from vecsieve.proxy.embedded.grpc_vectors import Encoding
from vecsieve.proxy.embedded.keys import refused_key
from vecsieve.proxy.embedded.registry import Registry

if TYPE_CHECKING:  # generic for the checker alone
    Context = grpc.aio.ServicerContext[bytes, bytes]

Behaviour = Callable[[bytes, "Context"], Awaitable[bytes]]

_SERVING = number_field(1, 1)
"""HealthCheckResponse with `status: SERVING`."""


class Service(grpc.GenericRpcHandler):
    """Answers every RPC of the embedded server; the registry stays its maker's to close."""

    def __init__(self, registry: Registry, *, api_key: str | None, encoding: Encoding) -> None:
        self._registry = registry
        self._api_key = api_key
        self._encoding = encoding

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        """The handler of a method; None for what is not served, which gRPC answers with UNIMPLEMENTED."""
        path = handler_call_details.method
        # Both are answered without a key, as the server has it.
        open_methods: dict[str, Behaviour] = {
            "/grpc.health.v1.Health/Check": self._health,
            "/qdrant.Qdrant/HealthCheck": self._about,
        }
        if path in open_methods:
            return grpc.unary_unary_rpc_method_handler(open_methods[path])
        method = METHODS.get(path)
        return None if method is None else grpc.unary_unary_rpc_method_handler(self._guarded(method))

    async def _health(self, _request: bytes, _context: Context) -> bytes:
        return _SERVING

    async def _about(self, _request: bytes, _context: Context) -> bytes:
        reply: bytes = messages().HealthCheckReply(**service.ABOUT).SerializeToString()
        return reply

    def _guarded(self, method: Method) -> Behaviour:
        async def answer(request: bytes, context: Context) -> bytes:
            given = {name: value for name, value in context.invocation_metadata() or () if isinstance(value, str)}
            refused = refused_key(given, self._api_key)
            if refused is not None:
                await context.abort(grpc.StatusCode.UNAUTHENTICATED, refused)
            try:
                message = decoded(method.request, request)
            except ValueError as error:
                await context.abort(grpc.StatusCode.INTERNAL, str(error))
            try:
                return self._answered(method, message)
            except Refusal as refusal:
                await context.abort(code_of(refusal), details_of(refusal), trailers_of(refusal))

        return answer

    def _answered(self, method: Method, message: Any) -> bytes:
        try:
            call = method.read(message)
        except ValueError as error:  # the official client's conversions, of a message that lacks what it must have
            raise Refusal(400, str(error).split("\n", maxsplit=1)[0]) from error
        started = time.perf_counter()
        value = method.verb(self._registry, call)
        reply = getattr(messages(), method.reply)(time=time.perf_counter() - started)
        method.write(reply, value, self._encoding)
        answer: bytes = reply.SerializeToString()
        return answer
