"""G over gRPC: workers replaced, killed and reloaded under load of ordinary channels, an upstream that goes away and comes back."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable

from prove.finding import Finding, Scale
from prove.grpc_calls import OK, OURS, Callers, Calls, callers, capacity
from prove.grpc_database import QUERY, UPSERT
from prove.grpc_searches import TINY, query
from prove.grpc_stack import GrpcStack, grpc_stack
from prove.openload import open_load
from prove.stack import signalled
from prove.toxics import Toxic

WORKERS = 2
CHANNELS = 12
AT_ONCE = 16
UNAVAILABLE = 14
CAPACITY_SECONDS = 1.0
MOST_DOWN_SECONDS = 20.0
GROWING_SECONDS = 3.0  # from 0.1 s to 1 s between two tries of one of six connections
SEARCH = query(TINY, limit=3)


async def prove(scale: Scale) -> list[Finding]:
    """Two workers behind two ports; then one process behind a door where its connections are counted."""
    async with grpc_stack(workers=WORKERS) as running:
        async with callers(running.port, running.separate_port, channels=CHANNELS) as clients:
            await capacity(clients, QUERY, SEARCH, seconds=CAPACITY_SECONDS / 2)  # all connections are made
            most = await capacity(clients, QUERY, SEARCH, seconds=CAPACITY_SECONDS)
            findings = [
                *await rolling(running, clients, 0.8 * most),
                await reloaded(running, clients, scale, most / 2),
                *await killed(running, clients),
            ]
        findings.append(await ended(running))
    async with grpc_stack(workers=1, with_relay=True) as running, callers(running.port, channels=2) as clients:
        return [*findings, *await away(running, clients, min(scale.down_seconds, MOST_DOWN_SECONDS))]


async def during(clients: Callers, rate: float, story: Awaitable[None]) -> Calls:
    """What became of searches at ``rate`` while a story was told."""
    calls = Calls()
    task = asyncio.ensure_future(story)
    while not task.done():
        count = max(1, int(rate / 2))
        await open_load(0, lambda _: SEARCH, rate=rate, count=count, heard=calls.heard, ask=clients.to(QUERY))
    await task
    return calls


async def rolling(running: GrpcStack, clients: Callers, rate: float) -> list[Finding]:
    """SIGTERM to one worker after the other, the next when the first was replaced."""
    before = clients.goodbyes

    async def story() -> None:
        for pid in await running.pids():
            signalled(pid, signal.SIGTERM)
            await running.replaced(pid)

    calls = await during(clients, rate, story())
    goodbyes = clients.goodbyes - before
    what = f"gRPC, workers restarted in turn at {rate:.0f}/s, {CHANNELS} channels"
    return [
        Finding("G1", what, "0 failed", calls.words(), not calls.failed),
        Finding("G1", what, "connections are sent away", f"{goodbyes} were", goodbyes > 0),
    ]


async def reloaded(running: GrpcStack, clients: Callers, scale: Scale, rate: float) -> Finding:
    """SIGHUP again and again."""

    async def story() -> None:
        for _ in range(scale.reloads):
            running.command.process.send_signal(signal.SIGHUP)
            await asyncio.sleep(0.03)

    calls = await during(clients, rate, story())
    return Finding("G3", f"gRPC, {scale.reloads} reloads at {rate:.0f}/s", "0 failed", calls.words(), not calls.failed)


async def killed(running: GrpcStack, clients: Callers) -> list[Finding]:
    """SIGKILL to one worker: what it was answering is lost, and nothing else."""
    pids, took = await running.pids(), 0.0

    async def story() -> None:
        nonlocal took
        signalled(pids[0], signal.SIGKILL)
        took = await running.replaced(pids[0])

    calls = await during(clients, 50.0, story())
    what = "gRPC, SIGKILL of one of two workers"
    is_left = pids[1] in await running.pids()
    return [
        Finding("G2", what, "replaced ≤ 2 s", f"{took:.2f} s", took <= 2.0),
        Finding("G2", what, "the other left alone", "left alone" if is_left else "gone", is_left),
        spared(what, calls),
    ]


def spared(what: str, calls: Calls) -> Finding:
    """Whether only what the killed one was doing failed, and in the words of a client's own core."""
    met = set(calls.outcomes) <= {OK, UNAVAILABLE} and calls.failed <= AT_ONCE
    return Finding("G2", what, f"≤ {AT_ONCE} failed, UNAVAILABLE", calls.words(), met)


async def ended(running: GrpcStack) -> Finding:
    """SIGTERM with nothing to do and nobody connected."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    code = await asyncio.to_thread(running.command.close)
    took = loop.time() - begun
    met = code == 0 and took <= 1.0
    return Finding("G2", "gRPC, SIGTERM to the idle crew", "≤ 1 s, exit 0", f"{took:.2f} s, exit {code}", met)


async def away(running: GrpcStack, clients: Callers, seconds: float) -> list[Finding]:
    """The database is killed and its port accepts nobody; then both come back."""
    relay, loop = running.relay, asyncio.get_running_loop()
    assert relay is not None
    await clients.ask(QUERY, SEARCH)
    running.database.kill()
    relay.toxic = Toxic.DOWN
    seen, ready, tried = Calls(), True, [relay.connections]
    begun_at = loop.time()
    while loop.time() < begun_at + GROWING_SECONDS + seconds:
        if len(tried) == 1 and loop.time() > begun_at + GROWING_SECONDS:
            tried.append(relay.connections)
        for method in (QUERY, UPSERT):
            begun = loop.time()
            seen.heard(0, await clients.ask(method, SEARCH), loop.time() - begun)
        ready = ready and (await running.get("/readyz"))[0] == 200
        await asyncio.sleep(0.1)
    first, later = tried[1] - tried[0], (relay.connections - tried[1]) / seconds
    running.database.start()
    await running.database.listening()
    relay.toxic = None
    took = await _first_success(clients)
    what = f"gRPC, upstream down {seconds:.0f} s"
    return [
        meanwhile(what, seen),
        Finding("G4", what, "readyz stays 200", "yes" if ready else "no", ready),
        Finding("G4", what, f"tried in the first {GROWING_SECONDS:.0f} s", f"{first} connections", None),
        Finding("G4", what, "then ≤ 10 a second", f"{later:.1f}/s", 0 < later <= 10),
        Finding("G4", what, "first success ≤ 1 s after", f"{took:.2f} s", took <= 1.0),
    ]


def meanwhile(what: str, seen: Calls) -> Finding:
    """What was said of a database that is away: by whom, and soon."""
    met = set(seen.outcomes) == {UNAVAILABLE + OURS} and seen.latency.percentile(1.0) < 1.0
    slowest = f"{seen.words()}, slowest {1000 * seen.latency.percentile(1.0):.0f} ms"
    return Finding("G4", what, "UNAVAILABLE of the proxy, within 1 s", slowest, met)


async def _first_success(clients: Callers) -> float:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    while await clients.ask(QUERY, SEARCH) != OK and loop.time() < begun + 10.0:
        await asyncio.sleep(0.02)
    return loop.time() - begun
