"""Deletions through the gate reach the journal, and originals that change while a write is under way: over REST, against a scripted database."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from support.network.faulty_upstream import FaultyUpstream, RawClient, Received, Talk, raw_exchange, reply
from support.process.clocks import ManualClock
from support.process.running import Running, running
from support.qdrant.gated_writes import DESCRIBED, JSON, STORED, neighbours_reply, put, upsert
from vecsieve.proxy.http.protocol import ClientConnection
from vecsieve.proxy.process import assembly
from vecsieve.proxy.writes.book import Book
from vecsieve.proxy.writes.journal import Journal
from vecsieve.proxy.writes.rows import JournalError

DELETE = b"/collections/c/points/delete?wait=true"
REFUSED = reply(b'{"status":{"error":"no such field"},"time":0}', status=b"400 Bad Request", headers=[JSON])
BROKEN = reply(b'{"status":{"error":"on fire"},"time":0}', status=b"500 Internal Server Error", headers=[JSON])
TEXT = json.loads(upsert(1))["points"][0]["payload"]["text"]


class Database(FaultyUpstream):
    """Point 9 is a copy of each first point. ``deleted``: the answer to deletions; None breaks the connection. ``texts``: what point 9 says, at one
    read after the other; None where it is gone.
    """

    def __init__(self, *texts: str | None, deleted: bytes | None = STORED, stored: bytes = STORED) -> None:
        self.deleted, self.answer = deleted, stored
        self._texts = list(texts)
        self.specific: dict[int, str] = {}
        super().__init__(self._play)

    async def _play(self, talk: Talk) -> None:
        while (received := await talk.request()) is not None:
            content = self._reply_to(received)
            if content is None:
                talk.reset()
                return
            await talk.send(content)

    def _reply_to(self, received: Received) -> bytes | None:
        line = received.line
        if line.startswith(b"GET"):
            return DESCRIBED
        if b"query/batch" in line:
            body = json.loads(neighbours_reply((9, 1.0)).split(b"\r\n\r\n", 1)[1])
            body["result"] += [{"points": []}] * (len(json.loads(received.content)["searches"]) - 1)
            return reply(json.dumps(body).encode(), headers=[JSON])
        if b"/payload" in line:
            return STORED
        if b"/delete" in line or line.startswith(b"DELETE") or b"points/batch" in line:
            return self.deleted
        return self.answer if line.startswith(b"PUT") else self._read(json.loads(received.content)["ids"])

    def _read(self, ids: list[int]) -> bytes:
        text = self._texts.pop(0) if self._texts else TEXT
        has = {**self.specific, **({} if text is None else {9: text})}
        result = [
            {"id": identifier, "payload": {"text": has[identifier]}, "vector": [1.0]}
            for identifier in ids
            if identifier in has
        ]
        return reply(json.dumps({"result": result, "status": "ok", "time": 0}).encode(), headers=[JSON])

    def bodies(self, method: bytes) -> list[Any]:
        return [json.loads(request.content) for request in self.requests if request.line.startswith(method)]


def skipping(upstream: FaultyUpstream, path: Path) -> Any:
    return running(upstream.url, policy={"write": {"mode": "skip"}}, journal={"path": str(path)})


def states(path: Path) -> dict[int, str]:
    with closing(sqlite3.connect(path)) as connection:
        return {int(identifier): state for identifier, state in connection.execute("SELECT id, state FROM points")}


async def left_out(proxy: Running, *ids: int) -> None:
    for identifier in ids:
        assert b" 200 " in await raw_exchange(proxy.port, put(upsert(identifier)))


async def delete(
    proxy: Running, body: Any, *, target: bytes = DELETE, method: bytes = b"POST", headers: bytes = b""
) -> bytes:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return await raw_exchange(proxy.port, put(raw, target=target, method=method, headers=headers))


CASES = [
    pytest.param({"points": [1]}, STORED, ("superseded", "done"), id="by id"),
    pytest.param({"points": [1]}, REFUSED, ("done", "done"), id="refused"),
    pytest.param({"points": [1]}, BROKEN, ("doubted", "done"), id="failed"),
    pytest.param({"points": [1]}, None, ("doubted", "done"), id="lost"),
    pytest.param({"filter": {"must": []}}, STORED, ("doubted", "doubted"), id="by a filter"),
    pytest.param({"filter": {"must": []}}, REFUSED, ("done", "done"), id="by a filter that is refused"),
    pytest.param(b"{", STORED, ("doubted", "doubted"), id="unreadable"),
    pytest.param({"points": [1], "shard_key": "k"}, STORED, ("done", "done"), id="in another shard"),
]


@pytest.mark.parametrize(("body", "answer", "expected"), CASES)
async def test_what_a_client_deletes_is_not_restored(
    tmp_path: Path, body: Any, answer: bytes | None, expected: tuple[str, str]
) -> None:
    path = tmp_path / "j.db"
    async with Database(deleted=answer) as upstream, skipping(upstream, path) as proxy:
        await left_out(proxy, 1, 2)
        response = await delete(proxy, body)
        assert [request.content for request in upstream.requests if b"/delete" in request.line] == [
            body if isinstance(body, bytes) else json.dumps(body).encode()
        ], "it went out once, unchanged"
        if answer is not None:
            assert response.split(b"\r\n\r\n", 1)[1] == answer.split(b"\r\n\r\n", 1)[1]
        assert states(path) == dict(zip((1, 2), expected, strict=True))


@pytest.mark.parametrize(
    ("method", "target", "body", "state"),
    [
        (b"DELETE", b"/collections/c", b"", "superseded"),
        (b"DELETE", b"/collections/other", b"", "done"),
        (b"POST", b"/collections/c/points/batch", {"operations": [{"delete": {"points": [1]}}]}, "superseded"),
        (b"POST", b"/collections/c/points/payload/delete", {"points": [1], "keys": ["a"]}, "done"),
    ],
)
async def test_collections_and_lists_of_updates_delete_too(
    tmp_path: Path, method: bytes, target: bytes, body: Any, state: str
) -> None:
    path = tmp_path / "j.db"
    async with Database() as upstream, skipping(upstream, path) as proxy:
        await left_out(proxy, 1)
        assert b" 200 " in await delete(proxy, body, target=target, method=method)
        assert states(path) == {1: state}


async def test_a_deletion_in_doubt_outlives_a_write_that_fails(tmp_path: Path) -> None:
    """Else the acknowledged point would be neither stored nor listed."""
    path = tmp_path / "j.db"
    async with Database(deleted=None) as upstream, skipping(upstream, path) as proxy:
        await left_out(proxy, 1)
        await delete(proxy, {"points": [1]})
        upstream.answer = REFUSED
        body = json.loads(upsert(1, 2))
        body["points"][1] |= {"vector": [0.0, 1.0, 0.0, 0.0], "payload": {"text": "other words"}}
        assert b" 400 " in await raw_exchange(proxy.port, put(json.dumps(body, separators=(",", ":")).encode()))
        assert states(path) == {1: "doubted"}


async def test_a_client_that_leaves_with_its_answer_leaves_no_doubt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its disconnection cancelled the handler before the journal had heard of the end."""
    path, waits, is_lost, goes = tmp_path / "j.db", asyncio.Event(), asyncio.Event(), asyncio.Event()
    ended, lost = Journal.deletions_ended, ClientConnection.connection_lost

    async def slowly_ended(*arguments: Any, **named: Any) -> None:
        waits.set()
        with suppress(asyncio.CancelledError):
            await goes.wait()
        await ended(*arguments, **named)

    def connection_lost(*arguments: Any) -> None:
        lost(*arguments)
        is_lost.set()

    async with Database() as upstream, skipping(upstream, path) as proxy:
        await left_out(proxy, 1)
        monkeypatch.setattr(Journal, "deletions_ended", slowly_ended)
        monkeypatch.setattr(ClientConnection, "connection_lost", connection_lost)
        client = await RawClient.connect(proxy.port)
        await client.send(put(json.dumps({"points": [1]}).encode(), target=DELETE, method=b"POST"))
        assert (await client.reader.readuntil(b"}")).startswith(b"HTTP/1.1 200 ")
        await waits.wait()
        await client.close()
        await is_lost.wait()
        goes.set()
    assert states(path) == {1: "superseded"}


async def test_without_a_journal_deletions_cost_nothing(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    async with Database() as upstream, skipping(upstream, path) as proxy:
        assert b" 200 " in await delete(proxy, {"points": [1]})
    assert not path.exists()


@pytest.mark.parametrize("now", [None, "some other words of a text"])
async def test_a_copy_whose_original_changed_meanwhile_is_stored(tmp_path: Path, now: str | None) -> None:
    path = tmp_path / "j.db"
    async with Database(TEXT, now) as upstream, skipping(upstream, path) as proxy:
        await left_out(proxy, 1)
        assert upstream.bodies(b"PUT") == [json.loads(upsert(1))]
        assert states(path)[1] != "done"


async def test_a_copy_under_whose_id_something_was_stored_meanwhile_is_stored(tmp_path: Path) -> None:
    path = tmp_path / "j.db"

    class Racing(Database):
        def _reply_to(self, received: Received) -> bytes | None:
            words = super()._reply_to(received)
            if received.line.startswith(b"POST") and b"query" not in received.line:
                self.specific[1] = "an older text"
            return words

    async with Racing() as upstream, skipping(upstream, path) as proxy:
        await left_out(proxy, 1)
        assert upstream.bodies(b"PUT") == [json.loads(upsert(1))]


async def test_only_the_copy_is_sent_after_the_rest(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    body = json.loads(upsert(1, 2))
    body["points"][1] |= {"vector": [0.0, 1.0, 0.0, 0.0], "payload": {"text": "other words"}}
    async with Database(TEXT, None) as upstream, skipping(upstream, path) as proxy:
        assert b" 200 " in await raw_exchange(proxy.port, put(json.dumps(body, separators=(",", ":")).encode()))
        assert [body["points"] for body in upstream.bodies(b"PUT")] == [[body["points"][1]], [body["points"][0]]]


async def test_where_the_copy_cannot_be_stored_the_write_is_not_acknowledged(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    async with Database(TEXT, None, stored=BROKEN) as upstream, skipping(upstream, path) as proxy:
        assert b" 502 " in await raw_exchange(proxy.port, put(upsert(1)))
        assert states(path) == {1: "refused"}


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
async def test_a_deletion_after_the_clock_was_set_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, jump: float
) -> None:
    path, wall = tmp_path / "j.db", ManualClock(1e9)
    monkeypatch.setattr(assembly, "time", SimpleNamespace(time=wall, monotonic=time.monotonic))
    async with Database() as upstream, skipping(upstream, path) as proxy:
        await left_out(proxy, 1, 2)
        wall.now += jump
        await delete(proxy, {"points": [1]})
        assert states(path) == {1: "superseded", 2: "done"}
        await left_out(proxy, 1)
        assert states(path) == {1: "done", 2: "done"}


async def test_a_deletion_whose_place_is_not_known_leaves_a_doubt(tmp_path: Path) -> None:
    """The journal is locked when it goes out: what was left out before, and since, may be deleted or not."""
    path = tmp_path / "j.db"
    async with Database() as upstream, skipping(upstream, path) as proxy:
        await left_out(proxy, 1)
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(Book, "latest", fails)
            await delete(proxy, {"points": [1]})
        assert states(path) == {1: "doubted"}


def fails(_: Book) -> float:
    raise JournalError("locked")


UNWAITED = b"/collections/c/points"


@pytest.mark.parametrize(
    "earlier",
    [
        pytest.param(upsert(9), id="an update of the original"),
        pytest.param(json.dumps({**json.loads(upsert(5)), "update_filter": {}}).encode(), id="one that is not parsed"),
    ],
)
async def test_after_a_write_that_waits_in_the_database_nothing_is_left_out_by_what_reads_say(
    tmp_path: Path, earlier: bytes
) -> None:
    path = tmp_path / "j.db"
    async with Database() as upstream, skipping(upstream, path) as proxy:
        await raw_exchange(proxy.port, put(earlier, target=UNWAITED))
        await left_out(proxy, 1)
        assert upstream.bodies(b"PUT")[-1] == json.loads(upsert(1))
        assert 1 not in states(path)


@pytest.mark.parametrize("waits", [True, False])
@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        (b"POST", b"/delete", {"points": [9, 4]}),
        (b"POST", b"/delete", {"filter": {"must": []}}),
        (b"POST", b"/batch", {"operations": [{"delete": {"points": [9]}}]}),
        (b"POST", b"/payload", {"points": [9], "payload": {"text": "x"}}),
        (b"PUT", b"/payload", {"filter": {"must": []}, "payload": {"text": "x"}}),
        (b"POST", b"/payload/delete", {"points": [9], "keys": ["text"]}),
        (b"POST", b"/payload/clear", {"points": [9]}),
        (b"PUT", b"/vectors", {"points": [{"id": 9, "vector": [0.0, 1.0, 0.0, 0.5]}]}),
        (b"POST", b"/vectors/delete", {"points": [9], "vector": [""]}),
        (b"POST", b"/batch", {"operations": [{"set_payload": {"points": [9], "payload": {"text": "x"}}}]}),
    ],
)
async def test_an_original_whose_end_or_change_waits_in_the_database_leaves_nothing_out(
    tmp_path: Path, method: bytes, target: bytes, body: Any, waits: bool
) -> None:
    """The database shows it as it was."""
    path = tmp_path / "j.db"
    async with Database() as upstream, skipping(upstream, path) as proxy:
        whole = UNWAITED + target + (b"?wait=true" if waits else b"")
        assert b" 200 " in await delete(proxy, body, target=whole, method=method)
        assert [(request.line.split()[:2], json.loads(request.content)) for request in upstream.requests] == [
            ([method, whole], body)
        ], "it went out once, unchanged"
        await left_out(proxy, 1)
        stored = [body for body in upstream.bodies(b"PUT") if body == json.loads(upsert(1))]
        assert (len(stored), states(path) if waits else {}) == ((0, {1: "done"}) if waits else (1, {}))


async def test_a_large_change_that_waits_in_the_database_stands_for_all_of_its_collection(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    body = {"points": [{"id": 4, "vector": [0.0, 1.0, 0.0, 0.5]}]}
    limits = {"write_body_bytes": len(json.dumps(body)) - 1}
    async with (
        Database() as upstream,
        running(
            upstream.url,
            policy={"write": {"mode": "skip"}},
            journal={"path": str(path)},
            limits={**limits, "request_body_bytes": 10},
        ) as proxy,
    ):
        await delete(proxy, body, target=UNWAITED + b"/vectors", method=b"PUT")
        assert upstream.bodies(b"PUT") == [body]
    with closing(Book(path)) as book:
        assert book.unseen("c", b"", [b"9"], at=time.monotonic()) == {b"9"}


async def test_an_original_that_is_updated_between_verdict_and_second_read_leaves_nothing_out(tmp_path: Path) -> None:
    """The update waits in the database: the second read does not show it."""
    path = tmp_path / "j.db"

    class Racing(Database):
        def _reply_to(self, received: Received) -> bytes | None:
            if received.line.startswith(b"POST") and b"query" not in received.line:
                with closing(Book(path)) as book:
                    reads.append(received)
                    if len(reads) == 2:
                        book.note("c", b"", [b"9"], at=time.monotonic())
            return super()._reply_to(received)

    reads: list[Received] = []
    async with Racing() as upstream, skipping(upstream, path) as proxy:
        await left_out(proxy, 1)
        assert upstream.bodies(b"PUT") == [json.loads(upsert(1))]
