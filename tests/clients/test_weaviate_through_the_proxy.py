"""Weaviate's own client against an emulator of its server, directly and through the proxy. No real server was at hand: what is
shown here is that the messages of a real client are widened, cut and passed on as they should be.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from support.grpc_asking import Seen
from support.stack import exchange
from support.weaviate_client import NEEDS_CLIENT, told
from support.weaviate_front import Place, answered, direct, fronted, plain
from support.weaviate_messages import message_type, single
from support.weaviate_model import Stored
from support.weaviate_server import Weaviate, weaviate
from support.weaviate_talks import search

# Calls that are nobody's search, or that the client has already chosen among; and what the server refuses.
LEFT_ALONE = ("list", "autocut", "group", "both", "refused", "unknown", "none", "Nowhere", "graphql")
pytestmark = NEEDS_CLIENT


@pytest.fixture(scope="module")
def server() -> Iterator[Weaviate]:
    with weaviate() as running:
        told(direct(running), "fill")
        yield running


@pytest.fixture(scope="module")
def asked(server: Weaviate) -> tuple[dict[str, Any], list[bytes]]:
    seen: dict[str, Any] = told(direct(server), "ask")
    return seen, list(server.searches)


@pytest.fixture(scope="module")
def honest(asked: tuple[dict[str, Any], list[bytes]]) -> dict[str, Any]:
    """What the client sees directly."""
    return asked[0]


@pytest.fixture(scope="module")
def sent(asked: tuple[dict[str, Any], list[bytes]]) -> list[bytes]:
    """The client's own searches, as they came over the wire."""
    seen, messages = asked
    assert len(messages) == len(seen) - 1  # all but the one over REST
    return messages


@pytest.fixture(scope="module")
def on(server: Weaviate) -> Iterator[Place]:
    with fronted(server, "on") as place:
        yield place


@pytest.fixture(scope="module")
def improved(on: Place, sent: list[bytes]) -> dict[str, Any]:
    """What it sees in mode on."""
    assert sent
    seen: dict[str, Any] = told(on, "ask")
    return seen


def of(collection: str, sent: list[bytes]) -> list[bytes]:
    """The searches of one collection."""
    return [each for each in sent if message_type("SearchRequest").FromString(each).collection == collection]


def family(identifier: str) -> int:
    return (int(identifier.replace("-", ""), 16) - 1) // 100


@pytest.mark.parametrize("mode", ["off", "shadow"])
def test_in_modes_off_and_shadow_the_client_sees_what_it_sees_directly_byte_for_byte(
    server: Weaviate, honest: dict[str, Any], sent: list[bytes], mode: str
) -> None:
    with fronted(server, mode) as place:
        assert told(place, "ask") == honest
        assert answered(place, sent) == answered(direct(server), sent)


def test_in_mode_on_a_collection_without_copies_is_answered_byte_for_byte(
    server: Weaviate, on: Place, sent: list[bytes]
) -> None:
    clean = of("Clean", sent)
    assert len(clean) >= 15
    assert plain(answered(on, clean)) == plain(answered(direct(server), clean))


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
        before, after = [[family(each["id"]) for each in seen[name]] for seen in (honest, improved)]
        assert len(set(before)) < len(before), name
        assert len(after) == len(before), name
        # The object that a search is made by stands for itself.
        assert len(set(after)) == len(after) - (name.endswith("object") and after.count(after[0]) > 1), name


def test_in_mode_on_keyword_searches_are_distinct_too(honest: dict[str, Any], improved: dict[str, Any]) -> None:
    for name in ("Copied.words", "Legacy.words", "Named.words"):
        assert len({family(each["id"]) for each in improved[name]}) == len(honest[name]) == len(improved[name])


def test_in_mode_on_each_result_is_as_upstream_has_it_and_shows_only_what_was_asked_for(
    server: Weaviate, honest: dict[str, Any], improved: dict[str, Any]
) -> None:
    stored = {(name, each.id): each for name, collection in server.collections.items() for each in collection.objects}
    for name in ours(honest):
        collection = name.partition(".")[0]
        first = honest[name][0]
        for each in improved[name]:
            one = stored[collection, each["id"]]
            assert each["properties"].items() <= one.properties.items(), name
            assert each["properties"].keys() == first["properties"].keys(), name
            assert each["metadata"].keys() == first["metadata"].keys(), name
            assert each["vector"].keys() == first["vector"].keys(), name
            assert all(vector == list(held(one, which)) for which, vector in each["vector"].items()), name


def held(stored: Stored, name: str) -> Any:
    return stored.vectors[name] if stored.vectors else stored.vector


def test_in_mode_on_results_stand_in_the_order_of_the_server(server: Weaviate, improved: dict[str, Any]) -> None:
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
        places = [ranks[each["id"]] for each in improved[name]]
        assert places == sorted(places), name


def ids(seen: Seen) -> list[str]:
    return [each.metadata.id for each in message_type("SearchReply").FromString(seen.messages[0]).results]


def test_in_mode_on_its_searches_are_counted_under_their_backends_name(on: Place, improved: dict[str, Any]) -> None:
    assert improved
    said = exchange(on.admin, "GET", "/metrics").body.decode().splitlines()
    (line,) = [each for each in said if each.startswith("vecsieve_searches_total") and 'outcome="dedup"' in each]
    assert 'backend="weaviate"' in line
    assert float(line.rpartition(" ")[2]) >= 30
