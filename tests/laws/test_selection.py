"""What holds of selection as a whole, texts and guards included: copies change nothing, facts never merge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.policies import ALL_GUARDS, DEFAULT
from support.pools import angles, page, pool
from support.texts import as_texts
from vecsieve.proxy.selection.diversifiers.dpp import Dpp
from vecsieve.proxy.selection.diversifiers.mmr import Mmr
from vecsieve.proxy.selection.policy import Fixed, Linkage, Policy, Relevance, Short, Similarity, Strategy, Tie, When
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import Candidates, FloatMatrix, Link, Metadata, Veto

FIXED = replace(DEFAULT, threshold=Fixed(value=0.2), short=Short.ALLOW)
WORDS = ("river", "engine", "paper", "window", "garden", "bridge", "silver", "doctor", "cotton", "market")


@st.composite
def distinct_points(draw: st.DrawFn) -> FloatMatrix:
    """Up to 12 directions, some near each other, no two equal."""
    seed, n = draw(st.integers(0, 2**32 - 1)), draw(st.integers(1, 12))
    random = np.random.default_rng(seed)
    centres = random.normal(size=(n // 3 + 1, 8))
    rows = centres[random.integers(0, len(centres), n)] + random.normal(size=(n, 8)) * 0.4
    return rows.astype(np.float32)


def texts_of(rows: FloatMatrix) -> tuple[str, ...]:
    """A text a row, 20 words, the same for equal rows and for no others."""
    made = []
    for row in rows:
        random = np.random.default_rng(np.frombuffer(row.tobytes(), np.uint32))
        made.append(" ".join(WORDS[i] for i in random.integers(0, len(WORDS), 20)))
    return tuple(made)


def with_texts(rows: FloatMatrix) -> Candidates:
    return replace(pool(rows), metadata=Metadata(texts=as_texts(texts_of(rows))))


def contents(candidates: Candidates, policy: Policy, top_k: int) -> list[bytes]:
    keep = select(candidates, top_k=top_k, policy=policy).keep
    return [candidates.vectors[i].tobytes() for i in keep]


@given(distinct_points(), st.integers(1, 12), st.data())
def test_copies_of_what_is_kept_change_no_other_result(rows: FloatMatrix, top_k: int, data: st.DataObject) -> None:
    # Invariant: with a fixed threshold and no diversifier, exact copies behind a result leave the answer as it was,
    # so that removing all duplicates by hand gives the same list.
    before = select(with_texts(rows), top_k=top_k, policy=FIXED)
    again = data.draw(st.lists(st.sampled_from(before.keep.tolist()), max_size=6)) if len(before.keep) else []
    order = list(range(len(rows)))
    for original in again:
        order.insert(data.draw(st.integers(order.index(original) + 1, len(order))), original)
    copied = with_texts(rows[order])
    assert contents(copied, FIXED, top_k) == [rows[i].tobytes() for i in before.keep]


@given(distinct_points(), st.integers(1, 12), st.sampled_from([DEFAULT, replace(FIXED, threshold=DEFAULT.threshold)]))
def test_the_page_is_the_beginning_of_a_longer_page(rows: FloatMatrix, top_k: int, policy: Policy) -> None:
    # Invariant: by default how many are asked for does not change who is kept: k results are the first of k + 1.
    policy = replace(policy, when=When.ALWAYS, short=Short.ALLOW)
    few, more = (select(with_texts(rows), top_k=k, policy=policy).keep.tolist() for k in (top_k, top_k + 1))
    assert more[: len(few)] == few


@given(distinct_points(), st.integers(1, 12))
def test_one_page_and_the_paged_list_agree(rows: FloatMatrix, top_k: int) -> None:
    # Invariant: where the pool is one block, a client that names offset 0 gets what one gets that names none.
    policy = replace(DEFAULT, when=When.ALWAYS, short=Short.ALLOW)
    one = select(with_texts(rows), top_k=top_k, policy=policy)
    paged = page(with_texts(rows), top_k=top_k, offset=0, policy=policy, exhausted=True)
    assert paged.keep.tolist() == one.keep.tolist()
    assert paged.links.tolist() == one.links.tolist()


@given(distinct_points(), st.integers(1, 12), st.randoms(use_true_random=False))
def test_equal_scores_of_equal_candidates_may_come_in_any_order(rows: FloatMatrix, top_k: int, random: object) -> None:
    # Invariant: shuffling candidates that tie and are the same changes nothing but which of them stands for all.
    tripled = np.repeat(rows, 3, axis=0)
    shuffled = tripled.copy()
    for start in range(0, len(tripled), 3):
        places = [start, start + 1, start + 2]
        random.shuffle(places)  # type: ignore[attr-defined]  # - hypothesis gives a random.Random
        shuffled[start : start + 3] = tripled[places]
    scores = np.repeat(np.linspace(0.9, 0.1, len(rows)), 3)
    one, other = (replace(with_texts(each), scores=scores) for each in (tripled, shuffled))
    assert contents(one, DEFAULT, top_k) == contents(other, DEFAULT, top_k)


@given(distinct_points(), st.integers(1, 12))
def test_relevance_alone_is_rank_order_under_every_diversifier(rows: FloatMatrix, top_k: int) -> None:
    # Invariant: lambda 1 and diversity 0 give the representatives in rank order.
    plain = select(with_texts(rows), top_k=top_k, policy=DEFAULT).keep.tolist()
    for chooser in (Mmr(weight=1.0, relevance=Relevance.RAW, similarity=Similarity.RAW), Dpp(diversity=0.0)):
        policy = replace(DEFAULT, diversifier=chooser)
        assert select(with_texts(rows), top_k=top_k, policy=policy).keep.tolist() == plain


FACTS = [
    ("Singapore shares open 0.28% lower on Thursday", "Singapore shares open 0.19 % lower on Thursday", Veto.AMOUNT),
    ("Nepal earthquake death toll surpasses 7,000", "Nepal earthquake death toll surpasses 8,000", Veto.NUMBER),
    ("FAA bans flights to Israel", "FAA lifts ban on flights to Israel", Veto.NEGATION),
    ("What is new in release 1.0", "What is new in release 3.0", Veto.VERSION),
    ("The invoice is due on October 15th", "The invoice is due on October 16th", Veto.DATE),
    (
        "Returns a copy with leading characters removed",
        "Returns a copy with trailing characters removed",
        Veto.NEGATION,
    ),
    ("The service is available", "The service is not available", Veto.NEGATION),
]


@pytest.mark.parametrize("linkage", list(Linkage))
@pytest.mark.parametrize(("one", "other", "veto"), FACTS, ids=[veto.name.lower() for _, _, veto in FACTS])
def test_facts_that_differ_never_merge(one: str, other: str, veto: Veto, linkage: Linkage) -> None:
    candidates = replace(pool(angles(0, 0, 90)), metadata=Metadata(texts=as_texts((one, other, "something else"))))
    for policy in (DEFAULT, replace(FIXED, linkage=linkage, when=When.ALWAYS)):
        kept = select(candidates, top_k=2, policy=policy)
        assert kept.keep.tolist() == [0, 1]
        assert kept.vetoes.tolist() == [0, veto, 0]
        assert page(candidates, top_k=2, offset=0, policy=policy, exhausted=True).keep.tolist() == [0, 1]
    told = replace(
        DEFAULT, guards=replace(ALL_GUARDS, numbers=False, dates=False, versions=False, amounts=False, negation=False)
    )
    assert select(candidates, top_k=2, policy=told).keep.tolist() == [0, 2]


def test_two_that_may_not_meet_do_not_meet_through_a_third() -> None:
    texts = ("The limit is 10 requests", "The limit is often reached", "The limit is 20 requests", "else")
    candidates = replace(pool(angles(0, 1, 2, 90)), metadata=Metadata(texts=as_texts(texts)))
    for linkage in Linkage:
        labels = select(candidates, top_k=2, policy=replace(FIXED, linkage=linkage)).labels
        assert labels[0] != labels[2]


@pytest.mark.parametrize(
    "script",
    [
        "река бежит через старый город и лес",
        "河流穿過古老的城市和森林在夜裡",
        "川は夜に古い街と森を流れる",
        "النهر يجري عبر المدينة القديمة",
    ],
)
def test_texts_of_any_script_are_as_distinct_as_english_ones(script: str) -> None:
    other = script[::-1]
    candidates = replace(
        pool(angles(0, 60, 120, 180)), metadata=Metadata(texts=as_texts((script, other, script, other)))
    )
    policy = replace(DEFAULT, text=replace(FIXED.text, reach=None) if FIXED.text else None, when=When.ALWAYS)
    chosen = select(candidates, top_k=2, policy=policy)
    assert chosen.labels.tolist() == [0, 1, 0, 1]
    assert chosen.links.tolist() == [Link.NONE, Link.NONE, Link.IDENTICAL, Link.IDENTICAL]


def test_the_newest_of_a_cluster_stands_for_it_when_told_to() -> None:
    known = Metadata(texts=as_texts(("a page of the manual",) * 3), recency=np.array([1.0, 3.0, 2.0]))
    candidates = replace(pool(angles(0, 0, 0, 90)[:3]), metadata=known)
    newest = replace(DEFAULT, representative=Strategy.CHAIN, chain=(Tie.RECENCY,), short=Short.ALLOW)
    assert select(candidates, top_k=2, policy=newest).keep.tolist() == [1]
