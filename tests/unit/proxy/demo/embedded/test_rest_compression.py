"""When an answer is compressed, and into what."""

from __future__ import annotations

import gzip

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.demo.embedded.rest import allows_gzip, gzipped


@given(st.binary(max_size=4000))
def test_what_was_compressed_comes_back(body: bytes) -> None:
    """Any standard reader of gzip recovers the bytes."""
    assert gzip.decompress(gzipped(body)) == body


@given(st.text(max_size=40))
def test_no_header_value_is_an_error(value: str) -> None:
    """Every text is an answer, and a text without gzip and star is a no."""
    allowed = allows_gzip(value)
    if "gzip" not in value.lower() and "*" not in value:
        assert not allowed


@pytest.mark.parametrize(
    ("header", "allowed"),
    [
        (None, False),
        ("", False),
        ("identity", False),
        ("gzip", True),
        ("GZIP", True),
        ("gzip, deflate, br", True),
        ("br, gzip ; q=0.1", True),
        ("gzip;q=0", False),
        ("gzip;q=0.0, *", False),
        ("*", True),
        ("*;q=0", False),
        ("gzip;q=x", False),
    ],
)
def test_gzip_is_used_when_the_client_takes_it(header: str | None, *, allowed: bool) -> None:
    assert allows_gzip(header) is allowed
