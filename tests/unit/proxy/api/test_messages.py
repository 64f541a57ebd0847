"""`POST /v1/optimize` over HTTP: every field with its default, the answer's shape, and what cannot be used."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import httpx
import msgspec
import pytest

from support.network.api import served
from vecsieve.proxy.api.messages import MOST_CHARACTERS, MOST_CHUNKS, OptimizeRequest, optimizing
from vecsieve.proxy.api.problems import MOST_OBJECTS, ProblemError
from vecsieve.proxy.search.context.tokens import estimated

WORK = optimizing(estimated)
DEFAULTS = {
    "query": "",
    "query_embedding": None,
    "namespace": "default",
    "target_k": 8,
    "token_budget": None,
    "texts": "edited",
    "dedup_threshold": 0.001,
    "cluster_threshold": None,
    "cluster_linkage": "average",
    "max_per_cluster": 1,
    "enable_mmr": True,
    "mmr_lambda": 0.5,
    "representative_strategy": "auto",
    "compress": True,
    "embedding_model": None,
}


def chunk(text: str = "a text", **members: object) -> dict[str, object]:
    return {"id": "1", "text": text, **members}


def optimized(**members: object) -> Any:
    answer = json.loads(WORK(json.dumps({"chunks": [chunk()], **members}).encode()))
    answer["stats"].pop("latency_ms")
    return answer


def refused(body: bytes | Mapping[str, object]) -> dict[str, object]:
    with pytest.raises(ProblemError) as caught:
        WORK(body if isinstance(body, bytes) else json.dumps(body).encode())
    content: dict[str, object] = json.loads(caught.value.body)
    return content


def test_a_request_has_sixteen_fields_with_these_defaults() -> None:
    decoded = msgspec.json.decode(b'{"chunks": []}', type=OptimizeRequest)
    assert set(decoded.__struct_fields__) == {"chunks", *DEFAULTS}
    for name, default in DEFAULTS.items():
        value = getattr(decoded, name)
        assert (json.loads(bytes(value)) if isinstance(value, msgspec.Raw) else value) == default, name


@pytest.mark.parametrize("name", DEFAULTS)
def test_a_default_that_is_given_changes_nothing(name: str) -> None:
    assert optimized(**{name: DEFAULTS[name]}) == optimized()


def test_the_answer_has_the_members_of_the_specification() -> None:
    answer = json.loads(WORK(json.dumps({"chunks": [chunk(score=0.25, metadata={"n": 1})]}).encode()))
    assert answer["chunks"] == [{"id": "1", "text": "a text", "score": 0.25, "metadata": {"n": 1}}]
    assert answer["stats"].keys() == {
        *("input_count", "output_count", "exact_duplicate_count", "semantic_duplicate_count", "cluster_count"),
        *("input_tokens", "output_tokens", "reduction_pct", "latency_ms", "budget_skipped_count"),
    }
    assert answer["removed"] == []


def test_the_figures_add_up() -> None:
    texts = [
        "The red fox jumps over the lazy dog.",
        "the red fox jumps over the lazy dog",
        "",
        "opening hours",
        "x" * 400,
    ]
    vectors = [[1, 0, 0], None, [1, 0, 0], [0, 1, 0], [0, 0, 1]]
    pairs = zip(texts, vectors, strict=True)
    chunks = [{"id": n, "text": text, "embedding": row} for n, (text, row) in enumerate(pairs)]
    answer = optimized(chunks=chunks, token_budget=50)
    assert answer["stats"] == {
        "input_count": 5,
        "output_count": 2,
        "exact_duplicate_count": 1,
        "semantic_duplicate_count": 1,
        "cluster_count": 2,
        "input_tokens": 9 + 9 + 0 + 4 + 100,
        "output_tokens": 13,
        "reduction_pct": 89.34,
        "budget_skipped_count": 1,
    }
    assert answer["removed"] == [
        {"id": 1, "stage": "equal_text", "covered_by": [0], "reason": "says the same as 0 but for its layout"},
        {"id": 2, "stage": "vectors", "covered_by": [0], "reason": "nearly the same vector as 0"},
        {"id": 4, "stage": "token_budget", "covered_by": [], "reason": "does not fit into the token budget"},
    ]


def test_metadata_goes_back_byte_for_byte() -> None:
    metadata = b'{"big": 12345678901234567890123, "f": 1.10, "same": 1, "same": 2, "z": [], "a": null}'
    answer = WORK(b'{"chunks": [{"id": 7, "text": "a", "metadata": %s}]}' % metadata)
    assert metadata in answer
    assert b'"id":7' in answer


@pytest.mark.parametrize("members", [{}, {"metadata": None}])
def test_metadata_may_be_left_out_or_null(members: dict[str, object]) -> None:
    (only,) = optimized(chunks=[{**chunk(), **members}])["chunks"]
    assert only["metadata"] == members.get("metadata", {})


def test_ids_need_not_differ() -> None:
    answer = optimized(chunks=[chunk("one"), chunk("two"), chunk("One.")])
    assert [kept_chunk["text"] for kept_chunk in answer["chunks"]] == ["one", "two"]


@pytest.mark.parametrize("count", [0, 1, MOST_CHUNKS])
def test_up_to_five_hundred_chunks_are_taken(count: int) -> None:
    answer = optimized(chunks=[chunk(f"text number{n}") for n in range(count)], target_k=MOST_CHUNKS)
    assert answer["stats"]["output_count"] == count


@pytest.mark.parametrize(
    ("members", "where"),
    [
        ({"chunks": [chunk()] * (MOST_CHUNKS + 1)}, "$.chunks"),
        ({"chunks": None}, "$.chunks"),
        ({"chunks": [{"text": "no id"}]}, "$.chunks[0]"),
        ({"chunks": [{"id": "1"}]}, "$.chunks[0]"),
        ({"chunks": [chunk(None)]}, "$.chunks[0].text"),  # type: ignore[arg-type]  # - what is refused
        ({"chunks": [chunk(), chunk(colour="red")]}, "$.chunks[1]"),
        ({"chunks": [chunk(id=1.5)]}, "$.chunks[0].id"),
        ({"chunks": [chunk(id=2**63)]}, "$.chunks[0].id"),
        ({"chunks": [chunk(score="high")]}, "$.chunks[0].score"),
        ({"chunks": [chunk(score=None)]}, "$.chunks[0].score"),
        ({"chunks": [chunk(metadata=[])]}, "$.chunks[0].metadata"),
        ({"chunks": [chunk(metadata="red")]}, "$.chunks[0].metadata"),
        ({"chunks": [chunk(), chunk(embedding="red")]}, "$.chunks[1].embedding"),
        ({"chunks": [chunk(embedding=[1, "2"])]}, "$.chunks[0].embedding"),
        ({"chunks": [chunk(embedding=[[1, 2]])]}, "$.chunks[0].embedding"),
        ({"chunks": [chunk(embedding=[1] * 65_537)]}, "$.chunks[0].embedding"),
        ({"query_embedding": {"1": 2}}, "$.query_embedding"),
        ({"query": None}, "$.query"),
        ({"query": "x" * (MOST_CHARACTERS + 1)}, "$.query"),
        ({"chunks": [chunk("x" * (MOST_CHARACTERS + 1))]}, "$.chunks[0].text"),
        ({"namespace": " "}, "$.namespace"),
        ({"target_k": 0}, "$.target_k"),
        ({"target_k": 2.5}, "$.target_k"),
        ({"token_budget": 0}, "$.token_budget"),
        ({"texts": "careful"}, "$.texts"),
        ({"dedup_threshold": -0.1}, "$.dedup_threshold"),
        ({"cluster_threshold": 2.1}, "$.cluster_threshold"),
        ({"cluster_linkage": "ward"}, "$.cluster_linkage"),
        ({"max_per_cluster": 0}, "$.max_per_cluster"),
        ({"enable_mmr": 1}, "$.enable_mmr"),
        ({"mmr_lambda": 1.1}, "$.mmr_lambda"),
        ({"representative_strategy": "best"}, "$.representative_strategy"),
        ({"compress": "yes"}, "$.compress"),
        ({"embedding_model": "text-embedding-3-small"}, "$.embedding_model"),
        ({"target": 3}, "$"),
    ],
)
def test_what_cannot_be_used_is_refused_with_its_place(members: dict[str, object], where: str) -> None:
    refusal = refused({"chunks": [chunk()], **members})
    assert (refusal["status"], refusal["where"]) == (400, where)
    assert refusal["detail"]


def test_an_embedding_model_is_refused_with_what_to_do_instead() -> None:
    assert "computes no embeddings" in str(refused({"chunks": [], "embedding_model": "x"})["detail"])


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"chunks": [NaN]}',
        b'{"chunks": []} x',
        b'{"chunks": [{"id": "\xff", "text": ""}]}',
        b'{"chunks": [{"id": "1", "text": "\\ud800"}]}',
        b'{"chunks": [{"id": "1", "text": "", "score": 1e999}]}',
        b'{"chunks": [{"id": "1", "text": "", "embedding": [1e]}]}',
        b'{"chunks": ' + b"[" * 100_000,
        b'{"chunks": [{"id": "1", "text": "", "metadata": ' + b'{"a":' * 40_000,
    ],
)
def test_a_body_that_is_not_this_json_is_refused(body: bytes) -> None:
    refusal = refused(body)
    assert refusal["status"] == 400
    assert refusal["where"]


def test_a_number_beyond_float32_makes_its_chunk_one_without_a_vector() -> None:
    answer = optimized(chunks=[chunk("", embedding=[1e300, 1]), chunk("", embedding=[1e300, 1])])
    assert answer["stats"]["cluster_count"] == 2


def test_more_objects_than_may_be_read_in_one_go_are_refused_and_braces_in_texts_are_not() -> None:
    many = b'{"chunks": [' + b",".join([b'{"id":"","text":""}'] * (MOST_OBJECTS + 1)) + b"]}"
    assert refused(many)["status"] == 413
    assert refused(many.replace(b'{"', b'{ "'))["status"] == 413
    code = json.dumps({"chunks": [chunk('if (x) { "y" } ' * MOST_OBJECTS)]}).encode()
    assert json.loads(WORK(code))["stats"]["output_count"] == 1


async def test_the_endpoint_answers_over_http() -> None:
    async with served() as api:
        answer = await api.client.post("/v1/optimize", json={"chunks": [chunk("one"), chunk("two")], "target_k": 1})
        assert answer.status_code == 200
        assert [removal["stage"] for removal in answer.json()["removed"]] == ["target_k"]
        wrong: httpx.Response = await api.client.post("/v1/optimize", json={"chunks": 1})
        assert (wrong.status_code, wrong.json()["where"]) == (400, "$.chunks")
