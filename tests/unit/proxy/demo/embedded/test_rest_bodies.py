"""Bodies parsed as strictly as the server parses them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.refusals import refusal_of
from vecsieve.proxy.demo.embedded.errors import Refusal
from vecsieve.proxy.demo.embedded.rest import read_json

KIND = "application/json"
NUMBERS = st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_what_was_written_is_what_is_read(value: Any) -> None:
    """Reading undoes writing for every JSON value with numbers of 64 bits."""
    assert read_json(json.dumps(value).encode(), KIND) == value


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_json_or_a_refusal(raw: bytes) -> None:
    """No bytes make the reader fail in any way but a 400."""
    refused = refusal_of(lambda: read_json(raw, KIND))
    assert refused is None or (refused.status, refused.is_timed) == (400, False)


@pytest.mark.parametrize("raw", [b'{"a":1,"a":1}', b'[{"b":{"a":1,"a":2}}]'])
def test_a_field_written_twice_is_refused_at_any_depth(raw: bytes) -> None:
    with pytest.raises(Refusal, match="duplicate field `a`"):
        read_json(raw, KIND)


@pytest.mark.parametrize("member", ["payload", "payloads", "metadata", "defaults"])
def test_inside_a_map_the_last_of_two_equal_keys_stays(member: str) -> None:
    raw = f'{{"{member}":{{"a":1,"a":2}}}}'.encode()
    assert read_json(raw, KIND) == {member: {"a": 2}}


@pytest.mark.parametrize("raw", [b"{", b'{"a":NaN}', b"nul", b"\xff", b"1 2", b'{"a":Infinity}'])
def test_text_that_is_not_json_is_a_format_error(raw: bytes) -> None:
    with pytest.raises(Refusal, match=r"^Format error in JSON body: "):
        read_json(raw, KIND)


@pytest.mark.parametrize(("kind", "is_json"), [(KIND, True), ("application/problem+json", True), ("text/json", False)])
def test_only_json_content_types_are_read(kind: str, *, is_json: bool) -> None:
    if is_json:
        assert read_json(b"{}", kind) == {}
    else:
        with pytest.raises(Refusal, match=r"^Content type error$"):
            read_json(b"{}", kind)
