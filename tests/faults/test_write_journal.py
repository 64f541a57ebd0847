"""Mode skip under faults: every acknowledged point is stored or in the journal, and a write that cannot be written down goes out whole."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import random
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, closing, suppress
from pathlib import Path

import pytest

from support.network.faulty_upstream import FaultyUpstream, Received, Talk, raw_exchange, reply
from support.process import stack
from support.process.running import Running, running
from support.qdrant.embedded import start_embedded_process
from support.qdrant.gated_writes import DESCRIBED, JSON, STORED, neighbours_reply, put, upsert
from vecsieve.proxy.writes.book import Book
from vecsieve.proxy.writes.rows import UNSEEN_SECONDS

WRITES = int(os.environ.get("WRITES", "40"))  # `WRITES=1000` is the deep run


def states(path: Path) -> dict[bytes, str]:
    if not path.exists():
        return {}
    with closing(sqlite3.connect(path)) as connection:
        return dict(connection.execute("SELECT id, state FROM points"))


class Database(FaultyUpstream):
    """Finds point 9, a copy, near the first point of each write, and nothing near the others. ``stored``: which further ids it
    has.
    """

    def __init__(self, *stored: int, answer: bytes = STORED) -> None:
        self.stored = stored
        self.answer = answer
        super().__init__(self._play)

    async def _play(self, talk: Talk) -> None:
        while (received := await talk.request()) is not None:
            await talk.send(self._reply_to(received))

    def _reply_to(self, received: Received) -> bytes:
        if received.line.startswith(b"GET"):
            return DESCRIBED
        if b"query/batch" in received.line:
            count = len(json.loads(received.content)["searches"])
            body = json.loads(neighbours_reply((9, 1.0)).split(b"\r\n\r\n", 1)[1])
            body["result"] += [{"points": []}] * (count - 1)
            return reply(json.dumps(body).encode(), headers=[JSON])
        if received.line.startswith(b"POST"):
            payload = json.loads(upsert(1))["points"][0]["payload"]
            ids = [number for number in json.loads(received.content)["ids"] if number in (9, *self.stored)]
            result = [{"id": identifier, "payload": payload} for identifier in ids]
            return reply(json.dumps({"result": result, "status": "ok", "time": 0}).encode(), headers=[JSON])
        return self.answer

    @property
    def written(self) -> list[bytes]:
        return [request.content for request in self.requests if request.line.startswith(b"PUT")]


def skipping(upstream: FaultyUpstream, path: Path) -> AbstractAsyncContextManager[Running]:
    return running(upstream.url, policy={"write": {"mode": "skip"}}, journal={"path": str(path)})


def two(one: int, other: int) -> bytes:
    """A copy of point 9, and another point."""
    body = json.loads(upsert(one, other))
    body["points"][1] |= {"vector": [0.0, 1.0, 0.0, 0.0], "payload": {"text": "other words"}}
    return json.dumps(body, separators=(",", ":")).encode()


async def test_a_copy_is_in_the_journal_before_the_rest_goes_out(tmp_path: Path) -> None:
    path, seen = tmp_path / "j.db", []

    class Watching(Database):
        def _reply_to(self, received: Received) -> bytes:
            if received.line.startswith(b"PUT"):
                seen.append(states(path))
            return super()._reply_to(received)

    async with Watching() as upstream, skipping(upstream, path) as proxy:
        answer = await raw_exchange(proxy.port, put(two(1, 2)))
        assert answer.split(b"\r\n\r\n", 1)[1] == STORED.split(b"\r\n\r\n", 1)[1]
        assert seen == [{b"1": "pending"}]
        assert states(path) == {b"1": "done"}
        assert [json.loads(body)["points"] for body in upstream.written] == [json.loads(two(1, 2))["points"][1:]]
        assert proxy.count("write_points_settled_total", backend="qdrant", result="left_out") == 1


async def test_a_write_of_copies_alone_is_answered_natively_and_says_who_spoke(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    async with Database() as upstream, skipping(upstream, path) as proxy:
        answer = await raw_exchange(proxy.port, put(upsert(1)))
        assert answer.startswith(b"HTTP/1.1 200 ")
        assert b"x-vecsieve-origin: proxy" in answer
        assert json.loads(answer.split(b"\r\n\r\n", 1)[1]) == {
            "result": {"operation_id": None, "status": "completed"},
            "status": "ok",
            "time": 0.0,
        }
        assert upstream.written == []
        assert states(path) == {b"1": "done"}


async def test_when_the_database_refuses_the_rest_nothing_counts_as_left_out(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    refusal = reply(b'{"status":{"error":"wrong dimension"},"time":0}', status=b"400 Bad Request", headers=[JSON])
    async with Database(answer=refusal) as upstream, skipping(upstream, path) as proxy:
        assert b" 400 " in await raw_exchange(proxy.port, put(two(1, 2)))
        assert states(path) == {b"1": "refused"}
        assert proxy.count("write_points_settled_total", backend="qdrant", result="left_out") == 0


async def test_a_write_that_was_not_acknowledged_may_be_repeated(tmp_path: Path) -> None:
    path = tmp_path / "j.db"

    class Breaking(Database):
        breaks = True

        async def _play(self, talk: Talk) -> None:
            while (received := await talk.request()) is not None:
                if received.line.startswith(b"PUT") and self.breaks:
                    self.breaks = False
                    talk.reset()
                    return
                await talk.send(self._reply_to(received))

    async with Breaking() as upstream, skipping(upstream, path) as proxy:
        assert b" 502 " in await raw_exchange(proxy.port, put(two(1, 2)))
        assert states(path) == {b"1": "refused"}
        assert b" 200 " in await raw_exchange(proxy.port, put(two(1, 2)))
        assert states(path) == {b"1": "done"}


async def test_without_a_journal_that_can_be_written_the_write_goes_out_whole(tmp_path: Path) -> None:
    async with Database() as upstream, skipping(upstream, tmp_path / "absent" / "j.db") as proxy:
        assert b" 200 " in await raw_exchange(proxy.port, put(two(1, 2)))
        assert upstream.written == [two(1, 2)]
        assert proxy.count("writes_total", backend="qdrant", outcome="failed") == 1


async def test_a_write_that_cannot_be_settled_is_not_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "j.db"

    class Locking(Database):
        lock: sqlite3.Connection | None = None

        def _reply_to(self, received: Received) -> bytes:
            if received.line.startswith(b"PUT"):
                self.lock = sqlite3.connect(path, isolation_level=None)
                self.lock.execute("BEGIN IMMEDIATE")  # another process holds the file
            return super()._reply_to(received)

    async with Locking() as upstream, skipping(upstream, path) as proxy:
        assert b" 502 " in await raw_exchange(proxy.port, put(two(1, 2)))
        assert upstream.lock is not None
        upstream.lock.rollback()
        upstream.lock.close()
        assert states(path) == {b"1": "pending"}


@pytest.mark.parametrize("stored", [(1,), (1, 2)])
async def test_a_point_whose_id_is_stored_is_never_left_out(tmp_path: Path, stored: tuple[int, ...]) -> None:
    path = tmp_path / "j.db"
    async with Database(*stored) as upstream, skipping(upstream, path) as proxy:
        await raw_exchange(proxy.port, put(two(1, 2)))
        assert upstream.written == [two(1, 2)]
        assert states(path) == {}


async def test_a_client_that_asks_where_the_ids_are_and_gets_no_answer_loses_nothing(tmp_path: Path) -> None:
    class Deaf(Database):
        async def _play(self, talk: Talk) -> None:
            while (received := await talk.request()) is not None:
                if received.line.startswith(b"POST /collections/c/points HTTP"):
                    await asyncio.sleep(5)
                await talk.send(self._reply_to(received))

    async with (
        Deaf() as upstream,
        running(
            upstream.url,
            policy={"write": {"mode": "skip", "deadline_seconds": 0.3}},
            journal={"path": str(tmp_path / "j.db")},
        ) as proxy,
    ):
        assert b" 200 " in await raw_exchange(proxy.port, put(two(1, 2)))
        assert upstream.written == [two(1, 2)]


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    with start_embedded_process() as url:
        yield url


def test_killed_at_any_moment_every_acknowledged_point_is_stored_or_in_the_journal(engine: str, tmp_path: Path) -> None:
    """With its survivor stored; and none is both, or twice in the journal."""
    path, chance = tmp_path / "j.db", random.Random(11)
    settings = {"VECSIEVE_POLICY_WRITE_MODE": "skip", "VECSIEVE_JOURNAL_PATH": str(path)}
    stack.exchange(engine, "PUT", "/collections/k", b'{"vectors":{"size":8,"distance":"Cosine"}}')
    acknowledged: set[int] = set()
    number = 0
    while number < WRITES:
        with stack.command(
            *("serve", "--upstream", engine, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"), environment=settings
        ) as proxy:
            url = proxy.addresses(2)["serve"]
            for _ in range(chance.randrange(4, 12)):
                number += 1
                ids = [10 * number, 10 * number + 1]
                is_last = chance.random() < 0.2
                if is_last:
                    kill(proxy)
                try:
                    if (
                        stack.exchange(
                            url, "PUT", "/collections/k/points?wait=true", pair(ids[0], ids[1], chance)
                        ).status
                        == 200
                    ):
                        acknowledged.update(ids)
                except (OSError, http.client.HTTPException):
                    break
            kill(proxy)
            proxy.process.wait(30)
    page = stack.exchange(engine, "POST", "/collections/k/points/scroll", b'{"limit":10000}')
    stored = {point["id"] for point in json.loads(page.body)["result"]["points"]}
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT id, survivor FROM points WHERE state = 'done'").fetchall()
    left_out = [int(identifier) for identifier, _ in rows]
    assert acknowledged <= stored | set(left_out)
    assert {int(survivor) for _, survivor in rows} <= stored
    assert stored.isdisjoint(left_out)
    assert len(left_out) == len(set(left_out)) > WRITES // 4


@pytest.mark.parametrize("workers", [1, 2])
def test_a_second_proxy_on_one_journal_does_not_start_and_a_killed_one_leaves_it_free(
    tmp_path: Path, workers: int
) -> None:
    journal = {"VECSIEVE_JOURNAL_PATH": str(tmp_path / "j.db"), "VECSIEVE_WORKERS": str(workers)}
    ports = ("--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--upstream", "http://127.0.0.1:1")
    with stack.command("serve", *ports, environment=journal) as first:
        first.addresses(2)
        with stack.command("serve", *ports, environment=journal) as second:
            assert second.process.wait(30) == 2
            assert "journal.path: wanted a journal for each proxy" in second.output()
        kill(first)
        with stack.command("serve", *ports, environment=journal) as third:
            third.addresses(2)


def kill(proxy: stack.Command) -> None:
    with suppress(ProcessLookupError):  # it is gone already
        proxy.process.send_signal(signal.SIGKILL)


def pair(one: int, other: int, chance: random.Random) -> bytes:
    """Two points of a few families: some are copies."""
    points = []
    for identifier in (one, other):
        family = chance.randrange(12)
        axes = random.Random(family)
        numbers = [axes.uniform(-1, 1) for _ in range(8)]
        points.append({"id": identifier, "vector": numbers, "payload": {"text": f"family {'x' * family}"}})
    return json.dumps({"points": points}).encode()


async def test_an_update_of_a_point_that_reads_do_not_show_yet_is_stored(tmp_path: Path) -> None:
    """A write that is not waited for is in the queue: its id counts as stored, or the update that follows would be left out and lost."""
    path = tmp_path / "j.db"
    first = json.loads(upsert(1))
    first["points"][0] |= {"payload": {"text": "some other words of a text"}}
    async with Database() as upstream, skipping(upstream, path) as proxy:
        unwaited = put(json.dumps(first).encode(), target=b"/collections/c/points")
        await raw_exchange(proxy.port, unwaited)
        await raw_exchange(proxy.port, put(upsert(1)))
        await raw_exchange(proxy.port, put(upsert(2)))
    assert [json.loads(body)["points"][0]["id"] for body in upstream.written] == [1, 1], "2 is a copy, 1 an update"
    assert states(path) == {b"2": "done"}


def test_an_id_is_unseen_for_a_while_and_in_its_collection(tmp_path: Path) -> None:
    with closing(Book(tmp_path / "j.db")) as book:
        book.note("c", b"", [b"1", b"2"], at=1000.0)
        assert book.unseen("c", b"", [b"1", b"3"], at=1000.0 + UNSEEN_SECONDS) == {b"1"}
        assert book.unseen("other", b"", [b"1"], at=1000.0) == frozenset()
        assert book.unseen("c", b'"n"', [b"1"], at=1000.0) == frozenset()
        assert book.unseen("c", b"", [b"1"], at=1001.0 + UNSEEN_SECONDS) == frozenset()
        book.note("c", b"", [b"2"], at=1500.0)
        assert book.unseen("c", b"", [b"2"], at=1001.0 + UNSEEN_SECONDS) == {b"2"}


async def test_a_later_content_of_an_id_supersedes_what_was_left_out_under_it(tmp_path: Path) -> None:
    """Else `undo` would store the older content again, after its client has deleted the newer one."""
    path = tmp_path / "j.db"
    later = json.loads(upsert(1))
    later["points"][0] |= {"payload": {"text": "some other words of a text"}}
    async with Database() as upstream, skipping(upstream, path) as proxy:
        await raw_exchange(proxy.port, put(upsert(1)))
        await raw_exchange(proxy.port, put(upsert(2)))
        assert states(path) == {b"1": "done", b"2": "done"}
        await raw_exchange(proxy.port, put(json.dumps(later).encode()))
    assert states(path) == {b"1": "superseded", b"2": "done"}
    with closing(Book(path)) as book:
        assert [head.id for head in book.heads()] == [b"2"]
