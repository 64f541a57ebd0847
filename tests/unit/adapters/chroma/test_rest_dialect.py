from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.chroma.rest import ChromaDialect

DIALECT = ChromaDialect()
QUOTA = "Quota exceeded: '{}' exceeded quota limit for action '{}': current usage of 500 exceeds limit of 300{}"


def refusal(usage: str = "Number of results", action: str = "Query", behind: str = "") -> bytes:
    return json.dumps({"error": "ChromaError", "message": QUOTA.format(usage, action, behind)}).encode()


@pytest.mark.parametrize(
    ("status", "name"),
    [
        (400, "InvalidArgumentError"),
        (401, "AuthorizationError"),
        (404, "NotFoundError"),
        (429, "RateLimitError"),
        (500, "InternalError"),
        (502, "ChromaError"),
        (503, "ChromaError"),
    ],
)
def test_an_error_has_the_servers_shape_and_a_name_that_clients_know(status: int, name: str) -> None:
    answer = DIALECT.error(status, 'a "ß"\n')
    assert json.loads(answer.body) == {"error": name, "message": 'a "ß"\n'}
    assert (answer.status, answer.content_type) == (status, "application/json")


def test_the_quota_on_results_names_the_largest_limit() -> None:
    assert DIALECT.refused_limit(422, refusal()) == 300
    assert DIALECT.refused_limit(422, refusal(behind=". Request an increase")) == 300


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, refusal()),
        (422, refusal(usage="Number of query embeddings")),
        (422, refusal(action="Get")),
        (422, b'{"error":"ChromaError"}'),
        (422, b'{"message":5}'),
        (422, b'[{"detail":"x"}]'),
        (422, b"\xff"),
        (422, b""),
    ],
)
def test_other_refusals_say_nothing_about_the_limit(status: int, body: bytes) -> None:
    assert DIALECT.refused_limit(status, body) is None


@given(status=st.integers(100, 599), body=st.binary(max_size=80))
def test_any_answer_can_be_looked_at(status: int, body: bytes) -> None:
    """Invariant: reading a refusal never raises."""
    assert DIALECT.refused_limit(status, body) is None
    assert not DIALECT.names_unknown_vector(status, body)
