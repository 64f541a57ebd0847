from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.contract import Pool, Reply
from vecsieve.proxy.search.pools.source import first, truncate_pools


def pool(size: int, *, blind: frozenset[int] = frozenset(), alone: tuple[int, ...] = ()) -> Pool:
    vectors = np.arange(2 * size, dtype=np.float32).reshape(size, 2)
    vectors[sorted(blind & set(range(size)))] = np.nan
    return Pool(
        scores=np.arange(size, dtype=np.float64),
        vectors=vectors,
        fields=tuple((b"%d" % row,) for row in range(size)),
        ids=tuple(b'"%d"' % row for row in range(size)),
        compared_by="",
        unusable=len(blind & set(range(size))),
        alone=alone,
    )


@given(size=st.integers(0, 12), count=st.integers(1, 14), blind=st.frozensets(st.integers(0, 11)))
def test_the_first_of_a_pool_are_a_pool_of_their_own(size: int, count: int, blind: frozenset[int]) -> None:
    """Invariant: the same as if no more had come."""
    cut, expected = first(pool(size, blind=blind), count), pool(min(size, count), blind=blind)
    assert np.array_equal(cut.scores, expected.scores)
    assert np.array_equal(cut.vectors, expected.vectors, equal_nan=True)
    assert (cut.fields, cut.ids, cut.unusable) == (expected.fields, expected.ids, expected.unusable)
    assert cut.compared_by == expected.compared_by


def test_who_stands_alone_still_does_as_far_as_they_are_there() -> None:
    assert first(pool(5, alone=(1, 4)), 3).alone == (1,)


def test_candidates_without_vectors_are_all_unusable() -> None:
    bare = Pool(scores=np.zeros(3), vectors=np.zeros((3, 0), dtype=np.float32), unusable=3)
    assert first(bare, 2).unusable == 2


def test_each_pool_is_as_long_as_was_asked_for_it_and_one_that_was_sent_as_it_came_stays() -> None:
    reply = Reply(pools=(pool(8), pool(8), pool(3)), document="d")
    cut = truncate_pools(reply, (4, 0, 4))
    assert [cut_pool.size for cut_pool in cut.pools] == [4, 8, 3]
    assert cut.document == "d"
    assert truncate_pools(reply, (8, 8, 8)) is reply


def test_every_member_that_has_one_value_a_candidate_is_cut() -> None:
    whole = replace(pool(5), fields=((b"f",),) * 5, ids=(b"1",) * 5, versions=(b"2",) * 5)
    lengths = {
        field.name: len(value) for field in fields(Pool) if isinstance(value := getattr(whole, field.name), tuple)
    }
    cut = first(whole, 3)
    assert {name for name, length in lengths.items() if length == 5} == {"fields", "ids", "versions"}
    assert [len(getattr(cut, name)) for name, length in lengths.items() if length == 5] == [3, 3, 3]
