"""Attackers, and the client that behaves, each in a process of its own: in one interpreter each would measure the others' work.

``python -m prove.security_apart crowd PORT COUNT A_SECOND READS SECONDS BEGINNING LETTERS`` (both in hex) dribbles while it connects and so long after, says
"connected" between, and answers each further line with how its attackers fare. ``… good PORT RATE SECONDS`` prints what its requests came to. Both say "ready" and
begin with a line of standard input, so that they begin together; both end with it.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from bench.processes import environment

from prove.load import SEARCH
from prove.openload import RequestRecorder, open_load
from prove.security_attackers import Crowd, dribbled

READY, CONNECTED, GO = b"ready\n", b"connected\n", b"go\n"


@dataclass(frozen=True, slots=True)
class Fared:
    """``longest_seconds``: of those that were closed, how long they were suffered; ``standing``: how many are open still."""

    count: int
    standing: int
    longest_seconds: float


@dataclass(frozen=True, slots=True)
class Apart:
    """A crowd in a process of its own, ready to begin."""

    process: asyncio.subprocess.Process

    def begin(self) -> None:
        """Connect."""
        _signal(self.process)

    async def connected(self) -> None:
        """Wait until all have tried to connect."""
        await _expected(self.process, CONNECTED)

    async def fared(self) -> Fared:
        """How they fare now, or once they have dribbled as long as they were told."""
        _signal(self.process)
        return Fared(**json.loads(await _line(self.process)))


@dataclass(frozen=True, slots=True)
class Served:
    """What the good client saw. The times: None where nothing was answered."""

    statuses: Counter[int]
    p50_seconds: float | None
    p99_seconds: float | None
    slowest_seconds: float | None

    @property
    def failed(self) -> int:
        """Requests that were not answered 200."""
        return sum(count for status, count in self.statuses.items() if status != 200)

    def words(self) -> str:
        """The statuses as a phrase."""
        return RequestRecorder(self.statuses).words()


@dataclass(frozen=True, slots=True)
class GoodClient:
    """A good client in a process of its own, ready to begin."""

    process: asyncio.subprocess.Process

    async def served(self) -> Served:
        """Ask, and say what came of it."""
        _signal(self.process)
        content = json.loads(await _line(self.process))
        statuses = Counter({int(status): count for status, count in content.pop("statuses").items()})
        return Served(statuses, **content)


@asynccontextmanager
async def crowd_apart(
    port: int,
    beginning: bytes,
    count: int,
    *,
    a_second: float = 0.0,
    reads: bool = True,
    letters: bytes = b"",
    seconds: float = 0.0,
) -> AsyncIterator[Apart]:
    """So many attackers, ``a_second`` or all at once; all are gone with the block."""
    process = await _ready("crowd", port, count, a_second, int(reads), seconds, beginning.hex(), letters.hex())
    try:
        yield Apart(process)
    finally:
        await _ended(process)


@asynccontextmanager
async def good_apart(port: int, rate: float, seconds: float) -> AsyncIterator[GoodClient]:
    """A client that behaves: so many searches a second, so long."""
    process = await _ready("good", port, rate, seconds)
    try:
        yield GoodClient(process)
    finally:
        await _ended(process)


async def _ready(*arguments: object) -> asyncio.subprocess.Process:
    pipe = asyncio.subprocess.PIPE
    command = (sys.executable, "-m", "prove.security_apart", *map(str, arguments))
    process = await asyncio.create_subprocess_exec(*command, env=environment(), stdin=pipe, stdout=pipe)
    await _expected(process, READY)
    return process


async def _ended(process: asyncio.subprocess.Process) -> None:
    if process.stdin is not None:
        process.stdin.close()
    await process.wait()


def _signal(process: asyncio.subprocess.Process) -> None:
    assert process.stdin is not None
    process.stdin.write(GO)


async def _line(process: asyncio.subprocess.Process) -> bytes:
    assert process.stdout is not None
    return await process.stdout.readline()


async def _expected(process: asyncio.subprocess.Process, line: bytes) -> None:
    reply = await _line(process)
    if reply != line:
        raise RuntimeError(f"a process of the flood's said {reply!r}, wanted {line!r}")


def _say(words: object) -> None:
    print(words, flush=True)


async def _signaled() -> bool:
    return bool(await asyncio.to_thread(sys.stdin.readline))


async def _crowd(
    port: int, count: int, a_second: float, reads: bool, seconds: float, beginning: bytes, letters: bytes
) -> None:
    loop = asyncio.get_running_loop()
    _say("ready")
    if not await _signaled():
        return
    async with Crowd(port, beginning, reads=reads) as crowd:
        until = loop.time() + seconds + (count / a_second if a_second else 0.0)
        dribbling = asyncio.create_task(dribbled(crowd, letters, until=until))
        await crowd.connect(count, a_second)
        _say("connected")
        await dribbling
        while await _signaled():
            lives = [attacker.life_seconds for attacker in crowd.attackers]
            longest = max((life for life in lives if life is not None), default=0.0)
            standing = sum(life is None for life in lives)
            _say(json.dumps({"count": len(lives), "standing": standing, "longest_seconds": longest}))


async def _good(port: int, rate: float, seconds: float) -> None:
    totals = RequestRecorder()
    _say("ready")
    if not await _signaled():
        return
    await open_load(port, lambda _: SEARCH, rate=rate, count=int(rate * seconds), heard=totals.heard)
    shares = {"p50_seconds": 0.5, "p99_seconds": 0.99, "slowest_seconds": 1.0}
    times = {name: totals.latency.percentile(share) if totals.latency.count else None for name, share in shares.items()}
    _say(json.dumps({"statuses": totals.statuses, **times}))


def main() -> None:
    """The command line. Without collections of garbage: they would count as the proxy's time."""
    gc.disable()
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    kind, port, *rest = sys.argv[1:]
    if kind == "good":
        rate, seconds = map(float, rest)
        asyncio.run(_good(int(port), rate, seconds))
    else:
        count, a_second, reads, lasting, beginning, letters = rest
        arguments = bytes.fromhex(beginning), bytes.fromhex(letters)
        asyncio.run(_crowd(int(port), int(count), float(a_second), reads == "1", float(lasting), *arguments))


if __name__ == "__main__":
    main()
