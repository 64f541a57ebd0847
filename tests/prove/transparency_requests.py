"""T1: generated requests, recorded where they arrive, directly and through the proxy in mode off."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count

from hypothesis import strategies as st

from prove.finding import Finding
from prove.hops import end_to_end
from prove.stack import proxy
from support.exchanges.any_message import MADE, OFTEN, TARGET, Message, lines
from support.exchanges.drawing import drawn
from support.network.faulty_upstream import FaultyUpstream, RawClient, Received, answering, reply

AT_ONCE = 100  # requests drawn together: their bodies are held
# All that aiohttp's parser knows, but CONNECT, which is no request for a database.
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
# Of these RFC 9110 5.3 allows one line; aiohttp's parser refuses a second one, ours to say so: docs/limits.md.
ONCE = frozenset((b"content-type", b"etag", b"server", b"user-agent"))
REFUSED = (400, 0)  # 0: the connection ended while the body was still being sent
SEARCHED = (
    "/collections/c/points/query",
    "/collections/c/points/search?wait=true",
    "/collections/c/points/search/batch",
)


@dataclass(frozen=True, slots=True)
class Sent:
    """One request, whole but for its Host, which names the database."""

    method: str
    target: str
    before: list[tuple[str, str]]
    after: list[tuple[str, str]]
    message: Message

    @property
    def is_refused(self) -> bool:
        """Whether a field of which there is one stands twice."""
        names = [name.lower().encode() for name, _ in (*self.before, *self.after)]
        return any(names.count(name) > 1 for name in ONCE)

    def raw(self, port: int) -> bytes:
        """Its bytes."""
        head = f"{self.method} {self.target} HTTP/1.1\r\n".encode() + lines(self.before)
        head += b"hOst: 127.0.0.1:%d\r\n" % port + self.message.head() + lines(self.after)
        return head + b"\r\n" + self.message.wire()


SENT = st.builds(
    Sent,
    st.sampled_from(METHODS),
    st.one_of(TARGET, TARGET, st.sampled_from(SEARCHED)),
    OFTEN,
    OFTEN,
    st.builds(Message, MADE, st.sampled_from(("none", "length", "chunked"))),
)


class Line:
    """A client's connection, opened again where the last answer ended it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._client: RawClient | None = None

    async def ask(self, raw: bytes, *, bodiless: bool) -> int:
        """The status of the answer; 0 when there is none."""
        if self._client is None:
            self._client = await RawClient.connect(self._port)
        try:
            await self._client.send(raw)
            answer = await self._client.reply(bodiless=bodiless)
        except (asyncio.IncompleteReadError, ConnectionError):
            await self.close()
            return 0
        if answer.line.startswith(b"HTTP/1.0") or b"close" in (answer.header(b"connection") or b""):
            await self.close()
        return answer.status

    async def close(self) -> None:
        """End it."""
        if self._client is not None:
            await self._client.close()
        self._client = None


def endless_requests() -> Iterator[Sent]:
    """Requests without end."""
    for chance in count():
        yield from drawn(SENT, AT_ONCE, chance=chance)


def difference(direct: Received, through: Received) -> str:
    """What arrived otherwise; "" when nothing did."""
    if direct.line != through.line:
        return f"line {through.line!r}, directly {direct.line!r}"
    expected, actual = end_to_end(direct.headers), end_to_end(through.headers)
    if expected != actual:
        return f"fields {[pair for pair in actual if pair not in expected]}, directly {[pair for pair in expected if pair not in actual]}"
    return "" if direct.content == through.content else f"{len(through.content)} bytes, directly {len(direct.content)}"


async def requests(total: int) -> list[Finding]:
    """Each request twice, on connections that are kept."""
    async with FaultyUpstream(answering(reply())) as upstream, proxy(upstream.url, mode="off") as running:
        return await compared(total, upstream, running.port)


@dataclass
class Tried:
    """What came of requests so far. ``wrong``: of those that must arrive, ``let_in``: of those that must not."""

    made: int = 0
    arrived_bytes: int = 0
    refused: int = 0
    wrong: list[str] = field(default_factory=list)
    let_in: list[str] = field(default_factory=list)

    def judge(self, sent: Sent, seen: list[Received], status: int) -> None:
        """One request. ``seen``: what arrived, the direct one first; ``status``: of the answer through the proxy."""
        what = f"{sent.method} {sent.target}"
        if sent.is_refused:
            self.refused += 1
            if len(seen) != 1 or status not in REFUSED:
                self.let_in.append(f"{what}: {len(seen) - 1} arrived, answered {status}")
            return
        self.made += 1
        self.arrived_bytes += len(sent.message.body)
        mismatch = difference(*seen) if len(seen) == 2 else f"{len(seen) - 1} arrived, answered {status}"
        if mismatch:
            self.wrong.append(f"{what}: {mismatch}")

    def findings(self) -> list[Finding]:
        """Both rows."""
        good, size = self.made - len(self.wrong), self.arrived_bytes / 2**20
        measured = f"{good} of {self.made}, {size:.0f} MiB{''.join('; ' + fault[:300] for fault in self.wrong[:2])}"
        kept = f"{self.refused - len(self.let_in)} of {self.refused}{''.join('; ' + fault[:300] for fault in self.let_in[:2])}"
        return [
            Finding("T1", "requests in mode off", "line, fields, body: 100 % as direct", measured, not self.wrong),
            Finding(
                "T1",
                "requests with two lines of a field that may have one",
                "refused, none arrives",
                kept,
                not self.let_in,
            ),
        ]


async def compared(total: int, upstream: FaultyUpstream, port: int) -> list[Finding]:
    """What arrived of so many requests, through that port and directly; those that are refused come on top."""
    ends, tried = (Line(upstream.port), Line(port)), Tried()
    for sent in endless_requests():
        raw = sent.raw(upstream.port)
        upstream.requests.clear()
        statuses = [await end.ask(raw, bodiless=sent.method == "HEAD") for end in ends]
        tried.judge(sent, upstream.requests, statuses[1])
        if tried.made >= total:
            break
    for end in ends:
        await end.close()
    return tried.findings()
