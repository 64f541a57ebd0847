from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.search.candidates import NUMBER_BYTES, STRING_BYTES, is_filled, name, number, position, string


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'"a"', "a"),
        (b'" a "', " a "),
        (b'"\\u00e9"', "é"),
        (b'""', None),
        (b'" \\t\\n"', None),
        (b'"\\ud800"', None),
        (b'"open', None),
        (b"12", None),
        (b"", None),
        (b'{"a":1}', None),
    ],
)
def test_a_string_is_one_that_is_not_blank(raw: bytes, expected: str | None) -> None:
    assert string(raw) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'"a"', "a"),
        (b"18446744073709551616", "18446744073709551616"),
        (b"1.50", "1.50"),
        (b"true", "true"),
        (b"false", "false"),
        (b"null", None),
        (b"[1]", None),
        (b"{}", None),
        (b"-", None),
        (b'""', None),
    ],
)
def test_a_name_is_a_string_or_the_text_of_a_number_or_a_boolean(raw: bytes, expected: str | None) -> None:
    assert name(raw) == expected


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"0", 0.0),
        (b"-1.5e3", -1500.0),
        (b"18446744073709551616", 18446744073709551616.0),
        (b"1e999", None),
        (b"true", None),
        (b'"1"', None),
        (b"1_0", None),
        (b"-inf", None),
        (b"", None),
    ],
)
def test_a_number_is_a_finite_json_number(raw: bytes, expected: float | None) -> None:
    assert number(raw) == expected


def test_a_position_is_a_number_from_zero_that_can_be_counted_to() -> None:
    assert [position(raw) for raw in (b"0", b"12.5", b"9007199254740992")] == [0.0, 12.5, 2.0**53]
    assert [position(raw) for raw in (b"-1", b"1e300", b"9007199254740994", b'"1"', b"")] == [None] * 5


@pytest.mark.parametrize("raw", [b"null", b"false", b'""', b'"  "', b"[]", b"{}"])
def test_what_is_empty_is_not_filled(raw: bytes) -> None:
    assert not is_filled(raw)


@pytest.mark.parametrize("raw", [b"0", b"true", b'"x"', b"[0]", b'{"a":null}'])
def test_what_holds_something_is_filled(raw: bytes) -> None:
    assert is_filled(raw)


@given(st.binary(max_size=24) | st.sampled_from([b'"\xff"', b"9" * 5000, b"1e-999"]))
def test_any_bytes_are_read_or_unknown(raw: bytes) -> None:
    """Invariant: nothing raises; a number is finite, a string is not blank, and no bytes are both."""
    found, text = number(raw), string(raw)
    assert found is None or (math.isfinite(found) and text is None)
    assert text is None or text.strip()
    assert is_filled(raw) in {True, False}


def test_what_is_too_long_says_nothing() -> None:
    assert string(b'"' + b"a" * (STRING_BYTES - 2) + b'"') is not None
    assert string(b'"' + b"a" * (STRING_BYTES - 1) + b'"') is None
    assert name(b'"' + b"a" * STRING_BYTES + b'"') is None
    assert number(b"0." + b"1" * (NUMBER_BYTES - 2)) is not None
    assert number(b"0." + b"1" * (NUMBER_BYTES - 1)) is None
    assert name(b"1" * 100_000) is None


def test_a_long_string_is_filled_whatever_it_says() -> None:
    assert is_filled(b'"' + b" " * STRING_BYTES + b'"')
    assert not is_filled(b'"' + b" " * (STRING_BYTES - 2) + b'"')
