"""`vecsieve analyze` as a process against the real engine: finds what was planted, writes nothing, survives being killed."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from uuid import UUID

import pytest
from qdrant_client import QdrantClient, models

from support.jobs.analyses import COPIES, FAMILIES, planted
from support.jobs.memory_source import families
from support.process.commands import command_line
from support.process.stack import command
from support.qdrant.embedded import start_embedded_process
from vecsieve.proxy.jobs.clients.qdrant import Qdrant
from vecsieve.proxy.jobs.source import Access

SLOW = 20.0  # requests a second at which the long collection takes three seconds after its first page


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    with start_embedded_process() as url:
        client = QdrantClient(url=url, timeout=30)
        for name, distance in (("planted", models.Distance.COSINE), ("euclid", models.Distance.EUCLID)):
            create(client, name, [(point.vector, dict(point.payload)) for point in planted()], distance)
        long = [
            (vector, {"text": f"text {place % 450}", "source": f"s{place % 5}"})
            for place, vector in enumerate(families(300, 3, dimension=16))
        ]
        create(client, "long", long, models.Distance.COSINE)
        client.close()
        yield url


def create(
    client: QdrantClient, name: str, points: list[tuple[Any, dict[str, Any]]], distance: models.Distance
) -> None:
    parameters = models.VectorParams(size=len(points[0][0]), distance=distance)
    client.create_collection(name, vectors_config=parameters)
    made = [
        models.PointStruct(id=place, vector=vector.tolist(), payload=payload)
        for place, (vector, payload) in enumerate(points)
    ]
    for start in range(0, len(made), 500):
        client.upsert(name, made[start : start + 500], wait=True)


def analyze(url: str, collection: str, *arguments: str) -> tuple[int, str, str]:
    """The exit status, what it said, and what it complained of."""
    done = command_line("analyze", "--url", url, "--collection", collection, "--rate", "1000", *arguments)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("collection", ["planted", "euclid"])
def test_the_planted_families_and_sources_are_found(engine: str, collection: str) -> None:
    code, out, err = analyze(engine, collection, "--json", "-")
    assert (code, err) == (0, "")
    content = json.loads(out)
    removed = FAMILIES * (COPIES - 1)
    assert content["repeats"] == {"points": removed, "equal": 0, "contained": removed, "edited": 0, "vectors": 0}
    assert (content["families"]["count"], content["families"]["largest"]) == (FAMILIES, COPIES)
    assert {row["name"]: row["copied"] for row in content["sources"]["rows"]} == {
        "web": [24, 0, 24],
        "wiki": [0, 0, 0],
        "pdf": [12, 0, 0],
    }
    for family in content["families"]["examples"]:
        members = [family["leader"], *family["members"]]
        assert len({member["id"] // COPIES for member in members}) == 1
        assert sorted(member["source"] for member in members) == ["pdf", "web", "web"]


def test_uuids_named_vectors_and_points_without_one(engine: str) -> None:
    client = QdrantClient(url=engine, timeout=30)
    parameters = {
        "dense": models.VectorParams(size=24, distance=models.Distance.COSINE),
        "other": models.VectorParams(size=4, distance=models.Distance.DOT),
    }
    client.create_collection("named", vectors_config=parameters)
    vectors = families(6, 2, dimension=24)
    made = [
        models.PointStruct(
            id=str(UUID(int=place + 1)) if place % 2 else place,
            vector={"other": [1.0, 0.0, 0.0, float(place)]} if place >= 12 else {"dense": vectors[place].tolist()},
            payload={"page": {"body": f"This is text {min(place // 2, 6)}."}},
        )
        for place in range(15)
    ]
    client.upsert("named", made, wait=True)
    client.close()
    code, out, err = analyze(engine, "named", "--json", "-")
    assert (code, out) == (1, "")
    assert "several vectors; say which with --vector: dense, other" in err
    options = ("--vector", "dense", "--text-field", "page.body", "--json", "-")
    code, out, err = analyze(engine, "named", *options)
    assert (code, err) == (0, "")
    content = json.loads(out)
    assert (content["about"]["points"], content["about"]["with_vector"], content["about"]["with_text"]) == (15, 12, 15)
    assert content["families"]["count"] == 7  # six of two, and the three that have no such vector
    assert content["families"]["largest"] == 3
    assert content["sources"] is None
    expected = {
        member["id"] for family in content["families"]["examples"] for member in [family["leader"], *family["members"]]
    }
    assert expected == {point.id for point in made}


def test_a_report_for_people_and_a_page(engine: str, tmp_path: Path) -> None:
    page = tmp_path / "report.html"
    code, out, err = analyze(engine, "planted", "--html", str(page))
    assert (code, err) == (0, "")
    assert "24 of 50 points (48 %) say nothing that another point does not" in out
    assert max(map(len, out.splitlines())) <= 120
    assert "Subject 0 as the page of the day has it." in page.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def whole(engine: str) -> str:
    """What one run over the long collection says."""
    code, out, err = analyze(engine, "long", "--json", "-")
    assert (code, err) == (0, "")
    return out


@pytest.mark.parametrize(
    "number",
    [signal.SIGKILL, *(pytest.param(item, marks=pytest.mark.deep) for item in (signal.SIGINT, signal.SIGTERM))],
)
def test_a_run_that_was_ended_goes_on_and_gives_what_one_run_gives(
    engine: str, whole: str, tmp_path: Path, number: signal.Signals
) -> None:
    work, page = tmp_path / "work", tmp_path / "page.html"
    options = ("--html", str(page), "--work", str(work))
    line = ["analyze", "--url", engine, "--collection", "long", *options, "--rate", str(SLOW)]
    with command(*line) as running:
        until = time.monotonic() + 60
        read, process = work / "vectors.f32", running.process
        while not (read.exists() and read.stat().st_size) and process.poll() is None and time.monotonic() < until:
            time.sleep(0.01)
        process.send_signal(number)
        process.wait(30)
        err = running.output()
    assert process.returncode == (-signal.SIGKILL if number is signal.SIGKILL else 130), err
    assert not page.exists()
    if number is not signal.SIGKILL:
        assert f"{work}; run the same command again" in err
        assert list(tmp_path.iterdir()) == [work]
    code, out, err = analyze(engine, "long", *options, "--json", "-")
    assert (code, err) == (0, "")
    assert out == whole
    assert page.exists()


def test_nothing_but_reading_is_asked_of_the_database(engine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from urllib.request import Request

    from support.jobs.analyses import analyze_options
    from vecsieve.proxy.jobs import rest
    from vecsieve.proxy.jobs.analyze.run import analyze as analysis

    seen: set[tuple[str, str]] = set()
    exchanged = rest._exchanged

    def spying(request: Request, seconds: float) -> bytes:
        seen.add((request.get_method(), urlsplit(request.full_url).path))
        return exchanged(request, seconds)

    monkeypatch.setattr(rest, "_exchanged", spying)
    with closing(Qdrant(Access(url=engine, collection="planted"))) as source:
        analysis(source, analyze_options())
    assert seen == {
        ("GET", "/collections/planted"),
        ("POST", "/collections/planted/points"),  # retrieve by id; PUT would be an upsert
        ("POST", "/collections/planted/points/scroll"),
        ("POST", "/collections/planted/points/query/batch"),
    }


def test_what_cannot_be_read_is_told_without_a_traceback_or_the_key(
    engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ANALYZE_TEST_KEY", "sesame-open")
    code, out, err = analyze(engine, "nowhere", "--api-key-env", "ANALYZE_TEST_KEY")
    assert (code, out) == (1, "")
    assert "has no collection 'nowhere'; it has: euclid, long, " in err
    assert "Traceback" not in err
    assert "sesame" not in err
    code, out, err = analyze(engine, "planted", "--limit", "0")
    assert code == 2
    assert "--limit" in err
