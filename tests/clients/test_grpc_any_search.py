"""Any search on any collection of the real engine, said in gRPC, as properties: off and shadow say what a direct call says, on
says a part of it. The collections and requests are those of REST's test, judged by the same laws.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass

import pytest
from hypothesis import event, given, note, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from support.exchanges.any_collection import Collection, collections
from support.exchanges.any_ranking import Point, Ranking, is_unordered, loaded, report_of, widest
from support.exchanges.any_request import Request, missing, requests
from support.grpc.calls import Pairs, Seen
from support.grpc.stack import Asker
from support.process import stack
from support.qdrant.embedded import start_embedded_grpc_process
from support.qdrant.grpc_searches import GrpcSearch, grpc_search, id_of, point_of

EXAMPLES = max(1, settings().max_examples // 2)  # the other half of the laws is tested over REST
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


def call_of(collection: Collection, request: Request) -> GrpcSearch | None:
    """The request in gRPC; None where it cannot be said there."""
    try:
        return grpc_search(request.operation, collection.name, request.items, is_batch=request.is_batch)
    except (ValidationError, ValueError, TypeError):
        return None


def same(one: Seen, other: Seen, collection: Collection, request: Request, call: GrpcSearch) -> bool:
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
        scores = [[[point.score for point in points] for points in hits] for hits in lists]
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


def check(
    world: World, collection: Collection, request: Request, call: GrpcSearch, *, direct: Seen, through: Seen
) -> None:
    assert (through.code, unreported(through), through.trailing) == (direct.code, direct.initial, direct.trailing)
    if not direct.messages:
        assert through == direct
        return
    lists = [call.results(seen.messages[0]) for seen in (direct, through)]
    report = reported(through)
    assert missing(*lists) == report.get("short", 0), "as many as a direct call gives, or said to be short"
    if is_unordered(request):
        return
    for original, results, item in zip(*lists, request.items, strict=True):
        message = call_of(collection, request.of(widest(item)))
        assert message is not None
        everyone = world.engine.ask(message)
        if not everyone.messages:  # an unknown vector is an error only where there is a point to look for it
            assert original == results == []
            continue
        ranking = Ranking.of(message.results(everyone.messages[0])[0], read)
        ranking.check(results, item, collection, plain=original, report=report, is_batch=request.is_batch)


def read(point: bytes) -> Point:
    value = point_of(point)
    return Point(id_of(point), value.score, value)


def reported(seen: Seen) -> dict[str, float]:
    return report_of(next((str(value) for name, value in seen.initial if name == "x-vecsieve"), None))
