"""W: unique writes, in order on each connection, while the proxy itself is ended and started again and the database is killed."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise

from prove.database import Database, write
from prove.finding import Finding, Scale
from prove.stack import proxy, served
from support.network.faulty_upstream import RawClient
from support.network.ports import free_port

RATE = 300.0
WRITERS = 16
UP_SECONDS = 10.0
KILLED_SECONDS = 3.0
ANSWER_SECONDS = 10.0
AGAIN_SECONDS = 0.05


@dataclass(slots=True)
class Account:
    """What the writers did. ``sent``: the writes of each connection in order, by its number."""

    acknowledged: set[int] = field(default_factory=set)
    sent: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    unanswered: int = 0


async def prove(scale: Scale) -> list[Finding]:
    """The proxy goes every 10 s, by SIGTERM and SIGKILL in turn; the database is killed every 3 s."""
    account, numbers, connections = Account(), iter(range(scale.writes // 2)), count()
    port, admin = free_port(), free_port()
    async with served() as database:
        url = f"http://127.0.0.1:{database.port}"
        tasks = [
            asyncio.create_task(restarting(url, port, admin)),
            asyncio.create_task(killing(database)),
        ]
        await asyncio.gather(*(writer(port, numbers, connections, account) for _ in range(WRITERS)))
        for task in tasks:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        broken = "".join(repr(one) for one in ended if not isinstance(one, asyncio.CancelledError))
        arrived = [int(line) for line in database.journal.read_text(encoding="ascii").split()]
    return findings(
        account, arrived, f"{scale.writes // 2} writes of {WRITERS} clients, proxy and upstream ended", broken
    )


def findings(account: Account, arrived: Sequence[int], what: str, broken: str) -> list[Finding]:
    """What the database has, beside what the clients know."""
    twice = len(arrived) - len(set(arrived))
    lost = len(account.acknowledged - set(arrived))
    summary = f"{twice}; {len(account.acknowledged)} acknowledged, {account.unanswered} without an answer{broken}"
    turned = disordered(account.sent, arrived)
    return [
        Finding("W2", what, "0 arrived twice", summary, met=not twice and not broken),
        Finding("W2", what, "0 acknowledged and missing", f"{lost} of {len(account.acknowledged)}", met=not lost),
        Finding("W2", what, "0 out of order on a connection", f"{turned} on {len(account.sent)}", met=not turned),
    ]


def disordered(sent: Mapping[int, Sequence[int]], arrived: Sequence[int]) -> int:
    """How many writes arrived before one that their connection had sent earlier."""
    place = {number: at for at, number in enumerate(arrived)}
    places = ([place[number] for number in numbers if number in place] for numbers in sent.values())
    return sum(later < earlier for sequence in places for earlier, later in pairwise(sequence))


async def writer(port: int, numbers: Iterator[int], connections: count[int], account: Account) -> None:
    """One client: a write after the other, each once; a new connection after each failure."""
    client, connection = None, 0
    for number in numbers:
        await asyncio.sleep(WRITERS / RATE)
        while client is None:
            try:
                client, connection = await RawClient.connect(port), next(connections)
            except OSError:
                await asyncio.sleep(AGAIN_SECONDS)
        account.sent[connection].append(number)
        status = await once(client, number)
        if status == 200:
            account.acknowledged.add(number)
        else:
            account.unanswered += status == 0
            client.writer.close()
            client = None


async def once(client: RawClient, number: int) -> int:
    """The status of the answer, 0 for none."""
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            await client.send(write(number))
            return (await client.reply()).status
    except (OSError, asyncio.IncompleteReadError, TimeoutError):
        return 0


async def restarting(url: str, port: int, admin: int) -> None:
    """The proxy on the same ports again and again until cancelled."""
    for number in count():
        async with proxy(url, listen=f"127.0.0.1:{port}", admin=f"127.0.0.1:{admin}") as running:
            await asyncio.sleep(UP_SECONDS)
            if number % 2:
                running.command.process.kill()


async def killing(database: Database) -> None:
    """The database is killed and started again until cancelled."""
    while True:
        await asyncio.sleep(KILLED_SECONDS)
        database.kill()
        database.start()
        await database.listening()
