"""The optimizer: chunks in, chunks out. Each defect of other tools with such an endpoint that is known is a test here."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.jobs.chunks import DEFAULT, STABLE, TEXTS, chunks, kept, of, outcome, wishes
from vecsieve.proxy.api.optimize import Chunks, Removed, Wishes, compressed, optimize
from vecsieve.proxy.api.stream import Stream
from vecsieve.proxy.api.walk import Stage
from vecsieve.proxy.search.context.tokens import estimated
from vecsieve.proxy.selection.policy import Linkage, Strategy, Tier

DISTINCT = ("alpha one", "beta two", "gamma three", "delta four", "epsilon five")
# Unit vectors whose cosine distance is 1 minus the cosine of their angles.
AT = {degrees: [float(np.cos(np.radians(degrees))), float(np.sin(np.radians(degrees)))] for degrees in range(-90, 181)}


@given(chunks(), wishes())
def test_every_chunk_is_kept_or_removed_once_and_the_same_again(pool: Chunks, requested: Wishes) -> None:
    """For any chunks and options: kept and removed together are all chunks, at most target_k are kept, and a second run says the
    same.
    """
    result = optimize(pool, requested, estimated)
    numbers = [chunk.number for chunk in result.kept] + [removal.number for removal in result.removed]
    assert sorted(numbers) == list(range(len(pool.texts)))
    assert len(result.kept) <= requested.target_k
    assert optimize(pool, requested, estimated) == result


@given(chunks(), wishes(), st.integers(1, 40))
def test_a_budget_is_never_exceeded_and_skips_only_what_does_not_fit(
    pool: Chunks, requested: Wishes, budget: int
) -> None:
    """For any budget: the kept texts fit in, none is cut, and each skipped chunk would not have fitted at its place."""
    # Else a skipped chunk makes room for one beyond the target, and for its copy, because what never fits covers nothing.
    requested = replace(requested, target_k=len(pool.texts) + 1)
    budget = max(budget, *map(estimated, pool.texts), 1)
    plain = optimize(pool, replace(requested, token_budget=None), estimated)
    result = optimize(pool, replace(requested, token_budget=budget), estimated)
    assert result.output_tokens == sum(estimated(chunk.text) for chunk in result.kept) <= budget
    spent, remaining = 0, list(result.kept)
    for kept_chunk in plain.kept:
        if remaining and remaining[0] == kept_chunk:
            spent += estimated(remaining.pop(0).text)
        else:
            assert spent + estimated(kept_chunk.text) > budget
    assert not remaining


@given(chunks(), wishes())
def test_what_is_removed_is_covered_by_chunks_that_nothing_else_covers(pool: Chunks, requested: Wishes) -> None:
    """For any chunks: what covers a chunk is not covered itself."""
    result = optimize(pool, requested, estimated)
    gone = {removal.number for removal in result.removed if removal.repeat is not None}
    for removal in result.removed:
        assert (removal.repeat is None) == (removal.stage in {Stage.TARGET, Stage.BUDGET})
        assert removal.repeat is None or (removal.repeat.of and gone.isdisjoint(removal.repeat.of))


@given(st.lists(TEXTS.filter(str.strip), unique=True, max_size=8), wishes())
def test_texts_without_a_common_word_and_vectors_that_are_apart_are_all_kept(
    texts: list[str], requested: Wishes
) -> None:
    """For any texts made distinct: nothing is removed but for want of room."""
    distinct = [f"{text} only{number}" for number, text in enumerate(texts)]
    vectors = [list(map(float, row)) for row in np.eye(len(distinct))]
    requested = replace(requested, cut=0.3, query_vector=None, token_budget=None)
    result = optimize(of(*distinct, vectors=vectors), requested, estimated)
    assert {removal.stage for removal in result.removed} <= {Stage.TARGET, Stage.BUDGET}
    assert result.clusters == len(distinct)


# What texts decide


@pytest.mark.parametrize("other", ["refund within 30 days.", "Refund  within\n30 days.", "“Refund within 30 days”"])
def test_case_layout_and_formatting_make_no_other_text(other: str) -> None:
    result = outcome(of("Refund within 30 days", other))
    assert [(removal.number, removal.stage, removal.repeat and removal.repeat.of) for removal in result.removed] == [
        (1, Stage.EQUAL_TEXT, (0,))
    ]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("-5 degrees", "5 degrees"),
        ("costs $5", "costs 5"),
        ("grew by 1.5", "grew by 15"),
        ("written in C++", "written in C"),
        ("Is it ready?", "It is ready."),
        ("ready?", "ready."),
        ("退款", "退貨"),
        ("заказ", "запас"),
        ("the order was shipped on monday", "the order was shipped on tuesday"),
        ("[x] tested", "[ ] tested"),
    ],
)
@pytest.mark.parametrize("vectors", [None, [[1.0, 0.0], [1.0, 0.0]]])
def test_a_difference_of_meaning_keeps_both_whatever_the_vectors(
    one: str, other: str, vectors: list[list[float] | None] | None
) -> None:
    """Distance alone would make one of two texts about different things that a model cannot tell apart."""
    assert kept(of(one, other, vectors=vectors), cut=2.0) == [0, 1]


@pytest.mark.parametrize("texts", [("", ""), (" ", "\n"), ("", "a text")])
def test_texts_that_say_nothing_are_no_copies_of_each_other(texts: tuple[str, ...]) -> None:
    """In one tool every text without ASCII letters became the empty text, and all of them one."""
    assert kept(of(*texts)) == [0, 1]


def test_of_equal_texts_the_best_scored_stays_and_of_equal_scores_the_first() -> None:
    assert kept(of("some text", "Some text.", "some  text", scores=[0.1, 0.9, 0.9])) == [1]


def test_a_sentence_that_a_better_chunk_has_leaves_and_one_that_it_lacks_stays() -> None:
    sentences = "Orders may be returned within thirty days of delivery. Refunds are paid to the card that was charged."
    first = sentences.partition(" Refunds")[0]
    result = outcome(of(sentences, first))
    assert [(removal.stage, removal.repeat and removal.repeat.of) for removal in result.removed] == [
        (Stage.CONTAINED, (0,))
    ]
    assert kept(of(first, sentences)) == [0, 1]


def test_a_running_title_is_set_aside() -> None:
    body = "The lamp may be ordered from the depot until noon of any working day, and is paid on delivery, unless the depot asks for a sum before it."
    result = outcome(of(body, f"Acme handbook, chapter seven    page 3 of 9\n{body}"))
    assert [removal.stage for removal in result.removed] == [Stage.CONTAINED]


def test_tiers_allow_less_and_less() -> None:
    sentence = "The depot sends parcels by train and closes at four on working days."
    american = of(f"{sentence} Its colour is grey.", f"{sentence} Its color is gray.")
    assert outcome(american).count(Stage.EQUAL_TEXT) == 1
    assert outcome(american, tier=Tier.EXACT).removed == ()


def test_texts_beyond_the_budget_of_reading_stay_unless_they_are_the_same() -> None:
    long = "word " * 6_000
    texts = [*(f"{number} {long}" for number in range(36)), f"35 {long}", "short", "Short", "short"]
    result = outcome(of(*texts), target_k=50)
    assert [(removal.number, removal.stage) for removal in result.removed] == [
        (36, Stage.EQUAL_TEXT),
        (39, Stage.EQUAL_TEXT),
    ]
    stream = Stream(STABLE, estimated)
    for text in texts:
        stream.add(text, None)
    assert stream.outcome() == outcome(of(*texts), STABLE)


# What vectors decide: the pairs of which one has no text


def test_vectors_decide_where_a_text_is_missing() -> None:
    result = outcome(of("a text", "", "another text", vectors=[AT[0], AT[0], AT[90]]))
    assert [(removal.number, removal.stage, removal.repeat and removal.repeat.of) for removal in result.removed] == [
        (1, Stage.VECTORS, (0,))
    ]


def test_without_reading_texts_vectors_decide_all() -> None:
    pool = of("one thing", "quite another", "a third", vectors=[AT[0], AT[10], AT[90]])
    assert kept(pool, tier=None, cut=0.15) == [0, 2]
    assert kept(pool, tier=None, cut=0.0) == [0, 1, 2]


def test_the_threshold_is_inclusive() -> None:
    """Distance 1 is exact in float32."""
    pool = of("", "", vectors=[[1.0, 0.0], [0.0, 1.0]])
    assert outcome(pool, cut=1.0).count(Stage.VECTORS) == 1
    assert outcome(pool, cut=0.99).count(Stage.VECTORS) == 0


# Clusters and representatives


@pytest.mark.parametrize(
    ("linkage", "clusters"),
    [(Linkage.SINGLE, 1), (Linkage.COMPLETE, 2), (Linkage.AVERAGE, 2), (Linkage.LEADER, 2)],
)
def test_each_linkage_does_what_it_says(linkage: Linkage, clusters: int) -> None:
    """0, 25 and 50 degrees: neighbours are at distance 0.094, the ends at 0.357, their mean with one end at 0.225."""
    chain = of("", "", "", vectors=[AT[0], AT[25], AT[50]])
    assert outcome(chain, linkage=linkage, cut=0.15).clusters == clusters


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [
        (Strategy.RANK, 2),
        (Strategy.CENTROID, 1),
        (Strategy.QUERY_CLOSEST, 0),
        (Strategy.LONGEST, 3),
        (Strategy.AUTO, 2),
    ],
)
def test_each_strategy_chooses_its_representative(strategy: Strategy, expected: int) -> None:
    pool = of(
        *("alpha", "bravo", "charlie", "delta echo foxtrot golf"),
        scores=[0.1, 0.2, 0.9, 0.3],
        vectors=[AT[0], AT[12], AT[18], AT[20]],
    )
    query = np.array(AT[-30], np.float32)
    assert kept(pool, representative=strategy, tier=None, cut=0.3, query_vector=query) == [expected]


def test_where_scores_say_nothing_auto_takes_the_centre() -> None:
    """In one tool the choice among equal scores was the toss of the list's order."""
    pool = of("alpha", "bravo", "charlie", vectors=[AT[0], AT[10], AT[20]])
    assert kept(pool, tier=None, cut=0.15) == [1]


def test_without_a_query_vector_the_querys_words_say_who_is_closest() -> None:
    pool = of("shoes in red", "shoes in blue leather", "shoes in green", vectors=[AT[0], AT[5], AT[10]])
    assert kept(pool, representative=Strategy.QUERY_CLOSEST, query="blue shoes", tier=None, cut=0.15) == [1]
    assert kept(pool, representative=Strategy.QUERY_CLOSEST, tier=None, cut=0.15) == [0]


@pytest.mark.parametrize(("most", "expected"), [(1, [3]), (2, [1, 3]), (3, [1, 3, 0]), (9, [1, 3, 0, 2])])
def test_a_cluster_may_have_several_and_the_representative_is_always_among_them(most: int, expected: list[int]) -> None:
    """The representative has the rank of the cluster's best member."""
    pool = of("a", "b", "c", "dd dd", scores=[0.5, 0.9, 0.1, 0.3], vectors=[AT[0]] * 4)
    numbers = kept(pool, representative=Strategy.LONGEST, max_per_cluster=most, tier=None)
    assert set(numbers) == set(expected)
    assert 3 in numbers


# MMR


def test_no_more_than_target_k_are_left_as_they_are_in_rank_order() -> None:
    pool = of(*DISTINCT, scores=[0.1, 0.5, 0.3, 0.9, 0.7])
    assert kept(pool, target_k=5) == kept(pool, target_k=5, mmr_lambda=None) == [3, 4, 1, 2, 0]


@pytest.mark.parametrize("mmr_lambda", [None, 1.0])
def test_lambda_one_is_the_best_scored(mmr_lambda: float | None) -> None:
    """In one tool 0 and 1 could not be asked for, because they meant nothing given."""
    pool = of(*DISTINCT, scores=[0.1, 0.5, 0.3, 0.9, 0.7])
    assert kept(pool, target_k=3, mmr_lambda=mmr_lambda) == [3, 4, 1]


def test_lambda_zero_is_diversity_alone_behind_the_best_ranked() -> None:
    pool = of("one", "two", "three", scores=[0.9, 0.8, 0.1], vectors=[AT[0], AT[40], AT[90]])
    assert kept(pool, target_k=2, mmr_lambda=0.0) == [0, 2]


def test_with_a_query_vector_relevance_is_the_cosine_to_it() -> None:
    pool = of("one", "two", "three", scores=[0.9, 0.8, 0.1], vectors=[AT[0], AT[40], AT[90]])
    query = np.array(AT[90], np.float32)
    assert kept(pool, target_k=2, mmr_lambda=1.0, query_vector=query) == [2, 1]


def test_one_chunk_without_a_vector_makes_relevance_the_score_for_all() -> None:
    pool = of("one", "two", "three", scores=[0.9, 0.8, 0.1], vectors=[AT[0], None, AT[90]])
    query = np.array(AT[90], np.float32)
    assert kept(pool, target_k=2, mmr_lambda=1.0, query_vector=query) == [0, 1]


def test_where_all_scores_are_equal_the_querys_words_are_the_relevance() -> None:
    pool = of("about shipping", "about refunds of orders", "about sizes")
    assert kept(pool, target_k=1, query="how do refunds of orders work") == [1]


def test_common_words_are_a_penalty_where_vectors_see_none() -> None:
    texts = ("red wool scarf for winter", "red wool scarf for winter days", "opening hours of the shop")
    pool = of(*texts, scores=[1.0, 0.9, 0.5], vectors=[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    assert kept(pool, target_k=2) == [0, 2]


def test_equal_chances_are_decided_by_rank_again_and_again() -> None:
    """In one tool the first pick among equal scores was random on every call."""
    pool = of(*DISTINCT)
    assert [kept(pool, target_k=2) for _ in range(5)] == [[0, 1]] * 5


# Vectors that cannot be compared


@pytest.mark.parametrize("vector", [[0.0, 0.0], [float("nan"), 1.0], [float("inf"), 0.0], [1.0], [1.0, 0.0, 0.0], []])
def test_a_vector_that_says_nothing_removes_nothing(vector: list[float]) -> None:
    """Zero vectors were at distance 1 or 2 in one tool, and another dimension ended another's process."""
    pool = of("alpha one", "beta two", "gamma three", vectors=[AT[0], vector, vector])
    assert sorted(kept(pool, tier=None, cut=0.9)) == [0, 1, 2]


def test_the_querys_dimension_decides_which_vectors_are_compared() -> None:
    pool = of("", "", "", vectors=[[1.0, 0.0, 0.0], AT[0], AT[0]])
    assert kept(pool) == [0, 1, 2]
    assert kept(pool, query_vector=np.array(AT[0], np.float32)) == [0, 1]


@pytest.mark.parametrize("cut", [0.0, 2.0])
def test_the_ends_of_the_threshold_are_legal(cut: float) -> None:
    pool = of("alpha", "beta", "gamma", vectors=[AT[0], AT[90], AT[180]])
    assert outcome(pool, tier=None, cut=cut).clusters == (3 if cut == 0.0 else 1)


# White space and tokens


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a  b\t\tc", "a b c"),
        ("a   \nb", "a\nb"),
        ("a\r\n\r\n\r\n\r\nb", "a\n\nb"),
        ("\n\n  a\n\n", "  a"),
        ("def f():\n    return  1\n", "def f():\n    return 1"),
        ("- a\n  - b", "- a\n  - b"),
        ("   ", ""),
        ("", ""),
    ],
)
def test_white_space_that_says_nothing_goes_and_indentation_stays(text: str, expected: str) -> None:
    assert compressed(text) == expected


@given(st.text(alphabet=" \t\n\r\u00a0ab.é"))
def test_compressing_loses_no_word_and_is_done_after_once(text: str) -> None:
    """For any text: the words stay, in order; it never grows; a second time changes nothing."""
    once = compressed(text)
    assert once.split() == text.split()
    assert len(once) <= len(text)
    assert compressed(once) == once


def test_the_budget_skips_a_chunk_that_does_not_fit_and_goes_on() -> None:
    pool = of("a" * 40, "b" * 400, "c" * 40, scores=[0.9, 0.8, 0.7])
    result = outcome(pool, token_budget=20)
    assert [kept_chunk.number for kept_chunk in result.kept] == [0, 2]
    assert result.removed == (Removed(1, Stage.BUDGET),)
    assert (result.input_tokens, result.output_tokens) == (120, 20)


def test_tokens_are_counted_of_what_is_sent_back() -> None:
    pool = of("a" + " " * 99 + "b")
    assert outcome(pool, token_budget=1).output_tokens == 1
    assert outcome(pool, token_budget=1, compress=False).kept == ()


def test_the_texts_of_the_kept_are_whole() -> None:
    text = "line  one\n\n\n\n  line two  "
    assert outcome(of(text), compress=False).kept[0].text == text
    assert DEFAULT.compress
    assert outcome(of(text)).kept[0].text == "line one\n\n  line two"
