"""The proposed cut and what it would do, on collections whose answer is known."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.jobs.memory_source import MemorySource, families, points
from vecsieve.proxy.jobs.calibrate.survey import Sample, Survey, by_rule, proposed, survey
from vecsieve.proxy.jobs.pairs.reading import listed_ids
from vecsieve.proxy.jobs.source import Vectors
from vecsieve.proxy.runtime.files import Advance


@contextmanager
def quiet(_title: str, _total: int | None) -> Iterator[Advance]:
    yield lambda _: None


def seen(vectors: Vectors) -> Survey:
    source = MemorySource(points(vectors))
    return survey(source, Sample.of(listed_ids(source, "docs", quiet), 2000), fields=("text",), bar=quiet)


def test_the_cut_is_a_fifth_of_the_mean_of_the_pools_medians() -> None:
    looked = seen(families(40, 3))
    proposal = proposed(looked)
    assert proposal.mean_median == pytest.approx(float(np.mean([pool.median for pool in looked.pools])))
    assert proposal.cut == pytest.approx(0.2 * proposal.mean_median)
    assert proposal.typical == pytest.approx(float(np.median([pool.median for pool in looked.pools])))


@pytest.mark.parametrize(("median", "cut"), [(0.0, 0.0), (0.05, 0.01), (0.5, 0.1), (1.5, 0.3), (1.9, 0.3)])
def test_the_rule_is_clipped(median: float, cut: float) -> None:
    assert by_rule(median) == pytest.approx(cut)


def test_three_copies_of_everything_are_seen_by_every_policy() -> None:
    proposal = proposed(seen(families(40, 3)))
    for effect in (proposal.median_effect, proposal.typical_effect, proposal.cut_effect):
        assert effect.pages == 1.0
        assert 0.5 < effect.copies < 0.7


def test_without_copies_nothing_is_merged() -> None:
    proposal = proposed(seen(families(80, 1)))
    assert (proposal.cut_effect.pages, proposal.cut_effect.copies) == (0.0, 0.0)
    assert proposal.density[0] == (0.0, 0.0)


def test_a_collection_of_nothing_but_one_vector_gets_the_smallest_cut() -> None:
    proposal = proposed(seen(np.ones((60, 8), np.float32)))
    assert proposal.cut == 0.0
    assert (proposal.mean_median, proposal.typical) == (0.0, 0.0)
    assert proposal.density[0] == (0.0, 1.0)
    assert proposal.cut_effect.copies == pytest.approx(7 / 8)


@given(st.integers(1, 4), st.floats(0.0, 0.02))
def test_density_grows_with_the_distance_and_holds_the_cut(copies: int, noise: float) -> None:
    """Shares never fall as the distance grows, lie in [0, 1], and the proposed cut is among the distances."""
    proposal = proposed(seen(families(24, copies, noise=noise, dimension=8)))
    density, cut = proposal.density, proposal.cut
    shares = [share for _, share in density]
    assert shares == sorted(shares)
    assert 0.0 <= shares[0] <= shares[-1] <= 1.0
    assert cut in [distance for distance, _ in density]
