from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.qdrant.calls import names_unknown_vector, refused_limit

REFUSAL = 'Bad request: Limit exceeded 50 > 10 for "limit". Help: Reduce the "limit" parameter to or below 10.'


def test_the_limit_of_strict_mode_is_learned_from_its_refusal() -> None:
    assert refused_limit(REFUSAL) == 10
    assert not names_unknown_vector(REFUSAL)


@pytest.mark.parametrize(
    "words",
    [
        "",
        'Bad request: Limit exceeded 50 > 10 for "search_max_batchsize".',
        f'Limit exceeded 50 > {"9" * 19} for "limit"',
        "Wrong input: Vector dimension error",
    ],
)
def test_other_words_teach_nothing(words: str) -> None:
    assert refused_limit(words) is None


@given(words=st.text())
def test_arbitrary_words_never_raise(words: str) -> None:
    """Words are evidence or they are nothing."""
    assert refused_limit(words) is None
    assert not names_unknown_vector(words)


def test_a_vector_that_does_not_exist_is_recognised() -> None:
    assert names_unknown_vector("Wrong input: Not existing vector name error: late")
