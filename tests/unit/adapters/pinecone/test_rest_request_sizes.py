from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.pinecone.rest_request import LARGEST_TOP_K, UNKNOWN_NUMBERS, most_matches, within


@pytest.mark.parametrize(("numbers", "measured"), [(384, 640), (768, 346), (1024, 265), (1536, 180), (3072, 91)])
def test_a_fifth_less_is_asked_for_than_fits_by_measurement(numbers: int, measured: int) -> None:
    assert 0.75 * measured <= most_matches(numbers=numbers) <= 0.9 * measured


def test_sparse_values_and_texts_leave_less_room() -> None:
    assert most_matches(numbers=768, is_sparse=True) < most_matches(numbers=768)
    assert most_matches(has_texts=True) < most_matches() < LARGEST_TOP_K


@given(numbers=st.integers(0, 20_000), is_sparse=st.booleans(), has_texts=st.booleans())
def test_a_reply_of_that_many_matches_stays_below_four_megabytes(
    numbers: int, *, is_sparse: bool, has_texts: bool
) -> None:
    """Invariant: at least one match is asked for, and vectors alone never fill the reply."""
    count = most_matches(numbers=numbers, is_sparse=is_sparse, has_texts=has_texts)
    assert 1 <= count <= LARGEST_TOP_K
    assert count * 13.9 * numbers <= 4_000_000


def test_a_query_asks_for_no_more_than_the_index_may_look_at() -> None:
    assert within(20, numbers=768, is_sparse=False) == 20
    assert within(100_000, numbers=768, is_sparse=False) == within(None, numbers=768, is_sparse=False)
    assert within(0, numbers=768, is_sparse=False) == 0


def test_a_vector_that_the_request_does_not_show_may_be_long() -> None:
    assert within(None, numbers=0, is_sparse=False) == most_matches(numbers=UNKNOWN_NUMBERS)
    assert within(None, numbers=0, is_sparse=True) == most_matches(is_sparse=True)
