"""Keys come from named variables; a variable that was named must be there."""

from __future__ import annotations

import pytest

from vecsieve.config.problems import SettingsError
from vecsieve.proxy.jobs.files import key_from


def test_without_a_name_the_usual_variable_is_read() -> None:
    assert key_from({"QDRANT_API_KEY": "k"}, None, usual="QDRANT_API_KEY") == "k"
    assert key_from({}, None, usual="QDRANT_API_KEY") is None
    assert key_from({"QDRANT_API_KEY": ""}, None, usual="QDRANT_API_KEY") is None


def test_a_named_variable_is_read_alone() -> None:
    assert key_from({"QDRANT_API_KEY": "k", "READER": "r"}, "READER", usual="QDRANT_API_KEY") == "r"


@pytest.mark.parametrize("environment", [{"QDRANT_API_KEY": "sesame"}, {"QDRANT_API_KEY": "sesame", "READER": ""}])
def test_a_named_variable_without_a_key_is_told_of(environment: dict[str, str]) -> None:
    with pytest.raises(
        SettingsError, match="--api-key-env: wanted a variable that holds a key; saw 'READER'"
    ) as caught:
        key_from(environment, "READER", usual="QDRANT_API_KEY")
    assert "sesame" not in str(caught.value)
