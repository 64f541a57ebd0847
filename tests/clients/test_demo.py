"""The demo as a newcomer runs it: the real command, the real engine, the real proxy, and nothing left behind."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

import pytest

from support.process import stack
from support.process.demo_runs import is_alive, keeping, pasted_curl, read_until, run, wait_for_children
from support.qdrant.embedded import start_embedded_process
from vecsieve.config.schema import Settings
from vecsieve.proxy.demo.backends import QdrantCollection
from vecsieve.proxy.demo.corpus import load
from vecsieve.proxy.demo.database import NAME
from vecsieve.proxy.demo.reasons import Pool, explain
from vecsieve.proxy.search.policy import Policies

QUESTIONS = 42


@dataclass(frozen=True, slots=True)
class Story:
    """A demo that goes on. ``out``: the story; ``instructions``: what was printed behind it; ``seconds``: until then."""

    process: subprocess.Popen[str]
    out: str
    instructions: str
    seconds: float


@pytest.fixture(scope="module")
def plain() -> Iterator[Story]:
    """With --keep: what a demo prints without it is told by those of Chroma and Pinecone, which end by themselves."""
    with keeping() as process:
        started = time.monotonic()
        text = read_until(process, "Results that were left out, and why: ")
        out, kept, instructions = text.partition("Still running until Ctrl-C:")
        assert kept
        yield Story(process, out, instructions, time.monotonic() - started)


@pytest.fixture
def kept() -> Iterator[subprocess.Popen[str]]:
    with keeping() as process:
        yield process


def test_the_demo_shows_both_lists_what_was_copied_and_what_came_in(plain: Story) -> None:
    assert "Asked directly" in plain.out
    assert "Asked through VecSieve" in plain.out
    assert "7 of 8 repeat a result above, 7 left out" in plain.out
    assert "no repeats, 7 came in" in plain.out
    assert plain.out.count("= says the same as") == 7
    assert plain.out.count("+ came in, was number") == 7


def test_the_demo_says_what_was_added_and_what_the_number_is_worth(plain: Story) -> None:
    assert re.search(r"Added time: [+-]\d+\.\d ms", plain.out)
    assert "not built for speed" in plain.out


def test_over_all_questions_copies_go_and_the_first_result_stays(plain: Story) -> None:
    by_vector, by_wording = (
        re.search(rf"by {measure} *│ *(\d+) \(\d+%\) │ *(\d+) \(", plain.out) for measure in ("vector", "wording")
    )
    assert by_vector is not None
    assert by_wording is not None
    assert (int(by_vector[1]), int(by_wording[1])) > (80, 80)
    assert int(by_vector[2]) <= 36
    assert int(by_wording[2]) <= 53
    output = " ".join(plain.out.split())
    assert f"first result stayed first in {QUESTIONS} of {QUESTIONS}" in output
    assert "Word for word copies: 81 → 0." in output
    stay = re.search(r"kept on purpose: (\d+), (\d+) of them because they say more", output)
    assert stay is not None
    assert int(stay[1]) - int(stay[2]) <= 14


def test_answers_without_copies_come_back_unchanged(plain: Story) -> None:
    unchanged = re.search(r"(\d+) had nothing to collapse", plain.out)
    assert unchanged is not None
    assert int(unchanged[1]) >= 1


def test_what_the_demo_explains_is_what_the_proxy_did() -> None:
    corpus = load()
    policy = Policies(Settings()).resolve("qdrant", NAME)
    with (
        start_embedded_process() as url,
        stack.serve(url) as (proxy, _),
        closing(QdrantCollection(url)) as direct,
        closing(QdrantCollection(proxy)) as collection,
    ):
        direct.load(corpus, progress=lambda _: None)
        for vector in corpus.question_vectors:
            pool = Pool(answer=direct.ask(vector, limit=160), first=40, policy=policy)
            explained = explain(corpus, pool, direct.ask(vector, limit=8)).kept
            given = collection.ask(vector, limit=8).rows
            assert [corpus.chunks[row].text for row in explained] == [corpus.chunks[row].text for row in given]


@pytest.mark.deep  # a whole demo of its own
def test_free_text_is_answered_by_a_listed_question_and_says_so() -> None:
    done = run("--query", "strip whitespace around my text")
    assert done.code == 0, done.err
    assert "no embedding model" in done.out
    assert "Question 2: How do I strip whitespace" in done.out


def test_an_unknown_number_is_refused_before_anything_starts() -> None:
    done = run("--query", "4711")
    assert done.code == 2
    assert "no question 4711: want 1 to 42" in done.err
    assert done.out == ""


@pytest.mark.deep  # a whole demo of its own
def test_the_users_own_settings_do_not_bend_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VECSIEVE_MODE", "off")
    done = run("--query", "36")
    assert done.code == 0, done.err
    assert "+ came in" in done.out


def test_what_keep_prints_works_as_pasted_and_ctrl_c_ends_everything_without_a_complaint(plain: Story) -> None:
    assert plain.seconds < 60
    text, kept = plain.instructions, plain.process
    children = wait_for_children(kept.pid, 2)
    lines = [shlex.split(line) for line in text.splitlines() if line.strip().startswith("curl")]
    answers = [json.loads(pasted_curl(words))["result"]["points"] for words in lines]
    assert [len(points) for points in answers] == [8, 8]
    assert answers[0] != answers[1]
    python = text[text.index("from qdrant_client") : text.index("Results that were left out")]
    pasted = subprocess.run([sys.executable, "-"], input=python, capture_output=True, text=True, check=True, timeout=60)
    assert len(pasted.stdout.split()) == 18  # two URLs with eight documents each
    metrics = re.search(r"http://\S+/metrics", text)
    assert metrics is not None
    assert stack.exchange(metrics[0].removesuffix("/metrics"), "GET", "/metrics").status == 200
    page = re.search(r"http://\S+/$", text.rstrip())
    assert page is not None
    assert stack.exchange(page[0], "GET", "/").status == 200
    newest, *_ = json.loads(stack.exchange(page[0], "GET", "/api/searches").body)["searches"]
    assert newest["collection"] == NAME
    content = json.loads(stack.exchange(page[0], "GET", f"/api/searches/{newest['number']}").body)
    assert all(result["text"] for result in content["kept"]), "the demo's texts are public, and shown"
    kept.send_signal(signal.SIGINT)
    _, complaints = kept.communicate(timeout=30)
    assert (kept.returncode, complaints) == (0, "")
    assert not [pid for pid in children if is_alive(pid)]


@pytest.mark.parametrize(
    "number", [signal.SIGINT, *(pytest.param(item, marks=pytest.mark.deep) for item in (signal.SIGTERM, signal.SIGHUP))]
)
def test_a_signal_while_the_story_runs_leaves_no_process_behind(
    kept: subprocess.Popen[str], number: signal.Signals
) -> None:
    children = wait_for_children(kept.pid, 2)
    kept.send_signal(number)
    assert kept.wait(timeout=30) in {0, 130}
    assert not [pid for pid in children if is_alive(pid)]


def test_a_proxy_that_dies_under_way_is_a_failure_and_leaves_no_process_behind(kept: subprocess.Popen[str]) -> None:
    children = wait_for_children(kept.pid, 2)
    os.kill(children[1], signal.SIGKILL)
    kept.communicate(timeout=60)
    assert kept.returncode not in {0, None}
    assert not [pid for pid in children if is_alive(pid)]
