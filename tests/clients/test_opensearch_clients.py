"""opensearch-py and elasticsearch, sync and asyncio, directly and through the proxy in every mode: against the server of the tests, or real
nodes where OPENSEARCH_SERVER and ELASTICSEARCH_SERVER name them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prove.search_nodes import started
from prove.search_requests import BASES, CLEAN, COPIED, bases, family
from servers.opensearch.store import Product

from support.process.stack import exchange, serve

TOP_K = 8
MODES = ("off", "shadow", "on")
VECTOR = [round(float(value), 5) for value in np.geomspace(1.0, 0.1, BASES) @ bases()]
PRODUCTS = {
    Product.OPENSEARCH: ("opensearchpy", "OpenSearch"),
    Product.ELASTICSEARCH: ("elasticsearch", "Elasticsearch"),
}
World = dict[str, str]


@pytest.fixture(scope="module", params=Product, ids=lambda product: product.value)
def world(request: pytest.FixtureRequest) -> Iterator[tuple[Product, World]]:
    """The URLs of the server and of a proxy in each mode."""
    product = request.param
    with ExitStack() as opened:
        url = opened.enter_context(started(product))
        proxies = {
            mode: opened.enter_context(serve(url, "--backend", product.value, "--mode", mode))[0] for mode in MODES
        }
        yield product, {"direct": url, **proxies}


def client(product: Product, url: str, **options: Any) -> Any:
    """The product's own client. It does not ask again, so that each of its requests is seen."""
    package, name = PRODUCTS[product]
    return getattr(import_module(package), name)(url, max_retries=0, **options)


def nearest(product: Product, **more: Any) -> dict[str, Any]:
    """A search's arguments."""
    if product is Product.OPENSEARCH:
        return {"body": {"query": {"knn": {"v": {"vector": VECTOR, "k": 2 * TOP_K}}}, "size": TOP_K, **more}}
    clause = {"field": "v", "query_vector": VECTOR, "k": 2 * TOP_K, "num_candidates": 100}
    return {
        "knn": clause,
        "size": TOP_K,
        **{"from_" if name == "from" else name: value for name, value in more.items()},
    }


def searches(product: Product) -> dict[str, dict[str, Any]]:
    """Arguments of searches by vectors that the client may send."""
    variants: dict[str, dict[str, Any]] = {
        "all": {},
        "none": {"_source": False},
        "text": {"_source": ["text"]},
        "number": {"_source": ["n", "meta.title"]},
    }
    named = {name: nearest(product, **more) for name, more in variants.items()}
    named["fields"] = nearest(product, _source=False, fields=["n", "tag"])
    named["page"] = nearest(product, _source=["n"], **{"from": 3})
    if product is Product.ELASTICSEARCH:  # its client has names of its own for these
        return {
            name: {("source" if key == "_source" else key): value for key, value in arguments.items()}
            for name, arguments in named.items()
        }
    return named


def plain(answer: Any) -> Any:
    """What a call came to, without the time it took."""
    content = dict(getattr(answer, "body", answer))
    content.pop("took", None)
    if "responses" in content:
        content["responses"] = [plain(response) for response in content["responses"]]
    return content


def families(answer: Any) -> list[str]:
    return [family(hit["_id"]) for hit in answer["hits"]["hits"]]


def reads(product: Product, made: Any) -> dict[str, Callable[[], Any]]:
    """Calls that are no search by vectors."""
    pairs: list[Any] = [
        {"index": COPIED},
        {"query": {"match_all": {}}, "size": 2},
        {},
        {"query": {"term": {"tag": "t1"}}, "size": 1},
    ]
    body = {"body": pairs} if product is Product.OPENSEARCH else {"searches": pairs}
    ids = {"body": {"ids": ["f1-0", "none"]}} if product is Product.OPENSEARCH else {"ids": ["f1-0", "none"]}
    return {
        "get": lambda: made.get(index=COPIED, id="f3-1"),
        "mget": lambda: made.mget(index=CLEAN, **ids),
        "count": lambda: made.count(index=COPIED),
        "msearch": lambda: made.msearch(index=CLEAN, **body),
        "mapping": lambda: made.indices.get_mapping(index=CLEAN),
        "info": made.info,
    }


@pytest.mark.parametrize("mode", ["off", "shadow"])
def test_in_modes_off_and_shadow_the_client_sees_what_it_sees_directly(world: tuple[Product, World], mode: str) -> None:
    product, urls = world
    direct, silent = client(product, urls["direct"]), client(product, urls[mode])
    for name, arguments in searches(product).items():
        for _ in range(3):  # by then the texts of the index have been found
            assert plain(silent.search(index=COPIED, **arguments)) == plain(direct.search(index=COPIED, **arguments)), (
                name
            )


@pytest.mark.parametrize("mode", MODES)
def test_what_is_no_search_by_vectors_is_the_servers_own(world: tuple[Product, World], mode: str) -> None:
    product, urls = world
    original, through = (reads(product, client(product, urls[place])) for place in ("direct", mode))
    assert {name: plain(call()) for name, call in through.items()} == {
        name: plain(call()) for name, call in original.items()
    }


def test_in_mode_on_pages_are_distinct_and_parts_of_the_servers_ranking(world: tuple[Product, World]) -> None:
    product, urls = world
    direct, on = client(product, urls["direct"]), client(product, urls["on"])
    for name, arguments in searches(product).items():
        ranking, page = (client_.search(index=COPIED, **arguments) for client_ in (direct, on))
        assert len(set(families(ranking))) < TOP_K, name
        assert len(set(families(page))) == TOP_K, name
        assert plain(page).keys() == plain(ranking).keys()
        assert page["hits"]["total"] == ranking["hits"]["total"]
        assert [hit.keys() for hit in page["hits"]["hits"]] == [hit.keys() for hit in ranking["hits"]["hits"]]


@pytest.mark.parametrize("bound", [None, True, False, 8, 200])
@pytest.mark.parametrize("names", [COPIED, f"{CLEAN},{COPIED}", "c*", "_all"])
def test_the_total_is_the_servers_own_also_of_several_indices(
    world: tuple[Product, World], names: str, bound: int | bool | None
) -> None:
    """One of the indices has fewer documents than neighbours are requested."""
    product, urls = world
    clause: Any = {"field": "v", "query_vector": VECTOR, "k": 2 * BASES, "num_candidates": 200}
    if product is Product.OPENSEARCH:
        clause = {"v": {"vector": VECTOR, "k": 2 * BASES}}
    body = {"query": {"knn": clause}, "size": TOP_K, **({} if bound is None else {"track_total_hits": bound})}
    given: Any = {"body": body} if product is Product.OPENSEARCH else body
    original, *others = (client(product, urls[place]).search(index=names, **given) for place in ("direct", *MODES))
    assert len(set(families(original))) < TOP_K == len(set(families(others[-1])))
    for other in others:
        assert {**plain(other)["hits"], "hits": []} == {**plain(original)["hits"], "hits": []}
        assert plain(other).keys() == plain(original).keys()


def test_in_mode_on_pages_follow_each_other(world: tuple[Product, World]) -> None:
    product, urls = world
    on = client(product, urls["on"])
    pages = [families(on.search(index=COPIED, **nearest(product, **{"from": start}))) for start in (0, TOP_K)]
    assert len({*pages[0], *pages[1]}) == 2 * TOP_K


def test_in_mode_on_each_search_of_a_list_is_distinct(world: tuple[Product, World]) -> None:
    product, urls = world
    given = nearest(product)
    body = given["body"] if product is Product.OPENSEARCH else given
    lines: list[Any] = [{"index": COPIED}, body, {"index": CLEAN}, body]
    arguments = {"body": lines} if product is Product.OPENSEARCH else {"searches": lines}
    ranking, page = (client(product, urls[place]).msearch(index=COPIED, **arguments) for place in ("direct", "on"))
    assert len(set(families(ranking["responses"][0]))) < TOP_K
    assert len(set(families(page["responses"][0]))) == TOP_K
    assert page["responses"][1]["hits"] == ranking["responses"][1]["hits"]


@pytest.mark.parametrize("mode", MODES)
def test_refusals_reach_the_client_in_the_servers_words(world: tuple[Product, World], mode: str) -> None:
    product, urls = world

    def refused(url: str) -> list[tuple[str, Any]]:
        made = client(product, url)
        calls: list[Callable[[], Any]] = [
            lambda: made.search(index="nowhere", **nearest(product)),
            lambda: made.search(index=COPIED, **nearest(product, size=20_000)),
            lambda: made.get(index=COPIED, id="ghost"),
            lambda: made.create(
                index=COPIED, id="f1-0", **{"body" if product is Product.OPENSEARCH else "document": {"n": 1}}
            ),
            lambda: made.indices.delete(index="nowhere"),
        ]
        seen = []
        for call in calls:
            with pytest.raises(import_module(PRODUCTS[product][0]).ApiError if product is Product.ELASTICSEARCH else import_module("opensearchpy").TransportError) as caught:  # fmt: skip
                call()
            seen.append((type(caught.value).__name__, getattr(caught.value, "info", None)))
        return seen

    assert refused(urls[mode]) == refused(urls["direct"])


@pytest.mark.parametrize("mode", MODES)
def test_a_bulk_of_the_clients_helper_is_written_once_and_read_back(world: tuple[Product, World], mode: str) -> None:
    product, urls = world
    helpers, made = import_module(f"{PRODUCTS[product][0]}.helpers"), client(product, urls[mode])
    name = f"written-{mode}"
    actions = [{"_index": name, "_id": f"a{number}", "n": number} for number in range(50)]
    assert helpers.bulk(made, actions, chunk_size=7, refresh=True) == (50, [])
    read = list(helpers.scan(made, index=name, size=9, query={"query": {"match_all": {}}}))
    assert sorted(hit["_source"]["n"] for hit in read) == list(range(50))
    assert {made.get(index=name, id=f"a{number}")["_version"] for number in range(50)} == {1}
    made.indices.delete(index=name)
    assert not made.indices.exists(index=name)


def test_the_asyncio_client_and_compressed_bodies_are_served(world: tuple[Product, World]) -> None:
    product, urls = world
    package, name = PRODUCTS[product]

    async def texts_async() -> list[str]:
        made = getattr(import_module(package), f"Async{name}")(urls["on"], http_compress=True)
        try:
            return families(await made.search(index=COPIED, **nearest(product)))
        finally:
            await made.close()

    assert len(set(asyncio.run(texts_async()))) == TOP_K


def test_a_batch_without_an_index_in_its_path_has_the_rules_of_its_headers(
    world: tuple[Product, World], tmp_path: Path
) -> None:
    """One index alone, two under one policy, and two under different ones, of which none is applied."""
    product, urls = world
    config = tmp_path / "rules.yaml"
    config.write_text(f"policy: {{mode: 'on'}}\nrules: [{{collection: '{CLEAN}', policy: {{mode: 'off'}}}}]\n")
    counts = {}
    with serve(urls["direct"], "--backend", product.value, "--config", str(config)) as (url, _):
        for name, indices in {
            "copied": [COPIED],
            "clean": [CLEAN],
            "same": [COPIED] * 2,
            "both": [COPIED, CLEAN],
        }.items():
            body = [line for index in indices for line in ({"index": index}, search_body(product))]
            lines = b"".join([json.dumps(line).encode() + b"\n" for line in body])
            answer = exchange(url, "POST", "/_msearch", lines, {"Content-Type": "application/x-ndjson"})
            assert answer.status == 200
            counts[name] = "x-vecsieve" in {key.lower() for key, _ in answer.headers}
    assert counts == {"copied": True, "clean": False, "same": True, "both": False}


def search_body(product: Product) -> dict[str, Any]:
    made = nearest(product)
    return made.get("body") or made
