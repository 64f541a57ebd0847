"""The feature memory before real Chroma and Milvus servers, and an emulator of Weaviate: searches that ask for no vectors are answered as without a memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from support.chroma import server as chroma
from support.deploy.expositions import counted
from support.milvus import server as milvus
from support.process.stack import exchange, serve
from support.weaviate import planted as weaviate_planted
from support.weaviate.conversations import search
from support.weaviate.front import answered, fronted
from support.weaviate.messages import message_type, single
from support.weaviate.model import Stored
from vecsieve.proxy.search.memory.points import WINDOW

QUESTIONS = 6
Ask = Callable[[str, str, int], Any]
"""The answer to a question, at a URL, of the collection of a metric."""


@dataclass(frozen=True, slots=True)
class World:
    """Two proxies before one server, with and without a memory; ``ask``: of both."""

    warm: str
    admin: str
    cold: str
    ask: Ask


def chroma_answer(url: str, space: str, seed: int) -> Any:
    body = {"query_embeddings": [chroma.near(seed)], "n_results": 8, "include": ["distances", "documents"]}
    target = f"{chroma.path_of(url, f'copied-{space}')}/query"
    answer = exchange(url, "POST", target, json.dumps(body).encode())
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


def milvus_answer(url: str, space: str, seed: int) -> Any:
    condition = "" if seed % 2 else "base >= 0 or tag == 'new'"
    client = milvus.connected(url)
    hits = client.search(f"copied_{space}", [milvus.near(seed)], limit=8, output_fields=["text"], filter=condition)
    return [dict(hit) for hit in hits[0]]


@pytest.fixture(
    scope="module",
    params=[pytest.param("chroma", marks=chroma.NEEDS_CHROMA), pytest.param("milvus", marks=milvus.NEEDS_MILVUS)],
)
def world(request: pytest.FixtureRequest) -> Iterator[tuple[World, tuple[str, ...]]]:
    of = {
        "chroma": (chroma.planted, chroma_answer, chroma.SPACES),
        "milvus": (milvus.planted, milvus_answer, milvus.SPACES),
    }
    planted, ask, spaces = of[request.param]
    # With rewordings vectors are needed, too; else texts alone decide.
    settings = {"VECSIEVE_LIMITS_OWN_READS_SHARE": "1.0", "VECSIEVE_POLICY_REWORDINGS": "0.36"}
    with ExitStack() as opened:
        url = opened.enter_context(planted())
        backend = ("--backend", request.param, "--mode", "on")
        warm, admin = opened.enter_context(serve(url, *backend, environment=settings))
        cold, _ = opened.enter_context(serve(url, *backend, environment={**settings, "VECSIEVE_MEMORY_BYTES": "0"}))
        yield World(warm, admin, cold, ask), spaces


@pytest.mark.parametrize("place", range(3))
def test_every_metric_s_scores_prove_rows_and_no_vectors_are_asked_for(
    world: tuple[World, tuple[str, ...]], place: int
) -> None:
    sides, spaces = world
    cold = {seed: sides.ask(sides.cold, spaces[place], seed) for seed in range(QUESTIONS)}
    received: dict[int, list[float]] = {}
    had = counted(sides.admin, "memory_recalls_total", result="whole")
    for number in range(QUESTIONS * (WINDOW // QUESTIONS + 2)):
        before = counted(sides.admin, "upstream_response_bytes_total")
        assert sides.ask(sides.warm, spaces[place], number % QUESTIONS) == cold[number % QUESTIONS]
        received.setdefault(number % QUESTIONS, []).append(
            counted(sides.admin, "upstream_response_bytes_total") - before
        )
    assert counted(sides.admin, "memory_score_failures_total") == 0
    assert counted(sides.admin, "memory_recalls_total", result="whole") >= had + QUESTIONS
    for first, *_, last in received.values():
        assert last < first / 2, "vectors are most of a reply"


@pytest.mark.parametrize(
    ("collection", "near"),
    [("Copied", {}), ("Named", {"targets": {"target_vectors": ["a"]}})],
    ids=["without a name", "named"],
)
def test_of_weaviate_no_vectors_are_asked_for_either(collection: str, near: dict[str, Any], tmp_path: Path) -> None:
    off = tmp_path / "off.yaml"
    off.write_text("memory: {bytes: 0}\npolicy: {rewordings: 0.36}\n")
    by_vectors = tmp_path / "on.yaml"
    by_vectors.write_text("policy: {rewordings: 0.36}\n")
    with weaviate_planted.planted() as server, ExitStack() as opened:
        warm = opened.enter_context(fronted(server, "on", "--config", str(by_vectors)))
        cold = opened.enter_context(fronted(server, "on", "--config", str(off)))
        questions = [
            search(
                collection=collection,
                limit=6,
                near_vector={"vectors": [single(vector)], **near},
                metadata={"uuid": True},
            )
            for vector in (weaviate_planted.VECTOR, weaviate_planted.VECTOR[::-1])
        ]
        for _ in range(WINDOW):
            one, other = (
                [timeless_weaviate(item.messages[0]) for item in answered(place, questions)] for place in (warm, cold)
            )
            assert one == other
        before = len(server.searches)
        assert [timeless_weaviate(item.messages[0]) for item in answered(warm, questions)] == [
            timeless_weaviate(item.messages[0]) for item in answered(cold, questions)
        ]
        requested = [message_type("SearchRequest").FromString(item).metadata for item in server.searches[before:]]
        assert [item.vector or bool(item.vectors) for item in requested] == [False, False, True, True]


def test_of_weaviate_a_pool_with_new_objects_is_fetched_again_with_vectors(tmp_path: Path) -> None:
    off = tmp_path / "off.yaml"
    off.write_text("memory: {bytes: 0}\npolicy: {rewordings: 0.36}\n")
    by_vectors = tmp_path / "on.yaml"
    by_vectors.write_text("policy: {rewordings: 0.36}\n")
    question = search(
        collection="Copied",
        limit=6,
        near_vector={"vectors": [single(weaviate_planted.VECTOR)]},
        metadata={"uuid": True},
    )
    with weaviate_planted.planted() as server, ExitStack() as opened:
        warm = opened.enter_context(fronted(server, "on", "--config", str(by_vectors)))
        cold = opened.enter_context(fronted(server, "on", "--config", str(off)))
        for _ in range(WINDOW):
            answered(warm, [question])
        for number in range(3):
            vector = [0.9**place + 0.01 * number * (place % 3) for place in range(weaviate_planted.DIMENSION)]
            server.collections["Copied"].store(
                Stored(id=f"{number:032x}", properties={"text": f"new {number}", "owner": "o0"}, vector=vector)
            )
        before = len(server.searches)
        one, other = (timeless_weaviate(answered(place, [question])[0].messages[0]) for place in (warm, cold))
        lean, again_with, cold_with = map(message_type("SearchRequest").FromString, server.searches[before:])
        again = timeless_weaviate(answered(warm, [question])[0].messages[0])
    assert one == other == again
    assert [request.metadata.vector for request in (lean, again_with, cold_with)] == [False, True, True]


def timeless_weaviate(reply: bytes) -> bytes:
    """A reply without the seconds that it took."""
    message = message_type("SearchReply").FromString(reply)
    message.took = 0.0
    return bytes(message.SerializeToString(deterministic=True))
