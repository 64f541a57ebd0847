"""The current major of Pinecone's own client, sync and asyncio, against the emulator: directly and through the proxy.

What every major has in common is one scenario, told in tests/pinecone_majors; here are the modes, and what only the
newer majors can say: searches by text, and documents.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from pinecone import Pinecone
from pinecone_majors import scenario

from support.pinecone.loading import HEADERS, KEY, index_url, loaded
from support.pinecone.planted import TOP_K, plan
from support.pinecone.verdict import differences, faults
from support.process.stack import exchange, serve

PLAN = plan()
TRANSPORTS = ("sync", "asyncio")
TOPICS = ("granite quarry", "violin lesson", "harbour crane", "desert fox", "copper kettle", "winter wheat")
# Each topic three times in the same words, the title apart; the number is a name, no fact of the text.
RECORDS = [
    {"_id": f"{topic.split()[0]}-{copy}", "text": f"the {topic} and all that is told of the {topic}", "title": "t"}
    for topic in TOPICS
    for copy in range(3)
]
QUERY = {"text": "what is told of the granite quarry"}
VECTORS = [[1.0 if axis == place else 0.05 for axis in range(len(TOPICS))] for place in range(len(TOPICS))]
SCHEMA = {
    "fields": {
        "vec": {"type": "dense_vector", "dimension": len(TOPICS), "metric": "cosine"},
        "body": {"type": "string", "full_text_search": {"language": "en"}},
    }
}


def answers(control: str, transport: str) -> dict[str, Any]:
    """The observations of the scenario, less which listener they were made at."""
    seen = asyncio.run(scenario.main(control, PLAN, transport))
    return {name: answer for name, answer in seen.items() if not name.endswith("leads here")}


def by_topic(ids: list[str]) -> list[str]:
    return [one.partition("-")[0] for one in ids]


@pytest.fixture(scope="module")
def direct() -> Iterator[str]:
    with loaded(PLAN) as control:
        with Pinecone(api_key=KEY, host=control) as client:
            client.create_index_for_model(
                name="texts",
                cloud="aws",
                region="us-east-1",
                embed={"model": "llama-text-embed-v2", "field_map": {"text": "text"}},
            )
            with client.index("texts") as index:
                index.upsert_records(namespace="ns", records=RECORDS)
            client.indexes.create(name="articles", schema=SCHEMA)
            with client.index("articles") as index:
                index.documents.upsert(
                    namespace="ns",
                    documents=[
                        {"_id": record["_id"], "vec": VECTORS[number // 3], "body": record["text"]}
                        for number, record in enumerate(RECORDS)
                    ],
                )
        yield control


@pytest.fixture(scope="module")
def on(direct: str) -> Iterator[str]:
    with serve(direct, "--backend", "pinecone", "--mode", "on") as (url, _):
        yield url


@pytest.fixture(scope="module")
def client(on: str) -> Iterator[Pinecone]:
    with Pinecone(api_key=KEY, host=on) as made:
        yield made


@pytest.fixture(scope="module")
def honest(direct: str) -> dict[str, Any]:
    return answers(direct, "sync")


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("mode", ["off", "shadow"])
def test_in_modes_off_and_shadow_the_client_sees_what_it_sees_directly(
    direct: str, honest: dict[str, Any], mode: str, transport: str
) -> None:
    with serve(direct, "--backend", "pinecone", "--mode", mode) as (url, _):
        assert differences(honest, answers(url, transport)) == []


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_in_mode_on_clean_data_is_as_directly_and_copied_data_distinct_full_and_in_order(
    on: str, honest: dict[str, Any], transport: str
) -> None:
    answers(on, transport)  # how much more is fetched grows with what was found
    assert faults(honest, answers(on, transport)) == []


def test_the_scenario_asks_what_it_should(honest: dict[str, Any]) -> None:
    assert [name for name, answer in honest.items() if isinstance(answer, dict) and "error" in answer] == ["wrong size"]
    page = [match["id"] for match in honest["copied.vector.bare"]]
    assert len({one.partition("-")[0] for one in page}) < len(page) == TOP_K


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_every_index_that_the_control_plane_tells_of_is_reached_through_the_proxy(on: str, transport: str) -> None:
    seen = asyncio.run(scenario.main(on, {**PLAN, "queries": []}, transport))
    assert [seen[f"{name} leads here"] for name in PLAN["indexes"]] == [True] * len(PLAN["indexes"])


def test_one_fixed_index_needs_no_control_plane(direct: str, honest: dict[str, Any]) -> None:
    query_plan = next(query for query in PLAN["queries"] if query["name"] == "clean.vector.both")
    fixed = serve(direct, "--backend", "pinecone", "--index-host", index_url(direct, "clean"), "--mode", "on")
    with fixed as (url, _), Pinecone(api_key=KEY) as client, client.index(host=url) as index:
        answer = index.query(vector=query_plan["vector"], top_k=TOP_K, include_values=True, include_metadata=True)
    assert scenario.matches(answer) == honest["clean.vector.both"]


def test_a_wrong_key_is_refused_in_the_services_own_words(direct: str, on: str) -> None:
    def refused(control: str) -> tuple[int, bytes, str | None]:
        url = index_url(control, "clean")
        answer = exchange(url, "POST", urlsplit(url).path + "/query", b"{}", {**HEADERS, "Api-Key": "no"})
        return answer.status, answer.body, answer.header("x-pinecone-auth-rejected-reason")

    assert refused(on) == refused(direct)
    assert refused(on)[:2] == (401, b"Unauthorized")


@pytest.mark.parametrize("fields", [None, ["*"], ["title"], ["text"]])
def test_records_are_searched_by_text_and_copies_of_a_text_are_told_once(
    direct: str, client: Pinecone, fields: list[str] | None
) -> None:
    def hits(source: Pinecone, top_k: int) -> list[tuple[str, float, dict[str, Any]]]:
        with source.index("texts") as index:
            answer = index.search(namespace="ns", top_k=top_k, inputs=QUERY, fields=fields)
        return [(hit.id, hit.score, dict(hit.fields)) for hit in answer.result.hits]

    with Pinecone(api_key=KEY, host=direct) as source:
        everything = hits(source, len(RECORDS))
        assert len(set(by_topic([one for one, *_ in hits(source, 4)]))) < 4
    page = hits(client, 4)
    assert len(page) == len(set(by_topic([one for one, *_ in page]))) == 4
    assert page == [hit for hit in everything if hit in page]
    assert page[0] == everything[0]


def test_reranked_records_keep_the_rerankers_scores_and_order(direct: str, client: Pinecone) -> None:
    def hits(source: Pinecone, top_n: int) -> list[tuple[str, float]]:
        rerank = {"model": "bge-reranker-v2-m3", "rank_fields": ["text"], "top_n": top_n}
        with source.index("texts") as index:
            answer = index.search(namespace="ns", top_k=len(RECORDS), inputs=QUERY, fields=["title"], rerank=rerank)
        return [(hit.id, hit.score) for hit in answer.result.hits]

    with Pinecone(api_key=KEY, host=direct) as source:
        everything = hits(source, len(RECORDS))
    page = hits(client, 4)
    assert len(page) == len(set(by_topic([one for one, _ in page]))) == 4
    assert page == [hit for hit in everything if hit in page]


@pytest.mark.parametrize("fields", [None, [], ["*"], ["body"], ["vec"]])
def test_documents_are_searched_by_vector_and_tell_no_more_than_was_asked(
    direct: str, client: Pinecone, fields: list[str] | None
) -> None:
    def matches(source: Pinecone, top_k: int) -> list[dict[str, Any]]:
        with source.index("articles") as index:
            answer = index.documents.search(
                namespace="ns",
                top_k=top_k,
                score_by=[{"type": "dense_vector", "field": "vec", "values": [0.9, 0.8, 0.7, 0.6, 0.5, 0.4]}],
                include_fields=fields,
            )
        hits: list[dict[str, Any]] = [json.loads(json.dumps(match.to_dict())) for match in answer.matches]
        return hits

    with Pinecone(api_key=KEY, host=direct) as source:
        everything = matches(source, len(RECORDS))
    page = matches(client, 4)
    assert page == [match for match in everything if match in page]
    assert len({match["_id"].partition("-")[0] for match in page}) == len(page) == 4
