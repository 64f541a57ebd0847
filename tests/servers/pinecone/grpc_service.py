"""gRPC behind a port: methods, each with the path that it is over REST, and the messages of one index."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import grpc
import orjson
from servers.pinecone.calls import Call, Limits, version_of
from servers.pinecone.errors import MISSING, Code, RefusalError, too_long
from servers.pinecone.grpc_messages import as_bytes, as_json
from servers.pinecone.rest import DATA, Edge, find_route
from servers.pinecone.store import Index

from vecsieve.proxy.grpc.connections import InnerSocket
from vecsieve.proxy.grpc.frames import Calls

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[bytes, bytes]

# The methods of Pinecone's gRPC service, each with the REST call it is at the edge: both sides answer from one place.


Json = Any

SERVICE = "VectorService"
_UNIMPLEMENTED = Code(12, 501, "UNIMPLEMENTED")


@dataclass(frozen=True, slots=True)
class Method:
    """A method's messages and its REST call. Of a GET, fields are the query; braces in the path name one that is a part of it."""

    request: str
    reply: str
    verb: str
    path: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A reply's message, and the headers that the edge sends before it."""

    message: bytes
    headers: Mapping[str, str]


METHODS: Mapping[str, Method] = {
    "Upsert": Method("UpsertRequest", "UpsertResponse", "POST", "/vectors/upsert"),
    "Delete": Method("DeleteRequest", "DeleteResponse", "POST", "/vectors/delete"),
    "Fetch": Method("FetchRequest", "FetchResponse", "GET", "/vectors/fetch"),
    "List": Method("ListRequest", "ListResponse", "GET", "/vectors/list"),
    "Query": Method("QueryRequest", "QueryResponse", "POST", "/query"),
    "Update": Method("UpdateRequest", "UpdateResponse", "POST", "/vectors/update"),
    "DescribeIndexStats": Method(
        "DescribeIndexStatsRequest", "DescribeIndexStatsResponse", "POST", "/describe_index_stats"
    ),
    "ListNamespaces": Method("ListNamespacesRequest", "ListNamespacesResponse", "GET", "/namespaces"),
    "DescribeNamespace": Method("DescribeNamespaceRequest", "NamespaceDescription", "GET", "/namespaces/{namespace}"),
    "DeleteNamespace": Method("DeleteNamespaceRequest", "DeleteResponse", "DELETE", "/namespaces/{namespace}"),
    "CreateNamespace": Method("CreateNamespaceRequest", "NamespaceDescription", "POST", "/namespaces"),
    "FetchByMetadata": Method(
        "FetchByMetadataRequest", "FetchByMetadataResponse", "POST", "/vectors/fetch_by_metadata"
    ),
}


def answered(index: Index, name: str, version: str, raw: bytes, limits: Limits) -> Reply:
    """One call of a method of the table. Raises RefusalError."""
    method = METHODS[name]
    # Counted here, as protobuf: the JSON it becomes is several times as long, and nobody sent it.
    if method.request == "UpsertRequest" and len(raw) > limits.upsert:
        raise too_long(len(raw), limits.upsert)
    given = as_json(method.request, raw)
    part = str(given.pop("namespace", "")) if "{namespace}" in method.path else ""
    path = method.path.replace("{namespace}", quote(part, safe=""))
    route = find_route(DATA, method.verb, path, version)
    if route is None:
        raise RefusalError(_UNIMPLEMENTED, f"unknown method {name} for service {SERVICE}")
    verb, parameters = route
    is_posted = method.verb == "POST"
    call = Call(
        version=version,
        parameters=parameters,
        query=() if is_posted else _query(given),
        body=orjson.dumps(given) if is_posted else b"",
        limits=replace(limits, upsert=_UNCOUNTED),
    )
    answer = verb(index, call)
    headers = {header: value for header, value in answer.headers.items() if header != "grpc-status"}
    return Reply(message=as_bytes(method.reply, orjson.loads(answer.body)), headers=headers)


_UNCOUNTED = 2**62


def _query(given: Mapping[str, Json]) -> tuple[tuple[str, str], ...]:
    several = ((name, value if isinstance(value, list) else [value]) for name, value in given.items())
    return tuple((name, str(item)) for name, items in several for item in items)


# The gRPC shell of one index: its methods, the key and the version in the metadata, and the headers the edge adds.
#
# Nothing here listens: a server, or whoever shares a port between transports, takes `Service` as its handler.


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
            answer = self._reply_to(name, version_of([given.get("x-pinecone-api-version", "")]), request)
        except RefusalError as refusal:
            await context.send_initial_metadata(tuple(headers.items()))
            await context.abort(_CODES[refusal.code.number], refusal.message)
        await context.send_initial_metadata(tuple({**headers, **answer.headers}.items()))
        return answer.message

    def _reply_to(self, name: str, version: str, request: bytes) -> Reply:
        index = self._index()
        if index is None:
            raise RefusalError(MISSING, "Index not found")
        return answered(index, name, version, request, self._limits)


def _text(value: str | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else value


# A gRPC server for one handler, plaintext, behind a port that others can share.


_MOST_BYTES = 64 * 1024 * 1024
"""Read before any limit of the service is looked at, as over REST."""
_OPTIONS = (
    ("grpc.max_receive_message_length", _MOST_BYTES),
    ("grpc.max_send_message_length", -1),
    # Clients keep idle connections alive by pings; gRPC would hang up on them.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1000),
)
_SHUTDOWN_SECONDS = 2.0


class GrpcServer:
    """Made inside a running loop. `inner`: where it listens, at once; who connects before `start` waits."""

    def __init__(self, service: Service) -> None:
        self.inner = InnerSocket(Calls())
        self._server = grpc.aio.server(handlers=(service,), options=_OPTIONS)
        self._server.add_insecure_port(self.inner.grpc)

    async def start(self) -> None:
        """Answer."""
        await self._server.start()

    async def close(self) -> None:
        """Let calls end, for a moment."""
        await self._server.stop(_SHUTDOWN_SECONDS)
        self.inner.close()
