"""A Qdrant with a rate limit on reads, as strict mode has: so many at once, refilled within a minute; or a slow one.

The ranking has `copies` points a direction, so that a page of ten needs a grown pool from ten copies on.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from support.network.faulty_upstream import FaultyUpstream, Talk, raw_exchange, reply
from support.process.running import Running, running
from support.qdrant.scripted import JSON, request, search

DIRECTIONS = 32
REFUSAL = b'{"status":{"error":"Rate limiting exceeded: Read rate limit exceeded, retry later"},"time":0.0}'  # as 1.13 words it


@dataclass(slots=True)
class Limited:
    """``reads``: searches a minute, None without a limit. ``first``: id of the best point. ``served``, ``refused``: how many were. ``widened``:
    how many asked for more than ten.
    """

    reads: int | None = 100
    copies: int = 1
    first: int = 0
    served: int = 0
    refused: int = 0
    widened: int = 0
    _tokens: float = field(default=0.0, init=False)
    _at: float = field(default_factory=time.monotonic, init=False)

    def __post_init__(self) -> None:
        self._tokens = float(self.reads or 0)

    async def __call__(self, talk: Talk) -> None:
        while (received := await talk.request()) is not None:
            body = json.loads(received.content) if received.content else {}
            self.widened += body.get("limit", 0) > 10
            await talk.send(self.answer(body))
            if received.header(b"connection") == b"close":
                return

    def answer(self, body: dict[str, object]) -> bytes:
        if not self._takes():
            self.refused += 1
            return reply(REFUSAL, status=b"429 Too Many Requests", headers=[(b"retry-after", b"1"), JSON])
        self.served += 1
        limit, with_vector = body.get("limit", 0), bool(body.get("with_vector"))
        assert isinstance(limit, int)
        ids = range(self.first, self.first + min(limit, DIRECTIONS * self.copies))
        points = [self._point(rank, with_vector=with_vector) for rank in ids]
        content = {"result": {"points": points}, "status": "ok", "time": 0.001}
        return reply(json.dumps(content, separators=(",", ":")).encode(), headers=[JSON])

    def _takes(self) -> bool:
        if self.reads is None:
            return True
        now = time.monotonic()
        self._tokens = min(self.reads, self._tokens + (now - self._at) * self.reads / 60.0)
        self._at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _point(self, rank: int, *, with_vector: bool) -> dict[str, object]:
        point: dict[str, object] = {"id": rank, "version": 1, "score": round(0.99 - rank / 1000, 3)}
        if with_vector:
            point["vector"] = [1.0 if axis == rank // self.copies % DIRECTIONS else 0.0 for axis in range(DIRECTIONS)]
        return point


@asynccontextmanager
async def limited(database: Limited, **settings: object) -> AsyncIterator[tuple[FaultyUpstream, Running]]:
    """It, and a data plane before it."""
    async with FaultyUpstream(database) as upstream, running(upstream.url, **settings) as proxy:
        yield upstream, proxy


async def statuses(port: int, searches: int) -> list[int]:
    """What so many searches for ten results are answered with, one after another."""
    return [await status(port) for _ in range(searches)]


async def status(port: int, *, target: bytes = b"/collections/c/points/query") -> int:
    """Of one."""
    nearest: dict[str, object] = {"query": {"nearest": [0.5, 0.25, *[0.0] * (DIRECTIONS - 2)]}}
    answer = await raw_exchange(port, request(search(10, extra=nearest), target=target))
    return int(answer[9:12])


async def ended(proxy: Running) -> None:
    """Nothing of ours is under way."""
    for _ in range(100):
        if not proxy.process.in_flight and not proxy.process.shadow.running:
            return
        await asyncio.sleep(0.01)
