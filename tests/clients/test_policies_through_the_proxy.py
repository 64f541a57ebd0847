"""Policies from a configuration file, by collection and by alias, on the real engine through the proxy's own process."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from support.process import stack
from support.process.stack import exchange
from support.qdrant import planted
from support.qdrant.embedded import start_embedded_process

RULES = """
# One collection has not the vector that its rule names: each of its searches is asked again.
limits: {own_reads_share: 1.0}
rules:
  - collection: tenants
    policy: {tenant_keys: [group_id]}
  - collection: texts
    policy: {representative: longest, text_fields: [body]}
  - collection: in-mmr-order
    policy: {order: mmr, mmr: {lambda: 0.7}}
  - collection: short
    policy: {texts: none, short: allow}
  - collection: filled
    policy: {texts: none}
  - collection: always
    policy: {when: always}
  - collection: ghost
    policy: {vector: ghost}
  - collection: classic*
    preset: classical
  - collection: "*-off"
    policy: {mode: off}
"""
COLLECTIONS = (
    "tenants",
    "texts",
    "in-mmr-order",
    "short",
    "filled",
    "always",
    "ghost",
    "classical",
    "plain",
    "switched-off",
)
FAMILIES, COPIES = 12, 4
NAMED = ["oak", "birch", "maple", "pine", "cedar", "willow", "aspen", "elm", "beech", "hazel", "larch", "rowan"]
QUERY = [float(value) for value in planted.bases()[:6].sum(axis=0)]
PAYLOADS: tuple[dict[str, Any], ...] = (
    {},
    {"with_payload": True},
    {"with_payload": ["n"]},
    {"with_payload": ["body"]},
    {"with_payload": {"exclude": ["n"]}},
    {"with_payload": ["n"], "with_vector": True},
)


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, str]]:
    """The engine's, the proxy's and its admin URL; every collection holds the same points, but for the words of "ghost"."""
    file = tmp_path_factory.mktemp("settings") / "vecsieve.yaml"
    file.write_text(RULES)
    with start_embedded_process() as engine:
        client = QdrantClient(url=engine, timeout=30)
        for collection in COLLECTIONS:
            load(client, collection)
        client.update_collection_aliases([alias("plain", "plain-off"), alias("switched-off", "switched-on")])
        client.close()
        with stack.serve(engine, "--config", str(file)) as (proxy, admin):
            yield engine, proxy, admin


def load(client: QdrantClient, collection: str) -> None:
    """Copies 0 and 1 of every family are one tenant's, 2 and 3 another's; later copies have more blanks in the same text.

    In "ghost" they say more instead, no two alike.
    """

    def payload(family: int, copy: int) -> dict[str, Any]:
        return {"group_id": copy // 2, "body": body(collection, family, copy), "n": 2**63 + family}

    planted.plant(client, collection, payload, families=FAMILIES, copies=COPIES, noise=0.001)


def body(collection: str, family: int, copy: int) -> str:
    if collection == "ghost":
        return f"{NAMED[family]} stays on" + " and on" * copy
    return (" " * (copy + 1)).join((NAMED[family], "stays", "on"))


def alias(collection: str, name: str) -> models.CreateAliasOperation:
    return models.CreateAliasOperation(create_alias=models.CreateAlias(collection_name=collection, alias_name=name))


def ask(url: str, collection: str, *, limit: int = 8, **members: Any) -> list[dict[str, Any]]:
    body = json.dumps({"query": QUERY, "limit": limit, **members}).encode()
    answer = exchange(url, "POST", f"/collections/{collection}/points/query", body)
    assert answer.status == 200, answer.body
    points: list[dict[str, Any]] = json.loads(answer.body)["result"]["points"]
    return points


def families(points: list[dict[str, Any]]) -> list[int]:
    return [planted.family(point["id"]) for point in points]


@pytest.mark.parametrize("collection", COLLECTIONS)
@pytest.mark.parametrize("payload", PAYLOADS, ids=json.dumps)
def test_what_a_policy_needs_of_the_payload_never_shows(
    urls: tuple[str, str, str], collection: str, payload: dict[str, Any]
) -> None:
    engine, proxy, _ = urls
    everyone = {point["id"]: point for point in ask(engine, collection, limit=100, **payload)}
    for paging in ({}, {"offset": 4}):
        answer = ask(proxy, collection, **payload, **paging)
        assert answer == [everyone[point["id"]] for point in answer]
        assert len(answer) == 8


def test_results_of_different_tenants_never_stand_for_each_other(urls: tuple[str, str, str]) -> None:
    ids = [point["id"] for point in ask(urls[1], "tenants")]
    owners = [(identifier // 10, identifier % 10 // 2) for identifier in ids]
    assert len(set(owners)) == len(owners)
    assert max(Counter(family for family, _ in owners).values()) == 2


@pytest.mark.parametrize("payload", PAYLOADS, ids=json.dumps)
def test_the_longest_text_stands_for_its_cluster_whatever_payload_the_client_asked_for(
    urls: tuple[str, str, str], payload: dict[str, Any]
) -> None:
    answer = ask(urls[1], "texts", **payload)
    assert [point["id"] % 10 for point in answer] == [COPIES - 1] * len(answer)
    assert len(set(families(answer))) == len(answer)


def test_a_text_the_client_excluded_is_not_fetched_behind_its_back(urls: tuple[str, str, str]) -> None:
    engine, proxy, _ = urls
    hidden: dict[str, Any] = {"with_payload": {"exclude": ["body"]}}
    everyone = ask(engine, "texts", limit=100, **hidden)
    first = {planted.family(point["id"]): point for point in reversed(everyone)}
    answer = ask(proxy, "texts", **hidden)
    assert answer == [first[family] for family in families(answer)], "where no length is known, rank decides"
    assert len(set(families(answer))) == len(answer) == 8


@pytest.mark.parametrize("collection", ["in-mmr-order", "classical"])
def test_mmr_order_begins_with_the_first_and_may_leave_the_backends_order(
    urls: tuple[str, str, str], collection: str
) -> None:
    engine, proxy, _ = urls
    ranking = [point["id"] for point in ask(engine, collection, limit=100)]
    answer = ask(proxy, collection, limit=FAMILIES)
    places = [ranking.index(point["id"]) for point in answer]
    assert sorted(families(answer)) == list(range(FAMILIES))
    assert families(answer)[0] == families(ask(engine, collection))[0]
    assert places != sorted(places)


def test_a_short_page_is_short_only_where_it_is_allowed(urls: tuple[str, str, str]) -> None:
    _, proxy, _ = urls
    assert len(ask(proxy, "short", limit=30)) == FAMILIES
    assert len(ask(proxy, "short", limit=30, offset=0)) == FAMILIES
    assert len(ask(proxy, "filled", limit=30)) == 30
    assert len(ask(proxy, "plain", limit=30)) == FAMILIES, "a proven copy fills no page"


def test_always_acts_on_copies_as_redundant_does(urls: tuple[str, str, str]) -> None:
    page = families(ask(urls[1], "always"))
    assert len(set(page)) == len(page) == 8


def test_a_vector_that_does_not_exist_costs_the_improvement_and_nothing_else(urls: tuple[str, str, str]) -> None:
    engine, proxy, admin = urls
    for _ in range(3):
        for members in ({}, {"with_payload": True}, {"with_vector": True}, {"offset": 3}):
            assert ask(proxy, "ghost", **members) == ask(engine, "ghost", **members)
    metrics = exchange(admin, "GET", "/metrics").body.decode()
    assert 'vecsieve_fail_open_total{backend="qdrant",reason="not_found_vector"}' in metrics
    assert 'vecsieve_breaker_state{state="closed"} 1.0' in metrics


def test_an_answer_that_nothing_was_chosen_in_reports_no_counts(urls: tuple[str, str, str]) -> None:
    for members in ({}, {"offset": 3}):
        body = json.dumps({"query": QUERY, "limit": 8, **members}).encode()
        headers = exchange(urls[1], "POST", "/collections/ghost/points/query", body).headers
        reports = [(name.lower(), value) for name, value in headers if name.lower().startswith("x-vecsieve")]
        assert reports in ([], [("x-vecsieve", "fail_open=not_found_vector")])


def test_texts_are_compared_where_the_policys_vector_is_missing_and_nothing_was_refused(
    urls: tuple[str, str, str],
) -> None:
    # with_vector: true names no vector, so upstream does not refuse: the candidates come, without the one that is wanted.
    body = json.dumps({"query": QUERY, "limit": 8, "with_vector": True}).encode()
    answer = exchange(urls[1], "POST", "/collections/ghost/points/query", body)
    report = answer.header("x-vecsieve")
    assert report is not None
    assert "collapsed=0" in report, "the bodies of this collection differ"
    direct = exchange(urls[0], "POST", "/collections/ghost/points/query", body)
    assert answer.timeless == direct.timeless


@pytest.mark.parametrize(
    ("name", "is_improved"), [("switched-off", False), ("plain-off", False), ("switched-on", True), ("plain", True)]
)
def test_rules_are_read_by_the_name_in_the_request_be_it_an_alias(
    urls: tuple[str, str, str], name: str, is_improved: bool
) -> None:
    engine, proxy, _ = urls
    page = families(ask(proxy, name))
    assert (len(set(page)) == len(page)) is is_improved
    assert (ask(proxy, name) == ask(engine, name)) is not is_improved
