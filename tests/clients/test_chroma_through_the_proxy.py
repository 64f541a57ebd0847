"""Chroma's own client, sync and asyncio, against the real server: directly and through the proxy.

Results are compared parsed: the server writes the keys of a record's metadata in another order every time.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import numpy as np
import pytest

from support.backends.families import floats
from support.chroma import server as chroma
from support.chroma.server import COLUMNS, NEEDS_CHROMA, SPACES, TOP_K, answer_to, family, near, plain
from support.deploy.expositions import counted
from support.process.stack import Answer, exchange, serve
from vecsieve.proxy.demo.backends import COLLECTIONS

pytestmark = NEEDS_CHROMA

BACKEND = ("--backend", "chroma")
INCLUDES = [list(some) for count in range(len(COLUMNS) + 1) for some in combinations(COLUMNS, count)]
ALL = list(COLUMNS)
EVERYTHING = chroma.BASES * chroma.COPIES


@pytest.fixture(scope="module")
def direct() -> Iterator[str]:
    with chroma.planted() as url:
        yield url


@pytest.fixture(scope="module")
def on(direct: str) -> Iterator[tuple[str, str]]:
    with serve(direct, *BACKEND, "--mode", "on") as urls:
        yield urls


@pytest.fixture(scope="module", params=["off", "shadow"])
def silent(request: pytest.FixtureRequest, direct: str) -> Iterator[str]:
    with serve(direct, *BACKEND, "--mode", request.param) as (url, _):
        yield url


def columns_of(url: str, name: str, **query: Any) -> dict[str, Any]:
    """A query by the sync client, by one vector unless others are given."""
    query.setdefault("query_embeddings", [near(1)])
    return plain(chroma.connected(url).get_collection(name).query(**query))


def refused(url: str, name: str, **query: Any) -> tuple[str, str]:
    with pytest.raises(Exception) as caught:  # noqa: PT011 - whatever the client makes of it is what its caller sees
        columns_of(url, name, **query)
    return type(caught.value).__name__, str(caught.value)


def raw(url: str, name: str, body: dict[str, Any]) -> Answer:
    return answer_to(url, "POST", f"{chroma.path_of(url, name)}/query", body)


def rows(result: dict[str, Any], search: int = 0) -> list[dict[str, Any]]:
    """The results of one search, each with what its columns have for it."""
    columns = {name: result[name][search] for name in ("ids", *COLUMNS) if result[name] is not None}
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


@pytest.mark.parametrize("name", ["clean-l2", "copied-cosine", "copied-ip"])
def test_in_modes_off_and_shadow_the_client_sees_what_it_sees_directly(direct: str, silent: str, name: str) -> None:
    several = [near(1), near(2), near(3)]
    for include in INCLUDES[::3]:
        query = {"query_embeddings": several, "n_results": TOP_K, "include": include}
        assert columns_of(silent, name, **query) == columns_of(direct, name, **query)


@pytest.mark.parametrize("include", [[], ["documents", "distances"], ["embeddings"], ["uris", "uris", "documents"]])
def test_in_modes_off_and_shadow_the_bytes_are_the_servers(direct: str, silent: str, include: list[str]) -> None:
    body = {"query_embeddings": [near(1)], "n_results": TOP_K, "include": include}
    assert raw(silent, "copied-l2", body).body == raw(direct, "copied-l2", body).body


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("include", INCLUDES, ids=lambda include: "+".join(include) or "nothing")
def test_in_mode_on_clean_data_is_as_directly_whatever_is_included(
    direct: str, on: tuple[str, str], space: str, include: list[str]
) -> None:
    query = {"query_embeddings": [near(1), near(2)], "n_results": TOP_K, "include": include}
    assert columns_of(on[0], f"clean-{space}", **query) == columns_of(direct, f"clean-{space}", **query)


@pytest.mark.parametrize("include", [[], ["documents", "distances"], ["embeddings"], ["uris", "uris", "documents"]])
def test_in_mode_on_clean_data_comes_in_the_servers_own_bytes(
    direct: str, on: tuple[str, str], include: list[str]
) -> None:
    for body in (
        {"query_embeddings": [near(4)], "include": include},
        {"include": include, "query_embeddings": [near(5)]},
    ):
        answer = raw(on[0], "clean-l2", body)
        assert answer.header("x-vecsieve") is not None
        assert answer.body == raw(direct, "clean-l2", body).body


def test_a_query_that_says_nothing_of_what_to_include_gets_what_the_server_includes(
    direct: str, on: tuple[str, str]
) -> None:
    body = {"query_embeddings": [near(6)]}
    through, original = (raw(url, "clean-l2", body) for url in (on[0], direct))
    assert through.header("x-vecsieve") is not None
    assert json.loads(through.body) == json.loads(original.body)
    assert list(json.loads(through.body)) == list(json.loads(original.body))


@pytest.mark.parametrize("space", SPACES)
def test_in_mode_on_copied_data_is_distinct_in_order_and_full(direct: str, on: tuple[str, str], space: str) -> None:
    name, several = f"copied-{space}", [near(1), near(2), near(3)]
    original = columns_of(direct, name, query_embeddings=several, n_results=EVERYTHING, include=ALL)
    answer = columns_of(on[0], name, query_embeddings=several, n_results=TOP_K, include=ALL)
    assert answer["included"] == original["included"]
    for search in range(len(several)):
        everything, page = rows(original, search), rows(answer, search)
        assert len({family(row["ids"]) for row in everything[:TOP_K]}) < TOP_K, "the copies stand side by side"
        assert len({family(row["ids"]) for row in page}) == len(page) == TOP_K
        assert page == [row for row in everything if row in page], "every cell as asked directly, in that order"
        assert page[0] == everything[0]


@pytest.mark.parametrize("include", INCLUDES[::5], ids=lambda include: "+".join(include) or "nothing")
def test_in_mode_on_a_client_gets_the_columns_it_asked_for_and_no_other(
    direct: str, on: tuple[str, str], include: list[str]
) -> None:
    body = {"query_embeddings": [near(1)], "n_results": TOP_K, "include": include}
    answer, original = (json.loads(raw(url, "copied-cosine", body).body) for url in (on[0], direct))
    assert list(answer) == list(original)
    assert answer["include"] == include
    assert {name: column is None for name, column in answer.items()} == {
        name: original[name] is None for name in original
    }
    assert len({family(identifier) for identifier in answer["ids"][0]}) == TOP_K


def test_a_filter_holds_and_named_records_are_searched_among_themselves(direct: str, on: tuple[str, str]) -> None:
    page = columns_of(on[0], "copied-l2", n_results=5, where={"tag": "t1"})
    assert {metadata["tag"] for metadata in page["metadatas"][0]} == {"t1"}
    assert len({family(one) for one in page["ids"][0]}) == 5
    named = [f"f{base}-{copy}" for base in range(6) for copy in range(3)]
    chosen = columns_of(on[0], "copied-l2", n_results=6, ids=named)["ids"][0]
    assert {family(one) for one in chosen} == {f"f{base}" for base in range(6)}
    few = {"n_results": 5, "ids": ["f1-0", "f1-1"]}
    assert columns_of(on[0], "copied-l2", **few) == columns_of(direct, "copied-l2", **few)
    nobody = {"n_results": 5, "where": {"tag": "nobody"}}
    assert columns_of(on[0], "copied-l2", **nobody) == columns_of(direct, "copied-l2", **nobody)


def test_records_without_a_text_are_told_apart_by_their_vectors(on: tuple[str, str]) -> None:
    page = columns_of(on[0], "copied-l2", query_embeddings=[floats(chroma.bases()[3])], n_results=4)
    assert page["documents"][0][0] is None
    assert len({family(one) for one in page["ids"][0]}) == 4


@pytest.mark.parametrize("space", SPACES)
def test_an_approximate_index_answers_as_directly_while_no_more_is_asked_for_than_it_looks_at_anyway(
    direct: str, on: tuple[str, str], space: str
) -> None:
    """3,000 vectors without structure, the index's worst case; ``ef_search`` is 100, and so is what may be asked for.

    256 dimensions, so that no two are near: of 48 some pair was within half the typical distance, and rightly made one.
    """
    rng, name = np.random.default_rng(5), f"many-{space}"
    chroma.create(direct, name, space)
    vectors = [floats(row) for row in rng.normal(size=(3000, 256))]
    for start in range(0, len(vectors), 1000):
        ids = [f"r{row}" for row in range(start, start + 1000)]
        chroma.add(direct, name, {"ids": ids, "embeddings": vectors[start : start + 1000]})
    for n_results in (5, 10, 40):
        queries = [floats(row) for row in rng.normal(size=(10, 256))]
        query = {"query_embeddings": queries, "n_results": n_results, "include": ["distances"]}
        assert columns_of(on[0], name, **query) == columns_of(direct, name, **query)


def test_more_than_there_is_gives_all_there_is(direct: str, on: tuple[str, str]) -> None:
    query = {"n_results": 90, "include": ["distances"]}
    assert columns_of(on[0], "clean-ip", **query) == columns_of(direct, "clean-ip", **query)


@pytest.mark.parametrize(
    "query",
    [
        {"query_embeddings": [[1.0, 2.0]], "n_results": 3},
        {"n_results": 3, "where": {"$nonsense": 1}},
    ],
)
def test_a_query_that_is_refused_is_refused_in_the_servers_words(
    direct: str, on: tuple[str, str], query: dict[str, Any]
) -> None:
    assert refused(on[0], "clean-l2", **query) == refused(direct, "clean-l2", **query)


@pytest.mark.parametrize(
    "body",
    [
        b'{"query_embeddings":[[1.0]],"n_results":-1}',
        b'{"query_embeddings":[[1.0]],"n_results":"5"}',
        b'{"query_embeddings":["AAAA"],"n_results":5}',
        b'{"query_embeddings":[[1.0]],"include":["data"]}',
        b'{"query_embeddings":[[1.0]],"include":null}',
        b'{"query_embeddings":[],"n_results":5}',
        b'{"n_results":5}',
        b"[]",
        b"{",
    ],
)
def test_an_odd_request_is_answered_as_the_server_answers_it(direct: str, on: tuple[str, str], body: bytes) -> None:
    path = f"{chroma.path_of(direct, 'clean-l2')}/query"
    through, original = (exchange(url, "POST", path, body) for url in (on[0], direct))
    assert (through.status, through.body) == (original.status, original.body)


def test_everything_else_passes_through_search_included(direct: str, on: tuple[str, str]) -> None:
    def story(url: str, name: str) -> list[Any]:
        client = chroma.connected(url)
        made = client.create_collection(name, embedding_function=None)
        made.add(ids=["a", "b", "c"], embeddings=[[1, 0], [0, 1], [1, 1]], documents=["x", "y", "z"])
        made.update(ids=["a"], embeddings=[[1, 0.5]], documents=["x2"], metadatas=[{"n": 1}])
        made.upsert(ids=["d"], embeddings=[[2, 2]])
        made.delete(ids=["b"])
        seen = [made.count(), plain(made.get(include=["embeddings", "documents"])), plain(made.peek(2))]
        seen.append(answer_to(url, "POST", f"{chroma.path_of(url, name)}/search", {"searches": []}).status)
        client.delete_collection(name)
        seen.append(answer_to(url, "GET", f"{COLLECTIONS}/{name}").status)
        return seen

    assert story(on[0], "written-here") == story(direct, "written-there")


async def test_the_asyncio_client_sees_the_same(direct: str, on: tuple[str, str], silent: str) -> None:
    async def seen(url: str, name: str, **query: Any) -> dict[str, Any]:
        collection = await (await chroma.connected_async(url)).get_collection(name)
        return plain(await collection.query(query_embeddings=[near(1), near(2)], **query))

    original = await seen(direct, "clean-cosine", n_results=TOP_K, include=ALL)
    assert await seen(on[0], "clean-cosine", n_results=TOP_K, include=ALL) == original
    assert await seen(silent, "clean-cosine", n_results=TOP_K, include=ALL) == original
    page = await seen(on[0], "copied-cosine", n_results=TOP_K)
    assert [len({family(one) for one in ids}) for ids in page["ids"]] == [TOP_K, TOP_K]


def test_nothing_of_ours_failed_on_the_way(direct: str) -> None:
    with serve(direct, *BACKEND, "--mode", "on") as (url, admin):
        for name in ("clean-l2", "copied-ip"):
            columns_of(url, name, query_embeddings=[near(seed) for seed in range(5)], include=ALL)
        assert counted(admin, "searches_total", backend="chroma", outcome="dedup") == 2
        assert counted(admin, "fail_open_total") == 0
