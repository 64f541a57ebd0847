"""One page: the rules that hold whatever the policy, and the two named policies."""

from __future__ import annotations

import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.selection.oracles import agglomerate
from support.selection.oracles import mmr as naive_mmr
from support.selection.policies import CLASSICAL, DEFAULT, ONE_A_CLUSTER, VECTORS
from support.selection.pools import angles, damaged, planted, pool
from support.selection.texts import as_texts
from vecsieve.proxy.selection.diversifiers.dpp import Dpp
from vecsieve.proxy.selection.diversifiers.mmr import Mmr
from vecsieve.proxy.selection.geometry import NOISE, measure
from vecsieve.proxy.selection.policy import (
    Caps,
    Certain,
    Distance,
    Fixed,
    Linkage,
    Order,
    Overlap,
    Policy,
    Relative,
    Short,
    Strategy,
    Tie,
    Tier,
    When,
)
from vecsieve.proxy.selection.single import select, selecting
from vecsieve.proxy.selection.values import (
    PROVEN,
    Candidates,
    Fate,
    FloatMatrix,
    Link,
    Metadata,
    Metric,
    Selection,
    Steps,
    best_ranked,
    finished,
)

WORDS = ("river", "engine", "paper", "window", "garden", "bridge", "silver", "doctor")

MMRS = st.builds(
    Mmr,
    weight=st.sampled_from([0.0, 0.3, 0.7, 1.0]),
    is_scaled=st.booleans(),
)
POLICIES = st.builds(
    Policy,
    texts=st.sampled_from([None, *Tier]),
    rewordings=st.sampled_from([None, None, 0.36, 1.0]),
    linkage=st.sampled_from(list(Linkage)),
    threshold=st.one_of(
        st.none(),
        st.builds(Fixed, value=st.sampled_from([0.0, 0.1, 0.5, 2.0])),
        st.builds(
            Relative,
            factor=st.sampled_from([0.0, 0.2, 0.6]),
            minimum=st.just(0.02),
            maximum=st.just(0.3),
        ),
        st.just(Certain(first=0.85, last=0.4)),
    ),
    chance=st.sampled_from([None, 0.0, 2.5e-6]),
    when=st.sampled_from(list(When)),
    representative=st.sampled_from(list(Strategy)),
    diversifier=st.one_of(st.none(), MMRS, st.builds(Dpp, diversity=st.sampled_from([0.0, 0.4, 1.0]))),
    order=st.sampled_from(list(Order)),
    short=st.sampled_from(list(Short)),
    overlap=st.sampled_from(list(Overlap)),
    distance=st.sampled_from(list(Distance)),
    keep_sources=st.sampled_from([(), (), ("b",)]),
    chain=st.sampled_from([(), (Tie.RECENCY,), tuple(Tie)]),
    authority=st.sampled_from([(), ("b", "a")]),
    caps=st.builds(
        Caps,
        per_cluster=st.sampled_from([1, 1, 2]),
        per_document=st.sampled_from([None, None, 2]),
        per_source=st.sampled_from([None, None, 3]),
    ),
)
SCORES = st.sampled_from(["falling", "rising", "mixed", "equal", "missing"])


@st.composite
def pools(draw: st.DrawFn) -> Candidates:
    rows = draw(damaged(largest=30))
    n = len(rows)
    base = np.linspace(0.9, 0.1, n)
    scores = {
        "falling": base,
        "rising": base[::-1].copy(),
        "mixed": np.abs(base - 0.4),
        "equal": np.full(n, 0.5),
        "missing": np.where(np.arange(n) % 3 == 1, np.nan, base),
    }[draw(SCORES)]
    return Candidates(
        scores=scores,
        vectors=rows,
        metric=draw(st.sampled_from(Metric)),
        query=draw(st.sampled_from([None, np.ones(rows.shape[1], dtype=np.float32), np.ones(1, dtype=np.float32)])),
        tenants=np.arange(n, dtype=np.int64) % 2 if draw(st.booleans()) else None,
        text_lengths=np.arange(n, dtype=np.int64) % 5 if draw(st.booleans()) else None,
        metadata=draw(st.sampled_from([Metadata(), known(n)])),
    )


def known(n: int) -> Metadata:
    """Texts of few words and many copies, of few documents and sources; every kind of metadata has gaps."""
    return Metadata(
        texts=as_texts(None if i % 7 == 6 else f"the {('first', 'last')[i % 2]} of {i % 4} rows" for i in range(n)),
        documents=tuple(None if i % 5 == 4 else f"d{i % 3}" for i in range(n)),
        sources=tuple(None if i % 4 == 3 else "abc"[i % 3] for i in range(n)),
        spans=np.array([[i % 6, i % 6 + 2] for i in range(n)], dtype=np.float64).reshape(n, 2),
        recency=np.where(np.arange(n) % 3 == 0, np.nan, np.arange(n, dtype=np.float64)),
        citations=np.arange(n, dtype=np.int64) % 4 - 1,
    )


def picture(outcome: Selection) -> tuple[object, ...]:
    return (
        outcome.keep.tolist(),
        outcome.labels.tolist(),
        outcome.representative.tolist(),
        outcome.fates.tolist(),
        outcome.distinct,
        outcome.wanting,
        outcome.acted,
        repr(outcome.threshold),
        outcome.median,
        outcome.links.tolist(),
        outcome.similarities.tobytes(),
        outcome.also.tolist(),
    )


@given(pools(), st.integers(0, 40), POLICIES)
def test_the_outcome_agrees_with_itself_under_every_policy(candidates: Candidates, top_k: int, policy: Policy) -> None:
    # Invariant: keep, labels, representatives, fates and counts tell one story, for any pool and any policy.
    outcome = select(candidates, top_k=top_k, policy=policy)
    n, keep = candidates.size, outcome.keep.tolist()
    assert len(set(keep)) == len(keep)
    assert outcome.distinct == len(set(outcome.labels.tolist()))
    chosen = max(0, top_k - outcome.wanting)
    if not outcome.acted or policy.short in {Short.FILL, Short.GROW_THEN_REPEAT}:
        assert len(keep) == min(top_k, n)
    elif policy.short is Short.ALLOW:
        assert len(keep) == chosen
    else:
        assert chosen <= len(keep) <= min(top_k, n)
    if policy.caps == ONE_A_CLUSTER:
        assert outcome.wanting == max(0, top_k - outcome.distinct)
    assert outcome.labels[outcome.representative].tolist() == outcome.labels.tolist()
    if policy.order is Order.BACKEND:
        assert keep == sorted(keep)
    for i, fate in enumerate(outcome.fates.tolist()):
        stands = outcome.representative[i] == i
        assert (fate in {Fate.KEPT, Fate.FILLED}) == (i in keep)
        assert not (fate == Fate.FILLED and stands)
        assert not (fate == Fate.KEPT and not stands and policy.caps.per_cluster == 1)
        assert not (fate == Fate.COLLAPSED and stands)
        assert (outcome.links[i] == Link.NONE) == stands
        assert outcome.also[i] < i
        assert not (stands and outcome.also[i] >= 0)


@given(pools(), st.integers(0, 20), POLICIES)
def test_the_same_input_gives_the_same_outcome(candidates: Candidates, top_k: int, policy: Policy) -> None:
    # Invariant: no clock, no seed, no order of a dict decides.
    assert picture(select(candidates, top_k=top_k, policy=policy)) == picture(
        select(candidates, top_k=top_k, policy=policy)
    )


@given(pools(), st.integers(1, 20))
def test_the_first_result_is_the_backends_first(candidates: Candidates, top_k: int) -> None:
    # Invariant: with the default policy rank 0 is always kept, and always first.
    keep = select(candidates, top_k=top_k, policy=DEFAULT).keep
    assert keep[:1].tolist() == [0][: candidates.size]


@given(pools(), st.integers(0, 20), POLICIES)
def test_a_page_without_duplicates_is_the_backends_own(candidates: Candidates, top_k: int, policy: Policy) -> None:
    # Invariant: when redundant and no two of the first top_k share a cluster, the answer is rank 0 to top_k - 1.
    outcome = select(candidates, top_k=top_k, policy=replace(policy, when=When.REDUNDANT, caps=ONE_A_CLUSTER))
    first = outcome.labels[:top_k].tolist()
    assert outcome.acted == (len(set(first)) < len(first))
    if not outcome.acted:
        assert outcome.keep.tolist() == list(range(min(top_k, candidates.size)))
        assert Fate.COLLAPSED not in outcome.fates.tolist()


@given(pools(), st.integers(0, 20), POLICIES)
def test_results_are_distinct_as_long_as_there_are_enough(candidates: Candidates, top_k: int, policy: Policy) -> None:
    # Invariant: with at least top_k clusters no two results share one, and with fewer every cluster has one.
    outcome = select(candidates, top_k=top_k, policy=replace(policy, caps=ONE_A_CLUSTER))
    kept = set(outcome.labels[outcome.keep].tolist())
    assert len(kept) == min(top_k, outcome.distinct)


@given(pools(), st.integers(0, 20), POLICIES)
def test_no_cluster_spans_tenants_and_unusable_vectors_stay_alone(
    candidates: Candidates, top_k: int, policy: Policy
) -> None:
    # Invariant: members of one cluster have one tenant, and a candidate without a usable vector has no company.
    labels = select(candidates, top_k=top_k, policy=replace(policy, texts=None)).labels
    usable = np.isfinite(candidates.vectors).all(axis=1) & (candidates.vectors != 0).any(axis=1)
    for label in set(labels.tolist()):
        members = np.flatnonzero(labels == label)
        assert candidates.tenants is None or len(set(candidates.tenants[members].tolist())) == 1
        assert len(members) == 1 or usable[members].all()


@given(pools(), st.integers(0, 20), POLICIES)
def test_weight_one_is_no_mmr_at_all(candidates: Candidates, top_k: int, policy: Policy) -> None:
    # Invariant: relevance only means plain rank order over the clusters, in every form of relevance and similarity.
    plain = select(candidates, top_k=top_k, policy=replace(policy, diversifier=None))
    mmr = Mmr(weight=1.0, is_scaled=False)
    assert select(candidates, top_k=top_k, policy=replace(policy, diversifier=mmr)).keep.tolist() == plain.keep.tolist()


@given(planted(smallest=2, largest=20), st.integers(1, 12))
def test_the_classical_recipe_is_clusters_best_score_and_raw_mmr(rows: FloatMatrix, top_k: int) -> None:
    # Invariant: equal to average linkage at 0.15, first of each cluster, greedy MMR on raw cosines, in its order.
    distance = measure(rows, magnitude=False).distance.astype(np.float64)
    labels = agglomerate(distance.tolist(), 0.15 + NOISE, "average")
    heads = [labels.index(label) for label in range(max(labels) + 1)]
    relevance = np.linspace(1.0, 0.5, len(rows))[heads]
    similarity = 1.0 - distance[np.ix_(heads, heads)]
    picks = [heads[i] for i in naive_mmr(relevance.tolist(), similarity.tolist(), 0.5, top_k)]
    if rows.shape[1] > 2:  # in the plane, rounding leaves too many near-ties to have one answer
        assert select(pool(rows), top_k=top_k, policy=CLASSICAL).keep[: len(picks)].tolist() == picks


def test_duplicates_give_way_to_what_comes_behind_them() -> None:
    candidates = pool(angles(0, 1, 60, 2, 120, 180))
    outcome = select(candidates, top_k=3, policy=VECTORS)
    assert outcome.keep.tolist() == [0, 2, 4]
    assert outcome.representative.tolist() == [0, 0, 2, 0, 4, 5]
    assert outcome.fates.tolist() == [Fate.KEPT, Fate.COLLAPSED, Fate.KEPT, Fate.COLLAPSED, Fate.KEPT, Fate.NOT_CHOSEN]
    assert (outcome.distinct, outcome.wanting, outcome.acted) == (4, 0, True)


def test_a_short_pool_is_filled_with_its_least_redundant_duplicates() -> None:
    candidates = pool(angles(0, 1, 2, 90))
    outcome = select(candidates, top_k=3, policy=replace(DEFAULT, threshold=Fixed(value=0.1)))
    assert outcome.keep.tolist() == [0, 2, 3]
    assert outcome.fates.tolist() == [Fate.KEPT, Fate.COLLAPSED, Fate.FILLED, Fate.KEPT]
    assert outcome.wanting == 1


def test_a_policy_may_allow_a_short_page() -> None:
    policy = replace(DEFAULT, threshold=Fixed(value=0.1), short=Short.ALLOW)
    assert select(pool(angles(0, 1, 2, 90)), top_k=3, policy=policy).keep.tolist() == [0, 3]


def test_mmr_order_is_pick_order_with_fills_behind() -> None:
    policy = replace(CLASSICAL, short=Short.FILL)
    # Clusters 0 1 2 and 3 and 4; the one at 180 degrees is less like the first than the one at 90.
    outcome = select(pool(angles(0, 1, 2, 90, 180), [1.0] * 5), top_k=4, policy=policy)
    assert outcome.keep.tolist() == [0, 4, 3, 2]


def test_the_gate_leaves_even_mmr_order_alone() -> None:
    policy = replace(CLASSICAL, when=When.REDUNDANT)
    clean = pool(angles(0, 90, 180, 181), [1.0] * 4)
    assert select(clean, top_k=2, policy=policy).keep.tolist() == [0, 1]
    assert select(clean, top_k=2, policy=replace(policy, when=When.ALWAYS)).keep.tolist() == [0, 2]


def test_a_cluster_is_as_relevant_as_its_best_member_whoever_represents_it() -> None:
    # The middle of the first cluster is the last candidate of the pool.
    candidates = pool(angles(0, 8, 90, 180, 270, 4), [0.9, 0.8, 0.5, 0.4, 0.3, 0.2])
    policy = replace(DEFAULT, threshold=Fixed(value=0.05), representative=Strategy.CENTROID)
    assert select(candidates, top_k=2, policy=policy).keep.tolist()[-1] == 5
    assert select(candidates, top_k=2, policy=replace(policy, diversifier=None)).keep.tolist() == [2, 5]


def test_tenants_keep_their_own_copy() -> None:
    candidates = pool(angles(0, 0, 0, 90), tenants=np.array([1, 2, 1, 1], dtype=np.int64))
    outcome = select(candidates, top_k=3, policy=replace(DEFAULT, threshold=Fixed(value=0.1)))
    assert outcome.labels.tolist() == [0, 1, 0, 2]
    assert outcome.keep.tolist() == [0, 1, 3]


def test_length_separates_candidates_only_where_the_policy_and_the_pool_say_so() -> None:
    rows = angles(0, 0, 90) * np.array([[1], [2], [1]], dtype=np.float32)
    fixed = replace(DEFAULT, threshold=Fixed(value=0.1))
    longer = pool(rows, metric=Metric.DOT)
    assert select(longer, top_k=2, policy=fixed).distinct == 3
    assert select(longer, top_k=2, policy=replace(fixed, distance=Distance.COSINE)).distinct == 2
    assert select(pool(rows), top_k=2, policy=fixed).distinct == 2


@pytest.mark.parametrize(
    "rows", [np.empty((0, 0)), np.empty((0, 4)), np.ones((1, 4)), np.zeros((3, 4)), np.ones((3, 0))]
)
@pytest.mark.parametrize("policy", [DEFAULT, CLASSICAL])
def test_pools_with_nothing_to_compare_come_back_as_they_are(rows: FloatMatrix, policy: Policy) -> None:
    for top_k in (0, 1, 5):
        outcome = select(pool(rows), top_k=top_k, policy=policy)
        assert outcome.keep.tolist() == list(range(min(top_k, len(rows))))
        assert outcome.distinct == len(rows)


def test_an_all_equal_pool_is_one_cluster_and_still_a_full_page() -> None:
    outcome = select(pool(np.ones((6, 4))), top_k=4, policy=DEFAULT)
    assert outcome.distinct == 1
    assert outcome.wanting == 3
    assert outcome.keep.tolist() == [0, 1, 2, 3]
    assert outcome.median == 0.0


@pytest.mark.parametrize(("threshold", "distinct"), [(0.0, 3), (2.0, 1)])
def test_the_ends_of_the_threshold_are_legal(threshold: float, distinct: int) -> None:
    candidates = pool(angles(0, 0, 90, 180))
    assert select(candidates, top_k=2, policy=replace(DEFAULT, threshold=Fixed(value=threshold))).distinct == distinct


def steps_of(steps: Steps[Selection]) -> tuple[int, Selection]:
    """How many steps the work takes, and its result."""
    taken = 1
    while True:
        try:
            next(steps)
        except StopIteration as end:
            selection: Selection = end.value
            return taken, selection
        taken += 1


@pytest.mark.parametrize("whole", [True, False])
def test_a_pool_of_long_texts_is_selected_in_steps_and_one_of_usual_texts_in_one(whole: bool) -> None:
    """Invariant: where others had their turns changes nothing."""
    for texts, least, most in ((tuple("word " * 6_000 + end for end in "abcd"), 3, 50), (("a few words",) * 4, 1, 1)):
        candidates = replace(pool(angles(0, 1, 2, 3)), metadata=Metadata(texts=as_texts(texts)))
        taken, selection = steps_of(selecting(candidates, top_k=3, policy=DEFAULT, whole=whole))
        assert least <= taken <= most
        assert selection.keep.tolist() == select(candidates, top_k=3, policy=DEFAULT).keep.tolist()


def test_candidates_behind_a_full_page_are_judged_only_if_the_whole_is_asked_for() -> None:
    candidates = pool(
        angles(*range(0, 60, 10)), metadata=Metadata(texts=as_texts(("one", "two", "two", "three", "one", "three")))
    )
    page = finished(selecting(candidates, top_k=3, policy=DEFAULT))
    assert page.keep.tolist() == [0, 1, 3]
    assert page.links.tolist() == [0, 0, Link.EQUAL, 0, 0, 0]
    assert page.labels.tolist() == [0, 1, 1, 2, 3, 4]
    whole = finished(selecting(candidates, top_k=3, policy=DEFAULT, whole=True))
    assert whole.keep.tolist() == page.keep.tolist()
    assert whole.links.tolist() == [0, 0, Link.EQUAL, 0, Link.EQUAL, Link.EQUAL]
    assert whole.labels.tolist() == [0, 1, 1, 2, 0, 2]


@given(pools(), st.integers(0, 20), POLICIES)
def test_a_proven_copy_fills_only_where_the_policy_repeats(candidates: Candidates, top_k: int, policy: Policy) -> None:
    # Invariant: under grow_then_fill no result repeats what stays by proof, and what fills a page left in doubt.
    policy = replace(policy, short=Short.GROW_THEN_FILL, caps=ONE_A_CLUSTER)
    outcome = select(candidates, top_k=top_k, policy=policy)
    filled = np.flatnonzero(outcome.fates == Fate.FILLED)
    assert not np.isin(outcome.links[filled], PROVEN).any()
    assert not outcome.acted or not np.isin(outcome.links[outcome.keep], PROVEN).any()


@given(pools(), st.integers(1, 20), POLICIES, st.data())
def test_what_stays_does_not_depend_on_what_ranks_behind_the_page(
    candidates: Candidates, top_k: int, policy: Policy, data: st.DataObject
) -> None:
    """Where texts decide alone, the page is the same whatever ranks behind its last result."""
    policy = replace(
        policy, texts=Tier.EDITED, rewordings=None, representative=Strategy.RANK, diversifier=None, caps=ONE_A_CLUSTER
    )
    texts = as_texts(f"the {('first', 'last')[i % 2]} of {i % 5} rows" for i in range(candidates.size))
    candidates = replace(candidates, metadata=replace(candidates.metadata, texts=texts))
    whole = select(candidates, top_k=top_k, policy=policy)
    if whole.wanting or not len(whole.keep):
        return
    n = data.draw(st.integers(int(whole.keep.max()) + 1, candidates.size))
    assert select(first_of(candidates, n), top_k=top_k, policy=policy).keep.tolist() == whole.keep.tolist()


def first_of(candidates: Candidates, n: int) -> Candidates:
    """The best-ranked ``n`` of a pool."""
    known = candidates.metadata
    cut = {name: None if (rows := getattr(known, name)) is None else rows[:n] for name in Metadata.__slots__}
    return replace(
        candidates,
        scores=candidates.scores[:n],
        vectors=candidates.vectors[:n],
        tenants=None if candidates.tenants is None else candidates.tenants[:n],
        text_lengths=None if candidates.text_lengths is None else candidates.text_lengths[:n],
        metadata=Metadata(**cut),
    )


@given(pools(), st.integers(1, 20), POLICIES)
def test_a_representative_is_never_a_part_or_an_edit_of_what_it_represents(
    candidates: Candidates, top_k: int, policy: Policy
) -> None:
    # Invariant: whatever represents a cluster, every other member is equal to its head or merged by vectors, or was said by the head.
    outcome = select(candidates, top_k=top_k, policy=policy)
    for head, representative in zip(best_ranked(outcome.labels)[outcome.labels], outcome.representative, strict=True):
        if head != representative:
            assert outcome.links[head] in {Link.EQUAL, Link.DISTANCE}


def test_a_pool_that_is_short_by_its_representatives_is_filled_with_the_head_of_a_cluster() -> None:
    known = Metadata(recency=np.array([1.0, 2.0, 3.0]))
    newest = replace(DEFAULT, representative=Strategy.CHAIN, chain=(Tie.RECENCY,))
    outcome = select(pool(angles(0, 0, 0), metadata=known), top_k=2, policy=newest)
    assert outcome.representative.tolist() == [2, 2, 2]
    assert outcome.keep.tolist() == [0, 2]
    assert outcome.fates.tolist() == [Fate.FILLED, Fate.COLLAPSED, Fate.KEPT]


LONG = " ".join(
    f"It says that the {w} of page {i} is to be read with care and that it was new." for i, w in enumerate(WORDS)
)


def test_of_two_equal_edited_copies_one_fills_a_short_page() -> None:
    """The second is said by the first, which is on the page then."""
    edited = LONG.replace("care and that", "care and")
    candidates = pool(angles(0, 40, 80, 120), metadata=Metadata(texts=as_texts((LONG, edited, edited + " ", "Else."))))
    outcome = select(candidates, top_k=4, policy=DEFAULT)
    assert outcome.links.tolist() == [Link.NONE, Link.EDITED, Link.EDITED, Link.NONE]
    assert outcome.keep.tolist() == [0, 1, 3]
    for short in (Short.FILL, Short.GROW_THEN_REPEAT):
        assert select(candidates, top_k=4, policy=replace(DEFAULT, short=short)).keep.tolist() == [0, 1, 2, 3]


def test_a_negative_top_k_is_refused() -> None:
    with pytest.raises(ValueError, match="top_k: saw -1, wanted 0 or more"):
        select(pool(angles(0)), top_k=-1, policy=DEFAULT)


def test_a_selection_over_texts_seen_before_takes_few_calls() -> None:
    """Counted, since a time says more about the machine: 50 texts of a hundred words, of which every other one is held by one before it."""
    random = np.random.default_rng(5)
    words = np.array([f"word{number}" for number in range(3000)])
    texts = [" ".join(random.choice(words, 100)) for _ in range(25)]
    copies = [" ".join(text.split()[:90]) for text in texts]
    rows = random.standard_normal((50, 64))
    candidates = replace(pool(rows), metadata=Metadata(texts=as_texts([*texts, *copies])))
    first = select(candidates, top_k=50, policy=replace(DEFAULT, when=When.ALWAYS))
    calls = 0

    def counted(_frame: object, event: str, _of: object) -> None:
        nonlocal calls
        calls += event in {"call", "c_call"}

    sys.setprofile(counted)
    try:
        again = select(candidates, top_k=50, policy=replace(DEFAULT, when=When.ALWAYS))
    finally:
        sys.setprofile(None)
    assert again.labels.tolist() == first.labels.tolist()
    assert first.distinct == 25
    assert calls < 15_000  # 230 a text
