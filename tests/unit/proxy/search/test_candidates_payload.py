from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.search.candidates import (
    COLUMNS_BYTES,
    NUMBER_BYTES,
    OBJECT_BYTES,
    STRING_BYTES,
    Columns,
    is_filled,
    name,
    number,
    position,
    string,
)

OBJECT = b'{"b":{"c":1.0,"d":null},"e":"x"}'


def test_a_key_gives_its_column_as_it_came() -> None:
    assert Columns(("a", "b"), [(b"1", None), (b"2", b"3")]).present(("b", "a")) == [(None, b"3"), (b"1", b"2")]


def test_a_dotted_path_reaches_into_objects_and_keeps_their_bytes() -> None:
    columns = Columns(("a",), [(OBJECT,), (b'"no object"',), (None,), (b"{}",), (b'{"b":[]}',)])
    assert columns.present(("a.b.c",)) == [(b"1.0", None, None, None, None)]
    assert columns.present(("a.e", "a.b")) == [
        (b'"x"', None, None, None, None),
        (b'{"c":1.0,"d":null}', None, None, None, b"[]"),
    ]


def test_a_column_of_nothing_and_of_nulls_is_not_present() -> None:
    columns = Columns(("a", "b", "c"), [(OBJECT, None, b"null"), (None, None, None)])
    assert columns.present(("b", "c", "a.b.d", "a.x", "a.x.y", "unknown", "", "a.", ".a", "a..b")) == []


def test_a_key_that_has_a_dot_itself_is_found_before_the_path() -> None:
    assert Columns(("a", "a.e"), [(OBJECT, b"7")]).present(("a.e",)) == [(b"7",)]


def test_an_object_that_cannot_be_read_has_no_members() -> None:
    deep = b'{"e":' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    rows = [(b'{"e":1,"f":"\\ud800"}',), (b'{"e":1',), (deep,), (b'{"e":1}',), (b'{"e":1,"\xff":1}',)]
    assert Columns(("a",), rows).present(("a.e",)) == [(None, None, None, b"1", b"1")]


def test_of_a_repeated_key_the_last_value_counts_whatever_the_key_is_called() -> None:
    columns = Columns(("a",), [(b'{"b":1,"b":2,"\\"":3,"\\"":4,"\\u0063":5}',)])
    assert columns.present(("a.b", 'a."', "a.c")) == [(b"2",), (b"4",), (b"5",)]


def test_a_large_object_is_not_looked_into() -> None:
    large = b'{"e":1,"f":"' + b"x" * OBJECT_BYTES + b'"}'
    assert Columns(("a",), [(large,), (b'{"e":1}',)]).present(("a.e",)) == [(None, b"1")]


def test_of_many_objects_the_best_ranked_are_looked_into() -> None:
    half = b'{"e":1,"f":"' + b"x" * (OBJECT_BYTES // 2) + b'"}'
    count = COLUMNS_BYTES // len(half)
    (column,) = Columns(("a",), [(half,)] * (2 * count)).present(("a.e",))
    assert column == (b"1",) * count + (None,) * count


def test_an_empty_pool_has_no_columns() -> None:
    columns = Columns(("a",), [])
    assert (columns.size, columns.present(("a", "a.b"))) == (0, [])


NESTED = st.recursive(
    st.none() | st.integers() | st.text(max_size=3),
    lambda inner: st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=5,
)


@given(st.lists(NESTED, min_size=1, max_size=5), st.lists(st.sampled_from("ab"), min_size=1, max_size=3))
def test_a_path_means_what_it_means_in_python(values: list[Any], keys: list[str]) -> None:
    """Invariant: a path finds per candidate what indexing with its keys finds, and nothing where that fails."""

    def indexed(value: Any) -> Any:
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value

    columns = Columns(("p",), [(json.dumps(value).encode(),) for value in values]).present((".".join(["p", *keys]),))
    expected = [indexed(value) for value in values]
    assert columns == [] if expected.count(None) == len(expected) else True
    for column in columns:
        assert [None if raw is None else json.loads(raw) for raw in column] == expected


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
    value, text = number(raw), string(raw)
    assert value is None or (math.isfinite(value) and text is None)
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
