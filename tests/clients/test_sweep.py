"""`vecsieve sweep` as a process against the real engine: finds what was planted, goes on after a kill, and deletes only what undo can store again."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from support import stack
from support.commands import command_line
from support.hook_receiver import receiving

FAMILIES = 150
COLLECTION = "planted"


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    """Families of three: a text, the same in capitals, and a vector nearby without a text."""
    draw = np.random.default_rng(4)
    words = np.array([f"word{number}" for number in range(500)])
    with stack.embedded() as url:
        client = QdrantClient(url=url, timeout=30)
        parameters = models.VectorParams(size=32, distance=models.Distance.COSINE)
        client.create_collection(COLLECTION, vectors_config=parameters)
        points = []
        for family in range(FAMILIES):
            base, text = draw.normal(size=32) + 1.0, " ".join(draw.choice(words, 30).tolist())
            for number, said in enumerate(({"text": text}, {"text": text.upper()}, {})):
                payload = {**said, "tags": [("first", "second", "third")[number]]}
                vector = (base + 0.02 * draw.normal(size=32)).tolist()
                points.append(models.PointStruct(id=10 * family + number, vector=vector, payload=payload))
        client.upsert(COLLECTION, points, wait=True)
        client.close()
        yield url


def arguments(url: str, work: Path, *more: str) -> tuple[str, ...]:
    return ("sweep", "--url", url, "--collection", COLLECTION, "--work", str(work), "--rate", "1000", *more)


def state(url: str) -> bytes:
    body = json.dumps({"limit": 1000, "with_payload": True, "with_vector": True}).encode()
    return stack.exchange(url, "POST", f"/collections/{COLLECTION}/points/scroll", body).timeless


def test_what_was_planted_could_go_and_nothing_is_deleted(engine: str, tmp_path: Path) -> None:
    before = state(engine)
    files = ("--report", str(tmp_path / "report.json"), "--ids", str(tmp_path / "ids.jsonl"))
    done = command_line(*arguments(engine, tmp_path / "work", "--keep", "first", *files))
    assert done.returncode == 0, done.stderr
    assert f"{2 * FAMILIES} could be removed: {FAMILIES} families keep one each" in " ".join(done.stdout.split())
    report: dict[str, Any] = json.loads((tmp_path / "report.json").read_text())
    assert (report["points"], report["redundant"], report["gone"]) == (3 * FAMILIES, 2 * FAMILIES, 0)
    lines = [json.loads(line) for line in (tmp_path / "ids.jsonl").read_text().splitlines()]
    assert {(line["id"] - line["survivor"], line["evidence"]) for line in lines} == {
        (1, "same_text"),
        (2, "near_vector"),
    }
    assert state(engine) == before


def test_a_killed_sweep_goes_on_where_it_was(engine: str, tmp_path: Path) -> None:
    work, out = tmp_path / "work", tmp_path / "ids.jsonl"
    command = [sys.executable, "-m", "vecsieve.proxy", *arguments(engine, work, "--ids", str(out))]
    command[command.index("1000")] = "2"  # a second between two pages
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (work / "vectors.f32").exists():
            time.sleep(0.05)
        process.send_signal(signal.SIGKILL)
    finally:
        process.communicate()
    done = command_line(*arguments(engine, work, "--ids", str(out)))
    assert done.returncode == 0, done.stderr
    assert len(out.read_text().splitlines()) == 2 * FAMILIES


def contents(url: str) -> object:
    """Numbers as they are spelled; the engine shows members in any order."""
    return json.loads(state(url), parse_float=str)


def test_copies_are_deleted_through_kills_and_undo_stores_them_again(engine: str, tmp_path: Path) -> None:
    before, work, journal = contents(engine), tmp_path / "work", tmp_path / "journal.db"
    asked = (*arguments(engine, work, "--keep", "first"), "--apply", "--journal", str(journal))
    command = [sys.executable, "-m", "vecsieve.proxy", *asked]
    for rows in (1, 101):  # batches of a hundred
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and process.poll() is None and rows_of(journal) < rows:
                time.sleep(0.001)
            process.send_signal(signal.SIGKILL)
        finally:
            process.communicate()
    done = command_line(*asked)
    assert done.returncode == 0, done.stderr
    assert f"{2 * FAMILIES} were deleted" in " ".join(done.stdout.split())
    assert rows_of(journal) == 2 * FAMILIES
    body = json.dumps({"limit": 1000}).encode()
    left = json.loads(stack.exchange(engine, "POST", f"/collections/{COLLECTION}/points/scroll", body).body)["result"]
    assert {point["id"] % 10 for point in left["points"]} == {0}
    done = command_line("undo", "--journal", str(journal), "--url", engine, "--rate", "1000", "--apply")
    assert f"{2 * FAMILIES} were stored; 0 have" in " ".join(done.stdout.split())
    assert contents(engine) == before


def test_its_end_is_told_to_a_webhook_signed_and_a_receiver_that_fails_changes_no_exit_code(
    engine: str, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"a secret of a good length\n")
    with receiving() as receiver:
        receiver.statuses = [500]
        told = ("--webhook", f"{receiver.url}/sweeps", "--webhook-secret", str(secret))
        asked = arguments(engine, tmp_path / "work", "--keep", "first", *told)
        failed, done = command_line(*asked), command_line(*asked)
    assert (failed.returncode, done.returncode) == (0, 0)
    assert "status 500" in failed.stderr
    assert receiver.is_signed_by(b"a secret of a good length")
    assert receiver.paths == ["/sweeps"] * 2
    event = receiver.events[-1]
    assert (event["event"], event["collection"]) == ("sweep-complete", COLLECTION)
    assert event["counts"] | {"duplicatePairs": 0} == {
        "totalScanned": 3 * FAMILIES,
        "duplicatePairs": 0,
        "duplicateCount": 2 * FAMILIES,
        "clustersFound": FAMILIES,
        "evictedCount": 0,
    }


def test_its_end_is_a_line_of_the_log_with_numbers_alone(engine: str, tmp_path: Path) -> None:
    done = command_line(*arguments(engine, tmp_path / "work", "--keep", "first"))
    told = json.loads(done.stderr.splitlines()[-1])
    assert (told.pop("msg"), told.pop("level"), told.pop("logger")) == ("sweep-complete", "info", "vecsieve.writes")
    assert datetime.fromisoformat(told.pop("ts")).tzinfo is UTC
    assert told.pop("duplicatePairs") >= 2 * FAMILIES
    assert told == {
        "totalScanned": 3 * FAMILIES,
        "duplicateCount": 2 * FAMILIES,
        "clustersFound": FAMILIES,
        "evictedCount": 0,
    }


def test_compact_names_itself_in_its_errors(tmp_path: Path) -> None:
    """It printed the name of the other command."""
    done = command_line("compact", *arguments("http://127.0.0.1:1", tmp_path / "work")[1:])
    assert (done.returncode, done.stderr[:18]) == (1, "vecsieve compact: ")


def test_compact_gives_survivors_what_they_lack_and_undo_takes_it_back(engine: str, tmp_path: Path) -> None:
    before, journal = contents(engine), tmp_path / "journal.db"
    asked = arguments(engine, tmp_path / "work", "--keep", "first", "--apply", "--journal", str(journal))
    done = command_line("compact", *asked[1:])
    assert done.returncode == 0, done.stderr
    found = json.loads(state(engine))["result"]["points"]
    assert {point["id"] % 10 for point in found} == {0}
    assert all(point["payload"]["tags"] == ["first", "second", "third"] for point in found)
    assert all(point["payload"]["text"].islower() for point in found)
    done = command_line("undo", "--journal", str(journal), "--url", engine, "--rate", "1000", "--apply")
    said = " ".join(done.stdout.split())
    assert f"{2 * FAMILIES} were stored; 0 have" in said
    assert "0 were changed since" in said
    assert contents(engine) == before


def rows_of(journal: Path) -> int:
    if not journal.exists():
        return 0
    with closing(sqlite3.connect(journal)) as connection:
        try:
            (found,) = connection.execute("SELECT count(*) FROM points").fetchone()
        except sqlite3.OperationalError:  # the table is not made yet
            return 0
    return int(found)


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (("--similarity", "0.5"), 2, "--similarity"),
        (("--keep", "best"), 2, "best"),
        (("--report", "/nowhere/report.json"), 2, "--report"),
        (("--backend", "weaviate"), 2, "--backend"),
        (("--apply",), 2, "--journal"),
        (("--journal", "/tmp/journal.db"), 2, "--apply"),
        (("--webhook", "ftp://127.0.0.1"), 2, "--webhook"),
        (("--webhook", "http://127.0.0.1:1"), 2, "--webhook-secret"),
        (("--vector", "other"), 1, "no dense vector 'other'"),
    ],
)
def test_wrong_arguments_are_named(engine: str, tmp_path: Path, more: tuple[str, ...], code: int, said: str) -> None:
    done = command_line(*arguments(engine, tmp_path / "work", *more))
    assert done.returncode == code
    assert said in done.stderr
