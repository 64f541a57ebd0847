from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.contract import Reason, UnsupportedError
from vecsieve.adapters.wire.protobuf import (
    Found,
    Shape,
    length_field,
    message,
    messages,
    number_field,
    number_of,
    read,
    text_of,
)

SHAPE = Shape(frozenset({1, 2}), frozenset({3}))
CHOICE = Shape(frozenset({1, 2}), is_choice=True)


def found_in(data: bytes, shape: Shape = SHAPE) -> Found:
    return read(data, (0, len(data)), shape)


def refusal(data: bytes, shape: Shape = SHAPE) -> Reason:
    with pytest.raises(UnsupportedError) as refused:
        found_in(data, shape)
    return refused.value.reason


def test_fields_are_found_by_number() -> None:
    data = number_field(1, 300) + length_field(3, b"a") + length_field(2, b"text") + length_field(3, b"b")
    found = found_in(data)
    assert number_of(data, found, 1) == 300
    assert text_of(data, message(found, 2)) == "text"
    assert [data[field.value : field.end] for field in messages(found, 3)] == [b"a", b"b"]


def test_what_is_absent_is_none_or_nothing() -> None:
    found = found_in(b"")
    assert number_of(b"", found, 1) is None
    assert message(found, 2) is None
    assert messages(found, 3) == []
    assert text_of(b"", None) == ""


def test_a_field_that_nobody_knows_leaves_the_search_alone() -> None:
    assert refusal(number_field(4, 1)) is Reason.UNSUPPORTED_FIELD
    assert refusal(number_field(3, 1), CHOICE) is Reason.UNSUPPORTED_FIELD


def test_a_single_field_that_stands_twice_is_ambiguous() -> None:
    assert refusal(number_field(1, 1) * 2) is Reason.AMBIGUOUS_FIELD
    assert refusal(number_field(1, 1) + number_field(2, 1), CHOICE) is Reason.AMBIGUOUS_FIELD


@pytest.mark.parametrize("data", [b"\xff", b"\x0a\x09", b"\x0b", b"\x00\x00"])
def test_bytes_that_are_no_message_hold_nothing_known(data: bytes) -> None:
    assert refusal(data) is Reason.UNSUPPORTED_FIELD


def test_a_field_of_another_wire_type_is_refused() -> None:
    data = length_field(1, b"a") + number_field(2, 1) + number_field(3, 1) + b""
    found = found_in(data)
    for reading in (lambda: number_of(data, found, 1), lambda: message(found, 2), lambda: messages(found, 3)):
        with pytest.raises(UnsupportedError, match="unsupported_field"):
            reading()


def test_a_text_that_is_no_unicode_is_refused() -> None:
    data = length_field(2, b"\xff")
    with pytest.raises(UnsupportedError, match="unsupported_field"):
        text_of(data, message(found_in(data), 2))


@given(data=st.binary(max_size=40))
def test_arbitrary_bytes_are_read_or_unsupported(data: bytes) -> None:
    """Nothing but UnsupportedError is ever raised, and what is found is known."""
    try:
        found = found_in(data)
    except UnsupportedError:
        return
    assert found.keys() <= {1, 2, 3}
