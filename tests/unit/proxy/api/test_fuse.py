"""`POST /v1/fuse`: each list without copies, fused by the formulas of databases, and without copies again."""

from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.network.api import served
from vecsieve.adapters.fused_scores import dbsf, rrf
from vecsieve.proxy.api.fuse import LARGEST_SCORE, MOST_LISTS, fuse
from vecsieve.proxy.api.messages import MOST_CHUNKS
from vecsieve.proxy.api.problems import ProblemError

Json = dict[str, Any]
RETURNS, REFUNDS, SHIPPING = "You can return any order.", "Refunds go to the card.", "Shipping takes two days."


def result(identity: str | float, text: str, **members: object) -> Json:
    return {"id": identity, "text": text, **members}


def fused(*lists: list[Json] | Json, **members: object) -> Json:
    whole = [hits if isinstance(hits, dict) else {"results": hits} for hits in lists]
    answer: Json = json.loads(fuse(json.dumps({"lists": whole, **members}).encode()))
    answer["stats"].pop("latency_ms")
    return answer


def refused(body: Json) -> Json:
    with pytest.raises(ProblemError) as caught:
        fuse(json.dumps(body).encode())
    content: Json = json.loads(caught.value.body)
    return content


def scores(answer: Json) -> list[tuple[str | int, float]]:
    return [(hit["id"], hit["score"]) for hit in answer["results"]]


def test_ranks_are_fused_with_the_usual_constant() -> None:
    answer = fused([result(1, RETURNS), result(2, REFUNDS)], [result("a", SHIPPING)])
    assert scores(answer) == [(1, 0.016666668), ("a", 0.016666668), (2, 0.016393442)]


def test_a_copy_takes_no_rank_from_what_stands_below_it() -> None:
    answer = fused([result(1, RETURNS), result(9, RETURNS.upper()), result(2, REFUNDS)], k=2)
    assert scores(answer) == [(1, 0.5), (2, 0.33333334)]
    assert answer["removed"] == [
        {
            "place": {"list": 0, "name": None, "rank": 2, "id": 9},
            "stage": "equal_text",
            "covered_by": [{"list": 0, "name": None, "rank": 1, "id": 1}],
            "reason": "says the same as 1",
        }
    ]
    assert answer["stats"] == {"input_count": 3, "output_count": 2, "removed_within": 1, "removed_after": 0}


def test_the_same_text_in_two_databases_is_one_result_whatever_its_ids() -> None:
    answer = fused(
        {"name": "qdrant", "results": [result(1, RETURNS), result(2, REFUNDS)]},
        {"name": "milvus", "results": [result("x", f"  {REFUNDS.lower()} ")]},
        k=2,
    )
    assert scores(answer) == [(2, 0.8333334), (1, 0.5)]
    assert answer["results"][0]["found_in"] == [
        {"list": 0, "name": "qdrant", "rank": 2, "id": 2},
        {"list": 1, "name": "milvus", "rank": 1, "id": "x"},
    ]
    assert answer["removed"] == []


EAST, NEAR_EAST, NORTH = [1.0, 0.0], [0.9999, 0.014], [0.0, 1.0]
NEAR = [result(1, "", embedding=EAST), result(2, "", embedding=NEAR_EAST)]
DIFFERING = [result(1, RETURNS, embedding=EAST), result(2, REFUNDS, embedding=EAST)]


@pytest.mark.parametrize(
    ("lists", "options", "expected", "stages"),
    [
        # The same id in two databases is not the same result.
        ([[result(1, RETURNS)], [result(1, REFUNDS)]], {}, [(1, 0.5), (1, 0.5)], []),
        # Results without texts are told apart by their ids, and compared by their embeddings within a list and behind the fusion.
        ([[result(1, ""), result(2, "")], [result(2, "")]], {}, [(2, 0.8333334), (1, 0.5)], []),
        ([[*NEAR, result(3, "", embedding=NORTH)]], {}, [(1, 0.5), (3, 0.33333334)], ["vectors"]),
        ([NEAR], {"dedup_threshold": 0.0}, [(1, 0.5), (2, 0.33333334)], []),
        ([NEAR[:1], NEAR[1:]], {}, [(1, 0.5)], ["vectors"]),
        # Texts that differ stay whatever their embeddings.
        ([DIFFERING], {}, [(1, 0.5), (2, 0.33333334)], []),
        ([DIFFERING], {"texts": "none"}, [(1, 0.5)], ["vectors"]),
    ],
)
def test_who_is_compared_with_whom(
    lists: list[list[Json]], options: Json, expected: list[tuple[int, float]], stages: list[str]
) -> None:
    answer = fused(*lists, k=2, **options)
    assert scores(answer) == expected
    assert [removal["stage"] for removal in answer["removed"]] == stages
    assert answer["stats"]["removed_after"] == (len(stages) if len(lists) > 1 else 0)


def test_weights_are_those_of_the_lists() -> None:
    lists = [[result("a", RETURNS), result("b", REFUNDS)], [result("b", REFUNDS), result("a", RETURNS)]]
    answer = fused({"results": lists[0], "weight": 3.0}, {"results": lists[1], "weight": 0.5}, k=7)
    expected = rrf([["a", "b"], ["b", "a"]], k=7, weights=[3.0, 0.5])
    assert scores(answer) == [(identity, float(str(score))) for identity, score in expected]


def test_scores_are_fused_by_their_distribution() -> None:
    first = [result("a", RETURNS, score=0.9), result("b", REFUNDS, score=0.5), result("c", SHIPPING, score=0.4)]
    second = [result("b", REFUNDS, score=12), result("c", SHIPPING, score=11)]
    expected = dbsf([(["a", "b", "c"], [0.9, 0.5, 0.4]), (["b", "c"], [12, 11])])
    assert scores(fused(first, second, method="dbsf")) == [(key, float(str(score))) for key, score in expected]


def test_a_result_that_a_better_one_holds_leaves_and_says_so() -> None:
    answer = fused([result(1, f"{RETURNS} {REFUNDS}")], [result(2, RETURNS)])
    assert [hit["id"] for hit in answer["results"]] == [1]
    (removed,) = answer["removed"]
    assert (removed["stage"], [hit["id"] for hit in removed["covered_by"]]) == ("contained", [1])
    assert removed["reason"] == "all of it is in 1"


def test_embeddings_of_different_models_are_not_compared() -> None:
    lists = [
        {"results": [result(number, text, embedding=[1.0, 0.0])], "model": model}
        for number, (text, model) in enumerate([("", "small"), ("", "large")])
    ]
    assert len(fused(*lists)["results"]) == 2
    assert len(fused(*({**hits, "model": "small"} for hits in lists))["results"]) == 1


def test_several_wordings_of_one_question_count_a_passage_once() -> None:
    """Made-up answers to a question are asked in its place, and each finds the same passages in another copy."""
    lists = [[result(f"{turn}{place}", text + " " * turn) for place, text in enumerate(texts)] for turn, texts in enumerate(
        [(RETURNS, REFUNDS), (RETURNS, SHIPPING), (RETURNS, REFUNDS)]
    )]  # fmt: skip
    answer = fused(*lists, k=2)
    assert [entry["text"].strip() for entry in answer["results"]] == [RETURNS, REFUNDS, SHIPPING]
    assert [len(entry["found_in"]) for entry in answer["results"]] == [3, 2, 1]


def test_what_is_beyond_the_target_is_told() -> None:
    answer = fused([result(1, RETURNS), result(2, REFUNDS), result(3, SHIPPING)], target_k=1)
    assert [hit["id"] for hit in answer["results"]] == [1]
    assert [(removal["place"]["id"], removal["stage"], removal["covered_by"]) for removal in answer["removed"]] == [
        (2, "target_k", []),
        (3, "target_k", []),
    ]
    assert answer["stats"]["removed_after"] == 0


TEXTS = st.sampled_from(["", "one", "One.", "two words", "three other words", "天気がいい", "天気がいい。"])
LISTS = st.lists(
    st.lists(st.tuples(st.integers(0, 9), TEXTS, st.floats(-10, 10, width=32)), max_size=8), min_size=1, max_size=4
)


@given(drawn=LISTS, method=st.sampled_from(["rrf", "dbsf"]), seed=st.integers(0, 9))
def test_every_result_is_in_the_answer_once(drawn: Any, method: str, seed: int) -> None:
    """Each result that came is found in a result of the answer, or removed; and the same request has the same answer."""
    lists = [[result(identity, text, score=score) for identity, text, score in entry] for entry in drawn]
    target = random.Random(seed).randint(1, 40)
    answer = fused(*lists, method=method, target_k=target)
    placed = [place for entry in answer["results"] for place in entry["found_in"]]
    removed_places = [removal["place"] for removal in answer["removed"]]
    places = sorted((place["list"], place["rank"]) for place in placed + removed_places)
    assert places == sorted((number, rank + 1) for number, entry in enumerate(lists) for rank in range(len(entry)))
    assert answer == fused(*lists, method=method, target_k=target)
    assert [entry["score"] for entry in answer["results"]] == sorted(
        (entry["score"] for entry in answer["results"]), reverse=True
    )


@pytest.mark.parametrize(
    ("body", "where"),
    [
        ({}, "$"),
        ({"lists": []}, "$.lists"),
        ({"lists": [{"results": []}] * (MOST_LISTS + 1)}, "$.lists"),
        ({"lists": [{"results": [result(1, "a")] * (MOST_CHUNKS + 1)}]}, "$.lists"),
        ({"lists": [{"results": []}], "k": 0}, "$.k"),
        ({"lists": [{"results": []}], "k": 1.5}, "$.k"),
        ({"lists": [{"results": []}], "target_k": 2.5}, "$.target_k"),
        ({"lists": [{"results": []}], "method": "best"}, "$.method"),
        ({"lists": [{"results": [], "weight": -1}]}, "$.lists[0].weight"),
        ({"lists": [{"results": []}, {"results": [result(1, "a", embedding=["x"])]}]}, "$.lists[1].results[0].embedding"),
        ({"lists": [{"results": [result(1, "a", metadata=[])]}]}, "$.lists[0].results[0].metadata"),
        ({"lists": [{"results": [result(1.5, "a")]}]}, "$.lists[0].results[0].id"),
        (
            {"lists": [{"results": [result(1, "a", score=1.1e15), result(2, "b")]}], "method": "dbsf"},
            "$.lists[0].results[0].score",
        ),
        (
            {"lists": [{"results": [result(1, "a"), result(2, "b", score=-3e38)]}], "method": "dbsf"},
            "$.lists[0].results[1].score",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_fused_is_a_problem_that_says_where(body: Json, where: str) -> None:
    refusal = refused(body)
    assert refusal["status"] == 400
    assert refusal["where"] == where


@pytest.mark.parametrize("score", [LARGEST_SCORE, -LARGEST_SCORE])
def test_the_largest_scores_are_fused(score: float) -> None:
    """The published document allows them: schemathesis found that larger ones overflow."""
    many = [result(number, f"word{number}", score=score * (-1) ** number) for number in range(MOST_CHUNKS)]
    results = fused(many, method="dbsf", target_k=MOST_CHUNKS)["results"]
    assert {round(hit["score"], 2) for hit in results} == {0.33, 0.67}


def test_the_endpoint_answers_over_http_and_is_counted() -> None:
    async def main() -> None:
        async with served() as api:
            body = {"lists": [{"results": [result(1, RETURNS)]}]}
            answer = await api.client.post("/v1/fuse", json=body)
            assert answer.status_code == 200
            assert [hit["id"] for hit in answer.json()["results"]] == [1]
            described = (await api.client.get("/openapi.json")).json()
            assert described["paths"]["/v1/fuse"]["post"]["operationId"] == "fuse"
            assert 'vecsieve_api_requests_total{route="fuse",status="2xx"} 1.0' in api.exposed()

    asyncio.run(main())
