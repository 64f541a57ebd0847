"""The walk down a ranking: each text is judged by what was kept before it, as far as it is needed, in steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.selection.policies import DEFAULT
from support.selection.pools import pool
from support.selection.texts import as_texts, passages
from vecsieve.proxy.selection.judging.judge import Missing
from vecsieve.proxy.selection.judging.walk import Walk, Walked, explained
from vecsieve.proxy.selection.policy import Policy, Strategy, Tier
from vecsieve.proxy.selection.values import Candidates, Indices, Link, Metadata, finished


def candidates(*texts: str | None, **more: object) -> Candidates:
    return pool(np.eye(max(len(texts), 1))[: len(texts)], metadata=Metadata(texts=as_texts(texts), **more))  # type: ignore[arg-type]  # - members of Metadata, by name


def walked(given_: Candidates, policy: Policy = DEFAULT, enough: int | None = None) -> Walked:
    walk = Walk(given_, policy)
    finished(walk.steps(given_.size, enough))
    return walk.walked


def test_each_text_is_judged_by_those_kept_before_it() -> None:
    walk = walked(candidates("One is here.", "Two is here.", "One is here", None, "Two is here!"))
    assert walk.representative.tolist() == [0, 1, 0, 3, 1]
    assert walk.links.tolist() == [0, 0, Link.EQUAL, 0, Link.EQUAL]
    assert walk.has_text.tolist() == [True, True, True, False, True]
    assert walk.judged == 5


def test_the_walk_ends_when_enough_are_kept() -> None:
    walk = walked(candidates("One.", "One.", "Two.", "Three.", "One."), enough=2)
    assert walk.judged == 3
    assert walk.links.tolist() == [0, Link.EQUAL, 0, 0, 0]


def test_a_walk_may_be_taken_up_again() -> None:
    walk = Walk(candidates("One.", "Two.", "One.", "Two."), DEFAULT)
    finished(walk.steps(4, 1))
    assert walk.walked.judged == 1
    finished(walk.steps(4, None))
    assert walk.walked.links.tolist() == [0, 0, Link.EQUAL, Link.EQUAL]


def test_a_tenant_is_judged_by_its_own_results() -> None:
    of_two = replace(candidates("One.", "One.", "One."), tenants=np.array([1, 2, 1], np.int64))
    assert walked(of_two).representative.tolist() == [0, 1, 0]


def test_a_result_of_a_kept_source_stays() -> None:
    known = candidates("One.", "One.", "One.", sources=("a", "b", "a"))
    assert walked(known, replace(DEFAULT, keep_sources=("b",))).representative.tolist() == [0, 1, 0]


def test_without_texts_in_the_policy_nothing_is_judged() -> None:
    assert walked(candidates("One.", "One."), replace(DEFAULT, texts=None)).representative.tolist() == [0, 1]


def test_a_text_that_is_too_long_leaves_for_its_equal_alone() -> None:
    long = "word " * 40_000
    assert walked(candidates(long, long + "!", long, "One.", "One.")).representative.tolist() == [0, 1, 0, 3, 3]


@dataclass(frozen=True, slots=True)
class Questions:
    """A payload with a question beside each text; "" for none."""

    of: tuple[str, ...]

    def differ(self, rows: Indices, others: Indices) -> npt.NDArray[np.bool_]:
        raise AssertionError("texts decide")

    def unsaid(self, row: int, others: Sequence[int], text: str) -> tuple[str, int] | None:
        return next(((self.of[row], other) for other in others if self.of[row] not in ("", self.of[other])), None)


def asked(*pairs: tuple[str, str]) -> Candidates:
    return replace(candidates(*[text for _, text in pairs]), statements=Questions(tuple([said for said, _ in pairs])))


def test_a_result_leaves_only_for_one_whose_payload_says_all_else_too() -> None:
    both = asked(("how?", "One."), ("why?", "One."), ("why?", "One."), ("", "One."), ("why?", "Two."), ("how?", "Two."))
    assert walked(both).representative.tolist() == [0, 1, 1, 0, 4, 5]


def test_a_result_that_may_represent_others_says_what_they_say() -> None:
    more = asked(("how?", "One."), ("", "One."), ("how?", "One."))
    assert walked(more).representative.tolist() == [0, 0, 0]
    assert walked(more, replace(DEFAULT, representative=Strategy.LONGEST)).representative.tolist() == [0, 1, 0]


def test_what_a_payload_says_besides_its_text_is_the_reason_why_it_stays() -> None:
    both = asked(("how?", "One."), ("why?", "One."))
    verdict = explained(both, DEFAULT, np.array([0, 1]))[1]
    assert verdict.holders == ()
    assert verdict.missing == Missing("why?", "", 0)


POLICIES = st.builds(replace, st.just(DEFAULT), texts=st.sampled_from(list(Tier)))


@given(st.lists(st.none() | passages(), max_size=14), POLICIES, st.data())
def test_a_verdict_does_not_depend_on_what_ranks_behind(
    texts: list[str | None], policy: Policy, data: st.DataObject
) -> None:
    """The verdicts on the first results are the same with any results behind them (texts of one line have no headers)."""
    count = data.draw(st.integers(0, len(texts)))
    whole, first = walked(candidates(*texts), policy), walked(candidates(*texts[:count]), policy)
    for name in ("representative", "also", "links"):
        assert getattr(whole, name)[:count].tolist() == getattr(first, name).tolist()


@given(st.lists(st.none() | passages(), max_size=14), POLICIES)
def test_holders_stay_and_rank_before(texts: list[str | None], policy: Policy) -> None:
    """Whoever holds a text stays itself and ranks before it."""
    walk = walked(candidates(*texts), policy)
    for place in np.flatnonzero(walk.links).tolist():
        for holder in (int(walk.representative[place]), int(walk.also[place])):
            assert holder < place
            assert holder < 0 or walk.links[holder] == Link.NONE


@given(st.lists(st.none() | passages(), max_size=10), POLICIES)
def test_an_explanation_agrees_with_the_walk(texts: list[str | None], policy: Policy) -> None:
    """In words, the same candidates leave, for the same results."""
    known = candidates(*texts)
    walk = walked(known, policy)
    said = explained(known, policy, np.flatnonzero(walk.links == Link.NONE))
    assert sorted(said) == [place for place, text in enumerate(texts) if text is not None]
    for place, verdict in said.items():
        assert verdict.link == walk.links[place]
        assert not verdict.holders or verdict.holders[0] == walk.representative[place]


@pytest.mark.parametrize("count", [20, 60])
def test_long_texts_are_judged_in_steps(count: int) -> None:
    texts = [f"{number} " + f"word{number} " * 2_000 for number in range(count)]
    walk = Walk(candidates(*texts), DEFAULT)
    assert sum(1 for _ in walk.steps(count)) >= count // 3
