"""T2: generated answers, in modes off and shadow, as the client gets them directly and through the proxy."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import strategies as st

from prove.finding import Finding
from prove.hops import end_to_end
from prove.stack import proxy
from support.exchanges.any_message import MADE, OFTEN, VALUE, Message, lines
from support.exchanges.drawing import drawn
from support.network.faulty_upstream import FaultyUpstream, RawClient, RawReply, Received, Talk, reply
from support.qdrant.scripted import JSON, honest, request, search

AT_ONCE = 100
NUMBER = b"x-number"
BODILESS = frozenset({204, 304})


@dataclass(frozen=True, slots=True)
class PlannedAnswer:
    """One answer. ``framing`` none: it ends with its connection."""

    status: int
    reason: str
    before: list[tuple[str, str]]
    after: list[tuple[str, str]]
    message: Message
    is_packed: bool

    @property
    def ends(self) -> bool:
        """Whether the connection's end is the body's."""
        return self.message.framing == "none" and self.status not in BODILESS

    def raw(self) -> bytes:
        """Its bytes."""
        message = self.message
        if self.is_packed:
            message = Message(gzip.compress(message.body, mtime=0), message.framing)
        coding = b"Content-encoding: gzip\r\n" if self.is_packed else b""
        line = f"HTTP/1.1 {self.status} {self.reason}\r\n".encode()
        if self.status in BODILESS:
            return line + lines(self.before) + lines(self.after) + b"\r\n"
        return line + lines(self.before) + coding + message.head() + lines(self.after) + b"\r\n" + message.wire()


PLANNED = st.builds(
    PlannedAnswer,
    st.one_of(st.just(200), st.integers(200, 599), st.sampled_from(sorted(BODILESS))),
    VALUE,
    OFTEN,
    OFTEN,
    st.builds(Message, MADE, st.sampled_from(("none", "length", "length", "chunked"))),
    st.booleans(),
)
# Half are asked for by a search, which shadow looks at; of those every third is a real answer to one.
PLAIN = b"GET /collections HTTP/1.1\r\nHost: db\r\n"


class Teller:
    """A database that gives the answer whose number a request carries."""

    def __init__(self) -> None:
        self.answers: dict[int, PlannedAnswer | None] = {}

    async def __call__(self, talk: Talk) -> None:
        """One connection."""
        while (received := await talk.request()) is not None:
            planned = self.answers[int(received.header(NUMBER) or b"0")]
            await talk.send(self.worded(received, planned))
            if planned is not None and planned.ends:
                return

    def worded(self, received: Received, planned: PlannedAnswer | None) -> bytes:
        """Without an answer of its own, a search is answered honestly."""
        if planned is not None:
            return planned.raw()
        return honest(received) if received.content else reply(b"{}", headers=[JSON])


def question(number: int, *, is_search: bool) -> bytes:
    """A request that wants the answer of that number."""
    field = b"%s: %d\r\n" % (NUMBER, number)
    if is_search:
        return request(search(), headers=field, target=b"/collections/c%d/points/query" % number)
    return PLAIN + field + b"Connection: close\r\n\r\n"


def answers(count: int) -> Iterator[PlannedAnswer | None]:
    """So many answers; None is an honest one."""
    left = count
    for chance in range(count):
        batch = drawn(PLANNED, min(left, AT_ONCE), chance=chance)
        for index, planned in enumerate(batch):
            yield None if index % 6 == 0 else planned
        left -= len(batch)
        if left <= 0:
            return


async def heard(port: int, raw: bytes, planned: PlannedAnswer | None) -> RawReply | None:
    """What a client reads on a connection of its own; None when the answer is cut or does not come."""
    client = await RawClient.connect(port)
    try:
        await client.send(raw)
        return await client.reply(bodiless=planned is not None and planned.status in BODILESS)
    except (asyncio.IncompleteReadError, ConnectionError, TimeoutError):
        return None
    finally:
        client.writer.close()


def difference(direct: RawReply | None, through: RawReply | None) -> str:
    """What the client got otherwise; "" when nothing is."""
    if direct is None or through is None:
        return "" if direct is through else f"{'no' if through is None else 'an'} answer, directly the other way"
    if direct.line != through.line:
        return f"line {through.line!r}, directly {direct.line!r}"
    expected, actual = end_to_end(direct.headers), end_to_end(through.headers)
    if expected != actual:
        return f"fields {actual}, directly {expected}"
    return "" if direct.body == through.body else f"{len(through.body)} bytes, directly {len(direct.body)}"


async def replies(count: int) -> list[Finding]:
    """Every answer in both modes."""
    findings = []
    for mode in ("off", "shadow"):
        teller = Teller()
        async with FaultyUpstream(teller) as upstream, proxy(upstream.url, mode=mode) as running:
            findings.append(await compared(mode, count, teller, (upstream, running.port)))
    return findings


async def compared(mode: str, count: int, teller: Teller, ends: tuple[FaultyUpstream, int]) -> Finding:
    """What clients got of so many answers."""
    upstream, port = ends
    wrong: list[str] = []
    made = 0
    for number, planned in enumerate(answers(count)):
        teller.answers = {number: planned, number - 1: None}  # a measurement of the last one may still be under way
        raw = question(number, is_search=bool(number % 2) or planned is None)
        direct, through = await heard(upstream.port, raw, planned), await heard(port, raw, planned)
        upstream.requests.clear()
        made += 1
        if mismatch := difference(direct, through):
            wrong.append(f"{'honest' if planned is None else planned.status}: {mismatch}")
    what = f"{made - len(wrong)} of {made}{''.join('; ' + fault[:300] for fault in wrong[:2])}"
    return Finding(
        "T2", f"answers in mode {mode}", "line, fields, body: 100 % as direct", what, not wrong and made >= count
    )
