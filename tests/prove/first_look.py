"""K: the first ten minutes of a new user: from README's first command to the inspector, its views at work, and what `check` says.

The installation reads the package index; where that cannot be had, its figures say so and have no verdict.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
from unit.proxy.admin.test_whatif import sampled

from prove.finding import Finding, Scale
from support.network.ports import free_ports
from vecsieve.proxy.admin.whatif import PRESET_NAMES, Change, judged

ROOT = Path(__file__).resolve().parents[2]
MOST_SECONDS, MOST_MEGABYTES = 120.0, 300
POOLS, MOST_JUDGING = 1000, 5.0
INSTALL_SECONDS, DEMO_SECONDS, CHECK_SECONDS = 600.0, 120.0, 60.0
WORDS_A_MINUTE = 240
INSPECTOR = re.compile(r"Results that were left out, and why: (http://\S+/)")
PAGES = ("searches", "doubtful", "collections", "cost", "settings", "whatif?certainty=0.9")


async def prove(_scale: Scale) -> list[Finding]:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    return [_read(readme), *await _installed(readme), await _judged(), *await _checked()]


def _read(readme: str) -> Finding:
    lines, words = len(readme.splitlines()), len(readme.split())
    minutes = words / WORDS_A_MINUTE
    measured = f"{lines} lines, {words} words, {minutes:.1f} minutes at {WORDS_A_MINUTE} words a minute"
    return Finding("K", "README, with its code", "≤ 110 lines, < 4 minutes", measured, lines <= 110 and minutes < 4)


async def _installed(readme: str) -> list[Finding]:
    """A fresh clone, README's first command but for its last word, and the demo that stays."""
    match = re.search(r"^(python3 -m venv .*) && (\S+/vecsieve demo)$", readme, re.MULTILINE)
    assert match is not None, "README has no first command"
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "clone"
        await _run("git", "clone", "--quiet", str(ROOT), str(place), cwd=ROOT, seconds=60)
        begun = time.monotonic()
        installed = match[1].replace("python3", sys.executable, 1)
        status, output = await _run("sh", "-c", installed, cwd=place, seconds=INSTALL_SECONDS)
        took = time.monotonic() - begun
        if status != 0:
            return [Finding("K", "the first command", "installs", f"could not be had: {output[-200:]}", None)]
        size = sum(file.stat().st_size for file in (place / ".venv").rglob("*") if not file.is_symlink()) / 2**20
        async with _demo(place, match[2]) as address:
            whole = time.monotonic() - begun
            counts = await _view_counts(address)
        shutil.rmtree(place / ".venv")
    broken = {name: status for name, status in counts.items() if status != 200}
    return [
        Finding(
            "K",
            "first command to the inspector's address",
            f"≤ {MOST_SECONDS:.0f} s",
            f"{whole:.0f} s, of which {took:.0f} to install",
            whole <= MOST_SECONDS,
        ),
        Finding("K", "the environment", f"≤ {MOST_MEGABYTES} MiB", f"{size:.0f} MiB", size <= MOST_MEGABYTES),
        Finding(
            "K", "the page and its data", "all 200", f"{len(counts)} asked, others: {broken or 'none'}", not broken
        ),
    ]


@asynccontextmanager
async def _demo(place: Path, command: str) -> AsyncIterator[str]:
    """The address that the running demo prints."""
    process = await asyncio.create_subprocess_exec(
        *command.split(),
        "--keep",
        cwd=place,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert process.stdout is not None
    try:
        async with asyncio.timeout(DEMO_SECONDS):
            async for line in process.stdout:
                if (match := INSPECTOR.search(line.decode())) is not None:
                    break
            else:
                raise AssertionError("the demo ended without an address")
        yield match[1]
    finally:
        process.send_signal(signal.SIGTERM)  # SIGINT is ignored by what a shell runs in the background
        await process.communicate()


async def _view_counts(address: str) -> dict[str, int]:
    """The status of the page and of its data."""
    async with aiohttp.ClientSession() as session:
        counts = {}
        for path in ("", *(f"api/{name}" for name in PAGES)):
            async with session.get(address + path) as answer:
                counts[path] = answer.status
        return counts


async def _judged() -> Finding:
    pools = sampled(POOLS)
    slowest = 0.0
    for name in PRESET_NAMES:
        begun = time.monotonic()
        await asyncio.to_thread(judged, pools, Change.of({"preset": name}))
        slowest = max(slowest, time.monotonic() - begun)
    what = f"what if: {POOLS} pools of 40, each preset"
    return Finding("K", what, f"< {MOST_JUDGING:.0f} s", f"slowest {slowest:.2f} s", slowest < MOST_JUDGING)


async def _checked() -> list[Finding]:
    """`check --connect` against a dead database and one that says nothing. Tests have the unauthorised and the healthy."""
    silent = await asyncio.start_server(lambda _reader, _writer: None, "127.0.0.1", 0)
    port = silent.sockets[0].getsockname()[1]
    rows = (("dead", free_ports(1)[0], "connection refused"), ("silent", port, "did not answer"))
    findings = []
    async with silent:
        for name, at, words in rows:
            url, begun = f"http://127.0.0.1:{at}", time.monotonic()
            command = (sys.executable, "-m", "vecsieve.proxy", "check", "--connect", "--upstream", url)
            status, output = await _run(*command, cwd=ROOT, seconds=CHECK_SECONDS)
            line = (output.strip().splitlines() or ["nothing"])[-1]
            measured = f"exit {status} in {time.monotonic() - begun:.1f} s: {line}"
            met = status == 1 and words in line and str(at) in line
            findings.append(
                Finding("K", f"check --connect, a {name} database", f"exit 1, its address, {words}", measured, met)
            )
    return findings


async def _run(*command: str, cwd: Path, seconds: float) -> tuple[int | None, str]:
    """Its exit code, None when it was given up, and all it said."""
    process = await asyncio.create_subprocess_exec(
        *command, cwd=cwd, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT
    )
    try:
        async with asyncio.timeout(seconds):
            output, _ = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.communicate()
        return None, f"given up after {seconds:.0f} s"
    return process.returncode, output.decode(errors="replace")
