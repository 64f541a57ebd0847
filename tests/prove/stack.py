"""The proxy's own command, alone or in front of a database that can be killed, seen through its admin listener."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bench.processes import environment as importable

from prove.database import Database
from support.process.stack import Command, exchange

POLL_SECONDS = 0.05
ANYWHERE = "127.0.0.1:0"


class Administered:
    """What the admin listener tells. ``admin``: its URL."""

    __slots__ = ()
    command: Command
    port: int
    admin: str

    async def get(self, path: str) -> tuple[int, str]:
        """Status and body of a page of the admin listener; 0 when it does not answer."""
        try:
            answer = await asyncio.to_thread(exchange, self.admin, "GET", path)
        except OSError:
            return 0, ""
        return answer.status, answer.body.decode()

    async def pids(self) -> list[int]:
        """The process ids of the workers, once all are ready."""
        for _ in range(400):
            status, body = await self.get("/status")
            workers = json.loads(body)["workers"] if status == 200 else []
            if workers and all(worker["state"] == "ready" for worker in workers):
                return [int(worker["pid"]) for worker in workers]
            await asyncio.sleep(POLL_SECONDS)
        raise AssertionError("the workers never became ready: " + self.command.output()[-2000:])

    async def replaced(self, pid: int, seconds: float = 20.0) -> float:
        """Seconds until ``pid`` is gone from the workers and all are ready."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        while loop.time() < begun + seconds:
            if pid not in await self.pids():
                return loop.time() - begun
            await asyncio.sleep(POLL_SECONDS)
        raise AssertionError(f"worker {pid} was never replaced")

    async def metric(self, name: str) -> float:
        """The sum of a metric's samples; ``name`` is a pattern that may select labels."""
        _, page = await self.get("/metrics")
        return sum(
            float(value) for value in re.findall(rf"^vecsieve_{name}(?:\{{[^}}]*\}})? (\S+)$", page, re.MULTILINE)
        )

    async def failed_open(self) -> Counter[str]:
        """How often each reason was counted."""
        _, page = await self.get("/metrics")
        counters = re.findall(r'^vecsieve_fail_open_total\{[^}]*reason="(\w+)"[^}]*\} (\S+)$', page, re.MULTILINE)
        return +Counter({reason: int(float(value)) for reason, value in counters})


@dataclass(frozen=True, slots=True)
class Proxy(Administered):
    """A running proxy."""

    command: Command
    port: int
    admin: str


@dataclass(frozen=True, slots=True)
class Stack(Administered):
    """A running proxy and its database."""

    database: Database
    command: Command
    port: int
    admin: str


@asynccontextmanager
async def proxy(
    upstream: str,
    *,
    workers: int = 1,
    mode: str = "on",
    environment: Mapping[str, str] | None = None,
    listen: str = ANYWHERE,
    admin: str = ANYWHERE,
    module: str = "vecsieve.proxy",
) -> AsyncIterator[Proxy]:
    """Run a proxy in front of what serves there until the block ends."""
    where = ("--upstream", upstream, "--listen", listen, "--admin", admin)
    arguments = ("serve", *where, "--mode", mode, "--workers", str(workers))
    command = Command(arguments, {**importable(), **(environment or {})}, module=module)
    try:
        urls = await asyncio.to_thread(command.addresses, 2)
        made = Proxy(command, urlsplit(urls["serve"]).port or 0, urls["admin"])
        if workers > 1:
            await made.pids()
        yield made
    finally:
        await asyncio.to_thread(command.close)


@asynccontextmanager
async def served() -> AsyncIterator[Database]:
    """Run a database until the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        database = Database(Path(folder) / "journal")
        database.start()
        try:
            await database.listening()
            yield database
        finally:
            database.kill()


@asynccontextmanager
async def stack(
    *, workers: int, mode: str = "on", environment: Mapping[str, str] | None = None
) -> AsyncIterator[Stack]:
    """Run both until the block ends."""
    async with served() as database:
        url = f"http://127.0.0.1:{database.port}"
        async with proxy(url, workers=workers, mode=mode, environment=environment) as before:
            yield Stack(database, before.command, before.port, before.admin)


def signalled(pid: int, number: signal.Signals) -> None:
    """Send a signal to a worker, which may just have ended."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return
