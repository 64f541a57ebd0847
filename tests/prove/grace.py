"""G: workers replaced, killed and reloaded under load, an upstream that goes away and comes back"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from typing import TypeVar

from prove.finding import Finding, Scale
from prove.load import SEARCH
from prove.openload import Ask, Pool, RequestRecorder, capacity, open_load
from prove.stack import Stack, proxy, signalled, stack
from prove.toxics import Toxic, ToxicRelay

WORKERS = 2
T = TypeVar("T")


async def prove(scale: Scale) -> list[Finding]:
    """Two workers on one socket: as behind a Service (accepting 5 s while they drain), then as in a sidecar."""
    async with stack(workers=WORKERS, environment={"VECSIEVE_LIMITS_DRAIN_ACCEPT_SECONDS": "5"}) as running:
        most = await capacity(running.port, SEARCH, seconds=1.0)
        rolled = await rolling(running, 0.8 * most)
    async with stack(workers=WORKERS) as running:
        most = await capacity(running.port, SEARCH, seconds=1.0)
        findings = [
            rolled,
            *await killed(running),
            await reloaded(running, scale, most / 2),
            *await away(running, scale),
            *await knocking(min(10.0, scale.down_seconds)),
        ]
        return [*findings, Finding("G2", "SIGTERM to the idle crew", "≤ 1 s, exit 0", *await end_idle(running))]


async def loaded(
    story: Awaitable[T],
    heard: Callable[[int, int, float], None],
    rate: float,
    port: int = 0,
    *,
    raw: bytes = SEARCH,
    ask: Ask | None = None,
) -> T:
    """What the story came to; ``heard`` is told what became of searches at ``rate`` meanwhile."""
    task = asyncio.ensure_future(story)
    while not task.done():
        await open_load(port, lambda _: raw, rate=rate, count=max(1, int(rate / 2)), heard=heard, ask=ask)
    return await task


async def end_in_turn(running: Stack) -> None:
    """SIGTERM to one worker after the other, the next when the first was replaced."""
    for pid in await running.pids():
        signalled(pid, signal.SIGTERM)
        await running.replaced(pid)


async def kill(running: Stack, pid: int) -> float:
    """SIGKILL to one worker; after how many seconds it was replaced."""
    signalled(pid, signal.SIGKILL)
    return await running.replaced(pid)


async def reload(running: Stack, times: int) -> None:
    """SIGHUP again and again."""
    for _ in range(times):
        running.command.process.send_signal(signal.SIGHUP)
        await asyncio.sleep(0.03)


async def end_idle(running: Stack) -> tuple[str, bool]:
    """SIGTERM with nothing to do: how long that took and the exit code, and whether that meets the criterion."""
    loop = asyncio.get_running_loop()
    begun = loop.time()
    code = await asyncio.to_thread(running.command.close)
    took = loop.time() - begun
    return f"{took:.2f} s, exit {code}", code == 0 and took <= 1.0


async def rolling(running: Stack, rate: float) -> Finding:
    totals = RequestRecorder()
    await loaded(end_in_turn(running), totals.heard, rate, running.port)
    return Finding("G1", f"workers restarted in turn at {rate:.0f}/s", "0 failed", totals.words(), not totals.failed)


async def killed(running: Stack) -> list[Finding]:
    pids, totals = await running.pids(), RequestRecorder()
    took = await loaded(kill(running, pids[0]), totals.heard, 50.0, running.port)
    is_left = pids[1] in await running.pids()
    return [
        Finding(
            "G2", "SIGKILL of one of two workers", "replaced ≤ 2 s", f"{took:.2f} s ({totals.words()})", took <= 2.0
        ),
        Finding("G2", "the other worker", "left alone", "left alone" if is_left else "gone", is_left),
    ]


async def reloaded(running: Stack, scale: Scale, rate: float) -> Finding:
    totals = RequestRecorder()
    await loaded(reload(running, scale.reloads), totals.heard, rate, running.port)
    return Finding("G3", f"{scale.reloads} reloads at {rate:.0f}/s", "0 failed", totals.words(), not totals.failed)


async def away(running: Stack, scale: Scale) -> list[Finding]:
    """The database is killed and comes back."""
    loop, pool = asyncio.get_running_loop(), Pool(running.port)
    running.database.kill()
    until, seen, ready = loop.time() + scale.down_seconds, RequestRecorder(), True
    while loop.time() < until:
        begun = loop.time()
        seen.heard(0, await pool.ask(SEARCH), loop.time() - begun)
        ready = ready and (await running.get("/readyz"))[0] == 200
        await asyncio.sleep(0.1)
    running.database.start()
    await running.database.listening()
    begun = loop.time()
    while await pool.ask(SEARCH) != 200 and loop.time() < begun + 10.0:
        await asyncio.sleep(0.02)
    took = loop.time() - begun
    await pool.close()
    what = f"upstream down {scale.down_seconds:.0f} s"
    return [
        Finding("G4", what, "only 502 meanwhile", seen.words(), set(seen.statuses) == {502}),
        Finding("G4", what, "readyz stays 200", "yes" if ready else "no", ready),
        Finding("G4", what, "first success ≤ 1 s after", f"{took:.2f} s", took <= 1.0),
    ]


async def knocking(seconds: float) -> list[Finding]:
    """How often a proxy knocks at an upstream that hangs up: while nobody asks, and while ten searches a second do."""
    async with ToxicRelay(0, toxic=Toxic.DOWN) as relay, proxy(f"http://127.0.0.1:{relay.port}") as running:
        async with asyncio.timeout(10.0):
            while not relay.connections:  # at its start a proxy looks once whether the database accepts connections
                await asyncio.sleep(0.01)
        before = relay.connections
        await asyncio.sleep(seconds)
        alone = (relay.connections - before) / seconds
        before, totals = relay.connections, RequestRecorder()
        count = int(10 * seconds)
        await open_load(running.port, lambda _: SEARCH, rate=10.0, count=count, heard=totals.heard)
        connections = relay.connections - before
    what = "connections to an upstream that hangs up"
    summary = f"{connections / seconds:.1f}/s: {connections - count} more than searches"
    return [
        Finding("G4", f"{what}, while nobody asks", "0/s", f"{alone:.1f}/s", alone == 0),
        # Each search of a client's own may try: it is told a 502. The widened ones stop with the breaker, after five.
        Finding(
            "G4", f"{what}, {totals.words()}, 10/s", "≤ one a search, and five", summary, met=connections <= count + 5
        ),
    ]
