"""What of a point goes back."""

from __future__ import annotations

from typing import Any

import pytest

from support.embedded_core import core
from vecsieve.proxy.demo.embedded import collections, points
from vecsieve.proxy.demo.embedded.errors import Refusal
from vecsieve.proxy.demo.embedded.replies import read_payload_selector


@pytest.mark.parametrize("selector", [{"include": [""]}, {"exclude": ["a[b"]}, [""]])
def test_a_payload_key_that_is_no_path_is_refused(selector: Any) -> None:
    with core() as running:
        running.call(collections.create, {"vectors": {"size": 2, "distance": "Dot"}})
        with pytest.raises(Refusal) as caught:
            running.call(points.retrieve, {"ids": [1], "with_payload": selector})
    assert caught.value.status == 400


def test_absent_is_the_default_and_false_is_not() -> None:
    assert read_payload_selector(None, default=True) is True
    assert read_payload_selector(False, default=True) is False
    assert read_payload_selector(["a"], default=False) == ["a"]
