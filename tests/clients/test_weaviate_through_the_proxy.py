"""Weaviate's own client, directly and through the proxy: against an emulator of its server, or against the real one where
WEAVIATE_SERVER names its program (`make real-servers`).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.deploy.expositions import counted
from support.grpc.calls import Seen
from support.process import real_servers
from support.weaviate.client import NEEDS_CLIENT, client_output
from support.weaviate.conversations import search
from support.weaviate.front import Place, Server, answered, direct, fronted, plain
from support.weaviate.messages import message_type, single
from support.weaviate.replies import settled
from support.weaviate.server import weaviate

# Calls that are nobody's search, or that the client has already chosen among; and what the server refuses.
LEFT_ALONE = ("list", "autocut", "group", "both", "refused", "unknown", "none", "Nowhere", "graphql")
pytestmark = NEEDS_CLIENT


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    program = real_servers.program(real_servers.WEAVIATE)
    with weaviate() if program is None else real_servers.weaviate(program) as running:
        client_output(direct(running), "fill")
        yield running


@pytest.fixture(scope="module")
def honest(server: Server) -> dict[str, Any]:
    """What the client sees directly."""
    seen: dict[str, Any] = client_output(direct(server), "ask")
    return seen


@pytest.fixture(scope="module")
def sent() -> list[bytes]:
    """The client's own searches, as they came over the wire; the emulator writes them down."""
    with weaviate() as emulator:
        client_output(direct(emulator), "fill")
        seen = client_output(direct(emulator), "ask")
    assert len(emulator.searches) == len(seen) - 1  # all but the one over REST
    return emulator.searches


@pytest.fixture(scope="module")
def on(server: Server) -> Iterator[Place]:
    with fronted(server, "on") as place:
        yield place


@pytest.fixture(scope="module")
def improved(on: Place, sent: list[bytes]) -> dict[str, Any]:
    """What it sees in mode on."""
    assert sent
    seen: dict[str, Any] = client_output(on, "ask")
    return seen


def of(collection: str, sent: list[bytes]) -> list[bytes]:
    """The searches of one collection."""
    return [message for message in sent if message_type("SearchRequest").FromString(message).collection == collection]


def family(identifier: str) -> int:
    return (int(identifier.replace("-", ""), 16) - 1) // 100


@pytest.mark.parametrize("mode", ["off", "shadow"])
def test_in_modes_off_and_shadow_the_client_sees_what_it_sees_directly_byte_for_byte(
    server: Server, honest: dict[str, Any], sent: list[bytes], mode: str
) -> None:
    with fronted(server, mode) as place:
        assert client_output(place, "ask") == honest
        assert list(map(settled, answered(place, sent))) == list(map(settled, answered(direct(server), sent)))


def test_in_mode_on_a_collection_without_copies_is_answered_byte_for_byte(
    server: Server, on: Place, sent: list[bytes]
) -> None:
    clean = of("Clean", sent)
    assert len(clean) >= 15
    assert plain(map(settled, answered(on, clean))) == plain(map(settled, answered(direct(server), clean)))


def test_in_mode_on_what_is_not_ours_and_what_is_refused_is_as_directly(
    honest: dict[str, Any], improved: dict[str, Any]
) -> None:
    alone = [name for name in honest if name.startswith("Clean") or any(word in name for word in LEFT_ALONE)]
    assert len(alone) >= 24
    assert {name: improved[name] for name in alone} == {name: honest[name] for name in alone}


def ours(honest: dict[str, Any]) -> list[str]:
    return [
        name
        for name in honest
        if not name.startswith("Clean") and not any(word in name for word in LEFT_ALONE) and ".words" not in name
    ]


def test_in_mode_on_copies_are_collapsed_and_pages_are_full(honest: dict[str, Any], improved: dict[str, Any]) -> None:
    names = ours(honest)
    assert len(names) >= 20
    for name in names:
        before, after = [[family(result["id"]) for result in seen[name]] for seen in (honest, improved)]
        assert len(set(before)) < len(before), name
        assert len(after) == len(before), name
        # The object that a search is made by stands for itself.
        assert len(set(after)) == len(after) - (name.endswith("object") and after.count(after[0]) > 1), name


def test_in_mode_on_keyword_searches_are_distinct_too(honest: dict[str, Any], improved: dict[str, Any]) -> None:
    for name in ("Copied.words", "Legacy.words", "Named.words"):
        assert len({family(result["id"]) for result in improved[name]}) == len(honest[name]) == len(improved[name])


def test_in_mode_on_each_result_is_as_upstream_has_it_and_shows_only_what_was_asked_for(
    honest: dict[str, Any], improved: dict[str, Any]
) -> None:
    stored = {
        (hit["collection"], hit["id"]): hit
        for name, page in honest.items()
        if name.endswith(".list of all")
        for hit in page
    }
    for name in ours(honest):
        first = honest[name][0]
        for result in improved[name]:
            one = stored[result["collection"], result["id"]]
            assert result["properties"].items() <= one["properties"].items(), name
            assert result["vector"].items() <= one["vector"].items(), name
            for member in ("properties", "metadata", "vector"):
                assert result[member].keys() == first[member].keys(), name


def test_in_mode_on_results_stand_in_the_order_of_the_server(server: Server, improved: dict[str, Any]) -> None:
    for name in ("Copied.vector", "Legacy.vector", "Named.a", "Shared.left"):
        near = {"targets": {"target_vectors": ["a"]}} if name == "Named.a" else {}
        query = [0.9**place for place in range(16)]
        whole = search(
            collection=name.partition(".")[0],
            tenant="left" if name == "Shared.left" else None,
            limit=100,
            metadata={"uuid": True},
            near_vector={"vectors": [single(query)], **near},
        )
        ranks = {one: rank for rank, one in enumerate(ids(answered(direct(server), [whole])[0]))}
        places = [ranks[result["id"]] for result in improved[name]]
        assert places == sorted(places), name


def ids(seen: Seen) -> list[str]:
    return [result.metadata.id for result in message_type("SearchReply").FromString(seen.messages[0]).results]


def test_in_mode_on_its_searches_are_counted_under_their_backends_name(on: Place, improved: dict[str, Any]) -> None:
    assert improved
    assert counted(on.admin, "searches_total", outcome="dedup", backend="weaviate") >= 30
