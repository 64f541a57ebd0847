"""The demo over Chroma and Pinecone as a newcomer runs it: the real command, Chroma's server or the emulator, the real proxy, the official clients."""

from __future__ import annotations

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager

import pytest

from support.chroma.server import NEEDS_CHROMA
from support.pinecone.emulator import emulated
from support.process import stack
from support.process.demo_runs import Done, is_alive, keeping, pasted_curl, read_until, run, wait_for_children
from vecsieve.config.schema import Settings
from vecsieve.proxy.demo.backends import ChromaCollection, PineconeIndex, chroma_server
from vecsieve.proxy.demo.corpus import load
from vecsieve.proxy.demo.database import NAME
from vecsieve.proxy.demo.reasons import Pool, explain
from vecsieve.proxy.search.policy import Policies

QUESTIONS = 42
BACKENDS = [pytest.param("chroma", marks=NEEDS_CHROMA), "pinecone"]
RUNS: dict[str, Done] = {}


def plain(backend: str) -> Done:
    """One run serves all that read what it says."""
    if backend not in RUNS:
        RUNS[backend] = run("--backend", backend)
    return RUNS[backend]


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_demo_ends_well_in_under_a_minute_and_complains_of_nothing(backend: str) -> None:
    done = plain(backend)
    assert done.code == 0, done.err
    assert done.err == ""
    assert done.seconds < 60


@NEEDS_CHROMA
def test_the_demo_fits_the_plain_width_and_speaks_of_no_other_database() -> None:
    out = plain("chroma").out
    assert max(len(line) for line in out.splitlines()) <= 100
    assert "\x1b" not in out
    assert "Qdrant" not in out
    assert "Pinecone" not in out
    assert out.rstrip().endswith("vecsieve demo --backend chroma --keep")


def test_it_says_that_it_is_an_emulator_first_and_last() -> None:
    paragraphs = [" ".join(part.split()) for part in plain("pinecone").out.split("\n\n")]
    assert paragraphs[0].startswith("This is an emulator of Pinecone's REST API")
    assert "It is not Pinecone's service" in paragraphs[0]
    assert "from the emulator, not from Pinecone's service" in paragraphs[-2]
    assert paragraphs[-1].endswith("vecsieve demo --backend pinecone --keep")


def test_the_time_is_said_to_be_the_emulators() -> None:
    assert re.search(r"Added time: [+-]\d+\.\d ms", plain("pinecone").out)
    assert "does not show how fast Pinecone is" in " ".join(plain("pinecone").out.split())
    assert "Qdrant" not in plain("pinecone").out


def test_the_bytes_that_pinecone_would_bill_are_said() -> None:
    match = re.search(
        r"over (\d+) searches VecSieve fetched (\d+) kB a search more", " ".join(plain("pinecone").out.split())
    )
    assert match is not None
    assert int(match[1]) == 1 + 25 + QUESTIONS
    assert 16 * 3 < int(match[2]) < 160 * 6  # from 16 to 160 candidates, 384 numbers and a text each: 3 to 6 kB


@contextmanager
def started(backend: str) -> Iterator[str]:
    if backend == "chroma":
        with chroma_server() as url:
            yield url
    else:
        with emulated() as emulator:
            yield emulator.url


@pytest.mark.deep  # a whole demo of its own
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_the_demo_explains_is_what_the_proxy_did(backend: str) -> None:
    corpus, opened = load(), ChromaCollection if backend == "chroma" else PineconeIndex
    policy = Policies(Settings.model_validate({"backend": backend})).resolve(backend, NAME)
    pools: set[int | None] = set()
    with (
        started(backend) as engine,
        stack.serve(engine, "--backend", backend) as (proxy, _),
        closing(opened(engine)) as direct,
        closing(opened(proxy)) as collection,
    ):
        direct.load(corpus, progress=lambda _: None)
        for vector in corpus.question_vectors:
            given = collection.ask(vector, limit=8)
            pools.add(given.pool_size)
            answer = direct.ask(vector, limit=policy.fetch.cap if backend == "chroma" else 160)
            pool = Pool(answer=answer, first=40, policy=policy, size=given.pool_size)
            explained = explain(corpus, pool, direct.ask(vector, limit=8)).kept
            assert [corpus.chunks[row].text for row in explained] == [corpus.chunks[row].text for row in given.rows]
            assert backend == "pinecone" or given.scores == tuple(sorted(given.scores))
    assert backend == "chroma" or (None not in pools and len(pools) > 1)


@NEEDS_CHROMA
def test_without_its_package_the_demo_says_what_to_install() -> None:
    program = "import importlib.util as u; f = u.find_spec; u.find_spec = lambda n, *r: None if n == 'chromadb' else f(n, *r); "
    program += (
        "from vecsieve.proxy.demo.command import Arguments, run; raise SystemExit(run(Arguments(backend='chroma')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr.startswith("vecsieve demo: Chroma's own package is not installed")
    assert "pip install chromadb" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_backend_that_is_none_is_refused_with_those_that_are() -> None:
    done = run("--backend", "milvus")
    assert done.code == 2
    assert "qdrant" in done.err
    assert "pinecone" in done.err


def pasted(python: str) -> Sequence[str]:
    """What the program prints, of two URLs with eight documents each."""
    done = subprocess.run([sys.executable, "-"], input=python, capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.split("http://")[1:]


@pytest.mark.deep  # a whole demo of its own
@pytest.mark.parametrize("backend", BACKENDS)
def test_what_keep_prints_works_as_pasted_also_by_the_official_client_and_ctrl_c_ends_everything(backend: str) -> None:
    is_chroma = backend == "chroma"
    with keeping("--backend", backend) as kept:
        text = read_until(kept, f'print(url, *({"metadata" if is_chroma else "match.metadata"}["document"]')
        children = wait_for_children(kept.pid, 2)
        if is_chroma:
            shell = text[text.index("VECTOR=") : text.index("The same with Chroma's own client")]
            shell = shell.replace("$(python ", f"$({sys.executable} ")
            message = subprocess.run(
                ["bash", "-c", shell], capture_output=True, text=True, check=True, timeout=60
            ).stdout
            answers = [ids.split(",") for ids in re.findall(r'"ids":\[\[([^\]]*)\]\]', message)]
        else:
            lines = [shlex.split(line) for line in text.splitlines() if line.strip().startswith("curl")]
            answers = [json.loads(pasted_curl(words))["matches"] for words in lines]
        assert [len(answer) for answer in answers] == [8, 8]
        assert answers[0] != answers[1]
        first, second = pasted(text[text.index("import chromadb" if is_chroma else "from pinecone import") :])
        assert len(first.split()) == len(second.split()) == 9
        assert first.split()[1:] != second.split()[1:]
        kept.send_signal(signal.SIGINT)
        assert kept.wait(timeout=30) == 0
    assert not [pid for pid in children if is_alive(pid)]
