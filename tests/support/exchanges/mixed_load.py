"""Every kind of request that a proxy in front of Qdrant sees in its day, over and over, and a database that can be hurt."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from itertools import cycle

from support.network.faulty_upstream import FaultyUpstream, Received, Talk, raw_exchange, reply
from support.qdrant.scripted import COPIES, JSON, honest, request, search

PAUSE_SECONDS = 0.03
CLIENTS_LIMIT = (
    3  # of every search here: what asks for more is widened, with vectors or, where they are remembered, without
)
BROKEN = b"/collections/broken/points/query"
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
ROUND = (
    request(search(CLIENTS_LIMIT), headers=f"traceparent: 00-{TRACE}-00f067aa0ba902b7-01\r\n".encode()),
    request(search(CLIENTS_LIMIT), target=BROKEN),
    request(search(CLIENTS_LIMIT), headers=b"x-vecsieve-mode: shadow\r\n"),
    request(search(CLIENTS_LIMIT), headers=b"x-vecsieve-mode: off\r\n"),
    request(search(CLIENTS_LIMIT), headers=b"x-vecsieve-mmr-lambda: 0.5\r\n"),
    request(search(extra={"made_up": 1})),
    request(search(CLIENTS_LIMIT), headers=b"x-vecsieve-mode: sideways\r\n"),
    b"GET /collections HTTP/1.1\r\nHost: db\r\nConnection: close\r\n\r\n",
)


# One for each direction of the vectors.
TEXTS = (
    "The north gate of the harbour opens at nine in the morning.",
    "Visitors leave their bags at the desk in the hall.",
    "A ticket for the tower costs four crowns on weekdays.",
    "The last boat to the island leaves before sunset.",
)


def _with_texts(received: Received) -> bytes:
    """The honest answer, with payloads if they are wanted."""
    answer = honest(received)
    if b"with_payload" not in received.content:
        return answer
    content = json.loads(answer.split(b"\r\n\r\n", 1)[1])
    for point in content["result"]["points"]:
        point["payload"] = {"text": TEXTS[COPIES[point["id"]]]}
    return reply(json.dumps(content, separators=(",", ":")).encode(), headers=[JSON])


@dataclass
class Hurt:
    """``is_hurt``: widened searches of the collection `broken` are answered with what nobody can read."""

    is_hurt: bool = False
    statuses: dict[int, int] = field(default_factory=dict)

    async def script(self, talk: Talk) -> None:
        """A database for one connection."""
        while (received := await talk.request()) is not None:
            await talk.send(self._answer(received))
            if received.header(b"connection") == b"close":
                return

    def _answer(self, received: Received) -> bytes:
        if received.line.startswith(b"GET"):
            return reply(b'{"result":{"collections":[]},"status":"ok","time":0.0}', headers=[JSON])
        if self.is_hurt and BROKEN in received.line and json.loads(received.content)["limit"] > CLIENTS_LIMIT:
            return reply(b'{"result":', headers=[JSON])
        return _with_texts(received)

    def upstream(self) -> FaultyUpstream:
        """The database."""
        return FaultyUpstream(self.script)

    async def load(self, port: int) -> None:
        """Ask until cancelled, one request after another."""
        for request_bytes in cycle(ROUND):
            answer = await raw_exchange(port, request_bytes)
            status = int(answer.split(b" ", 2)[1]) if answer else 0
            self.statuses[status] = self.statuses.get(status, 0) + 1
            await asyncio.sleep(PAUSE_SECONDS)
