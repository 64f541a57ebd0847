"""Fields are found where they stand; damaged bytes are refused and never misread."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.grpc.wire_fields import number_field
from vecsieve.adapters.wire.protobuf import (
    FIXED32,
    FIXED64,
    LENGTH,
    VARINT,
    encoded,
    fields,
    length_field,
    text_at,
    varint,
)

NUMBERS = st.integers(1, 2**29 - 1)
UNSIGNED = st.integers(0, 2**64 - 1)
PIECES = st.one_of(
    st.tuples(NUMBERS, st.just(VARINT), UNSIGNED.map(encoded)),
    st.tuples(NUMBERS, st.just(FIXED64), st.binary(min_size=8, max_size=8)),
    st.tuples(NUMBERS, st.just(LENGTH), st.binary(max_size=300)),
    st.tuples(NUMBERS, st.just(FIXED32), st.binary(min_size=4, max_size=4)),
)


def written(pieces: list[tuple[int, int, bytes]]) -> bytes:
    return b"".join(
        encoded(number << 3 | wire) + (encoded(len(value)) if wire == LENGTH else b"") + value
        for number, wire, value in pieces
    )


@given(st.lists(PIECES, max_size=20))
def test_every_field_that_was_written_is_found(pieces: list[tuple[int, int, bytes]]) -> None:
    """Walking a message gives back its fields, in order, and together they are all of its bytes."""
    data = written(pieces)
    found = fields(data)
    assert [(each.number, each.wire, data[each.value : each.end]) for each in found] == pieces
    assert b"".join(data[each.start : each.end] for each in found) == data


@given(st.binary(max_size=200))
def test_any_bytes_are_fields_or_refused(data: bytes) -> None:
    """Whatever the bytes, the walk ends with fields that cover them all, or with ValueError."""
    try:
        found = fields(data)
    except ValueError:
        return
    assert b"".join(data[each.start : each.end] for each in found) == data


@given(st.lists(PIECES, min_size=1, max_size=5), st.data())
def test_a_message_cut_within_a_field_is_refused(pieces: list[tuple[int, int, bytes]], data: st.DataObject) -> None:
    """A message that ends inside one of its fields is ValueError, never a shorter message."""
    whole = written(pieces)
    ends = {0, *(field.end for field in fields(whole))}
    cut = data.draw(st.integers(0, len(whole)).filter(lambda place: place not in ends))
    with pytest.raises(ValueError, match="at byte"):
        fields(whole[:cut])


@given(UNSIGNED)
def test_a_number_survives_its_encoding(value: int) -> None:
    """Reading what was written gives the same number and stands right behind it."""
    assert varint(encoded(value), 0, len(encoded(value))) == (value, len(encoded(value)))


def test_a_field_is_read_inside_its_span_alone() -> None:
    inner = number_field(1, 300)
    outer = length_field(2, inner) + number_field(3, 7)
    (nested, last) = fields(outer)
    assert [field.number for field in fields(outer, nested.span)] == [1]
    assert (last.number, outer[last.value : last.end]) == (3, b"\x07")


def test_a_length_beyond_its_message_is_refused_although_the_data_goes_on() -> None:
    data = length_field(1, b"abcdef") + b"behind"
    with pytest.raises(ValueError, match="its message at 5"):
        fields(data, (0, 5))


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"\x0b\x0c", "wire type 3 at byte 0"),
        (b"\x00\x01", "field 0 at byte 0"),
        (b"\x08" + b"\xff" * 10, "no end of the number at byte 1"),
        (b"\xff" * 11, "no end of the number at byte 0"),
    ],
)
def test_what_is_no_message_says_where(data: bytes, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        fields(data)


@given(st.binary(max_size=40), st.lists(st.integers(1, 4), min_size=1, max_size=3))
def test_any_bytes_have_a_text_or_none(data: bytes, way: list[int]) -> None:
    """Nothing is raised, and a text that is found stands in the bytes."""
    assert text_at(data, *way).encode() in data


def test_a_text_is_that_of_the_only_field_in_the_first_messages_on_its_way() -> None:
    inner = length_field(2, b"x") + length_field(1, "ü".encode())
    data = number_field(3, 1) + length_field(4, inner) + length_field(4, length_field(1, b"second"))
    assert text_at(data, 4, 1) == "ü"
    assert text_at(data, 4, 3) == text_at(data, 3) == text_at(data, 7) == text_at(data[:-1], 4, 1) == ""
    assert text_at(length_field(1, b"a") * 2, 1) == text_at(length_field(1, b"\xff"), 1) == ""
