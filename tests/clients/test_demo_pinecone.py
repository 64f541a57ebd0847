"""The demo over Pinecone as a newcomer runs it: the real command, the emulator, the real proxy, the official client."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from contextlib import closing

import pytest

from support.pinecone.emulator import emulated
from support.process import stack
from support.process.demo_runs import Done, is_alive, keeping, pasted_curl, read_until, run, wait_for_children
from vecsieve.config.schema import Settings
from vecsieve.proxy.demo.backends import PineconeIndex
from vecsieve.proxy.demo.corpus import load
from vecsieve.proxy.demo.database import NAME
from vecsieve.proxy.demo.reasons import Pool, explain
from vecsieve.proxy.search.policy import Policies

PINECONE = ("--backend", "pinecone")
QUESTIONS = 42


@pytest.fixture(scope="module")
def plain() -> Done:
    return run(*PINECONE)


def test_the_demo_ends_well_in_under_a_minute_and_complains_of_nothing(plain: Done) -> None:
    assert plain.code == 0, plain.err
    assert plain.err == ""
    assert plain.seconds < 60


def test_it_says_that_it_is_an_emulator_first_and_last(plain: Done) -> None:
    paragraphs = [" ".join(part.split()) for part in plain.out.split("\n\n")]
    assert paragraphs[0].startswith("This is an emulator of Pinecone's REST API")
    assert "It is not Pinecone's service" in paragraphs[0]
    assert "from the emulator, not from Pinecone's service" in paragraphs[-2]
    assert paragraphs[-1].endswith("vecsieve demo --backend pinecone --keep")


def test_the_time_is_said_to_be_the_emulators(plain: Done) -> None:
    assert re.search(r"Added time: [+-]\d+\.\d ms", plain.out)
    assert "does not show how fast Pinecone is" in " ".join(plain.out.split())
    assert "Qdrant" not in plain.out


def test_the_bytes_that_pinecone_would_bill_are_said(plain: Done) -> None:
    said = re.search(r"over (\d+) searches VecSieve fetched (\d+) kB a search more", " ".join(plain.out.split()))
    assert said is not None
    assert int(said[1]) == 1 + 25 + QUESTIONS
    assert 16 * 3 < int(said[2]) < 160 * 6  # from 16 to 160 candidates, 384 numbers and a text each: 3 to 6 kB


@pytest.mark.deep  # a whole demo of its own
def test_what_the_demo_explains_is_what_the_proxy_did() -> None:
    corpus = load()
    policy = Policies(Settings(backend="pinecone")).resolve("pinecone", NAME)
    pools: set[int | None] = set()
    with (
        emulated() as emulator,
        stack.serve(emulator.url, *PINECONE) as (proxy, _),
        closing(PineconeIndex(emulator.url)) as direct,
        closing(PineconeIndex(proxy)) as asked,
    ):
        direct.load(corpus, progress=lambda _: None)
        for vector in corpus.question_vectors:
            given = asked.ask(vector, limit=8)
            pools.add(given.pool_size)
            answer = direct.ask(vector, limit=160)
            pool = Pool(answer=answer, first=40, policy=policy, size=given.pool_size)
            explained = explain(corpus, pool, direct.ask(vector, limit=8)).kept
            assert [corpus.chunks[row].text for row in explained] == [corpus.chunks[row].text for row in given.rows]
    assert None not in pools
    assert len(pools) > 1


def test_a_backend_that_is_none_is_refused_with_those_that_are() -> None:
    done = run("--backend", "milvus")
    assert done.code == 2
    assert "qdrant" in done.err
    assert "pinecone" in done.err


@pytest.mark.deep  # a whole demo of its own
def test_what_keep_prints_works_as_pasted_also_by_the_official_client_and_ctrl_c_ends_everything() -> None:
    with keeping(*PINECONE) as kept:
        text = read_until(kept, 'print(url, *(match.metadata["document"]')
        children = wait_for_children(kept.pid, 2)
        lines = [shlex.split(line) for line in text.splitlines() if line.strip().startswith("curl")]
        answers = [json.loads(pasted_curl(words))["matches"] for words in lines]
        assert [len(matches) for matches in answers] == [8, 8]
        assert answers[0] != answers[1]
        python = text[text.index("from pinecone import") :]
        pasted = subprocess.run(
            [sys.executable, "-"], input=python, capture_output=True, text=True, check=True, timeout=60
        )
        assert len(pasted.stdout.split()) == 18  # two URLs with eight documents each
        first, second = pasted.stdout.split("http://")[1:]
        assert first.split()[1:] != second.split()[1:]
        kept.send_signal(signal.SIGINT)
        assert kept.wait(timeout=30) == 0
    assert not [pid for pid in children if is_alive(pid)]
