"""The promises about quality, on labelled sets with real embeddings; skipped where the sets are absent.

What is scored is what `vecsieve evaluate` scores: the answers that the proxy's own code gives.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

import pytest

from support.eval_data import NEEDS_EVAL_DATA, folder
from vecsieve.proxy.jobs.evaluate.command import outcome
from vecsieve.proxy.jobs.evaluate.reading import Repeats, set_folders
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


def line(summaries: Mapping[str, Summary], policy: str, kind: Repeats = Repeats.COPIES) -> Headline:
    return summaries[policy].headlines[kind]


def sets(summaries: Mapping[str, Summary], policy: str) -> dict[str, SetSummary]:
    return {each.name: each for each in summaries[policy].sets}


@pytest.mark.parametrize("policy", ["chosen", "vectors", "filled"])
def test_the_default_keeps_the_answer_in_98_percent_of_queries_of_every_set(
    summaries: Mapping[str, Summary], policy: str
) -> None:
    found = sets(summaries, policy)
    assert len(found) >= 8
    assert not [(name, each.retention.value) for name, each in found.items() if each.retention.value < 0.98]


def test_most_strict_repeats_of_copies_are_gone(summaries: Mapping[str, Summary]) -> None:
    cut = line(summaries, "chosen").strict_cut
    assert cut is not None
    assert cut.value >= 0.75


@pytest.mark.parametrize("kind", list(Repeats))
def test_the_default_finds_no_fewer_of_the_subtopics(summaries: Mapping[str, Summary], kind: Repeats) -> None:
    # A query of twelve of the set without repeats: a page on one of two seasons goes.
    assert line(summaries, "filled", kind).gain_mean.value >= -0.03
    assert not [(name, each.gain.value) for name, each in sets(summaries, "filled").items() if each.gain.value < -0.03]


def test_copies_make_room_for_other_subtopics(summaries: Mapping[str, Summary]) -> None:
    assert line(summaries, "filled").gain_mean.value >= 0.01


@pytest.mark.parametrize("policy", ["chosen", "filled"])
def test_what_leaves_as_a_copy_is_one_by_its_labels(summaries: Mapping[str, Summary], policy: str) -> None:
    for kind in Repeats:
        page, walked = line(summaries, policy, kind).page, line(summaries, policy, kind).walked
        assert page.by_label <= max(3, 0.03 * page.drops)
        assert walked.by_label <= max(3, 0.06 * walked.drops)


def test_a_set_without_duplicates_is_left_as_it_was(summaries: Mapping[str, Summary]) -> None:
    clean = sets(summaries, "filled")["hotpot"]
    assert clean.retention.value == 1.0
    assert clean.walked.drops <= 2


def test_a_filled_page_is_as_long_as_the_pool_allows(summaries: Mapping[str, Summary]) -> None:
    assert {each.returned for name, each in sets(summaries, "filled").items() if name != "dirty"} == {8.0}


def test_the_classical_recipe_loses_answers_that_the_default_keeps(summaries: Mapping[str, Summary]) -> None:
    worst = [each.retention.value for each in sets(summaries, "classical").values()]
    assert min(worst) < 0.90
