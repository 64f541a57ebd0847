"""What a hybrid search's rank parameters say, and what of them is left to the database."""

from __future__ import annotations

import json

import pytest

from vecsieve.adapters.contract import Needs
from vecsieve.adapters.fusions import Fusion, Method, Undivided, UndividedError
from vecsieve.adapters.milvus.search import Schema, fusion_of

LITE = Needs(known=Schema(vectors=frozenset({"a"}), scalars=frozenset(), shows_all=True))
BOTH = ("COSINE", "ip")


def fusion(
    strategy: str | None, params: object, *, metrics: tuple[str | None, ...] = BOTH, needs: Needs | None = None
) -> Fusion:
    text = params if isinstance(params, bytes) else json.dumps(params).encode()
    return fusion_of(strategy, text, metrics=metrics, limit=9, needs=needs or Needs())


def reason(
    strategy: str | None, params: object, *, metrics: tuple[str | None, ...] = BOTH, needs: Needs | None = None
) -> Undivided:
    with pytest.raises(UndividedError) as refused:
        fusion(strategy, params, metrics=metrics, needs=needs)
    return refused.value.reason


@pytest.mark.parametrize(
    ("strategy", "params", "k"), [("rrf", {"k": 7}, 8), ("rrf", {"k": 60.0}, 61), (None, {}, 61), (None, b"", 61)]
)
def test_ranks_count_from_one_and_equal_scores_are_ranked_by_id(strategy: str | None, params: object, k: int) -> None:
    found = fusion(strategy, params, metrics=(None, None))
    assert found == Fusion(method=Method.RRF, limit=9, k=k, is_by_id=True)


def test_a_weighted_sum_knows_its_metrics_and_whether_scores_are_normed() -> None:
    found = fusion("weighted", {"weights": [0.3, 1], "norm_score": False}, metrics=("l2", "BM25"))
    assert found == Fusion(
        method=Method.WEIGHTED, limit=9, weights=(0.3, 1.0), metrics=("L2", "BM25"), is_normed=False, is_by_id=True
    )


def test_lite_sums_in_64_bits() -> None:
    assert fusion("rrf", {"k": 1}, needs=LITE).is_double
    assert fusion("weighted", {"weights": [0, 1], "norm_score": True}, needs=LITE).is_double


@pytest.mark.parametrize(
    ("strategy", "params", "expected"),
    [
        ("rrf", {}, Undivided.MEMBER),
        ("rrf", {"k": "60"}, Undivided.MEMBER),
        ("rrf", {"k": True}, Undivided.MEMBER),
        ("rrf", {"k": 0}, Undivided.MEMBER),
        ("rrf", {"k": 16_384}, Undivided.MEMBER),
        ("rrf", {"k": 1, "novel": 1}, Undivided.MEMBER),
        ("rrf", {"k": 0.5}, Undivided.INEXACT),
        (None, {"k": 3}, Undivided.MEMBER),
        ("RRF", {"k": 3}, Undivided.MEMBER),
        ("decay", {}, Undivided.MEMBER),
        ("weighted", {"weights": [1, 1]}, Undivided.MEMBER),  # servers differ in the default
        ("weighted", {"weights": [1], "norm_score": True}, Undivided.MEMBER),
        ("weighted", {"weights": [1, 1.5], "norm_score": True}, Undivided.MEMBER),
        ("weighted", {"weights": [1, -0.5], "norm_score": True}, Undivided.MEMBER),
        ("weighted", {"weights": [1, True], "norm_score": True}, Undivided.MEMBER),
        ("weighted", {"weights": "1,1", "norm_score": True}, Undivided.MEMBER),
        ("weighted", {"weights": [1, 1], "norm_score": "true"}, Undivided.MEMBER),
    ],
)
def test_what_servers_refuse_or_read_differently_is_left_to_them(
    strategy: str | None, params: object, expected: Undivided
) -> None:
    assert reason(strategy, params) is expected


@pytest.mark.parametrize(
    ("metrics", "needs"),
    [(("COSINE", None), Needs()), (("COSINE", "NOVEL"), Needs()), (("COSINE", "L2"), LITE), (("BM25", "IP"), LITE)],
)
def test_scores_that_are_not_known_exactly_are_not_summed(metrics: tuple[str | None, ...], needs: Needs) -> None:
    params = {"weights": [0.5, 0.5], "norm_score": True}
    assert reason("weighted", params, metrics=metrics, needs=needs) is Undivided.INEXACT


@pytest.mark.parametrize("params", [b"[]", b"{", b'{"k":1,"k":2}', b"7"])
def test_parameters_that_are_no_object_of_single_names_raise(params: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - of the parsers, each with words of its own
        fusion("rrf", params)
