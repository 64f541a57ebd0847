from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.contract import Dialect
from vecsieve.adapters.pinecone.calls import PineconeDialect

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


@pytest.mark.parametrize(
    ("status", "code"), [(400, "INVALID_ARGUMENT"), (404, "NOT_FOUND"), (502, "UNAVAILABLE"), (418, "UNKNOWN")]
)
@pytest.mark.parametrize("path", ["/indexes", "/indexes/docs?a=/query", "//collections", "/assistant/chat/a"])
def test_an_error_of_the_control_plane_has_its_shape(status: int, code: str, path: str) -> None:
    answer = DIALECT.error(status, 'no "index"', path=path)
    assert (answer.status, answer.content_type) == (status, "application/json")
    assert answer.body == b'{"status":%d,"error":{"code":"%s","message":"no \\"index\\""}}' % (status, code.encode())


@pytest.mark.parametrize(
    "path", ["", "/", "/query", "/_i/docs.example.com/indexes", "/x?/indexes", "/namespaces/indexes"]
)
def test_every_other_error_has_the_data_planes(path: str) -> None:
    assert DIALECT.error(404, "x", path=path) == DIALECT.error(404, "x")


@given(message=st.text())
def test_any_message_makes_a_json_body(message: str) -> None:
    """Invariant: the body is JSON whatever the message; text that is Unicode is given back unchanged."""
    words = message.encode(errors="replace").decode()
    assert json.loads(DIALECT.error(400, message).body) == {"code": 3, "message": words, "details": []}
    content = json.loads(DIALECT.error(400, message, path="/indexes").body)
    assert content == {"status": 400, "error": {"code": "INVALID_ARGUMENT", "message": words}}


@given(status=st.integers(400, 599), body=st.binary(max_size=60))
def test_no_words_of_an_error_are_guessed_at(status: int, body: bytes) -> None:
    """Invariant: an error teaches no limit and names no vector."""
    assert DIALECT.refused_limit(status, body) is None
    assert not DIALECT.names_unknown_vector(status, body)
