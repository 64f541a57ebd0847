"""`vecsieve measure` before a real engine and before scripted servers: the verdict, the page, nothing but searches, and a run that is continued."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from qdrant_client import QdrantClient

from support.network.http_scripts import Script, in_a_thread
from support.process.commands import Done, command_line
from support.qdrant import planted
from support.qdrant.embedded import start_embedded_process
from vecsieve.config.problems import SettingsError
from vecsieve.config.schema import Settings
from vecsieve.proxy.jobs.measure.page import as_text, outcome, page_of
from vecsieve.proxy.jobs.measure.queries import Query, read_queries
from vecsieve.proxy.jobs.measure.run import Entry, MeasureError, MeasureOptions, Pace, Sent, State, measure
from vecsieve.proxy.jobs.pages import as_html
from vecsieve.proxy.telemetry.verdict import Measured

PATH = "/collections/planted_cosine/points/query"
ANSWER = b'{"result":{"points":[]},"status":"ok","time":0.1}'


def lines(path: Path, *objects: object) -> Path:
    path.write_text("".join(json.dumps(stored) + "\n" for stored in objects), encoding="utf-8")
    return path


def searches(count: int) -> list[dict[str, object]]:
    return [
        {"path": PATH, "body": {"query": row.tolist(), "limit": 5, "with_payload": True}}
        for row in planted.bases()[:count]
    ]


def run(file: Path, page: Path, url: str, *more: str) -> Done:
    return command_line("measure", str(file), "--html", str(page), "--upstream", url, "--rate", "10000", *more)


def test_a_database_with_copies_is_a_go_and_one_page_says_so(tmp_path: Path) -> None:
    page, figures = tmp_path / "page.html", tmp_path / "figures.json"
    with start_embedded_process() as url:
        client = QdrantClient(url=url, check_compatibility=False)
        planted.load(client, copies=planted.COPIES, prefix="planted", metrics=["cosine"])
        before = client.count("planted_cosine").count
        done = run(lines(tmp_path / "searches.jsonl", *searches(24)), page, url, "--turns", "2", "--json", str(figures))
        assert client.count("planted_cosine").count == before
        client.close()
    assert done.returncode == 0, done.stderr
    content = json.loads(figures.read_text())
    assert content["verdict"]["decision"] == "go"
    assert (content["verdict"]["pages"], content["searches"], content["turns"]) == (48, 24, 2)
    assert [(row["way"], row["searches"], row["failed"]) for row in content["waited"]] == [
        ("plain", 48, 0),
        ("shadow", 48, 0),
        ("on", 48, 0),
    ]
    html = page.read_text()
    assert "mode on would change 100 % " in html
    assert "<script" not in html
    assert planted.TEXT not in html
    assert url not in html
    assert "Go: " in done.stdout


@contextmanager
def database(status: Callable[[int], int]) -> Iterator[tuple[str, list[str]]]:
    """A server that answers searches; ``status``: of the answer to each request, by its number. Its URL, and the requests so far."""
    seen: list[str] = []

    class Database(Script):
        def do_POST(self) -> None:
            self.content()
            seen.append(self.path)
            self.answer(ANSWER, status(len(seen)))

    with in_a_thread(Database) as url:
        yield url, seen


def test_a_run_that_failed_is_continued_where_it_stopped(tmp_path: Path) -> None:
    file, page = lines(tmp_path / "searches.jsonl", *searches(3)), tmp_path / "page.html"
    with database(lambda number: 503 if number == 3 else 200) as (url, seen):
        failed = run(file, page, url, "--through", url, "--turns", "1")
        assert (failed.returncode, page.exists()) == (1, False)
        assert failed.stderr.endswith("line 2: the database answered with status 503\n")
        before = len(seen)
        assert run(file, page, url, "--through", url, "--turns", "1").returncode == 0
        assert len(seen) - before == 4  # the second and the third search, in both ways
        assert "the running VecSieve" in page.read_text()
        before = len(seen)
        assert run(file, page, url, "--through", url, "--turns", "2").returncode == 0
        assert len(seen) - before == 6


def test_the_size_of_an_answer_is_that_on_the_wire_as_the_verdict_has_it(tmp_path: Path) -> None:
    """Databases compress for a client that accepts it, as nearly all do; VecSieve's own answers are not compressed."""
    packed, figures = gzip.compress(ANSWER + b" " * 10_000), tmp_path / "figures.json"

    class Database(Script):
        def do_POST(self) -> None:
            self.content()
            self.answer(packed, fields={"Content-Encoding": "gzip"})

    file = lines(tmp_path / "searches.jsonl", *searches(2))
    with in_a_thread(Database) as url:
        more = ("--through", url, "--turns", "1", "--json", str(figures))
        assert run(file, tmp_path / "page.html", url, *more).returncode == 0
    assert [item["size"] for item in json.loads(figures.read_text())["waited"]] == [len(packed)] * 2


def test_another_file_does_not_continue_a_run_and_a_cut_line_is_measured_again(tmp_path: Path) -> None:
    state = State(tmp_path / "state", "one")
    state.load()
    state.add(Entry(0, 1, {"plain": Sent(0.1, 5, 200)}, []))
    with state.path.open("ab") as file:
        file.write(b'[0,2,{"pla')
    again = State(state.path, "one")
    again.load()
    assert again.entries == state.entries
    again.add(Entry(0, 2, {"plain": Sent(0.1, 5, 200)}, []))
    last = State(state.path, "one")
    last.load()
    assert [entry.line for entry in last.entries] == [1, 2]
    with pytest.raises(MeasureError, match="remove it to begin again"):
        State(state.path, "two").load()


@pytest.mark.parametrize(
    ("line", "seen"),
    [
        ({"path": "/collections/docs/points", "body": {}}, "POST /collections/docs/points, which is no ranked search"),
        ({"path": "/collections/docs/points/delete", "body": {}}, "no ranked search"),
        ({"path": "collections/docs/points/query", "body": {}}, "no ranked search"),
        ({"path": PATH, "body": [1]}, "Expected `object`"),
        ({"path": PATH, "body": {}, "method": "PUT"}, "unknown field `method`"),
        ({"body": {}}, "missing required field `path`"),
    ],
)
def test_what_is_no_search_is_an_error_that_names_its_line(tmp_path: Path, line: object, seen: str) -> None:
    file = lines(tmp_path / "searches.jsonl", searches(1)[0], line)
    with pytest.raises(SettingsError) as error:
        read_queries(file, "qdrant", target=None)
    assert f"{file}, line 2" in str(error.value)
    assert seen in str(error.value)


def test_with_a_path_a_line_is_the_body(tmp_path: Path) -> None:
    file = tmp_path / "bodies.jsonl"
    file.write_text('{"query": [1.0]}\n\n {"query": [2.0]}\n')
    queries = read_queries(file, "qdrant", target=f"{PATH}?timeout=3")
    assert queries == (
        Query(1, f"{PATH}?timeout=3", b'{"query": [1.0]}'),
        Query(3, f"{PATH}?timeout=3", b'{"query": [2.0]}'),
    )
    with pytest.raises(SettingsError, match="which is no ranked search"):
        read_queries(file, "qdrant", target="/collections/docs/points/delete")
    file.write_text("\n")
    with pytest.raises(SettingsError, match="a search a line"):
        read_queries(file, "qdrant", target=PATH)


def test_the_rate_counts_both_reads_of_mode_shadow(tmp_path: Path) -> None:
    now, slept = [0.0], list[float]()

    async def sleep(seconds: float) -> None:
        slept.append(round(seconds, 6))
        now[0] += seconds

    with database(lambda _: 200) as (url, _):
        settings = Settings.model_validate({"upstream": {"url": url}})
        options = MeasureOptions(turns=1, requests_per_second=10.0)
        state = State(tmp_path / "state", "")
        query = Query(3, PATH, b'{"query":[1.0,0.0],"limit":2}')  # line 3: plain first, then shadow, then on
        asyncio.run(
            measure([query, query], options, settings, {}, state, lambda _: None, pace=Pace(lambda: now[0], sleep))
        )
    assert slept == [0.1, 0.2, 0.1, 0.1, 0.2]
    assert list(state.entries[0].sent) == ["plain", "shadow", "on"]


def entry(line: int, *, on: int = 200, seconds: float = 0.01) -> Entry:
    sent = {"plain": Sent(0.01, 100, 200), "shadow": Sent(0.011, 100, 200), "on": Sent(0.01 + seconds, 90, on)}
    collection = "<docs>" if line % 2 else "faq"
    row = Measured(collection, is_warm=True, results=5, changed=True, proven=2, arrived=2, added_ms=4.0, plain_ms=10.0)
    return Entry(0, line, sent, [row])


def test_an_answer_that_the_proxy_alone_failed_is_counted_and_not_timed() -> None:
    measured = outcome(
        [*(entry(line) for line in range(30)), entry(30, on=502, seconds=9.0)], version="1", backend="qdrant"
    )
    plain, _, on = measured.waited
    assert (on.searches, on.failed, plain.failed, on.size) == (30, 1, 0, 90.0)
    assert on.more is not None
    assert on.more.value == pytest.approx(10.0)
    assert on.slow is not None
    assert on.slow.high == pytest.approx(20.0)
    assert measured.verdict is not None
    assert measured.verdict.warm_ms is not None
    assert measured.verdict.warm_ms.value == pytest.approx(10.0)  # of the client, not the 4 ms of mode shadow
    assert [name for name, _ in measured.verdicts] == ["faq", "<docs>"]
    html = as_html(page_of(measured)).decode()
    assert "&lt;docs&gt;" in html
    assert "<docs>" not in html
    report = as_text(measured)
    assert report.startswith("Go: mode on would change 100 %")
    ways, *rows = report.splitlines()[2:]
    assert ways.split() == ["way", *(waited.way for waited in measured.waited)]
    assert {row[ways.index("plain") - 2 : ways.index("plain")] for row in rows} == {"  "}
    assert max(map(len, rows)) <= 80, "in a terminal of 80 columns it wrapped"


def test_few_searches_decide_nothing() -> None:
    measured = outcome([entry(1)], version="1", backend="qdrant")
    assert measured.verdict is not None
    assert measured.verdict.decision == "not enough yet"
    assert measured.waited[0].median is None
    assert "too few to say" in as_html(page_of(measured)).decode()
