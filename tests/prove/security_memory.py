"""S13: memory under attack: header blocks that decode to a thousand times their bytes, alone and beside a good client, and with all floods and slow readers at once"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from bench.processes import environment

from prove.finding import Finding, Scale
from prove.grpc_calls import at, callers
from prove.grpc_database import PASSED
from prove.grpc_stack import grpc_stack
from prove.security_apart import crowd_apart, good_apart
from prove.security_floods import READERS, in_ms, no_collections, target
from prove.usage import forget_peak, usage
from support.network.floods import FLOODS

MIB = 2**20
BLOCKS = "fields that name a large entry"
SECONDS = 10.0
SETTLED_SECONDS = 4.0  # for what was cut to be let go of, and what it held to be given back
BLOCKS_MOST = 60  # MiB, as the core does with a client that sends the same once
TOGETHER_MOST = 384
RATE = 50.0  # requests a second of a good client
WARM_SECONDS = 1.0
TIMES = 2  # of a good client's p99


@dataclass(frozen=True, slots=True)
class Seen:
    """What a good client saw. ``p99``: in milliseconds."""

    p99: float
    failed: int
    words: str


Ask = Callable[[], Awaitable[Seen]]
Good = Callable[[float], AbstractAsyncContextManager[Ask]]
"""A good client that asks for so many seconds once it is told to."""


@dataclass(frozen=True, slots=True)
class Victim:
    """A port, the process behind it, and a good client of the port."""

    port: int
    pid: int
    good: Good


@asynccontextmanager
async def shared() -> AsyncIterator[Victim]:
    """The port that speaks HTTP/1 and gRPC; its good client searches over HTTP."""
    async with target() as proxy:

        @asynccontextmanager
        async def good(seconds: float) -> AsyncIterator[Ask]:
            async with good_apart(proxy.port, RATE, seconds) as good_client:

                async def ask() -> Seen:
                    with no_collections():
                        served = await good_client.served()
                    return Seen(in_ms(served.p99_seconds), served.failed, served.words())

                yield ask

        yield Victim(proxy.port, proxy.pid, good)


@asynccontextmanager
async def of_grpc() -> AsyncIterator[Victim]:
    """The port of gRPC alone."""
    async with grpc_stack(workers=1) as running:

        @asynccontextmanager
        async def good(seconds: float) -> AsyncIterator[Ask]:
            async with callers(running.separate_port, channels=1) as calling:

                async def ask() -> Seen:
                    with no_collections():
                        calls = await at(calling, PASSED, bytes(100), rate=RATE, seconds=seconds)
                    return Seen(calls.milliseconds(0.99), calls.failed, calls.words())

                yield ask

        yield Victim(running.separate_port, running.command.process.pid, good)


PORTS: dict[str, Callable[[], AbstractAsyncContextManager[Victim]]] = {"shared": shared, "gRPC's own": of_grpc}


async def prove(scale: Scale) -> list[Finding]:
    """Each on a proxy of its own."""
    findings = []
    for name in PORTS:
        for count in (1, 12):
            findings += await under_attack(name, count, SECONDS)
    return [*findings, *await together(scale.slow_connections)]


async def under_attack(name: str, count: int, seconds: float) -> list[Finding]:
    """So many connections with large blocks, and a good client: before, while they attack another proxy, and meanwhile."""
    port, attack = PORTS[name], [BLOCKS] * count
    async with port() as victim:
        async with victim.good(WARM_SECONDS) as ask:
            await ask()
        async with victim.good(seconds) as ask:
            before = await ask()
        async with port() as other, victim.good(seconds) as ask:
            control = await flooded(other, attack, seconds, ask=ask)
        async with victim.good(seconds) as ask:
            during = await flooded(victim, attack, seconds, ask=ask)
    what = f"{count} connections, {BLOCKS}, {name} port, {seconds:.0f} s"
    good = f"{what}, a good client at {RATE:.0f}/s"
    return [
        Finding("S13", what, f"RSS ≤ +{BLOCKS_MOST} MiB at the peak", during.words, during.peak <= BLOCKS_MOST),
        judged(good, before, control.seen, during.seen),
    ]


def judged(what: str, before: Seen, control: Seen | None, during: Seen | None) -> Finding:
    """Whether a good client noticed little: compared with what it sees beside the same attack on another proxy, which is the machine's part."""
    if control is None or during is None:
        return Finding("S13", what, "a good client", "none", met=False)
    baseline = max(before.p99, control.p99)
    measured = f"p99 {during.p99:.1f} ms, was {before.p99:.1f} ms, {control.p99:.1f} ms beside an attack on another proxy; {during.words}"
    is_met = not during.failed and during.p99 <= TIMES * baseline
    return Finding("S13", what, f"p99 ≤ {TIMES}× baseline, errors 0", measured, is_met)


async def together(readers: int) -> list[Finding]:
    """All floods and so many slow readers at one proxy."""
    async with shared() as victim:
        before = usage([victim.pid]).resident
        async with crowd_apart(victim.port, READERS, readers, reads=False, seconds=SECONDS) as crowd:
            crowd.begin()
            await crowd.connected()
            alone = (usage([victim.pid]).resident - before) / MIB
            floods = await flooded(victim, [flood.name for flood in FLOODS], SECONDS, before)
            await crowd.fared()
        await asyncio.sleep(SETTLED_SECONDS)
        left = (usage([victim.pid]).resident - before) / MIB
    what = f"{len(FLOODS)} floods and {readers} slow readers at once, {SECONDS:.0f} s"
    measured = f"{floods.words}; the readers alone {alone:+.0f}"
    return [
        Finding("S13", what, f"RSS ≤ +{TOGETHER_MOST} MiB at the peak", measured, floods.peak <= TOGETHER_MOST),
        Finding("S13", what, "none: freed blocks are kept for the next", f"{left:+.0f} MiB when all are gone", None),
    ]


@dataclass(frozen=True, slots=True)
class Flooded:
    """By how many MiB a process grew at the peak; that and what is left of it, in words; and what a good client saw."""

    peak: float
    words: str
    seen: Seen | None


async def flooded(
    victim: Victim, names: Sequence[str], seconds: float, before: int | None = None, *, ask: Ask | None = None
) -> Flooded:
    """A connection for each flood, in a process of its own. All begin together, and ``ask`` with them."""
    before = usage([victim.pid]).resident if before is None else before
    forget_peak(victim.pid)
    commands = [
        (sys.executable, "-m", "prove.flooder", str(victim.port), name, str(seconds), "waits") for name in names
    ]
    pipe = asyncio.subprocess.PIPE
    floods = [
        await asyncio.create_subprocess_exec(*command, env=environment(), stdin=pipe, stdout=pipe)
        for command in commands
    ]
    for flood in floods:
        assert flood.stdout is not None
        assert await flood.stdout.readline() == b"ready\n"
    ending = asyncio.gather(*(flood.communicate(b"go\n") for flood in floods))
    seen = None if ask is None else await ask()
    outputs = [out.split() for out, _ in await ending]
    cuts, sent = (sum(int(words[place]) for words in outputs) for place in (0, 2))
    await asyncio.sleep(SETTLED_SECONDS)
    now = usage([victim.pid])
    peak, left = (now.peak - before) / MIB, (now.resident - before) / MIB
    words = f"{peak:+.0f} MiB, {left:+.0f} afterwards; {cuts} × cut, {sent / MIB:.0f} MiB sent"
    return Flooded(peak, words, seen)
