"""The promises about quality, on labelled sets with real embeddings; skipped where the sets are absent.

What is scored is what `vecsieve evaluate` scores: the answers that the proxy's own code gives.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

import pytest

from support.jobs.eval_data import NEEDS_EVAL_DATA, folder
from vecsieve.proxy.jobs.evaluate.command import outcome
from vecsieve.proxy.jobs.evaluate.reading import Repeats, set_folders
from vecsieve.proxy.jobs.evaluate.rendering import Terms
from vecsieve.proxy.jobs.evaluate.searching import contenders
from vecsieve.proxy.jobs.evaluate.summary import Headline, SetSummary, Summary, Wrong, summarised

# 10,000 searches by four policies are minutes of one core, so a change is judged by every fifth of them. The deep profile takes all.
EVERY = 1 if os.environ.get("HYPOTHESIS_PROFILE") == "deep" else 5
pytestmark = [NEEDS_EVAL_DATA, pytest.mark.timeout(600)]

TERMS = Terms(top_k=8, every=EVERY, pool=None, draws=0, seed=0)
POLICIES = ("default=default", "meaning=meaning", "vectors=vectors", "classical=classical")

# What leaves because the page says all of it loses no label; the labels themselves are not free of noise.
BY_LABEL = 0.003
# The ends of chunks that a release cut elsewhere: measured 1.5 % of the page's drops and 1.1 % of the pool's, all in one set.
BY_TEXT, BY_TEXT_WALKED, CUT_ELSEWHERE = 0.016, 0.012, "docs_versions"


@pytest.fixture(scope="module")
def summaries() -> Mapping[str, Summary]:
    data = folder()
    assert data is not None
    named = contenders(given=POLICIES)
    return summarised([outcome(path, named, TERMS) for path in set_folders(data)], draws=0, seed=0)


def line(summaries: Mapping[str, Summary], policy: str, kind: Repeats = Repeats.COPIES) -> Headline:
    return summaries[policy].headlines[kind]


def sets(summaries: Mapping[str, Summary], policy: str) -> dict[str, SetSummary]:
    return {summary.name: summary for summary in summaries[policy].sets}


def cut(chosen: Iterable[SetSummary]) -> float:
    """The share of all strict repeats that is gone. One set has four of them in every fifth query: a mean of the sets would hang on it."""
    known = [(summary.plain_strict, summary.strict_cut.value) for summary in chosen if summary.strict_cut is not None]
    return sum(repeats * share for repeats, share in known) / sum(repeats for repeats, _ in known)


def wrong(summaries: Mapping[str, Summary], policy: str, kind: Repeats) -> tuple[Wrong, Wrong]:
    """On the page, and in all of the pool that it reaches."""
    row = line(summaries, policy, kind)
    return row.page, row.walked


@pytest.mark.parametrize("policy", ["default", "meaning"])
def test_no_query_loses_its_answer(summaries: Mapping[str, Summary], policy: str) -> None:
    by_name = sets(summaries, policy)
    assert len(by_name) >= 8
    assert {name: summary.retention.value for name, summary in by_name.items() if summary.retention.value < 1.0} == {}


def test_most_strict_repeats_of_copies_are_gone(summaries: Mapping[str, Summary]) -> None:
    by_name = sets(summaries, "default")
    assert cut(summary for summary in by_name.values() if summary.repeats is Repeats.COPIES) >= 0.67


@pytest.mark.parametrize("kind", list(Repeats))
def test_no_set_loses_subtopics(summaries: Mapping[str, Summary], kind: Repeats) -> None:
    chosen = [summary for summary in sets(summaries, "default").values() if summary.repeats is kind]
    assert {summary.name: summary.gain.value for summary in chosen if summary.gain.value < 0.0} == {}


def test_copies_make_room_for_other_subtopics(summaries: Mapping[str, Summary]) -> None:
    assert line(summaries, "default").gain_mean.value >= 0.01


def test_what_leaves_is_a_copy_by_its_labels(summaries: Mapping[str, Summary]) -> None:
    for kind in Repeats:
        for drop in wrong(summaries, "default", kind):
            assert drop.by_label <= BY_LABEL * drop.drops


def test_what_leaves_is_on_the_page_word_by_word(summaries: Mapping[str, Summary]) -> None:
    page, walked = wrong(summaries, "default", Repeats.COPIES)
    assert page.by_text <= BY_TEXT * page.drops
    assert walked.by_text <= BY_TEXT_WALKED * walked.drops
    others = [summary for summary in sets(summaries, "default").values() if summary.name != CUT_ELSEWHERE]
    assert {other.name: other.walked.by_text for other in others if other.walked.by_text} == {}


def test_repeats_in_other_words_stay_by_default(summaries: Mapping[str, Summary]) -> None:
    """No words prove them: what leaves are a few utterances that differ by a mark."""
    assert line(summaries, "default", Repeats.MEANINGS).walked.drops <= 5


def test_preset_meaning_makes_room_for_other_subtopics(summaries: Mapping[str, Summary]) -> None:
    row = line(summaries, "meaning", Repeats.MEANINGS)
    assert row.gain_mean.value >= 0.02
    assert row.page.by_label <= 0.025 * row.page.drops
    assert row.walked.by_label <= 0.025 * row.walked.drops


@pytest.mark.parametrize("policy", ["default", "meaning"])
def test_a_set_without_repeats_is_left_as_it_was(summaries: Mapping[str, Summary], policy: str) -> None:
    clean = sets(summaries, policy)["hotpot"]
    assert clean.retention.value == 1.0
    assert clean.walked.drops == 0


def test_a_page_is_as_long_as_the_pool_allows(summaries: Mapping[str, Summary]) -> None:
    """One set (dirty) has closed pools of seven candidates, four of them distinct."""
    assert {summary.returned for name, summary in sets(summaries, "default").items() if name != "dirty"} == {8.0}


def test_vectors_alone_lose_hardly_an_answer(summaries: Mapping[str, Summary]) -> None:
    assert min(summary.retention.value for summary in sets(summaries, "vectors").values()) >= 0.95


def test_the_classical_recipe_loses_answers_that_the_default_keeps(summaries: Mapping[str, Summary]) -> None:
    worst = [summary.retention.value for summary in sets(summaries, "classical").values()]
    assert min(worst) < 0.90
