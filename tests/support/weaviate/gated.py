"""What Weaviate's own client writes through a write gate, and what is stored then: a program for the interpreter that has the client.

Arguments: REST port, gRPC port, and what to do, of DONE; prints JSON. Nothing of the project is imported here.
"""

from __future__ import annotations

import json
import sys
import uuid
from typing import Any

import weaviate  # type: ignore[import-not-found]  # - it is in an environment of its own
from weaviate.classes.config import (  # type: ignore[import-not-found]  # - as above
    Configure,
    DataType,
    Property,
    VectorDistances,
)
from weaviate.classes.data import DataObject, GeoCoordinate  # type: ignore[import-not-found]  # - as above
from weaviate.classes.tenants import Tenant  # type: ignore[import-not-found]  # - as above

NOTED, PLAIN = "Noted", "Plain"
SIZE = 8


def vector(axis: int) -> list[float]:
    return [1.0 if place == axis else 0.0 for place in range(SIZE)]


def text_with(word: str) -> str:
    """As in ``support.backends.write_gates``."""
    return f"{word} is the text of this point"


def made(number: int, axis: int, word: str, **more: Any) -> Any:
    return DataObject(uuid=uuid.UUID(int=number), properties={"text": text_with(word), **more}, vector=vector(axis))


def create(client: Any) -> None:
    """Collections with a property for notes, of two metrics, with tenants, and one without."""
    text = [Property(name="text", data_type=DataType.TEXT), Property(name="team", data_type=DataType.TEXT)]
    noted = [*text, Property(name="_vecsieve", data_type=DataType.TEXT)]
    for name, properties, metric in (
        (NOTED, noted, VectorDistances.COSINE),
        (f"{NOTED}L2", noted, VectorDistances.L2_SQUARED),
        (PLAIN, text, VectorDistances.COSINE),
    ):
        index = Configure.VectorIndex.hnsw(distance_metric=metric)
        config = Configure.Vectors.self_provided(vector_index_config=index)
        client.collections.create(name, properties=properties, vector_config=config)
    client.collections.create(
        f"{NOTED}Shared",
        properties=noted,
        vectorizer_config=Configure.Vectorizer.none(),
        multi_tenancy_config=Configure.multi_tenancy(enabled=True),
    )
    client.collections.get(f"{NOTED}Shared").tenants.create([Tenant(name="left"), Tenant(name="right")])


def originals(collection: Any) -> dict[int, Any]:
    """By id of what each object is a copy of."""
    notes: dict[int, Any] = {}
    for stored in collection.query.fetch_objects(limit=100).objects:
        note = stored.properties.get("_vecsieve")
        notes[stored.uuid.int] = None if note is None else uuid.UUID(json.loads(note)["duplicate_of"]).int
    return notes


def write(client: Any) -> dict[str, Any]:
    """Batches over gRPC, single objects over REST."""
    seen: dict[str, Any] = {}
    for name in (NOTED, f"{NOTED}L2", PLAIN):
        collection = client.collections.get(name)
        collection.data.insert_many([made(1, 0, "alpha"), made(2, 1, "beta")])
        collection.data.insert_many([made(1, 0, "alpha")])  # an update
        result = collection.data.insert_many([made(3, 0, "Alpha"), made(4, 2, "gamma"), made(5, 2, "gamma")])
        assert not result.has_errors
        collection.data.insert({"text": text_with("beta")}, uuid=uuid.UUID(int=6), vector=vector(1))
        seen[name] = originals(collection)
    shared = client.collections.get(f"{NOTED}Shared")
    for tenant, number in (("left", 1), ("right", 2), ("left", 3)):
        shared.with_tenant(tenant).data.insert_many([made(number, 0, "alpha")])
    seen["Shared"] = {tenant: originals(shared.with_tenant(tenant)) for tenant in ("left", "right")}
    return seen


def everything(client: Any) -> dict[str, Any]:
    """All that is stored, by collection and id."""
    seen: dict[str, Any] = {}
    for name in (NOTED, f"{NOTED}L2", PLAIN):
        objects = client.collections.get(name).query.fetch_objects(limit=100, include_vector=True).objects
        seen[name] = {str(stored.uuid.int): [stored.properties, stored.vector] for stored in objects}
    shared = client.collections.get(f"{NOTED}Shared")
    for tenant in ("left", "right"):
        objects = shared.with_tenant(tenant).query.fetch_objects(limit=100).objects
        seen[tenant] = {str(stored.uuid.int): stored.properties for stored in objects}
    return seen


def merge(client: Any) -> None:
    """Batches over gRPC, and an object over REST; a tenant's."""
    for name in (NOTED, f"{NOTED}L2"):
        data = client.collections.get(name).data
        data.insert_many([made(1, 0, "ALPHA!", team="ü"), made(2, 1, "beta")])
        data.insert_many([made(2, 3, "delta"), made(4, 2, "GAMMA!"), made(5, 2, "Gamma")])  # the first is an update
        data.insert({"text": text_with("Alpha")}, uuid=uuid.UUID(int=6), vector=vector(0))
        data.insert({"text": text_with("phi")}, uuid=uuid.UUID(int=7), vector=vector(4))
    shared = client.collections.get(f"{NOTED}Shared")
    for tenant, number in (("left", 1), ("right", 2), ("left", 3)):
        shared.with_tenant(tenant).data.insert_many([made(number, 0, "alpha")])


def unite(client: Any) -> None:
    """A collection of properties of several types; batches over gRPC, and an object over REST."""
    kinds = {
        "text": "TEXT", "tags": "TEXT_ARRAY", "counts": "INT_ARRAY", "n": "INT", "team": "TEXT", "at": "DATE", "key": "UUID", "is": "BOOL",
        "sizes": "NUMBER_ARRAY", "flags": "BOOL_ARRAY", "ratio": "NUMBER", "where": "GEO_COORDINATES",
    }  # fmt: skip
    properties = [Property(name=name, data_type=getattr(DataType, kind)) for name, kind in kinds.items()]
    vectors = Configure.Vectors.self_provided(
        vector_index_config=Configure.VectorIndex.hnsw(distance_metric=VectorDistances.COSINE)
    )
    data = client.collections.create("United", properties=properties, vector_config=vectors).data
    first = made(
        1, 0, "ALPHA!", tags=["a"], counts=[1], n=3, team="ü", at="2026-01-01T00:00:00Z", sizes=[0.5, 2.0], ratio=0.1,
        flags=[True], key=uuid.UUID(int=9), where=GeoCoordinate(latitude=48.13715439, longitude=11.5),
    )  # fmt: skip
    data.insert_many([first, made(2, 1, "beta", tags=["z"])])
    third = made(3, 0, "Alpha", tags=["b", "a"], n=5, at="2026-01-02T00:00:00.500+01:00", flags=[], sizes=[1.0])
    data.insert_many([third, made(4, 2, "gamma"), made(5, 2, "Gamma", counts=[2])])
    last = {"text": text_with("alpha!!!"), "counts": [1, 7], "n": 4, "is": True}
    data.insert(last, uuid=uuid.UUID(int=6), vector=vector(0))


def reject(client: Any) -> list[str]:
    """The words of refusals of a batch and of an object, and what is stored."""
    collection = client.collections.get(NOTED)
    collection.data.insert_many([made(1, 0, "alpha")])
    words: list[str] = []
    for count in (2, 1):
        try:
            if count == 1:
                collection.data.insert({"text": text_with("Alpha")}, uuid=uuid.UUID(int=4), vector=vector(0))
            else:
                collection.data.insert_many([made(2, 0, "Alpha"), made(3, 1, "beta")])
        except Exception as error:  # noqa: BLE001 - its words are the result
            words.append(str(error))
    return [*words, *[str(number) for number in originals(collection)]]


def main(rest: str, grpc: str, what: str) -> None:
    """Connect as documented, with a key, and do it."""
    client = weaviate.connect_to_custom(
        http_host="127.0.0.1", http_port=int(rest), http_secure=False,
        grpc_host="127.0.0.1", grpc_port=int(grpc), grpc_secure=False,
        auth_credentials=weaviate.auth.AuthApiKey("sesame"),
    )  # fmt: skip
    try:
        sys.stdout.write(json.dumps(DONE[what](client)))
    finally:
        client.close()


DONE: Any = {
    "create": create,
    "write": write,
    "everything": everything,
    "merge": merge,
    "unite": unite,
    "reject": reject,
}


if __name__ == "__main__":
    main(*sys.argv[1:])
