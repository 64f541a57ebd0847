"""What the programs of tests/foreign_clients store and ask: one plan for every language, written as JSON."""

from __future__ import annotations

from typing import Any

import numpy as np

SEED = 31
COPIES = 4
KNOWN = (20, 30, 40)


def family(identifier: int) -> int:
    """Which base a record is a copy of."""
    return identifier // 10


def plan(*, bases: int = 40, dimension: int = 32, small: int = 6, top_k: int = 8) -> dict[str, Any]:
    """Three collections: one record a base, and two with copies of it. Ids are base * 10 + copy.

    ``below``: a filter on the base that some pass and some do not; ``all``: more than there are records.
    """
    rng = np.random.default_rng(SEED)
    made = [_base(rng, dimension, small) for _ in range(bases)]
    query = _mixed(rng, made[: bases // 2])
    return {
        "top_k": top_k,
        "all": 2 * bases * COPIES,
        "below": bases * 0.6,
        "query": query,
        "known": [number for number in KNOWN if family(number) < bases],
        "records": {
            "clean": [_record(rng, base, number * 10) for number, base in enumerate(made)],
            "copied": _copied(rng, made),
            "named": _copied(rng, made),
        },
    }


def _base(rng: np.random.Generator, dimension: int, small: int) -> dict[str, Any]:
    indices = np.sort(rng.choice(40, size=12, replace=False))
    return {
        "dense": rng.normal(size=dimension),
        "small": rng.normal(size=small),
        "indices": indices,
        "values": rng.uniform(0.1, 1.0, size=12),
    }


def _copied(rng: np.random.Generator, made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [_record(rng, base, number * 10 + copy) for number, base in enumerate(made) for copy in range(COPIES)]


def _record(rng: np.random.Generator, base: dict[str, Any], identifier: int) -> dict[str, Any]:
    """A copy of a base with a little noise."""
    number = family(identifier)
    return {
        "id": identifier,
        "base": number,
        "text": f"The paragraph of number {number}: größer, 漢字, 'quoted'.",
        **{name: _noisy(rng, base[name]) for name in ("dense", "small", "values")},
        "indices": base["indices"].tolist(),
    }


def _mixed(rng: np.random.Generator, made: list[dict[str, Any]]) -> dict[str, Any]:
    """A query near several bases. Two words: the engine adds more of them up in any order, and floats then differ."""
    return {
        "dense": _noisy(rng, np.sum([base["dense"] for base in made], axis=0)),
        "small": _noisy(rng, np.mean([base["small"] for base in made], axis=0)),
        "indices": made[0]["indices"][:2].tolist(),
        "values": _noisy(rng, made[0]["values"][:2]),
    }


def _noisy(rng: np.random.Generator, vector: np.ndarray) -> list[float]:
    """Single precision, which is what every client sends."""
    moved: list[float] = (vector + rng.normal(scale=0.003, size=len(vector))).astype(np.float32).tolist()
    return moved
