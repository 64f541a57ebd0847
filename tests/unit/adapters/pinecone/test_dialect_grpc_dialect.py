""""""

from __future__ import annotations

import pytest

from vecsieve.adapters.contract import NativeAnswer
from vecsieve.adapters.pinecone.dialect import PineconeGrpcDialect

DIALECT = PineconeGrpcDialect()


@pytest.mark.parametrize("code", [3, 4, 8, 14])
def test_an_error_is_its_code_and_its_words(code: int) -> None:
    answer = DIALECT.error(code, "größer als erlaubt", path="/VectorService/Query")
    assert answer == NativeAnswer(status=code, content_type="", body="größer als erlaubt".encode())


def test_words_that_are_no_unicode_are_replaced() -> None:
    assert DIALECT.error(13, "a\udcffb").body == b"a?b"


def test_no_refusal_is_read_into_words_that_nobody_documents() -> None:
    words = b"Error, message length too large: found 5 bytes, the limit is: 4 bytes"
    assert DIALECT.refused_limit(11, words) is None
    assert not DIALECT.names_unknown_vector(3, words)
