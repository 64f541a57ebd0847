"""The gRPC shell of one index: its methods, the key and the version in the metadata, and the headers the edge adds.

Nothing here listens: a server, or whoever shares a port between transports, takes `Service` as its handler.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import grpc
from servers.pinecone.calls import Limits
from servers.pinecone.edge import Edge
from servers.pinecone.errors import NOT_FOUND, Refusal
from servers.pinecone.grpc_methods import METHODS, SERVICE, Said, answered
from servers.pinecone.store import Index
from servers.pinecone.versions import version_of

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[bytes, bytes]

_CODES: Mapping[int, grpc.StatusCode] = {code.value[0]: code for code in grpc.StatusCode}


class Service(grpc.GenericRpcHandler):
    """Answers for one index. `index`: the one that is there at this moment; None when it is deleted."""

    def __init__(self, index: Callable[[], Index | None], edge: Edge, limits: Limits) -> None:
        self._index = index
        self._edge = edge
        self._limits = limits

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[Any, Any] | None:
        """The handler of a method; None for what the service does not have, which gRPC refuses for itself."""
        name = handler_call_details.method.removeprefix(f"/{SERVICE}/")
        if name not in METHODS:
            return None

        async def answer(request: bytes, context: Context) -> bytes:
            return await self._answer(name, request, context)

        return grpc.unary_unary_rpc_method_handler(answer)

    async def _answer(self, name: str, request: bytes, context: Context) -> bytes:
        given = {key: _text(value) for key, value in context.invocation_metadata() or ()}
        reason = self._edge.rejected(given.get("api-key"))
        if reason is not None:
            # Over REST this is a 401 in plain text; what a gRPC client gets is inferred: its library's code for 401.
            context.set_trailing_metadata((("x-pinecone-auth-rejected-reason", reason),))
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, "Unauthorized")
        headers = self._edge.headers()
        try:
            said = self._said(name, version_of([given.get("x-pinecone-api-version", "")]), request)
        except Refusal as refusal:
            await context.send_initial_metadata(tuple(headers.items()))
            await context.abort(_CODES[refusal.code.number], refusal.message)
        await context.send_initial_metadata(tuple({**headers, **said.headers}.items()))
        return said.message

    def _said(self, name: str, version: str, request: bytes) -> Said:
        index = self._index()
        if index is None:
            raise Refusal(NOT_FOUND, "Index not found")
        return answered(index, name, version, request, self._limits)


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value
