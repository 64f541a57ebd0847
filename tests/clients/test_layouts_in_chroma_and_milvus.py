"""What frameworks write into Chroma, recorded from the real libraries, and Open WebUI's rows of Milvus, replayed: as in Qdrant, no
different passage is lost, and equal texts leave.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

from support.backends.layouts import Layout, first_of_families, open_webui_row, recorded
from support.backends.passages import DIMENSION, DISTINCT, QUERY, passages
from support.chroma import server as chroma
from support.chroma.server import NEEDS_CHROMA
from support.milvus import server as milvus
from support.milvus.server import NEEDS_MILVUS
from support.process.stack import serve
from vecsieve.proxy.demo.backends import chroma_server

LIMITS = (10, 20, DISTINCT)
EVERYTHING = len(passages())
SEARCHES = 8  # as in test_layouts_of_frameworks
CHROMA = {layout.name: layout for layout in recorded("chroma")}
INCLUDES: tuple[list[str], ...] = ([], ["metadatas"], ["documents", "metadatas", "distances"])
OUTPUT_FIELDS: tuple[list[str], ...] = ([], ["metadata"], ["data", "metadata"])
WEBUI = "open_webui_knowledge"


def lost(direct: list[int], through: list[int]) -> list[str]:
    return [passages()[family].text for family in sorted(set(direct) - set(through))]


@pytest.fixture(scope="module")
def chroma_urls() -> Iterator[tuple[str, str]]:
    """The server's and the proxy's."""
    with chroma_server() as direct:
        for layout in CHROMA.values():
            chroma.create(direct, layout.name, "cosine")
            records: dict[str, Any] = {
                "ids": [point.identifier for point in layout.points],
                "embeddings": [point.passage.vector for point in layout.points],
                "metadatas": [point.payload for point in layout.points],
            }
            if layout.points[0].document is not None:
                records["documents"] = [point.document for point in layout.points]
            chroma.add(direct, layout.name, records)
        with serve(direct, "--backend", "chroma") as (proxy, _):
            yield direct, proxy


def queried(url: str, layout: Layout, include: list[str], limit: int) -> dict[str, Any]:
    """The columns of one query that have values."""
    body = {"query_embeddings": [QUERY], "n_results": limit, "include": include}
    answer = chroma.answer_to(url, "POST", f"{chroma.path_of(url, layout.name)}/query", body)
    assert answer.status == 200, answer.body
    return {column: values[0] for column, values in json.loads(answer.body).items() if values and column != "include"}


def families_of(layout: Layout, identifiers: list[str]) -> list[int]:
    of = {point.identifier: point.passage.family for point in layout.points}
    return [of[one] for one in identifiers]


@NEEDS_CHROMA
@pytest.mark.parametrize("include", INCLUDES, ids=lambda include: "+".join(include) or "nothing")
@pytest.mark.parametrize("name", CHROMA)
def test_in_chroma_no_passage_that_the_database_finds_is_lost(
    chroma_urls: tuple[str, str], name: str, include: list[str]
) -> None:
    layout, (direct, proxy) = CHROMA[name], chroma_urls
    for limit in LIMITS * 3:
        every, page = (families_of(layout, queried(url, layout, include, limit)["ids"]) for url in (direct, proxy))
        assert lost(every, page) == []
        assert len(page) == limit


@NEEDS_CHROMA
@pytest.mark.parametrize("include", INCLUDES, ids=lambda include: "+".join(include) or "nothing")
@pytest.mark.parametrize("name", CHROMA)
def test_in_chroma_equal_texts_leave_and_what_stays_is_the_databases_own(
    chroma_urls: tuple[str, str], name: str, include: list[str]
) -> None:
    layout, (direct, proxy) = CHROMA[name], chroma_urls
    for _ in range(SEARCHES):
        queried(proxy, layout, include, LIMITS[0])
    everything = queried(direct, layout, include, EVERYTHING)
    distinct = first_of_families(families_of(layout, everything["ids"]))
    for limit in LIMITS:
        expected = {column: [values[place] for place in distinct[:limit]] for column, values in everything.items()}
        assert queried(proxy, layout, include, limit) == expected


@pytest.fixture(scope="module")
def milvus_urls() -> Iterator[tuple[str, str]]:
    """The server's and the proxy's. The collection is made as Open WebUI makes it."""
    with milvus.started() as direct:
        client, kinds = milvus.connected(direct), import_module("pymilvus").DataType
        schema = client.create_schema(auto_id=False, enable_dynamic_field=True)
        schema.add_field("id", kinds.VARCHAR, is_primary=True, max_length=65535)
        schema.add_field("vector", kinds.FLOAT_VECTOR, dim=DIMENSION)
        schema.add_field("data", kinds.JSON)
        schema.add_field("metadata", kinds.JSON)
        index = client.prepare_index_params()
        index.add_index("vector", metric_type="COSINE", index_type="FLAT")
        client.create_collection(WEBUI, schema=schema, index_params=index, consistency_level="Strong")
        client.insert(WEBUI, [open_webui_row(passage) for passage in passages()])
        with serve(direct, "--backend", "milvus") as (proxy, _):
            yield direct, proxy


def searched(url: str, fields: list[str], limit: int) -> list[dict[str, Any]]:
    (hits,) = milvus.connected(url).search(WEBUI, [QUERY], limit=limit, output_fields=fields)
    return [dict(hit) for hit in hits]


def families_of_rows(hits: list[dict[str, Any]]) -> list[int]:
    of = {passage.identifier: passage.family for passage in passages()}
    return [of[hit["id"]] for hit in hits]


@NEEDS_MILVUS
@pytest.mark.parametrize("fields", OUTPUT_FIELDS, ids=lambda fields: "+".join(fields) or "nothing")
def test_in_milvus_no_passage_that_the_database_finds_is_lost(milvus_urls: tuple[str, str], fields: list[str]) -> None:
    for limit in LIMITS * 3:
        direct, page = (families_of_rows(searched(url, fields, limit)) for url in milvus_urls)
        assert lost(direct, page) == []
        assert len(page) == limit


@NEEDS_MILVUS
@pytest.mark.parametrize("fields", OUTPUT_FIELDS, ids=lambda fields: "+".join(fields) or "nothing")
def test_in_milvus_equal_texts_leave_and_what_stays_is_the_databases_own(
    milvus_urls: tuple[str, str], fields: list[str]
) -> None:
    direct, proxy = milvus_urls
    for _ in range(SEARCHES):
        searched(proxy, fields, LIMITS[0])
    everything = searched(direct, fields, EVERYTHING)
    distinct = first_of_families(families_of_rows(everything))
    for limit in LIMITS:
        assert searched(proxy, fields, limit) == [everything[place] for place in distinct[:limit]]
