"""The proxy's own command in front of a gRPC database that can be killed, with both of its gRPC ports."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from bench.processes import environment as importable

from prove.database import Database
from prove.grpc_searches import write_rankings
from prove.stack import Stack
from prove.toxics import ToxicRelay
from support.network.ports import free_port
from support.process.stack import Command


class GrpcDatabase(Database):
    """The process, its port and its journal, as of the one that speaks HTTP. What it finds lies beside the journal."""

    def start(self) -> None:
        """Start it, again on the same port. Returns before it listens."""
        self.port = self.port or free_port()
        answers = self.journal.with_name("answers")
        if not answers.exists():
            write_rankings(answers)
        command = [sys.executable, "-m", "prove.grpc_database", str(self.port), str(self.journal), str(answers)]
        self.process = subprocess.Popen(command, env=importable(), stdin=subprocess.DEVNULL)

    async def listening(self, seconds: float = 40.0) -> None:
        """Wait until it answers connections."""
        await super().listening(seconds)


@dataclass(frozen=True, slots=True)
class GrpcStack(Stack):
    """``port``: shared with HTTP/1; ``separate_port``: gRPC's alone; ``relay``: between the proxy and the database, where one was wanted."""

    separate_port: int
    relay: ToxicRelay | None = None


@asynccontextmanager
async def grpc_stack(*, workers: int, with_relay: bool = False, watch: Path | None = None) -> AsyncIterator[GrpcStack]:
    """Run both until the block ends. ``watch``: a socket on which the process tells what only it can count."""
    async with AsyncExitStack() as ends:
        database = GrpcDatabase(Path(ends.enter_context(tempfile.TemporaryDirectory())) / "journal")
        database.start()
        ends.callback(database.kill)
        relay = await ends.enter_async_context(ToxicRelay(database.port)) if with_relay else None
        command = _command(relay.port if relay else database.port, workers, watch)
        ends.push_async_callback(asyncio.to_thread, command.close)
        await database.listening()
        urls = await asyncio.to_thread(command.addresses, 3)
        ports = [urlsplit(urls[role]).port or 0 for role in ("serve", "gRPC")]
        made = GrpcStack(
            database=database, relay=relay, command=command, admin=urls["admin"], port=ports[0], separate_port=ports[1]
        )
        if workers > 1:
            await made.pids()
        yield made


def _command(port: int, workers: int, watch: Path | None) -> Command:
    where = ("--upstream", "http://127.0.0.1:9", "--grpc-upstream", f"127.0.0.1:{port}")
    ours = ("--listen", "127.0.0.1:0", "--grpc-listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    arguments = ("serve", *where, *ours, "--mode", "on", "--workers", str(workers))
    if watch is None:
        return Command(arguments, None)
    return Command(arguments, {**importable(), "PROVE_WATCH": str(watch)}, module="prove.watched")
