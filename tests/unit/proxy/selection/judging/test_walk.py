"""The walk down a ranking: each text is judged by what was kept before it, as far as it is needed, in steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.selection.policies import DEFAULT
from support.selection.pools import page, pool
from support.selection.texts import as_texts, passages
from vecsieve.proxy.selection.judging.judge import Judge, Missing
from vecsieve.proxy.selection.judging.walk import Walk, Walked, explained
from vecsieve.proxy.selection.paged import BLOCK
from vecsieve.proxy.selection.policy import Caps, Overlap, Policy, Short, Strategy, Tier
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import Candidates, Fate, Indices, Link, Metadata, finished


def candidates(*texts: str | None, **more: object) -> Candidates:
    return pool(np.eye(max(len(texts), 1))[: len(texts)], metadata=Metadata(texts=as_texts(texts), **more))  # type: ignore[arg-type]  # - members of Metadata, by name


def walked(given_: Candidates, policy: Policy = DEFAULT, enough: int | None = None) -> Walked:
    walk = Walk(given_, policy)
    finished(walk.steps(enough))
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
    finished(walk.steps(1))
    assert walk.walked.judged == 1
    finished(walk.steps())
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


def with_questions(*pairs: tuple[str, str]) -> Candidates:
    return replace(
        candidates(*[text for _, text in pairs]), statements=Questions(tuple([question for question, _ in pairs]))
    )


def test_a_result_leaves_only_for_one_whose_payload_says_all_else_too() -> None:
    both = with_questions(
        ("how?", "One."), ("why?", "One."), ("why?", "One."), ("", "One."), ("why?", "Two."), ("how?", "Two.")
    )
    assert walked(both).representative.tolist() == [0, 1, 1, 0, 4, 5]


def test_a_result_that_may_represent_others_says_what_they_say() -> None:
    more = with_questions(("how?", "One."), ("", "One."), ("how?", "One."))
    assert walked(more).representative.tolist() == [0, 0, 0]
    assert walked(more, replace(DEFAULT, representative=Strategy.LONGEST)).representative.tolist() == [0, 1, 0]


def test_what_a_payload_says_besides_its_text_is_the_reason_why_it_stays() -> None:
    both = with_questions(("how?", "One."), ("why?", "One."))
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
    verdicts = explained(known, policy, np.flatnonzero(walk.links == Link.NONE))
    assert sorted(verdicts) == [place for place, text in enumerate(texts) if text is not None]
    for place, verdict in verdicts.items():
        assert verdict.link == walk.links[place]
        assert not verdict.holders or verdict.holders[0] == walk.representative[place]


@pytest.mark.parametrize("count", [20, 60])
def test_long_texts_are_judged_in_steps(count: int) -> None:
    texts = [f"{number} " + f"word{number} " * 2_000 for number in range(count)]
    walk = Walk(candidates(*texts), DEFAULT)
    assert sum(1 for _ in walk.steps()) >= count // 3


# Chunks that overlap: another one takes the place of one that it says together with the page. Nothing is lost, and pages without overlap
# are as before.

EXCHANGE = replace(DEFAULT, overlap=Overlap.EXCHANGE)
STEP = 40  # words by which one chunk follows another


def words(count: int, *, seed: int = 0) -> list[str]:
    random = Random(seed)
    return ["".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=7)) for _ in range(count)]


def chunks(count: int, *, seed: int = 0) -> list[str]:
    """Windows of two steps over one text: half of each is its neighbour's."""
    run = words((count + 1) * STEP, seed=seed)
    return [" ".join(run[at * STEP : (at + 2) * STEP]) for at in range(count)]


def overlapping(*texts: str | None, tenants: list[int] | None = None, sources: list[str] | None = None) -> Candidates:
    known = Metadata(texts=as_texts(texts), sources=None if sources is None else tuple(sources))
    numbers = None if tenants is None else np.array(tenants, np.int64)
    return pool(np.eye(max(len(texts), 1))[: len(texts)], metadata=known, tenants=numbers)


A, B, C, D = chunks(4)
X, Y = chunks(1, seed=1) + chunks(1, seed=2)


def test_the_third_chunk_takes_the_place_of_the_middle_one() -> None:
    outcome = select(overlapping(A, B, X, Y, C), top_k=3, policy=EXCHANGE)
    assert outcome.keep.tolist() == [0, 4, 2]
    assert (outcome.representative[1], outcome.also[1], outcome.links[1]) == (4, 0, Link.JOINED)
    assert outcome.fates.tolist() == [Fate.KEPT, Fate.COLLAPSED, Fate.KEPT, Fate.NOT_CHOSEN, Fate.KEPT]
    assert (outcome.distinct, outcome.wanting, outcome.acted) == (4, 0, True)
    assert select(overlapping(A, B, X, Y, C), top_k=3, policy=DEFAULT).keep.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("texts", "policy", "kept"),
    [
        # a result stays that no other says together with the page
        ((A, B, X, Y, D), EXCHANGE, [0, 1, 2]),  # the fourth does not continue the second
        ((B, X, Y, A, C), EXCHANGE, [0, 1, 2]),  # the first result stays, whatever says it
        ((A, B, X, Y, C.upper()), EXCHANGE, [0, 1, 2]),  # a shouted copy is no copy
        ((A, X, Y, D), EXCHANGE, [0, 1, 2]),
        ((A, B, X, Y, f"{B} {' '.join(words(60, seed=3))}"), EXCHANGE, [0, 1, 2]),  # which says all of it alone
        # C is a copy of what stays above B, so it is not on the page twice.
        pytest.param((A, C, B, X, C), EXCHANGE, [0, 1, 3], id="what the page says already takes no place"),
        # a policy whose proof is one piece exchanges nothing
        ((A, B, X, C), replace(EXCHANGE, texts=Tier.EXACT), [0, 1, 2]),
        ((A, B, X, C), replace(EXCHANGE, texts=None), [0, 1, 2]),
    ],
)
def test_which_results_stay_where_one_is_exchanged(texts: tuple[str, ...], policy: Policy, kept: list[int]) -> None:
    assert select(overlapping(*texts), top_k=3, policy=policy).keep.tolist() == kept


def test_only_one_tenant_and_no_kept_source_is_exchanged() -> None:
    of_two = overlapping(A, B, X, C, tenants=[1, 1, 1, 2])
    assert select(of_two, top_k=3, policy=EXCHANGE).keep.tolist() == [0, 1, 2]
    chunk_pool = overlapping(A, B, X, C, sources=["a", "b", "a", "a"])
    assert select(chunk_pool, top_k=3, policy=replace(EXCHANGE, keep_sources=("b",))).keep.tolist() == [0, 1, 2]


def test_a_short_page_is_filled_last_with_what_left_by_proof_if_at_all() -> None:
    outcome = select(overlapping(A, B, C), top_k=3, policy=EXCHANGE)
    assert (outcome.keep.tolist(), outcome.wanting) == ([0, 2], 1)
    filled = select(overlapping(A, B, C), top_k=3, policy=replace(EXCHANGE, short=Short.FILL))
    assert filled.keep.tolist() == [0, 2, 1]
    assert filled.fates.tolist() == [Fate.KEPT, Fate.FILLED, Fate.KEPT]


class Chunked(NamedTuple):
    texts: list[str]
    places: list[tuple[int, int]]  # of each text: its source, and its number there


@st.composite
def chunked(draw: st.DrawFn) -> Chunked:
    """Chunks of up to four texts in any order, some of them twice."""
    sources = [chunks(draw(st.integers(1, 8)), seed=seed) for seed in range(draw(st.integers(1, 4)))]
    places = [(source, number) for source, source_chunks in enumerate(sources) for number in range(len(source_chunks))]
    order = draw(st.permutations(places + draw(st.lists(st.sampled_from(places), max_size=4))))
    return Chunked([sources[source][number] for source, number in order], order)


def reply(given_: Chunked, keep: list[int]) -> set[tuple[int, int]]:
    """The steps of all texts that these chunks have."""
    return {(source, number + half) for source, number in [given_.places[place] for place in keep] for half in (0, 1)}


@given(chunked(), st.integers(1, 12))
def test_a_page_says_all_that_it_said_without_exchange(given_: Chunked, top_k: int) -> None:
    pool_ = overlapping(*given_.texts)
    before = select(pool_, top_k=top_k, policy=DEFAULT).keep.tolist()
    after = select(pool_, top_k=top_k, policy=EXCHANGE).keep.tolist()
    assert reply(given_, before) <= reply(given_, after)
    assert before[:1] == after[:1]


@given(chunked(), st.integers(0, 12), st.integers(0, 12))
def test_a_page_is_the_beginning_of_a_longer_one(given_: Chunked, top_k: int, more: int) -> None:
    pool_ = overlapping(*given_.texts)
    page_, longer = (select(pool_, top_k=size, policy=EXCHANGE).keep.tolist() for size in (top_k, top_k + more))
    assert longer[: len(page_)] == page_


@given(chunked(), st.integers(1, 5))
def test_pages_by_offset_are_pieces_of_the_same_list(given_: Chunked, size: int) -> None:
    pool_, whole = overlapping(*given_.texts), len(given_.texts)
    pieces = [
        place
        for offset in range(0, whole, size)
        for place in page(pool_, top_k=size, offset=offset, policy=EXCHANGE, exhausted=True).keep.tolist()
    ]
    first = select(pool_, top_k=whole, policy=EXCHANGE)
    different = first.keep[first.fates[first.keep] == Fate.KEPT].tolist()
    assert pieces[: len(different)] == different
    assert sorted(pieces) == list(range(whole))


@pytest.mark.parametrize(
    "policy",
    [
        replace(EXCHANGE, rewordings=0.36),
        replace(EXCHANGE, representative=Strategy.LONGEST),
        replace(EXCHANGE, caps=Caps(per_cluster=1, per_document=None, per_source=3)),
    ],
)
def test_a_page_that_depends_on_more_than_texts_exchanges_nothing_in_both_ways_of_reading(policy: Policy) -> None:
    pool_ = overlapping(A, B, X, C, sources=["a"] * 4)
    assert select(pool_, top_k=3, policy=policy).keep.tolist() == [0, 1, 2]
    assert page(pool_, top_k=3, offset=0, policy=policy, exhausted=True).keep.tolist() == [0, 1, 2]


def test_a_chunk_is_exchanged_within_its_block_of_ranks_alone() -> None:
    others = [" ".join(words(60, seed=seed)) for seed in range(2, BLOCK + 20)]
    near = select(overlapping(A, B, *others[: BLOCK - 3], C), top_k=2, policy=EXCHANGE)
    far = select(overlapping(A, B, *others[: BLOCK - 2], C), top_k=2, policy=EXCHANGE)
    assert (near.keep.tolist(), far.keep.tolist()) == ([0, BLOCK - 1], [0, 1])


def test_texts_that_share_nothing_with_the_page_are_not_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[str] = []
    monkeypatch.setattr(Judge, "verdict_with", lambda _judge, text, *_: compared.append(text.raw))
    others = [" ".join(words(60, seed=seed)) for seed in range(2, 12)]
    assert select(overlapping(*others), top_k=5, policy=EXCHANGE).keep.tolist() == [0, 1, 2, 3, 4]
    assert compared == []


def test_a_walk_that_compares_more_texts_takes_more_steps() -> None:
    others = [" ".join(words(400, seed=seed)) for seed in range(2, 12)]
    turns = {
        policy.overlap: len(list(Walk(overlapping(*others), policy, exchanges=True).steps()))
        for policy in (DEFAULT, EXCHANGE)
    }
    assert turns[Overlap.EXCHANGE] > turns[Overlap.KEEP]


def test_the_reason_names_what_took_its_place() -> None:
    reasons_by_place = explained(overlapping(A, B, X, C), EXCHANGE, np.array([0, 2, 3]))
    assert set(reasons_by_place[1].holders) == {0, 3}
    assert explained(overlapping(A, B, X, C), DEFAULT, np.array([0, 2, 3]))[1].holders == ()


def test_a_text_of_the_same_end_is_read_only_a_few_times() -> None:
    # Many neighbours with B's end, none of which proves anything, bound the work of one result.
    ends = [f"{' '.join(words(50, seed=seed))} {B[-60:]}" for seed in range(2, 30)]
    assert select(overlapping(A, B, *ends, C), top_k=2, policy=EXCHANGE).keep.tolist() == [0, 1]
