"""A gRPC database in a process of its own, to be killed: answers searches, and writes a line for each write before it answers.

It reads messages by itself: the official client's library takes a second to load, which is long for one that is killed so often.

Usage: python -m prove.grpc_database PORT JOURNAL ANSWERS     (ANSWERS: JSON, {collection: [[point, point with vectors], …]}, hex)
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

import grpc

Context = grpc.aio.ServicerContext[bytes, bytes]
Ranking = Sequence[tuple[bytes, bytes]]
QUERY, UPSERT = "/qdrant.Points/Query", "/qdrant.Points/Upsert"
PASSED = "/qdrant.Points/Count"  # a method known to be unary, that is no search
UNKNOWN = "/nobody.Knows/Method"
STREAM = "/prove.Streams/Echo"
SLOW = "/prove.Calls/Slow"  # "<seconds> <bytes>": an answer of so many bytes, so much later
FAIL = "/prove.Calls/Fail"  # fails with the code whose name the message is
OPTIONS = (("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1), ("grpc.so_reuseport", 0))
# Of QueryPoints.
COLLECTION, LIMIT, WITH_VECTORS = 1, 8, 10


def slow(seconds: float, size: int) -> bytes:
    """The message that asks for a slow answer."""
    return b"%f %d" % (seconds, size)


def members(message: bytes) -> dict[int, bytes | int]:
    """The last value of each field: a number, or bytes. Fixed ones are passed over."""
    fields: dict[int, bytes | int] = {}
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        if key & 7 == 0:
            fields[key >> 3], at = _varint(message, at)
        elif key & 7 == 2:
            size, at = _varint(message, at)
            fields[key >> 3] = message[at : at + size]
            at += size
        else:
            at += 8 if key & 7 == 1 else 4
    return fields


def _varint(message: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _sized(number: int, value: bytes) -> bytes:
    size, parts = len(value), bytearray((number << 3 | 2,))
    while size > 127:
        parts.append(size & 127 | 128)
        size >>= 7
    return bytes((*parts, size)) + value


class Methods(grpc.GenericRpcHandler):
    """What the database does for each method. Those it does not know are answered with their own message."""

    def __init__(self, journal: int, rankings: Mapping[str, Ranking]) -> None:
        self._journal = journal
        self._rankings = rankings
        self._matches: dict[bytes, bytes] = {}
        self._known: dict[str, Callable[[bytes, Context], Awaitable[bytes]]] = {
            QUERY: self._query,
            UPSERT: self._upsert,
            SLOW: _slowly,
            FAIL: _failed,
        }

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        if handler_call_details.method == STREAM:
            streams: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(_echo)
            return streams
        known = self._known.get(handler_call_details.method, _as_it_came)
        made: grpc.RpcMethodHandler[bytes, bytes] = grpc.unary_unary_rpc_method_handler(known)
        return made

    async def _query(self, message: bytes, _: Context) -> bytes:
        if message not in self._matches:
            self._matches[message] = answer(self._rankings, message)
        return self._matches[message]

    async def _upsert(self, message: bytes, _: Context) -> bytes:
        # The kernel has the line before the answer leaves: a SIGKILL loses nothing that was acknowledged.
        os.write(self._journal, b"%d\n" % upserted(message))
        return b"written"


def answer(rankings: Mapping[str, Ranking], message: bytes) -> bytes:
    """The reply to a search: as many points as it asks for, with their vectors where it asks for them."""
    fields = members(message)
    collection, limit = fields[COLLECTION], fields[LIMIT]
    assert isinstance(collection, bytes)
    assert isinstance(limit, int)
    selector = fields.get(WITH_VECTORS, b"")
    is_requested = selector not in {b"", b"\x08\x00"}  # enable: false
    points = rankings[collection.decode()][:limit]
    return b"".join(_sized(1, point[is_requested]) for point in points) + b"\x11" + bytes(8)


def upserted(message: bytes) -> int:
    """The number of the one point that a write brings."""
    point = members(message)[3]
    assert isinstance(point, bytes)
    number = members(point)[1]
    assert isinstance(number, bytes)
    value = members(number).get(1, 0)
    assert isinstance(value, int)
    return value


async def _slowly(message: bytes, _: Context) -> bytes:
    seconds, size = message.split()
    await asyncio.sleep(float(seconds))
    return bytes(int(size))


async def _failed(message: bytes, context: Context) -> bytes:
    await context.abort(grpc.StatusCode[message.decode()], "as asked")


async def _as_it_came(message: bytes, _: Context) -> bytes:
    return message


async def _echo(_: object, context: Context) -> None:
    while isinstance(message := await context.read(), bytes):
        await context.write(message)


def read_rankings(file: Path) -> dict[str, Ranking]:
    """What searches find, by collection."""
    content = json.loads(file.read_text(encoding="ascii"))
    return {
        name: [(bytes.fromhex(plain), bytes.fromhex(whole)) for plain, whole in points]
        for name, points in content.items()
    }


async def serve(port: int, journal: Path, answers: Path) -> None:
    """Serve until killed."""
    file = os.open(journal, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    server = grpc.aio.server(handlers=(Methods(file, read_rankings(answers)),), options=OPTIONS)
    server.add_insecure_port(f"127.0.0.1:{port}")
    await server.start()
    await server.wait_for_termination()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3])))
