"""The calibrated rule: what makes a copy more or less probable, its symmetry, its floor without texts, its words."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.policies import TEXT_RULES
from support.texts import as_texts, hostile_text, passages
from vecsieve.proxy.selection.calibrated import TEXTS, VECTORS
from vecsieve.proxy.selection.certainty import (
    FEATURES,
    KNEE,
    LEAST_WEIGHT,
    SHIPPED,
    SIGNS,
    SUBJECTS,
    VECTOR_FEATURES,
    VECTORS_LEAST,
    ByChance,
    by_vectors,
    doubts_allowed,
    judged,
    pair_features,
    reach_of_vectors,
    vector_features,
    weighed,
)
from vecsieve.proxy.selection.geometry import Mask
from vecsieve.proxy.selection.policy import Certain
from vecsieve.proxy.selection.text import pairs
from vecsieve.proxy.selection.text.rare_words import MOST_REPETITION
from vecsieve.proxy.selection.text.reading import Texts, read
from vecsieve.proxy.selection.values import FloatMatrix, Metadata, finished

LONG = " ".join(f"word{'abcdefghij'[n % 10]}{'klmnopqrst'[n // 10 % 10]} goes over the hill" for n in range(20))
OTHER = " ".join(f"stone{'abcdefghij'[n % 10]}{'klmnopqrst'[n // 10 % 10]} lies under a bridge" for n in range(20))


RULE = Certain(first=0.85, last=0.0)


def texts_of(*texts: str | None) -> Texts:
    return read(Metadata(texts=as_texts(texts)), TEXT_RULES)


@dataclass
class Judged:
    """Matrices (n, n)."""

    doubt: npt.NDArray[np.float64]
    contained: Mask


def judge(*texts: str | None, distance: float = 0.3, largest: float = 2.0, rule: Certain = RULE) -> Judged:
    n = len(texts)
    first, second = np.triu_indices(n, 1)
    apart = np.full(len(first), distance)
    doubt, contained = finished(
        judged(apart, texts_of(*texts), first, second, by_chance=ByChance(largest, largest), rule=rule)
    )
    found = Judged(np.ones((n, n)), np.zeros((n, n), np.bool_))
    for matrix, values in ((found.doubt, doubt), (found.contained, contained)):
        matrix[first, second] = matrix[second, first] = values
    return found


def probability(one: str, other: str, distance: float = 0.3) -> float:
    return float(1.0 - judge(one, other, distance=distance).doubt[0, 1])


def test_every_coefficient_has_the_sign_that_makes_sense() -> None:
    assert set(TEXTS) == set(FEATURES)
    assert set(VECTORS) == set(VECTOR_FEATURES)
    assert not [name for name, sign in SIGNS.items() if {**VECTORS, **TEXTS}.get(name, 0.0) * sign < 0.0]


def test_the_certainty_falls_down_the_page_and_stays_at_its_last_value() -> None:
    allowed = doubts_allowed(Certain(first=0.9, last=0.5), 12)
    assert allowed[0] == allowed[1] == pytest.approx(0.1)
    assert allowed[7:] == pytest.approx([0.5] * 5)
    assert allowed == sorted(allowed)
    assert doubts_allowed(Certain(first=0.8, last=0.8), 3) == pytest.approx([0.2] * 3)


@pytest.mark.parametrize(
    ("surer", "less_sure"),
    [
        ((LONG, f"{LONG} and more"), (LONG, OTHER)),
        ((LONG, f"{LONG} and more"), (LONG, f"{LONG} and more of 7 kinds than 9 here, not 5")),
        ((LONG, LONG[len(LONG) // 3 :]), (LONG, f"{OTHER} {LONG[: len(LONG) // 3]}")),
        (("how do I close my account", "closing my account"), ("how do I close my account", "where is my new card")),
        (("pay invoice 17 now", "pay the invoice 17"), ("pay invoice 17 now", "pay the invoice 18")),
    ],
)
def test_more_in_common_makes_a_copy_more_probable(surer: tuple[str, str], less_sure: tuple[str, str]) -> None:
    assert probability(*surer) > probability(*less_sure)


def test_the_nearer_the_more_probable_for_short_texts_and_long_ones() -> None:
    for pair in ((LONG, f"{LONG} and more"), ("close my account", "closing the account")):
        found = [probability(*pair, distance=distance) for distance in (0.4, 0.6, 0.9)]
        assert found == sorted(found, reverse=True)


def test_long_texts_without_shared_words_are_never_copies_however_near() -> None:
    assert probability(LONG, OTHER, distance=0.0) < 0.4


def test_a_contained_text_is_called_so() -> None:
    found = judge(LONG, LONG[len(LONG) // 3 :], OTHER)
    assert found.contained[0, 1]
    assert not found.contained[0, 2]


def test_beyond_what_chance_allows_only_a_contained_text_counts() -> None:
    assert judge("close my account", "closing my account", distance=0.5, largest=0.4).doubt[0, 1] == 1.0
    assert judge(LONG, f"{LONG} and more", distance=0.5, largest=0.4).doubt[0, 1] < 0.2


def test_a_pair_of_which_one_has_no_text_is_judged_by_its_vectors_and_carefully() -> None:
    assert judge(LONG, None, distance=0.01).doubt[0, 1] <= 1.0 - VECTORS_LEAST
    assert judge(LONG, None, distance=0.3).doubt[0, 1] == 1.0


@given(st.lists(hostile_text(), min_size=2, max_size=6), st.floats(0.0, 2.0))
def test_doubts_are_symmetric_and_between_zero_and_one(texts: list[str], distance: float) -> None:
    """Invariant: for any texts the doubt is in [0, 1], the same both ways, and 1 with itself."""
    found = judge(*texts, distance=distance).doubt
    assert ((found >= 0.0) & (found <= 1.0)).all()
    assert np.array_equal(found, found.T)
    assert (found.diagonal() == 1.0).all()


@given(
    st.lists(
        st.sampled_from([LONG, OTHER, "close my account", "closing an account", "new card"]), min_size=2, max_size=5
    )
)
def test_a_copy_of_a_candidate_changes_no_other_pair(texts: list[str]) -> None:
    """Invariant: rare is what few different texts have."""
    before = judge(*texts).doubt
    after = judge(*texts, texts[0]).doubt
    assert np.array_equal(after[: len(texts), : len(texts)], before)


def test_the_earlier_of_two_may_be_named_second() -> None:
    texts = texts_of(LONG, OTHER, f"{LONG} and more")
    later, earlier = np.array([2, 2]), np.array([0, 1])
    found = finished(judged(np.full(2, 0.3), texts, later, earlier, by_chance=ByChance(2.0, 2.0), rule=RULE))[0]
    assert found.tolist() == pytest.approx(judge(LONG, OTHER, f"{LONG} and more").doubt[2, :2].tolist())


@given(
    st.lists(st.tuples(passages(), st.sampled_from(["", LONG, OTHER])), min_size=2, max_size=6), st.floats(0.05, 1.0)
)
def test_what_is_not_counted_exactly_could_not_be_merged(known: list[tuple[str, str]], distance: float) -> None:
    """Invariant: a doubt is exact, or both it and the exact one are above what the rule allows at any place."""
    texts = texts_of(*(f"{one} {other}" for one, other in known))
    first, second = np.triu_indices(len(known), 1)
    apart, rule = np.full(len(first), distance), Certain(first=0.85, last=0.4)
    (quick, near), (exact, contained) = (
        finished(judged(apart, texts, first, second, by_chance=ByChance(2.0, 2.0), rule=rule, bounded=bounded))
        for bounded in (True, False)
    )
    merged = exact <= 0.6
    assert np.array_equal(quick[merged], exact[merged])
    assert np.array_equal(near[merged], contained[merged])
    assert (quick[~merged] > 0.6).all()


def forget_pairs() -> None:
    for memory in (pairs.SHARED, pairs.DIFFERENCES, pairs.SENTENCES):
        memory.forget()


@given(st.lists(passages(), min_size=2, max_size=6))
def test_what_is_remembered_of_pairs_changes_nothing(known: list[str]) -> None:
    """Invariant: doubts are the same when nothing of any pair is remembered."""
    forget_pairs()
    cold = judge(*known).doubt
    assert np.array_equal(judge(*known).doubt, cold)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pairs, "MOST", 2)
        forget_pairs()
        assert np.array_equal(judge(*known).doubt, cold)
    forget_pairs()


@given(st.lists(st.floats(0.0, 3.0, width=32), min_size=1, max_size=30))
def test_by_vectors_alone_nothing_below_the_floor_counts_and_equal_vectors_always_do(distances: list[float]) -> None:
    """Invariant: a doubt is 0 for equal vectors, else at most 1 - VECTORS_LEAST or exactly 1; it never falls with distance."""
    apart: FloatMatrix = np.sort(np.array(distances, np.float32))[None, :]
    found = by_vectors(apart, 2.0)[0]
    assert (found[apart[0] == 0.0] == 0.0).all()
    assert ((found <= 1.0 - VECTORS_LEAST + 1e-6) | (found == 1.0)).all()
    assert (np.diff(found) >= 0.0).all()


@given(st.lists(st.floats(-9.0, 0.0), min_size=3, max_size=3), st.floats(0.0, 3.0))
def test_beyond_the_reach_of_vectors_nothing_counts(coefficients: list[float], distance: float) -> None:
    """Invariant: for any model with the right signs, no pair beyond the reach has the probability that vectors alone need."""
    model = tuple(coefficients)
    logit = float((vector_features(np.array([distance])) @ np.array(model))[0])
    assert distance <= reach_of_vectors(model) or 1.0 / (1.0 + np.exp(-logit)) < VECTORS_LEAST


def test_what_vectors_cannot_compare_stays_infinite_and_what_chance_explains_is_doubted() -> None:
    apart = np.array([[np.inf, 0.1, 0.0]], np.float32)
    assert by_vectors(apart, 0.05).tolist() == [[np.inf, 1.0, 0.0]]


def test_of_two_of_which_one_has_no_text_vectors_alone_decide_within_bounds_of_their_own() -> None:
    texts = texts_of(LONG, None, None, f"{LONG} and more")
    first, second = np.triu_indices(4, 1)
    bare: FloatMatrix = np.array([0.01, 0.2, 0.01, 0.2, 0.01, 0.01], np.float32)
    apart = np.full(6, 0.05)
    doubt, _ = finished(judged(apart, texts, first, second, by_chance=ByChance(2.0, bare), rule=RULE))
    free, _ = finished(judged(apart, texts, first, second, by_chance=ByChance(2.0, 2.0), rule=RULE))
    assert (free < 1.0).all()
    # With a text on both sides, as the first and the last have, the bound does not count.
    assert doubt.tolist() == [1.0, free[1], free[2], free[3], 1.0, 1.0]


def test_of_short_texts_the_doubt_of_a_pair_that_is_not_merged_counts_all_its_features() -> None:
    texts = texts_of("close 7 accounts", "the weather was fine on the 9th day")
    first, second, apart = np.array([0]), np.array([1]), np.array([0.9])
    doubt, _ = finished(
        judged(
            apart, texts, first, second, by_chance=ByChance(2.0, 2.0), rule=Certain(first=0.85, last=0.4), bounded=False
        )
    )
    logit = pair_features(texts, first, second, apart) @ np.array([TEXTS[name] for name in FEATURES])
    assert doubt.tolist() == pytest.approx((1.0 / (1.0 + np.exp(logit))).tolist())


def test_features_stand_in_the_order_of_their_names() -> None:
    texts = texts_of("close 7 accounts", "close 9 accounts", LONG, OTHER)
    found = pair_features(texts, np.array([0, 2, 0]), np.array([1, 3, 2]), np.array([0.5, 0.2, 1.0]))
    column = {name: found[:, place].tolist() for place, name in enumerate(FEATURES)}
    assert column["short"] == [1.0, 0.0, 0.0]
    assert column["short_far"] == pytest.approx([np.log(0.5), 0.0, 0.0])
    assert column["far"] == pytest.approx([0.0, -1.0, 0.0])
    assert column["short_both_figures"] == [1.0, 0.0, 0.0]
    assert column["opening"] == [pytest.approx(6 / 16), 0.0, 0.0]
    assert vector_features(np.array([1.0, 0.1])).tolist() == [[1.0, 0.0, -1.0], [1.0, -1.0, pytest.approx(np.log(0.1))]]


def test_short_texts_that_share_their_beginning_are_less_probable_copies_than_ones_that_share_the_same_words() -> None:
    stays = "we should ban child actors because fame harms them"
    same_beginning = judge(stays, "we should ban child actors because schools are better").doubt[0, 1]
    same_words = judge(stays, "because schools are better we should ban child actors").doubt[0, 1]
    assert same_beginning > same_words


def test_of_two_long_texts_a_shared_beginning_says_nothing() -> None:
    found = pair_features(texts_of(LONG, LONG[:400] + OTHER), np.array([0]), np.array([1]), np.array([0.3]))
    assert found[0, FEATURES.index("opening")] == 0.0


TICKETS = [f"{ask} {what} today" for ask in ("how do I close", "please close", "I want to close") for what in ("my card", "my account", "this loan", "the plan", "our deposit", "a transfer")]  # fmt: skip
CLAIMS = [f"claim{chr(97 + n)} says{chr(97 + n)} that{chr(97 + n)} holds{chr(97 + n)}" for n in range(18)]


def repetition_of(*texts: str) -> float:
    found = pair_features(texts_of(*texts), np.array([0]), np.array([1]), np.array([0.5]))
    return float(found[0, FEATURES.index("repetition")])


def test_short_texts_that_repeat_one_another_make_every_copy_among_them_more_probable() -> None:
    assert repetition_of(*CLAIMS) == 0.0
    assert 0.05 < repetition_of(*TICKETS) <= MOST_REPETITION
    pair = ("cancel the order", "cancelling an order")
    assert judge(*pair, *TICKETS).doubt[0, 1] < judge(*pair, *CLAIMS).doubt[0, 1]


def test_two_alike_among_few_texts_say_nothing_of_the_others() -> None:
    assert repetition_of("close my account", "close my account now", "where is my new card") == 0.0


@given(st.lists(st.sampled_from(TICKETS + CLAIMS), min_size=12, max_size=30, unique=True))
def test_a_copy_changes_nothing_of_how_much_texts_repeat_one_another(texts: list[str]) -> None:
    """Invariant: equal texts count once, up to the last digits of a matrix product."""
    assert repetition_of(*texts, texts[3]) == pytest.approx(repetition_of(*texts), abs=1e-12)


def test_how_much_texts_repeat_one_another_is_read_off_the_first_fifty() -> None:
    """Pages of one list must not change their minds when more is fetched."""
    first = [*CLAIMS, *(f"{each} again{n}" for n, each in enumerate(TICKETS * 2))][:50]
    more = [f"close my account number{n}" for n in range(100)]
    assert repetition_of(*first, *more) == pytest.approx(repetition_of(*first), abs=1e-12)


def sentence_feature(later: str, earlier: str) -> float:
    texts = texts_of(earlier, later)
    return float(pair_features(texts, np.array([0]), np.array([1]), np.array([0.3]))[0, FEATURES.index("sentences")])


def test_of_two_chunks_that_overlap_the_sentences_that_stay_decide() -> None:
    """A long sentence can make half of the words and a quarter of the sentences."""
    run = " ".join(f"word{chr(97 + n % 26)}{chr(97 + n // 26)}" for n in range(40))
    short = " ".join(f"Point{chr(97 + n)} stands on{chr(97 + n)} its own{chr(97 + n)} ground{chr(97 + n)} and is{chr(97 + n)} not{chr(97 + n)} in the other{chr(97 + n)} chunk." for n in range(4))  # fmt: skip
    assert sentence_feature(f"{run}. {short}", f"{run}. {OTHER}") == pytest.approx(0.3)
    assert sentence_feature(f"{run}. {short}", f"{OTHER}. {short}") == 0.0
    assert sentence_feature(f"{run}. {short}", OTHER) == 0.0
    assert sentence_feature("close my account", "close my account now") == 0.0


def row_of(**values: float) -> list[float]:
    return [values.get(name, 0.0) for name in FEATURES]


@pytest.mark.parametrize(
    ("features", "subjects"),
    [
        (row_of(one=1, far=-1, contained=0.65, covered=0.2), ["contained", "distance"]),
        (row_of(one=1, far=0.3, figures=1, both_figures=1), ["figures", "distance"]),
        (row_of(one=1, short=1, short_far=-1, short_near=-1, rare_shared=0.9, rare_contained=1), ["words", "distance"]),
        (row_of(one=1, short=1, short_near=-1), []),
        ([1.0, -1.0, -2.0], ["distance"]),
    ],
)
def test_the_two_heaviest_subjects_are_told_heaviest_first(features: list[float], subjects: list[str]) -> None:
    found = weighed(features)
    assert [each.subject for each in found] == subjects
    assert all(each.words for each in found)


def test_a_distance_speaks_for_a_copy_or_against_it() -> None:
    (near,), (far,) = weighed([1.0, -1.0, -1.5]), weighed([1.0, 0.5, -1.0])
    assert (near.words, far.words) == ("the vectors are near", "the vectors are far apart")
    assert near.weight > 0.0 > far.weight


@given(st.lists(st.floats(-1, 1), min_size=len(FEATURES), max_size=len(FEATURES)))
def test_all_weights_together_tell_a_pair_from_one_with_nothing_in_common(features: list[float]) -> None:
    """Invariant: their sum is the logarithm of the odds, less that of the pair which is compared with."""
    told = sum(each.weight for each in weighed(features, most=len(SUBJECTS)))
    kinds = {"one", "short"}
    beside = [value if name in kinds else 0.0 for name, value in zip(FEATURES, features, strict=True)]
    beside[FEATURES.index("short_near")] = KNEE * features[FEATURES.index("short")]
    apart = float(np.dot(SHIPPED.texts, features) - np.dot(SHIPPED.texts, beside))
    assert told == pytest.approx(apart, abs=LEAST_WEIGHT * len(SUBJECTS))


@pytest.mark.parametrize(
    ("one", "other"), [("\U0001f600", "\U0001f44e"), ("свет", "ночь"), ("red apples", "blue violins")]
)
def test_one_vector_for_two_short_texts_without_a_common_word_tells_nothing(one: str, other: str) -> None:
    """A model that does not know the words has the same vector for all of them."""
    assert probability(one, other, distance=0.0) == pytest.approx(probability(one, other, distance=1.0), abs=0.25)
    assert probability(one, other, distance=0.0) < 0.4


def test_one_vector_for_two_short_texts_with_common_words_is_evidence() -> None:
    assert probability("red apples today", "red apples now", distance=0.0) > 0.4
