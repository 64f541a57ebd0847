""""""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.contract import Reason, UnsupportedError
from vecsieve.adapters.pinecone.request import LARGEST_TOP_K, UNKNOWN_NUMBERS, is_worthwhile, most, within


@pytest.mark.parametrize(("numbers", "measured"), [(384, 640), (768, 346), (1024, 265), (1536, 180), (3072, 91)])
def test_a_fifth_less_is_asked_for_than_fits_by_measurement(numbers: int, measured: int) -> None:
    assert 0.75 * measured <= most(numbers=numbers) <= 0.9 * measured


def test_sparse_values_and_texts_leave_less_room() -> None:
    assert most(numbers=768, is_sparse=True) < most(numbers=768)
    assert most(has_texts=True) < most() < LARGEST_TOP_K


@given(numbers=st.integers(0, 20_000), is_sparse=st.booleans(), has_texts=st.booleans())
def test_a_reply_of_that_many_matches_stays_below_four_megabytes(
    numbers: int, *, is_sparse: bool, has_texts: bool
) -> None:
    """Invariant: at least one match is asked for, and vectors alone never fill the reply."""
    count = most(numbers=numbers, is_sparse=is_sparse, has_texts=has_texts)
    assert 1 <= count <= LARGEST_TOP_K
    assert count * 13.9 * numbers <= 4_000_000


def test_one_result_or_none_leaves_nothing_to_choose() -> None:
    is_worthwhile(2)
    for top_k, reason in ((0, Reason.AMBIGUOUS_FIELD), (1, Reason.SINGLE_RESULT)):
        with pytest.raises(UnsupportedError) as verdict:
            is_worthwhile(top_k)
        assert verdict.value.reason is reason


def test_a_query_asks_for_no_more_than_the_index_may_look_at() -> None:
    assert within(20, numbers=768, is_sparse=False) == 20
    assert within(100_000, numbers=768, is_sparse=False) == within(None, numbers=768, is_sparse=False)
    assert within(0, numbers=768, is_sparse=False) == 0


def test_a_vector_that_the_request_does_not_show_may_be_long() -> None:
    assert within(None, numbers=0, is_sparse=False) == most(numbers=UNKNOWN_NUMBERS)
    assert within(None, numbers=0, is_sparse=True) == most(is_sparse=True)
