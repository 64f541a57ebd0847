"""Conversations of twenty turns over docstrings of three numpy releases, with real embeddings, through the proxy: fewer repeated results,
and the answers kept on the page.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from support.jobs.eval_data import folder
from support.process import stack
from support.process.stack import exchange
from support.qdrant.embedded import start_embedded_process

DATA = folder()
NUMPYDOC = None if DATA is None else DATA / "fresh" / "minilm" / "numpydoc"
NEEDS_NUMPYDOC = pytest.mark.skipif(
    NUMPYDOC is None or not NUMPYDOC.exists(), reason="no evaluation set fresh/minilm/numpydoc here"
)
CONVERSATIONS, TURNS, TOP_K = 6, 20, 8


def lines(name: str) -> list[dict[str, Any]]:
    assert NUMPYDOC is not None
    return [json.loads(line) for line in (NUMPYDOC / name).read_text().splitlines()]


@pytest.fixture(scope="module")
def proxy() -> Iterator[str]:
    assert NUMPYDOC is not None
    vectors = np.load(NUMPYDOC / "corpus.f16.npy").astype(np.float32)
    with start_embedded_process() as engine:
        shape = {"vectors": {"size": vectors.shape[1], "distance": "Cosine"}}
        assert exchange(engine, "PUT", "/collections/docs", json.dumps(shape).encode()).status == 200
        points = [
            {"id": place, "vector": vector.tolist(), "payload": {"text": row["text"]}}
            for place, (row, vector) in enumerate(zip(lines("corpus.jsonl"), vectors, strict=True))
        ]
        for start in range(0, len(points), 256):
            body = json.dumps({"points": points[start : start + 256]}).encode()
            assert exchange(engine, "PUT", "/collections/docs/points?wait=true", body).status == 200
        with stack.serve(engine) as (url, _):
            yield url


def ids_of_search(url: str, vector: np.ndarray, session: str | None) -> list[int]:
    body = json.dumps({"query": vector.tolist(), "limit": TOP_K}).encode()
    headers = {} if session is None else {"x-vecsieve-session": session}
    answer = exchange(url, "POST", "/collections/docs/points/query", body, headers)
    assert answer.status == 200, answer.body
    return [point["id"] for point in json.loads(answer.body)["result"]["points"]]


@NEEDS_NUMPYDOC
def test_twenty_turns_repeat_less_and_keep_the_answers(proxy: str) -> None:
    """Each conversation asks twenty questions that are near one another. An answer that the plain page has must be on the session's page."""
    assert NUMPYDOC is not None
    questions, places = lines("queries.jsonl"), {line["id"]: place for place, line in enumerate(lines("corpus.jsonl"))}
    vectors = np.load(NUMPYDOC / "queries.f16.npy").astype(np.float32)
    repeated = {"plain": 0, "session": 0}
    had = kept = 0
    for conversation in range(CONVERSATIONS):
        first = conversation * len(questions) // CONVERSATIONS
        turns = np.argsort(-(vectors @ vectors[first]), kind="stable")[:TURNS].tolist()
        given: dict[str, set[int]] = {"plain": set(), "session": set()}
        for turn in turns:
            right = {places[identifier] for identifier in questions[turn]["rel"]}
            pages = {
                "plain": ids_of_search(proxy, vectors[turn], None),
                "session": ids_of_search(proxy, vectors[turn], f"conversation-{conversation}"),
            }
            for name, page in pages.items():
                assert len(page) == TOP_K
                repeated[name] += len(given[name].intersection(page))
            if right.intersection(pages["plain"]):
                had += 1
                kept += bool(right.intersection(pages["session"]))
            for name, page in pages.items():
                given[name].update(page)
    assert repeated["session"] <= 0.6 * repeated["plain"]
    assert kept >= 0.98 * had
