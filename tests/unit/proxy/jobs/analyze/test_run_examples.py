"""Families to look at: the largest, seen from the nearest member to the farthest."""

from __future__ import annotations

import numpy as np
import pytest

from support.memory_source import families
from vecsieve.proxy.jobs.analyze.run import CONSIDERED, FAMILIES, MEMBERS, Chosen, Read, choose, family
from vecsieve.proxy.jobs.source import Point, Vectors
from vecsieve.proxy.selection.values import Indices


def heads_of(*sizes: int) -> Indices:
    """Families one after the other, each led by its first point."""
    starts = np.cumsum([0, *sizes[:-1]])
    return np.repeat(starts, sizes).astype(np.intp)


def read(place: int, vector: Vectors | None, first: int | None = None) -> Read:
    return Read(
        point=Point(id=place, vector=vector, payload={}), first=place if first is None else first, source="s", text="t"
    )


def test_the_largest_families_come_first_and_single_points_never() -> None:
    heads = heads_of(2, 1, 5, 2, 1)
    chosen = choose(heads, np.arange(len(heads)))
    assert [(each.size, each.places) for each in chosen] == [(5, (3, 4, 5, 6, 7)), (2, (0, 1)), (2, (8, 9))]


def test_no_more_families_and_members_are_read_than_are_needed() -> None:
    heads = heads_of(*[1000] * (FAMILIES + 3))
    chosen = choose(heads, heads)
    assert len(chosen) == FAMILIES
    assert all(len(each.places) == CONSIDERED + 1 and each.places[-1] == each.places[0] + 999 for each in chosen)
    assert [each.exact for each in chosen] == [1000] * FAMILIES


def test_the_nearest_and_the_farthest_member_are_among_those_shown() -> None:
    angles = np.linspace(0.0, 0.9, 10)
    vectors = np.stack([np.cos(angles), np.sin(angles)], axis=1).astype(np.float32)
    points = {place: read(place, vectors[place]) for place in range(10)}
    found = family(Chosen(size=10, exact=1, places=(0, *range(9, 0, -1))), points, magnitude=False)
    assert found is not None
    assert [each.id for each in found.members] == [1, 3, 6, 9]
    assert len(found.members) == MEMBERS
    assert found.members[-1].distance == pytest.approx(1.0 - np.cos(0.9), abs=1e-6)
    assert (found.leader.id, found.leader.distance) == (0, 0.0)


def test_members_without_a_distance_come_last_and_those_that_are_gone_not_at_all() -> None:
    vectors = families(1, 3)
    points = {0: read(0, vectors[0]), 1: read(1, None, first=0), 2: read(2, vectors[2])}
    found = family(Chosen(size=4, exact=2, places=(0, 1, 2, 3)), points, magnitude=False)
    assert found is not None
    assert [(each.id, each.distance is None, each.exact) for each in found.members] == [
        (2, False, False),
        (1, True, True),
    ]
    assert family(Chosen(size=2, exact=1, places=(3, 0)), points, magnitude=False) is None


def test_a_leader_whose_members_are_gone_stands_alone() -> None:
    found = family(Chosen(size=2, exact=1, places=(0, 1)), {0: read(0, None)}, magnitude=True)
    assert found is not None
    assert (found.members, found.leader.distance) == ((), None)
