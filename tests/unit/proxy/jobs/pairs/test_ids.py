"""Ids as arrays: what goes in comes out, in one order, whatever the pages."""

from __future__ import annotations

from random import Random
from uuid import UUID

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.jobs.pairs.ids import NOWHERE, Ids, spread
from vecsieve.proxy.jobs.source import PointId

any_id = st.one_of(st.integers(0, 2**64 - 1), st.uuids().map(str))
any_ids = st.lists(any_id, unique=True, max_size=40)


@given(any_ids, st.integers(1, 7))
def test_every_id_has_a_place_and_comes_back_from_it(ids: list[PointId], page: int) -> None:
    """places is the inverse of at, for numbers to 2^64 and UUIDs alike."""
    listing = Ids([ids[start : start + page] for start in range(0, len(ids), page)])
    assert len(listing) == len(ids)
    places = listing.places(ids).tolist()
    assert sorted(places) == list(range(len(ids)))
    assert listing.at(places) == ids


@given(any_ids, st.randoms(use_true_random=False))
def test_the_order_of_the_pages_changes_nothing(ids: list[PointId], random: Random) -> None:
    """Same ids, same places, same digest, in whatever order and however often they are given."""
    shuffled = list(ids)
    random.shuffle(shuffled)
    one, other = Ids([ids]), Ids([shuffled, ids[:3]])
    assert one.digest() == other.digest()
    assert one.places(ids).tolist() == other.places(ids).tolist()


@given(any_ids, any_id)
def test_the_digest_changes_when_a_point_comes_or_goes(ids: list[PointId], another: PointId) -> None:
    """Two collections have one digest only if they have the same ids."""
    without = [identifier for identifier in ids if identifier != another]
    assert Ids([without]).digest() != Ids([[*without, another]]).digest()


def test_numbers_stand_before_texts_each_ascending() -> None:
    low, high = str(UUID(int=1)), str(UUID(int=2))
    assert Ids([[high, 7], [3, low]]).at(range(4)) == [3, 7, low, high]


def test_an_id_that_was_not_listed_is_nowhere() -> None:
    listing = Ids([[3, 7]])
    assert listing.places([5, 7, 9, str(UUID(int=1))]).tolist() == [NOWHERE, 1, NOWHERE, NOWHERE]
    assert Ids([]).places([1, "x"]).tolist() == [NOWHERE, NOWHERE]


@given(st.integers(0, 10_000), st.one_of(st.none(), st.integers(1, 12_000)))
def test_a_sample_is_ascending_distinct_and_as_even_as_can_be(points: int, limit: int | None) -> None:
    """Neighbouring places of a sample are the same number of points apart, give or take one."""
    places = spread(points, limit).tolist()
    assert len(places) == (points if limit is None else min(points, limit))
    gaps = np.diff(places)
    assert all(0 <= place < points for place in places)
    assert not len(gaps) or (gaps.min() >= 1 and gaps.max() - gaps.min() <= 1)
