"""F over gRPC, the database: statuses, broken messages and goodbyes, for widened searches alone and for every search."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial

import grpc
from qdrant_client import grpc as pb

from prove.faults import MODES
from prove.finding import Finding, Scale
from prove.grpc_faults import MOST_ROUNDS, Invalidation, both, heard, in_batches, judged
from prove.grpc_goodbye import WHO, saying_goodbye
from support.grpc.calls import Pairs
from support.grpc.raw import REPLY_HEAD, framed, raw_upstream
from support.grpc.upstream import Arrived, Context, grpc_upstream
from support.qdrant.scripted_grpc import honest, is_widened, say, search

Play = Callable[[Context, bytes], Awaitable[None]]
POOL = 8  # points that the scripted database has
PATIENT_SECONDS = 10.0  # none of these is silent: on a busy machine nothing is to be late
METADATA: Pairs = (("grpc-status-details-bin", b"\x08\x0e\x12\x01x"), ("x-why", "told"))
CODES = (
    grpc.StatusCode.UNAVAILABLE,
    grpc.StatusCode.RESOURCE_EXHAUSTED,
    grpc.StatusCode.INTERNAL,
    grpc.StatusCode.DEADLINE_EXCEEDED,
)
Served = AbstractAsyncContextManager[str]


async def ended(code: grpc.StatusCode, words: str, context: Context, _: bytes) -> None:
    """A status with all that may come with one."""
    await context.abort(code, words, METADATA)


async def garbage(context: Context, _: bytes) -> None:
    """Bytes that are no message."""
    await say(context, bytes(range(255, 0, -1)))


async def truncated(context: Context, message: bytes) -> None:
    """A message without its last bytes."""
    await say(context, honest(message)[:-11])


async def misshapen(context: Context, message: bytes) -> None:
    """Vectors of another length, one of them of no numbers, where vectors were asked for."""
    reply = pb.QueryResponse.FromString(honest(message))
    for rank, point in enumerate(reply.result if is_widened(message) else ()):
        point.vectors.vector.dense.data[:] = [float("nan")] * 4 if rank == 1 else [1.0] * (rank + 1)
    await say(context, reply.SerializeToString())


PLAYS: dict[str, Play] = {
    **{f"status {code.name}": partial(ended, code, "as it was told") for code in CODES},
    "garbage": garbage,
    "message cut short": truncated,
    "wrong vectors": misshapen,
}
# Of widened searches alone: a quota that they exhaust is told to the client, whose next search would exhaust it as well.
QUOTA = f"status {grpc.StatusCode.RESOURCE_EXHAUSTED.name}"
OVERSIZED = partial(ended, grpc.StatusCode.RESOURCE_EXHAUSTED, "Sent message larger than max (5000000 vs. 4194304)")
PLAYS_FOR_WIDENED: dict[str, Play] = {
    **{name: play for name, play in PLAYS.items() if name != QUOTA},
    f"{QUOTA} for its size": OVERSIZED,
}


@asynccontextmanager
async def playing(play: Play, *, is_for_all: bool = False) -> AsyncIterator[str]:
    """A database that plays so, for widened searches alone or for all."""

    async def script(call: Arrived, context: Context) -> None:
        message = await call.read(context)
        assert message is not None
        if is_for_all or is_widened(message):
            await play(context, message)
        else:
            await say(context, honest(message))

    async with grpc_upstream(Query=script) as database:
        yield database.address


@asynccontextmanager
async def cut_in_a_message() -> AsyncIterator[str]:
    """A stream that ends properly in the middle of a message."""
    async with raw_upstream(REPLY_HEAD, framed(honest(search()))[:-5], [(b"grpc-status", b"0")]) as database:
        yield database.address


def databases() -> dict[str, Callable[[], Served]]:
    """Every misbehaving database, by what it does."""
    alone = {f"{name}, widened searches": partial(playing, play) for name, play in PLAYS_FOR_WIDENED.items()}
    whole = {f"{name}, every search": partial(playing, play, is_for_all=True) for name, play in PLAYS.items()}
    return {
        **alone,
        **whole,
        "DATA ends in a message": cut_in_a_message,
        "GOAWAY, then the answer": partial(saying_goodbye, has_taken_it=True),
        "GOAWAY, the call was not looked at": partial(saying_goodbye, has_taken_it=False),
        "GOAWAY, then the end": partial(saying_goodbye, has_taken_it=True, answers=False),
    }


def is_reported(direct: Invalidation, through: Invalidation, distinct: bytes) -> bool:
    """Whether a client sees the same: what a database said passes word for word, an improved answer differs in its message."""
    if through.is_hung:
        return False
    one, other = direct.seen, through.seen
    if other.messages == (distinct,) and one.code is grpc.StatusCode.OK:
        return (one.code, one.details, one.initial, one.trailing) == (
            other.code,
            other.details,
            other.initial,
            other.trailing,
        )
    if one == other:
        return True
    if ("x-vecsieve-origin", "proxy") not in other.trailing:
        return False
    if one.code is grpc.StatusCode.OK:  # without a message: no answer, though the library calls it one
        return not any(one.messages) and other.code is grpc.StatusCode.INTERNAL
    return one.code is other.code is grpc.StatusCode.UNAVAILABLE and not one.trailing


def best() -> bytes:
    """The distinct answer to the search, when nothing is wrong with the widened one."""
    reply = pb.QueryResponse.FromString(honest(search(limit=POOL)))
    kept = [reply.result[rank] for rank in (0, 2, 3)]
    data: bytes = pb.QueryResponse(result=kept, time=reply.time).SerializeToString()
    return data


async def prove(scale: Scale) -> list[Finding]:
    """One finding for each misbehaviour and mode."""
    rounds = min(scale.fault_rounds, MOST_ROUNDS)
    return [
        await misbehaving(name, served, mode, rounds=rounds) for mode in MODES for name, served in databases().items()
    ]


async def misbehaving(name: str, served: Callable[[], Served], mode: str, *, rounds: int) -> Finding:
    """Each round through a proxy of its own, beside a direct call."""

    async def one(address: str, number: int) -> str:
        async with both(address, mode) as (direct, through):
            here, there = await asyncio.gather(
                *(
                    heard(by, metadata=((WHO, f"{name} {number}"),), seconds=PATIENT_SECONDS)
                    for name, by in (("direct", direct), ("through", through))
                )
            )
        if mode == "on":
            there = there.without_report()
        return "" if is_reported(here, there, best()) else f"direct {here.words()}, through {there.words()}"

    async with served() as address:
        different = await in_batches(partial(one, address), rounds)
    return judged("F1–F3", f"gRPC {name}, mode {mode}", different, rounds)
