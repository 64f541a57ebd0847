"""T4: generated searches in mode on: every result is the database's own bytes, never more than asked for, in its order."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

import msgspec

from prove.finding import Finding
from prove.stack import proxy
from support.exchanges.conversation import Conversation
from support.exchanges.drawing import drawn
from support.network.faulty_upstream import FaultyUpstream, RawClient, Talk, reply
from support.qdrant.bodies import conversations
from support.qdrant.scripted import JSON, request

AT_ONCE = 100
NUMBER = b"x-number"
SURROGATE = re.compile(rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}")
Members = dict[str, msgspec.Raw]


@dataclass
class Database:
    """Answers each request as its conversation does."""

    talks: dict[int, Conversation] = field(default_factory=dict)

    async def __call__(self, talk: Talk) -> None:
        """One connection."""
        while (received := await talk.request()) is not None:
            number = int(received.header(NUMBER) or b"0")
            await talk.send(reply(self.talks[number].answer(received.content), headers=[JSON]))


def members(raw: bytes) -> Members:
    """An object's members, each as it is written. A repeated one counts once."""
    parsed: Members = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
    return parsed


def readable(body: bytes) -> bytes:
    """The same length with other escapes: msgspec refuses half a surrogate pair, which a database may well send."""
    return SURROGATE.sub(rb"\\u0041", body)


def lists(body: bytes, *, is_batch: bool) -> list[list[bytes]]:
    """The results of each search of an answer, as they are written."""
    result = bytes(members(body)["result"])
    pages = [bytes(one) for one in msgspec.json.decode(result, type=list[msgspec.Raw])] if is_batch else [result]
    pages = [bytes(members(one)["points"]) if one.lstrip()[:1] == b"{" else one for one in pages]
    return [[bytes(point) for point in msgspec.json.decode(one, type=list[msgspec.Raw])] for one in pages]


def other_members(body: bytes) -> list[tuple[str, bytes]]:
    """The members of an answer that are no results, in order."""
    return [(name, bytes(value)) for name, value in members(body).items() if name != "result"]


def faults(talk: Conversation, direct: bytes, whole: bytes, answer: bytes) -> list[str]:
    """What is wrong with an answer, beside the direct one and everything that the database has for it."""
    is_batch = talk.path.endswith("/batch")
    wrong = [] if other_members(answer) == other_members(direct) else ["a member beside the results differs"]
    expected, pools, actual = (lists(body, is_batch=is_batch) for body in (direct, whole, answer))
    if len(actual) != len(expected):
        return [*wrong, f"{len(actual)} lists, wanted {len(expected)}"]
    for reference, pool, page in zip(expected, pools, actual, strict=True):
        if len(page) > len(reference):  # asked directly, the database fills every page that it can
            wrong.append(f"{len(page)} results, directly {len(reference)}")
        if bool(page) != bool(reference):
            wrong.append("nothing is left of something")
        wrong += _in_order(pool, page)
    return wrong


def _in_order(all_of_it: list[bytes], page: list[bytes]) -> list[str]:
    """Each result is one of the list's, behind the one before it."""
    rest = iter(all_of_it)
    strange = next((result for result in page if result not in rest), None)
    return [] if strange is None else [f"no such result in the database's order: {strange[:80]!r}"]


def everything(talk: Conversation) -> bytes:
    """What the database says to the client's own request without its page: every result, in the client's own shape."""
    document = json.loads(talk.body)
    for item in document.get("searches", [document]):
        item.update({"limit": 1_000, "offset": 0})
    return talk.answer(json.dumps(document).encode())


async def ask(port: int, raw: bytes) -> tuple[int, bytes | None, bytes]:
    """Status, our report where there is one, and the body."""
    client = await RawClient.connect(port)
    try:
        await client.send(raw)
        answer = await client.reply()
    finally:
        client.writer.close()
    report = answer.header(b"x-vecsieve")
    return (
        answer.status,
        None if report is None or report.startswith((b"bypass=", b"fail_open=")) else report,
        answer.body,
    )


async def searches(count: int) -> list[Finding]:
    """So many searches, each asked directly and through the proxy."""
    database, wrong = Database(), []
    made = improved = 0
    async with FaultyUpstream(database) as upstream, proxy(upstream.url) as running:
        while made < count:
            for talk in drawn(conversations(), min(AT_ONCE, count - made), chance=made):
                database.talks = {made: talk}
                raw = request(talk.body, headers=b"%s: %d\r\n" % (NUMBER, made), target=talk.path.encode())
                status, report, body = await ask(running.port, raw)
                direct, whole = talk.answer(talk.body), everything(talk)
                improved += report is not None
                problems = (
                    faults(talk, *map(readable, (direct, whole, body))) if status == 200 else [f"status {status}"]
                )
                wrong += [f"{talk.path}: {problem}" for problem in problems[:1]]
                made += 1
            upstream.requests.clear()
    measured = f"{made - len(wrong)} of {made}, {improved} with results left out{''.join('; ' + problem for problem in wrong[:2])}"
    criterion = "each result the database's own bytes, in its order, never more than directly; all else equal"
    return [Finding("T4", "searches in mode on", criterion, measured, not wrong and improved > count // 50)]
