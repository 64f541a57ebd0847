"""G: fewer descriptors than connections: a hard limit of 1,024 and 1,100 silent clients; who was connected is served, and so is the operator"""

from __future__ import annotations

import asyncio
import resource
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

from prove.finding import Finding, Scale
from prove.load import SEARCH
from prove.stack import served
from support.network.faulty_upstream import RawClient
from support.process.stack import Command, exchange

HARD, SILENT, KEPT, ROUNDS = 1024, 1100, 20, 10
NO_GRPC_THERE = ("--grpc-upstream", "127.0.0.1:9")
SETTINGS: dict[str, Sequence[str]] = {"one process": (), "2 workers": ("--workers", "2"), "with gRPC": NO_GRPC_THERE}


async def prove(_scale: Scale) -> list[Finding]:
    """G7: each in front of one database."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    async with served() as database:
        upstream = f"http://127.0.0.1:{database.port}"
        found = [await raised(upstream)]
        for what, arguments in SETTINGS.items():
            found += await crowded(upstream, what, arguments)
    return found


@asynccontextmanager
async def limited(
    upstream: str, limits: tuple[int, int], arguments: Sequence[str]
) -> AsyncIterator[tuple[Command, dict[str, str]]]:
    """A proxy with this soft and hard limit."""
    where = ("--upstream", upstream, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--mode", "on")
    command = Command(("serve", *where, *arguments), None, descriptors=limits)
    try:
        yield command, await asyncio.to_thread(command.addresses, 2)
    finally:
        await asyncio.to_thread(command.close)


async def raised(upstream: str) -> Finding:
    """A soft limit far below what the settings ask for."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    async with limited(upstream, (256, most), ()) as (command, _urls):
        limits = Path(f"/proc/{command.process.pid}/limits").read_text(encoding="ascii")
    (line,) = (line for line in limits.splitlines() if line.startswith("Max open files"))
    soft = int(line.split()[3])
    criterion = "enough for 4,096 clients, or the hard limit"
    return Finding("G7", f"soft limit 256, hard limit {most}", criterion, f"soft limit {soft}", soft >= min(most, 4096))


async def crowded(upstream: str, what: str, arguments: Sequence[str]) -> list[Finding]:
    """More silent clients than descriptors, beside those who were there before."""
    said: Counter[int] = Counter()
    waits: list[float] = []
    async with limited(upstream, (HARD, HARD), arguments) as (command, urls), AsyncExitStack() as stack:
        port = urlsplit(urls["serve"]).port or 0
        kept = [await RawClient.connect(port) for _ in range(KEPT)]
        for each in kept:
            stack.push_async_callback(each.close)
        said.update(await asyncio.gather(*(status(each) for each in kept)))
        made = await asyncio.gather(*(RawClient.connect(port) for _ in range(SILENT)), return_exceptions=True)
        crowd = [each for each in made if isinstance(each, RawClient)]
        for each in crowd:
            stack.push_async_callback(each.close)
        for _ in range(ROUNDS):
            said.update(await asyncio.gather(*(status(each) for each in kept)))
            waits.append(await waited(urls["admin"]))
        served_after = await later(port)
        is_silent = "Too many open files" not in command.output()
    name = f"{what}, {HARD} descriptors, {len(crowd)} of {SILENT} silent clients"
    words = ", ".join(f"{count} × {code or 'no answer'}" for code, count in sorted(said.items()))
    return [
        Finding("G7", name, f"requests on {KEPT} open connections answered", words, set(said) == {200} and is_silent),
        Finding("G7", name, "admin answers < 0.5 s", f"slowest {1000 * max(waits):.0f} ms of {len(waits)}", max(waits) < 0.5),
        Finding("G7", name, "a new client is served ≤ 10 s", f"after {served_after:.1f} s", served_after <= 10.0),
    ]  # fmt: skip


async def status(client: RawClient) -> int:
    """Of one search on this connection; 0 without an answer."""
    try:
        await client.send(SEARCH)
        return (await client.reply()).status
    except (OSError, asyncio.IncompleteReadError, TimeoutError):
        return 0


async def waited(admin: str) -> float:
    """Seconds until the liveness page came; 10 where it did not."""
    begun = time.monotonic()
    try:
        answer = await asyncio.to_thread(exchange, admin, "GET", "/livez")
    except OSError:
        return 10.0
    return time.monotonic() - begun if answer.status == 200 else 10.0


async def later(port: int) -> float:
    """Seconds until a client that comes now, and again when it is refused, is served."""
    begun = time.monotonic()
    while time.monotonic() < begun + 20.0:
        client = await RawClient.connect(port)
        code = await status(client)
        await client.close()
        if code == 200:
            break
        await asyncio.sleep(0.1)
    return time.monotonic() - begun
