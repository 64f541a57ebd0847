"""An origin and a raw target make a URL that holds both, byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.addresses import Origin


@pytest.mark.parametrize(
    ("url", "origin", "host"),
    [
        ("http://127.0.0.1:6333", Origin("http", "127.0.0.1:6333"), "127.0.0.1"),
        ("https://api.pinecone.io", Origin("https", "api.pinecone.io"), "api.pinecone.io"),
        ("https://api.pinecone.io:443", Origin("https", "api.pinecone.io"), "api.pinecone.io"),
        ("http://[::1]:6333", Origin("http", "[::1]:6333"), "::1"),
    ],
)
def test_an_origin_is_what_the_host_field_says(url: str, origin: Origin, host: str) -> None:
    assert Origin.of(url) == origin
    assert origin.host == host


@given(st.from_regex(r"/[\x21-\x7e]{0,30}", fullmatch=True))
def test_a_target_is_kept_as_it_is(target: str) -> None:
    """Invariant: whatever the target, it stands in the URL unchanged and the host is the origin's."""
    url = Origin("https", "idx.example.com:8443").url(target)
    assert url.raw_path == target
    assert (url.host, url.port, url.raw_query_string, url.raw_fragment) == ("idx.example.com", 8443, "", "")
