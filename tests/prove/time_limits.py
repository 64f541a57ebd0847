"""Q: a slow database: no client whose timeout a direct call would have met misses it because of us"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import grpc

from prove.finding import Finding, Scale
from support.grpc.upstream import Arrived, Context, grpc_upstream
from support.network.faulty_upstream import FaultyUpstream, Talk, raw_exchange
from support.process.running import running
from support.qdrant.scripted import honest, is_widened, request, search
from support.qdrant.scripted_grpc import before, query
from support.qdrant.scripted_grpc import honest as honest_message
from support.qdrant.scripted_grpc import is_widened as is_widened_message
from vecsieve.proxy.search.hedge import HEDGE_TIMES

SLOW_SECONDS, CLIENT_SECONDS = 3.0, 5.0
SEARCHES, AT_ONCE = 24, 8

Delay = Callable[[bool], float]
"""Seconds of a search's answer; told whether it is a widened one."""

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

    async def script(talk: Talk) -> None:
        while (received := await talk.request()) is not None:
            await asyncio.sleep(delay(is_widened(received)))
            await talk.send(honest(received))
            if received.header(b"connection") == b"close":
                return

    async with FaultyUpstream(script) as upstream, running(upstream.url, hedge_times=HEDGE_TIMES) as proxy:
        port = upstream.port if mode == "direct" else proxy.port

        async def ask() -> bool:
            try:
                async with asyncio.timeout(CLIENT_SECONDS):
                    return (await raw_exchange(port, request(search()))).startswith(b"HTTP/1.1 200 ")
            except TimeoutError:
                return False

        yield ask


@asynccontextmanager
async def over_grpc(delay: Delay, mode: str) -> AsyncIterator[Ask]:
    """The same over gRPC, where the client says how long it waits."""

    async def script(call: Arrived, context: Context) -> None:
        message = await call.read(context)
        if message is not None:
            await asyncio.sleep(delay(is_widened_message(message)))
            await context.write(honest_message(message))

    async with grpc_upstream(Query=script) as database, before(database.address, hedge_times=HEDGE_TIMES) as proxy:
        port = database.port if mode == "direct" else proxy.port

        async def ask() -> bool:
            return (await query(port, timeout=CLIENT_SECONDS)).code is grpc.StatusCode.OK

        yield ask
