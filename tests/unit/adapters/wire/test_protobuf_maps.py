from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.wire.protobuf import (
    LENGTH,
    entries,
    fields,
    length_field,
    messages_in,
    number_field,
)

BYTES = st.binary(max_size=200)


def read(inside: bytes) -> tuple[bytes, bytes]:
    data = number_field(1, 1) + length_field(5, inside)
    ((key, (start, end)),) = entries(data, spans_of(data, 5))
    return key, data[start:end]


@given(key=BYTES, value=BYTES, more=st.sampled_from([b"", number_field(3, 1)]))
def test_an_entry_is_its_key_and_value_in_any_order(key: bytes, value: bytes, more: bytes) -> None:
    """Both are found, whichever comes first and whatever stands beside them."""
    first, second = length_field(1, key), length_field(2, value)
    assert read(first + second + more) == read(more + second + first) == (key, value)


def test_an_absent_key_or_value_is_empty() -> None:
    assert read(b"") == (b"", b"")
    assert read(length_field(1, b"a")) == (b"a", b"")
    assert read(length_field(2, b"a")) == (b"", b"a")


def test_what_is_no_entry_is_refused() -> None:
    with pytest.raises(ValueError, match="field 2: 2 of"):
        read(length_field(2, b"") * 2)
    with pytest.raises(ValueError, match="no end"):
        read(b"\x80")


@given(data=st.binary(max_size=40))
def test_an_entry_is_read_alike_on_both_ways(data: bytes) -> None:
    """The quick way gives what walking the entry gives: a harmless field more in front forces the walk."""
    try:
        ((found, (start, end)),) = entries(data, [(0, len(data))])
    except ValueError:
        return
    walked = number_field(3, 0) + data
    ((key, (first, last)),) = entries(walked, [(0, len(walked))])
    assert (key, walked[first:last]) == (found, data[start:end])


def test_of_several_entries_each_is_read_and_other_fields_are_left_out() -> None:
    first, second = (length_field(1, key) + length_field(2, b"v") for key in (b"a", b"b"))
    data = length_field(5, first) + number_field(6, 1) + length_field(5, second)
    spans = spans_of(data, 5)
    assert [key for key, _ in entries(data, spans)] == [b"a", b"b"]


PIECES = st.one_of(
    st.builds(length_field, st.sampled_from([1, 5, 16]), BYTES),
    st.builds(number_field, st.sampled_from([1, 5, 16]), st.integers(0, 2**40)),
)


CUTS = st.sampled_from([b"", b"\x0a", b"\x0a\x05a", b"\x08", b"\x2a\xff", b"\x2d1234", b"\x29", b"\x00", b"\x0b"])


def spans_of(data: bytes, number: int) -> list[tuple[int, int]]:
    """As the walk finds them."""
    found = [field for field in fields(data) if field.number == number]
    if any(field.wire != LENGTH for field in found):
        raise ValueError("of another wire type")
    return [field.span for field in found]


@given(pieces=st.lists(PIECES, max_size=6), cut=CUTS, number=st.sampled_from([1, 5]))
def test_messages_are_found_as_the_walk_finds_them(pieces: list[bytes], cut: bytes, number: int) -> None:
    """Both ways give the same spans, or both refuse."""
    data = b"".join(pieces) + cut
    try:
        walked = spans_of(data, number)
    except ValueError:
        with pytest.raises(ValueError, match="byte"):
            messages_in(data, (0, len(data)), number)
        return
    assert messages_in(data, (0, len(data)), number) == walked


def test_a_tag_that_is_written_longer_than_it_need_be_is_refused() -> None:
    data = b"\x8a\x00\x01a"
    assert spans_of(data, 1) == [(3, 4)]
    with pytest.raises(ValueError, match="of a longer tag"):
        messages_in(data, (0, len(data)), 1)
