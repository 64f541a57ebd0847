"""`vecsieve sweep` as a process against the real engine: finds what was planted, goes on after a kill, and deletes only what undo can store again."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qdrant_client import QdrantClient

from support.backends.two_facts import PLANTED, TWO_FACTS
from support.process import stack
from support.process.commands import command_line
from support.process.hook_receiver import receiving
from support.process.stack import command
from support.qdrant import planted
from support.qdrant.embedded import start_embedded_process
from vecsieve.proxy.selection.reading.text import Text
from vecsieve.proxy.writes.holding import holds

FAMILIES = 150
COLLECTION = "planted"


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    """Families of three, which differ in their tags: a text, the same with other blanks, and its first sentence."""
    draw = np.random.default_rng(4)
    words = [
        one + other
        for one in ("sand", "rain", "gold", "wood", "moon")
        for other in ("stone", "field", "light", "house")
    ]
    with start_embedded_process() as url:
        client = QdrantClient(url=url, timeout=30)
        rows = []
        for family in range(FAMILIES):
            base = draw.normal(size=32) + 1.0
            part = f"Family {family} has {' '.join(draw.choice(words, 12).tolist())}."
            text = f"{part} Its number is {family}."
            for number, content in enumerate((text, text.replace(" ", "  "), part)):
                payload = {"text": content, "tags": [("first", "second", "third")[number]]}
                vector = (base + 0.02 * draw.normal(size=32)).tolist()
                rows.append((10 * family + number, vector, payload))
        planted.fill(client, COLLECTION, rows)
        client.close()
        yield url


def arguments(url: str, work: Path, *more: str) -> tuple[str, ...]:
    """All but tags must agree."""
    where = ("--url", url, "--collection", COLLECTION, "--work", str(work), "--rate", "1000")
    return ("sweep", *where, "--ignore", "tags", *more)


def state(url: str, name: str = COLLECTION) -> bytes:
    body = json.dumps({"limit": 1000, "with_payload": True, "with_vector": True}).encode()
    return stack.exchange(url, "POST", f"/collections/{name}/points/scroll", body).timeless


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
        (1, "equal"),
        (2, "contained"),
    }
    assert state(engine) == before


def test_without_a_word_of_the_user_what_differs_in_its_payload_stays_and_the_fields_are_named(
    engine: str, tmp_path: Path
) -> None:
    options = [argument for argument in arguments(engine, tmp_path / "work") if argument not in {"--ignore", "tags"}]
    done = command_line(*options)
    output = " ".join(done.stdout.split())
    assert f"{2 * FAMILIES} repeat another point: {2 * FAMILIES} equal or contained but for metadata." in output
    assert f"Copies differ in tags ({2 * FAMILIES}): --ignore names fields that may differ." in output
    assert "0 could be removed" in output
    done = command_line(*options, "--ignore-metadata")
    assert f"{2 * FAMILIES} could be removed" in " ".join(done.stdout.split())


def test_of_records_that_differ_in_one_thing_none_is_deleted_planted_copies_all_are_and_undo_gives_the_same_bytes(
    engine: str, tmp_path: Path
) -> None:
    name, records = "records", [text for texts in TWO_FACTS.values() for text in texts]
    texts = [*records, *(part for part, _ in PLANTED), *(whole for _, whole in PLANTED if whole not in records)]
    client = QdrantClient(url=engine, timeout=30)
    rows = [(n, [1.0, 0.5, 0.25, 0.125], {"text": text, "file": "all.txt"}) for n, text in enumerate(texts)]
    planted.fill(client, name, rows)
    client.close()
    before, journal = contents(engine, name), tmp_path / "journal.db"
    options = [
        name if argument == COLLECTION else argument
        for argument in arguments(engine, tmp_path / "work", "--keep", "first")
    ]
    done = command_line(*options, "--apply", "--journal", str(journal))
    assert done.returncode == 0, done.stderr
    left = [Text(point["payload"]["text"]) for point in json.loads(state(engine, name))["result"]["points"]]
    assert len(left) == len(records), "two of them are parts of planted texts, which stay"
    assert all(any(holds(stays, [Text(text)]) for stays in left) for text in texts)
    done = command_line("undo", "--journal", str(journal), "--url", engine, "--rate", "1000", "--apply")
    assert done.returncode == 0, done.stderr
    assert contents(engine, name) == before


def test_a_killed_sweep_goes_on_where_it_was(engine: str, tmp_path: Path) -> None:
    work, out = tmp_path / "work", tmp_path / "ids.jsonl"
    slow = [
        "2" if argument == "1000" else argument for argument in arguments(engine, work, "--ids", str(out))
    ]  # pages in a second
    with command(*slow) as running:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and not (work / "vectors.f32").exists():
            time.sleep(0.01)
        running.process.kill()
    done = command_line(*arguments(engine, work, "--ids", str(out)))
    assert done.returncode == 0, done.stderr
    assert len(out.read_text().splitlines()) == 2 * FAMILIES


def contents(url: str, name: str = COLLECTION) -> object:
    """Numbers as they are spelled; the engine shows members in any order."""
    return json.loads(state(url, name), parse_float=str)


def test_copies_are_deleted_through_kills_and_undo_stores_them_again(engine: str, tmp_path: Path) -> None:
    before, work, journal = contents(engine), tmp_path / "work", tmp_path / "journal.db"
    options = (*arguments(engine, work, "--keep", "first"), "--apply", "--journal", str(journal))
    for rows in (1, 101):  # batches of a hundred
        with command(*options) as running:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline and running.process.poll() is None and rows_of(journal) < rows:
                time.sleep(0.001)
            running.process.kill()
    done = command_line(*options)
    assert done.returncode == 0, done.stderr
    assert f"{2 * FAMILIES} were deleted" in " ".join(done.stdout.split())
    assert rows_of(journal) == 2 * FAMILIES
    body = json.dumps({"limit": 1000}).encode()
    left = json.loads(stack.exchange(engine, "POST", f"/collections/{COLLECTION}/points/scroll", body).body)["result"]
    assert {point["id"] % 10 for point in left["points"]} == {0}
    undo = ("undo", "--journal", str(journal), "--url", engine, "--rate", "1000", "--apply")
    assert f"{2 * FAMILIES} were stored; 0 have" in " ".join(command_line(*undo).stdout.split())
    assert contents(engine) == before
    # And once more at once, with the same journal, which has noted what reads may not show yet.
    again = arguments(engine, tmp_path / "again", "--keep", "first")
    assert command_line(*again, "--apply", "--journal", str(journal)).returncode == 0
    assert f"{2 * FAMILIES} were stored; 0 have" in " ".join(command_line(*undo).stdout.split())
    assert contents(engine) == before


def test_its_end_is_told_to_a_webhook_signed_and_a_receiver_that_fails_changes_no_exit_code(
    engine: str, tmp_path: Path
) -> None:
    secret = tmp_path / "secret"
    secret.write_bytes(b"a secret of a good length\n")
    with receiving() as receiver:
        receiver.statuses = [500]
        hook_options = ("--webhook", f"{receiver.url}/sweeps", "--webhook-secret", str(secret))
        options = arguments(engine, tmp_path / "work", "--keep", "first", *hook_options)
        failed, done = command_line(*options), command_line(*options)
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
    content = json.loads(done.stderr.splitlines()[-1])
    assert (content.pop("msg"), content.pop("level"), content.pop("logger")) == (
        "sweep-complete",
        "info",
        "vecsieve.writes",
    )
    assert datetime.fromisoformat(content.pop("ts")).tzinfo is UTC
    assert content.pop("duplicatePairs") >= 2 * FAMILIES
    assert content == {
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
    options = arguments(engine, tmp_path / "work", "--keep", "first", "--apply", "--journal", str(journal))
    done = command_line("compact", *(option for option in options[1:] if option not in {"--ignore", "tags"}))
    assert done.returncode == 0, done.stderr
    points = json.loads(state(engine))["result"]["points"]
    assert {point["id"] % 10 for point in points} == {0}
    assert all(point["payload"]["tags"] == ["first", "second", "third"] for point in points)
    assert all("  " not in point["payload"]["text"] for point in points)
    done = command_line("undo", "--journal", str(journal), "--url", engine, "--rate", "1000", "--apply")
    output = " ".join(done.stdout.split())
    assert f"{2 * FAMILIES} were stored; 0 have" in output
    assert "0 were changed since" in output
    assert contents(engine) == before


def rows_of(journal: Path) -> int:
    if not journal.exists():
        return 0
    with closing(sqlite3.connect(journal)) as connection:
        try:
            (count,) = connection.execute("SELECT count(*) FROM points").fetchone()
        except sqlite3.OperationalError:  # the table is not made yet
            return 0
    return int(count)


@pytest.mark.parametrize(
    ("more", "code", "message"),
    [
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
def test_wrong_arguments_are_named(engine: str, tmp_path: Path, more: tuple[str, ...], code: int, message: str) -> None:
    done = command_line(*arguments(engine, tmp_path / "work", *more))
    assert done.returncode == code
    assert message in done.stderr
