"""Fields are found where they stand; damaged bytes are refused and never misread."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.wire.protobuf import (
    FIXED32,
    FIXED64,
    LENGTH,
    VARINT,
    encoded,
    fields,
    length_field,
    number_field,
    only,
    skipped,
    text,
    unsigned,
    value_at,
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
    ends = {0, *(each.end for each in fields(whole))}
    cut = data.draw(st.integers(0, len(whole)).filter(lambda place: place not in ends))
    with pytest.raises(ValueError, match="at byte"):
        fields(whole[:cut])


@given(st.binary(max_size=40))
def test_a_field_is_skipped_as_the_walk_passes_it(data: bytes) -> None:
    """Skipping gives the first field's number and its end, and refuses what the walk refuses of that field."""
    try:
        number, end = skipped(data, 0, len(data))
    except ValueError:
        with pytest.raises(ValueError, match="byte"):
            fields(data or b"\xff")
        return
    first, *others = fields(data[:end])
    assert (first.number, first.end, others) == (number, end, [])


@given(UNSIGNED)
def test_a_number_survives_its_encoding(value: int) -> None:
    """Reading what was written gives the same number and stands right behind it."""
    assert varint(encoded(value), 0, len(encoded(value))) == (value, len(encoded(value)))


def test_a_field_is_read_inside_its_span_alone() -> None:
    inner = number_field(1, 300)
    outer = length_field(2, inner) + number_field(3, 7)
    (nested, last) = fields(outer)
    assert [unsigned(outer, field) for field in fields(outer, nested.span)] == [300]
    assert unsigned(outer, last) == 7


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


def test_the_one_field_of_a_number_is_given_and_two_are_refused() -> None:
    data = number_field(4, 9) + length_field(5, "ü".encode())
    found = fields(data)
    assert only(found, 6, VARINT) is None
    field = only(found, 5, LENGTH)
    assert field is not None
    assert text(data, field) == "ü"
    with pytest.raises(ValueError, match="field 4: 2 of wire type 0"):
        only(fields(data + number_field(4, 1)), 4, VARINT)
    with pytest.raises(ValueError, match="field 5: 1 of wire type 2, wanted one of wire type 0"):
        only(found, 5, VARINT)


def test_text_that_is_no_utf8_is_refused() -> None:
    data = length_field(1, b"\xff")
    with pytest.raises(ValueError, match="utf-8"):
        text(data, fields(data)[0])


@given(
    data=st.binary(max_size=40)
    | st.recursive(
        st.binary(max_size=5),
        lambda within: st.lists(
            st.tuples(st.integers(1, 4), within).map(lambda pair: length_field(*pair)), max_size=3
        ).map(b"".join),
    ),
    way=st.lists(st.integers(1, 4), max_size=4),
)
def test_a_value_at_the_end_of_a_way_is_that_of_the_first_fields_on_it(data: bytes, way: list[int]) -> None:
    """Invariant: a value that is found is the one that walking every message finds; damaged bytes raise ValueError alone."""
    with contextlib.suppress(ValueError):
        found = value_at(data, way)
        span = 0, len(data)
        for number in way if found is not None else ():
            span = next(field.span for field in fields(data, span) if field.number == number)
        assert found in {None, span}


def test_a_value_is_found_behind_others_and_not_where_its_number_is_of_another_kind() -> None:
    data = number_field(3, 1) + length_field(4, length_field(2, b"x") + length_field(1, b"abc"))
    assert value_at(data, (4, 1)) == (len(data) - 3, len(data))
    assert value_at(data, (4, 3)) is value_at(data, (3,)) is value_at(number_field(4, 1) + data, (4,)) is None
    assert value_at(data, ()) == (0, len(data))
    with pytest.raises(ValueError, match="ends at"):
        value_at(data[:-1], (4, 1))
