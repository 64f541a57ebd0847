"""Caps: at most so many of one cluster, document and source, in the order of choice, and never a nameless one held back."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.selection.policy import Caps
from vecsieve.proxy.selection.single import capped, expand
from vecsieve.proxy.selection.values import Indices, best_ranked


def limits(*, document: int | None = None, source: int | None = None) -> Caps:
    return Caps(per_cluster=1, per_document=document, per_source=source)


def order(*indices: int) -> Indices:
    return np.array(indices, dtype=np.intp)


def lists(outcome: tuple[Indices, Indices]) -> tuple[list[int], list[int]]:
    kept, reserve = outcome
    return kept.tolist(), reserve.tolist()


NAMES = st.lists(st.sampled_from([None, "a", "b", "c"]), min_size=0, max_size=12)
MOST = st.sampled_from([None, 1, 2, 3])


@given(st.data(), NAMES, MOST, MOST, st.integers(0, 14))
def test_the_page_is_as_full_and_as_early_as_the_caps_allow(
    data: st.DataObject, documents: list[str | None], most: int | None, of_source: int | None, count: int
) -> None:
    # Invariant: walking the order, everything the caps let through is kept until the page is full, and nothing else.
    sources = data.draw(st.lists(st.sampled_from([None, "x", "y"]), min_size=len(documents), max_size=len(documents)))
    walk = data.draw(st.permutations(range(len(documents))))
    kept, reserve = lists(capped(order(*walk), documents, sources, limits(document=most, source=of_source), count))
    expected: list[int] = []
    expected_reserve: list[int] = []
    for index in walk:
        if len(expected) == count:
            break
        same_document = sum(documents[i] == documents[index] for i in expected if documents[index] is not None)
        same_source = sum(sources[i] == sources[index] for i in expected if sources[index] is not None)
        full = (most is not None and same_document >= most) or (of_source is not None and same_source >= of_source)
        (expected_reserve if full else expected).append(index)
    assert (kept, reserve) == (expected, expected_reserve)


def test_no_cap_is_the_first_of_the_order() -> None:
    assert lists(capped(order(4, 1, 3), ["a"] * 5, ["x"] * 5, limits(), 2)) == ([4, 1], [])


def test_what_has_no_document_is_never_held_back() -> None:
    assert lists(capped(order(0, 1, 2, 3), [None, None, "a", "a"], None, limits(document=1), 9)) == ([0, 1, 2], [3])


def test_a_pool_without_documents_has_no_cap_for_them() -> None:
    assert lists(capped(order(0, 1), None, None, limits(document=1, source=1), 9)) == ([0, 1], [])


def test_one_held_back_by_its_source_does_not_use_up_its_document() -> None:
    outcome = capped(order(0, 1, 2), ["a", "b", "b"], ["x", "x", "y"], limits(document=1, source=1), 9)
    assert lists(outcome) == ([0, 2], [1])


def test_nobody_is_held_back_behind_a_full_page() -> None:
    assert lists(capped(order(0, 1, 2), ["a", "a", "a"], None, limits(document=1), 1)) == ([0], [])


def test_a_cap_of_zero_lets_only_the_nameless_through() -> None:
    assert lists(capped(order(0, 1), ["a", None], None, limits(document=0), 9)) == ([1], [0])


@st.composite
def clusterings(draw: st.DrawFn) -> tuple[Indices, Indices]:
    """Labels numbered in order of best rank, and some member of each cluster as its representative."""
    raw = draw(st.lists(st.integers(0, 4), min_size=0, max_size=12))
    seen: dict[int, int] = {}
    labels = order(*(seen.setdefault(label, len(seen)) for label in raw))
    standing = [draw(st.sampled_from(np.flatnonzero(labels == label).tolist())) for label in range(len(seen))]
    return labels, order(*standing)


@given(clusterings(), st.integers(1, 5))
def test_a_cluster_gives_its_representative_and_its_next_best_ranked(
    clustering: tuple[Indices, Indices], most: int
) -> None:
    # Invariant: per cluster the representative first, then the best-ranked others, as many as allowed or there are.
    labels, standing = clustering
    expanded = expand(labels, standing, most)
    for label, representative in enumerate(standing.tolist()):
        others = [i for i in np.flatnonzero(labels == label).tolist() if i != representative]
        assert expanded[labels[expanded] == label].tolist() == [representative, *others[: most - 1]]


@given(clusterings(), st.integers(1, 5))
def test_the_expanded_are_in_order_of_relevance(clustering: tuple[Indices, Indices], most: int) -> None:
    # Invariant: a representative counts with its cluster's best rank, everybody else with their own.
    labels, standing = clustering
    expanded = expand(labels, standing, most).tolist()
    ranks = [best_ranked(labels)[labels[i]] if i in standing.tolist() else i for i in expanded]
    assert ranks == sorted(ranks)


@given(clusterings())
def test_one_per_cluster_is_the_representatives(clustering: tuple[Indices, Indices]) -> None:
    # Invariant: the cap of the default changes nothing.
    labels, standing = clustering
    assert expand(labels, standing, 1).tolist() == standing.tolist()
