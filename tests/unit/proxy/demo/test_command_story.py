"""The course of the demo, over a store in memory and the proxy's own selection."""

from __future__ import annotations

import dataclasses
import io
import re
from functools import cache

import numpy as np
import pytest
from rich.console import Console

from support.jobs.demo_policies import SHIPPED
from support.selection.texts import as_texts
from vecsieve.proxy.demo import command
from vecsieve.proxy.demo.command import LIMIT, Stage, present, write
from vecsieve.proxy.demo.comparison import Comparison, compare
from vecsieve.proxy.demo.corpus import Choice, Corpus, Vectors
from vecsieve.proxy.demo.corpus import load as load_corpus
from vecsieve.proxy.demo.database import Answer, Hits, Search, Store
from vecsieve.proxy.demo.reasons import Pool
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import Candidates, Metadata, Metric


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


def said(to: Console) -> str:
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


def told(stage: Stage, choice: Choice) -> str:
    to = console()
    present(stage, choice, to)
    return said(to)


@cache
def stage_after(proxied: type[Exact], choice: Choice) -> tuple[str, Stage]:
    """What is told once and looked at by several tests, and who was asked for it."""
    stage = stage_of(load_corpus(), proxied)
    return told(stage, choice), stage


def story(proxied: type[Exact], choice: Choice) -> str:
    return stage_after(proxied, choice)[0]


def test_the_corpus_is_written_into_the_engine_and_not_through_the_proxy(corpus: Corpus) -> None:
    stage, to = stage_of(corpus, Exact), console()
    write(stage, to)
    assert isinstance(stage.direct, Exact)
    assert isinstance(stage.proxied, Exact)
    assert (stage.direct.written, stage.proxied.written) == (len(corpus.chunks), 0)
    assert f"{len(corpus.chunks)}/{len(corpus.chunks)}" in said(to)


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
    told(stage_of(corpus, Telling), Choice(index=0))
    assert {pool.size for pool in pools} == {40}
    pools.clear()
    told(stage_of(corpus, Distinct), Choice(index=0))
    assert {pool.size for pool in pools} == {None}


def test_the_story_is_the_same_every_time(corpus: Corpus) -> None:
    assert told(stage_of(corpus, Distinct), Choice(index=35)) == story(Distinct, Choice(index=35))
