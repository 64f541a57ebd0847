from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.chroma.request import NUMBER_BYTES, RECORD_BYTES, REPLY_BYTES, most_candidates


@given(searches=st.integers(1, 500), numbers=st.integers(0, 5000))
def test_what_may_be_asked_for_fits_and_one_more_would_not(searches: int, numbers: int) -> None:
    """Invariant: all candidates of all searches together stay within the reply, as near as whole candidates come."""
    each = searches * (RECORD_BYTES + NUMBER_BYTES * numbers)
    assert most_candidates(searches=searches, numbers=numbers) * each <= REPLY_BYTES
    assert (most_candidates(searches=searches, numbers=numbers) + 1) * each > REPLY_BYTES


def test_a_usual_search_is_not_held_back() -> None:
    assert most_candidates(searches=1, numbers=3072) > 200
    assert most_candidates(searches=0, numbers=0) == most_candidates(searches=1, numbers=0)
