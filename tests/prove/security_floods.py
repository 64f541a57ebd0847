"""S4, S5: slow clients by the thousand, idle ones by ten thousand: they are let go or refused, and the others notice little."""

from __future__ import annotations

import asyncio
import gc
import resource
import shutil
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from urllib.parse import urlsplit

from prove.differential import through_nginx
from prove.finding import Finding, Scale
from prove.load import SEARCH
from prove.openload import Pool
from prove.security_apart import Fared, Served, crowd_apart, good_apart
from prove.usage import usage
from support.grpc.upstream import echo, grpc_upstream
from support.network.faulty_upstream import FaultyUpstream, Received, answering, reply
from support.process.stack import Command, exchange
from support.qdrant.scripted import honest
from vecsieve.proxy.grpc.shared_port import PREFACE

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
PACE = 200.0  # new connections a second: what slowhttptest's manual shows
SLOWEST_SECONDS, TIMES = 0.5, 10  # of any answer, and of the median: as for S11's floods
TOOL_SECONDS = 16
# What the good client's attackers do when slowhttptest is installed; each goes on once a second, its readers after five.
TOOL = {
    "heads": ("-H", "-i", "1", "-t", "POST"),
    "uploads": ("-B", "-i", "1", "-s", "8192", "-t", "PUT"),
    "readers": ("-X", "-w", "512", "-y", "1024", "-n", "5", "-z", "32"),
}
NGINX_CONNECTIONS = 9000  # for 2,000 attackers, the good client, and as many to the database


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
    findings = []
    for name, beginning, letters in (
        ("heads", HEADS, b"a"),
        ("uploads", BODIES, b"a"),
        ("searches", SEARCHES, b" "),
        ("readers", READERS, b""),
    ):
        async with target() as proxy:
            findings += await paced(proxy, Slow(f"slow {name}", beginning, letters, scale.slow_connections, PACE))
        async with target() as proxy:
            findings += await at_once(proxy, Slow(f"slow {name}", beginning, letters, scale.slow_connections))
    for name, options in TOOL.items():
        async with target() as proxy:
            findings.append(await by_tool(proxy, name, options, scale.slow_connections))
    for name, beginning in (("silent", b""), ("HTTP/2 preface only", PREFACE)):
        async with target() as proxy:
            findings += await idle(proxy, name, beginning, scale.idle_connections)
    return findings


@contextmanager
def no_collections() -> Iterator[None]:
    """The database lives in this process: a full collection of its garbage stopped it for 85 ms, and every answer with it."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@dataclass(frozen=True, slots=True)
class Slow:
    """So many attackers that begin so, ``a_second`` or all at once, and then say these letters once a second."""

    name: str
    beginning: bytes
    letters: bytes
    count: int
    a_second: float = 0.0

    @property
    def seconds(self) -> float:
        """How long they go on once all have come."""
        return HEADS_SECONDS if self.name == "slow heads" else OTHERS_SECONDS

    async def attack(self, victim: int, good_port: int) -> tuple[Served, Fared]:
        """What a good client of the port ``good_port`` sees meanwhile, and how those fared that attacked ``victim``."""
        reads = bool(self.letters)
        coming = self.count / self.a_second if self.a_second else 0.0
        async with (
            good_apart(good_port, RATE, coming + self.seconds) as good_client,
            crowd_apart(
                victim,
                self.beginning,
                self.count,
                a_second=self.a_second,
                reads=reads,
                letters=self.letters,
                seconds=self.seconds,
            ) as crowd,
        ):
            with no_collections():
                crowd.begin()
                served = await good_client.served()
            await crowd.connected()
            return served, await crowd.fared()


async def baseline(port: int) -> Served:
    """What a good client sees before."""
    async with good_apart(port, RATE, 3.0) as good_client:
        with no_collections():
            return await good_client.served()


def in_ms(seconds: float | None) -> float:
    """Ten seconds for what was never answered."""
    return 10_000.0 if seconds is None else 1000 * seconds


async def paced(proxy: Target, attack: Slow) -> list[Finding]:
    """A good client beside attackers that come as those of slowhttptest do; beside the same on another proxy, and at nginx: what this
    machine can do meanwhile.
    """
    before = await baseline(proxy.port)
    control = await elsewhere(proxy, attack)
    yardstick = await nginx_comparison(attack)
    during, fared = await attack.attack(proxy.port, proxy.port)
    what = f"{attack.count} {attack.name}, {attack.a_second:.0f} new ones a second, a good client at {RATE:.0f}/s"
    p99, was = in_ms(during.p99_seconds), in_ms(before.p99_seconds)
    findings = [
        Finding("S4", what, "errors 0", during.words(), not during.failed),
        Finding("S4", what, "p99 ≤ 2× baseline", f"{p99:.1f} ms, was {was:.1f} ms", p99 <= 2 * was),
        Finding("S4", f"{what}; they attack another proxy", "none: the machine's part", control, None),
        Finding("S4", f"{what}; all of them at one nginx process", "none: a yardstick", yardstick, None),
    ]
    if attack.name == "slow heads":
        findings.append(Finding("S4", what, f"all closed ≤ {HEAD_SECONDS:.0f} s", *verdict(fared)))
    return findings


async def at_once(proxy: Target, attack: Slow) -> list[Finding]:
    """All come in the same second; beside the same on another proxy, and at nginx: what this machine can do meanwhile."""
    before = await baseline(proxy.port)
    control = await elsewhere(proxy, attack)
    yardstick = await nginx_comparison(attack)
    during, _ = await attack.attack(proxy.port, proxy.port)
    what = f"{attack.count} {attack.name} at once, a good client at {RATE:.0f}/s"
    p50, was, slowest = in_ms(during.p50_seconds), in_ms(before.p50_seconds), in_ms(during.slowest_seconds)
    measured = f"p50 {p50:.1f} ms, was {was:.1f} ms, p99 {in_ms(during.p99_seconds):.1f} ms, slowest {slowest:.0f} ms"
    is_met = p50 <= TIMES * was and slowest <= 1000 * SLOWEST_SECONDS
    return [
        Finding("S4", what, "errors 0", during.words(), not during.failed),
        Finding("S4", what, f"p50 ≤ {TIMES} ×, slowest ≤ {SLOWEST_SECONDS} s", measured, is_met),
        Finding("S4", f"{what}; they attack another proxy", "none: the machine's part", control, None),
        Finding("S4", f"{what}; all of them at one nginx process", "none: a yardstick", yardstick, None),
    ]


async def elsewhere(proxy: Target, attack: Slow) -> str:
    """What a good client of ``proxy`` sees while the attack goes on at another proxy on this machine."""
    async with target() as other:
        served, _ = await attack.attack(other.port, proxy.port)
    return _times(served)


def _times(served: Served) -> str:
    if served.p99_seconds is None or served.slowest_seconds is None:
        return "no answer"
    return f"p99 {1000 * served.p99_seconds:.1f} ms, slowest {1000 * served.slowest_seconds:.0f} ms"


async def by_tool(proxy: Target, name: str, options: tuple[str, ...], count: int) -> Finding:
    """The attack by slowhttptest itself, where it is installed. Its heads and uploads all go on in the same instant of each second."""
    what = f"slowhttptest {' '.join(options)} -c {count} -r {PACE:.0f}, a good client at {RATE:.0f}/s"
    program = shutil.which("slowhttptest")
    if program is None:
        return Finding("S4", what, "errors 0, slowest ≤ 0.5 s", "slowhttptest is not installed here", None)
    before = await baseline(proxy.port)
    path = "/large" if name == "readers" else "/collections/c/points"
    general = (
        "-c",
        str(count),
        "-r",
        f"{PACE:.0f}",
        "-l",
        str(TOOL_SECONDS),
        "-u",
        f"http://127.0.0.1:{proxy.port}{path}",
    )
    attacking = await asyncio.create_subprocess_exec(program, *options, *general, stdout=asyncio.subprocess.DEVNULL)
    async with good_apart(proxy.port, RATE, TOOL_SECONDS - 2.0) as good_client:
        with no_collections():
            during = await good_client.served()
    await attacking.wait()
    is_met = not during.failed and in_ms(during.slowest_seconds) <= 1000 * SLOWEST_SECONDS
    measured = f"{during.words()}, {_times(during)}; before {_times(before)}"
    return Finding("S4", what, f"errors 0, slowest ≤ {SLOWEST_SECONDS} s", measured, is_met)


async def nginx_comparison(attack: Slow) -> str:
    """What the same good client sees where one process of nginx, with nothing held back, stands in the proxy's place."""
    async with FaultyUpstream(answering(answer)) as upstream:
        with through_nginx(upstream.port, connections=NGINX_CONNECTIONS) as port:
            if port is None:
                return "no nginx here"
            before = await baseline(port)
            served, _ = await attack.attack(port, port)
    return f"{_times(served)}; before {_times(before)}; {served.words()}"


def verdict(fared: Fared) -> tuple[str, bool]:
    """How long they were suffered, and whether none was for longer than a head may take."""
    measured = f"longest {fared.longest_seconds:.1f} s, {fared.standing} of {fared.count} open still"
    return measured, bool(fared.count) and not fared.standing and fared.longest_seconds <= HEAD_SECONDS


async def idle(proxy: Target, name: str, beginning: bytes, count: int) -> list[Finding]:
    """So many connections that do nothing more, and what they cost."""
    resident = usage([proxy.pid]).resident
    waits: list[float] = []
    async with crowd_apart(proxy.port, beginning, count) as crowd:
        gc.collect()
        crowd.begin()
        connecting = asyncio.create_task(crowd.connected())
        while not connecting.done():
            waits.append(await proxy.waited())
        await connecting
        await asyncio.sleep(1.0)
        waits.append(await proxy.waited())
        grown = (usage([proxy.pid]).resident - resident) / 2**20
        fared = await crowd.fared()
        await asyncio.sleep(HEAD_SECONDS)
        pool = Pool(proxy.port)
        status = await pool.ask(SEARCH)
        await pool.close()
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    what = f"{count} connections, {name} ({files} files allowed)"
    return [
        Finding("S5", what, "RSS ≤ +200 MiB", f"{grown:+.0f} MiB", grown <= 200),
        Finding("S5", what, f"at most {LIMIT} stay", f"{fared.standing} of {fared.count} connected", fared.standing <= LIMIT < count),
        Finding("S5", what, "admin answers < 100 ms", f"slowest {1000 * max(waits):.0f} ms of {len(waits)}", max(waits) < 0.1),
        Finding("S5", what, f"{HEAD_SECONDS:.0f} s later a new client is served", str(status or "no answer"), status == 200),
    ]  # fmt: skip
