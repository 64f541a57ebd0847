"""What a budget leaves of a selection: the first results whose texts it pays for, wherever the texts are."""

from __future__ import annotations

from typing import Any

import numpy as np
import orjson
import pytest

from support.selection.selections import selection as spelled
from vecsieve.adapters.contract import Pool
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.candidates import TEXT_BYTES
from vecsieve.proxy.search.context.answer import cost, costs, cut
from vecsieve.proxy.search.context.tokens import TextBudget
from vecsieve.proxy.search.policy import Policies, ResolvedPolicy
from vecsieve.proxy.selection.values import Fate, Selection

BUDGET = TextBudget(10, ("text",))


def selection(size: int, *, keep: list[int]) -> Selection:
    """Every candidate in a cluster of its own."""
    fates = [Fate.KEPT if row in keep else Fate.NOT_CHOSEN for row in range(size)]
    return spelled(keep, range(size), fates)


def policy(**members: object) -> ResolvedPolicy:
    return Policies(Settings.model_validate({"policy": members})).resolve("qdrant", "c")


@pytest.mark.parametrize(
    ("raw", "tokens"),
    [
        (b'"words"', 2),
        (b'"w\\u00f6rds"', 2),
        (b'""', 0),
        (b'"    "', 1),
        (b"[1, 2]", 2),
        (b'{"a":1}', 2),
        (b"12345", 2),
        (b'"\\ud800"', 2),
        (b'"' + b"x" * TEXT_BYTES + b'"', TEXT_BYTES // 4 + 1),
    ],
    ids=["words", "escaped", "empty", "blank", "list", "object", "number", "no text", "too long"],
)
def test_a_value_costs_its_text_and_what_is_no_readable_text_its_json(raw: bytes, tokens: int) -> None:
    assert cost(raw, BUDGET) == tokens


def pool_of(chosen: ResolvedPolicy, *payloads: dict[str, Any]) -> Pool:
    keys = chosen.keys
    return Pool(
        scores=np.linspace(1.0, 0.5, len(payloads)),
        vectors=np.zeros((len(payloads), 2), np.float32),
        fields=tuple(
            tuple(orjson.dumps(payload[key]) if key in payload else None for key in keys) for payload in payloads
        ),
    )


@pytest.mark.parametrize(
    ("members", "tokens"),
    [
        ({}, [2, 0, 1]),
        ({"budget": {"tokens": 5, "field": "meta.summary"}}, [0, 3, 0]),
        ({"budget": {"tokens": 5}, "texts": "none"}, [2, 0, 1]),
        ({"budget": {"tokens": 5}, "text_fields": ("body",)}, [4, 0, 1]),
        ({"budget": {"tokens": 5, "field": "owner"}, "tenant_keys": ("owner",)}, [1, 1, 0]),
    ],
    ids=["the policy's texts", "a field of its own", "no texts compared", "other texts", "a key that is there already"],
)
def test_each_result_costs_the_field_that_counts(members: dict[str, Any], tokens: list[int]) -> None:
    chosen = policy(**{"budget": {"tokens": 5}, **members})
    payloads: tuple[dict[str, Any], ...] = (
        {"text": "six six", "body": "x" * 16, "owner": "me"},
        {"meta": {"summary": "y" * 10}, "texts": "none", "owner": "you"},
        {"page_content": "abc"},
    )
    pool = pool_of(chosen, *payloads)
    assert list(costs(pool, selection(3, keep=[0, 1, 2]), chosen, chosen.budget)) == tokens


def test_a_pool_without_payloads_costs_nothing() -> None:
    chosen = policy(budget={"tokens": 1})
    pool = Pool(scores=np.ones(2), vectors=np.zeros((2, 1), np.float32))
    assert list(costs(pool, selection(2, keep=[0, 1]), chosen, chosen.budget)) == [0, 0]


def test_costs_come_in_answer_order() -> None:
    chosen = policy(budget={"tokens": 1})
    pool = pool_of(chosen, {"text": "a"}, {"text": "a" * 8}, {"text": "a" * 12})
    assert list(costs(pool, selection(3, keep=[2, 0]), chosen, chosen.budget)) == [3, 1]


def test_what_is_cut_off_is_told_apart_from_what_was_not_chosen() -> None:
    whole = selection(4, keep=[0, 1, 3])
    left = cut(whole, 1)
    assert left.keep.tolist() == [0]
    assert left.fates.tolist() == [Fate.KEPT, Fate.OVER_BUDGET, whole.fates[2], Fate.OVER_BUDGET]
    assert cut(whole, 3) is whole
    assert whole.keep.tolist() == [0, 1, 3], "the selection that was given is not changed"


def test_only_a_policy_with_a_number_of_tokens_is_looked_at_for_a_budget() -> None:
    assert not policy(budget={"field": "summary"}).is_surrounded
    assert "summary" not in policy(budget={"field": "summary"}).fields.heads
    assert policy(budget={"tokens": 1}).is_surrounded
    assert "summary" in policy(budget={"tokens": 1, "field": "summary.short"}).fields.heads
