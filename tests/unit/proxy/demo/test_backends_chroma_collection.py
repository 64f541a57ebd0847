"""The corpus as a collection of the real server: written whole, asked as an application would."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import numpy as np
import pytest

from support.chroma.server import NEEDS_CHROMA, asked
from support.jobs.tiny_corpus import NEAR_A, A, B, corpus_of
from vecsieve.proxy.demo.backends import ChromaCollection, chroma_server
from vecsieve.proxy.demo.database import DatabaseRefusedError

pytestmark = NEEDS_CHROMA

CORPUS = corpus_of([B, A, NEAR_A])


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with chroma_server() as url:
        yield url


@pytest.fixture(scope="module")
def collection(server: str) -> Iterator[ChromaCollection]:
    with closing(ChromaCollection(server)) as client, pytest.raises(DatabaseRefusedError, match="404"):
        client.ask(CORPUS.vectors[0], limit=1)
    with closing(ChromaCollection(server)) as client:
        steps: list[int] = []
        client.load(CORPUS, progress=steps.append)
        assert steps == [3]
        yield client


def test_the_nearest_chunks_come_back_as_corpus_rows_with_rising_distances(collection: ChromaCollection) -> None:
    answer = collection.ask(CORPUS.vectors[1], limit=2)
    assert answer.rows == (1, 2)
    assert answer.scores == pytest.approx((0.0, 0.001), abs=1e-4)
    assert answer.milliseconds > 0
    assert answer.pool_size is None


def test_what_is_stored_is_the_corpus(server: str, collection: ChromaCollection) -> None:
    body = {"ids": ["2"], "include": ["embeddings", "documents", "metadatas"]}
    stored = json.loads(asked(server, "POST", f"{collection.path}/get", body).body)
    payload = CORPUS.chunks[2].payload()
    assert stored["documents"] == [payload.pop("text")]
    assert stored["metadatas"] == [payload]
    assert np.allclose(stored["embeddings"][0], CORPUS.vectors[2], atol=1e-6)
