from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.wire.protobuf import fields, length_field, number_field, single


def test_what_the_one_field_holds_begins_behind_its_tag_and_length() -> None:
    assert single(b"xx" + length_field(2, b"abc"), (2, 7)) == (0x12, 4)
    assert single(number_field(3, 300), (0, 3)) == (0x18, 1)
    assert single(b"\x11" + b"12345678", (0, 9)) == (0x11, 1)
    assert single(length_field(2, b"a" * 200), (0, 203)) == (0x12, 3)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        number_field(1, 1) * 2,
        length_field(1, b"a") + b"\x08",
        length_field(1, b"ab")[:-1],
        b"\x11" + b"1234567",
        b"\x13",  # a group
        length_field(16, b"a"),
    ],
)
def test_anything_but_one_field_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="wanted one field"):
        single(data, (0, len(data)))


@given(data=st.binary(max_size=40))
def test_one_field_is_what_walking_finds(data: bytes) -> None:
    """Where a field is given, walking the message finds that one and no other."""
    try:
        tag, at = single(data, (0, len(data)))
    except ValueError:
        return
    if tag >> 3:  # the walk refuses the number 0, which no schema of ours has
        (found,) = fields(data)
        assert (found.number << 3 | found.wire, found.value, found.end) == (tag, at, len(data))
