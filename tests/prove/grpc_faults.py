"""F over gRPC: every fault of the network before the database, on new and on used connections, in every mode."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import grpc

from prove.faults import CLIENT_SECONDS, MODES, named, network_faults
from prove.finding import Finding, Scale
from prove.grpc_calls import ALONE
from prove.toxics import Toxic, ToxicRelay
from support.grpc.calls import Pairs, Seen, ask_on
from support.grpc.upstream import grpc_upstream
from support.qdrant.scripted_grpc import QUERY, before, scripted, search
from vecsieve.proxy.search.hedge import HEDGE_TIMES

HANG_SECONDS = 0.5  # beyond what the client gave
ATTEMPT_SECONDS = 0.4
AT_ONCE = 5
MOST_ROUNDS = 20
FAULTS = network_faults(bandwidth=4_000)
REPORT = "x-vecsieve"
OFF = (("x-vecsieve-mode", "off"),)
CONNECTIONS = 3  # of each of the proxy's two kinds
BROKEN = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED}


@dataclass(frozen=True, slots=True)
class Invalidation:
    """What a call brought, how long it took, and how long it might have."""

    seen: Seen
    seconds: float
    allowed_seconds: float = CLIENT_SECONDS

    @property
    def is_hung(self) -> bool:
        """Whether it outlived its own deadline."""
        return self.seconds > self.allowed_seconds + HANG_SECONDS

    def without_report(self) -> Invalidation:
        """The same without the one thing the proxy adds of its own, in mode on."""
        initial = tuple(pair for pair in self.seen.initial if pair[0] != REPORT)
        return replace(self, seen=replace(self.seen, initial=initial))

    def words(self) -> str:
        """In short."""
        return f"{self.seen.code.name} {self.seen.details!r}{' hung' if self.is_hung else ''}"


async def heard(channel: grpc.aio.Channel, *, metadata: Pairs = (), seconds: float = CLIENT_SECONDS) -> Invalidation:
    """One search."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    seen = await ask_on(channel, "unary_unary", (search(),), method=QUERY, metadata=metadata, timeout=seconds)
    return Invalidation(seen, loop.time() - begun, seconds)


def is_same(direct: Invalidation, through: Invalidation, distinct: Seen) -> bool:
    """Whether the proxy kept its promise where a connection fails. ``distinct``: its answer when nothing does.

    Of a connection that broke a client's own core tells in words of its own; ours may be others, and may come before a
    deadline that a client without us would have waited for.
    """
    if through.is_hung:
        return False
    if direct.seen.code is grpc.StatusCode.OK:
        return through.seen in (direct.seen, distinct)
    return direct.seen.code in BROKEN and through.seen.code in BROKEN


async def prove(scale: Scale) -> list[Finding]:
    """One finding for each fault and mode."""
    rounds = min(scale.fault_rounds, MOST_ROUNDS)
    async with grpc_upstream(Query=scripted()) as database:

        async def of(mode: str) -> list[Finding]:
            return [
                await fault(database.port, mode, toxic, size, seconds, rounds=rounds) for toxic, size, seconds in FAULTS
            ]

        results = await asyncio.gather(*map(of, MODES))
        return [*itertools.chain.from_iterable(results)]


async def fault(port: int, mode: str, toxic: Toxic | None, size: int, seconds: float, *, rounds: int) -> Finding:
    """Each round through a proxy of its own, beside a direct call; on new connections and on used ones in turn."""

    async def one(number: int) -> str:
        async with ToxicRelay(port, size=size, seconds=seconds) as relay:
            return await differing(relay, mode, toxic, is_warm=number % 2 == 1)

    different = await in_batches(one, rounds)
    return judged("F1–F3", f"gRPC {named(toxic, size)}, mode {mode}", different, rounds)


async def differing(relay: ToxicRelay, mode: str, toxic: Toxic | None, *, is_warm: bool) -> str:
    """How the two answers differ; "" where they do not."""
    async with both(f"127.0.0.1:{relay.port}", mode) as (direct, through):
        if is_warm:
            await heard(direct)
            for metadata in ((), OFF) * CONNECTIONS:
                await heard(through, metadata=metadata)
        relay.toxic = toxic
        one, other = await asyncio.gather(heard(direct), heard(through))
    distinct = await undisturbed(relay.upstream, mode)
    if mode == "on":
        other = other.without_report()
    return "" if is_same(one, other, distinct.seen) else f"direct {one.words()}, through {other.words()}"


async def undisturbed(port: int, mode: str) -> Invalidation:
    """What the proxy answers when nothing fails."""
    async with both(f"127.0.0.1:{port}", mode) as (_, through):
        return (await heard(through)).without_report()


@asynccontextmanager
async def both(address: str, mode: str) -> AsyncIterator[tuple[grpc.aio.Channel, grpc.aio.Channel]]:
    """A channel to the address, and one through a proxy that knows nothing of it yet."""
    settings = {"limits": {"attempt_timeout_seconds": ATTEMPT_SECONDS}, "policy": {"mode": mode}}
    async with (
        before(address, hedge_times=HEDGE_TIMES, **settings) as proxy,
        grpc.aio.insecure_channel(address, options=ALONE) as direct,
        grpc.aio.insecure_channel(f"127.0.0.1:{proxy.port}", options=ALONE) as through,
    ):
        yield direct, through


async def in_batches(one: Callable[[int], Awaitable[str]], rounds: int) -> list[str]:
    """What went wrong in so many rounds, a few at a time."""
    messages: list[str] = []
    for start in range(0, rounds, AT_ONCE):
        messages += await asyncio.gather(*(one(number) for number in range(start, min(start + AT_ONCE, rounds))))
    return [words for words in messages if words]


def judged(name: str, what: str, different: list[str], rounds: int) -> Finding:
    """A finding of as many rounds."""
    last = f"; {different[-1]}" if different else ""
    measured = f"{rounds - len(different)} of {rounds}{last}"
    return Finding(name, what, "100 % as direct, no hang", measured, not different)
