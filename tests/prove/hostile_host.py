"""G: what a machine may do to a process: its output blocked or full, no file to write, few descriptors, a clock that jumps; it serves on"""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.processes import environment

from prove.finding import Finding, Scale
from prove.load import SEARCH
from prove.openload import Pool, RequestRecorder, open_load
from prove.stack import proxy, served
from support.network.faulty_upstream import RawClient
from support.network.ports import free_port

RATE, SECONDS = 50.0, 3.0
# Refused, and each refusal is a line of the log: so many are several pipes full.
LOGGED = SEARCH.replace(b"Host: db\r\n", b"Host: db\r\nx-vecsieve-mode: sideways\r\n", 1)
LINES = 1_000
DESCRIPTORS, CROWD = 64, 100
PAGES = ("/metrics", "/status", "/explain", "/egress")


@dataclass(frozen=True, slots=True)
class Serving:
    """A proxy whose output and limits are given."""

    port: int
    process: subprocess.Popen[bytes]


async def prove(_: Scale) -> list[Finding]:
    """G5: each trouble with a process of its own, before one database."""
    async with served() as database:
        upstream = f"http://127.0.0.1:{database.port}"
        reading, pipe = os.pipe()
        disk = os.open("/dev/full", os.O_WRONLY)
        try:
            findings = [
                await logged(upstream, pipe, "its output is a pipe that nobody reads"),
                await logged(upstream, disk, "its output is on a full disk (ENOSPC)"),
                *await limited(upstream),
            ]
        finally:
            for descriptor in (reading, pipe, disk):
                os.close(descriptor)
        # The time in explanations, budgets, the log and the metrics stands on the wall clock.
        keeps = {"VECSIEVE_EXPLAIN_KEEP": "50"}
        async with proxy(upstream, module="prove.jumping_clock", environment=keeps) as running:
            totals = await searched(running.port)
            answered = [(await running.get(page))[0] for page in PAGES]
            is_alive = running.command.process.poll() is None
        summary = f"{totals.words()}; pages {', '.join(map(str, answered))}"
        is_met = is_alive and not totals.failed and set(answered) == {200}
        findings.append(Finding("G5", "the wall clock jumps by months", "serves on, 0 failed", summary, is_met))
    return findings


async def limited(upstream: str) -> list[Finding]:
    """The troubles that util-linux makes."""
    prlimit = shutil.which("prlimit")
    if prlimit is None:
        return [Finding("G5", "no file, few descriptors", "serves on", "not run: prlimit is not installed", met=None)]
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        unwritable = await logged(upstream, null, "no file can be written (RLIMIT_FSIZE 0)", prlimit, "--fsize=0")
        return [unwritable, await crowded(upstream, null, prlimit)]
    finally:
        os.close(null)


@asynccontextmanager
async def serving(upstream: str, output: int, around: Sequence[str]) -> AsyncIterator[Serving]:
    """Run the proxy until the block ends. ``around``: the command that runs it."""
    port, admin = free_port(), free_port()
    where = ["--upstream", upstream, "--listen", f"127.0.0.1:{port}", "--admin", f"127.0.0.1:{admin}", "--mode", "on"]
    command = [*around, sys.executable, "-m", "vecsieve.proxy", "serve", *where]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, env=environment())
    try:
        await answering(port)
        yield Serving(port, process)
    finally:
        process.terminate()
        try:
            await asyncio.to_thread(process.wait, 10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


async def answering(port: int) -> None:
    """Wait until the port answers. Raises AssertionError when it does not within 15 s."""
    loop = asyncio.get_running_loop()
    until = loop.time() + 15.0
    while loop.time() < until:
        try:
            client = await RawClient.connect(port)
        except OSError:
            await asyncio.sleep(0.05)
        else:
            return await client.close()
    raise AssertionError("the proxy never listened")


async def searched(port: int) -> RequestRecorder:
    """Searches at a fixed rate."""
    totals = RequestRecorder()
    await open_load(port, lambda _: SEARCH, rate=RATE, count=int(RATE * SECONDS), heard=totals.heard)
    return totals


async def logged(upstream: str, output: int, what: str, *around: str) -> Finding:
    """As many lines of the log as fill what takes them, then searches."""
    async with serving(upstream, output, around) as running:
        pool = Pool(running.port)
        refused = [await pool.ask(LOGGED) for _ in range(LINES)]
        await pool.close()
        totals = await searched(running.port)
        is_alive = running.process.poll() is None
    is_met = is_alive and not totals.failed and set(refused) == {400}
    return Finding("G5", what, "serves on, 0 failed", f"{totals.words()} after {refused.count(400)} lines", is_met)


async def crowded(upstream: str, output: int, prlimit: str) -> Finding:
    """More clients than there are descriptors; those that were there before are served, and afterwards everybody is."""
    async with serving(upstream, output, (prlimit, f"--nofile={DESCRIPTORS}")) as running:
        pool, amid = Pool(running.port), RequestRecorder()
        statuses = {await pool.ask(SEARCH)}
        crowd = await asyncio.gather(*(RawClient.connect(running.port) for _ in range(CROWD)), return_exceptions=True)
        for _ in range(50):
            amid.heard(0, await pool.ask(SEARCH), 0.0)
        descriptors = Path(f"/proc/{running.process.pid}/fd")
        most = len(list(descriptors.iterdir()))
        for client in crowd:
            if isinstance(client, RawClient):
                await client.close()
        await pool.close()
        for _ in range(50):  # the crowd's ends are read one by one
            if len(list(descriptors.iterdir())) < DESCRIPTORS // 2:
                break
            await asyncio.sleep(0.1)
        after = await searched(running.port)
        is_alive = running.process.poll() is None
    summary = f"amid {amid.words()} with {most} open; afterwards {after.words()}"
    is_met = is_alive and statuses == {200} and not amid.failed and not after.failed
    return Finding("G5", f"{CROWD} clients, {DESCRIPTORS} descriptors", "serves on, 0 failed", summary, is_met)
