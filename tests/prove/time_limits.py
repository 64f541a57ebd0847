"""Q: a slow database: no client whose timeout a direct call would have met misses it because of us"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial

import grpc

from prove.finding import Finding, Scale
from support.grpc.upstream import grpc_upstream
from support.network.faulty_upstream import FaultyUpstream
from support.process.running import running
from support.qdrant.scripted import Delay, is_answered, slowed
from support.qdrant.scripted_grpc import before, query
from support.qdrant.scripted_grpc import slowed as slowed_message
from vecsieve.proxy.search.hedge import HEDGE_TIMES

SLOW_SECONDS, CLIENT_SECONDS = 3.0, 5.0
SEARCHES, AT_ONCE = 24, 8

DELAYS: dict[str, Delay] = {
    "3 s whatever is asked": lambda _: SLOW_SECONDS,
    "6 s for a widened search, 3 s for the client's own": lambda widened: SLOW_SECONDS * (1 + widened),
    "no answer to widened searches, 3 s for the client's own": lambda widened: 60.0 if widened else SLOW_SECONDS,
    "0 s": lambda _: 0.0,
}

Ask = Callable[[], Awaitable[bool]]
"""One search; whether it was answered before its client had waited too long."""


async def prove(scale: Scale) -> list[Finding]:
    """A row for each kind of slowness, transport and mode."""
    findings = []
    for name, delay in DELAYS.items():
        for mode in ("direct", "on"):
            async with over_rest(delay, mode) as ask:
                findings.append(await counted(ask, f"{name}, {mode}, REST"))
            async with over_grpc(delay, mode) as ask:
                findings.append(await counted(ask, f"{name}, {mode}, gRPC"))
    return findings


async def counted(ask: Ask, what: str) -> Finding:
    """So many searches, so many at once."""
    answered = 0
    for _ in range(0, SEARCHES, AT_ONCE):
        answered += sum(await asyncio.gather(*[ask() for _ in range(AT_ONCE)]))
    criterion = f"{SEARCHES} of {SEARCHES} answered within {CLIENT_SECONDS:.0f} s"
    return Finding("H8", what, criterion, f"{answered} of {SEARCHES}", met=answered == SEARCHES)


@asynccontextmanager
async def over_rest(delay: Delay, mode: str) -> AsyncIterator[Ask]:
    """Searches of a database that is as slow as that, and of a data plane before it."""
    async with FaultyUpstream(slowed(delay)) as upstream, running(upstream.url, hedge_times=HEDGE_TIMES) as proxy:
        port = upstream.port if mode == "direct" else proxy.port
        yield partial(is_answered, port, within_seconds=CLIENT_SECONDS)


@asynccontextmanager
async def over_grpc(delay: Delay, mode: str) -> AsyncIterator[Ask]:
    """The same over gRPC, where the client says how long it waits."""
    script = slowed_message(delay)
    async with grpc_upstream(Query=script) as database, before(database.address, hedge_times=HEDGE_TIMES) as proxy:
        port = database.port if mode == "direct" else proxy.port

        async def ask() -> bool:
            return (await query(port, timeout=CLIENT_SECONDS)).code is grpc.StatusCode.OK

        yield ask
