from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.qdrant.calls import INVALID_ARGUMENT, QdrantGrpcDialect

DIALECT = QdrantGrpcDialect()
REFUSAL = 'Bad request: Limit exceeded 50 > 10 for "limit". Help: Reduce the "limit" parameter to or below 10.'


def test_the_limit_of_strict_mode_is_learned_from_its_refusal() -> None:
    assert DIALECT.refused_limit(INVALID_ARGUMENT, REFUSAL.encode()) == 10
    assert not DIALECT.names_unknown_vector(INVALID_ARGUMENT, REFUSAL.encode())


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
    assert DIALECT.refused_limit(INVALID_ARGUMENT, words.encode()) is None


@given(words=st.text(st.characters(exclude_categories=["Cs"])))
def test_arbitrary_words_never_raise(words: str) -> None:
    """Words are evidence or they are nothing."""
    assert DIALECT.refused_limit(INVALID_ARGUMENT, words.encode()) is None
    assert not DIALECT.names_unknown_vector(INVALID_ARGUMENT, words.encode())


def test_a_vector_that_does_not_exist_is_recognised() -> None:
    assert DIALECT.names_unknown_vector(INVALID_ARGUMENT, b"Wrong input: Not existing vector name error: late")
