"""The demo over the emulator: what is said of it, and how its parts are started and asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing

import numpy as np
import pytest
from servers.pinecone.server import Emulator

from support.jobs.tiny_corpus import NEAR_A, A, B, corpus_of
from support.pinecone.emulator import emulated
from vecsieve.proxy.demo.backends import API_KEY, PINECONE, PineconeIndex
from vecsieve.proxy.demo.database import NAME, Addresses, Database, DatabaseRefusedError, Host

AT = Addresses(engine="http://127.0.0.1:1001", proxy="http://127.0.0.1:1002", admin="http://127.0.0.1:1003")


def closing_of(spent: Mapping[str, int], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(Host, "sent", lambda *_: (spent, {}))
    assert PINECONE.closing is not None
    return PINECONE.closing(AT)


def test_the_first_words_say_that_it_is_an_emulator_and_not_the_service() -> None:
    words = PINECONE
    assert words.opening is not None
    assert words.opening.startswith("This is an emulator of Pinecone's REST API")
    assert "It is not Pinecone's service" in words.opening
    assert words.command == "vecsieve demo --backend pinecone"


def test_the_closing_words_say_it_again_and_what_a_search_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    said = closing_of({"searches": 10, "extra_bytes": 1_234_000}, monkeypatch)
    assert "from the emulator, not from Pinecone's service" in said
    assert "over 10 searches VecSieve fetched 123 kB a search more" in said


def test_no_searches_weigh_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "over 0 searches VecSieve fetched 0 kB" in closing_of({"searches": 0, "extra_bytes": 0}, monkeypatch)


def test_the_emulator_and_the_proxy_before_it_hold_one_index_found_through_either() -> None:
    database: Database = PINECONE
    corpus = corpus_of([A, B])
    with database.running() as at:
        with closing(database.opened(at.engine)) as direct, closing(database.opened(at.proxy)) as proxied:
            direct.load(corpus, progress=lambda _: None)
            assert direct.ask(corpus.vectors[1], limit=2).rows == proxied.ask(corpus.vectors[1], limit=2).rows == (1, 0)
        lines = database.instructions(at, row=1, question=0, limit=8)
        assert database.closing is not None
        assert database.closing(at)
    assert f"curl -s {at.proxy}/_i/127.0.0.1:" in lines
    assert f"curl -s {at.engine}/" not in lines  # the index is not where the control plane is


# The corpus as an index of the emulator: written whole, asked as an application would.


CORPUS = corpus_of([B, A, NEAR_A])


@pytest.fixture
def emulator() -> Iterator[Emulator]:
    with emulated() as running:
        yield running


@pytest.fixture
def index(emulator: Emulator) -> Iterator[PineconeIndex]:
    with closing(PineconeIndex(emulator.url)) as client:
        client.load(CORPUS, progress=lambda _: None)
        yield client


def test_the_nearest_chunks_come_back_as_corpus_rows_with_falling_scores(index: PineconeIndex) -> None:
    answer = index.ask(CORPUS.vectors[1], limit=2)
    assert answer.rows == (1, 2)
    assert answer.scores == pytest.approx((1.0, 0.999), abs=1e-4)
    assert answer.milliseconds > 0


def test_the_index_is_a_cosine_index_of_the_corpus_dimension_where_the_control_plane_says(
    index: PineconeIndex, emulator: Emulator
) -> None:
    made = emulator.project.index(NAME)
    assert index.host == made.host
    field = next(iter(made.description.dense().values()))
    assert (field.dimension, field.metric) == (4, "cosine")


def test_what_is_stored_is_the_corpus(index: PineconeIndex, emulator: Emulator) -> None:
    index.ask(CORPUS.vectors[0], limit=1)
    namespace = emulator.project.index(NAME).namespace("")
    assert namespace is not None
    assert list(namespace.records) == ["0", "1", "2"]
    record = namespace.records["2"]
    assert record.metadata == CORPUS.chunks[2].payload()
    assert np.array_equal(next(iter(record.dense.values())), CORPUS.vectors[2])


@pytest.mark.parametrize("count", [1, 99, 100, 101, 250])
def test_every_chunk_is_written_once_in_steps_that_are_told(emulator: Emulator, count: int) -> None:
    turned = [(float(np.cos(step)), float(np.sin(step)), 0.0, 0.0) for step in range(count)]
    written: list[int] = []
    with closing(PineconeIndex(emulator.url)) as client:
        client.load(corpus_of(turned), progress=written.append)
    namespace = emulator.project.index(NAME).namespace("")
    assert namespace is not None
    assert len(namespace.records) == sum(written) == count
    assert max(written) <= 100


def test_an_answer_without_the_proxys_word_says_nothing_of_candidates(index: PineconeIndex) -> None:
    assert index.ask(CORPUS.vectors[0], limit=3).pool_size is None


@pytest.mark.parametrize(
    ("fields", "pool"),
    [
        ({"x-vecsieve": "pool=16;clusters=9;returned=8;collapsed=7;added_ms=1.2"}, 16),
        ({"x-vecsieve": "bypass=disabled"}, None),
        ({"x-other": "pool=16"}, None),
    ],
)
def test_how_many_candidates_there_were_is_read_off_the_proxys_word(
    index: PineconeIndex, monkeypatch: pytest.MonkeyPatch, fields: Mapping[str, str], pool: int | None
) -> None:
    asked: list[tuple[str, str, object]] = []

    def sent(_host: Host, method: str, path: str, body: object = None) -> tuple[object, Mapping[str, str]]:
        asked.append((method, path, body))
        return {"matches": [{"id": "7", "score": 0.5}]}, fields

    monkeypatch.setattr(Host, "sent", sent)
    answer = index.ask(CORPUS.vectors[0], limit=3)
    assert (answer.rows, answer.scores, answer.pool_size) == ((7,), (0.5,), pool)
    body = asked[0][2]
    assert isinstance(body, dict)
    assert (body["topK"], body["includeMetadata"], "includeValues" in body) == (3, True, False)


def test_without_an_index_the_control_planes_word_is_told(emulator: Emulator) -> None:
    with (
        closing(PineconeIndex(emulator.url)) as client,
        pytest.raises(DatabaseRefusedError, match=f"{NAME} was answered with 404"),
    ):
        client.ask(CORPUS.vectors[0], limit=1)


def test_a_key_is_sent_because_the_service_wants_one() -> None:
    with emulated(api_key=API_KEY) as strict, closing(PineconeIndex(strict.url)) as client:
        client.load(CORPUS, progress=lambda _: None)
        assert client.ask(CORPUS.vectors[0], limit=1).rows == (0,)
