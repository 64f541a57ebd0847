"""`vecsieve calibrate` as an operator runs it: the real command, the real engine, sensible words, nothing left half-done."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from support.network.http_scripts import Script, in_a_thread
from support.process import stack
from support.process.commands import Done, command_line
from support.qdrant import planted
from support.qdrant.embedded import start_embedded_process
from vecsieve.proxy.demo.backends import QdrantCollection
from vecsieve.proxy.demo.corpus import load
from vecsieve.proxy.demo.database import NAME
from vecsieve.proxy.search.collections.profiles import Profiles

COMMAND = (sys.executable, "-m", "vecsieve.proxy", "calibrate", "--rate", "1000")


def run(url: str, collection: str, *arguments: str) -> Done:
    return command_line("calibrate", "--rate", "1000", "--url", url, "--collection", collection, *arguments)


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.fixture(scope="module")
def demo() -> Iterator[str]:
    with start_embedded_process() as url:
        with closing(QdrantCollection(url)) as collection:
            collection.load(load(), progress=lambda _: None)
        yield url


def test_on_planted_copies_the_cut_lies_between_copies_and_strangers(engine: str, tmp_path: Path) -> None:
    done = run(engine, "copied_cosine", "--out", str(tmp_path / "copied.json"))
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip() == ""
    profiles = Profiles(tmp_path)
    reload = profiles.reload_if_changed()
    assert reload is not None
    assert reload.problems == ()
    profile = profiles.profile("copied_cosine", "")
    assert profile is not None
    assert profile.dimension == planted.DIMENSION
    cut = re.search(r"Proposed cut (0\.\d+)", done.stdout)
    assert cut is not None
    assert 0.01 < float(cut[1]) < 0.3  # copies lie below 0.002, strangers above 0.5
    assert "100.0%" in done.stdout
    assert "No two points of any pool are near the cut" in done.stdout


def test_on_a_clean_collection_no_page_has_a_copy(engine: str) -> None:
    done = run(engine, "clean_cosine")
    assert re.search(r"the cut fixed at 0\.\d+ │ 0\.0% │ 0\.0%", words(done.stdout)) is not None


def test_a_named_vector_of_another_metric_is_calibrated_too(engine: str, tmp_path: Path) -> None:
    done = run(engine, "named", "--vector", "small", "--out", str(tmp_path / "small.json"))
    assert done.returncode == 0, done.stderr
    profile = json.loads((tmp_path / "small.json").read_text())
    assert (profile["vector_name"], profile["dimension"], profile["distance"]) == ("small", 8, "Euclid")


@pytest.mark.deep  # a whole run on 42 questions' collection
def test_on_the_demo_collection_the_report_can_be_acted_on(demo: str) -> None:
    done = run(demo, NAME)
    assert done.returncode == 0, done.stderr
    output = words(done.stdout)
    assert "2000 of 2947 points, evenly spread over the ids" in output
    cut = re.search(r"Proposed cut (0\.\d+)", output)
    assert cut is not None
    assert 0.08 < float(cut[1]) < 0.14
    same = re.search(r"0\.00 │ (\d+\.\d)% │ same vector", output)
    assert same is not None
    assert 15 < float(same[1]) < 30  # a fifth of the corpus stands in docstring and documentation alike
    assert done.stdout.count("merged") == done.stdout.count("kept apart") == 5
    assert f"threshold: {{fixed: {cut[1]}}}" in output
    assert max(len(line) for line in done.stdout.splitlines()) <= 120


@pytest.mark.deep  # two whole runs
def test_json_says_the_same_and_twice_the_same(demo: str) -> None:
    one, other = (run(demo, NAME, "--json", "--sample", "100") for _ in range(2))
    assert one.stdout == other.stdout
    read = json.loads(one.stdout)
    assert read["profile"]["sample"] == 100
    assert read["points"] == 2947
    assert len(read["borderline"]) == 10
    assert all(text for pair in read["borderline"] for text in pair["texts"])


def test_nothing_is_written_to_the_collection(engine: str) -> None:
    def state() -> tuple[bytes, bytes]:
        body = json.dumps({"limit": 1000, "with_payload": True, "with_vector": True}).encode()
        info = stack.exchange(engine, "GET", "/collections/copied_dot").timeless
        return info, stack.exchange(engine, "POST", "/collections/copied_dot/points/scroll", body).timeless

    before = state()
    assert run(engine, "copied_dot").returncode == 0
    assert state() == before


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("--collection", "nowhere"), 1, "has no collection 'nowhere'; it has: "),
        (("--collection", "named"), 1, "say which with --vector: dense, small"),
        (("--collection", "named", "--vector", "dense", "--sample", "3"), 2, "20"),
        (("--collection", "copied_dot", "--precision", "1.5"), 2, "precision"),
        (("--collection", "copied_dot", "--api-key-env", "NOT_SET"), 2, "--api-key-env: wanted"),
        (("--collection", "copied_dot", "--out", "profile.txt"), 2, "--out: wanted a name that ends in .json"),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(
    engine: str, arguments: tuple[str, ...], code: int, message: str
) -> None:
    done = command_line("calibrate", "--url", engine, *arguments)
    assert done.returncode == code
    assert message in words(done.stderr)
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


@contextmanager
def stalled() -> Iterator[tuple[str, threading.Event]]:
    """A Qdrant that says what its collection is and then never answers; the event tells that it was asked."""
    requested, over = threading.Event(), threading.Event()
    shape = {"vectors": {"size": 4, "distance": "Cosine"}}
    hnsw = {"m": 16, "ef_construct": 100, "full_scan_threshold": 10000}
    optimizer = {"deleted_threshold": 0.2, "vacuum_min_vector_number": 1000, "default_segment_number": 0}
    config = {"params": shape, "hnsw_config": hnsw, "optimizer_config": {**optimizer, "flush_interval_sec": 5}}
    info = {"status": "green", "optimizer_status": "ok", "segments_count": 1, "points_count": 9, "config": config}
    body = json.dumps({"time": 0.0, "status": "ok", "result": {**info, "payload_schema": {}}}).encode()

    class Database(Script):
        def do_GET(self) -> None:
            self.answer(body)

        def do_POST(self) -> None:
            requested.set()
            over.wait(60)

    with in_a_thread(Database) as url:
        try:
            yield url, requested
        finally:
            over.set()


@pytest.mark.parametrize(
    "number", [signal.SIGINT, *(pytest.param(item, marks=pytest.mark.deep) for item in (signal.SIGTERM, signal.SIGHUP))]
)
def test_a_signal_in_the_middle_ends_it_cleanly_and_leaves_the_old_profile(
    tmp_path: Path, number: signal.Signals
) -> None:
    out = tmp_path / "docs.json"
    out.write_text("the old one")
    with (
        stalled() as (url, requested),
        subprocess.Popen(
            [*COMMAND, "--url", url, "--collection", "docs", "--out", str(out)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process,
    ):
        assert requested.wait(30)
        process.send_signal(number)
        output, complained = process.communicate(timeout=30)
    assert process.returncode == 130
    assert output == ""
    assert complained.strip() == "stopped; no file was written"
    assert out.read_text() == "the old one"
    assert list(tmp_path.iterdir()) == [out]
