"""The promises about quality, on labelled sets with real embeddings; skipped where the sets are absent.

What is scored is what `vecsieve evaluate` scores: the answers that the proxy's own code gives.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest

from support.eval_data import NEEDS_EVAL_DATA, folder
from vecsieve.proxy.jobs.evaluate.command import outcome
from vecsieve.proxy.jobs.evaluate.reading import set_folders
from vecsieve.proxy.jobs.evaluate.rendering import Terms
from vecsieve.proxy.jobs.evaluate.searching import contenders
from vecsieve.proxy.jobs.evaluate.summary import Headline, SetSummary, Summary, summarised

# 8,000 searches by four recipes are a minute of one core, so a change is judged by every fifth of them. The deep profile takes all.
EVERY = 1 if os.environ.get("HYPOTHESIS_PROFILE") == "deep" else 5
pytestmark = [NEEDS_EVAL_DATA, pytest.mark.timeout(600)]

TERMS = Terms(top_k=8, every=EVERY, pool=None, draws=0, seed=0)
# The promises are about choosing, so the choice is scored as it is, without duplicates that fill the page: one set (dirty)
# has closed pools of seven candidates, four of them distinct, and a filled page of eight returns all seven.
POLICIES = ("chosen={short: allow}", "vectors={short: allow, text: none}", "filled={}", "classical=classical")


@pytest.fixture(scope="module")
def summaries() -> Mapping[str, Summary]:
    data = folder()
    assert data is not None
    named = contenders(given=POLICIES)
    return summarised([outcome(each, None, named, TERMS) for each in set_folders(data)], draws=0, seed=0)


def line(summaries: Mapping[str, Summary], policy: str) -> Headline:
    return summaries[policy].headline


def sets(summaries: Mapping[str, Summary], policy: str) -> dict[str, SetSummary]:
    return {each.name: each for each in summaries[policy].sets}


@pytest.mark.parametrize("policy", ["chosen", "vectors", "filled"])
def test_the_default_keeps_the_answer_in_98_percent_of_queries_of_every_set(
    summaries: Mapping[str, Summary], policy: str
) -> None:
    found = sets(summaries, policy)
    assert len(found) >= 8
    assert not [(name, each.retention.value) for name, each in found.items() if each.retention.value < 0.98]


@pytest.mark.parametrize(("policy", "share"), [("chosen", 0.48), ("vectors", 0.25)])
def test_half_of_the_redundancy_is_gone_with_texts_and_a_quarter_without(
    summaries: Mapping[str, Summary], policy: str, share: float
) -> None:
    reduction = line(summaries, policy).reduction
    assert reduction is not None
    assert reduction.value >= share


@pytest.mark.parametrize(("policy", "gain"), [("chosen", 0.042), ("vectors", 0.015), ("filled", 0.042)])
def test_the_default_finds_more_of_the_subtopics(summaries: Mapping[str, Summary], policy: str, gain: float) -> None:
    assert line(summaries, policy).gain_mean.value >= gain
    assert not [(name, each.gain.value) for name, each in sets(summaries, policy).items() if each.gain.value < -0.03]


@pytest.mark.parametrize(("policy", "share"), [("chosen", 0.06), ("vectors", 0.06), ("filled", 0.06)])
def test_few_of_the_results_that_are_left_out_are_no_copies(
    summaries: Mapping[str, Summary], policy: str, share: float
) -> None:
    mean = line(summaries, policy).wrong_mean
    assert mean is not None
    assert mean.value <= share
    # Opinions of one set are labelled apart where people did not agree that they match: a third of its few drops.
    many = [each for each in sets(summaries, policy).values() if each.drops >= 40 and each.name != "argkp"]
    assert not [(each.name, each.wrong.value) for each in many if each.wrong.value > 0.20]


def test_a_set_without_duplicates_is_left_as_it_was(summaries: Mapping[str, Summary]) -> None:
    clean = sets(summaries, "filled")["hotpot"]
    assert clean.retention.value == 1.0
    assert clean.gain.value >= -0.03  # a query of twenty: a page on one of two seasons goes
    assert clean.drops <= 6


def test_a_filled_page_is_as_long_as_the_pool_allows(summaries: Mapping[str, Summary]) -> None:
    assert {each.returned for name, each in sets(summaries, "filled").items() if name != "dirty"} == {8.0}


def test_the_classical_recipe_loses_answers_that_the_default_keeps(summaries: Mapping[str, Summary]) -> None:
    worst = line(summaries, "classical").retention_worst
    assert worst is not None
    assert worst.estimate.value < 0.90
