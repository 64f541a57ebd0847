"""G: two instances behind a balancer, restarted in turn under load; one with a long request in flight told to end"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import count

from prove.finding import Finding, Scale
from prove.grace import loaded
from prove.load import SEARCH
from prove.openload import Pool, RequestRecorder, capacity
from prove.stack import Proxy, proxy, served
from support.network.faulty_upstream import FaultyUpstream, RawClient, Talk, reply
from support.network.ports import free_port

LOOK_SECONDS = 0.2  # how soon the balancer hears that an instance is no longer ready
ACCEPT_SECONDS = 2.0  # how long an instance that ends goes on accepting: ten looks
FRESH = SEARCH.replace(b"Host: db\r\n", b"Host: db\r\nConnection: close\r\n", 1)
GET = b"GET /slow HTTP/1.1\r\nHost: db\r\n\r\n"


@dataclass
class Instance:
    """One proxy at a fixed address, which can be ended and started again."""

    upstream: str
    port: int = field(default_factory=free_port)
    admin: int = field(default_factory=free_port)
    proxy: Proxy | None = None
    is_ready: bool = False
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)

    async def start(self) -> None:
        """Start it. Returns when it listens."""
        listen, admin = f"127.0.0.1:{self.port}", f"127.0.0.1:{self.admin}"
        seconds = {"VECSIEVE_LIMITS_DRAIN_ACCEPT_SECONDS": str(ACCEPT_SECONDS)}
        made = proxy(self.upstream, environment=seconds, listen=listen, admin=admin)
        self.proxy = await self.stack.enter_async_context(made)

    async def end(self) -> int:
        """SIGTERM; its exit status."""
        assert self.proxy is not None
        await self.stack.aclose()
        return int(self.proxy.command.process.returncode)

    async def look(self) -> None:
        """Ask whether it is ready, as a kubelet does."""
        self.is_ready = self.proxy is not None and (await self.proxy.get("/readyz"))[0] == 200


@dataclass
class Balancer:
    """What a Service does: each new connection goes to the next instance that is ready. Kept ones stay where they are."""

    instances: list[Instance]
    pools: dict[int, Pool] = field(default_factory=dict)
    turn: count[int] = field(default_factory=count)

    async def ask(self, raw: bytes) -> int:
        """The status of the whole answer from the next one; 0 for none. Nothing is asked twice."""
        ready = [one for one in self.instances if one.is_ready]
        if not ready:
            return 0
        chosen = ready[next(self.turn) % len(ready)].port
        return await self.pools.setdefault(chosen, Pool(chosen)).ask(raw)

    async def look(self) -> None:
        """Look after the instances until cancelled."""
        while True:
            await asyncio.gather(*(one.look() for one in self.instances))
            await asyncio.sleep(LOOK_SECONDS)


@asynccontextmanager
async def service(upstream: str) -> AsyncIterator[Balancer]:
    """Two instances and the balancer before them, until the block ends."""
    instances = [Instance(upstream), Instance(upstream)]
    balancer = Balancer(instances)
    async with AsyncExitStack() as stack:
        for one in instances:
            await one.start()
            await one.look()
            stack.push_async_callback(one.stack.aclose)
        looking = asyncio.create_task(balancer.look())
        try:
            yield balancer
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)


async def prove(scale: Scale) -> list[Finding]:
    """G1 over kept and fresh connections, then G2."""
    findings = []
    async with served() as database, service(f"http://127.0.0.1:{database.port}") as balancer:
        for name, raw in (("kept", SEARCH), ("fresh", FRESH)):
            findings.append(await restarted(balancer, name, raw, scale.restarts))
    return [*findings, *await ended(scale.long_request_seconds)]


async def restarted(balancer: Balancer, name: str, raw: bytes, times: int) -> Finding:
    """End one instance and start it again, then the other, so many times, at 80 % of what one of them can do.

    One, because while one restarts the other serves alone.
    """
    most = await capacity(balancer.instances[0].port, raw, seconds=1.0)
    statuses = []

    async def story() -> None:
        for _ in range(times):
            for one in balancer.instances:
                statuses.append(await one.end())
                await one.start()
                while not one.is_ready:
                    await asyncio.sleep(LOOK_SECONDS)

    totals = RequestRecorder()
    await loaded(story(), totals.heard, 0.8 * most, raw=raw, ask=balancer.ask)
    what = f"two instances restarted {times} × each at {0.8 * most:.0f}/s, {name} connections"
    summary = f"{totals.words()}; exits {sorted(set(statuses))}"
    return Finding("G1", what, "0 failed, each exits 0", summary, met=not totals.failed and set(statuses) == {0})


@asynccontextmanager
async def in_flight(upstream: FaultyUpstream) -> AsyncIterator[tuple[Proxy, RawClient]]:
    """A proxy, and the client of a request that has reached the upstream."""
    async with proxy(upstream.url) as running:
        client, before = await RawClient.connect(running.port), len(upstream.requests)
        await client.send(GET)
        while len(upstream.requests) == before:
            await asyncio.sleep(0.01)
        yield running, client
        client.writer.close()


async def ended(seconds: float) -> list[Finding]:
    """SIGTERM with a request in flight that takes so long; and a second SIGTERM when nobody would wait."""

    async def slow(talk: Talk) -> None:
        if await talk.request() is not None:
            await asyncio.sleep(seconds)
            await talk.send(reply(b"at last"))

    loop, totals = asyncio.get_running_loop(), RequestRecorder()
    async with FaultyUpstream(slow) as upstream:
        async with in_flight(upstream) as (running, client):
            begun = loop.time()
            running.command.process.send_signal(signal.SIGTERM)
            head = await asyncio.wait_for(client.reader.readuntil(b"\r\n\r\n"), seconds + 5)
            totals.heard(0, int(head.split(b" ", 2)[1]), loop.time() - begun)
            code = await asyncio.to_thread(running.command.process.wait, 5)
            first = loop.time() - begun
        async with in_flight(upstream) as (running, _):
            running.command.process.send_signal(signal.SIGTERM)
            await asyncio.sleep(0.3)
            begun = loop.time()
            running.command.process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(running.command.process.wait, 10)
            second = loop.time() - begun
    what = f"SIGTERM with a request of {seconds:.0f} s in flight"
    is_met = not totals.failed and code == 0 and first <= seconds + 5
    return [
        Finding("G2", what, "answered, then exit 0", f"{totals.words()}, exit {code} after {first:.1f} s", is_met),
        Finding("G2", "second SIGTERM amid it", "ended ≤ 1 s", f"{second:.2f} s", second <= 1.0),
    ]
