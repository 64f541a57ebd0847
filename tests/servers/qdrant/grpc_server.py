"""The gRPC listener: the options that make it behave as the real server's does, start and stop."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio
from servers.embedded.collections import Call, Registry, Verb
from servers.embedded.fields import RefusalError
from servers.qdrant import catalogue, grpc_messages, grpc_requests, points, searches
from servers.qdrant.grpc_messages import Encoding, Writer, decoded, messages
from servers.qdrant.limits import RateExceededError
from servers.qdrant.rest import ABOUT, refused_key

from support.grpc.wire_fields import number_field
from vecsieve.config.addresses import Address

if TYPE_CHECKING:
    Context = grpc.aio.ServicerContext[bytes, bytes]

# The RPCs of Qdrant that the core has a verb for: which messages come and go, and how each is read and filled.


@dataclass(frozen=True, slots=True)
class Method:
    """One unary RPC. `request` and `reply` name message classes; `write` fills the reply with the verb's value."""

    request: str
    read: Callable[[Any], Call]
    verb: Verb
    reply: str
    write: Writer


def _write(request: str, read: Callable[[Any], Call], verb: Verb) -> Method:
    return Method(request, read, verb, "PointsOperationResponse", grpc_messages.written)


def _collection(request: str, read: Callable[[Any], Call], verb: Verb) -> Method:
    return Method(request, read, verb, "CollectionOperationResponse", grpc_requests.done)


_POINTS = {
    "Upsert": _write("UpsertPoints", grpc_requests.upsert, points.upsert),
    "Delete": _write("DeletePoints", grpc_requests.delete, points.delete),
    "UpdateVectors": _write("UpdatePointVectors", grpc_requests.update_vectors, points.update_vectors),
    "DeleteVectors": _write("DeletePointVectors", grpc_requests.delete_vectors, points.delete_vectors),
    "SetPayload": _write("SetPayloadPoints", grpc_requests.payload, points.set_payload),
    "OverwritePayload": _write("SetPayloadPoints", grpc_requests.payload, points.overwrite_payload),
    "DeletePayload": _write("DeletePayloadPoints", grpc_requests.delete_payload, points.delete_payload),
    "ClearPayload": _write("ClearPayloadPoints", grpc_requests.clear_payload, points.clear_payload),
    "CreateFieldIndex": _write("CreateFieldIndexCollection", grpc_requests.create_index, catalogue.create_index),
    "DeleteFieldIndex": _write("DeleteFieldIndexCollection", grpc_requests.delete_index, catalogue.delete_index),
    "CreateVectorName": _write("CreateVectorNameRequest", grpc_requests.create_vector, catalogue.create_vector),
    "DeleteVectorName": _write("DeleteVectorNameRequest", grpc_requests.delete_vector, catalogue.delete_vector),
    "UpdateBatch": Method(
        "UpdateBatchPoints",
        grpc_requests.batch,
        points.batch,
        "UpdateBatchResponse",
        grpc_messages.written_batch,
    ),
    "Get": Method("GetPoints", grpc_requests.get, points.retrieve, "GetResponse", grpc_messages.records),
    "Scroll": Method("ScrollPoints", grpc_requests.plain, points.scroll, "ScrollResponse", grpc_messages.scroll),
    "Count": Method("CountPoints", grpc_requests.plain, points.count, "CountResponse", grpc_messages.count),
    "Facet": Method("FacetCounts", grpc_requests.plain, points.facet, "FacetResponse", grpc_messages.facet),
    "Query": Method("QueryPoints", grpc_requests.plain, searches.query, "QueryResponse", grpc_messages.ranked),
    "QueryBatch": Method(
        "QueryBatchPoints",
        grpc_requests.query_batch,
        searches.query_batch,
        "QueryBatchResponse",
        grpc_messages.ranked_batch,
    ),
    "QueryGroups": Method(
        "QueryPointGroups",
        grpc_requests.plain,
        searches.query_groups,
        "QueryGroupsResponse",
        grpc_messages.groups,
    ),
    "Search": Method("SearchPoints", grpc_requests.search, searches.search, "SearchResponse", grpc_messages.ranked),
    "SearchBatch": Method(
        "SearchBatchPoints",
        grpc_requests.search_batch,
        searches.search_batch,
        "SearchBatchResponse",
        grpc_messages.ranked_batch,
    ),
    "SearchGroups": Method(
        "SearchPointGroups",
        grpc_requests.search_groups,
        searches.search_groups,
        "SearchGroupsResponse",
        grpc_messages.groups,
    ),
    "Recommend": Method(
        "RecommendPoints", grpc_requests.recommend, searches.recommend, "RecommendResponse", grpc_messages.ranked
    ),
    "RecommendBatch": Method(
        "RecommendBatchPoints",
        grpc_requests.recommend_batch,
        searches.recommend_batch,
        "RecommendBatchResponse",
        grpc_messages.ranked_batch,
    ),
    "RecommendGroups": Method(
        "RecommendPointGroups",
        grpc_requests.recommend_groups,
        searches.recommend_groups,
        "RecommendGroupsResponse",
        grpc_messages.groups,
    ),
    "Discover": Method(
        "DiscoverPoints", grpc_requests.discover, searches.discover, "DiscoverResponse", grpc_messages.ranked
    ),
    "DiscoverBatch": Method(
        "DiscoverBatchPoints",
        grpc_requests.discover_batch,
        searches.discover_batch,
        "DiscoverBatchResponse",
        grpc_messages.ranked_batch,
    ),
    "SearchMatrixPairs": Method(
        "SearchMatrixPoints", grpc_requests.plain, points.matrix_pairs, "SearchMatrixPairsResponse", grpc_messages.pairs
    ),
    "SearchMatrixOffsets": Method(
        "SearchMatrixPoints",
        grpc_requests.plain,
        points.matrix_offsets,
        "SearchMatrixOffsetsResponse",
        grpc_messages.offsets,
    ),
}
_COLLECTIONS = {
    "Create": _collection("CreateCollection", grpc_requests.create, catalogue.create),
    "Update": _collection("UpdateCollection", grpc_requests.change, catalogue.change),
    "Delete": _collection("DeleteCollection", grpc_requests.named, catalogue.delete),
    "UpdateAliases": _collection("ChangeAliases", grpc_requests.change_aliases, catalogue.change_aliases),
    "Get": Method(
        "GetCollectionInfoRequest",
        grpc_requests.named,
        catalogue.info,
        "GetCollectionInfoResponse",
        grpc_requests.info,
    ),
    "List": Method(
        "ListCollectionsRequest",
        grpc_requests.nothing,
        catalogue.listing,
        "ListCollectionsResponse",
        grpc_requests.listing,
    ),
    "CollectionExists": Method(
        "CollectionExistsRequest",
        grpc_requests.named,
        catalogue.exists,
        "CollectionExistsResponse",
        grpc_requests.exists,
    ),
    "ListAliases": Method(
        "ListAliasesRequest",
        grpc_requests.nothing,
        catalogue.aliases,
        "ListAliasesResponse",
        grpc_requests.aliases,
    ),
    "ListCollectionAliases": Method(
        "ListCollectionAliasesRequest",
        grpc_requests.named,
        catalogue.aliases_of,
        "ListAliasesResponse",
        grpc_requests.aliases,
    ),
}

METHODS: dict[str, Method] = {
    **{f"/qdrant.Points/{name}": method for name, method in _POINTS.items()},
    **{f"/qdrant.Collections/{name}": method for name, method in _COLLECTIONS.items()},
}
"""By full name, as it stands in the request's path."""

# Refusals as gRPC statuses: the code the server gives each kind of mistake, and its words.

_CODES = {
    400: grpc.StatusCode.INVALID_ARGUMENT,
    401: grpc.StatusCode.UNAUTHENTICATED,
    403: grpc.StatusCode.PERMISSION_DENIED,
    404: grpc.StatusCode.NOT_FOUND,
    409: grpc.StatusCode.ALREADY_EXISTS,
    422: grpc.StatusCode.INVALID_ARGUMENT,
    429: grpc.StatusCode.RESOURCE_EXHAUSTED,
    500: grpc.StatusCode.INTERNAL,
    501: grpc.StatusCode.UNIMPLEMENTED,
}
_FORMAT = "Format error in JSON body: "
_VALIDATION = "Validation error in "
_WHERE = ("JSON body", "path parameters", "query parameters")


def code_of(refusal: RefusalError) -> grpc.StatusCode:
    """The code for the refusal's HTTP status."""
    return _CODES[refusal.status]


def details_of(refusal: RefusalError) -> str:
    """The refusal's words without REST's: a message has no JSON, no path and no query, only a body."""
    text = refusal.message.removeprefix(_FORMAT)
    for where in _WHERE:
        text = text.replace(f"{_VALIDATION}{where}:", f"{_VALIDATION}body:")
    return text


def trailers_of(refusal: RefusalError) -> tuple[tuple[str, str], ...]:
    """When to ask again, if there is such a time."""
    seconds = refusal.retry_after_seconds if isinstance(refusal, RateExceededError) else None
    return () if seconds is None else (("retry-after", str(seconds)),)


# The gRPC shell: one handler that finds the method, reads the message, calls the verb and fills the reply.
#
# Messages come in and go out as bytes, so that what cannot be decoded is answered as the server answers it.

Behaviour = Callable[[bytes, "Context"], Awaitable[bytes]]

_SERVING = number_field(1, 1)
"""HealthCheckResponse with `status: SERVING`."""


class Service(grpc.GenericRpcHandler):
    """Answers every RPC of the server; the registry stays its maker's to close."""

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
        reply: bytes = messages().HealthCheckReply(**ABOUT).SerializeToString()
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
            except RefusalError as refusal:
                await context.abort(code_of(refusal), details_of(refusal), trailers_of(refusal))

        return answer

    def _answered(self, method: Method, message: Any) -> bytes:
        try:
            call = method.read(message)
        except ValueError as error:  # the official client's conversions, of a message that lacks what it must have
            raise RefusalError(400, str(error).split("\n", maxsplit=1)[0]) from error
        started = time.perf_counter()
        value = method.verb(self._registry, call)
        reply = getattr(messages(), method.reply)(time=time.perf_counter() - started)
        method.write(reply, value, self._encoding)
        answer: bytes = reply.SerializeToString()
        return answer


_GRACE_SECONDS = 2.0
_OPTIONS: tuple[tuple[str, int], ...] = (
    # tonic gzips every answer to a client that takes gzip. A level chooses among what the client takes; naming the
    # algorithm (`compression=`) breaks clients that take none: "Compression algorithm not supported" (grpcio 1.85).
    ("grpc.default_compression_level", 1),  # of what both know, the first: gzip
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # tonic counts no pings; grpcio would send GOAWAY to a client that pings an idle connection.
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_ping_strikes", 0),
    # Off, so that a port in use is an error and not shared.
    ("grpc.so_reuseport", 0),
)


class GrpcListener:
    """A listening gRPC server. `address`: with the port that was really bound."""

    def __init__(self, server: grpc.aio.Server, address: Address) -> None:
        self._server = server
        self.address = address

    async def close(self) -> None:
        """Take no more calls, and give those at work a moment."""
        await self._server.stop(_GRACE_SECONDS)


async def serve(service: Service, address: Address) -> GrpcListener:
    """Serve at the address (port 0 picks a free one). Raises OSError when it cannot be listened on."""
    server = grpc.aio.server(options=_OPTIONS)
    server.add_generic_rpc_handlers((service,))
    try:
        port = server.add_insecure_port(authority(address))
    except RuntimeError as error:
        raise OSError(
            f"cannot listen on {authority(address)} for gRPC: it is in use, or none of this machine's"
        ) from error
    await server.start()
    return GrpcListener(server, Address(address.host, port))


def authority(address: Address) -> str:
    """`host:port`, an IPv6 literal in brackets."""
    return f"[{address.host}]:{address.port}" if ":" in address.host else f"{address.host}:{address.port}"
