"""What holds of selection as a whole: copies change nothing, what leaves is said by what stays, facts never merge."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.selection.policies import DEFAULT, VECTORS
from support.selection.pools import angles, page, pool
from support.selection.texts import as_texts, forget
from vecsieve.proxy.selection.diversifiers.dpp import Dpp
from vecsieve.proxy.selection.diversifiers.mmr import Mmr
from vecsieve.proxy.selection.policy import (
    Fixed,
    Linkage,
    Policy,
    Relative,
    Short,
    Strategy,
    Tie,
    Tier,
    When,
)
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import PROVEN, Candidates, FloatMatrix, Link, Metadata

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


@given(distinct_points(), st.integers(1, 12), st.sampled_from([DEFAULT, VECTORS, FIXED]))
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
    one, other = (replace(with_texts(candidates), scores=scores) for candidates in (tripled, shuffled))
    assert contents(one, DEFAULT, top_k) == contents(other, DEFAULT, top_k)


@given(distinct_points(), st.integers(1, 12))
def test_relevance_alone_is_rank_order_under_every_diversifier(rows: FloatMatrix, top_k: int) -> None:
    # Invariant: lambda 1 and diversity 0 give the representatives in rank order.
    plain = select(with_texts(rows), top_k=top_k, policy=DEFAULT).keep.tolist()
    for chooser in (Mmr(weight=1.0, is_scaled=False), Dpp(diversity=0.0)):
        policy = replace(DEFAULT, diversifier=chooser)
        assert select(with_texts(rows), top_k=top_k, policy=policy).keep.tolist() == plain


FACTS = {
    "amount": ("Singapore shares open 0.28% lower on Thursday", "Singapore shares open 0.19 % lower on Thursday"),
    "number": ("Nepal earthquake death toll surpasses 7,000", "Nepal earthquake death toll surpasses 8,000"),
    "denial": ("FAA bans flights to Israel", "FAA lifts ban on flights to Israel"),
    "version": ("What is new in release 1.0", "What is new in release 3.0"),
    "date": ("The invoice is due on October 15th", "The invoice is due on October 16th"),
    "side": ("Returns a copy with leading characters removed", "Returns a copy with trailing characters removed"),
    "negation": ("The service is available", "The service is not available"),
    "unit": ("The lamp takes 5 mW in standby", "The lamp takes 5 MW in standby"),
    "sign": ("The balance of the account is (1,200)", "The balance of the account is 1,200"),
    "emoji": ("The build of the main branch is 🟢", "The build of the main branch is 🔴"),
    "box": ("- [x] renew the certificate", "- [ ] renew the certificate"),
}


@pytest.mark.parametrize("tier", list(Tier))
@pytest.mark.parametrize("fact", FACTS)
def test_facts_that_differ_never_merge(fact: str, tier: Tier) -> None:
    texts = as_texts((*FACTS[fact], "something else"))
    candidates = replace(pool(angles(0, 0, 90)), metadata=Metadata(texts=texts))
    for threshold in (None, Fixed(value=0.2), VECTORS.threshold):
        policy = replace(DEFAULT, texts=tier, threshold=threshold, when=When.ALWAYS)
        assert select(candidates, top_k=2, policy=policy).keep.tolist() == [0, 1]
        assert page(candidates, top_k=2, offset=0, policy=policy, exhausted=True).keep.tolist() == [0, 1]
    assert select(candidates, top_k=2, policy=replace(policy, texts=None)).keep.tolist() == [0, 2]


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
    chosen = select(candidates, top_k=4, policy=DEFAULT)
    assert chosen.labels.tolist() == [0, 1, 0, 1]
    assert chosen.links.tolist() == [Link.NONE, Link.NONE, Link.EQUAL, Link.EQUAL]


def test_the_newest_of_a_cluster_stands_for_it_when_told_to() -> None:
    known = Metadata(texts=as_texts(("a page of the manual",) * 3), recency=np.array([1.0, 3.0, 2.0]))
    candidates = replace(pool(angles(0, 0, 0, 90)[:3]), metadata=known)
    newest = replace(DEFAULT, short=Short.ALLOW, representative=Strategy.CHAIN, chain=(Tie.RECENCY,))
    assert select(candidates, top_k=2, policy=newest).keep.tolist() == [1]


THRESHOLDS = st.sampled_from(
    [None, Fixed(value=0.2), Relative(factor=0.3, minimum=0.02, maximum=0.5), VECTORS.threshold]
)
POLICIES = st.builds(
    replace,
    st.just(DEFAULT),
    texts=st.sampled_from([None, *Tier]),
    threshold=THRESHOLDS,
    linkage=st.sampled_from(list(Linkage)),
    when=st.sampled_from(list(When)),
    short=st.sampled_from(list(Short)),
)
BY_TEXTS = st.builds(
    replace, st.just(DEFAULT), texts=st.sampled_from(list(Tier)), threshold=THRESHOLDS, when=st.sampled_from(list(When))
)


@st.composite
def documents(draw: st.DrawFn, *, smallest: int = 1, largest: int = 14) -> Candidates:
    """Chunks of a few documents, with overlap, and copies of chunks: whole, cut, with other case and blanks, or with one word changed."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    vocabulary = [*WORDS, "copper", "letter", "harbour", "Tuesday", "12", "not", "-3.5", "is", "of"]
    pieces = []
    for _ in range(draw(st.integers(smallest, largest))):
        size = int(random.integers(3, 90))
        words = [vocabulary[place] for place in random.integers(0, len(vocabulary), size)]
        pieces.append(" ".join(word + (". " if random.random() < 0.12 else "") for word in words) + ".")
    for place in range(1, len(pieces)):
        original = pieces[int(random.integers(0, place))]
        words = original.split()
        kind = random.integers(0, 7)
        if kind == 0:
            pieces[place] = original
        elif kind == 1:
            pieces[place] = " ".join(words[int(random.integers(0, len(words))) :])
        elif kind == 2:
            pieces[place] = original.replace(" ", "\n").upper()
        elif kind == 3:
            words[int(random.integers(0, len(words)))] = "other"
            pieces[place] = " ".join(words)
        elif kind == 4:
            pieces[place] = f"{original} {pieces[place]}"
    rows = random.standard_normal((len(pieces), 8))
    return pool(rows, metadata=Metadata(texts=as_texts(pieces)))


def written(candidates: Candidates) -> list[str]:
    return ["" if text is None else text.raw for text in candidates.metadata.texts or ()]


@given(documents(), st.integers(1, 14), POLICIES)
def test_the_same_input_has_the_same_outcome_whatever_is_cached(
    candidates: Candidates, top_k: int, policy: Policy
) -> None:
    """Neither a clock nor a cache decides."""
    one = select(candidates, top_k=top_k, policy=policy)
    forget()
    again = replace(candidates, metadata=Metadata(texts=as_texts(written(candidates))))
    other = select(again, top_k=top_k, policy=policy)
    for name in ("keep", "labels", "representative", "also", "links", "fates"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()


@given(documents(), st.integers(1, 14), BY_TEXTS)
def test_words_of_what_leaves_by_proof_stand_in_what_stays(candidates: Candidates, top_k: int, policy: Policy) -> None:
    """Each word of a text that left by proof is a word of the results that hold it, case, blanks and stops apart."""
    chosen = select(candidates, top_k=top_k, policy=policy)
    texts = [bare(text) for text in written(candidates)]
    for place in np.flatnonzero(np.isin(chosen.links, PROVEN)).tolist():
        holders = {int(chosen.representative[place]), int(chosen.also[place])} - {-1}
        if chosen.links[place] != Link.JOINED:
            assert set(texts[place]) <= set().union(*(texts[holder] for holder in holders))
        else:  # a third text may hold a piece of it
            assert set(texts[place]) <= set().union(*(texts[kept] for kept in range(place)))


def bare(text: str) -> list[str]:
    return [word for run in text.lower().split() if (word := run.strip("."))]


@given(documents(), BY_TEXTS)
def test_which_results_stay_does_not_depend_on_how_many_are_asked_for(candidates: Candidates, policy: Policy) -> None:
    """Pages of growing size are prefixes of each other."""
    policy = replace(policy, when=When.ALWAYS, short=Short.ALLOW)
    pages = [select(candidates, top_k=k, policy=policy).keep.tolist() for k in range(1, candidates.size + 1)]
    assert all(more[: len(few)] == few for few, more in itertools.pairwise(pages))


@given(documents(), st.integers(1, 14), BY_TEXTS)
def test_a_page_without_copies_is_the_backends_own(candidates: Candidates, top_k: int, policy: Policy) -> None:
    """If none of the first results left, the answer is theirs, in their order."""
    chosen = select(candidates, top_k=top_k, policy=policy)
    if not chosen.links[:top_k].any():
        assert chosen.keep.tolist() == list(range(min(top_k, candidates.size)))
        assert chosen.acted == (policy.when is When.ALWAYS)


@given(documents(), st.integers(1, 14), BY_TEXTS, st.sampled_from([0, 1, 2]))
def test_a_pool_of_several_tenants_is_decided_as_the_pools_of_each(
    candidates: Candidates, top_k: int, policy: Policy, start: int
) -> None:
    """Two tenants never hold each other's results: with all texts, each tenant keeps what it keeps alone (frames apart)."""
    tenants = (np.arange(candidates.size) + start) % 3 // 2
    mixed = select(
        replace(candidates, tenants=tenants.astype(np.int64)),
        top_k=candidates.size,
        policy=replace(policy, short=Short.ALLOW),
    )
    for tenant in (0, 1):
        places = np.flatnonzero(tenants == tenant)
        texts = as_texts(written(candidates)[place] for place in places.tolist())
        alone = replace(
            candidates,
            scores=candidates.scores[places],
            vectors=candidates.vectors[places],
            metadata=Metadata(texts=texts),
        )
        kept = select(alone, top_k=len(places), policy=replace(policy, short=Short.ALLOW))
        assert (mixed.representative[places] == places).tolist() == (
            kept.representative == np.arange(len(places))
        ).tolist()


@given(documents(), BY_TEXTS)
def test_no_tier_removes_a_result_before_a_wider_one_does(candidates: Candidates, policy: Policy) -> None:
    """The best-ranked result that leaves is the same or a better one with each wider tier: up to there the kept texts are the same."""
    removed = []
    for tier in Tier:
        chosen = select(
            candidates, top_k=candidates.size, policy=replace(policy, texts=tier, short=Short.ALLOW, when=When.ALWAYS)
        )
        left = np.flatnonzero(chosen.links)
        removed.append(int(left[0]) if len(left) else candidates.size)
    assert removed == sorted(removed, reverse=True)
