"""An emulated Weaviate with planted copies, filled without a client: families at right angles, copies of each almost alike."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from support.weaviate.conversations import search
from support.weaviate.messages import message_type, packed, single
from support.weaviate.model import Collection, Stored
from support.weaviate.server import Weaviate, weaviate

FAMILIES = DIMENSION = 16
COPIES = 3
TOP_K = 6
PROPERTIES = ("text", "source", "number")
VECTOR = [0.9**place for place in range(DIMENSION)]  # near all families, each a little less than the one before
NEAR: dict[str, Any] = {"near_vector": {"vectors": [single(VECTOR)]}}
UUID = {"uuid": True}


@contextmanager
def planted() -> Iterator[Weaviate]:
    """``Clean``, ``Copied`` with an unnamed vector, ``Named`` with two, ``Shared`` between the tenants left and right."""
    with weaviate() as server:
        for name, copies, named in (("Clean", 1, ()), ("Copied", COPIES, ()), ("Named", COPIES, ("a", "b"))):
            server.collections[name] = Collection(
                name=name, properties=PROPERTIES, named=named, objects=objects(copies, named)
            )
        shared = [copied for tenant in ("left", "right") for copied in objects(COPIES, (), tenant)]
        server.collections["Shared"] = Collection(name="Shared", properties=PROPERTIES, objects=shared)
        yield server


def objects(copies: int, named: tuple[str, ...], tenant: str = "") -> list[Stored]:
    """Every family so many times."""
    made: list[Stored] = []
    for family in range(FAMILIES):
        for copy in range(copies):
            vector = [0.001 * copy * ((family * 7 + copy * 3 + place) % 5) for place in range(DIMENSION)]
            vector[family] += 1.0
            words = " ".join(f"word{family}x{place}é" for place in range(12))
            made.append(
                Stored(
                    id=f"00000000-0000-0000-0000-{family:08}{copy:04}",
                    properties={"text": f"common {words}", "source": f"o{copy % 2}", "number": family},
                    vector=None if named else vector,
                    vectors=dict.fromkeys(named, vector),
                    tenant=tenant,
                )
            )
    return made


def family(identifier: str) -> str:
    """Which family an object is of."""
    return identifier[:-4]


def searches() -> list[bytes]:
    """What is asked of ``Clean`` and ``Copied`` alike, in many ways."""
    every: list[bytes] = []
    for name in ("Clean", "Copied"):
        for fields in (
            NEAR,
            {"near_vector": {"vector_bytes": packed(VECTOR)}},
            {**NEAR, "metadata": UUID},
            {**NEAR, "metadata": {"uuid": True, "vector": True, "distance": True}, "properties": {}},
            {**NEAR, "offset": 3},
            {"near_object": {"id": objects(1, ())[3].id}, "metadata": UUID},
            {"hybrid_search": {"query": "common word2x3é", "alpha": 0.5, "vectors": [single(VECTOR)]}},
            {"bm25_search": {"query": "common"}},
            {"near_vector": {**NEAR["near_vector"], "selection": {"mmr": {"limit": 3}}}},
            {**NEAR, "autocut": 1},
            {},
            {"near_text": {"query": ["refused"]}},
        ):
            every.append(search(collection=name, limit=TOP_K, **fields))
    return [*every, search(collection="Nowhere", limit=TOP_K, **NEAR), b"\xff"]


def ids(message: bytes) -> list[str]:
    """The identifiers in a reply, in order."""
    return [result.metadata.id for result in message_type("SearchReply").FromString(message).results]
