from __future__ import annotations

import pytest

from vecsieve.adapters.base import GrpcDialect, check_page
from vecsieve.adapters.contract import NativeAnswer, Reason, UnsupportedError

DIALECT = GrpcDialect()


@pytest.mark.parametrize("code", [3, 4, 8, 14])
def test_an_error_is_its_code_and_its_words(code: int) -> None:
    answer = DIALECT.error(code, "größer als erlaubt")
    assert answer == NativeAnswer(status=code, content_type="", body="größer als erlaubt".encode())


def test_words_that_are_no_unicode_are_replaced() -> None:
    assert DIALECT.error(13, "a\udcffb").body == b"a?b"


def test_no_refusal_names_a_limit_or_a_vector_by_default() -> None:
    words = b"Error, message length too large: found 5 bytes, the limit is: 4 bytes"
    assert DIALECT.refused_limit(11, words) is None
    assert not DIALECT.names_unknown_vector(3, words)


@pytest.mark.parametrize(("top_k", "offset"), [(2, 0), (1, 1), (10, 5)])
def test_a_page_beyond_the_first_result_is_worth_selecting(top_k: int, offset: int) -> None:
    check_page(top_k, offset)


@pytest.mark.parametrize(
    ("top_k", "offset", "reason"),
    [(0, 0, Reason.AMBIGUOUS_FIELD), (0, 5, Reason.AMBIGUOUS_FIELD), (1, 0, Reason.SINGLE_RESULT)],
)
def test_one_result_or_none_leaves_nothing_to_choose(top_k: int, offset: int, reason: Reason) -> None:
    with pytest.raises(UnsupportedError) as verdict:
        check_page(top_k, offset)
    assert verdict.value.reason is reason
