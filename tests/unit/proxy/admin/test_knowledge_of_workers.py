"""With several workers the admin process asks each over its own socket; one that does not answer is left out."""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path

import orjson
import pytest

from support.network.streams import serving_at
from support.selection.inspections import no_egress, no_pools, seen
from support.selection.kept_pools import demo_pool, kept
from vecsieve.adapters.contract import Operation
from vecsieve.proxy.admin import knowledge as workers
from vecsieve.proxy.admin.knowledge import (
    Kind,
    Knowledge,
    Question,
    ask_of_workers,
    collections_in_one,
    egress_of,
    in_one,
    open_to_admin,
)
from vecsieve.proxy.admin.pools import Sampled
from vecsieve.proxy.admin.recent import PLACES, Recent
from vecsieve.proxy.admin.whatif import Change
from vecsieve.proxy.admin.whatif import in_one as all_judged
from vecsieve.proxy.search.budgets import Egress


@pytest.fixture
def directory() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as path:  # pytest's own are too long for the address of a socket
        yield Path(path)


def recent(place: int, *collections: str) -> Recent:
    made = Recent(5, now=lambda: 1000.0 + place, place=place)
    for collection in collections:
        made.add(seen(collection=collection))
    return made


async def test_all_workers_are_asked_and_their_answers_put_in_one(directory: Path) -> None:
    rings = [recent(0, "a", "b"), recent(1, "a")]
    async with AsyncExitStack() as opened:
        for place, ring in enumerate(rings):
            server = await open_to_admin(directory, place, Knowledge(ring, no_pools(), no_egress()))
            opened.callback(server.close)
        ask = ask_of_workers(directory, 2)
        rows = in_one(await ask(Question(Kind.SEARCHES)))
        assert sorted(row["number"] % PLACES for row in rows) == [0, 0, 1]
        counted = collections_in_one(await ask(Question(Kind.COLLECTIONS)))["collections"]
        assert [(row["collection"], row["searches"]) for row in counted] == [("a", 2), ("b", 1)]
        number = rings[1].newest()[0].number
        rows_by_worker = [answer["row"] for answer in await ask(Question(Kind.SEARCH, number))]
        assert [row and row["number"] for row in rows_by_worker] == [None, number]


async def test_what_if_is_asked_of_every_worker_and_added_up(directory: Path) -> None:
    pool = kept(demo_pool(0))
    async with AsyncExitStack() as opened:
        for place in range(2):
            pools = no_pools()
            for _ in range(place + 1):
                pools._add(Sampled("docs", 7, pool))
            server = await open_to_admin(directory, place, Knowledge(recent(place), pools, no_egress()))
            opened.callback(server.close)
        answers = await ask_of_workers(directory, 2)(
            Question(Kind.WHATIF, change=Change.of({"preset": "classical", "threshold": "0.2"}))
        )
        judgement = all_judged(answers)
        assert judgement["total"]["searches"] == 3
        assert judgement["total"]["differ"] == 3
        assert judgement["bytes"] == 3 * pool.size_bytes


async def test_what_searches_cost_is_added_up_over_the_workers(directory: Path) -> None:
    async with AsyncExitStack() as opened:
        for place, collection in enumerate(("a", "b", "a")):
            egress = Egress(1000, now=lambda: 1_790_000_000.0)
            egress.spend(Operation(backend="pinecone", name="query", collection=collection), 10 * (place + 1))
            server = await open_to_admin(directory, place, Knowledge(recent(place), no_pools(), egress))
            opened.callback(server.close)
        page = json.loads(await egress_of(ask_of_workers(directory, 3)))
    assert (page["month"], page["budget_bytes"], page["searches"], page["extra_bytes"]) == ("2026-09", 3000, 3, 60)
    assert [(row["collection"], row["searches"], row["extra_bytes"]) for row in page["collections"]] == [
        ("a", 2, 40),
        ("b", 1, 20),
    ]
    assert page["others"] == {"searches": 0, "extra_bytes": 0}


async def test_one_process_alone_shows_its_own_page() -> None:
    egress = Egress(None, now=lambda: 1_790_000_000.0)
    egress.spend(Operation(backend="qdrant", name="query", collection="é"), 5)
    assert await egress_of(Knowledge(recent(0), no_pools(), egress).ask) == egress.as_json()


async def test_a_worker_that_is_gone_stuck_or_damaged_is_left_out(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "TIMEOUT_SECONDS", 0.2)

    async def stuck(_reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async def damaged(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'{"rows": [')

    whole = await open_to_admin(directory, 0, Knowledge(recent(0, "a"), no_pools(), no_egress()))
    async with (
        serving_at(str(directory / "inspect_w1.sock"), stuck),
        serving_at(str(directory / "inspect_w2.sock"), damaged),
    ):
        answers = await ask_of_workers(directory, 4)(Question(Kind.SEARCHES))
    assert [row["collection"] for row in in_one(answers)] == ["a"]
    whole.close()


@pytest.mark.parametrize("sent", [b"\n", b"[]\n", b'{"kind": "nothing", "number": 0, "rank": 0}\n', b"x" * 5000, b""])
async def test_a_question_of_another_shape_is_not_answered(directory: Path, sent: bytes) -> None:
    server = await open_to_admin(directory, 0, Knowledge(recent(0), no_pools(), no_egress()))
    reader, writer = await asyncio.open_unix_connection(directory / "inspect_w0.sock")
    writer.write(sent)
    writer.write_eof()
    assert await reader.read() == b""
    writer.close()
    server.close()


async def test_a_socket_of_a_killed_worker_is_replaced(directory: Path) -> None:
    first = await open_to_admin(directory, 0, Knowledge(recent(0, "old"), no_pools(), no_egress()))
    second = await open_to_admin(directory, 0, Knowledge(recent(0, "new"), no_pools(), no_egress()))
    (answer,) = await ask_of_workers(directory, 1)(Question(Kind.SEARCHES))
    assert [row["collection"] for row in answer["rows"]] == ["new"]
    assert orjson.dumps(answer)
    first.close()
    second.close()
