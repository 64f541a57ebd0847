"""What Weaviate's own client is asked to do, and what it saw: a program for the interpreter that has the client.

It wants other versions of grpcio and protobuf than the proxy, so that it lives in an environment of its own. Arguments: REST
port, gRPC port, and "fill" or "ask"; prints JSON. Nothing of the project is imported here.
"""

from __future__ import annotations

import json
import math
import sys
import uuid
from typing import Any

import weaviate  # type: ignore[import-not-found]  # - it is in an environment of its own
from weaviate.classes.config import Configure, DataType, Property  # type: ignore[import-not-found]  # - as above
from weaviate.classes.query import Filter, GroupBy, HybridVector, MetadataQuery  # type: ignore[import-not-found]  # - as above
from weaviate.classes.tenants import Tenant  # type: ignore[import-not-found]  # - as above

FAMILIES, COPIES, DIMENSION, TOP_K = 16, 3, 16, 6
PROPERTIES = [
    Property(name="text", data_type=DataType.TEXT),
    Property(name="source", data_type=DataType.TEXT),
    Property(name="number", data_type=DataType.INT),
    Property(name="tags", data_type=DataType.TEXT_ARRAY),
]
EVERYTHING = MetadataQuery(distance=True, certainty=True, score=True, explain_score=True, creation_time=True)


def vector(family: int, copy: int) -> list[float]:
    """Families nearly at right angles to each other, no two of them equally far from a third; copies almost alike."""
    made = [0.001 * ((family * 7 + copy * 3 + place) % 5) * copy + 0.002 * family for place in range(DIMENSION)]
    made[family] += 1.0
    return made


def query(turn: int) -> list[float]:
    """Near all families, each a little less than the one before."""
    return [math.pow(0.9, (place + turn) % DIMENSION) for place in range(DIMENSION)]


def identifier(family: int, copy: int) -> uuid.UUID:
    return uuid.UUID(int=1 + family * 100 + copy)


def properties(family: int, copy: int) -> dict[str, Any]:
    """Each family in words of its own, no two texts of one length: a server gives equal scores in any order.

    Copies differ in articles alone, which say nothing.
    """
    words = " ".join(f"word{family}x{place}{'é' * (place == 3)}" for place in range(12 + COPIES * family))
    return {
        "text": f"{'the ' * copy}common {words}",
        "source": f"o{copy % 2}",
        "number": family,
        "tags": [f"t{family % 3}", "all"],
    }


def fill(client: Any) -> None:
    """Make the collections, without copies and with them."""
    unnamed, named = Configure.Vectors.self_provided(), Configure.Vectors.self_provided
    client.collections.create("Clean", properties=PROPERTIES, vector_config=unnamed)
    client.collections.create("Copied", properties=PROPERTIES, vector_config=unnamed)
    client.collections.create("Legacy", properties=PROPERTIES, vectorizer_config=Configure.Vectorizer.none())
    client.collections.create("Named", properties=PROPERTIES, vector_config=[named(name="a"), named(name="b")])
    client.collections.create(
        "Shared",
        properties=PROPERTIES,
        vector_config=unnamed,
        multi_tenancy_config=Configure.multi_tenancy(enabled=True),
    )
    client.collections.get("Shared").tenants.create([Tenant(name="left"), Tenant(name="right")])
    for name, copies in (("Clean", 1), ("Copied", COPIES), ("Legacy", COPIES), ("Named", COPIES), ("Shared", COPIES)):
        collection = client.collections.get(name)
        for tenant in ("left", "right") if name == "Shared" else ("",):
            target = collection.with_tenant(tenant) if tenant else collection
            target.data.insert_many(
                [
                    weaviate.classes.data.DataObject(
                        uuid=identifier(family, copy),
                        properties=properties(family, copy),
                        vector={"a": vector(family, copy), "b": vector(family, copy)[::-1]}
                        if name == "Named"
                        else vector(family, copy),
                    )
                    for family in range(FAMILIES)
                    for copy in range(copies)
                ]
            )


def results(answer: Any) -> Any:
    """Everything of an answer."""
    if getattr(answer, "groups", None):
        return {name: len(group.objects) for name, group in answer.groups.items()}
    return [
        {
            "id": str(stored.uuid),
            "properties": stored.properties,
            "vector": stored.vector,
            "metadata": {key: str(value) for key, value in vars(stored.metadata).items() if value is not None},
            "collection": stored.collection,
        }
        for stored in answer.objects
    ]


def call_outcomes(client: Any) -> dict[str, Any]:
    """Every call by name, and what the client made of its answer, or the name of its error."""
    calls: dict[str, Any] = {}
    for name in ("Clean", "Copied", "Legacy"):
        at = client.collections.get(name).query
        calls |= {
            f"{name}.vector": lambda at=at: at.near_vector(query(0), limit=TOP_K),
            f"{name}.vector.everything": lambda at=at: at.near_vector(
                query(1), limit=TOP_K, include_vector=True, return_metadata=EVERYTHING
            ),
            f"{name}.vector.some": lambda at=at: at.near_vector(query(2), limit=TOP_K, return_properties=["number"]),
            f"{name}.vector.bare": lambda at=at: at.near_vector(query(3), limit=TOP_K, return_properties=[]),
            f"{name}.vector.no limit": lambda at=at: at.near_vector(query(4)),
            f"{name}.vector.second page": lambda at=at: at.near_vector(query(5), limit=4, offset=4),
            f"{name}.vector.threshold": lambda at=at: at.near_vector(query(6), limit=TOP_K, distance=0.9),
            f"{name}.object": lambda at=at: at.near_object(identifier(3, 0), limit=TOP_K, return_metadata=EVERYTHING),
            f"{name}.hybrid": lambda at=at: at.hybrid(
                "common word2x3é", vector=query(7), limit=TOP_K, return_metadata=MetadataQuery(score=True)
            ),
            f"{name}.words": lambda at=at: at.bm25("common", limit=TOP_K),
            f"{name}.list": lambda at=at: at.fetch_objects(limit=5),
            f"{name}.list of all": lambda at=at: at.fetch_objects(limit=100, include_vector=True),
            f"{name}.autocut": lambda at=at: at.near_vector(query(0), limit=TOP_K, auto_limit=1),
            f"{name}.filter": lambda at=at: at.near_vector(
                query(0), limit=TOP_K, filters=Filter.by_property("source").equal("o0")
            ),
            f"{name}.refused size": lambda at=at: at.near_vector([1.0], limit=TOP_K),
            f"{name}.refused property": lambda at=at: at.near_vector(query(0), limit=3, return_properties=["none"]),
        }
    named = client.collections.get("Named").query
    calls |= {
        "Named.a": lambda: named.near_vector(query(0), limit=TOP_K, target_vector="a"),
        "Named.a.wants b": lambda: named.near_vector(query(0), limit=TOP_K, target_vector="a", include_vector=["b"]),
        "Named.b.wants all": lambda: named.near_vector(query(0), limit=TOP_K, target_vector="b", include_vector=True),
        "Named.hybrid": lambda: named.hybrid("common", vector=query(1), limit=TOP_K, target_vector="b"),
        "Named.hybrid sub": lambda: named.hybrid(
            "common", vector=HybridVector.near_vector(query(1)), limit=TOP_K, target_vector="b"
        ),
        "Named.words": lambda: named.bm25("common", limit=TOP_K),
        "Named.both": lambda: named.near_vector(query(0), limit=TOP_K, target_vector=["a", "b"]),
        "Named.unknown": lambda: named.near_vector(query(0), limit=TOP_K, target_vector="no"),
        "Named.none": lambda: named.near_vector(query(0), limit=TOP_K),
        "Named.list of all": lambda: named.fetch_objects(limit=100, include_vector=True),
    }
    for tenant in ("left", "right"):
        shared = client.collections.get("Shared").with_tenant(tenant).query
        calls[f"Shared.{tenant}"] = lambda shared=shared: shared.near_vector(query(0), limit=TOP_K)
        calls[f"Shared.{tenant}.list of all"] = lambda shared=shared: shared.fetch_objects(
            limit=100, include_vector=True
        )
    group = GroupBy(prop="source", objects_per_group=2, number_of_groups=2)
    copied = client.collections.get("Copied").query
    calls["Copied.group"] = lambda: copied.near_vector(query(0), limit=TOP_K, group_by=group)
    calls["Nowhere.vector"] = lambda: client.collections.get("Nowhere").query.near_vector(query(0), limit=TOP_K)
    calls["graphql"] = lambda: client.graphql_raw_query("{Get{Docs{text}}}")
    return {name: outcome(call) for name, call in calls.items()}


def outcome(call: Any) -> Any:
    """What came of a call."""
    try:
        answer = call()
    except Exception as error:  # noqa: BLE001 - which error it is, is what is compared
        return {"error": type(error).__name__, "words": str(error)}
    return results(answer) if hasattr(answer, "objects") else str(answer)


def main(rest: str, grpc: str, what: str) -> None:
    """Connect as documented, and do it."""
    client = weaviate.connect_to_custom(
        http_host="127.0.0.1", http_port=int(rest), http_secure=False,
        grpc_host="127.0.0.1", grpc_port=int(grpc), grpc_secure=False,
    )  # fmt: skip
    try:
        assert client.is_ready()
        if what == "fill":
            fill(client)
        seen = call_outcomes(client) if what == "ask" else None
        sys.stdout.write(json.dumps(seen, default=str))
    finally:
        client.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
