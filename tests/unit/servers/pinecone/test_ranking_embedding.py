""""""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers.pinecone.ranking import embed_dense, embed_sparse, words


def test_words_are_lower_case_and_in_order() -> None:
    assert words("The Fox, the FOX-2!") == ["the", "fox", "the", "fox", "2"]


@given(st.text(), st.integers(1, 200))
def test_every_text_has_a_unit_vector_and_always_the_same(text: str, dimension: int) -> None:
    """|embed(t)| == 1 and embed(t) == embed(t)."""
    vector = embed_dense(text, dimension)
    assert vector.shape == (dimension,)
    assert vector.dtype == np.float32
    assert float(np.linalg.norm(vector)) == pytest.approx(1, abs=1e-5)
    assert np.array_equal(vector, embed_dense(text, dimension))


def test_texts_that_share_words_lie_closer_than_texts_that_share_none() -> None:
    base, near, far = (embed_dense(text, 512) for text in ("red big car", "red big bus", "cold sea water"))
    assert float(base @ near) > 0.5 > float(base @ far)


def test_the_vectors_are_the_same_in_every_process() -> None:
    assert embed_dense("a", 8).tolist() == [-1, 0, 0, 0, 0, 0, 0, 0]
    sparse = embed_sparse("a")
    assert sparse is not None
    assert sparse.indices == (966719552,)


def test_a_sparse_vector_counts_words() -> None:
    sparse = embed_sparse("sea sea ship")
    assert sparse is not None
    assert len(sparse.indices) == 2
    assert list(sparse.indices) == sorted(sparse.indices)
    assert sorted(sparse.values.tolist()) == pytest.approx([1.0, 1.0 + math.log(2)])
    assert embed_sparse("...") is None
