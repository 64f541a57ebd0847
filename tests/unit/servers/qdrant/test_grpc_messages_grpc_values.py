"""Ids and payloads in messages."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers.qdrant.grpc_messages import (
    messages,
    read_id,
    read_payload,
    read_value,
    write_id,
    write_payload,
    write_value,
)

from vecsieve.proxy.demo.embedded.errors import RefusalError

TEXTS = st.text(st.characters(codec="utf-8"), max_size=6)
LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXTS
)
JSON = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3))


@given(st.dictionaries(TEXTS, JSON, max_size=4))
def test_a_payload_comes_back_as_it_was_written(payload: dict[str, Any]) -> None:
    """Every JSON object whose numbers a Value has is the same after the wire, in values and in their types."""
    point = messages().RetrievedPoint()
    write_payload(point.payload, payload)
    read = read_payload(messages().RetrievedPoint.FromString(point.SerializeToString()).payload)
    assert read == payload
    assert _types(read) == _types(payload)


def _types(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _types(item) for name, item in value.items()}
    return [_types(item) for item in value] if isinstance(value, list) else type(value)


def test_a_number_past_the_signed_ones_becomes_a_double_as_in_the_server() -> None:
    value = messages().Value()
    write_value(value, 2**63 + 5)
    assert value.double_value == 2.0**63
    write_value(value, -(2**63))
    assert value.integer_value == -(2**63)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_number_json_does_not_have_is_refused(number: float) -> None:
    with pytest.raises(RefusalError, match="cannot convert to json number"):
        read_value(messages().Value(double_value=number))


def test_a_value_that_says_nothing_is_null() -> None:
    assert read_value(messages().Value()) is None
    assert read_value(messages().Value(null_value=0)) is None


@pytest.mark.parametrize("identifier", [0, 7, 2**64 - 1, "6f2e9a34-0000-4000-8000-000000000000"])
def test_an_id_comes_back_as_it_was_written(identifier: int | str) -> None:
    point = messages().PointId()
    write_id(point, identifier)
    assert read_id(point) == identifier
    assert point.WhichOneof("point_id_options") == ("num" if isinstance(identifier, int) else "uuid")


def test_an_id_of_neither_kind_is_refused() -> None:
    with pytest.raises(RefusalError, match="No ID options provided"):
        read_id(messages().PointId())
