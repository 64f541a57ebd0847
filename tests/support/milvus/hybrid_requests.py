"""Hybrid searches of Milvus, drawn from numbers: the same number makes the same request. And the collections that they are asked of.

``clean`` has no copies; in ``copied`` every row has copies, near it in all its vectors.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np

from support.backends.families import floats
from support.milvus.server import connected
from support.process.stack import exchange

METRICS = {"text": "COSINE", "image": "IP", "sound": "L2"}
DIMENSION, ROWS, COPIES = 24, 120, 4
EVERYTHING = 1000  # more than there are

Rng = np.random.Generator


@dataclass(frozen=True, slots=True)
class HybridRequest:
    """One request. ``parts``: field, vector, limit, filter and whether the metric is named. ``weights``: None for ranks."""

    parts: tuple[tuple[str, list[float], int, str, bool], ...]
    k: int
    weights: tuple[float, ...] | None
    is_normed: bool
    limit: int
    offset: int
    fields: list[str]

    @property
    def is_exact(self) -> bool:
        """Whether the lists are known as exactly as Lite knows them: of its own distances it has more digits than its replies."""
        return self.weights is None or all(is_named and field != "sound" for field, *_, is_named in self.parts)


def load(url: str, name: str, *, copies: int, words: bool = False) -> None:
    """``ROWS`` rows in families of so many copies, whose ids are in no order. ``words``: ids are texts."""
    client, kinds = connected(url), import_module("pymilvus").DataType
    schema = client.create_schema(auto_id=False, enable_dynamic_field=True)
    key = {"datatype": kinds.VARCHAR, "max_length": 40} if words else {"datatype": kinds.INT64}
    schema.add_field("id", is_primary=True, **key)
    schema.add_field("note", kinds.VARCHAR, max_length=100, nullable=True)
    schema.add_field("family", kinds.INT64)
    index = client.prepare_index_params()
    for field, metric in METRICS.items():
        schema.add_field(field, kinds.FLOAT_VECTOR, dim=DIMENSION)
        index.add_index(field, metric_type=metric, index_type="FLAT")
    client.create_collection(name, schema=schema, index_params=index, consistency_level="Strong")
    client.insert(name, _rows(np.random.default_rng([11, copies]), copies, words=words))


def _rows(rng: Rng, copies: int, *, words: bool) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = []
    for family in range(ROWS // copies):
        vectors = {field: rng.normal(size=DIMENSION) for field in METRICS}
        for copy in range(copies):
            number = int(rng.permutation(100)[0]) + 100 * (family * copies + copy)
            noisy = {name: floats(row + 1e-3 * rng.normal(size=DIMENSION)) for name, row in vectors.items()}
            note = None if family % 3 == 0 else f"é{family}"
            rows.append(
                {"id": f'k"{number}é' if words else number, "note": note, "family": family, "tag": copy, **noisy}
            )
    return rows


def request(number: int) -> HybridRequest:
    """One to three parts, merged by ranks or by weights."""
    rng = np.random.default_rng([number, 17])
    count = int(rng.integers(1, 4))
    is_named, is_weighted = bool(rng.random() < 0.8), bool(rng.random() < 0.5)
    names = [str(name) for name in rng.choice(["text", "image"] if is_weighted else list(METRICS), size=count)]
    filters = ["", "", "", "family > 3", "tag == 0 or family < 20"]
    parts = tuple(
        (name, floats(rng.normal(size=DIMENSION)), int(rng.integers(1, 60)), str(rng.choice(filters)), is_named)
        for name in names
    )
    fields: list[list[str]] = [[], ["note"], ["family", "text"], ["*"], ["tag"], ["note", "tag", "id"]]
    return HybridRequest(
        parts=parts,
        k=int(rng.choice([1, 7, 60, 1000])),
        weights=tuple(float(rng.choice([0.0, 0.1, 0.3, 0.55, 1.0])) for _ in names) if is_weighted else None,
        is_normed=bool(rng.random() < 0.5),
        limit=int(rng.integers(2, 30)),
        offset=int(rng.choice([0, 0, 0, 3, 11])),
        fields=fields[int(rng.integers(len(fields)))],
    )


def ask(
    url: str, name: str, search: HybridRequest, *, everything: bool = False, **metadata: Any
) -> list[dict[str, Any]]:
    """The hits. ``everything``: all that the request ranks."""
    pymilvus = import_module("pymilvus")
    parts = [
        pymilvus.AnnSearchRequest(
            [vector], field, {"metric_type": METRICS[field]} if is_named else {}, limit=limit, expr=condition or None
        )
        for field, vector, limit, condition, is_named in search.parts
    ]
    ranker = (
        pymilvus.RRFRanker(search.k)
        if search.weights is None
        else pymilvus.WeightedRanker(*search.weights, norm_score=search.is_normed)
    )
    page = {"limit": EVERYTHING} if everything else {"limit": search.limit, "offset": search.offset}
    lists = connected(url).hybrid_search(name, parts, ranker, output_fields=search.fields, **page, **metadata)
    return [dict(hit) for hit in lists[0]]


def ask_over_rest(
    url: str, name: str, search: HybridRequest, *, everything: bool = False, **headers: str
) -> list[dict[str, Any]]:
    """The same over REST, version 2."""
    ranker: dict[str, Any] = {"strategy": "rrf", "params": {"k": search.k}}
    if search.weights is not None:
        ranker = {"strategy": "weighted", "params": {"weights": search.weights, "norm_score": search.is_normed}}
    body: dict[str, Any] = {
        "collectionName": name,
        "search": [
            {
                "data": [vector],
                "annsField": field,
                "limit": limit,
                **({"filter": condition} if condition else {}),
                **({"metricType": METRICS[field]} if is_named else {}),
            }
            for field, vector, limit, condition, is_named in search.parts
        ],
        "rerank": ranker,
        "limit": EVERYTHING if everything else search.limit,
        "outputFields": search.fields,
    }
    if search.offset and not everything:
        body["offset"] = search.offset
    action = "advanced_search" if search.k == 1 else "hybrid_search"
    answer = exchange(url, "POST", f"/v2/vectordb/entities/{action}", json.dumps(body).encode(), headers)
    content = json.loads(answer.body)
    assert answer.status == 200
    assert content["code"] == 0, content
    assert content.get("topks", [0]) == [len(content["data"])]
    return [{"id": row["id"], "distance": row["distance"], "entity": row} for row in content["data"]]
