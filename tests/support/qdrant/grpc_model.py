"""What a Qdrant server writes for a gRPC search, byte for byte, over points whose rank is given.

Requests are read by protobuf's own library, replies are written field by field in the order in which the server writes
them, so that nothing is shared with the adapter. Ranking is not modelled: points come in the order they are stored.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Any

from qdrant_client import grpc

REQUESTS: dict[str, Any] = {
    "query": grpc.QueryPoints,
    "query_batch": grpc.QueryBatchPoints,
    "search": grpc.SearchPoints,
    "search_batch": grpc.SearchBatchPoints,
    "recommend": grpc.RecommendPoints,
    "recommend_batch": grpc.RecommendBatchPoints,
    "discover": grpc.DiscoverPoints,
    "discover_batch": grpc.DiscoverBatchPoints,
}
BATCH_ITEMS = {
    "query": "query_points",
    "search": "search_points",
    "recommend": "recommend_points",
    "discover": "discover_points",
}
TIME = b"\x11" + struct.pack("<d", 0.000154)


def varint(value: int) -> bytes:
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def field(number: int, payload: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(payload)) + payload


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcStored:
    """One point: a PointId, and serialised values, vectors and shard key. ``more``: fields nobody knows."""

    id: Any
    score: float
    payload: tuple[tuple[str, bytes], ...] = ()
    vectors: tuple[tuple[str, bytes], ...] = ()
    shard_key: bytes | None = None
    more: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrpcServer:
    """A collection in rank order. ``tail``: what follows the results."""

    points: tuple[GrpcStored, ...]
    tail: bytes = TIME

    def answer(self, operation: str, body: bytes) -> bytes:
        """The reply this server gives."""
        request: Any = REQUESTS[operation].FromString(body)
        name, _, is_batch = operation.partition("_")
        if not is_batch:
            return self._list(name, request) + self.tail
        items = getattr(request, BATCH_ITEMS[name])
        return b"".join(field(1, self._list(name, item)) for item in items) + self.tail

    def _list(self, name: str, request: Any) -> bytes:
        limit = 10 if name == "query" and not request.HasField("limit") else request.limit
        page = self.points[request.offset : request.offset + limit]
        return b"".join(field(1, _point(point, request)) for point in page)


def _point(point: GrpcStored, request: Any) -> bytes:
    message = field(1, point.id.SerializeToString())
    message += b"".join(
        field(2, field(1, key.encode()) + field(2, value)) for key, value in _payload(point, request.with_payload)
    )
    if point.score:
        message += b"\x1d" + struct.pack("<f", point.score)
    message += b"\x28\x03"
    vectors = _vectors(point, request.with_vectors)
    if vectors is not None:
        message += field(6, vectors)
    if point.shard_key is not None:
        message += field(7, point.shard_key)
    return message + point.more


def _payload(point: GrpcStored, selector: Any) -> list[tuple[str, bytes]]:
    option = selector.WhichOneof("selector_options")
    if option == "exclude":
        return [entry for entry in point.payload if entry[0] not in selector.exclude.fields]
    if option == "include":
        return [entry for entry in point.payload if entry[0] in selector.include.fields]
    return list(point.payload) if selector.enable else []


def _vectors(point: GrpcStored, selector: Any) -> bytes | None:
    option = selector.WhichOneof("selector_options")
    if option is None or (option == "enable" and not selector.enable):
        return None
    visible = [vector for vector in point.vectors if option == "enable" or vector[0] in selector.include.names]
    if [name for name, _ in visible] == [""]:
        return field(1, visible[0][1])
    entries = [field(1, field(1, name.encode()) + field(2, vector)) for name, vector in visible]
    return field(2, b"".join(entries))
