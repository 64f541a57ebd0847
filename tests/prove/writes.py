"""W: unique writes while the database and the workers are killed: none arrives twice, none that was acknowledged is lost."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable
from itertools import count

from prove.database import write
from prove.finding import Finding, Scale
from prove.openload import RequestRecorder, open_load
from prove.stack import Stack, signalled, stack

RATE = 300.0


async def prove(scale: Scale) -> list[Finding]:
    """The database is killed every 3 s, a worker every 5 s: SIGKILL and SIGTERM in turn."""
    acknowledged: set[int] = set()
    totals = RequestRecorder()

    def heard(number: int, status: int, seconds: float) -> None:
        totals.heard(number, status, seconds)
        if status == 200:
            acknowledged.add(number)

    async with stack(workers=2) as running:
        load = open_load(running.port, write, rate=RATE, count=scale.writes, heard=heard)
        broken = await killing(running, load, database_seconds=3.0, worker_seconds=5.0)
        written = running.database.written()
    twice = sum(1 for times in written.values() if times > 1)
    lost = len(acknowledged - set(written))
    what = f"{scale.writes} writes at {RATE:.0f}/s, upstream and workers killed"
    return [
        Finding("W2", what, "0 arrived twice", f"{twice} ({totals.words()})", not twice and not broken),
        Finding("W2", what, "0 acknowledged and missing", f"{lost} of {len(acknowledged)} {''.join(broken)}", not lost),
    ]


async def killing(
    running: Stack, load: Awaitable[None], *, database_seconds: float, worker_seconds: float
) -> list[str]:
    """Kill both again and again until the load ends; what broke a killer."""
    kills = [
        asyncio.create_task(every(database_seconds, database, running)),
        asyncio.create_task(every(worker_seconds, worker, running)),
    ]
    await load
    for task in kills:
        task.cancel()
    ended = await asyncio.gather(*kills, return_exceptions=True)
    return [repr(one) for one in ended if not isinstance(one, asyncio.CancelledError)]


async def every(seconds: float, act: Callable[[Stack, int], Awaitable[None]], running: Stack) -> None:
    """Act again and again until cancelled."""
    for number in count():
        await asyncio.sleep(seconds)
        await act(running, number)


async def database(running: Stack, _number: int) -> None:
    """Kill the database and start it again."""
    running.database.kill()
    running.database.start()
    await running.database.listening()


async def worker(running: Stack, number: int) -> None:
    """End one worker, the two in turn, by SIGKILL and by SIGTERM in turn."""
    pids = await running.pids()
    signalled(pids[number % len(pids)], signal.SIGTERM if number % 4 >= 2 else signal.SIGKILL)
