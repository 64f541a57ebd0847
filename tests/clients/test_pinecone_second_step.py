"""Records whose copies only their vectors show, through Pinecone's own client: one request more, and it is on the bill."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import AbstractContextManager
from urllib.parse import quote, urlsplit

import pytest
from pinecone import Pinecone

from support.deploy.expositions import counted
from support.pinecone.emulator import emulated
from support.pinecone.loading import HEADERS, KEY, index_url
from support.process.stack import Answer, exchange, serve

TOP_K = 4
NAMESPACE = "a b/ß"
MODELS = {"texts": "llama-text-embed-v2", "words": "pinecone-sparse-english-v0"}
# Each line three times in other orders of its words: nothing that is read as text repeats, but the emulator's embedder
# counts words, so that the vectors are equal.
LINES = (
    "granite from this quarry built harbour walls along northern coasts",
    "violin pupils practise scales before evening concerts near town",
    "desert foxes sleep under stones while midday heat lasts",
    "copper kettles need polish whenever green stains creep outwards",
    "winter wheat waits below snow until mild weather returns",
    "glass blowers turn molten sand into bright round bottles",
)
QUERY = {"text": "granite violin desert copper winter glass"}


def orders(line: str) -> list[str]:
    words = line.split()
    return [" ".join(order) for order in (words, words[::-1], words[::2] + words[1::2])]


RECORDS = [
    {"_id": f"{number}-{copy}", "text": text, "title": "t"}
    for number, line in enumerate(LINES)
    for copy, text in enumerate(orders(line))
]


@pytest.fixture(scope="module")
def direct() -> Iterator[str]:
    with emulated(api_key=KEY) as emulator:
        with Pinecone(api_key=KEY, host=emulator.url) as client:
            for name, model in MODELS.items():
                embed = {"model": model, "field_map": {"text": "text"}}
                client.create_index_for_model(name=name, cloud="aws", region="us-east-1", embed=embed)
                with client.index(name) as index:
                    index.upsert_records(namespace=NAMESPACE, records=RECORDS)
        yield emulator.url


Page = list[tuple[str, float, dict[str, object]]]


def searched(
    control: str, *, name: str = "texts", fields: list[str] | None = None, top_k: int = TOP_K
) -> tuple[Page, int]:
    """The hits, and the read units that the client is told of."""
    with Pinecone(api_key=KEY, host=control) as client, client.index(name) as index:
        answer = index.search(namespace=NAMESPACE, top_k=top_k, inputs=QUERY, fields=fields)
    hits = [(hit.id, hit.score, dict(hit.fields)) for hit in answer.result.hits]
    return hits, answer.usage.read_units


def lines_in(page: Page) -> set[str]:
    return {one.partition("-")[0] for one, *_ in page}


def raw(control: str) -> Answer:
    url = index_url(control, "texts")
    body = json.dumps({"query": {"top_k": TOP_K, "inputs": QUERY}}).encode()
    path = f"{urlsplit(url).path}/records/namespaces/{quote(NAMESPACE, safe='')}/search"
    return exchange(url, "POST", path, body, HEADERS)


@pytest.fixture(scope="module")
def fetching(direct: str) -> Iterator[tuple[str, str]]:
    with proxied(direct, "fetch") as urls:
        yield urls


def proxied(direct: str, integrated: str) -> AbstractContextManager[tuple[str, str]]:
    environment = {"VECSIEVE_POLICY_FETCH_INTEGRATED": integrated}
    if integrated == "fetch":
        environment["VECSIEVE_POLICY_TEXTS"] = "none"  # where two results have texts, vectors decide nothing
    return serve(direct, "--backend", "pinecone", "--mode", "on", environment=environment)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("fields", [None, ["*"], ["title"], ["text"]])
def test_copies_that_only_vectors_show_are_told_once(
    direct: str, fetching: tuple[str, str], fields: list[str] | None, name: str
) -> None:
    everything, _ = searched(direct, name=name, fields=fields, top_k=len(RECORDS))
    assert len(lines_in(everything[:TOP_K])) < TOP_K
    page, _ = searched(fetching[0], name=name, fields=fields)
    assert len(page) == len(lines_in(page)) == TOP_K
    assert page == [hit for hit in everything if hit in page]
    assert page[0] == everything[0]


def test_texts_alone_do_not_show_them(direct: str) -> None:
    with proxied(direct, "text") as (url, _):
        assert searched(url) == searched(direct)


def test_what_the_lookup_cost_is_in_the_answer_the_header_and_the_metrics(
    direct: str, fetching: tuple[str, str]
) -> None:
    url, admin = fetching
    _, plain = searched(direct)
    before = counted(admin, "extra_read_units_total")
    extra = -(-len(RECORDS) // 10)
    assert searched(url)[1] == plain + extra
    answer = raw(url)
    assert json.loads(answer.body)["usage"]["read_units"] == plain + extra
    assert (answer.header("x-vecsieve") or "").endswith(f";extra_read_units={extra}")
    assert counted(admin, "extra_read_units_total") - before == 2 * extra
    assert counted(admin, "lookups_total", result="found") == counted(admin, "lookups_total") > 0


def test_without_a_second_step_the_header_says_nothing_of_read_units(direct: str) -> None:
    with proxied(direct, "text") as (url, _):
        assert "read_units" not in (raw(url).header("x-vecsieve") or "")
