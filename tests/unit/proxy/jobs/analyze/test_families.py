"""Families: a leader, and what lies within the cut of it."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.memory_source import families as planted
from support.searched_source import gathered_of
from vecsieve.proxy.jobs.analyze.families import (
    NO_SOURCE,
    OTHERS,
    SHOWN,
    Sources,
    density_at,
    exact,
    first_copies,
    leaders,
    near,
    redundant,
    saturated,
    sources,
)
from vecsieve.proxy.jobs.analyze.reading import NEIGHBOURS, Known
from vecsieve.proxy.jobs.source import Vectors
from vecsieve.proxy.selection.geometry import NOISE, measure
from vecsieve.proxy.selection.values import Indices

FEW = 21

cuts = st.floats(0.0, 1.0)


@st.composite
def collections(draw: st.DrawFn) -> tuple[Vectors, list[int]]:
    """Few directions with noise, and texts that are sometimes equal."""
    n = draw(st.integers(1, FEW))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    bases = rng.normal(size=(draw(st.integers(1, 6)), 4))
    vectors = bases[rng.integers(0, len(bases), n)] + rng.normal(
        scale=draw(st.sampled_from([0.0, 0.1, 0.4])), size=(n, 4)
    )
    texts = draw(st.lists(st.integers(0, 2 * n), min_size=n, max_size=n))
    return vectors.astype(np.float32), texts


def naive(vectors: Vectors, texts: list[int], cut: float) -> list[int]:
    """The same families by the definition, with sets and a whole matrix."""
    distance = measure(vectors, magnitude=False).distance
    first = [texts.index(text) for text in texts]
    nodes = sorted(set(first))
    between = {
        (a, b): min(
            distance[i, j] for i in range(len(texts)) for j in range(len(texts)) if (first[i], first[j]) == (a, b)
        )
        for a in nodes
        for b in nodes
        if a != b
    }
    mentions = Counter(
        first[j]
        for i in range(len(texts))
        for j in range(len(texts))
        if i != j and distance[i, j] <= np.float32(cut + NOISE)
    )
    near = {a: [b for b in nodes if a != b and between[a, b] <= np.float32(cut + NOISE)] for a in nodes}
    order = sorted(nodes, key=lambda a: (-mentions[a], a))
    leading: list[int] = []
    for node in order:
        if not any(leader in near[node] for leader in leading):
            leading.append(node)
    heads = {
        node: node
        if node in leading
        else min((each for each in near[node] if each in leading), key=lambda each: (between[node, each], each))
        for node in nodes
    }
    return [heads[each] for each in first]


def found(vectors: Vectors, texts: list[int], cut: float) -> Indices:
    gathered = gathered_of(vectors, texts=texts)
    return leaders(gathered, first_copies(gathered), cut)


@given(collections(), cuts)
def test_families_are_those_of_the_definition(collection: tuple[Vectors, list[int]], cut: float) -> None:
    """The sparse graph gives what sets and a full distance matrix give."""
    assert found(*collection, cut).tolist() == naive(*collection, cut)


@given(collections(), cuts)
def test_no_member_is_farther_than_the_cut_and_no_two_leaders_are_nearer(
    collection: tuple[Vectors, list[int]], cut: float
) -> None:
    """Within the cut of the leader, through exact copies at most; leaders farther from each other than the cut."""
    vectors, texts = collection
    heads = found(vectors, texts, cut)
    distance = measure(vectors, magnitude=False).distance
    texts_at = np.array(texts)
    for place, head in enumerate(heads.tolist()):
        across = distance[np.ix_(texts_at == texts[place], texts_at == texts[head])]
        assert texts[place] == texts[head] or across.min() <= cut + NOISE
        assert heads[head] == head
    leading = np.unique(heads)
    apart = distance[np.ix_(leading, leading)]
    assert (apart[~np.eye(len(leading), dtype=bool)] > np.float32(cut + NOISE)).all()


def test_planted_families_are_found_each_whole() -> None:
    heads = leaders(gathered := gathered_of(planted(12, 4)), first_copies(gathered), 0.05)
    assert sorted(Counter(heads.tolist()).values()) == [4] * 12
    assert all(len(set(heads[start : start + 4].tolist())) == 1 for start in range(0, 48, 4))


def test_a_copy_of_a_copy_is_no_member() -> None:
    angles = np.array([0.0, 0.3, 0.6, 0.9, 1.2])  # neighbours are 0.045 apart, next but one 0.175
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    assert found(vectors, list(range(5)), 0.05).tolist() == [1, 1, 1, 3, 3]


def test_a_hundred_exact_copies_are_one_family() -> None:
    vectors = np.concatenate([np.tile(planted(1, 1), (100, 1)), planted(3, 1, seed=9)])
    heads = found(vectors, [7] * 100 + [1, 2, 3], 0.05)
    assert Counter(heads.tolist()) == {0: 100, 100: 1, 101: 1, 102: 1}


def test_equal_texts_are_copies_however_far_their_vectors() -> None:
    assert found(planted(4, 1), [5, 6, 5, 8], 0.0).tolist() == [0, 1, 0, 3]


def test_a_text_and_a_vector_with_the_same_number_are_no_copies() -> None:
    gathered = gathered_of(planted(3, 1), texts=[5, 5, 5])
    gathered.known[:] = [Known.TEXT, Known.VECTOR, Known.NOTHING]
    assert first_copies(gathered).tolist() == [0, 1, 2]


def test_points_whose_whole_list_lies_within_the_cut_are_counted() -> None:
    vectors = np.concatenate([np.tile(planted(1, 1), (NEIGHBOURS + 1, 1)), planted(3, 1, seed=9)])
    assert saturated(gathered_of(vectors, looked=range(0, 24, 2)), 0.05) == (NEIGHBOURS + 2) // 2
    assert saturated(gathered_of(vectors[1:], looked=range(0, 23, 2)), 0.05) == 0
    assert saturated(gathered_of(vectors), 0.05) == 0  # no list cuts anything off


@pytest.mark.parametrize("n", [0, 1])
def test_a_collection_of_none_or_one_has_no_families(n: int) -> None:
    assert found(planted(1, 1)[:n], [0] * n, 0.3).tolist() == list(range(n))


# Copies between sources.


names = st.one_of(st.none(), st.sampled_from([f"source {number}" for number in range(SHOWN + 4)]))


def of(named: list[str | None], heads: list[int]) -> Sources | None:
    vectors = np.eye(len(named), dtype=np.float32)
    head_of: Indices = np.array(heads, np.intp)
    return sources(gathered_of(vectors, sources=named), head_of)


@given(st.lists(st.tuples(names, st.integers(0, 5)), min_size=1, max_size=40))
def test_the_table_is_the_one_counted_by_hand(points: list[tuple[str | None, int]]) -> None:
    """Each cell counts the row's points with another point of the column's source in their family."""
    named = [name for name, _ in points]
    families = [number for _, number in points]
    found = of(named, [families.index(number) for number in families])
    if found is None:
        assert not any(named)
        return
    shown = {row.name for row in found.rows}
    group = [NO_SOURCE if name is None else name if name in shown else OTHERS for name in named]
    assert sum(row.points for row in found.rows) == len(points)
    assert found.distinct == len(set(named) - {None})
    for row in found.rows:
        mine = [at for at, name in enumerate(group) if name == row.name]
        assert row.points == len(mine)
        copies = {
            at: {group[other] for other in range(len(points)) if other != at and families[other] == families[at]}
            for at in mine
        }
        assert row.with_copy == sum(bool(each) for each in copies.values())
        for column, copied in zip(found.rows, row.copied, strict=True):
            assert copied == sum(column.name in each for each in copies.values())


def test_the_largest_sources_have_rows_and_the_rest_is_one() -> None:
    named: list[str | None] = [f"s{number:02}" for number in range(SHOWN + 3) for _ in range(number + 1)]
    found = of([*named, None], list(range(len(named) + 1)))
    assert found is not None
    assert [row.name for row in found.rows] == [
        *(f"s{number:02}" for number in range(SHOWN + 2, 2, -1)),
        OTHERS,
        NO_SOURCE,
    ]
    assert [row.points for row in found.rows[-2:]] == [1 + 2 + 3, 1]


def test_a_collection_that_names_no_source_has_no_table() -> None:
    assert of([None, None], [0, 0]) is None


def test_a_samples_copies_without_a_source_are_not_taken_for_another_sources() -> None:
    gathered = gathered_of(planted(2, 2), sources=["a", None, "b", None], looked=[0, 2])
    found = sources(gathered, np.array([0, 0, 2, 2], np.intp))
    assert found is not None
    assert [(row.name, row.points, row.with_copy, row.copied) for row in found.rows] == [
        ("a", 1, 0, (0, 0)),
        ("b", 1, 0, (0, 0)),
    ]


# The curve: how many points have a copy at a cut, and how many could go.


@given(st.integers(0, 2**32 - 1), st.floats(0.0, 1.0), st.floats(0.0, 1.0))
def test_a_point_has_a_copy_when_another_lies_within_the_cut(seed: int, cut: float, wider: float) -> None:
    """Equals the count over all pairs, and never falls with a wider cut."""
    rng = np.random.default_rng(seed)
    vectors = rng.normal(size=(18, 3)).astype(np.float32)
    gathered = gathered_of(vectors)
    firsts = first_copies(gathered)
    distance = measure(vectors, magnitude=False).distance + 9 * np.eye(18, dtype=np.float32)
    counted = density_at(gathered, firsts, cut)
    assert counted.with_copy == int((distance.min(axis=1) <= np.float32(cut + NOISE)).sum())
    assert density_at(gathered, firsts, cut + wider).with_copy >= counted.with_copy


def test_planted_copies_are_counted_on_both_sides_of_their_distance() -> None:
    gathered = gathered_of(planted(10, 3))
    firsts = first_copies(gathered)
    before, after = density_at(gathered, firsts, 1e-4), density_at(gathered, firsts, 0.05)
    assert (before.with_copy, before.redundant) == (0, 0)
    assert (after.with_copy, after.redundant) == (30, 20)


def test_equal_texts_are_copies_at_every_cut() -> None:
    gathered = gathered_of(planted(4, 1), texts=[5, 6, 5, 8])
    firsts = first_copies(gathered)
    assert exact(gathered, firsts).tolist() == [True, False, True, False]
    assert near(gathered, firsts, 0.0).tolist() == [True, False, True, False]
    assert density_at(gathered, firsts, 0.0).redundant == 1
    assert redundant(firsts) == 1


def test_a_sample_knows_its_share_but_not_how_many_could_go() -> None:
    gathered = gathered_of(planted(10, 2), looked=range(0, 20, 2))
    counted = density_at(gathered, first_copies(gathered), 0.05)
    assert (counted.with_copy, counted.redundant) == (10, None)
