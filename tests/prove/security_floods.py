"""S4, S5: slow clients by the thousand, idle ones by ten thousand: they are let go or refused, and the others notice little."""

from __future__ import annotations

import asyncio
import resource
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from prove.finding import Finding, Scale
from prove.held import held
from prove.load import SEARCH
from prove.openload import Pool, Tally, open_load
from prove.security_attackers import Attacker, Crowd, dribbled
from support.faultup import FaultyUpstream, Received, answering, reply
from support.grpc_upstream import echo, grpc_upstream
from support.scripted_qdrant import honest
from support.stack import Command, exchange
from vecsieve.proxy.grpc.preface import PREFACE

HEAD_SECONDS = 11.0  # limits.head_timeout_seconds and one to be told
HEADS_SECONDS = 13.0
OTHERS_SECONDS = 5.0
RATE = 50.0
LARGE = reply(b"x" * 2**20)
HEADS = b"POST /collections/c/points/query HTTP/1.1\r\nHost: db\r\nX-Slow: "
BODIES = b"PUT /collections/c/points HTTP/1.1\r\nHost: db\r\nContent-Length: 1000\r\n\r\n"
SEARCHES = b"POST /collections/c/points/query HTTP/1.1\r\nHost: db\r\nContent-Length: 1000\r\n\r\n"
READERS = b"GET /large HTTP/1.1\r\nHost: db\r\n\r\n"
LIMIT = 4096  # limits.connections


@dataclass(frozen=True, slots=True)
class Target:
    """A running proxy whose port speaks HTTP/1 and gRPC."""

    port: int
    admin: str
    pid: int

    async def waited(self, path: str = "/readyz") -> float:
        """Seconds until the admin listener has answered; ten when it has not."""
        begun = time.monotonic()
        try:
            answer = await asyncio.to_thread(exchange, self.admin, "GET", path)
        except OSError:
            return 10.0
        return time.monotonic() - begun if answer.status == 200 else 10.0


def answer(received: Received) -> bytes:
    """Large for the slow readers, a ranking for searches."""
    if received.line.startswith(b"GET "):
        return LARGE if received.line.startswith(b"GET /large ") else reply()
    return honest(received)


@asynccontextmanager
async def target() -> AsyncIterator[Target]:
    """The proxy's own command with its own defaults, allowed as many files as this machine lets it."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    async with FaultyUpstream(answering(answer)) as upstream, grpc_upstream(Query=echo) as calls:
        where = ("--upstream", upstream.url, "--grpc-upstream", calls.address)
        command = Command(("serve", *where, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"), None)
        try:
            urls = await asyncio.to_thread(command.addresses, 2)
            yield Target(urlsplit(urls["serve"]).port or 0, urls["admin"], command.process.pid)
        finally:
            await asyncio.to_thread(command.close)


async def prove(scale: Scale) -> list[Finding]:
    """Each attack on a proxy of its own."""
    found = []
    for name, beginning, letters in (("heads", HEADS, b"a"), ("uploads", BODIES, b"a"), ("searches", SEARCHES, b" ")):
        async with target() as proxy:
            found += await slow(proxy, f"slow {name}", beginning, letters, scale.slow_connections)
    async with target() as proxy:
        found += await slow(proxy, "slow readers", READERS, b"", scale.slow_connections)
    for name, beginning in (("silent", b""), ("HTTP/2 preface only", PREFACE)):
        async with target() as proxy:
            found += await idle(proxy, name, beginning, scale.idle_connections)
    return found


async def slow(proxy: Target, name: str, beginning: bytes, letters: bytes, count: int) -> list[Finding]:
    """So many attackers, one letter a second each, and a good client beside them."""
    seconds = HEADS_SECONDS if name == "slow heads" else OTHERS_SECONDS
    before = await good(proxy.port, 3.0)
    async with Crowd(proxy.port, beginning, reads=name != "slow readers") as crowd:
        attack = asyncio.create_task(_attack(crowd, count, letters, seconds))
        during = await good(proxy.port, seconds)
        await attack
        closed = verdict(crowd.attackers)
    what = f"{count} {name}, a good client at {RATE:.0f}/s"
    p99, was = (1000 * tally.latency.percentile(0.99) if tally.latency.count else 1e4 for tally in (during, before))
    found = [
        Finding("S4", what, "errors 0", during.words(), not during.failed),
        Finding("S4", what, "p99 ≤ 2× baseline", f"{p99:.1f} ms, was {was:.1f} ms", p99 <= 2 * was),
    ]
    if name == "slow heads":
        found.append(Finding("S4", what, f"all closed ≤ {HEAD_SECONDS:.0f} s", closed[0], closed[1]))
    return found


def verdict(attackers: Sequence[Attacker]) -> tuple[str, bool]:
    """How long they were suffered, and whether none was for longer than a head may take."""
    lives = [each.life_seconds for each in attackers]
    open_still = sum(life is None for life in lives)
    longest = max((life for life in lives if life is not None), default=0.0)
    said = f"longest {longest:.1f} s, {open_still} of {len(lives)} open still"
    return said, bool(lives) and not open_still and longest <= HEAD_SECONDS


async def _attack(crowd: Crowd, count: int, letters: bytes, seconds: float) -> None:
    until = asyncio.get_running_loop().time() + seconds
    await crowd.connect(count)
    await dribbled(crowd, letters, until=until)


async def good(port: int, seconds: float) -> Tally:
    """Searches of a client that behaves."""
    tally = Tally()
    await open_load(port, lambda _: SEARCH, rate=RATE, count=int(RATE * seconds), heard=tally.heard)
    return tally


async def idle(proxy: Target, name: str, beginning: bytes, count: int) -> list[Finding]:
    """So many connections that do nothing more, and what they cost."""
    resident = held([proxy.pid]).resident
    waits: list[float] = []
    async with Crowd(proxy.port, beginning) as crowd:
        connecting = asyncio.create_task(crowd.connect(count))
        while not connecting.done():
            waits.append(await proxy.waited())
        await asyncio.sleep(1.0)
        waits.append(await proxy.waited())
        grown = (held([proxy.pid]).resident - resident) / 2**20
        standing = sum(each.life_seconds is None for each in crowd.attackers)
        await asyncio.sleep(HEAD_SECONDS)
        pool = Pool(proxy.port)
        status = await pool.ask(SEARCH)
        await pool.close()
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    what = f"{count} connections, {name} ({files} files allowed)"
    return [
        Finding("S5", what, "RSS ≤ +200 MiB", f"{grown:+.0f} MiB", grown <= 200),
        Finding("S5", what, f"at most {LIMIT} stay", f"{standing} of {len(crowd.attackers)} connected", standing <= LIMIT < count),
        Finding("S5", what, "admin answers < 100 ms", f"slowest {1000 * max(waits):.0f} ms of {len(waits)}", max(waits) < 0.1),
        Finding("S5", what, f"{HEAD_SECONDS:.0f} s later a new client is served", str(status or "no answer"), status == 200),
    ]  # fmt: skip
