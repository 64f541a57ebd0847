from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.chroma_space import LOOKED_AT, is_cosine


def drawn(seed: int, rows: int = 12, dimension: int = 6) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    lengths = rng.uniform(0.5, 20.0, size=(rows, 1))
    return rng.normal(size=dimension).astype(np.float32), (lengths * rng.normal(size=(rows, dimension))).astype(
        np.float32
    )


def cosines(query: np.ndarray, vectors: np.ndarray) -> np.ndarray:
    return np.asarray(1 - vectors @ query / np.linalg.norm(vectors, axis=1) / np.linalg.norm(query), dtype=np.float64)


@given(seed=st.integers(0, 10_000), rows=st.integers(1, 30))
def test_cosine_distances_are_told_from_the_other_two(seed: int, rows: int) -> None:
    """Invariant: the distances of each space are taken for cosine's in cosine space alone."""
    query, vectors = drawn(seed, rows)
    assert is_cosine(query, vectors, cosines(query, vectors).astype(np.float32).astype(np.float64))
    squares = ((vectors - query) ** 2).sum(axis=1).astype(np.float64)
    products = (1 - vectors @ query).astype(np.float64)
    if rows >= LOOKED_AT:
        assert not is_cosine(query, vectors, squares)
        assert not is_cosine(query, vectors, products)


def test_what_cannot_be_compared_is_left_out_and_nothing_left_is_doubt() -> None:
    query, vectors = drawn(1)
    distances = cosines(query, vectors)
    vectors[0], vectors[1], distances[2] = 0.0, np.nan, np.nan
    assert is_cosine(query, vectors, distances)
    assert not is_cosine(query, vectors[:2], distances[:2])
    assert not is_cosine(np.zeros_like(query), vectors, distances)
    assert not is_cosine(None, vectors, distances)
    assert not is_cosine(query[:3], vectors, distances)
    assert not is_cosine(query, vectors[:0], distances[:0])
