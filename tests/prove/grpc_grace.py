"""G over gRPC: workers replaced, killed and reloaded under load of ordinary channels, an upstream that goes away and comes back."""

from __future__ import annotations

import asyncio

from prove.finding import Finding, Scale
from prove.grace import end_idle, end_in_turn, kill, loaded, reload
from prove.grpc_calls import OK, OURS, Callers, Calls, callers, capacity
from prove.grpc_database import QUERY, UPSERT
from prove.grpc_searches import TINY, query
from prove.grpc_stack import GrpcStack, grpc_stack
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
        idle = await end_idle(running)
        findings.append(Finding("G2", "gRPC, SIGTERM to the idle crew", "≤ 1 s, exit 0", *idle))
    async with grpc_stack(workers=1, with_relay=True) as running, callers(running.port, channels=2) as clients:
        return [*findings, *await away(running, clients, min(scale.down_seconds, MOST_DOWN_SECONDS))]


async def rolling(running: GrpcStack, clients: Callers, rate: float) -> list[Finding]:
    before, calls = clients.goodbyes, Calls()
    await loaded(end_in_turn(running), calls.heard, rate, raw=SEARCH, ask=clients.to(QUERY))
    goodbyes = clients.goodbyes - before
    what = f"gRPC, workers restarted in turn at {rate:.0f}/s, {CHANNELS} channels"
    return [
        Finding("G1", what, "0 failed", calls.words(), not calls.failed),
        Finding("G1", what, "connections are sent away", f"{goodbyes} were", goodbyes > 0),
    ]


async def reloaded(running: GrpcStack, clients: Callers, scale: Scale, rate: float) -> Finding:
    calls = Calls()
    await loaded(reload(running, scale.reloads), calls.heard, rate, raw=SEARCH, ask=clients.to(QUERY))
    return Finding("G3", f"gRPC, {scale.reloads} reloads at {rate:.0f}/s", "0 failed", calls.words(), not calls.failed)


async def killed(running: GrpcStack, clients: Callers) -> list[Finding]:
    """SIGKILL to one worker: what it was answering is lost, and nothing else."""
    pids, calls = await running.pids(), Calls()
    took = await loaded(kill(running, pids[0]), calls.heard, 50.0, raw=SEARCH, ask=clients.to(QUERY))
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
