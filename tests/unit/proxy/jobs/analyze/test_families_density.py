"""The curve: how many points have a copy at a cut, and how many could go."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from support.memory_source import families as planted
from support.searched_source import gathered_of
from vecsieve.proxy.jobs.analyze.families import density_at, exact, first_copies, near, redundant
from vecsieve.proxy.selection.geometry import NOISE, measure


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
