"""Any search on any collection of the real engine, said in gRPC, as properties: off and shadow say what a direct call says, on
says a part of it. The collections and requests are those of REST's test, with its word on ties.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import event, given, note, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from support.exchanges.any_collection import Collection, collections
from support.exchanges.any_request import UNORDERED, Request, missing, requests
from support.grpc.calls import Pairs, Seen
from support.grpc.stack import Asker
from support.process import stack
from support.process.stack import exchange
from support.qdrant.embedded import start_embedded_grpc_process
from support.qdrant.grpc_searches import Said, id_of, point_of, said

EVERYONE = 400  # more than any collection here holds
EXAMPLES = max(1, settings().max_examples // 2)  # the other half of the laws is tested over REST
APART = 32  # dimensions from which no two of forty random vectors are near each other
SHADOW: Pairs = (("x-vecsieve-mode", "shadow"),)
OFF: Pairs = (("x-vecsieve-mode", "off"),)


@dataclass(frozen=True, slots=True)
class World:
    """``url``: the engine's REST, by which collections are made."""

    url: str
    engine: Asker
    on: Asker


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with ExitStack() as opened:
        url, rpc = opened.enter_context(start_embedded_grpc_process())
        proxy, _ = opened.enter_context(stack.serve(url, "--grpc-upstream", rpc))
        yield World(url, opened.enter_context(Asker(rpc)), opened.enter_context(Asker(proxy)))


@contextmanager
def loaded(url: str, collection: Collection) -> Iterator[None]:
    made = exchange(url, "PUT", collection.path, collection.creation())
    assert made.status == 200, made.body
    try:
        if collection.points:
            filled = exchange(url, "PUT", f"{collection.path}/points?wait=true", collection.upsert())
            assert filled.status == 200, filled.body
        yield
    finally:
        exchange(url, "DELETE", collection.path)


def call_of(collection: Collection, request: Request) -> Said | None:
    """The request in gRPC; None where it cannot be said there."""
    try:
        return said(request.operation, collection.name, request.items, is_batch=request.is_batch)
    except (ValidationError, ValueError, TypeError):
        return None


def is_unordered(request: Request) -> bool:
    """Whether two equal direct calls may differ."""
    words = [f'"{word}"' for word in UNORDERED]
    return any(word in json.dumps(item.get("query")) for item in request.items for word in words)


def same(one: Seen, other: Seen, collection: Collection, request: Request, call: Said) -> bool:
    """Byte for byte; value for value where the engine shuffles members, and scores alone where it shuffles ties."""
    if (one.code, one.details, unreported(one), one.trailing) != (
        other.code,
        other.details,
        unreported(other),
        other.trailing,
    ):
        return False
    if not one.messages or one.messages == other.messages:
        return one.messages == other.messages
    lists = [
        [[point_of(point) for point in points] for points in call.results(seen.messages[0])] for seen in (one, other)
    ]
    if any("prefetch" in item for item in request.items):
        scores = [[[point.score for point in points] for points in each] for each in lists]
        return scores[0] == scores[1]
    return collection.shuffles and lists[0] == lists[1]


def unreported(seen: Seen) -> Pairs:
    return tuple(pair for pair in seen.initial if pair[0] != "x-vecsieve")


@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_off_shadow_and_on_answer_what_a_direct_call_answers_or_a_part_of_it(data: st.DataObject, world: World) -> None:
    """Off and shadow are a direct call's answer; on has as many results or says how many fewer, in its order, beginning as it does, and distinct."""
    collection = data.draw(collections())
    with loaded(world.url, collection):
        for request in data.draw(st.lists(requests(collection), min_size=1, max_size=5)):
            call = call_of(collection, request)
            if call is None:
                event("not to be said")
                continue
            direct, through = world.engine.ask(call), world.on.ask(call)
            note(f"{request.path} {request.text.decode()} -> {direct}\nthrough: {through}")
            event(f"{request.operation} {direct.code.name}")
            if not is_unordered(request):
                for metadata in (OFF, SHADOW):
                    assert same(world.on.ask(call, metadata=metadata), direct, collection, request, call)
            check(world, collection, request, call, direct=direct, through=through)


def check(world: World, collection: Collection, request: Request, call: Said, *, direct: Seen, through: Seen) -> None:
    assert (through.code, unreported(through), through.trailing) == (direct.code, direct.initial, direct.trailing)
    if not direct.messages:
        assert through == direct
        return
    lists = [call.results(seen.messages[0]) for seen in (direct, through)]
    report = reported(through)
    assert missing(*lists) == report.get("short", 0), "as many as a direct call gives, or said to be short"
    if is_unordered(request):
        return
    for own, found, item in zip(*lists, request.items, strict=True):
        widest = request.of(
            {**{name: it for name, it in item.items() if name not in {"top", "offset"}}, "limit": EVERYONE}
        )
        asked = call_of(collection, widest)
        assert asked is not None
        everyone = world.engine.ask(asked)
        if not everyone.messages:  # an unknown vector is an error only where there is a point to look for it
            assert own == found == []
            continue
        ranking = Ranking.of(asked.results(everyone.messages[0])[0])
        is_part(found, ranking, own=own, offset=item.get("offset"), is_shuffled=collection.shuffles)
        if report.get("clusters") == report.get("pool"):
            assert [ranking.runs[id_of(point)] for point in found] == [ranking.runs[id_of(point)] for point in own]
        elif not request.is_batch and not item.get("offset"):
            is_distinct(found, ranking, item, collection, pool=int(report["pool"]))


def reported(seen: Seen) -> dict[str, float]:
    """The report's figures; empty without it, and where it says why the search was left alone."""
    values = [
        str(value)
        for name, value in seen.initial
        if name == "x-vecsieve" and not str(value).startswith(("bypass=", "fail_open="))
    ]
    pairs = [pair.partition("=") for pair in (values[0].split(";") if values else ())]
    return {name: float(number) for name, _, number in pairs}


@dataclass(frozen=True, slots=True)
class Ranking:
    """Everyone in upstream's order. ``runs``: id -> number of its run of equal scores. ``texts``: id -> its bytes."""

    runs: dict[Any, int]
    texts: dict[Any, bytes]

    @classmethod
    def of(cls, points: list[bytes]) -> Ranking:
        scores = [point_of(point).score for point in points]
        steps = [0, *(one != other for one, other in pairwise(scores))][: len(scores)]
        ids = [id_of(point) for point in points]
        runs = dict(zip(ids, np.cumsum(steps).tolist(), strict=True))
        return cls(runs, dict(zip(ids, points, strict=True)))


def is_part(found: list[bytes], ranking: Ranking, *, own: list[bytes], offset: int | None, is_shuffled: bool) -> None:
    """The laws of one list. ``own``: the direct answer's."""
    ids = [id_of(point) for point in found]
    assert len(set(ids)) == len(ids), "nobody twice"
    for identifier, point in zip(ids, found, strict=True):
        there = ranking.texts[identifier]
        assert point == there or (is_shuffled and point_of(point) == point_of(there)), "upstream's own bytes"
    order = [ranking.runs[identifier] for identifier in ids]
    assert order == sorted(order), "in upstream's order"
    if own and not offset:
        assert order[0] == 0, "the first is upstream's first"


def is_distinct(
    found: list[bytes], ranking: Ranking, item: dict[str, Any], collection: Collection, *, pool: int
) -> None:
    """Copies come only when there is nobody else left in the pool. Judged where random vectors are never near."""
    dense = item.get("query", item.get("vector"))
    if isinstance(dense, dict) and "nearest" in dense:
        dense = dense["nearest"]
    if not (isinstance(dense, list) and len(dense) >= APART and collection.vector_names == ("",)) or "prefetch" in item:
        return
    family = {point["id"]: json.dumps(point["vector"]) for point in collection.points}
    there = {family[identifier] for identifier in list(ranking.runs)[:pool]}
    event("distinct")
    assert len({family[id_of(point)] for point in found}) == min(len(found), len(there))
