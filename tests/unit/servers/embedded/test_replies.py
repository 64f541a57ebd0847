"""Points as they go out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers.embedded import collections, points
from servers.embedded.engine import edge
from servers.embedded.fields import RefusalError
from servers.embedded.replies import dumps, read_payload_selector, record, scored, shown_vector

from support.qdrant.core import core


@dataclass(frozen=True, slots=True)
class Found:
    """A point as the engine returns it."""

    id: int | UUID = 1
    version: int = 2
    score: float = 0.5
    payload: dict[str, object] | None = None
    vector: object = None
    order_value: float | None = None


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=8))
def test_a_float32_survives_its_own_shortest_digits(values: list[float]) -> None:
    """Reading the printed digits as float32 gives the same float32, and no shorter text of numpy's does."""
    printed = dumps(shown_vector(values)).decode()
    texts = printed.strip("[]").split(",") if values else []
    assert [np.float32(text) for text in texts] == [np.float32(value) for value in values]
    for text, value in zip(texts, values, strict=True):
        shortest = np.format_float_scientific(np.float32(value), unique=True).replace(".", "").split("e")[0].strip("-0")
        digits = text.replace(".", "").replace("-", "").split("e")[0].strip("0")
        assert len(digits) <= max(len(shortest), 1)


@pytest.mark.parametrize(
    ("value", "printed"),
    [
        (1e-7, b"1e-7"),
        (1.0, b"1.0"),
        (0.1, b"0.1"),
        (-0.0, b"-0.0"),
        (16777216.0, b"16777216.0"),
        (0.98058069, b"0.9805807"),
    ],
)
def test_known_floats_print_as_the_server_prints_them(value: float, printed: bytes) -> None:
    assert dumps(np.float32(value)) == printed


def test_fields_keep_the_servers_order_and_absent_ones_stay_away() -> None:
    full = Found(payload={"z": 1, "a": 2}, vector=[1.0], order_value=3)
    assert dumps(scored(full)) == (
        b'{"id":1,"version":2,"score":0.5,"payload":{"z":1,"a":2},"vector":[1.0],"order_value":3}'
    )
    assert dumps(record(full)) == b'{"id":1,"payload":{"z":1,"a":2},"vector":[1.0],"order_value":3}'
    assert dumps(scored(Found())) == b'{"id":1,"version":2,"score":0.5}'
    assert dumps(scored(full, with_vector=False)).endswith(b'"payload":{"z":1,"a":2},"order_value":3}')


def test_empty_is_not_absent() -> None:
    assert dumps(record(Found(payload={}, vector={}))) == b'{"id":1,"payload":{},"vector":{}}'


def test_every_shape_of_vector_is_shown() -> None:
    vectors = {"": [0.5], "rows": [[1.0, 2.0], [3.0, 4.0]], "sp": edge().SparseVector([3], [0.25])}
    assert json.loads(dumps(shown_vector(vectors))) == {
        "": [0.5],
        "rows": [[1.0, 2.0], [3.0, 4.0]],
        "sp": {"indices": [3], "values": [0.25]},
    }


def test_a_uuid_is_shown_in_its_canonical_spelling() -> None:
    assert dumps(record(Found(id=UUID(int=5)))) == b'{"id":"00000000-0000-0000-0000-000000000005"}'


@pytest.mark.parametrize("selector", [{"include": [""]}, {"exclude": ["a[b"]}, [""]])
def test_a_payload_key_that_is_no_path_is_refused(selector: Any) -> None:
    with core() as running:
        running.call(collections.create, {"vectors": {"size": 2, "distance": "Dot"}})
        with pytest.raises(RefusalError) as caught:
            running.call(points.retrieve, {"ids": [1], "with_payload": selector})
    assert caught.value.status == 400


def test_absent_is_the_default_and_false_is_not() -> None:
    assert read_payload_selector(None, default=True) is True
    assert read_payload_selector(False, default=True) is False
    assert read_payload_selector(["a"], default=False) == ["a"]
