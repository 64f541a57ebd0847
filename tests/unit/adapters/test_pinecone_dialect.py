from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.contract import Dialect
from vecsieve.adapters.pinecone_dialect import PineconeDialect

DIALECT: Dialect = PineconeDialect()


def test_an_error_has_the_services_own_shape() -> None:
    answer = DIALECT.error(404, 'no "index" größe')
    assert (answer.status, answer.content_type) == (404, "application/json")
    assert answer.body == '{"code":5,"message":"no \\"index\\" größe","details":[]}'.encode()


@pytest.mark.parametrize(
    ("status", "code"), [(400, 3), (401, 16), (403, 7), (429, 8), (500, 13), (502, 14), (503, 14), (504, 4), (418, 2)]
)
def test_a_status_has_grpcs_code_in_it(status: int, code: int) -> None:
    assert json.loads(DIALECT.error(status, "").body)["code"] == code


@given(message=st.text())
def test_any_message_makes_a_json_body(message: str) -> None:
    """Invariant: the body is JSON whatever the message; text that is Unicode is given back unchanged."""
    body = json.loads(DIALECT.error(400, message).body)
    assert body == {"code": 3, "message": message.encode(errors="replace").decode(), "details": []}


@given(status=st.integers(400, 599), body=st.binary(max_size=60))
def test_no_words_of_an_error_are_guessed_at(status: int, body: bytes) -> None:
    """Invariant: an error teaches no limit and names no vector."""
    assert DIALECT.refused_limit(status, body) is None
    assert not DIALECT.names_unknown_vector(status, body)
