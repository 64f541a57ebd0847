"""Every interceptable gRPC call, over collections of the real engine, through the proxy's own process: judged on raw messages.

Both ways in which servers write vectors. The requests are those that are asked over REST, said in gRPC.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import grpc
import pytest
from qdrant_client import QdrantClient
from qdrant_client import grpc as pb
from servers.qdrant.grpc_messages import Encoding

from support.grpc.calls import Pairs, Seen
from support.grpc.stack import Asker
from support.process import stack
from support.qdrant import planted
from support.qdrant.embedded import start_embedded_grpc_process
from support.qdrant.grpc_searches import GrpcSearch, grpc_search, id_of, point_of
from support.qdrant.planted import PlantedRequest

MODES: tuple[Pairs, ...] = ((), (("x-vecsieve-mode", "off"),), (("x-vecsieve-mode", "shadow"),))
METRICS = ("cosine",)  # the others are those of any search


@dataclass(frozen=True, slots=True)
class World:
    """The engine, and a proxy before it."""

    engine: Asker
    on: Asker


@pytest.fixture(scope="module", params=list(Encoding))
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with ExitStack() as opened:
        url, rpc = opened.enter_context(start_embedded_grpc_process(encoding=request.param))
        client = QdrantClient(url=url, timeout=30)
        planted.load(client, copies=1, prefix="clean", metrics=METRICS)
        planted.load(client, copies=planted.COPIES, prefix="copied", metrics=METRICS)
        planted.load_named(client, "named")
        client.close()
        proxy, _ = opened.enter_context(stack.serve(url, "--grpc-upstream", rpc))
        yield World(opened.enter_context(Asker(rpc)), opened.enter_context(Asker(proxy)))


def call_of(search: PlantedRequest) -> GrpcSearch:
    """The request in gRPC."""
    _, _, collection, _, operation, *batch = search.path.split("/")
    body = json.loads(search.body)
    items = tuple(body["searches"]) if batch else (body,)
    return grpc_search(operation, collection, items, is_batch=bool(batch))


def identify(search: PlantedRequest) -> str:
    return f"{search.path.split('/')[2]}-{search.name}"


def single(prefix: str) -> list[PlantedRequest]:
    return [request for metric in METRICS for request in planted.requests(f"{prefix}_{metric}")]


def batches(prefix: str) -> list[PlantedRequest]:
    return [request for metric in METRICS for request in planted.batches(f"{prefix}_{metric}")]


NAMED = list(planted.named_requests("named"))
CLEAN, COPIED = [*single("clean"), *batches("clean")], single("copied")


@pytest.mark.parametrize("search", CLEAN, ids=identify)
def test_in_on_an_answer_without_duplicates_is_upstreams_own_message(world: World, search: PlantedRequest) -> None:
    direct, through = world.engine.ask(call_of(search)), world.on.ask(call_of(search))
    assert (through.code, through.messages) == (direct.code, direct.messages)
    assert unreported(through.initial) == direct.initial
    assert through.trailing == direct.trailing


def unreported(metadata: Pairs) -> Pairs:
    return tuple(pair for pair in metadata if pair[0] != "x-vecsieve")


def widest(search: PlantedRequest, limit: int = 240) -> GrpcSearch:
    body = json.loads(search.body)
    body.pop("top", None)
    body["limit"] = limit
    return call_of(PlantedRequest(search.name, search.path, json.dumps(body).encode(), limit, search.results))


def ranked(asker: Asker, call: GrpcSearch) -> list[bytes]:
    """The points of a search, as they are written."""
    (reply,) = asker.ask(call).messages
    return call.results(reply)[0]


@pytest.mark.parametrize("search", COPIED, ids=identify)
def test_in_on_with_planted_copies_the_results_are_distinct_in_order_full_and_upstreams_own_bytes(
    world: World, search: PlantedRequest
) -> None:
    everyone = ranked(world.engine, widest(search))
    ranking = [int(id_of(point)) for point in everyone]
    points = ranked(world.on, call_of(search))
    numbers = [int(id_of(point)) for point in points]
    families = {planted.family(identifier) for identifier in ranking}
    assert len(numbers) == min(search.top_k, len(ranking))
    assert len({planted.family(identifier) for identifier in numbers}) == min(search.top_k, len(families))
    assert numbers == sorted(numbers, key=ranking.index), "a subsequence of upstream's order"
    assert numbers[0] == ranking[0], "the first result is upstream's first"
    assert set(points) <= set(everyone), "each as upstream writes it for who asks so"


@pytest.mark.parametrize("search", NAMED, ids=identify)
def test_named_sparse_and_multi_vectors_come_back_in_the_shape_the_client_asked_for(
    world: World, search: PlantedRequest
) -> None:
    direct = {id_of(point): point_of(point) for point in ranked(world.engine, widest(search, 90))}
    through = ranked(world.on, call_of(search))
    assert len(through) == search.top_k
    assert [direct[id_of(point)] for point in through] == [point_of(point) for point in through]
    assert next(iter(direct)) == id_of(through[0])


@pytest.mark.parametrize("search", batches("copied"), ids=identify)
def test_batches_keep_their_count_and_order_and_leave_alone_what_is_not_ours(
    world: World, search: PlantedRequest
) -> None:
    call = call_of(search)
    direct, through = (call.results(asker.ask(call).messages[0]) for asker in (world.engine, world.on))
    assert [len(points) for points in through] == [len(points) for points in direct]
    first = [planted.family(int(id_of(point))) for point in through[0]]
    assert len(set(first)) == len(first)
    if search.name == "query-batch":
        assert through[1] == direct[1]
        assert through[3:] == direct[3:]


def test_paging_in_steps_of_every_size_gives_one_sequence_without_repeats_or_gaps(world: World) -> None:
    total = 40  # of 60 bases: pages that lie deeper cost selection more than they tell about gRPC
    sequences = {step: paged(world.on, "copied_cosine", step, total) for step in (7, 20, total)}
    reference = sequences[total]
    ranking = paged(world.engine, "copied_cosine", 240, 240)
    assert len({planted.family(identifier) for identifier in reference}) == len(reference) == total
    assert reference == sorted(reference, key=ranking.index)
    for step, sequence in sequences.items():
        assert sequence == reference, f"in steps of {step}"


def paged(asker: Asker, collection: str, step: int, total: int) -> list[int]:
    numbers: list[int] = []
    for offset in range(0, total, step):
        item = {"query": planted.query_vector(9), "limit": min(step, total - offset), "offset": offset}
        numbers += [
            int(id_of(point)) for point in ranked(asker, grpc_search("query", collection, (item,), is_batch=False))
        ]
    return numbers


@pytest.mark.parametrize("prefix", ["clean", "copied"])
def test_a_score_threshold_is_the_databases_to_apply(world: World, prefix: str) -> None:
    item = {"query": planted.query_vector(1), "limit": 8, "score_threshold": 0.2}
    call = grpc_search("query", f"{prefix}_cosine", (item,), is_batch=False)
    everyone = ranked(world.engine, grpc_search("query", f"{prefix}_cosine", ({**item, "limit": 240},), is_batch=False))
    through = ranked(world.on, call)
    there = {planted.family(int(id_of(point))) for point in everyone}
    families = {planted.family(int(id_of(point))) for point in through}
    assert 0 < len(everyone) < 240
    assert set(through) <= set(everyone)
    assert len(families) == min(8, len(there))


REFUSED = {
    "no such collection": grpc_search(
        "query", "ghost", ({"query": [0.0] * planted.DIMENSION, "limit": 5},), is_batch=False
    ),
    "another dimension": grpc_search("query", "clean_cosine", ({"query": [0.5, 0.5], "limit": 5},), is_batch=False),
    "no such vector": grpc_search(
        "query", "named", ({"query": [0.5, 0.5], "using": "ghost", "limit": 5},), is_batch=False
    ),
    "no such point": grpc_search("query", "clean_cosine", ({"query": 123456, "limit": 5},), is_batch=False),
    "in a batch": grpc_search("search", "clean_cosine", ({"vector": [1.0], "limit": 3},), is_batch=True),
    "nothing asked": GrpcSearch("Query", b""),
    "no message of this kind": GrpcSearch("Query", b"\x08\x01"),
    "no message at all": GrpcSearch("Query", b"\xff\xff\xff"),
    "no such method": GrpcSearch("Nothing", b""),
    "legacy, without a vector": GrpcSearch("Search", b"\x0a\x0cclean_cosine\x20\x05"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_the_database_refuses_is_refused_in_its_own_words(world: World, name: str) -> None:
    direct = world.engine.ask(REFUSED[name])
    assert direct.code is not grpc.StatusCode.OK
    for metadata in MODES:
        assert world.on.ask(REFUSED[name], metadata=metadata) == direct


def test_a_batch_of_nothing_and_searches_without_results_are_answered_as_directly(world: World) -> None:
    empty = grpc_search("query", "clean_cosine", (), is_batch=True)
    nowhere = {"must": [{"key": "nothing", "match": {"value": "here"}}]}
    none = grpc_search(
        "query", "clean_cosine", ({"query": planted.query_vector(1), "limit": 5, "filter": nowhere},), is_batch=False
    )
    for call in (empty, none):
        assert world.on.ask(call).messages == world.engine.ask(call).messages


def test_what_is_no_search_is_answered_as_directly(world: World) -> None:
    calls: dict[str, tuple[bytes, Any]] = {
        "/qdrant.Points/Count": (b"\x0a\x0cclean_cosine\x18\x01", pb.CountResponse),
        "/qdrant.Points/Scroll": (b"\x0a\x0cclean_cosine", pb.ScrollResponse),
        "/qdrant.Points/Get": (b"\x0a\x0cclean_cosine\x12\x02\x08\x0a", pb.GetResponse),
        "/qdrant.Collections/List": (b"", pb.ListCollectionsResponse),
    }
    for method, (message, reply) in calls.items():
        direct = world.engine.raw(method, message)
        assert direct.code is grpc.StatusCode.OK
        for metadata in MODES:
            through = world.on.raw(method, message, metadata=metadata)
            # By value: the engine writes a payload in the order of a hash map.
            assert untimed(through, reply) == untimed(direct, reply)


def untimed(seen: Seen, reply: Any) -> tuple[object, ...]:
    """All but the time it took."""
    (message,) = seen.messages
    read = reply.FromString(message)
    read.ClearField("time")
    return read, seen.code, seen.initial, seen.trailing
