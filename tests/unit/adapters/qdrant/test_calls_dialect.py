from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.contract import Dialect
from vecsieve.adapters.qdrant.calls import QdrantDialect

DIALECT: Dialect = QdrantDialect()
# The server's own words for max_query_limit = 10 and a request for 50.
REFUSAL = (
    b'{"status":{"error":"Bad request: Limit exceeded 50 > 10 for \\"limit\\". '
    b'Help: Reduce the \\"limit\\" parameter to or below 10."},"time":0.0}'
)


def test_an_error_has_the_servers_own_shape() -> None:
    answer = DIALECT.error(502, 'no "upstream" größe')
    assert answer.status == 502
    assert answer.content_type == "application/json"
    assert answer.body == '{"status":{"error":"no \\"upstream\\" größe"},"time":0.0}'.encode()


@given(message=st.text())
def test_any_message_makes_a_json_body(message: str) -> None:
    # Invariant: the body is JSON whatever the message; text that is Unicode is given back unchanged.
    body = json.loads(DIALECT.error(400, message).body)
    assert body["time"] == 0.0
    assert body["status"]["error"] == message.encode(errors="replace").decode()


def test_the_limit_of_strict_mode_is_learned_from_its_refusal() -> None:
    assert DIALECT.refused_limit(400, REFUSAL) == 10


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (200, REFUSAL),
        (422, REFUSAL),
        (429, REFUSAL),
        (400, b""),
        (400, b"plain text"),
        (400, b'{"status":"error"}'),
        (400, b'{"status":{"error":"Bad request: Limit exceeded 50 > 10 for \\"search_max_batchsize\\"."}}'),
        (400, b'{"status":{"error":"Bad request: Limit exceeded 999 > 99999999999999999999 for \\"limit\\"."}}'),
        (400, b'{"status":{"error":"Wrong input: Vector dimension error"},"time":0.0}'),
        (400, b"[" * 100_000),
        (400, b'{"status":{"error":"\xff"}}'),
    ],
)
def test_other_errors_teach_nothing(status: int, body: bytes) -> None:
    assert DIALECT.refused_limit(status, body) is None


@given(body=st.binary(max_size=60))
def test_arbitrary_error_bodies_never_raise(body: bytes) -> None:
    # Invariant: an error body is evidence or it is nothing.
    assert DIALECT.refused_limit(400, body) is None


def test_a_vector_that_does_not_exist_is_recognised_by_the_servers_words() -> None:
    words = b'{"status":{"error":"Wrong input: Not existing vector name error: late"},"time":0.001}'
    assert DIALECT.names_unknown_vector(400, words)
    assert not DIALECT.names_unknown_vector(404, words)
    assert not DIALECT.names_unknown_vector(400, REFUSAL)
    assert not DIALECT.names_unknown_vector(400, b"Not existing vector name")
