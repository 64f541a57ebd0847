"""Answers that are whole and unusual: each made of the honest one, to whatever was asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable

from support.network.faulty_upstream import Received, Talk, reply
from support.qdrant.scripted import JSON, honest

Row = dict[str, object]


def remade(change: Callable[[list[Row]], list[Row]]) -> Callable[[Received], bytes]:
    """The honest ranking, changed."""

    def answer(received: Received) -> bytes:
        content = json.loads(honest(received).split(b"\r\n\r\n", 1)[1])
        content["result"]["points"] = change(content["result"]["points"])
        return reply(json.dumps(content, separators=(",", ":")).encode(), headers=[JSON])

    return answer


def put(old: bytes, new: bytes) -> Callable[[Received], bytes]:
    """The honest answer with other bytes in its body."""

    def answer(received: Received) -> bytes:
        return reply(honest(received).split(b"\r\n\r\n", 1)[1].replace(old, new), headers=[JSON])

    return answer


def preceded(head: bytes) -> Callable[[Received], bytes]:
    """The honest answer after that."""
    return lambda received: head + honest(received)


def headed(field: bytes) -> Callable[[Received], bytes]:
    """The honest answer with fields more."""
    return lambda received: honest(received).replace(b"\r\n", b"\r\n" + field + b"\r\n", 1)


ODD: dict[str, Callable[[Received], bytes]] = {
    "Set-Cookie": headed(b"Set-Cookie: a=1; Path=/\r\nset-cookie: b=2"),
    "20-kB header": headed(b"X-Long: " + b"a" * 20_000),
    "another content type": lambda received: honest(received).replace(b"application/json", b"text/plain"),
    "100 before it": preceded(b"HTTP/1.1 100 Continue\r\n\r\n"),
    "103 before it": preceded(b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"),
    "no result": remade(lambda _: []),
    "fewer than top_k": remade(lambda rows: rows[:2]),
    "one id many times": remade(lambda rows: [{**row, "id": 7} for row in rows]),
    "scores in no order": remade(lambda rows: [{**row, "score": rank * 7 % 5} for rank, row in enumerate(rows)]),
    "scores all equal": remade(lambda rows: [{**row, "score": 1.0} for row in rows]),
    "deep payloads": remade(lambda rows: [{**row, "payload": json.loads("[" * 50 + "]" * 50)} for row in rows]),
    "10,000 keys": remade(lambda rows: [{**row, "payload": {f"k{n}": n for n in range(10_000)}} for row in rows]),
    "a key twice": put(b'"version":1', b'"version":1,"version":2'),
    "5,000 digits": put(b'"version":1', b'"version":1,"payload":{"n":' + b"9" * 5_000 + b"}"),
    "lone surrogates": put(b'"version":1', b'"version":1,"payload":{"t":"\\ud800"}'),
    "not UTF-8": put(b'"version":1', b'"version":1,"payload":{"t":"\xff\xfe"}'),
    "scores null": remade(lambda rows: [{**row, "score": None} for row in rows]),
    "1e400": put(b'"version":1', b'"version":1,"payload":{"n":1e400}'),
}
# Clients read their head as if it were the answer's: no comparison with a direct call is to be had.
INTERIM = frozenset({"100 before it", "103 before it"})


async def late(talk: Talk, received: Received) -> bool:
    """The honest answer, a while later and in two pieces."""
    answer = honest(received)
    await asyncio.sleep(0.1)
    await talk.send(answer, slice_bytes=1 + len(answer) // 2, pause_seconds=0.05)
    return True


def answered(made: Callable[[Received], bytes]) -> Callable[[Talk, Received], Awaitable[bool]]:
    """What sends an answer that is made of the request."""

    async def act(talk: Talk, received: Received) -> bool:
        await talk.send(made(received))
        return True

    return act
