"""The laws of an answer to any search on any collection, by what a direct search of all points answers.

Ties: where scores are equal the engine's order depends on the limit (its heap is unstable), so that two direct calls with
different limits disagree as well. The laws about order therefore speak of runs of equal scores, not of places in one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from hypothesis import event

from support.exchanges.any_collection import Collection
from support.exchanges.any_request import UNORDERED, Request
from support.process.stack import exchange

EVERYONE = 400  # more than any collection here holds
APART = 32  # dimensions from which no two of forty random vectors are near each other


@contextmanager
def loaded(engine: str, collection: Collection) -> Iterator[None]:
    """The collection, at the engine until the block ends."""
    made = exchange(engine, "PUT", collection.path, collection.creation())
    assert made.status == 200, made.body
    try:
        if collection.points:
            filled = exchange(engine, "PUT", f"{collection.path}/points?wait=true", collection.upsert())
            assert filled.status == 200, filled.body
        yield
    finally:
        exchange(engine, "DELETE", collection.path)


def is_unordered(request: Request) -> bool:
    """Whether two equal direct calls may differ."""
    return any(f'"{word}"' in json.dumps(item.get("query")) for item in request.items for word in UNORDERED)


def widest(item: dict[str, Any]) -> dict[str, Any]:
    """The same search of all points."""
    return {**{name: value for name, value in item.items() if name not in {"top", "offset"}}, "limit": EVERYONE}


def report_of(value: str | None) -> dict[str, float]:
    """The report header's figures; empty without it, and for a search that was left alone."""
    if value is None or value.startswith(("bypass=", "fail_open=")):
        return {}
    return {name: float(number) for name, _, number in (pair.partition("=") for pair in value.split(";"))}


@dataclass(frozen=True, slots=True)
class Point:
    """``value``: all that it says, in any order of members."""

    id: Any
    score: float
    value: object


@dataclass(frozen=True, slots=True)
class Ranking:
    """Everyone in upstream's order. ``runs``: id -> number of its run of equal scores. ``texts``: id -> its bytes."""

    read: Callable[[bytes], Point]
    runs: dict[Any, int]
    texts: dict[Any, bytes]
    scores: list[float]

    @classmethod
    def of(cls, points: list[bytes], read: Callable[[bytes], Point]) -> Ranking:
        """The ranking of all points."""
        scores = [read(point).score for point in points]
        steps = [0, *(one != other for one, other in pairwise(scores))][: len(scores)]
        ids = [read(point).id for point in points]
        runs = dict(zip(ids, np.cumsum(steps).tolist(), strict=True))
        return cls(read, runs, dict(zip(ids, points, strict=True)), scores)

    def check(
        self,
        page: list[bytes],
        item: dict[str, Any],
        collection: Collection,
        *,
        plain: list[bytes],
        report: dict[str, float],
        is_batch: bool,
    ) -> None:
        """The laws of one list. ``plain``: the direct answer's."""
        self._is_part(page, plain, item.get("offset"), is_shuffled=collection.shuffles)
        if report.get("clusters") == report.get("pool"):
            runs = [[self.runs[self.read(point).id] for point in points] for points in (page, plain)]
            assert runs[0] == runs[1]
        elif not is_batch and not item.get("offset"):
            self._is_distinct(page, item, collection, pool=int(report["pool"]))

    def _is_part(self, page: list[bytes], plain: list[bytes], offset: int | None, *, is_shuffled: bool) -> None:
        ids = [self.read(point).id for point in page]
        assert len(set(ids)) == len(ids), "nobody twice"
        for identifier, point in zip(ids, page, strict=True):
            there = self.texts[identifier]
            assert point == there or (is_shuffled and self.read(point).value == self.read(there).value), (
                "upstream's own bytes"
            )
        order = [self.runs[identifier] for identifier in ids]
        assert order == sorted(order), "in upstream's order"
        if plain and not offset:
            assert order[0] == 0, "the first is upstream's first"

    def _is_distinct(self, page: list[bytes], item: dict[str, Any], collection: Collection, *, pool: int) -> None:
        """Copies come only when there is nobody else left in the pool. Judged where random vectors are never near."""
        dense = item.get("query", item.get("vector"))
        if isinstance(dense, dict) and "nearest" in dense:
            dense = dense["nearest"]
        is_judged = isinstance(dense, list) and len(dense) >= APART and collection.vector_names == ("",)
        if not is_judged or "prefetch" in item:
            return
        family = {point["id"]: json.dumps(point["vector"]) for point in collection.points}
        there = {family[identifier] for identifier in list(self.runs)[:pool]}
        event("distinct")
        assert len({family[self.read(point).id] for point in page}) == min(len(page), len(there))
