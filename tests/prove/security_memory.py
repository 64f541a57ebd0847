"""S13: memory under attack: header blocks that decode to a thousand times their bytes, alone, and with all floods and slow readers at once"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from bench.processes import environment

from prove.finding import Finding, Scale
from prove.grpc_stack import grpc_stack
from prove.held import forget_peak, held
from prove.security_apart import crowd_apart
from prove.security_floods import READERS, target
from support.floods import FLOODS

MIB = 2**20
BLOCKS = "fields that name a large entry"
SECONDS = 10.0
SETTLED_SECONDS = 4.0  # for what was cut to be let go of, and what it held to be given back
BLOCKS_MOST = 60  # MiB, as the core does with a client that sends the same once
TOGETHER_MOST = 384


@dataclass(frozen=True, slots=True)
class Victim:
    """A port, and the process behind it."""

    port: int
    pid: int


@asynccontextmanager
async def shared() -> AsyncIterator[Victim]:
    """The port that speaks HTTP/1 and gRPC."""
    async with target() as proxy:
        yield Victim(proxy.port, proxy.pid)


@asynccontextmanager
async def of_grpc() -> AsyncIterator[Victim]:
    """The port of gRPC alone."""
    async with grpc_stack(workers=1) as running:
        yield Victim(running.port, running.command.process.pid)


PORTS: dict[str, Callable[[], AbstractAsyncContextManager[Victim]]] = {"shared": shared, "gRPC's own": of_grpc}


async def prove(scale: Scale) -> list[Finding]:
    """Each on a proxy of its own."""
    found = []
    for name, port in PORTS.items():
        for count in (1, 12):
            async with port() as victim:
                peak, _, said = await flooded(victim, [BLOCKS] * count)
            what = f"{count} connections, {BLOCKS}, {name} port, {SECONDS:.0f} s"
            found.append(Finding("S13", what, f"RSS ≤ +{BLOCKS_MOST} MiB at the peak", said, peak <= BLOCKS_MOST))
    return [*found, *await together(scale.slow_connections)]


async def together(readers: int) -> list[Finding]:
    """All floods and so many slow readers at one proxy."""
    async with shared() as victim:
        before = held([victim.pid]).resident
        async with crowd_apart(victim.port, READERS, readers, reads=False, seconds=SECONDS) as crowd:
            crowd.begin()
            await crowd.connected()
            alone = (held([victim.pid]).resident - before) / MIB
            peak, _, said = await flooded(victim, [flood.name for flood in FLOODS], before)
            await crowd.fared()
        await asyncio.sleep(SETTLED_SECONDS)
        left = (held([victim.pid]).resident - before) / MIB
    what = f"{len(FLOODS)} floods and {readers} slow readers at once, {SECONDS:.0f} s"
    return [
        Finding("S13", what, f"RSS ≤ +{TOGETHER_MOST} MiB at the peak", f"{said}; the readers alone {alone:+.0f}", peak <= TOGETHER_MOST),
        Finding("S13", what, "none: freed blocks are kept for the next", f"{left:+.0f} MiB when all are gone", None),
    ]  # fmt: skip


async def flooded(victim: Victim, names: Sequence[str], before: int | None = None) -> tuple[float, float, str]:
    """By how many MiB it grew at the peak, and afterwards, with a connection for each flood; and both in words."""
    before = held([victim.pid]).resident if before is None else before
    forget_peak(victim.pid)
    commands = [(sys.executable, "-m", "prove.flooder", str(victim.port), name, str(SECONDS)) for name in names]
    pipe = asyncio.subprocess.PIPE
    floods = [await asyncio.create_subprocess_exec(*each, env=environment(), stdout=pipe) for each in commands]
    said = [(await each.communicate())[0].split() for each in floods]
    cuts, sent = (sum(int(words[place]) for words in said) for place in (0, 2))
    await asyncio.sleep(SETTLED_SECONDS)
    now = held([victim.pid])
    peak, left = (now.peak - before) / MIB, (now.resident - before) / MIB
    return peak, left, f"{peak:+.0f} MiB, {left:+.0f} afterwards; {cuts} × cut, {sent / MIB:.0f} MiB sent"
