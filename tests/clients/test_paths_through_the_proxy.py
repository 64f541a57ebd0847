"""Wherever a client library stores its texts, copies leave a page and different results stay. Official client, real engine, REST and gRPC."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from support.deploy.expositions import counted
from support.grpc.clients import over_grpc
from support.process import stack
from support.process.stack import exchange
from support.qdrant import planted
from support.qdrant.embedded import start_embedded_grpc_process

FAMILIES, COPIES = 12, 3
WORDS = [
    "valve",
    "pump",
    "meter",
    "water",
    "heat",
    "cable",
    "room",
    "floor",
    "green",
    "pressure",
    "cover",
    "closed",
    "opened",
    "before",
    "after",
    "twice",
]
KINDS = ("REST", "gRPC", "bare", "shown")
QUERY = [float(value) for value in planted.bases()[:6].sum(axis=0)]
# By vectors nothing is a copy: the copies are 0.1 to 0.2 apart.
RULES = "{explain: {keep: 20}, policy: {threshold: {fixed: 0.01}}}\n"


def prose(number: int) -> str:
    return " ".join(np.random.default_rng(number).choice(WORDS, 24))


LAYOUTS: dict[str, tuple[Callable[[str, int], dict[str, Any]], list[str]]] = {
    "text": (lambda text, n: {"text": text, "n": n}, ["text"]),
    "langchain": (lambda text, n: {"page_content": text, "metadata": {"source": f"f{n % 4}.pdf"}}, ["page_content"]),
    "llamaindex": (
        lambda text, n: {"_node_content": json.dumps({"id_": str(n), "text": text}), "_node_type": "TextNode"},
        ["_node_content.text"],
    ),
    "mem0": (lambda text, n: {"data": text, "hash": f"{n:032x}", "user_id": "u"}, ["data"]),
    "spring": (lambda text, n: {"doc_content": text, "page": n}, ["doc_content"]),
    "langchain4j": (lambda text, n: {"text_segment": text, "file_name": "a.txt"}, ["text_segment"]),
    "file-name": (lambda text, _: {"document": "pump.pdf", "passage": text}, ["passage"]),
    "deep": (lambda text, _: {"properties": {"body_of_it": {"words": text}}}, ["properties.body_of_it.words"]),
    "none": (lambda _, n: {"file": "pump.pdf", "page": n}, []),
}


def load(client: QdrantClient, name: str, layout: str) -> None:
    def payload(family: int, copy: int) -> dict[str, Any]:
        return LAYOUTS[layout][0](prose(family), family * 10 + copy)

    planted.plant(client, name, payload, families=FAMILIES, copies=COPIES, noise=0.06)


@dataclass(frozen=True, slots=True)
class World:
    """The engine, the proxy over each transport, and the proxy's admin URL."""

    engine: QdrantClient
    proxies: dict[str, QdrantClient]
    admin: str


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    file = tmp_path_factory.mktemp("settings") / "vecsieve.yaml"
    file.write_text(RULES)
    with ExitStack() as opened:
        url, rpc = opened.enter_context(start_embedded_grpc_process())
        engine = QdrantClient(url=url, timeout=30)
        opened.callback(engine.close)
        for layout in LAYOUTS:
            for kind in KINDS:
                load(engine, f"{layout}-{kind}", layout)
        there, admin = opened.enter_context(stack.serve(url, "--grpc-upstream", rpc, "--config", str(file)))
        proxies = {
            "REST": QdrantClient(url=there, timeout=30, check_compatibility=False),
            "gRPC": over_grpc(there, there),
        }
        for proxy in proxies.values():
            opened.callback(proxy.close)
            for _ in range(
                3
            ):  # a first call that opens its connection on a busy machine may be answered by the original
                hits(proxy, "text-shown", with_payload=True)
        yield World(engine, proxies, admin)


def hits(client: QdrantClient, collection: str, **more: Any) -> list[models.ScoredPoint]:
    return client.query_points(collection, query=QUERY, limit=8, **more).points


def families(points: list[models.ScoredPoint]) -> int:
    return len({planted.family(int(point.id)) for point in points})


@pytest.mark.parametrize("transport", ["REST", "gRPC"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_first_page_and_all_later_ones_are_free_of_copies_whatever_the_client_selects(
    world: World, layout: str, transport: str
) -> None:
    proxy, name = world.proxies[transport], f"{layout}-{transport}"
    for selection in (True, False, True, ["n"], models.PayloadSelectorExclude(exclude=["n"]), False):
        points = hits(proxy, name, with_payload=selection)
        everyone = {
            point.id: point.payload or {}  # over gRPC a client cannot tell none from an empty one
            for point in world.engine.query_points(name, query=QUERY, limit=100, with_payload=selection).points
        }
        assert [point.payload or {} for point in points] == [everyone[point.id] for point in points]
        if LAYOUTS[layout][1]:
            assert families(points) == 8
        else:
            assert [point.id for point in points] == [point.id for point in hits(world.engine, name)]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_text_is_found_for_clients_that_never_ask_for_a_payload(world: World, layout: str) -> None:
    name, proxy = f"{layout}-bare", world.proxies["REST"]
    pages = [hits(proxy, name, with_payload=False) for _ in range(4)]
    assert all(point.payload is None for page in pages for point in page)
    if LAYOUTS[layout][1]:
        assert [families(page) for page in pages[1:]] == [8, 8, 8]
    else:
        assert pages == [hits(world.engine, name, with_payload=False)] * 4


def test_what_was_found_and_what_was_not_is_shown_by_keys_and_never_by_values(world: World) -> None:
    for layout in LAYOUTS:
        for _ in range(4):
            hits(world.proxies["REST"], f"{layout}-shown", with_payload=True)
    status = json.loads(exchange(world.admin, "GET", "/status").body)
    by_collection = {row["collection"]: row for row in status["texts"]}
    for layout, (_, paths) in LAYOUTS.items():
        assert by_collection[f"{layout}-shown"]["texts"] == paths
        assert by_collection[f"{layout}-shown"]["standing"] == ("found" if paths else "none")
    page = json.loads(exchange(world.admin, "GET", "/api/collections").body)
    rows = {row["collection"]: row for row in page["collections"]}
    assert rows["file-name-shown"]["texts"]["keys"] == ["document", "passage"]
    assert rows["none-shown"]["texts"]["keys"] == ["file"]
    assert b"pump.pdf" not in json.dumps([status, page]).encode()
    assert counted(world.admin, "texts_collections", texts="none") >= 1.0
