"""The write gate through the official client and the real engine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from support import stack
from support.embedded import start_embedded_process

SIZE = 8
NOTE = "_vecsieve"


@pytest.fixture(scope="module")
def database() -> Iterator[str]:
    with start_embedded_process() as url:
        yield url


@pytest.fixture(scope="module")
def annotating(database: str) -> Iterator[str]:
    with stack.serve(database, environment={"VECSIEVE_POLICY_WRITE_MODE": "annotate"}) as (url, _):
        yield url


@pytest.fixture(scope="module")
def observing(database: str) -> Iterator[tuple[str, str]]:
    with stack.serve(database, environment={"VECSIEVE_POLICY_WRITE_MODE": "observe"}) as urls:
        yield urls


def vector(axis: int, *, tilt: float = 0.0) -> list[float]:
    return [1.0 if each == axis else tilt for each in range(SIZE)]


def struct(identifier: int | str, axis: int, text: str, *, tilt: float = 0.0, **payload: Any) -> models.PointStruct:
    return models.PointStruct(id=identifier, vector=vector(axis, tilt=tilt), payload={"text": text, **payload})


def collection(url: str, name: str, distance: models.Distance = models.Distance.COSINE) -> QdrantClient:
    client = QdrantClient(url=url, timeout=30, check_compatibility=False)
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


@pytest.mark.parametrize("distance", list(models.Distance))
def test_copies_of_stored_points_and_of_earlier_ones_are_annotated(annotating: str, distance: models.Distance) -> None:
    name = f"metric_{distance.value}"
    client = collection(annotating, name, distance)
    client.upsert(name, [struct(1, 0, "alpha"), struct(2, 1, "beta")])
    done = client.upsert(name, [struct(3, 0, "Alpha "), struct(4, 2, "gamma"), struct(5, 2, "gamma too", tilt=0.1)])
    assert done.status is models.UpdateStatus.COMPLETED
    assert notes(client, name) == {3: (1, "exact"), 5: (4, "semantic")}
    assert client.count(name).count == 5


def test_a_filter_leaves_copies_out(annotating: str) -> None:
    client = collection(annotating, "filtered")
    client.upsert("filtered", [struct(1, 0, "a"), struct(2, 0, "a"), struct(3, 1, "b")])
    originals = models.Filter(must=[models.IsEmptyCondition(is_empty=models.PayloadField(key=NOTE))])
    assert [each.id for each in client.scroll("filtered", scroll_filter=originals)[0]] == [1, 3]


def test_columns_and_updates_are_read_as_well(annotating: str) -> None:
    client = collection(annotating, "forms")
    batch = models.Batch(ids=[1, 2], vectors=[vector(0), vector(0)], payloads=[{"text": "a"}, {"text": "a"}])
    client.upsert("forms", batch)
    client.batch_update_points(
        "forms", [models.UpsertOperation(upsert=models.PointsList(points=[struct(3, 0, "a", n=[1, 2.50])]))]
    )
    assert notes(client, "forms") == {2: (1, "exact"), 3: (1, "exact")}
    assert client.retrieve("forms", [3])[0].payload == {
        "text": "a",
        "n": [1, 2.5],
        NOTE: {"duplicate_of": 1, "similarity": 1.0, "tier": "exact"},
    }


def test_a_point_stored_again_is_not_annotated(annotating: str) -> None:
    client = collection(annotating, "again")
    for _ in range(3):
        client.upsert("again", [struct(1, 0, "a"), struct(2, 0, "a")])
        client.upsert("again", [struct(1, 0, "a")])
    assert notes(client, "again") == {2: (1, "exact")}


def test_ids_may_be_uuids_in_any_spelling(annotating: str) -> None:
    uuid = "550e8400-e29b-41d4-a716-446655440000"
    client = collection(annotating, "uuids")
    client.upsert("uuids", [struct(uuid, 0, "a")])
    client.upsert("uuids", [struct(uuid.replace("-", "").upper(), 0, "a")])
    client.upsert("uuids", [struct(7, 0, "a")])
    assert notes(client, "uuids") == {7: (uuid, "exact")}


def test_observe_stores_what_the_client_sent_and_counts(observing: tuple[str, str]) -> None:
    url, admin = observing
    client = collection(url, "observed")
    client.upsert("observed", [struct(1, 0, "a"), struct(2, 0, "a"), struct(3, 1, "b")])
    assert notes(client, "observed") == {}
    for _ in range(100):
        page = stack.exchange(admin, "GET", "/metrics").body
        if b'vecsieve_write_copies_total{backend="qdrant"} 1' in page:
            break
    else:
        raise AssertionError(page.decode())


def test_a_collection_that_is_not_there_is_the_databases_own_error(annotating: str, database: str) -> None:
    body = b'{"points":[{"id":1,"vector":[1,0]}]}'
    direct, through = (stack.exchange(url, "PUT", "/collections/absent/points", body) for url in (database, annotating))
    assert through.status == direct.status == 404
    assert through.timeless == direct.timeless
