"""The write gate of Milvus over REST, version 2: whatever its reads bring, the client's write goes out once, in its own bytes but for notes."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest
from aiohttp import ClientSession, web

from support.network.http_scripts import on_the_loop
from support.process.running import Running, running, until

DESCRIBED: Any = {
    "code": 0,
    "data": {
        "enableDynamicField": True,
        "fields": [{"name": "id", "type": "Int64", "primaryKey": True}, {"name": "vec", "type": "FloatVector"}],
        "indexes": [{"fieldName": "vec", "indexName": "vec", "metricType": "COSINE"}],
    },
}
NEAR: Any = {"code": 0, "topks": [1], "data": [{"distance": 0.99, "id": 9, "text": "it has all the same words"}]}
HOLDER: Any = {"code": 0, "data": [{"id": "9", "vec": [1.0, 0.5], "text": "it has all the same words"}]}
STORED: Any = {"code": 0, "data": {"insertCount": 1, "insertIds": [1]}}
LIMITED: Any = {"code": 8, "message": "rate limit exceeded[rate=0.1]"}
INSERT = "/v2/vectordb/entities/insert"
BODY = b'{"collectionName": "docs", "data": [{"id":1, "vec":[1.0,0.50], "text":"it has all the same words"}]}'
Came = list[tuple[str, bytes]]


@asynccontextmanager
async def gated(near: Any, *, described: Any = DESCRIBED, **write: object) -> AsyncIterator[tuple[Came, Running]]:
    """What came, and the proxy before a server with these answers."""
    came: Came = []
    answers = {
        "collections/describe": described,
        "entities/search": near,
        "entities/insert": write.pop("stored", STORED),
        "entities/query": write.pop("queried", HOLDER),
        "entities/delete": {"code": 0, "data": {}},
    }
    more = {"journal": {"path": str(write.pop("journal"))}} if "journal" in write else {}

    async def answer(request: web.Request) -> web.Response:
        assert request.headers["Authorization"] == "Bearer root:secret"
        name = request.path.removeprefix("/v2/vectordb/")
        came.append((name, await request.read()))
        return web.json_response(answers[name])

    async with (
        on_the_loop(answer) as url,
        running(url, backend="milvus", policy={"write": write}, **more) as proxy,
    ):
        yield came, proxy


async def insert(proxy: Running, body: bytes = BODY) -> Any:
    headers = {"Authorization": "Bearer root:secret", "Content-Type": "application/json"}
    async with (
        ClientSession() as session,
        session.post(f"http://127.0.0.1:{proxy.port}{INSERT}", data=body, headers=headers) as answer,
    ):
        return await answer.json()


def written(came: Came) -> list[bytes]:
    return [body for name, body in came if name == "entities/insert"]


async def counted(proxy: Running, outcome: str) -> float:
    return await until(lambda: proxy.count("writes_total", backend="milvus", outcome=outcome))


@pytest.mark.parametrize("mode", ["annotate", "observe"])
@pytest.mark.parametrize(
    ("near", "outcome"),
    [(LIMITED, "refused"), ({"code": 0, "data": [{}]}, "failed"), ({"code": 0}, "failed")],
    ids=["limited", "no id", "no rows"],
)
async def test_a_fault_of_the_search_for_neighbours_is_never_the_writes(near: Any, outcome: str, mode: str) -> None:
    async with gated(near, mode=mode) as (came, proxy):
        assert await insert(proxy) == STORED
        assert await counted(proxy, outcome) == 1
        assert written(came) == [BODY]


async def test_after_a_refusal_for_want_of_quota_nothing_is_asked_for_a_while() -> None:
    async with gated(LIMITED, mode="annotate") as (came, proxy):
        await insert(proxy)
        await insert(proxy)
        assert await counted(proxy, "withheld") == 1
        assert [name for name, _ in came].count("entities/search") == 1
        assert written(came) == [BODY] * 2


@pytest.mark.parametrize("mode", ["annotate", "observe"])
async def test_a_write_of_a_collection_that_is_not_known_is_sent_as_it_came(mode: str) -> None:
    async with gated(NEAR, described={"code": 100, "message": "no"}, mode=mode) as (came, proxy):
        assert await insert(proxy) == STORED
        assert await counted(proxy, "unsupported") == 1
        assert written(came) == [BODY]


async def test_a_description_that_was_lost_is_asked_for_again_and_while_it_fails_the_gate_rests() -> None:
    """Not for a minute, as what is known of a collection: the database may be back in a second."""
    down = True
    came: list[str] = []
    answers = {"collections/describe": DESCRIBED, "entities/search": NEAR, "entities/insert": STORED}

    async def answer(request: web.Request) -> web.Response:
        name = request.path.removeprefix("/v2/vectordb/")
        came.append(name)
        if down and name != "entities/insert":
            assert request.transport is not None
            request.transport.close()
        return web.json_response(answers[name])

    async with (
        on_the_loop(answer) as url,
        running(url, backend="milvus", policy={"write": {"mode": "annotate"}}) as proxy,
    ):
        for _ in range(8):
            assert await insert(proxy) == STORED
        assert came.count("collections/describe") == 5, "the breaker's own count"
        assert (await counted(proxy, "failed"), await counted(proxy, "withheld")) == (5, 3)
        down = False
        async with asyncio.timeout(10):
            while not proxy.count("writes_total", backend="milvus", outcome="judged"):
                await insert(proxy)
                await asyncio.sleep(0.05)


TWO = BODY[:-2] + b', {"id": "2", "vec": [0, 1], "text": "other"}]}'


@pytest.mark.parametrize(("stored", "state"), [(STORED, "done"), ({"code": 1100, "message": "no"}, "refused")])
async def test_what_the_database_refuses_with_a_success_was_not_left_out(
    tmp_path: Path, stored: Any, state: str
) -> None:
    near = {"code": 0, "topks": [1, 0], "data": NEAR["data"]}
    async with gated(near, mode="skip", stored=stored, journal=tmp_path / "j.db") as (came, proxy):
        assert await insert(proxy, TWO) == stored
        assert written(came) == [b'{"collectionName": "docs", "data": [{"id": "2", "vec": [0, 1], "text": "other"}]}']
        assert [name for name, _ in came].count("entities/query") == (2 if state == "done" else 1)
    with closing(sqlite3.connect(tmp_path / "j.db")) as journal:
        rows = journal.execute("SELECT state, collection, id, point FROM points").fetchall()
    assert rows == [(state, "default/docs", b"1", b'{"id":1, "vec":[1.0,0.50], "text":"it has all the same words"}')]


async def test_an_unchanged_write_that_is_refused_with_a_success_replaces_nothing(tmp_path: Path) -> None:
    """Of the id that it names the journal has an acknowledged point, which would be lost."""
    path, stored = tmp_path / "j.db", dict(STORED)
    queried: Any = {"code": 0, "data": list(HOLDER["data"])}
    async with gated(NEAR, mode="skip", journal=path, stored=stored, queried=queried) as (came, proxy):
        assert (await insert(proxy))["code"] == 0
        assert written(came) == []
        stored |= LIMITED
        other = BODY.replace(b"it has all the same words", b"other words")
        assert (await insert(proxy, other))["code"] == LIMITED["code"]
        assert written(came) == [other]
    with closing(sqlite3.connect(path)) as file:
        assert file.execute("SELECT state FROM points").fetchall() == [("done",)]


FIELDS: Any = [
    *DESCRIBED["data"]["fields"],
    {"name": "text", "type": "VarChar", "params": [{"key": "max_length", "value": "30"}]},
    {"name": "n", "type": "Int64", "nullable": True},
]
TYPED: Any = {"code": 0, "data": {**DESCRIBED["data"], "fields": FIELDS}}
OLD: Any = {"id": "9", "vec": [1.0, 0.5], "text": "It has all the same words!", "n": "5", "tag": "t"}


@pytest.mark.parametrize(
    ("old", "sent"),
    [
        ({}, {"n": 5, "tag": "t"}),
        ({"n": None, "tag": None}, {"tag": None}),
        # A query shows decimals of 64 bits for these, in which other numbers are the same.
        ({"tag": 2**60}, None),
        ({"text": "It has all the same words. And a second sentence."}, None),
    ],
)
async def test_a_row_gets_what_a_stored_one_has_in_the_types_of_its_fields_or_is_stored_as_it_came(
    tmp_path: Path, old: dict[str, Any], sent: dict[str, Any] | None
) -> None:
    queried = {"code": 0, "data": [{**OLD, **old}]}
    near = {"code": 0, "topks": [1], "data": [{"distance": 0.99, "id": 9, "text": {**OLD, **old}["text"]}]}
    settings: dict[str, Any] = {"mode": "merge", "merge": "merge", "queried": queried, "journal": tmp_path / "j.db"}
    async with gated(near, described=TYPED, **settings) as (came, proxy):
        assert await insert(proxy) == STORED
        (body,) = written(came)
        names = [name for name, _ in came]
        assert proxy.count("writes_total", backend="milvus", outcome="unsupported") == (sent is None)
    if sent is None:
        assert (body, names.count("entities/delete")) == (BODY, 0)
        return
    (row,) = json.loads(body)["data"]
    assert row == {"id": 1, "vec": [1.0, 0.5], "text": "It has all the same words!", **sent}
    assert names[-3:] == ["entities/insert", "entities/query", "entities/delete"]
