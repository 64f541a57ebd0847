"""The backends' dialects over gRPC, for the laws of the adapters: what their messages say, protobuf's own library tells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from google.protobuf.message import DecodeError
from hypothesis import strategies as st
from servers.pinecone.grpc_messages import message_type

from support.exchanges.adapter_laws import Dialect
from support.exchanges.conversation import Conversation
from support.pinecone import messages as pinecone_messages
from support.qdrant import grpc_conversations as qdrant_grpc_talks
from support.qdrant.grpc_model import BATCH_ITEMS, REQUESTS
from support.weaviate import conversations as weaviate_talks
from support.weaviate import messages as weaviate_messages
from vecsieve.adapters.wire.protobuf import fields


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcDialect(Dialect):
    """``requests``: the message of each operation. ``items``: of a batch, the name of what it lists. ``everything``: makes of a request one that
    wants all payload of so many results. ``result``: the number of a reply's results. ``payload``: where a result keeps it. ``reply``: a query's
    message. ``hide``: makes a result that came for comparison what it must look like.
    """

    requests: Mapping[str, Any]
    items: Mapping[str, str]
    everything: Callable[[Any, int], None]
    result: int
    results: Callable[[Any], Any]
    payload: Callable[[Any], Any]
    reply: Any
    hide: Callable[[Any], None]
    noise: tuple[bytes, ...] = (b"\x0a\x00", b"\x32\x00", b"\x12\x02\x0a")

    def undeclared(self, body: bytes, operation: str) -> object:
        message = self.requests[operation].FromString(body)
        listed = self.items.get(operation.partition("_")[0]) if "batch" in operation else None
        for item in [message] if listed is None else getattr(message, listed):
            for name in self.declared:
                item.ClearField(name)
        return message.SerializeToString(deterministic=True)

    def listed(self, body: bytes) -> tuple[list[Any], object]:
        parts = [(field.number == self.result, body[field.start : field.end]) for field in fields(body)]
        return [part for is_result, part in parts if is_result], [part for is_result, part in parts if not is_result]

    def stored(self, talk: Conversation, count: int, keys: Iterable[str]) -> list[dict[str, object]]:
        request = self.requests["query"].FromString(talk.body)
        self.everything(request, count)
        whole = self.reply.FromString(talk.answer(request.SerializeToString()))
        return [{key: True for key in keys if key in self.payload(result)} for result in self.results(whole)]

    def value(self, raw: bytes) -> object:
        return raw is not None

    def seen(self, body: bytes, *, hides: bool = False) -> object:
        try:
            message = self.reply.FromString(body)
        except DecodeError:  # damage to what is nobody's business here, such as a text that is no UTF-8
            return None
        for result in self.results(message) if hides else ():
            self.hide(result)
        return message.SerializeToString(deterministic=True)


def all_of_qdrant(request: Any, count: int) -> None:
    request.limit, request.offset = count, 0
    request.with_payload.enable = True


def _qdrant() -> GrpcDialect:
    from qdrant_client import grpc

    return GrpcDialect(
        conversations=qdrant_grpc_talks.conversations,
        path="/qdrant.Points/QueryBatch",
        requests=REQUESTS,
        items=BATCH_ITEMS,
        declared=frozenset({"limit", "offset", "with_vectors", "with_payload"}),
        content={"limit": 5, "offset": None, "with_vector": True},
        plain={"limit": 5, "offset": None, "with_vector": False, "with_payload": True},
        bare={"with_payload": False},
        payloads=st.sampled_from([True, False, None, [], ["id"], {"include": ["doc"]}]).map(
            lambda selector: {"with_payload": selector}
        ),
        everything=all_of_qdrant,
        result=1,
        results=lambda reply: reply.result,
        payload=lambda point: point.payload,
        reply=grpc.QueryResponse,
        hide=lambda point: point.ClearField("vectors"),
    )


def all_of_pinecone(request: Any, count: int) -> None:
    request.top_k, request.include_metadata = count, True


def without_values(match: Any) -> None:
    match.ClearField("values")
    match.ClearField("sparse_values")


def _pinecone() -> GrpcDialect:
    return GrpcDialect(
        conversations=pinecone_messages.conversations,
        path="/VectorService/Query",
        requests={"query": message_type("QueryRequest")},
        items={},
        declared=frozenset({"top_k", "include_values", "include_metadata"}),
        content={"top_k": 5, "include_values": True},
        plain={"top_k": 5, "include_values": False, "include_metadata": True},
        bare={"include_metadata": False},
        payloads=st.just({"include_metadata": True}),
        everything=all_of_pinecone,
        result=2,
        results=lambda reply: reply.matches,
        payload=lambda match: match.metadata,
        reply=message_type("QueryResponse"),
        hide=without_values,
    )


def all_of_weaviate(request: Any, count: int) -> None:
    request.limit, request.offset = count, 0
    request.ClearField("properties")


def without_stored_vectors(result: Any) -> None:
    for name in ("vector", "vector_bytes", "vectors"):
        result.metadata.ClearField(name)


def _weaviate() -> GrpcDialect:
    request = weaviate_messages.message_type("SearchRequest")
    return GrpcDialect(
        conversations=weaviate_talks.conversations,
        path=weaviate_talks.PATH,
        requests={"search": request, "query": request},
        items={},
        declared=frozenset({"limit", "offset", "metadata", "properties"}),
        content={"limit": 5, "offset": 0, "metadata": weaviate_talks.EVERYTHING},
        plain={"limit": 5, "offset": 0, "metadata": {"uuid": True, "distance": True, "score": True}},
        bare={"properties": {"non_ref_properties": ["doc"]}},
        # A name the collection does not have would be refused: what is optional is read where it comes by itself.
        payloads=st.just({"properties": None}),
        everything=all_of_weaviate,
        result=2,
        results=lambda reply: reply.results,
        payload=weaviate_talks.stored_properties,
        reply=weaviate_messages.message_type("SearchReply"),
        hide=without_stored_vectors,
    )


GRPC_DIALECTS = {"pinecone": _pinecone(), "qdrant": _qdrant(), "weaviate": _weaviate()}
