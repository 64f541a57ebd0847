"""The arrays: as large as they say, and a sample that is spread."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.jobs.analyze.reading import nothing_yet, spread


@given(st.integers(0, 10_000), st.one_of(st.none(), st.integers(1, 12_000)))
def test_a_sample_is_ascending_distinct_and_as_even_as_can_be(points: int, limit: int | None) -> None:
    """Neighbouring places of a sample are the same number of points apart, give or take one."""
    places = spread(points, limit).tolist()
    assert len(places) == (points if limit is None else min(points, limit))
    gaps = np.diff(places)
    assert all(0 <= place < points for place in places)
    assert not len(gaps) or (gaps.min() >= 1 and gaps.max() - gaps.min() <= 1)


def test_a_million_points_cost_what_the_docstring_says() -> None:
    gathered = nothing_yet(1000, spread(1000, None))
    arrays = [getattr(gathered, each.name) for each in fields(gathered)]
    size = sum(array.nbytes for array in arrays if isinstance(array, np.ndarray))
    assert size / 1000 == 165 + 13


def test_only_a_reading_of_every_point_is_whole() -> None:
    assert nothing_yet(10, spread(10, None)).whole
    assert nothing_yet(10, spread(10, 10)).whole
    assert not nothing_yet(10, spread(10, 9)).whole
