"""The feature memory before real Chroma and Milvus servers, and an emulator of Weaviate: searches that ask for no vectors are answered as without a memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support import chroma_server as chroma
from support import milvus_server as milvus
from support import weaviate_planted
from support.stack import exchange, serve
from support.weaviate_front import answered, fronted
from support.weaviate_messages import message_type, single
from support.weaviate_model import Stored
from support.weaviate_talks import search
from vecsieve.proxy.search.memory.points import WINDOW

QUESTIONS = 6
Ask = Callable[[str, str, int], Any]
"""The answer to a question, at a URL, of the collection of a metric."""
Add = Callable[[str, str, int], None]
"""Writes some records near a question, at a URL, into the collection of a metric."""


@dataclass(frozen=True, slots=True)
class World:
    """Two proxies before one server, with and without a memory; ``ask`` and ``add``."""

    warm: str
    admin: str
    cold: str
    ask: Ask
    add: Add

    def metric(self, name: str, label: str = "") -> float:
        """The sum of what warm counted."""
        page = exchange(self.admin, "GET", "/metrics").body.decode()
        lines = [line for line in page.splitlines() if line.startswith(f"vecsieve_{name}") and label in line]
        return sum(float(line.rpartition(" ")[2]) for line in lines)


def chroma_asked(url: str, space: str, seed: int) -> Any:
    body = {"query_embeddings": [chroma.near(seed)], "n_results": 8, "include": ["distances", "documents"]}
    target = f"{chroma.path_of(url, f'copied-{space}')}/query"
    answer = exchange(url, "POST", target, json.dumps(body).encode())
    assert answer.status == 200, answer.body
    return json.loads(answer.body)


def milvus_asked(url: str, space: str, seed: int) -> Any:
    own = "" if seed % 2 else "base >= 0 or tag == 'new'"
    client = milvus.connected(url)
    found = client.search(f"copied_{space}", [milvus.near(seed)], limit=8, output_fields=["text"], filter=own)
    return [dict(hit) for hit in found[0]]


def chroma_added(url: str, space: str, seed: int) -> None:
    rows = added(chroma.near(seed))
    made = {
        "ids": [f"new {number}" for number in range(len(rows))],
        "embeddings": rows,
        "documents": ["new"] * len(rows),
    }
    target = f"{chroma.path_of(url, f'copied-{space}')}/upsert"
    assert exchange(url, "POST", target, json.dumps(made).encode()).status in {200, 201}


def milvus_added(url: str, space: str, seed: int) -> None:
    rows = [
        {"id": 9_000 + number, "text": "new", "base": number, "tag": "new", "vec": row}
        for number, row in enumerate(added(milvus.near(seed)))
    ]
    milvus.connected(url).upsert(f"copied_{space}", rows)


def added(near: list[float]) -> list[list[float]]:
    """Three vectors near this one, and near each other."""
    draw = np.random.default_rng(0)
    return [(np.array(near) + draw.normal(scale=0.01, size=len(near))).astype(np.float32).tolist() for _ in range(3)]


@pytest.fixture(
    scope="module",
    params=[pytest.param("chroma", marks=chroma.NEEDS_CHROMA), pytest.param("milvus", marks=milvus.NEEDS_MILVUS)],
)
def world(request: pytest.FixtureRequest) -> Iterator[tuple[World, tuple[str, ...]]]:
    of = {
        "chroma": (chroma.planted, chroma_asked, chroma_added, chroma.SPACES),
        "milvus": (milvus.planted, milvus_asked, milvus_added, milvus.SPACES),
    }
    planted, ask, add, spaces = of[request.param]
    # With rewordings vectors are needed, too; else texts alone decide.
    own = {"VECSIEVE_LIMITS_OWN_READS_SHARE": "1.0", "VECSIEVE_POLICY_REWORDINGS": "0.36"}
    with ExitStack() as opened:
        url = opened.enter_context(planted())
        backend = ("--backend", request.param, "--mode", "on")
        warm, admin = opened.enter_context(serve(url, *backend, environment=own))
        cold, _ = opened.enter_context(serve(url, *backend, environment={**own, "VECSIEVE_MEMORY_BYTES": "0"}))
        yield World(warm, admin, cold, ask, add), spaces


@pytest.mark.parametrize("place", range(3))
def test_every_metric_s_scores_prove_rows_and_no_vectors_are_asked_for(
    world: tuple[World, tuple[str, ...]], place: int
) -> None:
    sides, spaces = world
    cold = {seed: sides.ask(sides.cold, spaces[place], seed) for seed in range(QUESTIONS)}
    received: dict[int, list[float]] = {}
    had = sides.metric("memory_recalls_total", 'result="whole"')
    for number in range(QUESTIONS * (WINDOW // QUESTIONS + 2)):
        before = sides.metric("upstream_response_bytes_total")
        assert sides.ask(sides.warm, spaces[place], number % QUESTIONS) == cold[number % QUESTIONS]
        received.setdefault(number % QUESTIONS, []).append(sides.metric("upstream_response_bytes_total") - before)
    assert sides.metric("memory_score_failures_total") == 0
    assert sides.metric("memory_recalls_total", 'result="whole"') >= had + QUESTIONS
    for first, *_, last in received.values():
        assert last < first / 2, "vectors are most of a reply"


@pytest.mark.parametrize("place", range(3))
def test_a_few_unknown_points_are_looked_up_by_their_ids(world: tuple[World, tuple[str, ...]], place: int) -> None:
    sides, spaces = world
    for _ in range(2):
        sides.ask(sides.warm, spaces[place], QUESTIONS)
    sides.add(sides.warm, spaces[place], QUESTIONS)
    cold = sides.ask(sides.cold, spaces[place], QUESTIONS)
    before, partial = (
        sides.metric("upstream_response_bytes_total"),
        sides.metric("memory_recalls_total", 'result="partial"'),
    )
    assert sides.ask(sides.warm, spaces[place], QUESTIONS) == cold
    looked_up = sides.metric("upstream_response_bytes_total") - before
    assert sides.metric("memory_recalls_total", 'result="partial"') == partial + 1
    assert sides.ask(sides.warm, spaces[place], QUESTIONS) == cold
    lean = sides.metric("upstream_response_bytes_total") - before - looked_up
    assert sides.metric("memory_recalls_total", 'result="partial"') == partial + 1, "they are known now"
    assert lean < looked_up < 3 * lean
    assert sides.metric("memory_score_failures_total") == 0


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
                [timeless_weaviate(each.messages[0]) for each in answered(place, questions)] for place in (warm, cold)
            )
            assert one == other
        before = len(server.searches)
        assert [timeless_weaviate(each.messages[0]) for each in answered(warm, questions)] == [
            timeless_weaviate(each.messages[0]) for each in answered(cold, questions)
        ]
        asked = [message_type("SearchRequest").FromString(each).metadata for each in server.searches[before:]]
        assert [each.vector or bool(each.vectors) for each in asked] == [False, False, True, True]


@pytest.mark.parametrize(
    "own", [None, {"operator": 1, "value_text": "o0", "target": {"property": "owner"}}], ids=["no filter", "a filter"]
)
def test_of_weaviate_a_few_unknown_objects_are_looked_up_by_their_ids(own: Any, tmp_path: Path) -> None:
    off = tmp_path / "off.yaml"
    off.write_text("memory: {bytes: 0}\npolicy: {rewordings: 0.36}\n")
    by_vectors = tmp_path / "on.yaml"
    by_vectors.write_text("policy: {rewordings: 0.36}\n")
    question = search(
        collection="Copied",
        limit=6,
        near_vector={"vectors": [single(weaviate_planted.VECTOR)]},
        metadata={"uuid": True},
        filters=own,
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
        lean, looked_up, with_vectors = map(message_type("SearchRequest").FromString, server.searches[before:])
        again = timeless_weaviate(answered(warm, [question])[0].messages[0])
    assert one == other == again
    assert [lean.metadata.vector, looked_up.metadata.vector, with_vectors.metadata.vector] == [False, True, True]
    (ids,) = [each for each in (looked_up.filters, *looked_up.filters.filters) if each.target.property == "_id"]
    assert sorted(ids.value_text_array.values) == [f"{number:032x}" for number in range(3)]


def timeless_weaviate(reply: bytes) -> bytes:
    """A reply without the seconds that it took."""
    message = message_type("SearchReply").FromString(reply)
    message.took = 0.0
    return bytes(message.SerializeToString(deterministic=True))
