"""Sketches bring copies together, and leave strangers apart."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.jobs.pairs.fingerprints import Hashes
from vecsieve.proxy.jobs.pairs.sketches import VECTOR_BANDS, directions, vector_bands

DIMENSION = 96


def cone(count: int, *, seed: int = 0) -> npt.NDArray[np.float32]:
    """Vectors (count, d) in a narrow cone, as embeddings are."""
    draw = np.random.default_rng(seed)
    return np.asarray(draw.normal(size=(count, DIMENSION)) + 3.0, np.float32)


def turned(vectors: npt.NDArray[np.float32], similarity: float) -> npt.NDArray[np.float32]:
    """Vectors of this cosine to the given ones."""
    draw = np.random.default_rng(1)
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    aside = draw.normal(size=vectors.shape)
    aside -= (aside * units).sum(axis=1, keepdims=True) * units
    aside /= np.linalg.norm(aside, axis=1, keepdims=True)
    return np.asarray(similarity * units + np.sqrt(1 - similarity**2) * aside, np.float32)


def meets(one: Hashes, other: Hashes) -> npt.NDArray[np.bool_]:
    return np.asarray((one == other).any(axis=1))


@given(scale=st.floats(1e-3, 1e3), seed=st.integers(0, 50))
def test_a_vector_meets_itself_at_every_length(scale: float, seed: int) -> None:
    """Invariant: all bands of a vector and of its multiple are equal, but for signs that lie on a border."""
    vectors = cone(20, seed=seed)
    by = directions(cone(500), 10_000)
    bands, others = vector_bands(vectors, by), vector_bands(vectors * np.float32(scale), by)
    assert bands.shape == (20, VECTOR_BANDS)
    assert (bands == others).mean() > 0.99
    assert meets(bands, others).all()


@pytest.mark.parametrize("points", [1_000, 1_000_000])
def test_nearly_all_copies_meet(points: int) -> None:
    by, vectors = directions(cone(1000), points), cone(1000, seed=2)
    met = meets(vector_bands(vectors, by), vector_bands(turned(vectors, 0.998), by))
    assert met.mean() > 0.99


def test_strangers_seldom_meet() -> None:
    by = directions(cone(1000), 1_000_000)
    met = meets(vector_bands(cone(2000, seed=3), by), vector_bands(cone(2000, seed=4), by))
    assert met.mean() < 0.005


def test_without_the_middle_of_the_collection_strangers_would_meet() -> None:
    far = directions(np.zeros((1, DIMENSION), np.float32), 1_000_000)
    met = meets(vector_bands(cone(500, seed=3), far), vector_bands(cone(500, seed=4), far))
    assert met.mean() > 0.05


@pytest.mark.parametrize(("points", "width"), [(1, 12), (1_000, 14), (1_000_000, 24), (10**9, 28)])
def test_larger_collections_have_longer_bands(points: int, width: int) -> None:
    assert directions(cone(3), points).width == width


def test_where_nearly_all_points_are_copies_they_meet() -> None:
    vectors = turned(np.tile(cone(1), (40, 1)), 0.99)
    bands = vector_bands(vectors, directions(vectors, 40))
    assert meets(bands[:-1], bands[1:]).mean() > 0.9


def test_the_same_sample_gives_the_same_bands() -> None:
    one, other = (vector_bands(cone(5), directions(cone(50), 100)) for _ in range(2))
    assert (one == other).all()
