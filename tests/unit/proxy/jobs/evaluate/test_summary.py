"""Figures of sets and over sets, by hand."""

from __future__ import annotations

import math

import pytest

from support.outcomes import of, outcome
from vecsieve.proxy.jobs.evaluate.judging import SetOutcome
from vecsieve.proxy.jobs.evaluate.searching import PLAIN
from vecsieve.proxy.jobs.evaluate.summary import MANY_DROPS, Summary, summarised

NAN = float("nan")


def summary(draws: int = 0) -> Summary:
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
                choosing_seconds=[0.001, 0.003],
                added_seconds=[0.002, 0.006],
            ),
        ),
    ]
    return summarised(sets, draws=draws, seed=0)["own"]


def test_reduction_is_the_mean_over_the_sets_that_are_redundant() -> None:
    found = summary()
    assert [None if each.reduction is None else each.reduction.value for each in found.sets] == [
        0.5,
        pytest.approx(0.75),
        None,
    ]
    assert found.headline.reduction is not None
    assert found.headline.reduction.value == pytest.approx((0.5 + 0.75) / 2)


def test_retention_and_gain_are_the_mean_over_all_sets_and_the_worst_one() -> None:
    line = summary().headline
    assert line.retention_mean is not None
    assert line.retention_worst is not None
    assert (line.retention_worst.name, line.retention_worst.estimate.value) == ("clean", 0.5)
    assert line.retention_mean.value == pytest.approx((1.0 + 1.0 + 0.5) / 3)
    assert line.gain_mean.value == pytest.approx((0.25 + 0.0 - 0.125) / 3)
    assert (line.gain_worst.name, line.gain_worst.estimate.value) == ("clean", -0.125)


def test_items_and_times_count_sets_and_queries() -> None:
    line, clean = summary().headline, summary().sets[2]
    assert line.returned == pytest.approx((8.0 + 8.0 + 6.5) / 3)
    assert (line.choosing_ms, line.added_ms) == pytest.approx((1.0, 2.0))
    assert (clean.choosing_ms, clean.added_ms) == pytest.approx((2.0, 4.0))
    assert (clean.queries, clean.retained_subtopics) == (2, 0.75)


def test_the_plain_answer_is_held_against_itself() -> None:
    sets = [outcome("half", of(redundancy=[0.5, 0.5]), own=of(redundancy=[0.0, 0.0]))]
    found = summarised(sets, draws=10, seed=0)
    assert list(found) == [PLAIN, "own"]
    line = found[PLAIN].headline
    assert line.reduction is not None
    assert (line.reduction.value, line.gain_mean.value) == (0.0, 0.0)
    assert (line.reduction.low, line.reduction.high) == (0.0, 0.0)


def test_what_no_query_has_is_absent_and_stays_out_of_the_means() -> None:
    never = of(retained=[NAN], redundancy=[0.0], collapsed=[NAN], kept=[0.0])
    sets = [outcome("never", never, own=never), outcome("there", of(retained=[1.0]), own=of(retained=[1.0]))]
    found = summarised(sets, draws=0, seed=0)["own"]
    assert found.headline.reduction is None
    assert found.headline.retention_mean is not None
    assert found.headline.retention_worst is not None
    assert (found.headline.retention_mean.value, found.headline.retention_worst.name) == (1.0, "there")
    assert math.isnan(found.sets[0].retention.value)
    assert math.isnan(found.sets[0].collapsed)
    assert math.isnan(found.sets[0].retained_subtopics)
    alone = summarised(sets[:1], draws=5, seed=0)["own"].headline
    assert (alone.retention_mean, alone.retention_worst) == (None, None)


def test_intervals_hold_the_value_and_come_out_the_same_twice() -> None:
    line, again = summary(draws=400).headline, summary(draws=400).headline
    assert line == again
    assert line.reduction is not None
    assert line.reduction.low is not None
    assert line.reduction.high is not None
    assert line.reduction.low < line.reduction.value < line.reduction.high
    assert (line.gain_worst.estimate.low, line.gain_worst.estimate.high) == (-0.25, 0.0)


def dropping(name: str, dropped: list[float], wrong: list[float], **more: list[float]) -> SetOutcome:
    return outcome(name, of(recall=[0.5] * len(dropped)), own=of(dropped=dropped, wrong=wrong, **more))


def test_wrong_drops_are_a_share_of_the_drops_and_not_of_the_queries() -> None:
    """A query with many drops counts for as much as its drops."""
    found = summarised([dropping("one", [99.0, 1.0, 0.0], [9.0, 1.0, 0.0])], draws=0, seed=0)["own"]
    (only,) = found.sets
    assert only.drops == 100
    assert only.wrong.value == pytest.approx(0.10)
    assert (only.wrong.low, only.wrong.high) == (None, None)


def test_wrong_drops_of_an_evidence_are_a_share_of_its_drops() -> None:
    more = {"same_text": [4.0, 4.0], "same_text_wrong": [1.0, 0.0], "near": [2.0, 0.0], "near_wrong": [1.0, 0.0]}
    sets = [dropping("one", [50.0, 50.0], [5.0, 5.0], **more), dropping("no text", [50.0, 50.0], [5.0, 5.0])]
    one, none = summarised(sets, draws=0, seed=0)["own"].sets
    assert (one.wrong_same_text, one.wrong_near) == (0.125, 0.5)
    assert math.isnan(one.wrong_contained)
    assert math.isnan(none.wrong_same_text)


def test_sets_with_few_drops_say_nothing_of_wrong_ones_over_all_sets() -> None:
    few, enough = float(MANY_DROPS - 1), float(MANY_DROPS)
    sets = [dropping("few", [few], [few]), dropping("enough", [enough], [5.0]), dropping("many", [200.0], [30.0])]
    found = summarised(sets, draws=0, seed=0)["own"]
    line = found.headline
    assert [each.wrong.value for each in found.sets] == [1.0, 0.05, 0.15]
    assert line.wrong_mean is not None
    assert line.wrong_worst is not None
    assert line.wrong_mean.value == pytest.approx(0.10)
    assert (line.wrong_worst.name, line.wrong_worst.estimate.value) == ("many", 0.15)
    assert summarised(sets[1:2], draws=0, seed=0)["own"].headline.wrong_mean is not None
    alone = summarised(sets[:1], draws=5, seed=0)["own"].headline
    assert (alone.wrong_mean, alone.wrong_worst) == (None, None)


def test_the_plain_answer_drops_nothing() -> None:
    found = summarised([dropping("one", [200.0], [2.0])], draws=5, seed=0)[PLAIN]
    assert (found.sets[0].drops, found.headline.wrong_mean, found.headline.wrong_worst) == (0, None, None)
    assert math.isnan(found.sets[0].wrong.value)


def test_the_interval_of_wrong_drops_holds_the_value_and_lies_within_what_queries_say() -> None:
    sets = [dropping("one", [6.0, 4.0] * 20, [0.0, 4.0, 3.0, 0.0] * 10)]
    found = summarised(sets, draws=400, seed=0)["own"]
    wrong = found.headline.wrong_mean
    assert wrong is not None
    assert wrong.low is not None
    assert wrong.high is not None
    assert wrong.value == pytest.approx(0.35)
    assert 0.0 < wrong.low < wrong.value < wrong.high < 1.0
    assert found.headline.wrong_worst is not None
    assert found.headline.wrong_worst.estimate == found.sets[0].wrong == wrong
