from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.proto_maps import entry
from vecsieve.adapters.proto_wire import fields, length_field, number_field

BYTES = st.binary(max_size=200)


def read(inside: bytes) -> tuple[bytes, bytes]:
    data = number_field(1, 1) + length_field(5, inside)
    key, (start, end) = entry(data, fields(data)[1])
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
    data = number_field(5, 1)
    with pytest.raises(ValueError, match="wire type 0"):
        entry(data, fields(data)[0])
    with pytest.raises(ValueError, match="field 2: 2 of"):
        read(length_field(2, b"") * 2)
    with pytest.raises(ValueError, match="no end"):
        read(b"\x80")


@given(data=st.binary(max_size=40))
def test_an_entry_is_read_alike_on_both_ways(data: bytes) -> None:
    """The quick way gives what walking the entry gives: a harmless field more in front forces the walk."""
    try:
        found = entry(framed := length_field(1, data), fields(framed)[0])
    except ValueError:
        return
    walked = length_field(1, number_field(3, 0) + data)
    key, (start, end) = entry(walked, fields(walked)[0])
    assert (key, walked[start:end]) == (found[0], framed[found[1][0] : found[1][1]])
