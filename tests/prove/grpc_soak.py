"""L6 over gRPC: searches, writes, unknown methods and streams with 1 % faults, and what the process holds before and after."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

from prove.finding import Finding, Scale
from prove.grpc_calls import OK, Callers, Calls, callers
from prove.grpc_database import FAIL, QUERY, STREAM, UNKNOWN, UPSERT
from prove.grpc_searches import LARGE, TINY, TOP_K, query
from prove.grpc_stack import GrpcStack, grpc_stack
from prove.openload import open_load
from prove.usage import MIB, Usage, usage
from prove.watched import task_report as watched
from support.qdrant.scripted_grpc import upsert

RATE = 100.0
FAULT = 100  # one call of so many fails as it was told
SHARE = 10  # of as long as over HTTP
LEAST_SECONDS = 4.0
SETTLED_SECONDS = 2.0
EXHAUSTED = 8
ALLOWED_MIB, ALLOWED_COUNT = 2.0, 3
STATUS = b"RESOURCE_EXHAUSTED"
KINDS = (
    (QUERY, query(TINY, limit=3)),
    (QUERY, query(LARGE, limit=TOP_K)),
    (UPSERT, upsert(1)),
    (UNKNOWN, b"x"),
    (STREAM, b"x"),
)


async def prove(scale: Scale) -> list[Finding]:
    """What comes first warms up: channels, caches, histograms."""
    seconds = max(LEAST_SECONDS, scale.soak_seconds / SHARE)
    with tempfile.TemporaryDirectory() as folder:
        watch = Path(folder) / "watch"
        async with (
            grpc_stack(workers=1, watch=watch) as running,
            callers(running.port, running.separate_port) as clients,
        ):
            await mixed(clients, max(LEAST_SECONDS, seconds / 3))
            before = await settled(running, watch)
            calls = await mixed(clients, seconds)
            after = await settled(running, watch)
    return judged(f"gRPC soak {seconds:.0f} s at {RATE:.0f}/s", calls, before, after)


async def mixed(clients: Callers, seconds: float) -> Calls:
    """Calls of each kind in turn. One of a hundred fails, and counts as OK when it does so as it was told."""
    calls = Calls()

    async def ask(number: bytes) -> int:
        turn = int(number)
        if turn % FAULT == 0:
            outcome = await clients.ask(FAIL, STATUS)
            return OK if outcome == EXHAUSTED else outcome
        method, message = KINDS[turn % len(KINDS)]
        return await (clients.talk(method, message) if method == STREAM else clients.ask(method, message))

    count = max(1, int(RATE * seconds))
    await open_load(0, lambda number: b"%d" % number, rate=RATE, count=count, heard=calls.heard, ask=ask)
    return calls


async def settled(running: GrpcStack, watch: Path) -> tuple[Usage, int]:
    """What the process holds when nothing is under way, and how many tasks live in it."""
    await asyncio.sleep(SETTLED_SECONDS)
    tasks, _ = await asyncio.to_thread(watched, watch)
    return usage([running.command.process.pid]), tasks


def judged(what: str, calls: Calls, before: tuple[Usage, int], after: tuple[Usage, int]) -> list[Finding]:
    """What has grown beside what may."""
    (was, tasks), (now, tasks_now) = before, after
    grown = (now.resident - was.resident) / MIB
    counted = {
        "fds": now.descriptors - was.descriptors,
        "threads": now.threads - was.threads,
        "tasks": tasks_now - tasks,
    }
    return [
        Finding("L6", what, "0 failed but those told to", calls.words(), not calls.failed),
        Finding("L6", what, f"RSS grows ≤ {ALLOWED_MIB:.0f} MiB", f"{grown:.2f} MiB", grown <= ALLOWED_MIB),
        *(
            Finding("L6", what, f"{name} ± {ALLOWED_COUNT}", f"{more:+d}", abs(more) <= ALLOWED_COUNT)
            for name, more in counted.items()
        ),
    ]
