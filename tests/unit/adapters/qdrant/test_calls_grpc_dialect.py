from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.contract import Dialect
from vecsieve.adapters.qdrant.calls import INVALID_ARGUMENT, QdrantGrpcDialect

DIALECT: Dialect = QdrantGrpcDialect()
# The server's own words for max_query_limit = 10 and a request for 50.
REFUSAL = b'Bad request: Limit exceeded 50 > 10 for "limit". Help: Reduce the "limit" parameter to or below 10.'
UNKNOWN = b"Wrong input: Not existing vector name error: late"


@given(message=st.text(), code=st.integers(1, 16))
def test_an_error_is_its_code_and_its_words(message: str, code: int) -> None:
    """Text that is Unicode is given back unchanged, and no text raises."""
    answer = DIALECT.error(code, message, path="/qdrant.Points/Query")
    assert (answer.status, answer.content_type) == (code, "")
    assert answer.body == message.encode(errors="replace")


def test_a_refused_limit_is_learned_and_an_unknown_vector_recognised() -> None:
    assert DIALECT.refused_limit(INVALID_ARGUMENT, REFUSAL) == 10
    assert DIALECT.names_unknown_vector(INVALID_ARGUMENT, UNKNOWN)
    assert DIALECT.refused_limit(INVALID_ARGUMENT, UNKNOWN) is None
    assert not DIALECT.names_unknown_vector(INVALID_ARGUMENT, REFUSAL)


@pytest.mark.parametrize("code", [0, 5, 8, 13, 400])
def test_other_codes_teach_nothing(code: int) -> None:
    assert DIALECT.refused_limit(code, REFUSAL) is None
    assert not DIALECT.names_unknown_vector(code, UNKNOWN)


@given(body=st.binary(max_size=60))
def test_arbitrary_details_never_raise(body: bytes) -> None:
    """Details are evidence or they are nothing."""
    assert DIALECT.refused_limit(INVALID_ARGUMENT, body) is None
    assert not DIALECT.names_unknown_vector(INVALID_ARGUMENT, body)
