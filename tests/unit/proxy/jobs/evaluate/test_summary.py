"""Figures of sets and over sets, by hand."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.selection.outcomes import of, outcome
from vecsieve.proxy.jobs.evaluate import summary
from vecsieve.proxy.jobs.evaluate.judging import SetOutcome
from vecsieve.proxy.jobs.evaluate.reading import Repeats
from vecsieve.proxy.jobs.evaluate.searching import PLAIN
from vecsieve.proxy.jobs.evaluate.summary import MANY_REPEATS, Estimate, Summary, estimate, resampled, summarised

NAN = float("nan")


def three_sets(draws: int = 0) -> Summary:
    """Three sets: one half redundant, one 40 %, one hardly; the policy loses an answer in the last."""
    plain_answers = {"recall": [0.5, 0.5], "retained": [1.0, 1.0]}
    sets = [
        outcome("half", of(redundancy=[0.5, 0.5], **plain_answers), own=of(redundancy=[0.0, 0.5], recall=[1.0, 0.5])),
        outcome("some", of(redundancy=[0.4, 0.4], **plain_answers), own=of(redundancy=[0.1, 0.1], recall=[0.5, 0.5])),
        outcome(
            "clean",
            of(redundancy=[0.1, 0.1], **plain_answers),
            own=of(
                redundancy=[0.0, 0.0],
                recall=[0.5, 0.25],
                retained=[1.0, 0.0],
                returned=[8.0, 5.0],
                kept=[3.0, 0.0],
                lost=[0.0, 1.0],
                added_seconds=[0.002, 0.006],
            ),
        ),
    ]
    return summarised(sets, draws=draws, seed=0)["own"]


def test_reduction_is_the_mean_over_the_sets_that_are_redundant() -> None:
    summed = three_sets()
    assert [None if figure.reduction is None else figure.reduction.value for figure in summed.sets] == [
        0.5,
        pytest.approx(0.75),
        None,
    ]
    reduction = summed.headlines[Repeats.COPIES].reduction
    assert reduction is not None
    assert reduction.value == pytest.approx((0.5 + 0.75) / 2)


def test_retention_is_that_of_the_worst_set_and_gain_the_mean() -> None:
    line = three_sets().headlines[Repeats.COPIES]
    assert line.retention_worst is not None
    assert (line.retention_worst.name, line.retention_worst.estimate.value) == ("clean", 0.5)
    assert line.gain_mean.value == pytest.approx((0.25 + 0.0 - 0.125) / 3)


def test_items_and_times_count_sets_and_queries() -> None:
    line, clean = three_sets().headlines[Repeats.COPIES], three_sets().sets[2]
    assert line.returned == pytest.approx((8.0 + 8.0 + 6.5) / 3)
    assert line.added_ms == pytest.approx(2.0)
    assert clean.added_ms == pytest.approx(4.0)
    assert (clean.queries, clean.retained_subtopics) == (2, 0.75)


def test_the_plain_answer_is_held_against_itself() -> None:
    sets = [outcome("half", of(redundancy=[0.5, 0.5]), own=of(redundancy=[0.0, 0.0]))]
    summed = summarised(sets, draws=10, seed=0)
    assert list(summed) == [PLAIN, "own"]
    line = summed[PLAIN].headlines[Repeats.COPIES]
    assert line.reduction is not None
    assert (line.reduction.value, line.gain_mean.value) == (0.0, 0.0)
    assert (line.reduction.low, line.reduction.high) == (0.0, 0.0)


def test_what_no_query_has_is_absent_and_stays_out_of_the_means() -> None:
    never = of(retained=[NAN], redundancy=[0.0], collapsed=[NAN], kept=[0.0])
    sets = [outcome("never", never, own=never), outcome("there", of(retained=[1.0]), own=of(retained=[1.0]))]
    summed = summarised(sets, draws=0, seed=0)["own"]
    line = summed.headlines[Repeats.COPIES]
    assert line.reduction is None
    assert line.retention_worst is not None
    assert line.retention_worst.name == "there"
    assert math.isnan(summed.sets[0].retention.value)
    assert math.isnan(summed.sets[0].collapsed)
    assert math.isnan(summed.sets[0].retained_subtopics)
    alone = summarised(sets[:1], draws=5, seed=0)["own"].headlines[Repeats.COPIES]
    assert alone.retention_worst is None


def test_intervals_hold_the_value_and_come_out_the_same_twice() -> None:
    line, again = three_sets(draws=400).headlines[Repeats.COPIES], three_sets(draws=400).headlines[Repeats.COPIES]
    assert line == again
    assert line.reduction is not None
    assert line.reduction.low is not None
    assert line.reduction.high is not None
    assert line.reduction.low < line.reduction.value < line.reduction.high


# Drops: a query with many counts for as much as its drops.


def bare(value: float) -> Estimate:
    """Without an interval."""
    return Estimate(value=value, low=None, high=None)


def dropping(name: str, dropped: list[float], wrong: list[float], **more: list[float]) -> SetOutcome:
    plain = of(recall=[0.5] * len(dropped))
    return outcome(name, plain, own=of(dropped=dropped, wrong_label=wrong, **more))


def test_wrong_drops_are_a_share_of_the_drops_and_not_of_the_queries() -> None:
    more = {"wrong_text": [20.0, 0.0, 0.0], "walked": [99.0, 101.0, 0.0], "walked_wrong_text": [30.0, 10.0, 0.0]}
    summed = summarised([dropping("one", [99.0, 1.0, 0.0], [9.0, 1.0, 0.0], **more)], draws=0, seed=0)["own"]
    page, walked = summed.sets[0].page, summed.sets[0].walked
    assert (page.drops, page.by_label, page.by_text) == (100, 10, 20)
    assert (page.label_share, page.text_share) == (bare(0.10), bare(0.20))
    assert (walked.drops, walked.by_label, walked.by_text, walked.text_share) == (200, 0, 40, bare(0.20))


def test_wrong_drops_of_a_kind_are_a_share_of_all_its_drops() -> None:
    sets = [dropping("few", [10.0], [10.0]), dropping("many", [190.0], [0.0])]
    page = summarised(sets, draws=0, seed=0)["own"].headlines[Repeats.COPIES].page
    assert (page.drops, page.by_label, page.label_share) == (200, 10, bare(0.05))


def test_the_plain_answer_drops_nothing() -> None:
    summed = summarised([dropping("one", [200.0], [2.0])], draws=5, seed=0)[PLAIN]
    assert summed.sets[0].page.drops == 0
    assert summed.sets[0].page.label_share is None
    assert summed.headlines[Repeats.COPIES].page.text_share is None


def test_the_interval_of_wrong_drops_holds_the_value_and_lies_within_what_queries_say() -> None:
    sets = [dropping("one", [6.0, 4.0] * 20, [0.0, 4.0, 3.0, 0.0] * 10)]
    summed = summarised(sets, draws=400, seed=0)["own"]
    wrong = summed.headlines[Repeats.COPIES].page.label_share
    assert wrong is not None
    assert wrong.low is not None
    assert wrong.high is not None
    assert wrong.value == pytest.approx(0.35)
    assert 0.0 < wrong.low < wrong.value < wrong.high < 1.0
    assert summed.sets[0].page.label_share == wrong


# Strict repeats: counts over all queries, and the mean over the sets that have enough of them.


def repeating(name: str, plain: list[float], policy_figures: list[float]) -> SetOutcome:
    return outcome(name, of(strict=plain), own=of(strict=policy_figures))


def test_the_strict_cut_is_a_share_of_the_repeats_and_not_of_the_queries() -> None:
    sets = [repeating("one", [29.0, 1.0, 0.0], [3.0, 0.0, 0.0]), repeating("none", [0.0], [0.0])]
    one, none = summarised(sets, draws=0, seed=0)["own"].sets
    assert one.strict_cut is not None
    assert (one.plain_strict, one.strict) == (30, 3)
    assert one.strict_cut.value == pytest.approx(0.9)
    assert (none.plain_strict, none.strict_cut) == (0, None)


def test_sets_with_few_strict_repeats_do_not_count_over_all_sets() -> None:
    few, enough = float(MANY_REPEATS - 1), float(MANY_REPEATS)
    sets = [repeating("few", [few], [few]), repeating("enough", [enough], [0.0]), repeating("many", [90.0], [45.0])]
    line = summarised(sets, draws=0, seed=0)["own"].headlines[Repeats.COPIES]
    assert line.strict_cut is not None
    assert line.strict_cut.value == pytest.approx(0.75)
    assert summarised(sets[:1], draws=5, seed=0)["own"].headlines[Repeats.COPIES].strict_cut is None


def test_sets_of_copies_of_meanings_and_without_repeats_have_headlines_of_their_own() -> None:
    sets = [
        outcome("a", of(recall=[0.5]), own=of(recall=[1.0]), repeats=Repeats.MEANINGS),
        outcome("b", of(recall=[0.5]), own=of(recall=[0.25]), repeats=Repeats.NONE),
        outcome("c", of(recall=[0.5, 0.5]), own=of(recall=[0.5, 0.5])),
    ]
    headlines = summarised(sets, draws=0, seed=0)["own"].headlines
    assert list(headlines) == [Repeats.COPIES, Repeats.MEANINGS, Repeats.NONE]
    assert [(headline.sets, headline.queries, headline.gain_mean.value) for headline in headlines.values()] == [
        (1, 2, 0.0),
        (1, 1, 0.5),
        (1, 1, -0.25),
    ]


# Intervals: the sample first, the same draws for everybody, and the width that statistics expects.

SHARES = st.floats(0.0, 1.0)


def shares(policy_figures: list[float], plain: list[float], *, draws: int = 50) -> list[float]:
    """The value and the interval of the share of answers that are kept."""
    outcomes = [outcome("a", of(retained=plain, recall=[0.5] * len(plain)), own=of(retained=policy_figures))]
    kept = summarised(outcomes, draws=draws, seed=0)["own"].sets[0].retention
    return [kept.value, kept.value if kept.low is None else kept.low, kept.value if kept.high is None else kept.high]


def test_queries_without_an_answer_to_keep_do_not_count_for_retention() -> None:
    value, low, high = shares([NAN, 1.0, 0.0, NAN], [0.0, 1.0, 1.0, 0.0])
    assert value == 0.5
    assert 0.0 <= low <= high <= 1.0
    assert np.isnan(shares([NAN, NAN], [0.0, 0.0], draws=3)).all()


def test_draws_depend_on_the_seed_and_the_set_and_on_nothing_else() -> None:
    policy_outcome, plain = of(recall=np.linspace(0.0, 1.0, 30).tolist()), of(recall=[0.5] * 30)

    def gains(name: str, seed: int) -> bytes:
        return resampled(name, policy_outcome, plain, draws=20, seed=seed)["recall"].tobytes()

    assert gains("a", 0) == gains("a", 0)
    assert gains("a", 0) != gains("a", 1)
    assert gains("a", 0) != gains("b", 0)


def test_every_policy_meets_the_same_draws() -> None:
    values = np.linspace(0.0, 1.0, 30)
    plain = of(recall=[0.0] * 30)
    one = resampled("a", of(recall=values.tolist()), plain, draws=20, seed=0)
    other = resampled("a", of(recall=(values * 2.0).tolist()), plain, draws=20, seed=0)
    np.testing.assert_allclose(other["recall"], one["recall"] * 2.0)


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    policy_outcome, plain = of(recall=np.linspace(0.0, 1.0, 30).tolist()), of(recall=[0.5] * 30)
    whole = resampled("a", policy_outcome, plain, draws=25, seed=0)["recall"]
    monkeypatch.setattr(summary, "CELLS", 100)
    np.testing.assert_allclose(resampled("a", policy_outcome, plain, draws=25, seed=0)["recall"], whole, rtol=1e-12)


def test_the_interval_of_a_mean_is_as_wide_as_its_standard_error_says() -> None:
    values = np.random.default_rng(7).normal(0.5, 0.1, 400)
    interval = estimate(
        resampled("a", of(recall=values.tolist()), of(recall=[0.0] * 400), draws=4000, seed=0)["recall"] / 400
    )
    assert interval.low is not None
    assert interval.high is not None
    expected = 1.96 * values.std() / math.sqrt(400)
    assert (interval.high - interval.low) / 2.0 == pytest.approx(expected, rel=0.1)
    assert (interval.high + interval.low) / 2.0 == pytest.approx(values.mean(), abs=0.1 * expected)


@given(st.lists(SHARES, min_size=2, max_size=30).map(np.array))
def test_an_interval_lies_within_what_was_drawn(values: npt.NDArray[np.float64]) -> None:
    """Invariant: lowest draw ≤ low ≤ high ≤ highest draw; the sample's own value is not one of the draws."""
    interval = estimate(values)
    assert interval.value == values[0]
    assert interval.low is not None
    assert interval.high is not None
    assert values[1:].min() <= interval.low <= interval.high <= values[1:].max()
