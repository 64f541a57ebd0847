"""One list in pages: no repeats, no gaps, the same list for every page size and every number of fetched candidates."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from support.selection.oracles import page_list
from support.selection.policies import DEFAULT, VECTORS
from support.selection.pools import angles, damaged, page, planted, pool
from support.selection.texts import as_texts, forget
from vecsieve.proxy.selection import paged
from vecsieve.proxy.selection.distances import RelativeDistances
from vecsieve.proxy.selection.geometry import NOISE, measure
from vecsieve.proxy.selection.paged import BLOCK, paging
from vecsieve.proxy.selection.policy import (
    Certain,
    Fixed,
    Linkage,
    Overlap,
    Policy,
    Relative,
    Short,
    Strategy,
    Tier,
    When,
)
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import Candidates, Fate, FloatMatrix, Indices, Link, Metadata, Metric, Selection

ALLOW = replace(VECTORS, short=Short.ALLOW)
LONG = planted(smallest=0, largest=180)


def cut_to(candidates: Candidates, n: int) -> Candidates:
    tenants = None if candidates.tenants is None else candidates.tenants[:n]
    known = candidates.metadata
    cut = {name: None if (rows := getattr(known, name)) is None else rows[:n] for name in Metadata.__slots__}
    return replace(
        candidates,
        scores=candidates.scores[:n],
        vectors=candidates.vectors[:n],
        tenants=tenants,
        metadata=Metadata(**cut),
    )


def whole_list(candidates: Candidates, policy: Policy) -> list[int]:
    one = page(candidates, top_k=candidates.size, offset=0, policy=policy, exhausted=True)
    return [int(i) for i in one.keep]


@given(LONG, st.sampled_from([0.05, 0.2, 0.6]), st.sampled_from(list(Linkage)))
def test_the_list_is_that_of_the_plain_recurrence(rows: FloatMatrix, cut: float, linkage: Linkage) -> None:
    # Invariant: without ties, block by block: collapse into what was emitted, cluster the rest, emit the first of each.
    assume(rows.shape[1] > 2)
    distance = measure(rows, magnitude=False).distance.astype(np.float64)
    assume(not len(rows) or np.abs(distance - cut).min() > 1e-5)
    policy = replace(ALLOW, threshold=Fixed(value=cut), linkage=linkage, when=When.ALWAYS)
    assert whole_list(pool(rows), policy) == page_list(distance.tolist(), cut + NOISE, linkage.value)


@given(damaged(largest=120), st.integers(1, 40), st.sampled_from(list(Short)), st.booleans())
def test_pages_of_every_size_are_pieces_of_one_sequence(
    rows: FloatMatrix, size: int, short: Short, tenants: bool
) -> None:
    # Invariant: concatenated pages are D, then (unless short pages are allowed) every collapsed candidate once.
    policy = replace(VECTORS, short=short)
    candidates = pool(rows, tenants=np.arange(len(rows), dtype=np.int64) % 2 if tenants else None)
    distinct = whole_list(candidates, replace(policy, short=Short.ALLOW))
    rest = [] if short is Short.ALLOW else [i for i in range(len(rows)) if i not in set(distinct)]
    seen: list[list[int]] = []
    for offset in range(0, len(rows) + size, size):
        one = page(candidates, top_k=size, offset=offset, policy=policy, exhausted=True)
        assert one.keep.tolist() == sorted([*distinct, *rest][offset : offset + size])
        assert one.wanting == size - len(distinct[offset : offset + size])
        seen.append(one.keep.tolist())
    assert sorted(i for keep in seen for i in keep) == sorted([*distinct, *rest])


@given(planted(smallest=60, largest=220), st.integers(0, 220), st.integers(1, 30), st.integers(0, 150))
def test_fetching_more_never_changes_a_page(rows: FloatMatrix, fewer: int, top_k: int, offset: int) -> None:
    # Invariant: what a shorter fetch already decided, a longer one decides alike; what it did not, it reports missing.
    candidates = pool(rows)
    early = page(cut_to(candidates, min(fewer, len(rows))), top_k=top_k, offset=offset, policy=VECTORS, exhausted=False)
    late = page(candidates, top_k=top_k, offset=offset, policy=VECTORS, exhausted=False)
    assert late.keep[: len(early.keep)].tolist() == early.keep.tolist()
    assert len(early.keep) + early.wanting == top_k


@given(damaged(largest=120), st.integers(0, 130), st.integers(0, 130), st.booleans())
def test_a_page_tells_one_story(rows: FloatMatrix, top_k: int, offset: int, exhausted: bool) -> None:
    # Invariant: fates, representatives, labels and keep agree; a representative is never worse ranked than its cluster.
    one = page(pool(rows), top_k=top_k, offset=offset, policy=VECTORS, exhausted=exhausted)
    keep = set(one.keep.tolist())
    assert one.keep.tolist() == sorted(keep)
    assert (one.representative <= np.arange(len(rows))).all()
    assert one.labels[one.representative].tolist() == one.labels.tolist()
    assert one.distinct == len(set(one.labels.tolist())) == len(set(one.representative.tolist()))
    for i, fate in enumerate(one.fates.tolist()):
        stands = one.representative[i] == i
        expected = (
            (Fate.KEPT if stands else Fate.FILLED) if i in keep else (Fate.NOT_CHOSEN if stands else Fate.COLLAPSED)
        )
        assert fate == expected


@given(st.integers(0, 120), st.integers(0, 60), st.integers(0, 60))
def test_a_list_without_duplicates_is_sliced_as_it_is(n: int, top_k: int, offset: int) -> None:
    # Invariant: no clusters, no change: the page is the raw slice, and nothing acted.
    rows = np.eye(n, dtype=np.float32)
    one = page(pool(rows), top_k=top_k, offset=offset, policy=VECTORS, exhausted=True)
    assert one.keep.tolist() == list(range(n))[offset : offset + top_k]
    assert not one.acted


@given(planted(smallest=50, largest=120), st.integers(1, 50))
def test_a_first_page_without_duplicates_is_the_backends_own(rows: FloatMatrix, top_k: int) -> None:
    # Invariant: if no two of the first top_k of the first block share a cluster, page one is the raw slice.
    one = page(pool(rows), top_k=top_k, offset=0, policy=VECTORS, exhausted=False)
    if one.wanting == 0 and len(set(one.labels[:top_k].tolist())) == top_k:
        assert one.keep.tolist() == list(range(top_k))


def test_an_incomplete_block_waits_for_the_rest() -> None:
    rows = np.eye(BLOCK + 10, dtype=np.float32)
    early = page(pool(rows), top_k=5, offset=48, policy=VECTORS, exhausted=False)
    assert (early.keep.tolist(), early.wanting) == ([48, 49], 3)
    last = page(pool(rows), top_k=5, offset=48, policy=VECTORS, exhausted=True)
    assert (last.keep.tolist(), last.wanting) == ([48, 49, 50, 51, 52], 0)


def test_less_than_a_block_decides_nothing_until_it_is_all_there_is() -> None:
    candidates = pool(angles(0, 0, 90))
    assert not len(page(candidates, top_k=2, offset=0, policy=VECTORS, exhausted=False).keep)
    assert page(candidates, top_k=2, offset=0, policy=VECTORS, exhausted=True).keep.tolist() == [0, 2]
    assert page(candidates, top_k=2, offset=2, policy=VECTORS, exhausted=True).keep.tolist() == [1]
    assert not len(page(candidates, top_k=2, offset=2, policy=ALLOW, exhausted=True).keep)


def test_a_later_block_collapses_into_the_nearest_of_what_was_emitted() -> None:
    rows = np.eye(BLOCK + 2, dtype=np.float32)
    rows[BLOCK] = rows[7] + 0.3 * rows[3]
    one = page(
        pool(rows), top_k=BLOCK + 1, offset=0, policy=replace(VECTORS, threshold=Fixed(value=0.8)), exhausted=True
    )
    assert one.representative[BLOCK] == 7
    assert one.fates[BLOCK] == Fate.COLLAPSED
    assert one.keep.tolist() == [*range(BLOCK), BLOCK + 1]


def test_between_equally_near_ones_the_better_rank_takes_it() -> None:
    rows = np.eye(BLOCK + 1, dtype=np.float32)
    rows[BLOCK] = rows[31] + rows[4]
    one = page(pool(rows), top_k=BLOCK, offset=0, policy=replace(VECTORS, threshold=Fixed(value=0.5)), exhausted=True)
    assert one.keep.tolist() == list(range(BLOCK))
    whole = page(
        pool(rows), top_k=BLOCK + 1, offset=0, policy=replace(VECTORS, threshold=Fixed(value=0.5)), exhausted=True
    )
    assert whole.representative[BLOCK] == 4
    assert whole.fates[BLOCK] == Fate.FILLED


def test_a_rounding_error_does_not_decide_who_is_nearer() -> None:
    rows = np.eye(BLOCK + 1, dtype=np.float32)
    rows[BLOCK] = rows[31] * np.float32(1.00001) + rows[4]  # nearer to 31 by less than float32 products can tell
    policy = replace(VECTORS, threshold=Fixed(value=0.5))
    assert page(pool(rows), top_k=BLOCK + 1, offset=0, policy=policy, exhausted=True).representative[BLOCK] == 4


def test_the_cut_is_that_of_the_first_block_on_every_page() -> None:
    random = np.random.default_rng(2)
    far = random.standard_normal((BLOCK, 64))
    near = random.standard_normal(64) + 0.3 * random.standard_normal((BLOCK, 64))
    candidates = pool(np.concatenate((far, near)))
    policy = replace(VECTORS, threshold=Relative(factor=0.5, minimum=0.0, maximum=2.0))
    first = page(candidates, top_k=10, offset=0, policy=policy, exhausted=True)
    later = page(candidates, top_k=10, offset=BLOCK, policy=policy, exhausted=True)
    assert later.threshold == first.threshold
    assert later.distinct == BLOCK + 1  # all of the second block is one cluster by the measure of the first


def test_tenants_do_not_collapse_into_each_other_across_blocks() -> None:
    rows = np.eye(BLOCK + 2, dtype=np.float32)
    rows[BLOCK:] = rows[7]
    tenants = np.zeros(BLOCK + 2, dtype=np.int64)
    tenants[BLOCK] = 1
    one = page(pool(rows, tenants=tenants), top_k=BLOCK + 2, offset=0, policy=ALLOW, exhausted=True)
    assert one.keep.tolist() == [*range(BLOCK), BLOCK]
    assert one.representative[BLOCK + 1] == 7


def test_length_counts_across_blocks_too() -> None:
    rows = np.eye(BLOCK + 1, dtype=np.float32)
    rows[BLOCK] = 3 * rows[7]
    policy = replace(ALLOW, threshold=Fixed(value=0.2))
    for metric, kept in ((Metric.COSINE, BLOCK), (Metric.DOT, BLOCK + 1)):
        one = page(pool(rows, metric=metric), top_k=BLOCK + 1, offset=0, policy=policy, exhausted=True)
        assert len(one.keep) == kept


def test_always_is_said_to_have_acted_and_changes_no_page() -> None:
    one = page(pool(angles(0, 90)), top_k=2, offset=0, policy=replace(VECTORS, when=When.ALWAYS), exhausted=True)
    assert one.acted
    assert one.keep.tolist() == [0, 1]


def test_the_representative_is_the_best_rank_whatever_the_policy_says() -> None:
    policy = replace(ALLOW, threshold=Fixed(value=0.05), representative=Strategy.CENTROID)
    assert page(pool(angles(0, 8, 4, 90)), top_k=4, offset=0, policy=policy, exhausted=True).keep.tolist() == [0, 3]


@pytest.mark.parametrize(("top_k", "offset"), [(-1, 0), (1, -2)])
def test_a_negative_page_is_refused(top_k: int, offset: int) -> None:
    with pytest.raises(ValueError, match="wanted 0 or more"):
        page(pool(angles(0)), top_k=top_k, offset=offset, policy=VECTORS, exhausted=True)


def copies(n: int, times: int) -> FloatMatrix:
    """(n, 512): unrelated rows, each of them so often."""
    rng = np.random.default_rng(7)
    return np.repeat(rng.normal(size=(-(-n // times), 512)).astype(np.float32), times, axis=0)[:n]


def test_a_list_is_decided_block_by_block_and_comes_to_the_same_as_at_once() -> None:
    candidates, steps = pool(copies(1000, 100)), 0
    walk = paging(candidates, top_k=10, offset=20, policy=VECTORS, exhausted=True)
    while True:
        try:
            next(walk)
        except StopIteration as finished:
            selection: Selection = finished.value
            break
        steps += 1
    assert steps == 1000 // BLOCK
    assert (
        selection.keep.tolist() == page(candidates, top_k=10, offset=20, policy=VECTORS, exhausted=True).keep.tolist()
    )


@pytest.mark.parametrize("offset", [0, 60])
def test_without_texts_a_tight_cluster_is_listed_whole(offset: int) -> None:
    random, rank = np.random.default_rng(0), np.arange(150)
    rows = random.standard_normal((150, 384))
    # Twelve of one cluster in the first block, and twelve more behind it.
    is_tight = (rank < 12) | ((rank >= 60) & (rank < 72))
    rows[is_tight] = random.standard_normal(384) + 0.2 * rows[is_tight]
    policy = replace(VECTORS, chance=2.5e-6)
    selection = page(pool(rows), top_k=10, offset=offset, policy=policy, exhausted=True)
    assert selection.keep.tolist() == list(range(offset, offset + 10))


def test_a_block_is_measured_against_what_was_emitted_and_against_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []

    def counted(self: RelativeDistances, start: int, stop: int, others: Indices) -> FloatMatrix:
        measured.append(len(others))
        return back(self, start, stop, others)

    back = RelativeDistances.back
    monkeypatch.setattr(RelativeDistances, "back", counted)
    page(pool(copies(1000, 100)), top_k=10, offset=20, policy=VECTORS, exhausted=True)
    emitted = [-(-rank // 100) for rank in range(0, 1000, BLOCK)]
    assert (measured[0], measured[1::2], measured[2::2]) == (0, emitted[1:], [BLOCK] * (len(emitted) - 1))


THRESHOLDS = st.sampled_from(
    [None, Fixed(value=0.3), Relative(factor=0.3, minimum=0.02, maximum=0.5), Certain(first=0.85, last=0.4)]
)
PAGED = st.builds(
    replace,
    st.just(DEFAULT),
    texts=st.sampled_from([None, *Tier]),
    threshold=THRESHOLDS,
    linkage=st.sampled_from(list(Linkage)),
    short=st.sampled_from(list(Short)),
    overlap=st.sampled_from(list(Overlap)),
    chance=st.sampled_from([None, 2.5e-6]),
    keep_sources=st.sampled_from([(), (), ("b",)]),
    rewordings=st.sampled_from([None, None, 0.36]),
)
WORDS = ("red", "green", "blue", "one", "two", "three")


@st.composite
def lists_of_texts(draw: st.DrawFn, *, smallest: int = 0, largest: int = 120) -> Candidates:
    """A list of which texts repeat each other in whole and in part; some have none, and there are tenants and sources."""
    rows = draw(damaged(smallest=smallest, largest=largest))
    n = len(rows)
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    missing = draw(st.sampled_from([0.0, 0.0, 0.3, 1.0]))
    passages = [" ".join(random.choice(WORDS, random.integers(1, 30))) for _ in range(max(1, n // 3))]
    pieces: list[str | None] = []
    for _ in range(n):
        whole = passages[random.integers(len(passages))].split()
        start = int(random.integers(0, len(whole))) if random.random() < 0.4 else 0
        pieces.append(None if random.random() < missing else " ".join(whole[start:]))
    return pool(
        rows,
        tenants=np.arange(n, dtype=np.int64) % 2 if draw(st.booleans()) else None,
        metadata=Metadata(texts=as_texts(pieces), sources=tuple("abc"[i % 3] for i in range(n))),
    )


@given(lists_of_texts(), st.integers(1, 40), PAGED)
def test_pages_by_any_policy_are_pieces_of_one_sequence(candidates: Candidates, size: int, policy: Policy) -> None:
    """Concatenated pages repeat nothing and skip nothing: they are D, then (unless short pages are allowed) the collapsed."""
    distinct = whole_list(candidates, replace(policy, short=Short.ALLOW))
    rest = [] if policy.short is Short.ALLOW else [i for i in range(candidates.size) if i not in set(distinct)]
    for offset in range(0, candidates.size + size, size):
        one = page(candidates, top_k=size, offset=offset, policy=policy, exhausted=True)
        assert one.keep.tolist() == sorted([*distinct, *rest][offset : offset + size])
        assert one.wanting == size - len(distinct[offset : offset + size])


@given(lists_of_texts(smallest=50, largest=150), st.integers(0, 150), st.integers(1, 30), st.integers(0, 100), PAGED)
def test_fetching_more_never_changes_a_page_by_any_policy(
    candidates: Candidates, fewer: int, top_k: int, offset: int, policy: Policy
) -> None:
    """What a shorter fetch decided, a longer one decides alike; what it did not, it reports missing."""
    assume(policy.rewordings is None)
    few = cut_to(candidates, min(fewer, candidates.size))
    early = page(few, top_k=top_k, offset=offset, policy=policy, exhausted=False)
    late = page(candidates, top_k=top_k, offset=offset, policy=policy, exhausted=False)
    assert late.keep[: len(early.keep)].tolist() == early.keep.tolist()
    assert len(early.keep) + early.wanting == top_k


@given(lists_of_texts(smallest=50), st.integers(1, 50), PAGED)
def test_a_first_page_without_copies_is_the_backends_own_by_any_policy(
    candidates: Candidates, top_k: int, policy: Policy
) -> None:
    """If none of the first results left, page one is the raw slice, and nothing acted."""
    one = page(candidates, top_k=top_k, offset=0, policy=policy, exhausted=True)
    if not one.links[:top_k].any():
        assert one.keep.tolist() == list(range(top_k))[: candidates.size]
        assert not one.acted


@given(lists_of_texts(), st.integers(1, 60), PAGED)
def test_one_block_and_a_single_page_agree(candidates: Candidates, top_k: int, policy: Policy) -> None:
    """Where the pool is one block, a client that names offset 0 gets what one gets that names none."""
    policy = replace(policy, short=Short.ALLOW, when=When.ALWAYS)
    n = min(candidates.size, BLOCK)
    paged = page(cut_to(candidates, n), top_k=top_k, offset=0, policy=policy, exhausted=True)
    single = select(cut_to(candidates, n), top_k=top_k, policy=policy)
    assert paged.keep.tolist() == single.keep.tolist()
    left = np.flatnonzero(single.fates == Fate.COLLAPSED)
    left = left[left < (paged.keep.max() if len(paged.keep) else 0)]
    assert paged.representative[left].tolist() == single.representative[left].tolist()


@given(lists_of_texts(), st.integers(1, 20), st.integers(0, 60), PAGED)
def test_the_same_list_gives_the_same_page(candidates: Candidates, top_k: int, offset: int, policy: Policy) -> None:
    """No clock, no seed, no order of a dict and no cache decides."""
    one = page(candidates, top_k=top_k, offset=offset, policy=policy, exhausted=True)
    forget()
    known = candidates.metadata
    again = replace(
        candidates,
        metadata=replace(known, texts=as_texts(None if text is None else text.raw for text in known.texts or ())),
    )
    other = page(again, top_k=top_k, offset=offset, policy=policy, exhausted=True)
    for name in ("keep", "labels", "representative", "also", "links", "fates"):
        assert getattr(one, name).tolist() == getattr(other, name).tolist()


def test_texts_are_judged_until_the_page_is_full() -> None:
    texts = as_texts(f"passage {number // 2} of the book" for number in range(220))
    selection = page(
        pool(copies(220, 20), metadata=Metadata(texts=texts)), top_k=10, offset=5, policy=DEFAULT, exhausted=True
    )
    assert selection.keep.tolist() == list(range(10, 30, 2))
    assert selection.links[:29].tolist() == [Link.NONE, Link.EQUAL] * 14 + [Link.NONE]
    assert not selection.links[29:].any()


def test_no_vector_is_read_where_all_have_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(*_: object, **__: object) -> object:
        raise AssertionError("vectors were compared")

    monkeypatch.setattr(paged, "by_vectors_of", measured)
    texts = as_texts(f"passage {number} of the book" for number in range(60))
    selection = page(
        pool(copies(60, 20), metadata=Metadata(texts=texts)), top_k=10, offset=5, policy=VECTORS, exhausted=True
    )
    assert selection.keep.tolist() == list(range(5, 15))
    assert np.isnan(selection.threshold)


def test_proven_copies_stand_at_the_end_of_a_list_that_is_read_whole() -> None:
    texts = as_texts(["one", "two", "one", "three", "two"])
    candidates = pool(np.eye(5), metadata=Metadata(texts=texts))
    pages = [page(candidates, top_k=2, offset=at, policy=DEFAULT, exhausted=True).keep.tolist() for at in (0, 2, 4)]
    assert pages == [[0, 1], [2, 3], [4]]
    alone = page(candidates, top_k=2, offset=2, policy=replace(DEFAULT, short=Short.ALLOW), exhausted=True)
    assert alone.keep.tolist() == [3]
