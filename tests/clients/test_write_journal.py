"""Mode skip through the official client and the real engine: what is left out is in the journal, and undo stores it as it came."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from qdrant_client import QdrantClient, models

from support.backends.write_gates import text_with, writing
from support.jobs.journals import rows_left_out
from support.process import stack
from support.process.stack import Answer, exchange
from support.qdrant.embedded import start_embedded_process
from vecsieve.proxy.writes.book import Book
from vecsieve.proxy.writes.rows import LeftOut, State

SIZE = 8
ROW = LeftOut(
    collection="c", partition=b"", id=b"1", survivor=b"2", tier="exact", similarity=1.0, point=b'{"id":1,"vector":{}}'
)


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    with start_embedded_process() as url:
        yield url


@contextmanager
def skipping(engine: str, journal: Path, *ignore: str) -> Iterator[str]:
    with stack.serve(engine, environment=writing("skip", journal, *ignore)) as (url, _):
        yield url


def vector(axis: int) -> list[float]:
    return [1.0 if place == axis else 0.0 for place in range(SIZE)]


def struct(identifier: int, axis: int, text: str) -> models.PointStruct:
    return models.PointStruct(id=identifier, vector=vector(axis), payload={"text": text_with(text)})


def made(url: str, name: str) -> QdrantClient:
    client = QdrantClient(url=url, timeout=30, check_compatibility=False)
    client.create_collection(name, vectors_config=models.VectorParams(size=SIZE, distance=models.Distance.COSINE))
    return client


def ids(client: QdrantClient, name: str) -> list[object]:
    return [point.id for point in client.scroll(name, limit=1000)[0]]


def left_out(journal: Path, collection: str) -> dict[bytes, bytes]:
    """Id -> survivor."""
    book = Book(journal, must_exist=True)
    try:
        return {row.id: row.survivor for row in rows_left_out(book, collection=collection)}
    finally:
        book.close()


def undo(journal: Path, engine: str, *more: str) -> str:
    with stack.command("undo", "--journal", str(journal), "--url", engine, *more) as running:
        running.process.wait(60)
        assert running.process.returncode == 0, running.output()
        return running.output()


def everything(url: str, name: str) -> bytes:
    body = b'{"limit":1000,"with_payload":true,"with_vector":true}'
    return exchange(url, "POST", f"/collections/{name}/points/scroll", body).timeless


def put(url: str, name: str, points: list[Any], *, target: str = "?wait=true") -> Answer:
    return exchange(url, "PUT", f"/collections/{name}/points{target}", json.dumps({"points": points}).encode())


def test_copies_are_left_out_and_the_client_is_answered_as_by_the_database(engine: str, tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    with skipping(engine, journal) as url:
        client = made(url, "skipped")
        client.upsert("skipped", [struct(1, 0, "a"), struct(2, 1, "b")])
        some = client.upsert("skipped", [struct(3, 0, "a"), struct(4, 2, "c"), struct(5, 2, "c")])
        assert some.status is models.UpdateStatus.COMPLETED
        assert some.operation_id is not None
        none = client.upsert("skipped", [struct(6, 0, "a")])
        assert (none.status, none.operation_id) == (models.UpdateStatus.COMPLETED, None)
        assert client.upsert("skipped", [struct(7, 0, "a")], wait=False).status is models.UpdateStatus.ACKNOWLEDGED
        assert ids(client, "skipped") == [1, 2, 4]
    assert left_out(journal, "skipped") == {b"3": b"1", b"5": b"4", b"6": b"1", b"7": b"1"}


def test_what_is_merely_alike_is_stored(engine: str, tmp_path: Path) -> None:
    near = [1.0, 0.4, *[0.0] * (SIZE - 2)]  # 0.93
    with skipping(engine, tmp_path / "journal.db") as url:
        client = made(url, "alike")
        client.upsert("alike", [struct(1, 0, "a")])
        client.upsert("alike", [models.PointStruct(id=2, vector=near, payload={"text": text_with("b")})])
        assert ids(client, "alike") == [1, 2]


def test_a_point_whose_id_is_stored_is_replaced_even_by_a_copy(engine: str, tmp_path: Path) -> None:
    with skipping(engine, tmp_path / "journal.db") as url:
        client = made(url, "updated")
        client.upsert("updated", [struct(1, 0, "a"), struct(2, 1, "b")])
        client.upsert("updated", [struct(2, 0, "a"), struct(3, 0, "a"), struct(3, 2, "c")])
        points = client.scroll("updated")[0]
        assert [(point.id, point.payload) for point in points] == [
            (1, {"text": text_with("a")}),
            (2, {"text": text_with("a")}),
            (3, {"text": text_with("c")}),
        ]


def test_undo_gives_the_collection_that_would_have_been_without_the_gate(engine: str, tmp_path: Path) -> None:
    random_ = random.Random(7)
    journal = tmp_path / "journal.db"
    rows = []
    for number in range(1, 120):
        family = random_.randrange(60)
        axes = random.Random(family)
        numbers = [round(axes.uniform(-1, 1), 6) for _ in range(SIZE)]
        rows.append({"id": number, "vector": numbers, "payload": {"text": f"größe {'x' * family}", "n": [1, 2.50]}})
    with skipping(engine, journal) as url:
        made(engine, "with")
        made(engine, "without")
        at = 0
        while at < len(rows):
            size = random_.choice([1, 2, 7])
            assert put(url, "with", rows[at : at + size]).status == 200
            assert put(engine, "without", rows[at : at + size]).status == 200
            at += size
    gone = left_out(journal, "with")
    assert len(gone) > 20
    assert everything(engine, "with") != everything(engine, "without")
    listed = undo(journal, engine)
    assert f"{len(gone)} points were left out" in listed
    assert "--apply stores them" in listed
    assert f"{len(gone)} were stored; 0 have" in undo(journal, engine, "--apply")
    assert everything(engine, "with") == everything(engine, "without")
    assert "0 points were left out" in undo(journal, engine, "--apply")


def test_undo_stores_what_is_asked_for_and_nothing_over_newer_points(engine: str, tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    with skipping(engine, journal) as url:
        client = made(url, "chosen")
        client.upsert("chosen", [struct(1, 0, "a")])
        client.upsert("chosen", [struct(2, 0, "a"), struct(3, 0, "a"), struct(4, 0, "a")])
    direct = QdrantClient(url=engine, timeout=30, check_compatibility=False)
    direct.upsert("chosen", [struct(4, 5, "newer")])
    assert "0 points" in undo(journal, engine, "--collection", "other", "--apply")
    assert "0 points" in undo(journal, engine, "--since", "2999-01-01", "--apply")
    assert "1 were stored" in undo(journal, engine, "--id", "3", "--apply")
    assert ids(direct, "chosen") == [1, 3, 4]
    assert "1 were stored; 1 have an id that is stored" in undo(journal, engine, "--apply")
    assert direct.retrieve("chosen", [4])[0].payload == {"text": text_with("newer")}


def test_columns_come_back_as_points(engine: str, tmp_path: Path) -> None:
    journal = tmp_path / "journal.db"
    with skipping(engine, journal, "n") as url:
        client = made(url, "columns")
        many: list[int | str | UUID] = list(range(1, 61))
        payloads: list[dict[str, Any]] = [
            {"text": text_with("a")},
            *({"text": text_with("a"), "n": point} for point in many[1:]),
        ]
        client.upsert("columns", models.Batch(ids=many, vectors=[vector(0)] * 60, payloads=payloads))
        assert ids(client, "columns") == [1]
    assert "59 were stored" in undo(journal, engine, "--apply")
    direct = QdrantClient(url=engine, timeout=30, check_compatibility=False)
    assert [point.payload for point in direct.scroll("columns", limit=100)[0]] == payloads


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--journal", "/nowhere/journal.db"), "there is no journal"),
        (("--since", "yesterday"), "--since"),
        (("--url", "nowhere"), "--url"),
    ],
)
def test_undo_says_what_is_wrong(engine: str, tmp_path: Path, options: tuple[str, ...], words: str) -> None:
    given = {"--journal": str(tmp_path / "j.db"), "--url": engine}
    book = Book(tmp_path / "j.db")
    book.enter([ROW], State.DONE, at=0.0)
    book.close()
    given |= {options[0]: options[1]}
    with stack.command("undo", "--apply", *(part for pair in given.items() for part in pair)) as running:
        running.process.wait(60)
        assert running.process.returncode in {1, 2}
        assert words in running.output()
