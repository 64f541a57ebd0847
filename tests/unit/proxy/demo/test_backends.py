"""The demo's databases: what is printed of each works as pasted, and the corpus is written whole and asked as an application would."""

from __future__ import annotations

import ast
import importlib.util
import json
import shlex
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from servers.pinecone.server import Emulator

from support.chroma.server import NEEDS_CHROMA
from support.jobs.tiny_corpus import NEAR_A, A, B, corpus_of
from support.pinecone.emulator import emulated
from vecsieve.proxy.demo import backends
from vecsieve.proxy.demo.backends import (
    API_KEY,
    CHROMA,
    PINECONE,
    QDRANT,
    PineconeIndex,
    chroma_instructions,
    chroma_server,
    pinecone_instructions,
    qdrant_instructions,
)
from vecsieve.proxy.demo.command import invitation
from vecsieve.proxy.demo.database import (
    NAME,
    Addresses,
    ChildFailedError,
    Database,
    DatabaseMissingError,
    DatabaseRefusedError,
    Host,
)

AT = Addresses(engine="http://127.0.0.1:1001", proxy="http://127.0.0.1:1002", admin="http://127.0.0.1:1003")
HOSTS = ("http://127.0.0.1:1004", "http://127.0.0.1:1002/_i/127.0.0.1:1004")
PATH = "/api/v2/tenants/t/databases/d/collections/97050cbe-bbb2-4d9f-b12c-d0f2ce854b7e"
POINTS = f"/collections/{NAME}/points"
# By backend: what is printed, what the two curl lines ask, and their body.
PRINTED: dict[str, tuple[str, list[str], dict[str, object]]] = {
    "qdrant": (
        qdrant_instructions(AT, row=77, question=35, limit=8),
        [f"{AT.engine}{POINTS}/query", f"{AT.proxy}{POINTS}/query"],
        {"query": 77, "limit": 8, "with_payload": ["document", "title"]},
    ),
    "chroma": (
        chroma_instructions(AT, PATH, question=35, limit=8),
        [f"{AT.engine}{PATH}/query", f"{AT.proxy}{PATH}/query"],
        {"query_embeddings": [[0.5]], "n_results": 8, "include": ["metadatas"]},
    ),
    "pinecone": (
        pinecone_instructions(AT, HOSTS, row=77, question=35, limit=8),
        [f"{host}/query" for host in HOSTS],
        {"id": "77", "topK": 8, "includeMetadata": True},
    ),
}


@pytest.mark.parametrize("backend", PRINTED)
def test_what_keep_prints_is_a_shells_and_pythons(backend: str) -> None:
    text, urls, body = PRINTED[backend]
    assert all(address in text for address in (AT.engine, AT.proxy, f"{AT.admin}/metrics"))
    assert "question 36" in text, "as the reader numbers it"
    assert text.endswith("\n\n"), "the blank line that ends a block at a prompt"
    lines = [shlex.split(line) for line in text.splitlines() if line.startswith("curl")]
    assert [words[2] for words in lines] == urls
    for words in lines:
        assert "content-type: application/json" in words
        assert json.loads(words[words.index("-d") + 1].replace("$VECTOR", "[0.5]")) == body
    for line in text.splitlines():
        if line.startswith("VECTOR="):
            ast.parse(shlex.split(line.removeprefix("VECTOR=$(").removesuffix(")"))[2])
    python = text[text.index("\n\n", text.index("The same", text.rindex("curl"))) :].strip()
    assert [type(node).__name__ for node in ast.parse(python).body][-3:] == ["ImportFrom", "Assign", "For"]
    assert f'for url in ("{AT.engine}", "{AT.proxy}"):' in python
    assert "question_vectors[35]" in python
    assert f'"{NAME}"' in python


def test_the_emulators_key_is_in_its_lines_and_the_invitation_names_the_command() -> None:
    assert PRINTED["pinecone"][0].count(f"-H 'Api-Key: {API_KEY}'") == 2
    text = invitation(42, "vecsieve demo --backend pinecone")
    assert "vecsieve demo --backend pinecone --query NUMBER (1 to 42)" in text
    assert text.endswith("vecsieve demo --backend pinecone --keep")


CORPUS = corpus_of([B, A, NEAR_A])


@pytest.mark.parametrize(
    "database", [pytest.param(item, id=item.backend) for item in (QDRANT, PINECONE)] + [pytest.param(CHROMA, marks=NEEDS_CHROMA, id="chroma")]
)  # fmt: skip
def test_the_database_and_the_proxy_before_it_hold_one_corpus(database: Database) -> None:
    steps: list[int] = []
    with (
        database.running() as at,
        closing(database.opened(at.engine)) as direct,
        closing(database.opened(at.proxy)) as proxied,
    ):
        direct.load(CORPUS, progress=steps.append)
        answers = [store.ask(CORPUS.vectors[1], limit=2) for store in (direct, proxied)]
        text = database.instructions(at, row=0, question=1, limit=2)
        assert text.count(at.engine) >= 1
        assert database.closing is None or database.closing(at)
    assert steps == [3]
    assert [answer.rows for answer in answers] == [(1, 2), (1, 2)]
    nearest, second = (abs(score - answers[0].scores[0]) for score in answers[0].scores)
    assert (nearest, second) == pytest.approx((0.0, 0.001), abs=1e-4)
    assert answers[0].pool_size is None
    assert answers[0].milliseconds > 0


def test_it_is_said_before_and_after_that_it_is_an_emulator(monkeypatch: pytest.MonkeyPatch) -> None:
    assert (QDRANT.opening, QDRANT.closing, CHROMA.opening, CHROMA.closing) == (None, None, None, None)
    assert "It is not Pinecone's service" in (PINECONE.opening or "")
    for spent, words in (
        ({"searches": 10, "extra_bytes": 1_234_000}, "over 10 searches VecSieve fetched 123 kB a search more"),
        ({"searches": 0, "extra_bytes": 0}, "over 0 searches VecSieve fetched 0 kB"),
    ):
        monkeypatch.setattr(Host, "sent", lambda *_, spent=spent: (spent, {}))
        assert PINECONE.closing is not None
        assert words in PINECONE.closing(AT)
        assert "from the emulator, not from Pinecone's service" in PINECONE.closing(AT)


# Pinecone's index.


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    with emulated(api_key=API_KEY) as running:
        yield running


@pytest.mark.parametrize("count", [1, 100, 101])
def test_every_chunk_is_written_once_in_steps_that_are_told(emulator: Emulator, count: int) -> None:
    turned = [(float(np.cos(step)), float(np.sin(step)), 0.0, 0.0) for step in range(count)]
    corpus, written = corpus_of(turned), list[int]()
    with closing(PineconeIndex(emulator.url)) as client:
        client.load(corpus, progress=written.append)
        index = emulator.project.index(NAME)
        assert client.index.url == index.host
    namespace = index.namespace("")
    assert namespace is not None
    assert len(namespace.records) == sum(written) == count
    assert max(written) <= 100
    record = namespace.records[str(count - 1)]
    assert record.metadata == corpus.chunks[count - 1].payload()
    assert np.array_equal(next(iter(record.dense.values())), corpus.vectors[count - 1])


def test_without_an_index_the_control_planes_word_is_told(emulator: Emulator) -> None:
    refused = pytest.raises(DatabaseRefusedError, match=f"{NAME} was answered with 404")
    with closing(PineconeIndex(emulator.url)) as client, refused:
        client.ask(CORPUS.vectors[0], limit=1)


@pytest.mark.parametrize(
    ("fields", "pool"),
    [
        ({"x-vecsieve": "pool=16;clusters=9;returned=8;collapsed=7;added_ms=1.2"}, 16),
        ({"x-vecsieve": "bypass=disabled"}, None),
        ({"x-other": "pool=16"}, None),
    ],
)
def test_how_many_candidates_there_were_is_read_off_the_proxys_word(
    monkeypatch: pytest.MonkeyPatch, fields: Mapping[str, str], pool: int | None
) -> None:
    requests: list[Any] = []

    def sent(_host: Host, _method: str, _path: str, body: object = None) -> tuple[object, Mapping[str, str]]:
        requests.append(body)
        return {"host": "http://i", "matches": [{"id": "7", "score": 0.5}]}, fields

    monkeypatch.setattr(Host, "sent", sent)
    answer = PineconeIndex("http://c").ask(CORPUS.vectors[0], limit=3)
    assert (answer.rows, answer.scores, answer.pool_size) == ((7,), (0.5,), pool)
    assert requests[-1].keys() == {"vector", "topK", "includeMetadata"}
    assert requests[-1]["topK"] == 3


# Chroma's server.


@pytest.mark.parametrize(
    ("package", "program", "error", "words"),
    [
        ("no_such_package", "", DatabaseMissingError, "pip install no_such_package"),
        ("json", "raise SystemExit('no such thing')", ChildFailedError, "no such thing"),
        ("json", "print('{banner} http://localhost:1', flush=True); import time; time.sleep(60)", ChildFailedError, "did not come up"),
    ],
)  # fmt: skip
def test_a_server_that_cannot_be_had_is_told(
    monkeypatch: pytest.MonkeyPatch, package: str, program: str, error: type[Exception], words: str
) -> None:
    monkeypatch.setattr(backends, "find_spec", importlib.util.find_spec)
    monkeypatch.setattr(backends, "PACKAGE", package)
    monkeypatch.setattr(backends, "_PROGRAM", (sys.executable, "-c", program.format(banner=backends._BANNER)))
    monkeypatch.setattr(backends, "_READY_SECONDS", 0.1)
    with pytest.raises(error, match=words), chroma_server():
        pass


@NEEDS_CHROMA
def test_chroma_answers_inside_the_block_and_is_gone_with_its_data_behind_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with chroma_server() as url:
        assert urllib.request.urlopen(f"{url}/api/v2/version").status == 200
        assert list(tmp_path.iterdir())
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{url}/api/v2/version")
    assert not list(tmp_path.iterdir())
