"""L: searches, reads and writes at 200/s for a long time, one in a hundred with a fault: nothing grows

Runs in a thread of its own beside sections whose figures are no times.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from prove.answer_faults import SLOW, WIDENED, one, query
from prove.database import DONE, PLAIN, write
from prove.finding import Finding, Scale
from prove.load import GET, SEARCH
from prove.openload import Pool, RequestRecorder, open_load
from prove.stack import Proxy, proxy
from prove.usage import MIB, Usage, slope, usage
from prove.watched import task_report as report_within
from support.network.faulty_upstream import FaultyUpstream, Talk

RATE, TRACED_RATE = 200.0, 50.0
LOOK_SECONDS = 2.0
SETTLED_SECONDS = 8.0  # idle connections to upstream are kept for 3, and looked for every 3: gone after 6 at the latest
# Below this the slope of ten minutes is a guess.
LONG_SECONDS = 300.0
# Those that are large make the heap breathe by more than a leak would.
FAULTS = [query(name).replace(b"Connection: close\r\n", b"") for name in sorted(set(WIDENED) - SLOW - {"too-large"})]
OFTEN = [SEARCH, SEARCH, SEARCH, SEARCH, SEARCH, SEARCH, SEARCH, GET, GET]


def mixed(number: int) -> bytes:
    """One request in a hundred meets a fault, one in ten writes."""
    if number % 100 == 50:
        return FAULTS[number // 100 % len(FAULTS)]
    return write(number) if number % 10 == 9 else OFTEN[number % 10]


async def database(talk: Talk) -> None:
    """Searches as they ask for, writes done, the rest plain."""
    while (received := await talk.request()) is not None:
        if received.line.startswith(b"POST"):
            if not await one(talk, received):
                return
        else:
            await talk.send(DONE if received.line.startswith(b"PUT") else PLAIN)


@dataclass
class Course:
    """What was held after so many seconds, and the tasks at the beginning and the end."""

    readings: list[tuple[float, Usage]] = field(default_factory=list)
    tasks: list[int] = field(default_factory=list)

    @property
    def grown(self) -> float:
        """MiB from the first reading to the last."""
        return (self.readings[-1][1].resident - self.readings[0][1].resident) / MIB

    @property
    def per_ten_minutes(self) -> float:
        """MiB in ten minutes, by all readings."""
        return 600 * slope([(seconds, one.resident / MIB) for seconds, one in self.readings])


async def prove(scale: Scale) -> list[Finding]:
    """The soak, then a shorter one in which every allocation is traced."""
    totals, course = await soaked(scale.soak_seconds)
    return [*judged(scale.soak_seconds, totals, course), await traced(max(10.0, min(60.0, scale.soak_seconds / 10)))]


@asynccontextmanager
async def watched(**environment: str) -> AsyncIterator[tuple[Proxy, Path]]:
    """A proxy that tells its tasks, before a database of this process that forgets what it was asked."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "watch"
        async with FaultyUpstream(database) as upstream:
            forgetting = asyncio.create_task(forget(upstream))
            try:
                within = {"PROVE_WATCH": str(path), **environment}
                async with proxy(upstream.url, module="prove.watched", environment=within) as running:
                    yield running, path
            finally:
                forgetting.cancel()
                await asyncio.gather(forgetting, return_exceptions=True)


async def forget(upstream: FaultyUpstream) -> None:
    """Drop what was recorded, until cancelled."""
    while True:
        await asyncio.sleep(1.0)
        upstream.requests.clear()


async def soaked(seconds: float) -> tuple[RequestRecorder, Course]:
    """Each fault once and a fifth of the time to warm up, then readings."""
    totals, course = RequestRecorder(), Course()
    async with watched() as (running, path):
        pool = Pool(running.port)
        for number in range(len(FAULTS)):
            totals.heard(number, await pool.ask(FAULTS[number]), 0.0)
        await pool.close()
        await load(running, RATE, seconds / 5, totals)
        await asyncio.sleep(SETTLED_SECONDS)
        course.tasks.append((await asyncio.to_thread(report_within, path))[0])
        pid, loop = running.command.process.pid, asyncio.get_running_loop()
        begun = loop.time()
        course.readings.append((0.0, usage([pid])))
        under = asyncio.create_task(load(running, RATE, 4 * seconds / 5, totals))
        while not under.done():
            await asyncio.wait([under], timeout=LOOK_SECONDS)
            course.readings.append((loop.time() - begun, usage([pid])))
        await under
        await asyncio.sleep(SETTLED_SECONDS)
        course.readings.append((loop.time() - begun, usage([pid])))
        course.tasks.append((await asyncio.to_thread(report_within, path))[0])
    return totals, course


async def load(running: Proxy, rate: float, seconds: float, totals: RequestRecorder) -> None:
    """The mixture."""
    await open_load(running.port, mixed, rate=rate, count=max(1, int(rate * seconds)), heard=totals.heard)


def judged(seconds: float, totals: RequestRecorder, course: Course) -> list[Finding]:
    """What was held at the end against the beginning."""
    what = f"soak {seconds:.0f} s at {RATE:.0f}/s, 1 % faults"
    first, last = course.readings[0][1], course.readings[-1][1]
    descriptors, threads = last.descriptors - first.descriptors, last.threads - first.threads
    tasks = course.tasks[-1] - course.tasks[0]
    memory = Finding("L6", what, "reported: too short for a slope of RSS", f"{course.grown:+.2f} MiB", met=None)
    if seconds >= LONG_SECONDS:
        rising = course.per_ten_minutes
        measured = f"{rising:+.2f} MiB in 10 min, by {len(course.readings)} readings; {course.grown:+.2f} MiB in all"
        memory = Finding("L6", what, "RSS rises ≤ 1 MiB in 10 min", measured, rising <= 1)
    return [
        Finding("L6", what, "0 failed", totals.words(), not totals.failed),
        memory,
        Finding("L6", what, "descriptors ± 3", f"{descriptors:+d}", abs(descriptors) <= 3),
        Finding("L6", what, "threads ± 3", f"{threads:+d}", abs(threads) <= 3),
        Finding("L6", what, "tasks ± 3", f"{tasks:+d}", abs(tasks) <= 3),
    ]


async def traced(seconds: float) -> Finding:
    """The same at a quarter of the rate with tracemalloc; what each line holds more after the second half."""
    totals = RequestRecorder()
    async with watched(PROVE_TRACE="1") as (running, path):
        for _ in range(2):  # begin to trace, then note what is held
            await load(running, TRACED_RATE, seconds / 2, totals)
            await asyncio.sleep(SETTLED_SECONDS)
            await asyncio.to_thread(report_within, path, 60.0)
        await load(running, TRACED_RATE, seconds / 2, totals)
        await asyncio.sleep(SETTLED_SECONDS)
        _, grown = await asyncio.to_thread(report_within, path, 60.0)
    line, most = max(grown, key=lambda row: row[1], default=("nothing", 0))
    where = "/".join(line.rsplit("/", 2)[-2:])
    what = f"the mixture at {TRACED_RATE:.0f}/s with tracemalloc, {seconds / 2:.0f} s after as long to warm up"
    return Finding("L6", what, "no line grows by 256 KiB", f"most: {most / 1024:.1f} KiB, {where}", most < 256 * 1024)
