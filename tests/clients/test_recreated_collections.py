"""Collections that are made anew with other vectors: what was learned of the old ones is no use, and harms nobody."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from urllib.parse import urlsplit

import numpy as np
import pytest
from qdrant_client import QdrantClient, models

from support.deploy.expositions import counts
from support.process import stack
from support.qdrant.embedded import start_embedded_grpc_process

FAMILIES, COPIES, DIMENSION, TOP_K = 20, 3, 24, 8
SPARSE = models.SparseVector(indices=[1, 2], values=[1.0, 0.5])
TRANSPORTS = ("REST", "gRPC")


@dataclass(frozen=True, slots=True)
class World:
    """The engine and the proxy, each as a client sees it over either transport."""

    engine: dict[str, QdrantClient]
    proxy: dict[str, QdrantClient]
    admin: str

    def failed_open(self) -> dict[str, float]:
        """How often each reason was counted."""
        return counts(self.admin, "fail_open_total", "reason")


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with ExitStack() as opened:
        engine, engine_grpc = opened.enter_context(start_embedded_grpc_process())
        proxy, admin = opened.enter_context(stack.serve(engine, "--grpc-upstream", engine_grpc))
        yield World(clients(opened, engine, engine_grpc), clients(opened, proxy, proxy), admin)


def clients(opened: ExitStack, url: str, grpc_url: str) -> dict[str, QdrantClient]:
    port = urlsplit(grpc_url if "://" in grpc_url else f"http://{grpc_url}").port
    assert port is not None
    made = {
        "REST": QdrantClient(url=url, timeout=30),
        "gRPC": QdrantClient(url=url, grpc_port=port, prefer_grpc=True, timeout=30),
    }
    for client in made.values():
        opened.callback(client.close)
    return made


def make(client: QdrantClient, vector: str, collection: str) -> None:
    """A collection with one dense vector of this name, searched by its sparse one: a request that names no dense vector."""
    draw = np.random.default_rng(7)
    bases = draw.normal(size=(FAMILIES, DIMENSION))
    client.create_collection(
        collection,
        vectors_config={vector: models.VectorParams(size=DIMENSION, distance=models.Distance.COSINE)},
        sparse_vectors_config={"sparse": models.SparseVectorParams()},
    )
    points = [
        models.PointStruct(
            id=family * COPIES + copy,
            vector={
                vector: (bases[family] + draw.normal(scale=1e-4, size=DIMENSION)).tolist(),
                "sparse": models.SparseVector(indices=[1, 2], values=[float(FAMILIES - family), 0.1 * copy]),
            },
        )
        for family in range(FAMILIES)
        for copy in range(COPIES)
    ]
    client.upsert(collection, points, wait=True)


def families(client: QdrantClient, collection: str) -> int:
    """How many different things a search finds among its first eight."""
    hits = client.query_points(collection, query=SPARSE, using="sparse", limit=TOP_K).points
    assert len(hits) == TOP_K
    return len({int(point.id) // COPIES for point in hits})


@pytest.mark.parametrize("calling", TRANSPORTS)
@pytest.mark.parametrize("searching", TRANSPORTS)
def test_a_collection_made_anew_through_us_is_improved_at_once(world: World, calling: str, searching: str) -> None:
    client, searcher, name = world.proxy[calling], world.proxy[searching], f"{calling}-{searching}"
    before = world.failed_open()
    make(client, "old", name)
    assert [families(searcher, name) for _ in range(2)] == [TOP_K, TOP_K]
    client.delete_collection(name)
    make(client, "new", name)
    assert families(searcher, name) == TOP_K
    assert world.failed_open() == before


@pytest.mark.parametrize("calling", TRANSPORTS)
def test_an_alias_that_is_moved_to_other_vectors_is_improved_at_once(world: World, calling: str) -> None:
    client, one, two, alias = world.proxy[calling], f"{calling}-one", f"{calling}-two", f"{calling}-alias"
    before = world.failed_open()
    make(client, "old", one)
    make(client, "new", two)
    client.update_collection_aliases([create_alias(alias, one)])
    assert families(client, alias) == TOP_K
    client.update_collection_aliases(
        [models.DeleteAliasOperation(delete_alias=models.DeleteAlias(alias_name=alias)), create_alias(alias, two)]
    )
    assert families(client, alias) == TOP_K
    assert world.failed_open() == before


def create_alias(alias: str, collection: str) -> models.CreateAliasOperation:
    return models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name=collection, alias_name=alias))


@pytest.mark.parametrize("searching", TRANSPORTS)
def test_one_made_anew_past_us_costs_one_search_its_improvement_and_no_more(world: World, searching: str) -> None:
    engine, searcher, name = world.engine["REST"], world.proxy[searching], f"past-{searching}"
    before = world.failed_open().get("not_found_vector", 0)
    make(engine, "old", name)
    assert families(searcher, name) == TOP_K
    engine.delete_collection(name)
    make(engine, "new", name)
    direct = families(world.engine[searching], name)
    assert direct < TOP_K
    assert [families(searcher, name) for _ in range(3)] == [direct, TOP_K, TOP_K]
    assert world.failed_open()["not_found_vector"] == before + 1
