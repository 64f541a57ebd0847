"""G over gRPC, the last answers: SIGTERM while calls are under way, small and large ones, one and many to a connection."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager

from prove.finding import Finding, Scale
from prove.grpc_calls import OK, callers, name
from prove.grpc_database import SLOW, slow
from prove.grpc_stack import GrpcStack, grpc_stack
from prove.toxics import Toxic, ToxicRelay

MANY = 50
SMALL_BYTES, LARGE_BYTES = 100, 2**20
SLOW_CLIENTS_CALLS = 8  # answered with more than the kernel keeps for a connection
PER_SECOND = 4_000_000
DRAIN_SECONDS = 25.0
SOON_SECONDS = 1.5  # time enough for every call to arrive before the first is answered
ROUNDS_PER_RESTART = 2
BUSY = "while True: pass"
CLEAN = "exit 0"


@contextmanager
def busy(processes: int = 2) -> Iterator[None]:
    """Neighbours that want all the time there is."""
    made = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(processes)]
    try:
        yield
    finally:
        for client in made:
            client.kill()
            client.wait()


async def prove(scale: Scale) -> list[Finding]:
    """Small and large answers on a busy machine, to clients that take them slowly, and a call that takes its time."""
    rounds = scale.restarts * ROUNDS_PER_RESTART
    ended = {size: Counter[str]() for size in (SMALL_BYTES, LARGE_BYTES)}
    with busy():
        for number in range(rounds):
            size = (SMALL_BYTES, LARGE_BYTES)[number % 2]
            async with grpc_stack(workers=1) as running:
                ended[size] += await farewell(running, seconds=SOON_SECONDS, size=size)
    async with grpc_stack(workers=1) as one, grpc_stack(workers=1) as other:
        slowly, patient = await asyncio.gather(
            to_slow_clients(one), farewell(other, seconds=scale.long_request_seconds, size=SMALL_BYTES)
        )
    times = f"SIGTERM with 1 and {MANY} gRPC calls on a connection of each port"
    return [
        *(arrived(f"{times}, {size} B answers, busy machine", seen) for size, seen in ended.items()),
        arrived(f"SIGTERM with {LARGE_BYTES} B answers on their way to slow gRPC clients", slowly),
        arrived(f"{times}, that take {scale.long_request_seconds:.0f} s", patient),
    ]


def arrived(what: str, ended: Counter[str]) -> Finding:
    """Whether every answer came, and every process ended by itself."""
    words = ", ".join(f"{count} × {outcome}" for outcome, count in sorted(ended.items()))
    return Finding("G2", what, "every answer arrives, exit 0", words, set(ended) == {name(OK), CLEAN})


async def farewell(running: GrpcStack, *, seconds: float, size: int) -> Counter[str]:
    """SIGTERM with one call and with many on a connection, on both ports. What became of them, and of the process."""
    ended: Counter[str] = Counter()
    async with asyncio.TaskGroup() as group:
        for port in (running.port, running.separate_port):
            for count in (1, MANY):
                group.create_task(_slow_calls(port, count, slow(seconds, size), ended))
        await _ended(running, 2 * (1 + MANY), ended)
    return ended


async def to_slow_clients(running: GrpcStack) -> Counter[str]:
    """The same for clients on a thin line."""
    ended: Counter[str] = Counter()
    ports = (running.port, running.separate_port)
    async with AsyncExitStack() as lines, asyncio.TaskGroup() as group:
        for port in ports:
            line = await lines.enter_async_context(ToxicRelay(port, toxic=Toxic.BANDWIDTH, size=PER_SECOND))
            message = slow(SOON_SECONDS, LARGE_BYTES)
            group.create_task(_slow_calls(line.port, SLOW_CLIENTS_CALLS, message, ended))
        await _ended(running, len(ports) * SLOW_CLIENTS_CALLS, ended)
    return ended


async def _ended(running: GrpcStack, calls: int, ended: Counter[str]) -> None:
    async with asyncio.timeout(20):
        while await running.metric(r"in_flight(?=\{kind=\"requests\")") < calls:
            await asyncio.sleep(0.02)
    running.command.process.send_signal(signal.SIGTERM)
    code = await asyncio.to_thread(running.command.process.wait, DRAIN_SECONDS + 10)
    ended[f"exit {code}"] += 1


async def _slow_calls(port: int, count: int, message: bytes, ended: Counter[str]) -> None:
    async with callers(port, channels=1) as clients:
        pending = [clients.ask(SLOW, message, seconds=60.0) for _ in range(count)]
        ended.update(map(name, await asyncio.gather(*pending)))
