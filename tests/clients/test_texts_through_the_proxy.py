"""Texts decide what is a copy, whatever payload the client asked for; the admin port says why. Official client, real engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest
from qdrant_client import QdrantClient, models

from support.deploy.expositions import counts
from support.process import stack
from support.process.stack import exchange
from support.qdrant import planted
from support.qdrant.embedded import start_embedded_process

SECRET = "confidential"  # in every text and in no answer that was not asked for it
RULES = """
explain: {keep: 20, texts: false}
policy:
  threshold: {fixed: 0.01}
  metadata: {document: [metadata.doc], updated: [metadata.release]}
rules:
  - collection: releases
    policy: {representative: chain, chain: [recency]}
  - collection: documents
    policy: {caps: {per_document: 1}}
"""
COLLECTIONS = ("plain", "releases", "documents")
FAMILIES, COPIES = 12, 3
QUERY = [float(value) for value in planted.bases()[:6].sum(axis=0)]
SELECTIONS: tuple[Any, ...] = (
    False,
    True,
    ["n"],
    ["page_content"],
    ["metadata.doc"],
    models.PayloadSelectorInclude(include=["n"]),
    models.PayloadSelectorExclude(exclude=["n"]),
)


@pytest.fixture(scope="module")
def urls(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str, str]]:
    """The engine's, the proxy's and its admin URL."""
    file = tmp_path_factory.mktemp("settings") / "vecsieve.yaml"
    file.write_text(RULES)
    with start_embedded_process() as engine:
        for collection in COLLECTIONS:
            load(connected(engine), collection)
        with stack.serve(engine, "--config", str(file)) as (proxy, admin):
            yield engine, proxy, admin
            for url in (engine, proxy):
                connected(url).close()


def load(client: QdrantClient, collection: str) -> None:
    """Three releases of every text, as LangChain stores them; their vectors are 0.1 to 0.2 apart, far beyond the cut."""
    words = [f"word{place}" for place in range(400)]

    def payload(family: int, copy: int) -> dict[str, Any]:
        return {
            "page_content": f"{SECRET} {' '.join(words[family * 30 : family * 30 + 30])}",
            "metadata": {"doc": family // 2, "release": f"{copy + 8}.0", "note": SECRET},
            "n": copy,
        }

    planted.plant(client, collection, payload, families=FAMILIES, copies=COPIES, noise=0.06)


@cache
def connected(url: str) -> QdrantClient:
    return QdrantClient(url=url, timeout=30, check_compatibility=False)


def hits(url: str, collection: str, *, limit: int = 8, **more: Any) -> list[models.ScoredPoint]:
    return connected(url).query_points(collection, query=QUERY, limit=limit, **more).points


def explained(admin: str) -> list[dict[str, Any]]:
    answer = exchange(admin, "GET", "/explain")
    assert answer.status == 200
    assert SECRET.encode() not in answer.body
    records: list[dict[str, Any]] = json.loads(answer.body)["records"]
    return records


@pytest.mark.parametrize("collection", COLLECTIONS)
@pytest.mark.parametrize("selection", SELECTIONS, ids=str)
def test_copies_by_text_are_collapsed_and_the_payload_is_the_clients_own_selection(
    urls: tuple[str, str, str], collection: str, selection: Any
) -> None:
    engine, proxy, _ = urls
    everyone = {point.id: point for point in hits(engine, collection, limit=100, with_payload=selection)}
    points = hits(proxy, collection, with_payload=selection)
    assert points == [everyone[point.id] for point in points]
    assert len(points) == 8
    if collection != "documents":  # two texts a document: its six documents fill only six places with one each
        assert len({planted.family(int(point.id)) for point in points}) == 8


def test_without_payload_no_byte_of_it_reaches_the_client(urls: tuple[str, str, str]) -> None:
    _, proxy, _ = urls
    nothing: tuple[dict[str, Any], ...] = (
        {},
        {"with_payload": False},
        {"with_payload": []},
        {"with_payload": {"exclude": ["page_content", "metadata"]}},
    )
    for members in nothing:
        body = json.dumps({"query": QUERY, "limit": 8, **members}).encode()
        answer = exchange(proxy, "POST", "/collections/plain/points/query", body)
        assert answer.status == 200
        assert SECRET.encode() not in answer.body


def test_a_text_that_the_client_excluded_is_not_compared_and_its_search_goes_on(urls: tuple[str, str, str]) -> None:
    engine, proxy, admin = urls
    hidden = models.PayloadSelectorExclude(exclude=["page_content"])
    points = hits(proxy, "plain", with_payload=hidden)
    assert [point.id for point in points] == [point.id for point in hits(engine, "plain")]
    assert explained(admin)[0]["clusters"] > FAMILIES


def test_the_newest_release_stands_for_the_older_ones(urls: tuple[str, str, str]) -> None:
    points = hits(urls[1], "releases", with_payload=False)
    assert {int(point.id) % 10 for point in points} == {COPIES - 1}, "10.0 is newer than 9.0 and 8.0"


def test_one_result_a_document_comes_before_a_second_one(urls: tuple[str, str, str]) -> None:
    points = hits(urls[1], "documents", limit=6, with_payload=["metadata.doc"])
    assert len({point.payload["metadata"]["doc"] for point in points if point.payload}) == 6


def test_the_admin_port_says_who_was_left_out_and_why(urls: tuple[str, str, str]) -> None:
    engine, proxy, admin = urls
    points = hits(proxy, "plain", with_payload=False)
    record = explained(admin)[0]
    assert (record["operation"], record["collection"], record["top_k"]) == ("query", "plain", 8)
    assert [kept["id"] for kept in record["kept"]] == [point.id for point in points]
    ranking = [point.id for point in hits(engine, "plain", limit=100)]
    everyone = [*record["kept"], *record["left_out"]]
    assert all(ranking[entry["rank"]] == entry["id"] for entry in everyone)
    collapsed = [candidate for candidate in record["left_out"] if candidate["copy"] is not None]
    assert collapsed
    for entry in collapsed:
        copy = entry["copy"]
        assert (entry["reason"], copy["reason"], copy["similarity"]) == ("equal_text", "equal_text", 1.0)
        assert planted.family(entry["copy"]["of"]) == planted.family(entry["id"])
    standing = {kept["id"]: kept["collapsed_ids"] for kept in record["kept"]}
    assert all(entry["id"] in standing.get(entry["copy"]["of"], [entry["id"]]) for entry in collapsed)


def test_the_newest_search_comes_first_and_the_oldest_are_forgotten(urls: tuple[str, str, str]) -> None:
    _, proxy, admin = urls
    for limit in (3, 4, 5):
        hits(proxy, "plain", limit=limit)
    records = explained(admin)
    assert [record["top_k"] for record in records[:3]] == [5, 4, 3]
    assert len(records) <= 20
    assert [record["number"] for record in records] == sorted((record["number"] for record in records), reverse=True)


def test_what_was_collapsed_is_counted_by_its_reason(urls: tuple[str, str, str]) -> None:
    _, proxy, admin = urls
    hits(proxy, "plain", with_payload=False)
    collapsed = counts(admin, "candidates_collapsed_total", "reason")
    assert collapsed["equal_text"] > 0
    assert collapsed["vectors"] == 0
