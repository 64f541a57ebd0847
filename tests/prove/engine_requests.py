"""What the fuzz against the real engine asks: clouds of every metric and mean, clean or with planted copies, and every kind of read.

Everything follows from a number: the same number makes the same cloud or the same request.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from support.exchanges.any_request import Request

Rng = np.random.Generator
Json = dict[str, Any]

METRICS = ("Cosine", "Dot", "Euclid", "Manhattan")
MEANS = (0.0, 10.0, 1000.0)
SIZES = (2, 3, 8, 24, 64, 256)
CLOUDS = len(METRICS) * len(MEANS) * 2
POINTS, COPIES = 160, 4
SPARSE_WIDTH = 60
OTHER = "lookups"  # where vectors are looked up: no points of a cloud
WORDS = tuple(f"{first}{last}" for first in ("ba", "ko", "li", "mu", "ne", "pra", "sto", "ta") for last in ("rn", "dle", "gost", "vex", "lum", "quin", "sh", "tor", "wick", "zen"))  # fmt: skip
RANKED = ("query", "search", "recommend", "discover")
PLAIN = ("scroll", "count", "facet", "", "query/groups", "search/groups")
"""Reads that are no single ranking: they pass through untouched in every mode. `""` is reading by id."""


@dataclass(frozen=True, slots=True)
class Cloud:
    """One collection. ``sizes``: vector -> dimension, 0 for a sparse one. ``families``: id -> the distinct point it is a copy of."""

    name: str
    metric: str
    mean: float
    is_copied: bool
    sizes: Mapping[str, int]
    points: tuple[Json, ...]
    families: Mapping[int | str, int]

    @property
    def path(self) -> str:
        """The collection's path."""
        return f"/collections/{self.name}"

    def creation(self) -> Json:
        """The body that makes it."""
        dense = {
            name: {"size": size, "distance": self.metric, **({"multivector_config": {"comparator": "max_sim"}} if is_multi(name) else {})}
            for name, size in self.sizes.items()
            if size
        }  # fmt: skip
        vectors = dense[""] if list(dense) == [""] else dense
        return {"vectors": vectors, "sparse_vectors": {name: {} for name, size in self.sizes.items() if not size}}


def is_multi(name: str) -> bool:
    """Whether that vector is several rows."""
    return name == "object"


def cloud(number: int) -> Cloud:
    """Metric, mean and copies follow from the number, and all combinations come; the rest is drawn."""
    rng = np.random.default_rng([number, 1])
    metric, mean = METRICS[number % 4], MEANS[number // 4 % 3]
    is_copied = number // 12 % 2 == 1
    size, small = int(rng.choice(SIZES)), int(rng.choice(SIZES[:4]))
    sizes = (
        {"": size, "words": 0} if rng.random() < 0.5 else {"text": size, "image": small, "object": small, "words": 0}
    )
    count = POINTS // COPIES if is_copied else POINTS
    originals = [{name: vector(rng, name, width, mean) for name, width in sizes.items()} for _ in range(count)]
    has_texts = bool(rng.random() < 0.5)
    texts = [" ".join(rng.choice(WORDS, size=14)) for _ in range(count)]
    order = rng.permutation(POINTS)
    points, families = [], {}
    for place, drawn in enumerate(order.tolist()):
        family = drawn % count
        identifier = place + 1 if place % 5 else f"00000000-0000-4000-8000-{place:012x}"
        text = {"text": texts[family]} if has_texts else {}
        points.append({"id": identifier, "vector": originals[family], "payload": text | payload(number, family, place)})
        families[identifier] = family
    return Cloud(f"cloud{number}", metric, mean, is_copied, sizes, tuple(points), families)


def payload(number: int, family: int, place: int) -> Json:
    """Keys of every type that a filter knows. Copies differ in a date."""
    rng = np.random.default_rng([number, family, 4])
    fields: Json = {
        "group": family % 7,
        "price": round(float(rng.uniform(0, 100)), 3),
        "tags": [f"t{tag}" for tag in rng.choice(6, size=2, replace=False).tolist()],
        "where": {"lon": round(float(rng.uniform(-30, 30)), 4), "lat": round(float(rng.uniform(-30, 30)), 4)},
        "deep": [{"flag": bool(rng.integers(0, 2)), "n": family % 3}],
        "when": f"2024-0{1 + place % 9}-11T00:00:00Z",
    }
    return fields | ({"rare": None if family % 2 else "x"} if family % 4 == 0 else {})


def vector(rng: Rng, name: str, size: int, mean: float) -> Any:
    """A point of the cloud. A sparse vector has no mean, and so many terms that no two are near each other by chance."""
    if not size:
        indices = np.sort(rng.choice(SPARSE_WIDTH, size=rng.integers(6, 13), replace=False))
        return {"indices": indices.tolist(), "values": rng.uniform(0.1, 1, size=len(indices)).round(4).tolist()}
    shape = (int(rng.integers(1, 4)), size) if is_multi(name) else (size,)
    return rng.normal(loc=mean, size=shape).round(5).tolist()


def request(number: int, made: Cloud) -> Request:
    """One request on that cloud; of twenty about one is refused."""
    rng = np.random.default_rng([number, 2])
    if rng.random() < 0.1:
        return Request(str(rng.choice(PLAIN)), (_plain(rng, made, number),), is_batch=False, indent=None)
    operation = str(rng.choice(RANKED, p=(0.6, 0.15, 0.15, 0.1)))
    is_batch = bool(rng.random() < 0.2)
    items = tuple(_item(rng, made, operation) for _ in range(int(rng.integers(1, 6)) if is_batch else 1))
    return Request(operation, items, is_batch, indent=None)


def _plain(rng: Rng, made: Cloud, number: int) -> Json:
    """The body of a read that is no ranking; the kind follows from the generator's first draw, so every body fits all of them."""
    name = _any_name(rng, made)
    ids = _ids(rng, made, 5)
    query = vector(rng, name, made.sizes[name], made.mean)
    options = _selection(rng, made)
    ordered = {"order_by": "price"} if number % 2 else {}
    named = {"name": name, "vector": query} if name else query
    body = {
        "ids": ids,
        "key": "group",
        "exact": True,
        "group_by": "group",
        "group_size": 2,
        "limit": int(rng.integers(1, 12)),
    }
    return body | {"query": query, "using": name, "vector": named} | options | ordered | _filter(rng)


def _item(rng: Rng, made: Cloud, operation: str) -> Json:
    name = _any_name(rng, made)
    wrong = rng.random()
    size = made.sizes[name] + (1 if wrong < 0.02 and made.sizes[name] else 0)
    query = vector(rng, name, size, made.mean)
    if 0.02 < wrong < 0.04 and size and not is_multi(name):
        query[0] = float(rng.choice([3e38, -3e38, 1e30, 1e-40, 1e40, np.nan, np.inf]))
    ranked = _ranked(rng, made, operation, name, query)
    limit = int(rng.integers(1, 21)) if rng.random() < 0.85 else int(rng.integers(21, 260))
    item: Json = {**ranked, "limit": limit, **_selection(rng, made), **_filter(rng), **_params(rng)}
    if rng.random() < 0.2:
        item["offset"] = int(rng.choice([0, 1, 5, 17, 60, 200]))
    if operation != "discover" and rng.random() < 0.12:
        item["score_threshold"] = float(rng.choice([-1, 0.1, 5, made.mean, made.mean**2 * 2]))
    return item


def _ranked(rng: Rng, made: Cloud, operation: str, name: str, query: Any) -> Json:
    if operation == "search":
        return {"vector": {"name": name, "vector": query} if name else query}
    forms = {"query": _query, "recommend": _recommend, "discover": _discover}
    return forms[operation](rng, made, name, query)


def _recommend(rng: Rng, made: Cloud, name: str, query: Any) -> Json:
    strategy = rng.choice(["", "average_vector", "best_score", "sum_scores"])
    one, two = _ids(rng, made, 2)
    there = _lookup(rng, name)
    examples: Json = {
        "positive": [7 if there else one, query],
        "negative": [] if rng.random() < 0.5 else [8 if there else two],
    }
    return {**examples, **({"strategy": str(strategy)} if strategy else {}), **_using(name), **there}


def _discover(rng: Rng, made: Cloud, name: str, query: Any) -> Json:
    one, two, three = _ids(rng, made, 3)
    target = query if rng.random() < 0.5 else one
    return {"target": target, "context": [{"positive": two, "negative": three}], **_using(name)}


def _query(rng: Rng, made: Cloud, name: str, query: Any) -> Json:
    """The newest operation, in all its forms."""
    one, two, three = _ids(rng, made, 3)
    using, there = _using(name), _lookup(rng, name)
    known = 7 if there else one
    prefetch = [_prefetch(rng, made) for _ in range(int(rng.integers(1, 4)))]
    forms: tuple[Callable[[], Json], ...] = (
        lambda: {"query": query, **using},
        lambda: {"query": query, **using},
        lambda: {"query": query, **using},
        lambda: {"query": {"nearest": query}, **using},
        lambda: {"query": known, **using, **there},
        lambda: {"query": {"recommend": {"positive": [known, query], "negative": []}}, **using, **there},
        lambda: {"query": {"recommend": {"positive": [one], "negative": [two], "strategy": "best_score"}}, **using},
        lambda: {"query": {"recommend": {"positive": [one, two], "strategy": "sum_scores"}}, **using},
        lambda: {"query": {"discover": {"target": query, "context": [{"positive": two, "negative": three}]}}, **using},
        lambda: {
            "query": {"context": [{"positive": one, "negative": two}, {"positive": three, "negative": two}]},
            **using,
        },
        lambda: {"prefetch": prefetch, "query": {"fusion": str(rng.choice(["rrf", "dbsf"]))}},
        lambda: {"prefetch": prefetch, "query": {"rrf": {"k": int(rng.integers(1, 60))}}},
        lambda: {"prefetch": prefetch, "query": query, **using},
        lambda: {"prefetch": {"prefetch": prefetch, "query": query, "limit": 40, **using}, "query": query, **using},
        lambda: {"query": {"nearest": query, "mmr": {"diversity": 0.4}}, **using},
        lambda: {"query": {"nearest": query, "mmr": {"diversity": 0.7, "candidates_limit": 25}}, **using},
        lambda: {"query": {"order_by": {"key": "price", "direction": "desc"}}},
        dict,
        lambda: {"query": {"sample": "random"}},
        lambda: {
            "prefetch": prefetch,
            "query": {"formula": {"sum": ["$score", {"mult": [0.5, "price"]}]}, "defaults": {}},
        },
    )
    return forms[int(rng.integers(0, len(forms)))]()


def _prefetch(rng: Rng, made: Cloud) -> Json:
    name = _any_name(rng, made)
    query = vector(rng, name, made.sizes[name], made.mean)
    return {
        "query": query,
        "limit": int(rng.integers(1, 60)),
        **_using(name),
        **(_filter(rng) if rng.random() < 0.3 else {}),
    }


def _any_name(rng: Rng, made: Cloud) -> str:
    """The first vector is asked for as often as all others."""
    names = list(made.sizes)
    return names[0] if rng.random() < 0.5 else str(rng.choice(names))


def _using(name: str) -> Json:
    return {"using": name} if name else {}


def _lookup(rng: Rng, name: str) -> Json:
    return {"lookup_from": {"collection": OTHER, **({"vector": name} if name else {})}} if rng.random() < 0.08 else {}


def _ids(rng: Rng, made: Cloud, count: int) -> list[int | str]:
    ids = list(made.families)
    return [ids[place] for place in rng.choice(len(ids), size=count, replace=False).tolist()]


def _selection(rng: Rng, made: Cloud) -> Json:
    """Which of a point's parts come back; absent as often as not."""
    names = list(made.sizes)
    vectors: tuple[Any, ...] = (False, True, [names[0]], [names[-1]], names, [], ["ghost"])
    payloads: tuple[Any, ...] = (
        True,
        False,
        ["group"],
        {"include": ["deep[].flag", "text"]},
        {"exclude": ["text"]},
        [],
    )
    options: Json = {}
    if rng.random() < 0.35:
        options["with_vector"] = vectors[int(rng.integers(0, len(vectors)))]
    if rng.random() < 0.5:
        options["with_payload"] = payloads[int(rng.integers(0, len(payloads)))]
    return options


def _params(rng: Rng) -> Json:
    params = ({"exact": True}, {"hnsw_ef": 16}, {"indexed_only": False}, {"quantization": {"ignore": True}})
    return {"params": params[int(rng.integers(0, len(params)))]} if rng.random() < 0.2 else {}


def _filter(rng: Rng) -> Json:
    conditions: tuple[Json, ...] = (
        {"key": "group", "match": {"value": int(rng.integers(0, 9))}},
        {"key": "tags", "match": {"any": ["t1", "t4"]}},
        {"key": "group", "match": {"except": [1, 2]}},
        {"key": "price", "range": {"gte": 10, "lt": 80.5}},
        {"key": "when", "range": {"lt": "2024-06-01T00:00:00Z"}},
        {"key": "where", "geo_radius": {"center": {"lon": 0, "lat": 0}, "radius": 2_000_000}},
        {"key": "tags", "values_count": {"gte": 2}},
        {"nested": {"key": "deep", "filter": {"must": [{"key": "flag", "match": {"value": True}}]}}},
        {"has_id": [1, 2, 3, 4]},
        {"is_empty": {"key": "rare"}},
        {"key": "group", "match": {"value": 99}},
    )
    if rng.random() < 0.65:
        return {}
    one, two = (conditions[place] for place in rng.choice(len(conditions), size=2, replace=False).tolist())
    forms = ({"must": [one]}, {"must_not": [one]}, {"should": [one, two]}, {"must": [one], "must_not": [two]})
    return {"filter": forms[int(rng.integers(0, len(forms)))]}


def filling(made: Cloud) -> bytes:
    """The body that fills the cloud."""
    return json.dumps({"points": made.points}).encode()


def lookups(made: Cloud) -> bytes:
    """The body that fills the collection of lookups with two vectors like the cloud's own."""
    rng = np.random.default_rng([len(made.name), 3])
    there = [{name: vector(rng, name, size, made.mean) for name, size in made.sizes.items()} for _ in range(2)]
    return json.dumps({"points": [{"id": 7 + place, "vector": row} for place, row in enumerate(there)]}).encode()
