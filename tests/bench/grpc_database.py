"""The benchmark's database over both transports, in one process: the same pools as gRPC messages, and a sink for streams.

Usage: python -m bench.grpc_database PORT DIMENSIONS HTTP_PORT
"""

from __future__ import annotations

import asyncio
import struct
import sys
from collections.abc import AsyncIterator
from typing import Any, cast

import grpc
import orjson
from qdrant_client.conversions.conversion import json_to_value
from qdrant_client.grpc import points_pb2

from bench import database
from bench.database import Hit, Ranking
from bench.loops import run
from bench.store import store

# The stubs are generated at import and have no types.
_stubs = cast(Any, points_pb2)

Context = grpc.aio.ServicerContext[bytes, bytes]
QUERY, SINK = "/qdrant.Points/Query", "/bench.Stream/Sink"
OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1))
TIME = _stubs.QueryResponse(time=0.001234567).SerializeToString()


class Messages:
    """The store's points as pieces of messages: what stands before a score, and the vectors."""

    def __init__(self, ranking: Ranking) -> None:
        self._ranking, stored = ranking, ranking.stored
        self._payloads = [_payload(row, text) for row, text in enumerate(stored.texts)]
        self._vectors = [_vectors(row.tolist()) for row in stored.vectors]

    def answer(self, message: bytes) -> bytes:
        """A QueryResponse."""
        request = _stubs.QueryPoints.FromString(message)
        beginning = request.query.nearest.dense.data[:3]
        ids = _ids(request.filter)
        if ids is None:
            hits = self._ranking.pool(database.kind_of(request.collection_name), beginning, limit=request.limit)
        else:
            hits = self._ranking.lookup(ids, beginning, limit=request.limit)
        has_payload = request.with_payload.enable or request.with_payload.HasField("include")
        has_vectors = request.with_vectors.enable or request.with_vectors.HasField("include")
        points = (self._point(hit, has_payload=has_payload, has_vectors=has_vectors) for hit in hits)
        return self._ranking.count(b"".join(_field(1, point) for point in points) + TIME)

    def _point(self, hit: Hit, *, has_payload: bool, has_vectors: bool) -> bytes:
        """A ScoredPoint: id 1, payload 2, score 3, version 5, vectors 6."""
        number = b"\x08" + _varint(hit.id)
        parts = [_field(1, number)]
        if has_payload:
            parts.append(_renewed(self._payloads[hit.row], hit) if hit.generation else self._payloads[hit.row])
        parts.append(b"\x1d" + struct.pack("<f", float(hit.score)) + b"\x28" + _varint(hit.version))
        if has_vectors:
            parts.append(self._vectors[hit.row])
        return b"".join(parts)


def _payload(row: int, text: str) -> bytes:
    """The payload's members, as they stand in a ScoredPoint."""
    members = orjson.loads(database.payload(row, text).partition(b'"payload":')[2])
    return _members(members)


def _members(members: dict[str, object]) -> bytes:
    point = _stubs.ScoredPoint()
    for name, value in members.items():
        point.payload[name].CopyFrom(json_to_value(value))
    return cast(bytes, point.SerializeToString())


def _renewed(piece: bytes, hit: Hit) -> bytes:
    """The same payload with a text that was never seen before."""
    point = _stubs.ScoredPoint.FromString(piece)
    point.payload["text"].string_value = f"{hit.generation:x} " + point.payload["text"].string_value
    return cast(bytes, point.SerializeToString())


def _vectors(row: list[float]) -> bytes:
    point = _stubs.ScoredPoint()
    point.vectors.vector.dense.data.extend(row)
    return cast(bytes, point.SerializeToString())


def _ids(condition: Any) -> list[int] | None:
    """The ids of a has_id condition among those that must hold, at any depth."""
    for clause in condition.must:
        if clause.HasField("has_id"):
            return [one.num for one in clause.has_id.has_id]
        if clause.HasField("filter") and (ids := _ids(clause.filter)) is not None:
            return ids
    return None


def _field(number: int, value: bytes) -> bytes:
    return bytes((number << 3 | 2,)) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    made = bytearray()
    while value > 0x7F:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)


class Handler(grpc.GenericRpcHandler):
    """Searches and the sink; everything else is unimplemented."""

    def __init__(self, messages: Messages) -> None:
        self._messages = messages

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes] | None:
        """By the method's name."""
        made: grpc.RpcMethodHandler[bytes, bytes] | None = None
        if handler_call_details.method == SINK:
            made = grpc.stream_unary_rpc_method_handler(_counted)
        elif handler_call_details.method == QUERY:
            made = grpc.unary_unary_rpc_method_handler(self._answer)
        return made

    async def _answer(self, message: bytes, _context: Context) -> bytes:
        return self._messages.answer(message)


async def _counted(messages: AsyncIterator[bytes], _context: Context) -> bytes:
    received = 0
    async for message in messages:
        received += len(message)
    return b"%d" % received


async def serve(port: int, http_port: int, dimensions: int) -> None:
    """Serve until cancelled. The port of gRPC opens last."""
    ranking = Ranking(store(dimensions))
    rest = database.Rest(ranking)
    server = grpc.aio.server(handlers=(Handler(Messages(ranking)),), options=OPTIONS)
    loop = asyncio.get_running_loop()
    await loop.create_server(lambda: database.Connection(rest), "127.0.0.1", http_port)
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await asyncio.Event().wait()


if __name__ == "__main__":
    run(serve(int(sys.argv[1]), int(sys.argv[3]), int(sys.argv[2])))
