"""The command's own part: arguments that cannot be used, before anything is started."""

from __future__ import annotations

import dataclasses
import io
import re
import signal
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from inspect import getsource

import numpy as np
import pytest
from rich.console import Console

from support.jobs.demo_policies import SHIPPED
from support.selection.texts import as_texts
from vecsieve.config.backends import DEFAULT_BACKEND
from vecsieve.proxy.demo import command, database
from vecsieve.proxy.demo.backends import PINECONE, QDRANT
from vecsieve.proxy.demo.command import DEFAULT_QUESTION, LIMIT, Arguments, Stage, present, run, write
from vecsieve.proxy.demo.comparison import Comparison, compare
from vecsieve.proxy.demo.corpus import Choice, Corpus, Vectors, choose, load
from vecsieve.proxy.demo.corpus import load as load_corpus
from vecsieve.proxy.demo.database import Addresses, Answer, DatabaseRefusedError, Hits, Search, Store
from vecsieve.proxy.demo.reasons import Pool
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import Candidates, Metadata, Metric


def test_an_unknown_number_ends_with_code_2_and_the_list_of_questions(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Arguments(query="99", keep=False)) == 2
    caught = capsys.readouterr()
    assert "no question 99: want 1 to 42" in caught.err
    assert " 42  How do I" in caught.err
    assert caught.out == ""


def test_text_that_is_near_to_no_question_ends_with_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Arguments(query="zebra", keep=True)) == 2
    assert "'zebra'" in capsys.readouterr().err


def test_an_unknown_backend_ends_with_code_2_and_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Arguments(query=None, keep=False, backend="milvus")) == 2
    assert capsys.readouterr().err == ('vecsieve demo: --backend: wanted qdrant, pinecone or chroma; saw "milvus"\n')


def test_the_help_names_every_backend_of_the_demo_and_the_default_is_one() -> None:
    help_line = next(line for line in getsource(Arguments).splitlines() if "The database: qdrant" in line)
    assert all(name in help_line for name in command.DATABASES)
    assert DEFAULT_BACKEND in command.DATABASES


def test_refused_arguments_leave_the_signals_alone(capsys: pytest.CaptureFixture[str]) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    run(Arguments(query="0", keep=False))
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == before
    assert capsys.readouterr().err


def test_the_default_question_exists() -> None:
    texts = [question.text for question in load().questions]
    assert choose(texts, DEFAULT_QUESTION) == Choice(index=int(DEFAULT_QUESTION) - 1)


@pytest.mark.parametrize("backend", ["qdrant", "pinecone"])
def test_of_either_backend_nothing_is_said_before_the_question_is_found(
    backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(Arguments(query="99", keep=False, backend=backend)) == 2
    assert capsys.readouterr().out == ""


@contextmanager
def nothing_running() -> Iterator[str]:
    yield "http://e"


@contextmanager
def nothing_before_it(engine: str, *, backend: str, is_kept: bool) -> Iterator[Addresses]:
    assert backend in command.DATABASES
    assert not is_kept or backend == "qdrant"
    yield Addresses(engine=engine, proxy="http://p", admin="http://a:1")


def refusing(url: str) -> Store:
    raise DatabaseRefusedError(f"GET {url} was answered with 500: no")


def test_a_database_that_refuses_ends_with_code_1_and_its_words_after_the_opening(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "DATABASES", {"pinecone": replace(PINECONE, engine=nothing_running, opened=refusing)})
    monkeypatch.setattr(database, "fronted", nothing_before_it)
    assert run(Arguments(query=None, keep=False, backend="pinecone")) == 1
    caught = capsys.readouterr()
    assert caught.err == "vecsieve demo: GET http://e was answered with 500: no\n"
    assert caught.out.startswith("This is an emulator")


@pytest.mark.parametrize(("browse", "starts"), [(False, True), (True, True), (True, False)])
def test_keep_says_where_the_inspector_is_and_open_starts_a_browser_on_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], browse: bool, starts: bool
) -> None:
    opened: list[str] = []

    def opens(url: str) -> bool:
        opened.append(url)
        return starts

    monkeypatch.setattr(command, "DATABASES", {"qdrant": replace(QDRANT, engine=nothing_running)})
    monkeypatch.setattr(database, "fronted", nothing_before_it)
    monkeypatch.setattr(command, "_play", lambda *_: None)
    monkeypatch.setattr(threading.Event, "wait", lambda _: None)
    monkeypatch.setattr(webbrowser, "open", opens)
    assert run(Arguments(query=None, keep=True, browse=browse)) == 0
    output = capsys.readouterr().out
    assert "Results that were left out, and why: http://a:1/" in output
    assert opened == (["http://a:1/"] if browse else [])
    assert ("No browser could be started" in output) is (browse and not starts)


# The course of the demo, over a store in memory and the proxy's own selection.


class Exact(Store):
    """Exact search over the corpus; remembers what was asked."""

    batch = 1

    def __init__(self, corpus: Corpus) -> None:
        self.corpus = corpus
        self.written = 0
        self.limits: list[int] = []

    def create(self, dimension: int) -> None:
        assert dimension == self.corpus.vectors.shape[1]

    def write(self, _corpus: Corpus, rows: range) -> None:
        self.written += len(rows)

    def search(self, vector: Vectors, limit: int) -> Search:
        raise NotImplementedError

    def hits(self, answer: object) -> Hits:
        raise NotImplementedError

    def close(self) -> None:
        pass

    def ask(self, vector: Vectors, *, limit: int) -> Answer:
        self.limits.append(limit)
        scores = self.corpus.vectors @ vector
        rows = np.argsort(-scores, kind="stable")[:limit]
        return Answer(rows=tuple(rows.tolist()), scores=tuple(scores[rows].tolist()), milliseconds=2.0)


class Distinct(Exact):
    """The same through the proxy's selection."""

    def ask(self, vector: Vectors, *, limit: int) -> Answer:
        pool = super().ask(vector, limit=40)
        candidates = Candidates(
            scores=np.asarray(pool.scores),
            metric=Metric.COSINE,
            vectors=self.corpus.vectors[list(pool.rows)],
            metadata=Metadata(texts=as_texts(self.corpus.chunks[row].text for row in pool.rows)),
        )
        keep = select(candidates, top_k=limit, policy=SHIPPED.selection).keep
        return Answer(
            rows=tuple(pool.rows[place] for place in keep),
            scores=tuple(pool.scores[place] for place in keep),
            milliseconds=3.5,
        )


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return load_corpus()


def console() -> Console:
    return Console(file=io.StringIO(), width=120)


def printed(to: Console) -> str:
    stream = to.file
    assert isinstance(stream, io.StringIO)
    return stream.getvalue()


def stage_of(corpus: Corpus, proxied: type[Exact]) -> Stage:
    return Stage(
        corpus=corpus,
        direct=Exact(corpus),
        proxied=proxied(corpus),
        policy=SHIPPED,
        pools=(40, 160),
        caution="take care",
    )


def presented(stage: Stage, choice: Choice) -> str:
    to = console()
    present(stage, choice, to)
    return printed(to)


@cache
def stage_after(proxied: type[Exact], choice: Choice) -> tuple[str, Stage]:
    """What is told once and looked at by several tests, and who was asked for it."""
    stage = stage_of(load_corpus(), proxied)
    return presented(stage, choice), stage


def story(proxied: type[Exact], choice: Choice) -> str:
    return stage_after(proxied, choice)[0]


def test_the_corpus_is_written_into_the_engine_and_not_through_the_proxy(corpus: Corpus) -> None:
    stage, to = stage_of(corpus, Exact), console()
    write(stage, to)
    assert isinstance(stage.direct, Exact)
    assert isinstance(stage.proxied, Exact)
    assert (stage.direct.written, stage.proxied.written) == (len(corpus.chunks), 0)
    assert f"{len(corpus.chunks)}/{len(corpus.chunks)}" in printed(to)


def test_the_story_names_the_question_shows_both_lists_the_cost_and_all_questions() -> None:
    text = story(Distinct, Choice(index=35))
    assert "Question 36: How do I keep a list sorted while inserting into it?" in text
    assert "4 of 8 repeat a result above, 2 left out" in text
    assert "2 of 8 repeat a result above, 2 came in" in text
    assert "= says the same as 1" in text
    assert "! stays: " in text
    assert "+ came in, was number" in text
    assert "+1.5 ms" in text
    assert "All 42 questions, 336 results" in text
    assert "the first result stayed first in 42 of 42" in text


def test_the_story_ends_with_every_result_that_left_without_a_proof() -> None:
    text = story(Distinct, Choice(index=35))
    edited = re.search(r"Left out for a result above: \d+ \(.*?\bedited copies (\d+)\)", text)
    listed = re.findall(r"^  .+ for .+ \(an edited copy of .+\)$", text, flags=re.MULTILINE)
    assert bool(listed) == (edited is not None) == ("Not proven, so check these pairs:" in text)
    assert edited is None or 1 <= len(listed) <= int(edited[1])


def test_a_remark_on_the_choice_is_shown_and_else_the_table_follows_the_question() -> None:
    assert "nearest by words" in story(Exact, Choice(index=0, remark="nearest by words"))
    lines = story(Exact, Choice(index=0)).splitlines()
    question = next(number for number, line in enumerate(lines) if line.startswith("Question 1:"))
    assert "Asked directly" in lines[question + 2]


def test_a_proxy_that_changes_nothing_is_reported_as_such() -> None:
    text = story(Exact, Choice(index=35))
    assert "came in" not in text
    assert "0 answers changed, 42 had nothing to collapse and came back unchanged" in text


def test_both_sides_are_asked_the_same_number_of_times_for_the_page() -> None:
    _, stage = stage_after(Exact, Choice(index=0))
    direct, proxied = stage.direct, stage.proxied
    assert isinstance(direct, Exact)
    assert isinstance(proxied, Exact)
    assert direct.limits.count(LIMIT) == proxied.limits.count(LIMIT) > len(direct.corpus.questions)
    assert set(proxied.limits) == {LIMIT}
    assert set(direct.limits) == {LIMIT, 160}


class Telling(Distinct):
    """Says how many candidates it chose from."""

    def ask(self, vector: Vectors, *, limit: int) -> Answer:
        return dataclasses.replace(super().ask(vector, limit=limit), pool_size=40)


def test_a_proxy_that_says_how_many_it_chose_from_is_explained_by_as_many(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools: list[Pool] = []

    def seen(corpus: Corpus, pool: Pool, *, direct: Answer, proxied: Answer) -> Comparison:
        pools.append(pool)
        return compare(corpus, pool, direct=direct, proxied=proxied)

    monkeypatch.setattr(command, "compare", seen)
    presented(stage_of(corpus, Telling), Choice(index=0))
    assert {pool.size for pool in pools} == {40}
    pools.clear()
    presented(stage_of(corpus, Distinct), Choice(index=0))
    assert {pool.size for pool in pools} == {None}


def test_the_story_is_the_same_every_time(corpus: Corpus) -> None:
    assert presented(stage_of(corpus, Distinct), Choice(index=35)) == story(Distinct, Choice(index=35))
