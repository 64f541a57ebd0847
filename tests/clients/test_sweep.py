"""`vecsieve sweep` as a process against the real engine: finds what was planted, deletes nothing, goes on after a kill."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from support import stack
from support.commands import command_line

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
            for number, payload in enumerate(({"text": text}, {"text": text.upper()}, {})):
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
    assert f"{2 * FAMILIES} could go: {FAMILIES} families keep one each" in " ".join(done.stdout.split())
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


@pytest.mark.parametrize(
    ("more", "code", "said"),
    [
        (("--similarity", "0.5"), 2, "--similarity"),
        (("--keep", "best"), 2, "best"),
        (("--report", "/nowhere/report.json"), 2, "--report"),
        (("--backend", "weaviate"), 2, "--backend"),
        (("--vector", "other"), 1, "no dense vector 'other'"),
    ],
)
def test_wrong_arguments_are_named(engine: str, tmp_path: Path, more: tuple[str, ...], code: int, said: str) -> None:
    done = command_line(*arguments(engine, tmp_path / "work", *more))
    assert done.returncode == code
    assert said in done.stderr
