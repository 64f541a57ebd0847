"""A Qdrant that answers the requests of the write gate as it is told, and an upsert of two points that are copies."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence

from support.network.faulty_upstream import FaultyUpstream, Received, Script, Talk, reply

JSON = (b"content-type", b"application/json")
STORED = reply(b'{"result":{"operation_id":7,"status":"completed"},"status":"ok","time":0.001}', headers=[JSON])
DESCRIBED = reply(
    b'{"result":{"config":{"params":{"vectors":{"size":4,"distance":"Cosine"}}}},"status":"ok","time":0}',
    headers=[JSON],
)
TARGET = b"/collections/c/points?wait=true"

Neighbours = Callable[[Talk, Received], Awaitable[bool]]
"""Answers the query for neighbours; True when the connection may go on."""


def upsert(*ids: int, vector: Sequence[float] = (1.0, 0.0, 0.0, 0.5)) -> bytes:
    """Points that all are the same but for their ids."""
    points = [
        {"id": point_id, "vector": list(vector), "payload": {"text": "it has all the same words"}} for point_id in ids
    ]
    return json.dumps({"points": points}, separators=(",", ":")).encode()


def put(body: bytes, *, headers: bytes = b"", target: bytes = TARGET, method: bytes = b"PUT") -> bytes:
    """The raw request of a client that closes its connection."""
    return (
        method + b" " + target + b" HTTP/1.1\r\nHost: db\r\nContent-Type: application/json\r\nConnection: close\r\n"
        b"api-key: s3cret\r\nContent-Length: %d\r\n" % len(body) + headers + b"\r\n" + body
    )


def neighbours_reply(*hits: tuple[int, float]) -> bytes:
    """One list of neighbours with the same words."""
    points = [
        {"id": i, "version": 1, "score": score, "payload": {"text": "it has all the same words"}} for i, score in hits
    ]
    return reply(json.dumps({"result": [{"points": points}], "status": "ok", "time": 0}).encode(), headers=[JSON])


def finding(*hits: tuple[int, float]) -> Neighbours:
    async def answer(talk: Talk, _: Received) -> bool:
        await talk.send(neighbours_reply(*hits))
        return True

    return answer


def database(neighbours: Neighbours, *, description: bytes = DESCRIBED) -> FaultyUpstream:
    async def script(talk: Talk) -> None:
        while (received := await talk.request()) is not None:
            if b"/points/query/batch" in received.line:
                if not await neighbours(talk, received):
                    return
            else:
                await talk.send(description if received.line.startswith(b"GET") else STORED)

    made: Script = script
    return FaultyUpstream(made)


def written(upstream: FaultyUpstream) -> list[bytes]:
    """The bodies of the writes that arrived."""
    return [
        request.content
        for request in upstream.requests
        if request.line.startswith(b"PUT") or b"points/batch " in request.line
    ]


def read_lines(upstream: FaultyUpstream) -> list[bytes]:
    """The first lines of the reads that arrived."""
    return [
        request.line for request in upstream.requests if request.content not in written(upstream) or not request.content
    ]
