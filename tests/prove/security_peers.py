"""S11: one connection floods with small frames, chunks or requests: a good client beside it notices little, and the flood is cut"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from statistics import median

from bench.processes import environment

from prove.finding import Finding, Scale
from prove.grpc_calls import OK, callers
from prove.grpc_database import PASSED
from prove.grpc_stack import grpc_stack
from prove.load import SEARCH
from prove.openload import Pool
from prove.security_floods import target
from support.network.floods import FLOODS, Flood

GAP_SECONDS = 0.01
BASELINE_SECONDS = 1.5
FLOOD_SECONDS = 6.0
AHEAD_SECONDS = 0.5  # before the good client is measured: the first of a flood is not the flood
TIMES = 10
SLOWEST_SECONDS = 0.5

Ask = Callable[[], Awaitable[bool]]


@dataclass
class Latencies:
    """What a good client saw, one request after the other."""

    seconds: list[float] = field(default_factory=list)
    failed: int = 0

    @property
    def p50(self) -> float:
        """The median in seconds."""
        return median(self.seconds)

    def words(self) -> str:
        """Both as a phrase."""
        summary = f"p50 {1000 * self.p50:.1f} ms, slowest {1000 * max(self.seconds):.0f} ms of {len(self.seconds)}"
        return summary + (f", {self.failed} failed" if self.failed else "")


@dataclass(frozen=True, slots=True)
class Good:
    """A port and how a good client asks there."""

    port: int
    ask: Ask


@asynccontextmanager
async def over_http() -> AsyncIterator[Good]:
    """Searches on a kept connection."""
    async with target() as proxy:
        pool = Pool(proxy.port)

        async def ask() -> bool:
            return await pool.ask(SEARCH) == 200

        yield Good(proxy.port, ask)
        await pool.close()


@asynccontextmanager
async def over_grpc() -> AsyncIterator[Good]:
    """Calls of one message on a connection of their own."""
    async with grpc_stack(workers=1) as running, callers(running.port, channels=1) as calling:

        async def ask() -> bool:
            return await calling.ask(PASSED, bytes(100)) == OK

        yield Good(running.port, ask)


CLIENTS = {"HTTP": over_http, "gRPC": over_grpc}


async def prove(_scale: Scale) -> list[Finding]:
    """Each flood beside a client of each protocol, each on a proxy of its own."""
    findings = []
    for flood in FLOODS:
        for kind, clients in CLIENTS.items():
            async with clients() as good:
                findings += await under_flood(good, kind, flood)
    return findings


async def under_flood(good: Good, kind: str, flood: Flood) -> list[Finding]:
    """The good client without the flood, then with it."""
    await latencies_of(good.ask, AHEAD_SECONDS)
    before = await latencies_of(good.ask, BASELINE_SECONDS)
    command = (sys.executable, "-m", "prove.flooder", str(good.port), flood.name, str(FLOOD_SECONDS))
    flooding = await asyncio.create_subprocess_exec(*command, env=environment(), stdout=asyncio.subprocess.PIPE)
    await asyncio.sleep(AHEAD_SECONDS)
    during = await latencies_of(good.ask, FLOOD_SECONDS - 2 * AHEAD_SECONDS)
    output, _ = await flooding.communicate()
    cuts, goodbyes, sent = (int(word) for word in output.split())
    what = f"{flood.name}, a good client over {kind}"
    is_met = during.p50 <= TIMES * before.p50 and max(during.seconds) <= SLOWEST_SECONDS and not during.failed
    criterion = f"p50 ≤ {TIMES} ×, slowest ≤ {SLOWEST_SECONDS} s, 0 failed"
    findings = [Finding("S11", what, criterion, f"{during.words()}; before p50 {1000 * before.p50:.1f} ms", is_met)]
    if kind == "HTTP" and flood.is_cut:
        is_announced = bool(cuts) and goodbyes == cuts
        measured = f"{cuts} × cut, {goodbyes} with a goodbye, {sent / 2**20:.1f} MiB sent"
        findings.append(Finding("S11", flood.name, "cut with the protocol's goodbye", measured, is_announced))
    return findings


async def latencies_of(ask: Ask, seconds: float) -> Latencies:
    """One request after the other for so long."""
    latencies, until = Latencies(), time.monotonic() + seconds
    while (begun := time.monotonic()) < until:
        latencies.failed += not await ask()
        latencies.seconds.append(time.monotonic() - begun)
        await asyncio.sleep(GAP_SECONDS)
    return latencies
