"""Weaviate's messages through the proxy, byte by byte, against an emulator. The real server: tests/real_servers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from support.grpc.stack import Asker
from support.process.stack import exchange
from support.weaviate.conversations import search
from support.weaviate.front import Place, answered, direct, fronted, plain
from support.weaviate.messages import message_type
from support.weaviate.planted import NEAR, TOP_K, UUID, family, ids, planted, searches
from support.weaviate.server import GRAPHQL, Weaviate


@pytest.fixture(scope="module")
def server() -> Iterator[Weaviate]:
    with planted() as running:
        yield running


@pytest.fixture(scope="module")
def on(server: Weaviate) -> Iterator[Place]:
    with fronted(server, "on") as place:
        yield place


def ids_of_search(place: Place, **fields: Any) -> list[str]:
    """The identifiers that a search brings."""
    (seen,) = answered(place, [search(**{**NEAR, "metadata": UUID, "limit": TOP_K, **fields})])
    assert seen.code is grpc.StatusCode.OK, seen.details
    return ids(seen.messages[0])


def families(identifiers: list[str]) -> int:
    return len({family(identifier) for identifier in identifiers})


@pytest.mark.parametrize("mode", ["off", "shadow"])
def test_in_modes_off_and_shadow_every_answer_is_the_servers_own(server: Weaviate, mode: str) -> None:
    with fronted(server, mode) as place:
        assert answered(place, searches()) == answered(direct(server), searches())


def test_in_mode_on_what_holds_no_copies_or_is_refused_is_the_servers_own(server: Weaviate, on: Place) -> None:
    clean = [request_bytes for request_bytes in searches() if b"Copied" not in request_bytes]
    assert len(clean) >= 14
    assert plain(answered(on, clean)) == plain(answered(direct(server), clean))


def test_in_mode_on_copies_are_collapsed_in_the_order_of_the_server(server: Weaviate, on: Place) -> None:
    ranks = {
        identifier: rank
        for rank, identifier in enumerate(ids_of_search(direct(server), collection="Copied", limit=100))
    }
    page = ids_of_search(on, collection="Copied")
    assert families(page) == len(page) == TOP_K > families(ids_of_search(direct(server), collection="Copied"))
    assert page == sorted(page, key=lambda identifier: ranks[identifier])


def test_pages_neither_repeat_nor_skip(on: Place) -> None:
    pages = [ids_of_search(on, collection="Copied", limit=4, offset=offset) for offset in (0, 4, 8)]
    whole = [identifier for page in pages for identifier in page]
    assert families(whole) == len(whole) == 12


@pytest.mark.parametrize("target", ["a", "b"])
def test_of_named_vectors_the_one_that_is_searched_is_compared_and_not_shown(on: Place, target: str) -> None:
    near = {**NEAR["near_vector"], "targets": {"target_vectors": [target]}}
    message = search(collection="Named", limit=TOP_K, metadata=UUID, near_vector=near)
    (seen,) = answered(on, [message])
    assert families(ids(seen.messages[0])) == TOP_K
    results = message_type("SearchReply").FromString(seen.messages[0]).results
    assert all([name.name for name, _ in result.metadata.ListFields()] == ["id", "id_as_bytes"] for result in results)


@pytest.mark.parametrize("default", [10, 25])
def test_a_search_without_a_limit_is_as_long_as_the_servers_own_default(server: Weaviate, default: int) -> None:
    collection = server.collections["Copied"]
    collection.default_limit = default
    try:
        with fronted(server, "on") as place:
            page = ids_of_search(place, collection="Copied", limit=None)
    finally:
        collection.default_limit = 10
    assert families(page) == len(page) == min(default, 16)  # 16 texts, and none of them twice


def test_a_search_without_a_limit_is_left_alone_where_the_default_cannot_be_told(server: Weaviate, on: Place) -> None:
    server.collections["Small"] = small = type(server.collections["Copied"])(name="Small", properties=("text",))
    small.objects.extend(server.collections["Copied"].objects[:8])
    assert ids_of_search(on, collection="Small", limit=None) == ids_of_search(
        direct(server), collection="Small", limit=None
    )


def test_a_rule_names_a_tenant_behind_its_collection(server: Weaviate, tmp_path: Path) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(
        "policy: {mode: on}\nrules: [{collection: Shared/left, policy: {mode: 'off'}}]\n", encoding="utf-8"
    )
    with fronted(server, None, "--config", str(rules)) as place:
        left, right = (ids_of_search(place, collection="Shared", tenant=tenant) for tenant in ("left", "right"))
    assert left == ids_of_search(direct(server), collection="Shared", tenant="left")
    assert families(right) == TOP_K > families(left)


def test_tenant_keys_are_read_where_the_client_wants_other_properties_and_are_not_shown(
    server: Weaviate, tmp_path: Path
) -> None:
    settings = tmp_path / "tenants.yaml"
    settings.write_text("policy: {tenant_keys: [source]}\n", encoding="utf-8")
    fields: dict[str, Any] = {**NEAR, "metadata": UUID, "properties": {"non_ref_properties": ["number"]}}
    with fronted(server, "on", "--config", str(settings)) as place:
        (seen,) = answered(place, [search(collection="Copied", limit=TOP_K, **fields)])
    results = message_type("SearchReply").FromString(seen.messages[0]).results
    assert [set(result.properties.non_ref_props.fields) for result in results] == [{"number"}] * TOP_K
    owners = {stored.id: stored.properties["source"] for stored in server.collections["Copied"].objects}
    pairs = [(family(identifier), owners[identifier]) for identifier in ids(seen.messages[0])]
    assert len(set(pairs)) == TOP_K > len({name for name, _ in pairs})  # of two owners' copies both stay


def test_one_call_may_choose_for_itself_and_the_answer_says_what_was_done(server: Weaviate, on: Place) -> None:
    message = [search(collection="Copied", limit=TOP_K, **NEAR)]
    plainly = answered(direct(server), message)
    assert answered(on, message, (("x-vecsieve-mode", "off"),)) == plainly
    (seen,) = answered(on, message)
    assert dict(seen.initial).keys() - dict(plainly[0].initial).keys() == {"x-vecsieve"}


@pytest.mark.parametrize("target", ["/v1/meta", "/v1/.well-known/openid-configuration", "/v1/schema/Nothing"])
def test_answers_over_rest_come_as_they_are(server: Weaviate, on: Place, target: str) -> None:
    one, other = exchange(server.url, "GET", target), exchange(on.rest, "GET", target)
    assert (one.status, one.body) == (other.status, other.body)


def test_graphql_is_passed_through(on: Place) -> None:
    assert exchange(on.rest, "POST", "/v1/graphql", b'{"query":"{Get{Docs{text}}}"}').body == GRAPHQL


def test_a_method_nobody_knows_is_refused_by_the_server_itself(on: Place) -> None:
    with Asker(on.grpc) as asker:
        seen = asker.raw("/weaviate.v1.Weaviate/Aggregate", b"")
    assert (seen.code, seen.details) == (grpc.StatusCode.UNIMPLEMENTED, "unknown method")
