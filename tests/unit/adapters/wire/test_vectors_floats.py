from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.wire.protobuf import FIXED32, encoded, fields, length_field, number_field
from vecsieve.adapters.wire.vectors import matrix, packed_floats, row, unsigned_numbers

FLOATS = st.lists(st.floats(width=32), max_size=8)
INDICES = st.lists(st.integers(0, 2**32 - 1), max_size=8)


def packed(values: list[float]) -> bytes:
    return struct.pack(f"<{len(values)}f", *values)


def one_by_one(values: list[float]) -> bytes:
    return b"".join(encoded(2 << 3 | FIXED32) + struct.pack("<f", value) for value in values)


@given(FLOATS, FLOATS, FLOATS)
def test_floats_are_read_however_they_were_written(first: list[float], second: list[float], third: list[float]) -> None:
    """Packed, one by one and in several parts, with other fields between: the same numbers in the same order."""
    data = length_field(2, packed(first)) + number_field(1, 7) + one_by_one(second) + length_field(2, packed(third))
    assert packed_floats(data, fields(data), 2) == packed(first + second + third)


@given(INDICES, INDICES, INDICES)
def test_integers_are_read_however_they_were_written(first: list[int], second: list[int], third: list[int]) -> None:
    """Packed, one by one and in several parts: the same numbers in the same order."""
    parts = [b"".join(map(encoded, part)) for part in (first, third)]
    data = length_field(3, parts[0]) + b"".join(number_field(3, one) for one in second) + length_field(3, parts[1])
    assert unsigned_numbers(data, fields(data), 3).tolist() == first + second + third


def test_a_field_that_is_absent_is_no_numbers() -> None:
    assert packed_floats(b"", [], 1) == b""
    assert unsigned_numbers(b"", [], 1).shape == (0,)


@pytest.mark.parametrize("data", [number_field(1, 5), length_field(1, b"12345"), encoded(1 << 3 | 1) + b"12345678"])
def test_what_holds_no_floats_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="field 1 at byte 0 holds no floats"):
        packed_floats(data, fields(data), 1)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (encoded(1 << 3 | FIXED32) + b"1234", "holds no integers"),
        (length_field(1, b"\x80"), "no end of the number"),
        (number_field(1, 2**32), "more than 32 bits"),
    ],
)
def test_what_holds_no_integers_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        unsigned_numbers(data, fields(data), 1)


def test_a_row_is_the_numbers_of_its_bytes() -> None:
    assert row(packed([1.5, -2.0])).tolist() == [1.5, -2.0]
    assert row(packed([1.5])).dtype == np.float32
    assert row(b"").shape == (0,)


def test_rows_that_cannot_be_used_are_nan_and_the_others_stay() -> None:
    found = matrix([b"", packed([1.0, 2.0]), None, packed([1.0]), packed([3.0, np.nan]), packed([0.0, 4.0])])
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, [[np.nan] * 2, [1, 2], [np.nan] * 2, [np.nan] * 2, [np.nan] * 2, [0, 4]])


@pytest.mark.parametrize("rows", [[], [None], [b"", None, b""]])
def test_no_vector_at_all_is_a_matrix_without_columns(rows: list[bytes | None]) -> None:
    assert matrix(rows).shape == (len(rows), 0)


@given(st.lists(st.one_of(st.none(), FLOATS.map(packed)), max_size=6))
def test_every_row_is_its_own_numbers_or_nan(rows: list[bytes | None]) -> None:
    """A row is finite exactly where its numbers are, and as many as the first one's; then it is those numbers."""
    found = matrix(rows)
    width = next((len(each) // 4 for each in rows if each), 0)
    assert found.shape == (len(rows), width)
    for values, each in zip(found, rows, strict=True):
        own = np.zeros(0, np.float32) if each is None else row(each)
        usable = len(own) == width and bool(np.isfinite(own).all())
        np.testing.assert_array_equal(values, own if usable else np.full(width, np.nan))
