"""A Qdrant over gRPC that answers as it is told: the same ranking each time, and one planned misbehaviour for widened calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from qdrant_client import grpc as pb

from support.grpc.calls import Pairs, Seen, ask
from support.grpc.upstream import Arrived, Context, GrpcUpstream, Script, grpc_upstream
from support.process.running import Running, running
from support.qdrant.scripted import COPIES, DIMENSION, Delay

QUERY = "/qdrant.Points/Query"
UPSERT = "/qdrant.Points/Upsert"
INITIAL: Pairs = (("date", "Sat, 21 Nov 2026 00:00:00 GMT"), ("x-initial-bin", b"\x00\xff"))
TRAILING: Pairs = (("x-trailing", "1"), ("x-trailing", "2"))
SECONDS = 20.0

Misbehaviour = Callable[[Arrived, Context, bytes], Awaitable[None]]
"""Answers a widened call, whose message is the last argument, or does not."""


def search(limit: int = 3, *, collection: str = "c", **more: Any) -> bytes:
    """A search message as the official client words it."""
    nearest = pb.VectorInput(dense=pb.DenseVector(data=[0.5, 0.25, 0.125, 0.0]))
    whole = {"query": pb.Query(nearest=nearest), **more}
    message = pb.QueryPoints(collection_name=collection, limit=limit, **whole)
    data: bytes = message.SerializeToString()
    return data


def upsert(number: int) -> bytes:
    """A write of one point."""
    message = pb.UpsertPoints(collection_name="c", points=[pb.PointStruct(id=pb.PointId(num=number))])
    data: bytes = message.SerializeToString()
    return data


def parsed(message: bytes) -> Any:
    """A search message, read by protobuf's own library."""
    return pb.QueryPoints.FromString(message)


def is_widened(message: bytes) -> bool:
    """Whether the proxy asked for vectors that the client did not."""
    return list(parsed(message).with_vectors.include.names) == [""]


def honest(message: bytes) -> bytes:
    """The right answer to a search message, widened or not."""
    request = parsed(message)
    ranks = range(request.offset, min(request.offset + request.limit, len(COPIES)))
    points = [_point(rank, with_vector=request.HasField("with_vectors")) for rank in ranks]
    data: bytes = pb.QueryResponse(result=points, time=0.001).SerializeToString()
    return data


def _point(rank: int, *, with_vector: bool) -> Any:
    point = pb.ScoredPoint(id=pb.PointId(num=rank), version=1, score=round(0.9 - rank / 100, 2))
    if with_vector:
        numbers = [1.0 if axis == COPIES[rank] else 0.0 for axis in range(DIMENSION)]
        point.vectors.vector.dense.data.extend(numbers)
    return point


def ids(seen: Seen) -> list[int]:
    """Whom an answer names, in its order."""
    (message,) = seen.messages
    return ids_in(message)


def ids_in(message: bytes) -> list[int]:
    """Whom a reply names, in its order."""
    return [point.id.num for point in pb.QueryResponse.FromString(message).result]


async def say(context: Context, message: bytes) -> None:
    """A whole answer, with the metadata that answers here have."""
    await context.send_initial_metadata(INITIAL)
    await context.write(message)
    context.set_trailing_metadata(TRAILING)


async def honestly(_: Arrived, context: Context, message: bytes) -> None:
    """No misbehaviour."""
    await say(context, honest(message))


def answering(message: bytes) -> Misbehaviour:
    """Answers widened calls with this message."""

    async def misbehave(_: Arrived, context: Context, __: bytes) -> None:
        await say(context, message)

    return misbehave


def scripted(misbehaviour: Misbehaviour = honestly) -> Script:
    """Honest to everything but widened calls."""

    async def play(call: Arrived, context: Context) -> None:
        message = await call.read(context)
        assert message is not None
        if is_widened(message):
            await misbehaviour(call, context, message)
        else:
            await honestly(call, context, message)

    return play


def slowed(delay: Delay) -> Script:
    """Honest to everything, and late."""

    async def play(call: Arrived, context: Context) -> None:
        message = await call.read(context)
        assert message is not None
        await asyncio.sleep(delay(is_widened(message)))
        await context.write(honest(message))

    return play


@asynccontextmanager
async def in_front(
    misbehaviour: Misbehaviour = honestly, **settings: object
) -> AsyncIterator[tuple[GrpcUpstream, Running]]:
    """A scripted database and a data plane before it."""
    async with grpc_upstream(Query=scripted(misbehaviour)) as database, before(database.address, **settings) as proxy:
        yield database, proxy


@asynccontextmanager
async def before(address: str, **settings: object) -> AsyncIterator[Running]:
    """A data plane whose gRPC calls go to ``address``; nothing stands behind its HTTP."""
    section = settings.pop("grpc", {})
    assert isinstance(section, dict)
    async with running("http://127.0.0.1:9", grpc={"upstream": address, **section}, **settings) as proxy:
        yield proxy


async def query(
    port: int, message: bytes | None = None, *, metadata: Pairs = (), timeout: float | None = SECONDS
) -> Seen:
    """One search by raw bytes, on a connection of its own."""
    message_sent = search() if message is None else message
    return await ask(
        f"127.0.0.1:{port}", "unary_unary", (message_sent,), method=QUERY, metadata=metadata, timeout=timeout
    )


def messages(database: GrpcUpstream) -> list[bytes]:
    """Every message that reached the database, in order."""
    return [message for call in database.calls for message in call.messages]


def widened(database: GrpcUpstream) -> list[bytes]:
    """Those of them that the proxy had rewritten."""
    return [message for message in messages(database) if is_widened(message)]
