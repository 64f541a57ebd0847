"""What texts and guards do to distances: copies meet, the forbidden never do, the unknown is neither."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.policies import ALL_GUARDS, DEFAULT, TEXT_RULES
from support.pools import pool
from support.texts import as_texts
from vecsieve.proxy.selection.clustering import cluster
from vecsieve.proxy.selection.grouping import FEW, Ask, asker, settle, standing_vetoes
from vecsieve.proxy.selection.policy import Fixed, Linkage, Policy
from vecsieve.proxy.selection.text.evidence import UNKNOWN, Codes, is_reached, opened, weigh
from vecsieve.proxy.selection.text.reading import Texts, read
from vecsieve.proxy.selection.values import FloatMatrix, Indices, Link, Metadata, Steps, Veto, finished

LONG = " ".join(f"word{i}" for i in range(60))
NOT_SO = " ".join(f"other{i}" for i in range(60))


def square(n: int, seed: int) -> FloatMatrix:
    upper = np.triu(np.random.default_rng(seed).random((n, n)), 1)
    return (upper + upper.T).astype(np.float32)


def at_once(answer: Callable[[Indices, Indices], Codes]) -> Ask:
    """A guard that takes no steps."""

    def ask(first: Indices, second: Indices) -> Steps[Codes]:
        yield from ()
        return answer(first, second)

    return ask


def texts_of(*texts: str | None) -> Texts:
    return read(Metadata(texts=as_texts(texts)), TEXT_RULES)


def with_rules(reach: float | None = 1.0) -> Policy:
    return replace(DEFAULT, threshold=Fixed(value=0.15), text=replace(TEXT_RULES, reach=reach))


def each(n: int) -> Indices:
    return np.arange(n, dtype=np.intp)


def test_copies_by_text_are_at_distance_zero_and_the_rest_stays_as_it_was() -> None:
    distance = np.full((3, 3), 0.3, np.float32)
    np.fill_diagonal(distance, 0.0)
    found = finished(weigh(distance, texts_of(LONG, LONG, NOT_SO), each(3), each(3), policy=with_rules(), typical=1.0))
    assert found.distance == pytest.approx(np.array([[0, 0, 0.3], [0, 0, 0.3], [0.3, 0.3, 0]]))
    assert found.links.tolist() == [[0, Link.IDENTICAL, 0], [Link.IDENTICAL, 0, 0], [0, 0, 0]]
    assert found.similarities[0, 1] == 1.0


def test_pairs_beyond_the_reach_are_not_compared_and_the_unknown_always_are() -> None:
    distance = np.array([[0, 0.6, UNKNOWN], [0.6, 0, np.inf], [UNKNOWN, np.inf, 0]], np.float32)
    texts = texts_of(LONG, LONG, LONG)
    near = finished(weigh(distance, texts, each(3), each(3), policy=with_rules(reach=1.0), typical=0.5))
    assert near.links[0].tolist() == [0, 0, Link.IDENTICAL]
    assert near.distance[0, 1] == np.float32(0.6)
    everywhere = finished(weigh(distance, texts, each(3), each(3), policy=with_rules(reach=None), typical=0.5))
    assert everywhere.links[0].tolist() == [0, Link.IDENTICAL, Link.IDENTICAL]
    assert np.isinf(everywhere.distance[1, 2])  # other tenants: not even equal texts bring them together


def test_rows_and_columns_may_be_different_candidates() -> None:
    found = finished(
        weigh(
            np.full((1, 2), 0.3, np.float32),
            texts_of(LONG, NOT_SO, LONG),
            np.array([2]),
            np.array([0, 1]),
            policy=with_rules(),
            typical=1.0,
        )
    )
    assert found.links.tolist() == [[Link.IDENTICAL, Link.NONE]]


def test_what_vectors_cannot_tell_is_opened_for_texts() -> None:
    distance = np.array([[0, np.inf], [np.inf, 0]], np.float32)
    assert opened(distance).tolist() == [[0, UNKNOWN], [UNKNOWN, 0]]
    finite = square(3, 0)
    assert opened(finite) is finite


@pytest.mark.parametrize(("far", "reached"), [(0.5, True), (0.6, False), (UNKNOWN, True), (np.inf, True)])
def test_a_page_is_reached_when_two_are_near_or_cannot_be_compared(far: float, reached: bool) -> None:
    distance = np.array([[0, far], [far, 0]], np.float32)
    assert is_reached(distance, 0.5) is reached
    assert not is_reached(np.zeros((1, 1), np.float32), 0.5)


@given(st.integers(0, 20), st.integers(0, 2**32 - 1), st.sampled_from(list(Linkage)), st.floats(0.0, 0.5))
def test_no_cluster_is_left_with_two_that_a_guard_keeps_apart(
    n: int, seed: int, linkage: Linkage, share: float
) -> None:
    # Invariant: whatever the guard says, nobody it keeps apart ends up together, and it is asked about no pair twice.
    apart = np.triu(np.random.default_rng(seed).random((n, n)) < share, 1)
    asked: list[tuple[int, int]] = []

    def ask(first: Indices, second: Indices) -> Codes:
        asked.extend(zip(first.tolist(), second.tolist(), strict=True))
        assert (first < second).all()
        return np.where(apart[first, second], np.int8(Veto.NUMBER), np.int8(Veto.NONE)).astype(np.int8)

    labels, held = finished(
        settle(square(n, seed), lambda distance: cluster(distance, 0.5, linkage), at_once(ask), reach=0.5)
    )
    together = np.triu(labels[:, None] == labels[None, :], 1) if n else np.zeros((0, 0), bool)
    assert not (together & apart).any()
    assert len(asked) == len(set(asked))
    assert set(np.flatnonzero(held).tolist()) <= {second for _, second in asked}


def test_without_a_veto_the_clusters_are_those_of_the_distances() -> None:
    distance = square(12, 7)
    expected = cluster(distance, 0.3, Linkage.AVERAGE)
    labels, held = finished(
        settle(
            distance.copy(),
            lambda apart: cluster(apart, 0.3, Linkage.AVERAGE),
            at_once(lambda first, _: np.zeros(len(first), np.int8)),
            reach=0.3,
        )
    )
    assert labels.tolist() == expected.tolist()
    assert not held.any()


def test_where_all_are_kept_apart_the_pool_is_clustered_a_few_times() -> None:
    """Each would join the next that is near otherwise: a round for each."""
    count = 60
    ranks = np.arange(count, dtype=np.float32) / count
    distance: FloatMatrix = np.abs(ranks[:, None] - ranks[None, :])
    rounds = 0

    def label(apart: FloatMatrix) -> Indices:
        nonlocal rounds
        rounds += 1
        return cluster(apart, 0.5, Linkage.LEADER)

    labels, _ = finished(
        settle(distance, label, at_once(lambda first, _: np.full(len(first), Veto.NUMBER, np.int8)), reach=0.5)
    )
    assert len(set(labels.tolist())) == count
    assert rounds <= 3


def test_only_who_stands_alone_because_of_it_counts_as_vetoed() -> None:
    held = np.array([0, Veto.NUMBER, Veto.DATE], np.int8)
    assert standing_vetoes(held, np.array([0, 1, 0])).tolist() == [0, Veto.NUMBER, 0]


def test_a_guard_without_anything_to_read_is_not_asked() -> None:
    bare = pool(np.eye(2))
    assert asker(bare, ALL_GUARDS, None) is None
    sources = replace(bare, metadata=Metadata(sources=("a", "b")))
    assert asker(sources, ALL_GUARDS, None) is None
    ask = asker(sources, replace(ALL_GUARDS, keep_sources=("b",)), None)
    assert ask is not None
    assert finished(ask(np.array([0]), np.array([1]))).tolist() == [Veto.SOURCE]


def test_short_texts_that_were_not_read_keep_apart_and_equal_ones_do_not() -> None:
    """More characters than the guards read of fifty ranks: what the last ones state is not known."""
    filler = "word" * 12
    texts = [f"{' '.join([filler] * 20)} {number // 2} people" for number in range(20)]
    known = replace(pool(np.eye(20)), metadata=Metadata(texts=as_texts((*texts[:18], texts[18], texts[19].upper()))))
    ask = asker(known, ALL_GUARDS, read(known.metadata, TEXT_RULES))
    assert ask is not None
    codes = finished(ask(np.array([0, 0, 0, 17, 18]), np.array([1, 2, 18, 18, 19])))
    assert codes.tolist() == [Veto.NONE, Veto.NUMBER, Veto.UNREAD, Veto.UNREAD, Veto.NONE]


def test_short_texts_behind_the_budget_of_a_pool_keep_apart() -> None:
    """Nobody has counted their words."""
    texts = (*["漢" * 99_000] * 20, "EU bans diesel cars", "EU lifts ban on diesel cars", "EU bans diesel cars")
    known = replace(pool(np.eye(23)), metadata=Metadata(texts=as_texts(texts)))
    ask = asker(known, ALL_GUARDS, read(known.metadata, TEXT_RULES))
    assert ask is not None
    assert finished(ask(np.array([0, 20, 20]), np.array([20, 21, 22]))).tolist() == [0, Veto.UNREAD, 0]


def test_a_large_pool_is_clustered_a_round_a_step() -> None:
    """Invariant: between two turns of others the pool is clustered once."""
    rounds = [0]

    def label(apart: FloatMatrix) -> Indices:
        rounds[-1] += 1
        return cluster(apart, 0.5, Linkage.LEADER)

    guard = at_once(lambda first, _: np.full(len(first), Veto.NUMBER, np.int8))
    for _ in settle(square(FEW + 1, 3), label, guard, reach=0.5):
        rounds.append(0)
    assert max(rounds) == 1
    assert len(rounds) > 1
