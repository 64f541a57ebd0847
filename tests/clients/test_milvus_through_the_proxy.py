"""Milvus's own client against the real Milvus Lite: directly and through the proxy, on one port as Milvus has it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from support.deploy.expositions import counted
from support.milvus import server as milvus
from support.milvus.server import NEEDS_MILVUS, SPACES, TOP_K, connected, near
from support.process.stack import serve

pytestmark = NEEDS_MILVUS

BACKEND = ("--backend", "milvus")
FIELDS: list[list[str]] = [[], ["text"], ["vec"], ["text", "vec"], ["*"], ["tag"], ["text", "tag", "id"], ["nobody"]]


@pytest.fixture(scope="module")
def direct() -> Iterator[str]:
    with milvus.planted() as url:
        yield url


@pytest.fixture(scope="module")
def on(direct: str) -> Iterator[tuple[str, str]]:
    with serve(direct, *BACKEND, "--mode", "on") as urls:
        yield urls


@pytest.fixture(scope="module", params=["off", "shadow"])
def silent(request: pytest.FixtureRequest, direct: str) -> Iterator[str]:
    with serve(direct, *BACKEND, "--mode", request.param) as (url, _):
        yield url


def rows(url: str, name: str, *seeds: int, **options: Any) -> list[list[dict[str, Any]]]:
    """A search's hits as plain data."""
    options.setdefault("limit", TOP_K)
    lists = connected(url).search(name, [near(seed) for seed in seeds or (1,)], **options)
    return [[dict(hit) for hit in hits] for hits in lists]


def bases(hits: list[dict[str, Any]]) -> set[int]:
    return {hit["id"] // 10 for hit in hits}


@pytest.mark.parametrize("name", ["clean_L2", "copied_COSINE", "copied_IP"])
@pytest.mark.parametrize("fields", FIELDS, ids=lambda fields: "+".join(fields) or "nothing")
def test_in_modes_off_and_shadow_the_client_sees_what_it_sees_directly(
    direct: str, silent: str, name: str, fields: list[str]
) -> None:
    options = {"output_fields": fields}
    assert rows(silent, name, 1, 2, 3, **options) == rows(direct, name, 1, 2, 3, **options)


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("fields", FIELDS, ids=lambda fields: "+".join(fields) or "nothing")
def test_in_mode_on_clean_data_is_as_directly_whatever_is_asked_for(
    direct: str, on: tuple[str, str], space: str, fields: list[str]
) -> None:
    before = counted(on[1], "searches_total", outcome="dedup")
    options = {"output_fields": fields}
    assert rows(on[0], f"clean_{space}", 1, 2, **options) == rows(direct, f"clean_{space}", 1, 2, **options)
    assert counted(on[1], "searches_total", outcome="dedup") == before + 1


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("fields", FIELDS, ids=lambda fields: "+".join(fields) or "nothing")
def test_in_mode_on_copied_data_is_distinct_in_order_and_full_with_the_fields_that_were_asked_for(
    direct: str, on: tuple[str, str], space: str, fields: list[str]
) -> None:
    name, options = f"copied_{space}", {"output_fields": fields}
    everything = rows(direct, name, 1, 2, 3, limit=milvus.BASES * milvus.COPIES, **options)
    answer = rows(on[0], name, 1, 2, 3, **options)
    for ranking, page in zip(everything, answer, strict=True):
        assert len(bases(ranking[:TOP_K])) < TOP_K, "the copies stand side by side"
        assert len(bases(page)) == len(page) == TOP_K
        assert page == [hit for hit in ranking if hit in page], "every field as asked directly, in that order"
        assert page[0] == ranking[0]


def test_pages_never_repeat_and_never_skip(on: tuple[str, str]) -> None:
    pages = [rows(on[0], "copied_COSINE", 4, limit=4, offset=offset, output_fields=["text"])[0] for offset in (0, 4, 8)]
    assert [len(page) for page in pages] == [4, 4, 4]
    assert len(set().union(*map(bases, pages))) == 12


@milvus.NEEDS_TWO_VECTORS
def test_a_hybrid_search_keeps_its_scores_and_loses_its_copies(direct: str, on: tuple[str, str]) -> None:
    pymilvus = import_module("pymilvus")

    def hybrid(url: str, limit: int) -> list[dict[str, Any]]:
        parts = [
            pymilvus.AnnSearchRequest([near(5)], field, {"metric_type": "COSINE"}, limit=40)
            for field in ("vec", "other")
        ]
        hits = connected(url).hybrid_search("twofold", parts, pymilvus.RRFRanker(), limit=limit, output_fields=["text"])
        return [dict(hit) for hit in hits[0]]

    page, everything = hybrid(on[0], 6), hybrid(direct, 80)
    assert len(bases(page)) == len(page) == 6
    assert len(bases(everything[:6])) < 6
    assert page == [hit for hit in everything if hit in page]


@milvus.NEEDS_TWO_VECTORS
def test_the_named_one_of_two_vector_fields_is_compared(direct: str, on: tuple[str, str]) -> None:
    page = rows(on[0], "twofold", 2, anns_field="other", output_fields=["text"])[0]
    ranking = rows(direct, "twofold", 2, anns_field="other", output_fields=["text"], limit=96)[0]
    assert len(bases(page)) == TOP_K
    assert page == [hit for hit in ranking if hit in page]


@pytest.mark.parametrize(
    "extra",
    [
        {"group_by_field": "base"},
        {"search_params": {"params": {"radius": 0.1, "range_filter": 0.9}}},
        {"limit": 1},
        {"filter": "base < 3"},
    ],
    ids=["groups", "range", "one", "filter"],
)
def test_what_is_left_alone_is_as_directly(direct: str, on: tuple[str, str], extra: dict[str, Any]) -> None:
    options = {"output_fields": ["text"], **extra}
    name = "clean_COSINE" if "filter" in extra else "copied_COSINE"
    assert rows(on[0], name, **options) == rows(direct, name, **options)


def test_an_iterator_reads_every_row_once(on: tuple[str, str]) -> None:
    walk = connected(on[0]).search_iterator(
        "copied_COSINE", [near(1)], batch_size=20, limit=90, output_fields=["text"], search_params={"params": {}}
    )
    seen: list[int] = []
    for _ in range(12):  # an iterator that never ends would be a find, not a hang
        batch = walk.next()
        if not batch:
            break
        seen += [hit["id"] for hit in batch]
    walk.close()
    assert len(seen) == len(set(seen)) == 90


def test_errors_are_the_servers_own(direct: str, on: tuple[str, str]) -> None:
    def refused(url: str) -> str:
        with pytest.raises(import_module("pymilvus").MilvusException) as caught:
            rows(url, "no_such_collection")
        return str(caught.value)

    assert refused(on[0]) == refused(direct)


def test_what_a_collection_is_like_is_asked_once_and_not_for_every_search(on: tuple[str, str]) -> None:
    rows(on[0], "clean_L2")
    before = counted(on[1], "upstream_request_duration_seconds_count", attempt="lookup")
    for seed in range(5):
        rows(on[0], "clean_L2", seed)
    assert counted(on[1], "upstream_request_duration_seconds_count", attempt="lookup") == before


def test_writes_arrive_once_and_are_read_back(direct: str, on: tuple[str, str]) -> None:
    client = connected(on[0])
    row = {**milvus.rows(1, second=False)[0], "id": 999_999}
    assert client.insert("clean_L2", [row])["insert_count"] == 1
    assert connected(direct).get("clean_L2", 999_999)[0]["text"] == row["text"]
    client.delete("clean_L2", ids=[999_999])
    assert connected(direct).get("clean_L2", 999_999) == []


@pytest.mark.deep
def test_an_idle_client_that_pings_every_ten_seconds_is_not_sent_away(on: tuple[str, str]) -> None:
    """A default gRPC server ends such a connection after 131 s (GOAWAY, too_many_pings); here 160 s change nothing."""
    rows(on[0], "clean_COSINE")
    time.sleep(160)
    assert rows(on[0], "clean_COSINE")[0]
