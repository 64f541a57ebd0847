"""Collections as a stranger would have them: any metric and size, named, sparse, multi and missing vectors, exact copies,
payloads that look like what the proxy cuts.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import numpy as np
from hypothesis import strategies as st

METRICS = ("Cosine", "Dot", "Euclid", "Manhattan")
COLLECTION_NAMES = ("plain", "with space", "ü+&=#;", "漢字", "points", "query%2Fbatch", "..x")
FAMILY = "family"  # the payload key that says which distinct point a copy is of
SPARSE_WIDTH = 40
TRICKY: tuple[dict[str, Any], ...] = (
    {},
    {"text": 'he said "vector":[1,2] and "score":0.5, \\ é 漢字 😀', "vector": [1, 2, 3]},
    {"vector": {"": [0.5], "dense": [1.0]}, "score": 2**64 - 1, "id": None},
    {"points": [{"id": 1, "version": 3, "score": 1.0, "vector": [0.1]}], "result": {"points": []}},
    {"tiny": 1e-7, "large": 1e300, "below": -(2**63), "big": 2**63 + 1, "whole": 1.0, "negative": -0.0},
    {'quo"te': "]}", "": "empty", "größe": {"a": [[], {}, None, True]}},
    {"text": "\u2028\u0000\x1f", "payload": None, "order_value": 3},
)


@dataclass(frozen=True, slots=True)
class Collection:
    """One collection. ``shapes``: per vector name ("" is the unnamed one) its dimension and metric; 0 is sparse.

    ``multi``: the names whose vectors are lists of lists. ``families``: how many points are no copies of another.
    """

    name: str
    shapes: tuple[tuple[str, int, str], ...]
    multi: frozenset[str]
    points: tuple[dict[str, Any], ...]
    families: int

    @property
    def path(self) -> str:
        """The collection's path."""
        return "/collections/" + quote(self.name, safe="")

    @property
    def vector_names(self) -> tuple[str, ...]:
        """Every vector's name."""
        return tuple(name for name, _, _ in self.shapes)

    @property
    def shuffles(self) -> bool:
        """Whether the engine may write a point's vectors in another order at every call: its map is a hash map."""
        return len(self.shapes) > 1

    def creation(self) -> bytes:
        """The body that makes it."""
        dense = {
            name: {
                "size": size,
                "distance": metric,
                **({"multivector_config": {"comparator": "max_sim"}} if name in self.multi else {}),
            }
            for name, size, metric in self.shapes
            if size
        }
        sparse: dict[str, Any] = {name: {} for name, size, _ in self.shapes if not size}
        vectors = dense[""] if list(dense) == [""] else dense
        return json.dumps({"vectors": vectors, "sparse_vectors": sparse}).encode()

    def upsert(self) -> bytes:
        """The body that fills it."""
        return json.dumps({"points": self.points}).encode()


@st.composite
def collections(draw: st.DrawFn) -> Collection:
    """A collection of up to 140 points. The numbers of copies differ by noise, or not at all."""
    metric = draw(st.sampled_from(METRICS))
    size = draw(st.integers(2, 64))
    layout = draw(st.sampled_from(("unnamed", "unnamed", "with sparse", "named")))
    shapes: list[tuple[str, int, str]] = [("", size, metric)]
    if layout == "with sparse":
        shapes.append(("sparse", 0, ""))
    elif layout == "named":
        small = draw(st.integers(2, 8))
        shapes = [("dense", size, metric), ("vector", small, "Euclid"), ("late", small, "Cosine"), ("sparse", 0, "")]
    families = draw(st.integers(1, 40))
    count = draw(st.integers(0, 140))
    seed = draw(st.integers(0, 2**16))
    noise = draw(st.sampled_from((0.0, 0.0, 0.01)))
    payloads = draw(st.lists(st.sampled_from(TRICKY), min_size=1, max_size=4))
    missing = layout != "unnamed" and draw(st.booleans())
    made = Collection(draw(st.sampled_from(COLLECTION_NAMES)), tuple(shapes), frozenset({"late"}), (), families)
    points = _points(made, np.random.default_rng(seed), count, payloads=payloads, missing=missing, noise=noise)
    return Collection(made.name, made.shapes, made.multi, points, families)


def _points(
    made: Collection,
    rng: np.random.Generator,
    count: int,
    *,
    payloads: list[dict[str, Any]],
    missing: bool,
    noise: float,
) -> tuple[dict[str, Any], ...]:
    originals = [
        {name: random_vector(rng, size, multi=name in made.multi) for name, size, _ in made.shapes}
        for _ in range(made.families)
    ]
    points = []
    for number, family in enumerate(rng.integers(made.families, size=count).tolist()):
        vectors = {
            name: shaken(value, rng, noise)
            for name, value in originals[family].items()
            if name == "" or not missing or rng.random() < 0.8
        }
        payload = payloads[number % len(payloads)]
        points.append(
            {
                "id": number + 1 if number % 5 else f"00000000-0000-4000-8000-{number:012x}",
                "vector": vectors[""] if list(vectors) == [""] else vectors,
                "payload": {**payload, FAMILY: family} if payload or number % 2 else {},
            }
        )
    return tuple(points)


def random_vector(rng: np.random.Generator, size: int, *, multi: bool = False) -> Any:
    """A vector as JSON has it; size 0 makes a sparse one."""
    if not size:
        indices = np.sort(rng.choice(SPARSE_WIDTH, size=rng.integers(1, 12), replace=False))
        return {"indices": indices.tolist(), "values": rng.uniform(0.1, 1, size=len(indices)).round(3).tolist()}
    if multi:
        return rng.normal(size=(rng.integers(1, 4), size)).round(4).tolist()
    return rng.normal(size=size).round(4).tolist()


def shaken(value: Any, rng: np.random.Generator, noise: float) -> Any:
    """The vector with a little added to each of its numbers; a sparse one stays as it is."""
    if not noise or isinstance(value, dict):
        return value
    array = np.asarray(value)
    return (array + rng.normal(scale=noise, size=array.shape)).round(6).tolist()
