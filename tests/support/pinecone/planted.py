"""Pinecone indexes with and without planted copies, and the queries asked of them, as plain data.

One JSON tree serves every client: those of the main suite, and those of the older majors and of TypeScript, which run
as programs of their own and read it from a file.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from support.backends import families
from support.backends.families import Families, floats

DIMENSION = 48
BASES = 40
COPIES = 3
TOP_K = 8
SEED = 41
FAMILIES = Families(SEED, BASES, DIMENSION)
_bases, _near = FAMILIES.bases, FAMILIES.near
NAMESPACES = ("", "second")
DENSE = ("clean", "copied")
SPARSE = ("thin-clean", "thin-copied")


def family(identifier: str) -> str:
    """Which base a planted record is a copy of."""
    return identifier.rpartition("-")[0]


def plan() -> dict[str, Any]:
    """``indexes``: name -> how it is created and what it holds by namespace. ``queries``: each with a name.

    A query named ``….all`` asks the same with everything included and for every record: what any honest answer is a part
    of.
    """
    indexes = {name: _index(name) for name in (*DENSE, *SPARSE)}
    queries = [query for name in DENSE for query in _dense_queries(name)]
    queries += [query for name in SPARSE for query in _sparse_queries(name)]
    return {"indexes": indexes, "queries": queries, "fan_out": {"vector": _near(3), "namespaces": list(NAMESPACES)}}


def _index(name: str) -> dict[str, Any]:
    sparse = name in SPARSE
    created: dict[str, Any] = {"metric": "dotproduct", "vector_type": "sparse" if sparse else "dense"}
    if not sparse:
        created["dimension"] = DIMENSION
    copies = COPIES if name.endswith("copied") else 1
    return {"created": created, "records": {namespace: _records(copies, sparse=sparse) for namespace in NAMESPACES}}


def _records(copies: int, *, sparse: bool) -> list[dict[str, Any]]:
    rng = np.random.default_rng(SEED + copies)
    words = np.random.default_rng(SEED)
    made = []
    for base, vector in enumerate(_bases()):
        indices = sorted(int(index) for index in words.choice(50, size=12, replace=False))
        weights = words.uniform(0.2, 1.0, size=12)
        text = families.text(words)
        for copy in range(copies):
            record: dict[str, Any] = {
                "id": f"f{base}-{copy}",
                "sparseValues": {"indices": indices, "values": floats(weights + rng.uniform(0, 0.004, size=12))},
                "metadata": {"text": text, "n": base, "tags": ["a", f"t{base}"]},
            }
            if not sparse:
                record["values"] = floats(vector + rng.normal(scale=0.002, size=DIMENSION))
            made.append(record)
    return made


def _dense_queries(index: str) -> list[dict[str, Any]]:
    hybrid = {"vector": _near(2), "sparse": {"indices": [1, 7, 20, 33], "values": [0.5, 0.25, 1.0, 0.75]}}
    return [
        *_requests(index, "vector", {"vector": _near(1)}),
        *_requests(index, "filter", {"vector": _near(1), "filter": {"n": {"$lt": 30}}}),
        *_requests(index, "second", {"vector": _near(1), "namespace": "second"}),
        *_requests(index, "id", {"id": "f7-0"}),
        *_requests(index, "hybrid", hybrid),
    ]


def _sparse_queries(index: str) -> list[dict[str, Any]]:
    return list(_requests(index, "sparse", {"sparse": {"indices": list(range(0, 50, 2)), "values": [0.5] * 25}}))


def _requests(index: str, name: str, what: dict[str, Any]) -> list[dict[str, Any]]:
    shapes = {
        "bare": (TOP_K, False, False),
        "values": (TOP_K, True, False),
        "metadata": (TOP_K, False, True),
        "both": (TOP_K, True, True),
        "all": (BASES * COPIES, True, True),
    }
    return [
        {
            "name": f"{index}.{name}.{shape}",
            "index": index,
            "topK": top_k,
            "includeValues": values,
            "includeMetadata": metadata,
            **what,
        }
        for shape, (top_k, values, metadata) in shapes.items()
    ]
