from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.exchanges.hostile_bodies import MOST, VALUES
from vecsieve.adapters.contract import Bounds, Reason, UnsupportedError
from vecsieve.adapters.wire.json import (
    DIMENSIONS,
    NUMBERS,
    REPLY_BYTES,
    REPLY_PARTS,
    REPLY_SURROGATES,
    check_dimensions,
    check_reply,
    check_size,
)

BOUNDS = Bounds(searches=128, parts=16_384, nesting=4)

# Values of few parts: their size alone costs no more than a pass.
LONG = {
    "blanks",
    "blanks in a list",
    "digits",
    "digits in a list",
    "digits behind a point",
    "a text",
    "a text of escapes",
    "a text of surrogates",
    "a vector of ordinary numbers",
    "nested prefetches of filters",
}


def small(parts: int) -> Bounds:
    return Bounds(searches=1, parts=parts, nesting=1)


def refusal(body: bytes, bounds: Bounds = BOUNDS) -> Reason | None:
    try:
        check_size(body, bounds)
    except UnsupportedError as refused:
        return refused.reason
    return None


@pytest.mark.parametrize("what", VALUES)
def test_a_body_that_is_costly_to_read_has_too_many_parts(what: str) -> None:
    assert refusal(b'{"query":%s}' % VALUES[what]()) is (None if what in LONG else Reason.TOO_MANY_PARTS)


def test_the_numbers_of_vectors_are_no_parts() -> None:
    vector = b"[" + b", ".join([b"-0.12345e-7"] * 1536) + b"]"
    assert refusal(b'{"searches":[' + b",".join([b'{"vector":' + vector + b"}"] * 128) + b"]}") is None
    assert refusal(b'{"vector":' + vector + b"}", small(5)) is None


def test_so_many_numbers_are_not_read_in_any_case() -> None:
    assert refusal(b"[" + b"1," * (NUMBERS - 1) + b"1]") is None
    assert refusal(b"[" + b"1," * (NUMBERS + 1) + b"1]") is Reason.TOO_MANY_PARTS


@pytest.mark.parametrize("body", [b'["a","b","c"]', b"[{},{},{}]", b'{"a":1,"b":1,"c":1}', b'["a",1,1,1,1]'])
def test_parts_are_counted_up_to_the_bound(body: bytes) -> None:
    assert refusal(body, small(6)) is None
    assert refusal(body, small(4)) is Reason.TOO_MANY_PARTS


def test_a_vector_of_more_numbers_than_any_database_takes_is_not_read() -> None:
    most = b"[" + b"1," * (DIMENSIONS - 1) + b"1]"
    check_dimensions(most, 0, len(most))
    with pytest.raises(UnsupportedError) as refused:
        check_dimensions(b"[1," + most[1:], 0, len(most) + 2)
    assert refused.value.reason is Reason.TOO_MANY_PARTS


@pytest.mark.parametrize("what", ["digits in a list", "digits behind a point", "blanks in a list"])
def test_numbers_that_fill_lines_are_not_read(what: str) -> None:
    vector = VALUES[what]()
    with pytest.raises(UnsupportedError) as refused:
        check_dimensions(vector, 0, len(vector))
    assert refused.value.reason is Reason.TOO_MANY_PARTS


def test_a_long_vector_may_be_written_number_by_line() -> None:
    vector = b"[" + b",".join([b"\n            -0.012345678901234567"] * 8192) + b"\n]"
    check_dimensions(vector, 0, len(vector))


def parts_of(value: Any) -> int:
    """Strings, objects and lists of others than numbers, and what stands in them."""
    if isinstance(value, dict):
        return 1 + sum(1 + parts_of(inner) for inner in value.values())
    if isinstance(value, list):
        is_vector = all(isinstance(inner, int | float) and not isinstance(inner, bool) for inner in value)
        return 1 + (0 if is_vector else sum(max(parts_of(inner), 1) for inner in value[:-1]) + parts_of(value[-1]))
    return int(isinstance(value, str))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=3), inner, max_size=5),
    max_leaves=40,
)


@given(value=JSON, bound=st.integers(0, 60))
def test_what_is_let_through_has_no_more_parts_than_allowed(value: Any, bound: int) -> None:
    """A document of more parts than the bound is refused: a count is never too low."""
    if parts_of(value) > bound:
        assert refusal(json.dumps(value).encode(), small(bound)) is Reason.TOO_MANY_PARTS


@given(body=st.binary(max_size=300), bound=st.integers(0, 300))
def test_the_count_is_total(body: bytes, bound: int) -> None:
    """Whatever the bytes, they are let through or refused for their parts; what is no longer than the bound is let through."""
    assert refusal(body, small(bound)) in {None, Reason.TOO_MANY_PARTS}
    assert refusal(body, small(len(body))) is None


def test_every_hostile_body_is_as_large_as_bodies_are_read() -> None:
    assert all(MOST // 2 < len(made()) <= MOST for what, made in VALUES.items() if what != "a sparse vector")


@pytest.mark.parametrize(
    ("most", "more"),
    [
        (b"x" * REPLY_BYTES, b"x" * (REPLY_BYTES + 1)),
        (b"{}" * REPLY_PARTS, b"{}" * (REPLY_PARTS + 1)),
        (b"[]" * REPLY_PARTS, b"[]" * (REPLY_PARTS + 1)),
        (b'"a"' * REPLY_PARTS, b'"a"' * (REPLY_PARTS + 1)),
        (b"\\ud83d" * REPLY_SURROGATES, b"\\uD83d" * (REPLY_SURROGATES + 1)),
        (b"\\n" * (2 * REPLY_SURROGATES), b"\\uD83d" * (REPLY_SURROGATES + 1)),  # other escapes may be many
    ],
)
def test_a_reply_is_read_up_to_a_bound(most: bytes, more: bytes) -> None:
    check_reply(most)
    with pytest.raises(ValueError, match=str(len(more)) if len(more) > REPLY_BYTES else "more than|wanted"):
        check_reply(more)
