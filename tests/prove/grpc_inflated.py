"""S12: compressed gRPC messages: what they inflate to is bounded, and memory comes back when their calls have ended"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable

import grpc

from prove.finding import Finding, Scale
from prove.grpc_calls import ALONE, NAMES, outcome
from prove.grpc_database import PASSED
from prove.grpc_stack import grpc_stack
from prove.usage import usage

MIB = 2**20
AT_ONCE = 4
ROUNDS = 2
BOMB = bytes(200 * MIB)  # 200 kB on the wire
SETTLED_SECONDS = 4.0  # for the calls to be let go of, and what they held to be given back
BOMBS_MOST, REAL_MOST, LEFT_MOST = 64, 640, 128  # MiB


async def prove(_scale: Scale) -> list[Finding]:
    """Bombs, then large messages that shrink as vectors and texts do, each on a proxy of its own."""
    real = random.Random(1).randbytes(8 * MIB) * 3 + bytes(6 * MIB)
    return [
        *await sent("4 messages of 200 kB that inflate to 200 MiB", BOMB, "RESOURCE_EXHAUSTED", BOMBS_MOST),
        *await sent("4 messages of 30 MiB, compressed", real, "OK", REAL_MOST),
    ]


async def sent(what: str, message: bytes, expected: str, most: int) -> list[Finding]:
    """So many at once, several times, and what the process held before, at its peak, and afterwards."""
    async with (
        grpc_stack(workers=1) as running,
        grpc.aio.insecure_channel(f"127.0.0.1:{running.port}", options=ALONE) as channel,
    ):
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(PASSED)
        await outcome(call(b"first", timeout=30))
        pid = running.command.process.pid
        before = peak = usage([pid]).resident
        ended: Counter[str] = Counter()
        for _ in range(ROUNDS):
            calls: list[Awaitable[int]] = [
                outcome(call(message, timeout=60, compression=grpc.Compression.Gzip)) for _ in range(AT_ONCE)
            ]
            together = asyncio.gather(*calls)
            while not together.done():
                await asyncio.wait({together}, timeout=0.01)
                peak = max(peak, usage([pid]).resident)
            ended.update(NAMES.get(code, str(code)) for code in await together)
        await asyncio.sleep(SETTLED_SECONDS)
        after = usage([pid]).resident
    summary = (
        f"{before / MIB:.0f} MiB before, {peak / MIB:.0f} at the peak, {after / MIB:.0f} {SETTLED_SECONDS:.0f} s after"
    )
    words = ", ".join(f"{count} × {name}" for name, count in ended.items())
    what = f"gRPC, {what}, at once, {ROUNDS} times"
    return [
        Finding("S12", what, f"all {expected}", words, set(ended) == {expected}),
        Finding("S12", what, f"RSS ≤ +{most} MiB at the peak", summary, peak - before <= most * MIB),
        Finding("S12", what, f"RSS ≤ +{LEFT_MOST} MiB afterwards", summary, after - before <= LEFT_MOST * MIB),
    ]
