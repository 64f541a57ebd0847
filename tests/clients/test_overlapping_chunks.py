"""Overlapping chunks of a document: dropped, marked or left, by spans or by words. Official client, real engine, REST and gRPC."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from support import stack
from support.embedded import start_embedded_grpc_process
from support.grpc_clients import over_grpc

DIMENSION = 64
DOCUMENTS, CHUNKS, SIZE, STEP = 10, 4, 90, 36  # neighbours share three fifths, the next but one a fifth
SETTINGS = """
explain: {keep: 50}
policy: {certainty: 1.0}
rules:
  - collection: "*-dropped"
    policy: {stitch: drop}
  - collection: "*-tenth"
    policy: {stitch: {mode: drop, overlap: 0.1}}
  - collection: "*-marked"
    policy: {stitch: mark}
"""
KINDS = ("spans", "words")
COLLECTIONS = tuple(f"{kind}-{mode}" for kind in KINDS for mode in ("left", "dropped", "tenth", "marked"))
LIMIT = 8


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, QdrantClient], str, str]]:
    """The proxy's client over REST and gRPC and the engine's, the proxy's address and its admin port's."""
    file = tmp_path_factory.mktemp("settings") / "vecsieve.yaml"
    file.write_text(SETTINGS)
    with ExitStack() as opened:
        url, rpc = opened.enter_context(start_embedded_grpc_process())
        engine = QdrantClient(url=url, timeout=30)
        for name in COLLECTIONS:
            load(engine, name)
        proxy, admin = opened.enter_context(stack.serve(url, "--grpc-upstream", rpc, "--config", str(file)))
        clients = {"engine": engine, "rest": QdrantClient(url=proxy, timeout=30), "grpc": over_grpc(proxy, proxy)}
        for client in clients.values():
            opened.callback(client.close)
        yield clients, proxy, admin


def load(client: QdrantClient, name: str) -> None:
    """Chunks in the order of their numbers; those of one document are farther apart than the typical distance."""
    client.create_collection(name, models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE))
    rng = np.random.default_rng(5)
    points = []
    for place in range(DOCUMENTS * CHUNKS):
        document, number = divmod(place, CHUNKS)
        words = [word(document, position) for position in range(number * STEP, number * STEP + SIZE)]
        vector = rng.normal(size=DIMENSION) + 8.0 * (1 - place / 80) * QUERY
        payload: dict[str, Any] = {"text": " ".join(words)}
        if name.startswith("spans"):
            payload = {"text": " ".join(word(100 + place, position) for position in range(40)), "doc_id": document}
            payload |= {"token_start": number * STEP, "token_end": number * STEP + SIZE}
        points.append(models.PointStruct(id=place, vector=vector.tolist(), payload=payload))
    client.upsert(name, points, wait=True)


def word(document: int, position: int) -> str:
    """Letters alone: a guard keeps texts apart that begin with different names, and a word with a digit is one."""
    return "".join(chr(97 + (document * 1000 + position) // 26**place % 26) for place in range(5))


QUERY = np.full(DIMENSION, 1.0)


def found(client: QdrantClient, name: str, **more: Any) -> list[models.ScoredPoint]:
    return client.query_points(name, query=QUERY.tolist(), limit=LIMIT, with_payload=False, **more).points


def shared(one: int, other: int) -> float:
    """The share of their chunk that two points have in common; 0 in different documents."""
    if one // CHUNKS != other // CHUNKS:
        return 0.0
    return max(0.0, 1.0 - abs(one - other) * STEP / SIZE)


@pytest.mark.parametrize("transport", ["rest", "grpc"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("mode", "most"), [("left", 1.0), ("marked", 1.0), ("dropped", 0.5), ("tenth", 0.1)])
def test_chunks_that_share_as_much_as_the_policy_says_are_dropped_and_no_others(
    told: tuple[dict[str, QdrantClient], str, str], transport: str, kind: str, mode: str, most: float
) -> None:
    clients, _, _ = told
    name = f"{kind}-{mode}"
    everything = clients["engine"].query_points(name, query=QUERY.tolist(), limit=40, with_payload=False).points
    wanted: list[models.ScoredPoint] = []
    for point in everything:
        if all(shared(int(point.id), int(kept.id)) < most for kept in wanted):
            wanted.append(point)
    page = found(clients[transport], name)
    assert [(point.id, np.float32(point.score)) for point in page] == [
        (point.id, np.float32(point.score)) for point in wanted[:LIMIT]
    ], "scores and order are the database's"


@pytest.mark.parametrize("kind", KINDS)
def test_pages_of_what_is_left_never_repeat_and_never_skip(
    told: tuple[dict[str, QdrantClient], str, str], kind: str
) -> None:
    client = told[0]["rest"]
    pages = [[point.id for point in found(client, f"{kind}-dropped", offset=offset)] for offset in (0, 8, 16)]
    ids = [int(one) for page in pages for one in page]
    assert len(set(ids)) == len(ids) == 24
    assert all(shared(one, other) < 0.5 for one in ids[:16] for other in ids[:16] if one != other)


@pytest.mark.parametrize("kind", KINDS)
def test_marked_overlaps_are_told_to_who_asks_and_in_the_explanation(
    told: tuple[dict[str, QdrantClient], str, str], kind: str
) -> None:
    _, proxy, admin = told
    body = json.dumps({"query": QUERY.tolist(), "limit": LIMIT}).encode()
    path = f"/collections/{kind}-marked/points/query"
    asked = stack.exchange(proxy, "POST", path, body, {"x-vecsieve-collapsed": "header"})
    silent = stack.exchange(proxy, "POST", path, body)
    assert asked.timeless == silent.timeless, "the answer is as without"
    page = [point["id"] for point in json.loads(asked.body)["result"]["points"]]
    pairs = [
        [one, other]
        for place, one in enumerate(page)
        for other in page[place + 1 :]
        if one // CHUNKS == other // CHUNKS and abs(one - other) * STEP <= SIZE
    ]
    assert pairs
    seen = json.loads(asked.header("x-vecsieve-collapsed") or "")["overlapping"][0]
    assert [pair[:2] for pair in seen] == pairs
    assert all(abs(share - shared(one, other)) < 0.03 for one, other, share in seen)
    (record, *_) = json.loads(stack.exchange(admin, "GET", "/explain").body)["records"]
    told_of = {each["id"]: each["overlaps"] for each in record["kept"]}
    for one, other in pairs:
        assert other in told_of[one]
        assert one in told_of[other]
