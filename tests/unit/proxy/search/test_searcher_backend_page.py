from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.contract import Pool, Search
from vecsieve.proxy.search.searcher import untouched, whole, window
from vecsieve.proxy.selection.values import Fate


def pool(size: int) -> Pool:
    return Pool(scores=np.zeros(size), vectors=np.zeros((size, 0), np.float32))


@pytest.mark.parametrize("size", [0, 1, 5])
def test_a_pool_that_is_the_page_is_kept_whole_and_in_order(size: int) -> None:
    selection = untouched(pool(size))
    assert selection.keep.tolist() == whole(pool(size)).tolist() == list(range(size))
    assert selection.fates.tolist() == [Fate.KEPT] * size
    assert (selection.distinct, selection.wanting, selection.acted) == (size, 0, False)


@given(size=st.integers(0, 30), offset=st.integers(0, 40), top_k=st.integers(1, 40))
def test_a_window_is_the_slice_that_was_asked_for(size: int, offset: int, top_k: int) -> None:
    """Invariant: ranks offset to offset + top_k, as far as the pool has them."""
    search = Search(top_k=top_k, offset=offset, pages=True, query=None)
    assert window(search, pool(size)).tolist() == list(range(size))[offset : offset + top_k]
