"""Addresses: what is one, what is none, which of two are in each other's way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.config.addresses import (
    Address,
    parse_address,
    parse_upstream,
    path_prefix,
    port_number,
    upstream_url,
)
from vecsieve.config.schema import Settings


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("127.0.0.1:6343", Address("127.0.0.1", 6343)),
        ("0.0.0.0:0", Address("0.0.0.0", 0)),
        ("vecsieve.search.svc:65535", Address("vecsieve.search.svc", 65535)),
        ("qdrant.search.svc.cluster.local.:1", Address("qdrant.search.svc.cluster.local.", 1)),
        ("my_host:1", Address("my_host", 1)),
        ("[::1]:80", Address("::1", 80)),
        ("[0:0::1]:80", Address("::1", 80)),
    ],
)
def test_host_and_port_are_read(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert Settings(listen=text, admin="127.0.0.2:9464").listen == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        ":80",
        "host",
        "host:",
        "host:-1",
        "host:65536",
        "host:+80",
        "host:٨٠",
        "host: 80",
        "a b:80",
        "::1:80",
        "[::1]",
        "[host]:80",
        "[]:80",
        "http://host:80",
        "host:80/",
        "-host:80",
        "user@host:80",
        "host:80\n",
    ],
)
def test_everything_else_is_no_address(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the message is never shown; the settings' phrase is
        parse_address(text)


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:6333", Address("127.0.0.1", 6333)),
        ("http://qdrant", Address("qdrant", 80)),
        ("https://qdrant/", Address("qdrant", 443)),
        ("https://[::1]:6333", Address("::1", 6333)),
        ("https://[::1]", Address("::1", 443)),
    ],
)
def test_an_upstream_url_leads_to_an_address(url: str, address: Address) -> None:
    assert parse_upstream(url) == address
    assert upstream_url(url) == url
    assert upstream_url(f"{url.rstrip('/')}/qdrant/") == f"{url.rstrip('/')}/qdrant"


@pytest.mark.parametrize(
    "url",
    [
        "",
        "qdrant:6333",
        "//qdrant:6333",
        "ftp://qdrant",
        "HTTP//qdrant",
        "http://",
        "http://:80",
        "http://a:b",
        "http://a:0",
        "http://a:99999",
        "http://u@a",
        "http://u:p@a",
        "http://@a",
        "http://a?",
        "http://a?b",
        "http://a#",
        "http://a//",
        "http://a/b?c",
        "http://a/b#c",
        "http://a/b c",
        "http://a/b//c",
        "http:// a",
        "http://a\n",
        "http://a\t",
        "http://a\\b",
        "http://ä",
        "http://[::1",
    ],
)
def test_everything_else_is_no_upstream(url: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the message is never shown; the settings' phrase is
        upstream_url(url)


@pytest.mark.parametrize("text", ["", "/qdrant", "/a/b", "/a-b_c.d~e", "/%2F"])
def test_a_path_prefix_is_empty_or_begins_with_a_slash(text: str) -> None:
    assert path_prefix(text) == text


@pytest.mark.parametrize("text", ["/", "qdrant", "/qdrant/", "//a", "/a//b", "/a?b", "/a#b", "/a b", "/ä", "/a\n"])
def test_everything_else_is_no_path_prefix(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the message is never shown; the settings' phrase is
        path_prefix(text)


@pytest.mark.parametrize(
    ("one", "other", "collide"),
    [
        ("127.0.0.1:1", "127.0.0.1:1", True),
        ("Host:1", "host:1", True),
        ("127.0.0.1:1", "127.0.0.1:2", False),
        ("127.0.0.1:0", "127.0.0.1:0", False),
        ("0.0.0.0:1", "10.0.0.1:1", True),
        ("0.0.0.0:1", "[::1]:1", False),
        ("[::]:1", "[::1]:1", True),
        ("[::]:1", "0.0.0.0:1", False),
        ("[::]:1", "localhost:1", True),
        ("localhost:1", "127.0.0.1:1", True),
        ("127.0.0.1:1", "[::1]:1", False),
        ("127.0.0.1:1", "127.0.0.2:1", False),
    ],
)
def test_two_listeners_collide_when_they_want_one_port_of_one_host(one: str, other: str, collide: bool) -> None:
    assert parse_address(one).collides(parse_address(other)) is collide
    assert parse_address(other).collides(parse_address(one)) is collide


@pytest.mark.parametrize(
    ("target", "listener", "leads"),
    [
        ("127.0.0.1:1", "127.0.0.1:1", True),
        ("localhost:1", "127.0.0.1:1", True),
        ("127.0.0.1:1", "0.0.0.0:1", True),
        ("127.0.0.1:2", "0.0.0.0:1", False),
        ("qdrant:1", "0.0.0.0:1", False),
        ("[::1]:1", "[::]:1", True),
        ("0.0.0.0:1", "127.0.0.1:1", False),
    ],
)
def test_a_target_leads_to_a_listener_of_this_machine(target: str, listener: str, leads: bool) -> None:
    assert parse_address(target).leads_to(parse_address(listener)) is leads


@given(text=st.text(max_size=30) | st.text(alphabet="ahtps:/[]@.0123?#% \t", max_size=30))
def test_any_text_is_an_address_or_a_value_error(text: str) -> None:
    """Invariant: an address's port fits 16 bits and its host is printable without blanks; all else is a ValueError."""
    for parse in (parse_address, parse_upstream):
        try:
            address = parse(text)
        except ValueError:
            continue
        assert 0 <= address.port <= 65_535
        assert address.host.isprintable()
        assert " " not in address.host


@pytest.mark.parametrize(
    ("written", "number"),
    [("8101", 8101), ("1", 1), ("99999", 99_999), ("0", "0"), ("08101", "08101"), ("+1", "+1"), ("", ""), (8101, 8101)],
)
def test_a_port_that_stands_as_a_key_is_its_number_and_anything_else_stays(written: object, number: object) -> None:
    assert port_number(written) == number


@given(port=st.integers(1, 65_535))
def test_every_port_is_read_from_its_own_text(port: int) -> None:
    """Invariant: a port's decimal text is that port."""
    assert port_number(str(port)) == port
