"""The write gates of Pinecone, and of Weaviate with several replicas, where reads show a write a second later: no update is lost."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from aiohttp import ClientSession, DummyCookieJar, web

from support.backends.write_gates import SIZE, ten_minutes_later, text_with, vector
from support.jobs.journals import rows_left_out
from support.network.http_scripts import on_the_loop
from support.pinecone.loading import HEADERS, index_url, loaded
from support.process.running import running
from support.process.stack import exchange
from support.weaviate.server import weaviate as emulator
from vecsieve.proxy.writes.book import Book

# A database whose reads lag: writes are acknowledged at once, and carried out so much later.
HOP_BY_HOP = {"host", "content-length", "transfer-encoding", "connection"}
Acknowledged = Callable[[str, Any], Any]
"""The answer to a write, by its path and its body; None for a request that is no write."""


@asynccontextmanager
async def lagging(url: str, acknowledged: Acknowledged, *, seconds: float) -> AsyncIterator[str]:
    """The URL of a front of the database at ``url``."""
    late: set[asyncio.Task[Any]] = set()

    async def answer(request: web.Request) -> web.Response:
        body = await request.read()
        head = {name: value for name, value in request.headers.items() if name.lower() not in HOP_BY_HOP}

        async def forwarded() -> web.Response:
            async with session.request(request.method, url + request.raw_path, data=body, headers=head) as reply:
                return web.Response(status=reply.status, body=await reply.read(), content_type=reply.content_type)

        async def later() -> None:
            await asyncio.sleep(seconds)
            await forwarded()

        written = acknowledged(f"{request.method} {request.path}", json.loads(body) if body else None)
        if written is None:
            return await forwarded()
        task = asyncio.create_task(later())
        late.add(task)
        return web.json_response(written)

    async with ClientSession(cookie_jar=DummyCookieJar()) as session, on_the_loop(answer) as front:
        try:
            yield front
            await asyncio.gather(*late)
        finally:
            for task in late:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(*late, return_exceptions=True)


LAG_SECONDS = 1.0
JSON = {"Content-Type": "application/json"}
SKIPPING = {"write": {"mode": "skip", "deadline_seconds": 10.0}}


@dataclass(frozen=True, slots=True)
class Site:
    """A database behind a gate, both told by a number, a direction and a word of each point. ``stored``: the word under an id."""

    put: Callable[[int, int, str], None]
    delete: Callable[[int], None]
    stored: Callable[[int], str | None]
    journal: Path

    def left_out(self) -> list[str]:
        """The words of the points that `undo` would store."""
        if not self.journal.exists():
            return []
        book = Book(self.journal)
        try:
            texts = [row.point.decode() for row in rows_left_out(book)]
        finally:
            book.close()
        return [word for text in texts for word in ("alpha", "beta", "gamma") if text_with(word) in text]


@asynccontextmanager
async def pinecone(folder: Path) -> AsyncIterator[Site]:
    def acknowledged(line: str, body: Any) -> Any:
        if line == "POST /vectors/delete":
            return {}
        return {"upsertedCount": len(body["vectors"])} if line == "POST /vectors/upsert" else None

    plan = {"indexes": {"i": {"created": {"dimension": SIZE, "metric": "cosine"}, "records": {}}}}
    with loaded(plan) as control:
        url = index_url(control, "i")

        def point(number: int, axis: int, word: str) -> Any:
            return {"id": str(number), "values": vector(axis), "metadata": {"text": text_with(word)}}

        def stored(number: int) -> str | None:
            reply = exchange(url, "GET", f"/vectors/fetch?ids={number}", headers=HEADERS)
            record = json.loads(reply.body)["vectors"].get(str(number))
            return None if record is None else str(record["metadata"]["text"]).split()[0]

        async with (
            lagging(url, acknowledged, seconds=LAG_SECONDS) as late,
            running(
                control,
                backend="pinecone",
                pinecone={"index_host": late},
                policy=SKIPPING,
                journal={"path": str(folder / "j.db")},
            ) as proxy,
        ):

            def put(number: int, axis: int, word: str) -> None:
                body = json.dumps({"vectors": [point(number, axis, word)]}).encode()
                answer = exchange(f"http://127.0.0.1:{proxy.port}", "POST", "/vectors/upsert", body, HEADERS)
                assert answer.status == 200, answer.body

            def delete(number: int) -> None:
                body = json.dumps({"ids": [str(number)]}).encode()
                answer = exchange(f"http://127.0.0.1:{proxy.port}", "POST", "/vectors/delete", body, HEADERS)
                assert answer.status == 200, answer.body

            yield Site(put, delete, stored, folder / "j.db")
            assert proxy.count("writes_total", backend="pinecone", outcome="judged") > 0


@asynccontextmanager
async def weaviate(folder: Path) -> AsyncIterator[Site]:
    def acknowledged(line: str, body: Any) -> Any:
        if line.startswith("DELETE "):
            return {}
        if line != "POST /v1/batch/objects":
            return None
        return [{**item, "result": {"status": "SUCCESS"}} for item in body["objects"]]

    def named(number: int) -> str:
        return str(UUID(int=number))

    with emulator() as database:
        properties = [{"name": "text", "dataType": ["text"]}]
        created = {"class": "Docs", "properties": properties, "vectorIndexConfig": {"distance": "cosine"}}
        created["replicationConfig"] = {"factor": 3}
        exchange(database.url, "POST", "/v1/schema", json.dumps(created).encode(), JSON)

        def stored(number: int) -> str | None:
            reply = exchange(database.url, "GET", f"/v1/objects/Docs/{named(number)}")
            return None if reply.status == 404 else str(json.loads(reply.body)["properties"]["text"]).split()[0]

        async with (
            lagging(database.url, acknowledged, seconds=LAG_SECONDS) as late,
            running(
                late,
                backend="weaviate",
                grpc={"listen": "127.0.0.1:0"},
                policy=SKIPPING,
                journal={"path": str(folder / "j.db")},
            ) as proxy,
        ):

            def put(number: int, axis: int, word: str) -> None:
                one = {
                    "class": "Docs",
                    "id": named(number),
                    "vector": vector(axis),
                    "properties": {"text": text_with(word)},
                }
                body = json.dumps({"objects": [one]}).encode()
                answer = exchange(f"http://127.0.0.1:{proxy.port}", "POST", "/v1/batch/objects", body, JSON)
                assert answer.status == 200, answer.body

            def delete(number: int) -> None:
                place = f"/v1/objects/Docs/{named(number)}"
                assert exchange(f"http://127.0.0.1:{proxy.port}", "DELETE", place).status == 200

            yield Site(put, delete, stored, folder / "j.db")
            assert proxy.count("writes_total", backend="weaviate", outcome="judged") > 0


SITES = {"pinecone": pinecone, "weaviate": weaviate}


@pytest.fixture(params=sorted(SITES))
async def site(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Site]:
    async with SITES[request.param](tmp_path) as made:
        await asyncio.to_thread(made.put, 9, 0, "alpha")
        await visible(made, 9, "alpha")
        ten_minutes_later(tmp_path / "j.db")
        yield made


async def visible(site: Site, number: int, word: str) -> None:
    async with asyncio.timeout(8):
        while await asyncio.to_thread(site.stored, number) != word:
            await asyncio.sleep(0.05)


async def test_an_update_by_a_copy_right_after_its_first_version_is_stored(site: Site) -> None:
    """R2: a read does not show the first version, so the update looks like a new copy."""
    await asyncio.to_thread(site.put, 1, 1, "beta")
    await asyncio.to_thread(site.put, 1, 0, "alpha")
    await visible(site, 1, "alpha")
    assert site.left_out() == []


async def test_a_copy_of_what_was_replaced_a_moment_ago_is_stored(site: Site) -> None:
    """R6: a read still shows the old content of the original, which is gone a second later."""
    await asyncio.to_thread(site.put, 9, 2, "gamma")
    await asyncio.to_thread(site.put, 1, 0, "alpha")
    await asyncio.sleep(2 * LAG_SECONDS)
    assert await asyncio.to_thread(site.stored, 9) == "gamma"
    assert await asyncio.to_thread(site.stored, 1) == "alpha"


async def test_a_copy_of_what_was_deleted_a_moment_ago_is_stored(site: Site) -> None:
    await asyncio.to_thread(site.delete, 9)
    await asyncio.to_thread(site.put, 1, 0, "alpha")
    await asyncio.sleep(2 * LAG_SECONDS)
    assert await asyncio.to_thread(site.stored, 9) is None
    assert await asyncio.to_thread(site.stored, 1) == "alpha"


async def test_a_copy_of_what_was_stored_long_ago_is_left_out(site: Site) -> None:
    await asyncio.to_thread(site.put, 1, 0, "alpha")
    await asyncio.sleep(2 * LAG_SECONDS)
    assert await asyncio.to_thread(site.stored, 1) is None
    assert site.left_out() == ["alpha"]
