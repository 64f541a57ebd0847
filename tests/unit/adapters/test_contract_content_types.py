from __future__ import annotations

import pytest

from vecsieve.adapters.contract import may_be_json


@pytest.mark.parametrize(
    "content_type", ["", ";", "application/json", " Application/JSON ; charset=utf-8", "application/vnd.api+json"]
)
def test_json_and_unstated_content_types_may_hold_json(content_type: str) -> None:
    assert may_be_json(content_type)


@pytest.mark.parametrize("content_type", ["text/plain", "application/jsonx", "application/x-ndjson", "json", "a+json"])
def test_other_content_types_may_not(content_type: str) -> None:
    assert not may_be_json(content_type)
