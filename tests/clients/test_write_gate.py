"""The write gate through the official client and the real engine, over REST and over gRPC."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from support.backends.write_gates import text_with
from support.grpc.clients import over_grpc
from support.process import stack
from support.qdrant.embedded import start_embedded_grpc_process

SIZE = 8
NOTE = "_vecsieve"


TRANSPORTS = pytest.mark.parametrize("transport", ["rest", "grpc"])


@dataclass(frozen=True, slots=True)
class World:
    """One engine, and a proxy that annotates."""

    engine: str
    annotating: dict[str, str]

    def client(self, transport: str) -> QdrantClient:
        urls = self.annotating
        if transport == "grpc":
            return over_grpc(urls["serve"], urls["gRPC"])
        return QdrantClient(url=urls["serve"], timeout=30, check_compatibility=False)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with start_embedded_grpc_process() as (url, grpc_url):
        arguments = ("--upstream", url, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
        over = ("--grpc-listen", "127.0.0.1:0", "--grpc-upstream", grpc_url.removeprefix("http://"))
        environment = {"VECSIEVE_POLICY_WRITE_MODE": "annotate", "VECSIEVE_POLICY_WRITE_LEAST": "semantic"}
        with stack.command("serve", *arguments, *over, environment=environment) as running:
            yield World(url, running.addresses(3))


def vector(axis: int, *, tilt: float = 0.0) -> list[float]:
    return [1.0 if place == axis else tilt for place in range(SIZE)]


def struct(identifier: int | str, axis: int, text: str, *, tilt: float = 0.0, **payload: Any) -> models.PointStruct:
    return models.PointStruct(
        id=identifier, vector=vector(axis, tilt=tilt), payload={"text": text_with(text), **payload}
    )


def made(client: QdrantClient, name: str, distance: models.Distance = models.Distance.COSINE) -> QdrantClient:
    client.create_collection(name, vectors_config=models.VectorParams(size=SIZE, distance=distance))
    return client


def notes(client: QdrantClient, name: str) -> dict[object, tuple[object, object]]:
    """What stored points tell: of which they are copies, and how alike."""
    records = client.scroll(name, limit=100, with_payload=True)[0]
    return {
        record.id: (record.payload[NOTE]["duplicate_of"], record.payload[NOTE]["tier"])
        for record in records
        if record.payload and NOTE in record.payload
    }


@TRANSPORTS
@pytest.mark.parametrize("distance", list(models.Distance))
def test_copies_of_stored_points_and_of_earlier_ones_are_annotated(
    world: World, transport: str, distance: models.Distance
) -> None:
    name = f"metric_{distance.value}_{transport}"
    client = made(world.client(transport), name, distance)
    client.upsert(name, [struct(1, 0, "alpha"), struct(2, 1, "beta")])
    done = client.upsert(name, [struct(3, 0, "Alpha "), struct(4, 2, "gamma"), struct(5, 2, "gamma too", tilt=0.1)])
    assert done.status is models.UpdateStatus.COMPLETED
    assert notes(client, name) == {3: (1, "exact"), 5: (4, "semantic")}
    assert client.count(name).count == 5


@TRANSPORTS
def test_a_filter_leaves_copies_out(world: World, transport: str) -> None:
    name = f"filtered_{transport}"
    client = made(world.client(transport), name)
    client.upsert(name, [struct(1, 0, "a"), struct(2, 0, "a"), struct(3, 1, "b")])
    originals = models.Filter(must=[models.IsEmptyCondition(is_empty=models.PayloadField(key=NOTE))])
    assert [point.id for point in client.scroll(name, scroll_filter=originals)[0]] == [1, 3]


def test_columns_and_updates_are_read_as_well(world: World) -> None:
    client = made(world.client("rest"), "forms")
    batch = models.Batch(ids=[1, 2], vectors=[vector(0), vector(0)], payloads=[{"text": text_with("a")}] * 2)
    client.upsert("forms", batch)
    client.batch_update_points(
        "forms", [models.UpsertOperation(upsert=models.PointsList(points=[struct(3, 0, "a", n=[1, 2.50])]))]
    )
    assert notes(client, "forms") == {2: (1, "exact"), 3: (1, "exact")}
    assert client.retrieve("forms", [3])[0].payload == {
        "text": text_with("a"),
        "n": [1, 2.5],
        NOTE: {"duplicate_of": 1, "similarity": 1.0, "tier": "exact"},
    }


@TRANSPORTS
def test_a_point_stored_again_is_not_annotated(world: World, transport: str) -> None:
    name = f"again_{transport}"
    client = made(world.client(transport), name)
    for _ in range(3):
        client.upsert(name, [struct(1, 0, "a"), struct(2, 0, "a")])
        client.upsert(name, [struct(1, 0, "a")])
    assert notes(client, name) == {2: (1, "exact")}


@TRANSPORTS
def test_ids_may_be_uuids_in_any_spelling(world: World, transport: str) -> None:
    name = f"uuids_{transport}"
    uuid = "550e8400-e29b-41d4-a716-446655440000"
    client = made(world.client(transport), name)
    client.upsert(name, [struct(uuid, 0, "a")])
    client.upsert(name, [struct(uuid.replace("-", "").upper(), 0, "a")])
    client.upsert(name, [struct(7, 0, "a")])
    assert notes(client, name) == {7: (uuid, "exact")}


def test_a_collection_that_is_not_there_is_the_databases_own_error(world: World) -> None:
    body = b'{"points":[{"id":1,"vector":[1,0]}]}'
    direct, through = (
        stack.exchange(url, "PUT", "/collections/absent/points", body)
        for url in (world.engine, world.annotating["serve"])
    )
    assert through.status == direct.status == 404
    assert through.timeless == direct.timeless
