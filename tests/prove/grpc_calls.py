"""Calls of ordinary grpcio channels, one after the other or on a fixed schedule, and what became of them."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import grpc

from prove.histogram import Histogram
from prove.openload import GAVE_UP_SECONDS, open_load
from support.grpc.calls import UNLIMITED

ALONE = (*UNLIMITED, ("grpc.use_local_subchannel_pool", 1))  # each channel a connection of its own
OK = 0
OURS = 100  # added to the code of a call that the proxy itself answered
NAMES = {code.value[0]: code.name for code in grpc.StatusCode}


@dataclass
class Calls:
    """What became of calls, and how long they took from when they were due. An outcome is a code, ours is told apart."""

    outcomes: Counter[int] = field(default_factory=Counter)
    latency: Histogram = field(default_factory=Histogram)

    def heard(self, _number: int, ended: int, seconds: float) -> None:
        """Note one outcome."""
        self.outcomes[ended] += 1
        self.latency.record(seconds)

    @property
    def failed(self) -> int:
        """Calls that were not answered OK."""
        return self.outcomes.total() - self.outcomes[OK]

    def milliseconds(self, share: float) -> float:
        """A percentile of the latency."""
        return 1000 * self.latency.percentile(share)

    def words(self) -> str:
        """The outcomes as a phrase."""
        return ", ".join(f"{count} × {name(ended)}" for ended, count in sorted(self.outcomes.items()))


def name(ended: int) -> str:
    """A code's name, and who said it where that was the proxy."""
    return f"{NAMES[ended - OURS]} of the proxy" if ended >= OURS else NAMES[ended]


async def outcome(call: Awaitable[object]) -> int:
    """How a call ended."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        code: int = error.code().value[0]
        trailing = dict(error.trailing_metadata() or ())
        return code + OURS if trailing.get("x-vecsieve-origin") == "proxy" else code
    return OK


class Callers:
    """Channels to one or more addresses in turn. ``goodbyes``: how often a connection that was ready went idle, as GOAWAY makes it."""

    def __init__(self, ports: Sequence[int], *, channels: int) -> None:
        turn = itertools.islice(itertools.cycle(ports), channels)
        self._channels = [grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=ALONE) for port in turn]
        self._turn = itertools.cycle(self._channels)
        self._watching = [asyncio.create_task(self._watch(channel), name="goodbyes") for channel in self._channels]
        self.goodbyes = 0

    async def ask(self, method: str, message: bytes, *, seconds: float = GAVE_UP_SECONDS) -> int:
        """The outcome of one call."""
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = next(self._turn).unary_unary(method)
        return await outcome(call(message, timeout=seconds))

    async def talk(self, method: str, message: bytes, *, seconds: float = GAVE_UP_SECONDS) -> int:
        """The outcome of a call of two messages each way, one after the other."""
        talking: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = next(self._turn).stream_stream(method)
        call = talking(timeout=seconds)

        async def talker() -> None:
            for _ in range(2):
                await call.write(message)
                await call.read()
            await call.done_writing()
            if await call.code() is not grpc.StatusCode.OK:
                await call.read()  # which raises

        return await outcome(talker())

    def to(self, method: str) -> Callable[[bytes], asyncio.Future[int]]:
        """Asks one method."""

        def send(message: bytes) -> asyncio.Future[int]:
            return asyncio.ensure_future(self.ask(method, message))

        return send

    async def _watch(self, channel: grpc.aio.Channel) -> None:
        while True:
            before = channel.get_state()
            await channel.wait_for_state_change(before)
            self.goodbyes += before is grpc.ChannelConnectivity.READY

    async def close(self) -> None:
        """End the connections."""
        for task in self._watching:
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        for channel in self._channels:
            await channel.close()


@asynccontextmanager
async def callers(*ports: int, channels: int = 8) -> AsyncIterator[Callers]:
    """Channels for the block."""
    made = Callers(ports, channels=channels)
    try:
        yield made
    finally:
        await made.close()


async def at(pool: Callers, method: str, message: bytes, *, rate: float, seconds: float) -> Calls:
    """Open loop for so long."""
    calls, count = Calls(), max(1, int(rate * seconds))
    await open_load(0, lambda _: message, rate=rate, count=count, heard=calls.heard, ask=pool.to(method))
    return calls


async def capacity(pool: Callers, method: str, message: bytes, *, seconds: float, clients: int = 16) -> float:
    """Answers per second in a closed loop of so many clients."""
    loop, answered = asyncio.get_running_loop(), 0
    until = loop.time() + seconds

    async def client() -> None:
        nonlocal answered
        while loop.time() < until:
            is_answered = await pool.ask(method, message) == OK
            answered += is_answered  # after the wait: the others count meanwhile

    await asyncio.gather(*(client() for _ in range(clients)))
    return answered / seconds
