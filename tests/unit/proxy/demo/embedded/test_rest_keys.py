"""The API key in headers and in metadata."""

from __future__ import annotations

import pytest

from vecsieve.proxy.demo.embedded.rest import refused_key


@pytest.mark.parametrize(
    "headers", [{"api-key": "k"}, {"authorization": "Bearer k"}, {"authorization": "bearer k", "api-key": ""}]
)
def test_the_key_opens_wherever_it_stands(headers: dict[str, str]) -> None:
    assert refused_key(headers, "k") is None


def test_without_a_key_to_ask_for_nothing_is_refused() -> None:
    assert refused_key({}, None) is None
    assert refused_key({"api-key": "any"}, None) is None


@pytest.mark.parametrize("headers", [{}, {"api-key": ""}, {"authorization": "Basic k"}])
def test_a_missing_key_is_told_apart_from_a_wrong_one(headers: dict[str, str]) -> None:
    assert refused_key(headers, "k") == "Must provide an API key or an Authorization bearer token"
    assert refused_key({"api-key": "ö"}, "k") == "Invalid API key or JWT"
