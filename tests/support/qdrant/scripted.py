"""A Qdrant that answers as it is told: the same ranking each time, and one planned misbehaviour for widened requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

from support.network.faulty_upstream import Received, Script, Talk, raw_exchange, reply

JSON = (b"content-type", b"application/json")
DIMENSION = 4
COPIES = [0, 0, 1, 2, 2, 3, 1, 3]  # which direction each rank points; four directions, each twice

Delay = Callable[[bool], float]
"""Seconds of a search's answer; told whether it is a widened one."""

Misbehaviour = Callable[[Talk, Received], Awaitable[bool]]
"""Handles a widened request; True when the connection may go on."""


def search(limit: int = 3, *, extra: dict[str, object] | None = None) -> bytes:
    """A search body as the official client words it."""
    body = {"query": {"nearest": [0.5, 0.25, 0.125, 0.0]}, "limit": limit, "with_vector": False, **(extra or {})}
    return json.dumps(body, separators=(",", ":")).encode()


def request(body: bytes, *, headers: bytes = b"", target: bytes = b"/collections/c/points/query") -> bytes:
    """The raw request of a client that closes its connection."""
    return (
        b"POST " + target + b" HTTP/1.1\r\nHost: db\r\nContent-Type: application/json\r\nConnection: close\r\n"
        b"Content-Length: %d\r\n" % len(body) + headers + b"\r\n" + body
    )


def is_widened(received: Received) -> bool:
    """Whether the proxy asked for vectors that the client did not."""
    return b'"with_vector":[""]' in received.content


def honest(received: Received) -> bytes:
    """The right answer to a search body, widened or not."""
    content = json.loads(received.content)
    points = []
    for rank, direction in enumerate(COPIES[content.get("offset") or 0 :][: content["limit"]]):
        point: dict[str, object] = {"id": rank, "version": 1, "score": round(0.9 - rank / 100, 2)}
        if content.get("with_vector"):
            point["vector"] = [1.0 if axis == direction else 0.0 for axis in range(DIMENSION)]
        points.append(point)
    body = json.dumps({"result": {"points": points}, "status": "ok", "time": 0.001}, separators=(",", ":")).encode()
    return reply(body, headers=[JSON])


def scripted(misbehaviour: Misbehaviour) -> Script:
    """Honest to everything but widened requests."""

    async def script(talk: Talk) -> None:
        while (received := await talk.request()) is not None:
            if is_widened(received):
                if not await misbehaviour(talk, received):
                    return
            else:
                await talk.send(honest(received))
                if received.header(b"connection") == b"close":
                    return

    return script


def answering(answer: bytes) -> Misbehaviour:
    """Answers widened requests with these bytes."""

    async def misbehave(talk: Talk, _: Received) -> bool:
        await talk.send(answer)
        return True

    return misbehave


def slowed(delay: Delay) -> Script:
    """Honest to everything, and late."""

    async def script(talk: Talk) -> None:
        while (received := await talk.request()) is not None:
            await asyncio.sleep(delay(is_widened(received)))
            await talk.send(honest(received))
            if received.header(b"connection") == b"close":
                return

    return script


async def is_answered(port: int, *, within_seconds: float) -> bool:
    """Whether a search is answered before its client has waited so long."""
    try:
        async with asyncio.timeout(within_seconds):
            return (await raw_exchange(port, request(search()))).startswith(b"HTTP/1.1 200 ")
    except TimeoutError:
        return False
