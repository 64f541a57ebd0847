"""Requests as a stranger would send them: every interceptable operation, with every form of every member."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
from hypothesis import strategies as st

from support.exchanges.any_collection import FAMILY, SPARSE_WIDTH, Collection, random_vector

LEGACY = ("search", "recommend", "discover")
ABSENT = object()
# Served from a hash map, anew at every call, or at random: two equal direct calls may differ in order.
UNORDERED = ("fusion", "rrf", "sample")


@dataclass(frozen=True, slots=True)
class Request:
    """One request. ``items``: the searches in it; ``text``: the body's bytes."""

    operation: str
    items: tuple[dict[str, Any], ...]
    is_batch: bool
    indent: int | None

    @property
    def path(self) -> str:
        """What follows the collection's path."""
        return f"/points/{self.operation}{'/batch' if self.is_batch else ''}"

    @property
    def text(self) -> bytes:
        """The body."""
        body = {"searches": self.items} if self.is_batch else self.items[0]
        return json.dumps(body, indent=self.indent, ensure_ascii=False).encode()

    def of(self, item: dict[str, Any]) -> Request:
        """The same operation asked for one search alone."""
        return Request(self.operation, (item,), is_batch=False, indent=None)

    def results(self, body: bytes) -> list[list[bytes]]:
        """The points of each ranked list of an answer, as they are written."""
        result = msgspec.json.decode(body, type=_Envelope).result
        lists = msgspec.json.decode(result, type=list[msgspec.Raw]) if self.is_batch else [result]
        if self.operation == "query":
            lists = [msgspec.json.decode(listed, type=_Points).points for listed in lists]
        return [[bytes(point) for point in msgspec.json.decode(listed, type=list[msgspec.Raw])] for listed in lists]


class _Envelope(msgspec.Struct):
    result: msgspec.Raw


class _Points(msgspec.Struct):
    points: msgspec.Raw


@st.composite
def requests(draw: st.DrawFn, collection: Collection) -> Request:
    """A request on the collection; now and then one that the database refuses."""
    operation = draw(st.sampled_from(("query", "query", "query", *LEGACY)))
    is_batch = draw(st.integers(0, 3)) == 0
    count = draw(st.integers(1, 4)) if is_batch else 1
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    items = tuple(draw(_items(collection, operation, rng)) for _ in range(count))
    return Request(operation, items, is_batch, draw(st.sampled_from((None, None, 2))))


@st.composite
def _items(draw: st.DrawFn, collection: Collection, operation: str, rng: np.random.Generator) -> dict[str, Any]:
    ranked = draw(_ranked(collection, operation, rng))
    limit: dict[str, Any] = {draw(st.sampled_from(("limit", "limit", "top"))): draw(LIMITS)}
    if operation == "query":
        limit = draw(st.sampled_from(({"limit": draw(LIMITS)}, {"limit": draw(LIMITS)}, {}, {"limit": None})))
    item = {
        **limit,
        **_given("offset", draw(st.sampled_from((ABSENT, ABSENT, None, 0, 0, 1, 5, 17, 60, 200)))),
        **_given(draw(st.sampled_from(("with_vector", "with_vectors"))), draw(_vector_selectors(collection))),
        **_given("with_payload", draw(PAYLOAD_SELECTORS)),
        **_given("filter", draw(FILTERS)),
        **_given("params", draw(st.sampled_from((ABSENT, {"exact": True}, {"hnsw_ef": 16}, None)))),
        **_given("score_threshold", draw(st.sampled_from((ABSENT, ABSENT, ABSENT, 0.1, 1.5, -1)))),
    }
    if operation == "discover":
        item.pop("score_threshold", None)
    members = [*ranked.items(), *item.items()]
    return dict(draw(st.permutations(members)))


LIMITS = st.one_of(st.integers(1, 20), st.integers(1, 300))
PAYLOAD_SELECTORS = st.sampled_from(
    (
        ABSENT,
        True,
        False,
        None,
        [],
        ["text"],
        ["vector", "tiny"],
        {"include": ["vector.dense", FAMILY]},
        {"exclude": ["vector"]},
        {"exclude": ["vector.dense", "points[].id"]},
    )
)
FILTERS = st.sampled_from(
    (
        ABSENT,
        ABSENT,
        ABSENT,
        None,
        {"must": [{"key": FAMILY, "range": {"lt": 7}}]},
        {"must_not": [{"has_id": [1, 2, 3]}]},
        {"must": [{"key": FAMILY, "match": {"any": [0, 1, 2]}}]},
        {"must": [{"key": "nothing", "match": {"value": "here"}}]},
    )
)


def _vector_selectors(collection: Collection) -> st.SearchStrategy[Any]:
    names = list(collection.vector_names)
    return st.sampled_from(
        (ABSENT, ABSENT, False, True, None, [], [names[0]], [names[-1]], names, [names[-1], names[0]], ["ghost"])
    )


def _given(name: str, value: object) -> dict[str, Any]:
    return {} if value is ABSENT else {name: value}


@st.composite
def _ranked(draw: st.DrawFn, collection: Collection, operation: str, rng: np.random.Generator) -> dict[str, Any]:
    """What the results are ranked by."""
    name, size, _ = draw(st.sampled_from(collection.shapes))
    using = {} if name == "" and draw(st.booleans()) else {"using": name}
    ids = [point["id"] for point in collection.points] or [1]
    one, two, three = (draw(st.sampled_from(ids)) for _ in range(3))
    vector = random_vector(rng, size, multi=name in collection.multi)
    if operation == "search":
        return {"vector": vector if name == "" else {"name": name, "vector": vector}}
    if operation == "recommend":
        strategy = draw(st.sampled_from(({}, {"strategy": "best_score"}, {"strategy": "sum_scores"})))
        there: dict[str, Any] = {"collection": collection.name, **({"vector": name} if name else {})}
        lookup = draw(st.sampled_from(({}, {}, {"lookup_from": there})))
        return {
            "positive": [one, vector],
            "negative": draw(st.sampled_from(([], [two]))),
            **using,
            **strategy,
            **lookup,
        }
    if operation == "discover":
        return {
            "target": draw(st.sampled_from((one, vector))),
            "context": [{"positive": two, "negative": three}],
            **using,
        }
    return draw(_queries(collection, rng, vector=vector, ids=(one, two, three), using=using))


@st.composite
def _queries(
    draw: st.DrawFn, collection: Collection, rng: np.random.Generator, *, vector: Any, ids: tuple[Any, ...], using: Any
) -> dict[str, Any]:
    one, two, three = ids
    kind = draw(st.integers(0, 13))
    plain = {"query": vector, **using}
    if kind <= 2:
        return plain if kind else {"query": {"nearest": vector}, **using}
    if kind == 3:
        return {"query": one, **using}
    prefetch = [_prefetch(collection, rng, number) for number in range(draw(st.integers(1, 3)))]
    forms: dict[int, dict[str, Any]] = {
        4: {"query": {"recommend": {"positive": [one, vector], "negative": [two]}}, **using},
        5: {"query": {"recommend": {"positive": [one], "strategy": draw(st.sampled_from(STRATEGIES))}}, **using},
        6: {"query": {"discover": {"target": one, "context": [{"positive": two, "negative": three}]}}, **using},
        7: {"query": {"context": [{"positive": one, "negative": two}]}, **using},
        8: {"prefetch": prefetch, "query": {"fusion": draw(st.sampled_from(("rrf", "dbsf")))}},
        9: {"prefetch": prefetch[0], **plain},
        10: {"query": {"nearest": vector, "mmr": {"diversity": 0.5, "candidates_limit": 30}}, **using},
        11: draw(st.sampled_from(({}, {"query": None}, {"query": {"sample": "random"}}))),
        12: {"prefetch": prefetch, "query": {"formula": {"sum": ["$score", {"mult": [0.5, "$score"]}]}}},
        13: {"prefetch": [{**plain, "limit": 20, "prefetch": prefetch}], "query": {"rrf": {"k": 7}}},
    }
    return forms[kind]


STRATEGIES = ("average_vector", "best_score", "sum_scores")


def _prefetch(collection: Collection, rng: np.random.Generator, number: int) -> dict[str, Any]:
    name, size, _ = collection.shapes[number % len(collection.shapes)]
    vector = random_vector(rng, size, multi=name in collection.multi)
    return {"query": vector, "limit": int(rng.integers(1, SPARSE_WIDTH)), **({"using": name} if name else {})}


def missing(plain: list[list[bytes]], through: list[list[bytes]]) -> int:
    """How many results fewer than a direct call's; none of the lists has more."""
    fewer = [len(one) - len(other) for one, other in zip(plain, through, strict=True)]
    assert min(fewer, default=0) >= 0
    return sum(fewer)
