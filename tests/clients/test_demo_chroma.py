"""The demo over Chroma as a newcomer runs it: the real command, the real server, the real proxy, the official client."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from contextlib import closing

import pytest

from support.chroma.server import NEEDS_CHROMA
from support.process import stack
from support.process.demo_runs import Done, is_alive, keeping, read_until, run, wait_for_children
from vecsieve.config.schema import Settings
from vecsieve.proxy.demo.backends import ChromaCollection, chroma_server
from vecsieve.proxy.demo.corpus import load
from vecsieve.proxy.demo.database import NAME
from vecsieve.proxy.demo.reasons import Pool, explain
from vecsieve.proxy.search.policy import Policies

pytestmark = NEEDS_CHROMA

CHROMA = ("--backend", "chroma")


@pytest.fixture(scope="module")
def plain() -> Done:
    return run(*CHROMA)


def test_the_demo_ends_well_in_under_a_minute_and_complains_of_nothing(plain: Done) -> None:
    assert plain.code == 0, plain.err
    assert plain.err == ""
    assert plain.seconds < 60


def test_the_demo_fits_the_plain_width_and_speaks_of_no_other_database(plain: Done) -> None:
    assert max(len(line) for line in plain.out.splitlines()) <= 100
    assert "\x1b" not in plain.out
    assert "Qdrant" not in plain.out
    assert "Pinecone" not in plain.out
    assert plain.out.rstrip().endswith("vecsieve demo --backend chroma --keep")


@pytest.mark.deep  # a whole demo of its own
def test_what_the_demo_explains_is_what_the_proxy_did() -> None:
    corpus = load()
    policy = Policies(Settings(backend="chroma")).resolve("chroma", NAME)
    with (
        chroma_server() as engine,
        stack.serve(engine, *CHROMA) as (proxy, _),
        closing(ChromaCollection(engine)) as direct,
        closing(ChromaCollection(proxy)) as asked,
    ):
        direct.load(corpus, progress=lambda _: None)
        for vector in corpus.question_vectors:
            given = asked.ask(vector, limit=8)
            answer = direct.ask(vector, limit=policy.fetch.cap)
            pool = Pool(answer=answer, first=40, policy=policy, size=given.pool_size)
            explained = explain(corpus, pool, direct.ask(vector, limit=8)).kept
            assert [corpus.chunks[row].text for row in explained] == [corpus.chunks[row].text for row in given.rows]
            assert given.scores == tuple(sorted(given.scores))


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


@pytest.mark.deep  # a whole demo of its own
def test_what_keep_prints_works_as_pasted_and_ctrl_c_ends_everything() -> None:
    with keeping(*CHROMA) as kept:
        text = read_until(kept, 'print(url, *(metadata["document"]')
        children = wait_for_children(kept.pid, 2)
        shell = text[text.index("VECTOR=") : text.index("The same with Chroma's own client")]
        shell = shell.replace("$(python ", f"$({sys.executable} ")
        told = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True, timeout=60).stdout
        answers = re.findall(r'"ids":\[\[([^\]]*)\]\]', told)
        assert [len(answer.split(",")) for answer in answers] == [8, 8]
        assert answers[0] != answers[1]
        python = text[text.index("import chromadb") :]
        pasted = subprocess.run(
            [sys.executable, "-"], input=python, capture_output=True, text=True, check=True, timeout=60
        )
        first, second = pasted.stdout.split("http://")[1:]
        assert len(first.split()) == len(second.split()) == 9  # a URL with eight documents
        assert first.split()[1:] != second.split()[1:]
        kept.send_signal(signal.SIGINT)
        assert kept.wait(timeout=30) == 0
    assert not [pid for pid in children if is_alive(pid)]
