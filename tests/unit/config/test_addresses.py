"""Addresses: what is one, what is none, which of two are in each other's way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.config.addresses import (
    Address,
    Host,
    HostPattern,
    parse_address,
    parse_pattern,
    parse_upstream,
    path_prefix,
    port_number,
    public_url,
    read_host,
    server_url,
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


# Which texts are hosts, and which hosts a pattern allows.

INDEX = "docs-abc123.svc.aped-4627-b74a.pinecone.io"


@pytest.mark.parametrize(
    ("text", "host"),
    [
        (INDEX, Host(INDEX, None)),
        (INDEX.upper(), Host(INDEX, None)),
        (f"{INDEX}:443", Host(INDEX, 443)),
        ("localhost:5081", Host("localhost", 5081)),
        ("127.0.0.1:5081", Host("127.0.0.1", 5081)),
        ("a_b.c", Host("a_b.c", None)),
    ],
)
def test_a_name_is_read_with_its_port(text: str, host: Host) -> None:
    assert read_host(text) == host
    assert host.authority == text.lower()


@pytest.mark.parametrize(
    "text",
    [
        "",
        ".",
        "a..b",
        ".a.b",
        "a.b.",
        "-a.b",
        "a-.b",
        "user@a.b",
        "user:pw@a.b",
        "a.b:",
        "a.b:0",
        "a.b:0443",
        "a.b:65536",
        "a.b:443:443",
        "a.b%2Fc",
        "a.b/c",
        "[::1]",
        "[::1]:443",
        "::1",
        "a b",
        "a.b\n",
        "caf\u00e9.io",
        "\uff11.io",
        "a" * 64 + ".io",
        ".".join(["a" * 60] * 5),
    ],
)
def test_everything_else_is_no_host(text: str) -> None:
    assert read_host(text) is None


@pytest.mark.parametrize("text", ["127.0.0.1", "127.1", "2130706433", "0x7f000001", "0x7f.0x1", "a.0x", "a.1"])
def test_what_may_be_taken_for_an_address_says_so(text: str) -> None:
    host = read_host(text)
    assert host is not None
    assert host.is_numeric


def test_a_name_with_digits_is_no_address() -> None:
    host = read_host("1.2.3.4.example1")
    assert host is not None
    assert not host.is_numeric


@pytest.mark.parametrize(
    ("pattern", "name", "port", "allowed"),
    [
        ("*.svc.*.pinecone.io", INDEX, 443, True),
        ("*.SVC.*.Pinecone.io", INDEX, 443, True),
        ("*.svc.*.pinecone.io", INDEX, 8443, False),
        ("*.svc.*.pinecone.io", "pinecone.io", 443, False),
        ("*.svc.*.pinecone.io", f"{INDEX}.evil.example", 443, False),
        ("*.svc.*.pinecone.io", f"evil.{INDEX}", 443, False),
        ("*.pinecone.io", "evil-pinecone.io", 443, False),
        ("*.pinecone.io", "evilpinecone.io", 443, False),
        ("*.pinecone.io", "a.b.pinecone.io", 443, False),
        ("*.pinecone.io", "api.pinecone.io", 443, True),
        ("docs-*.example.com:8443", "docs-1.example.com", 8443, True),
        ("docs-*.example.com:8443", "docs-1.example.com", 443, False),
        ("*-x.example.com", "a-x.example.com", 443, True),
        ("exact.example.com", "exact.example.com", 443, True),
    ],
)
def test_a_pattern_is_compared_label_by_label(pattern: str, name: str, port: int, allowed: bool) -> None:
    assert parse_pattern(pattern).allows(name, port) is allowed


def test_a_pattern_without_a_star_is_exact() -> None:
    assert parse_pattern("Exact.example.com") == HostPattern(("exact", "example", "com"), 443)
    assert parse_pattern("Exact.example.com").is_exact
    assert parse_pattern("Exact.example.com").name == "exact.example.com"
    assert not parse_pattern("*.example.com").is_exact


@pytest.mark.parametrize(
    "text",
    [
        "",
        "*",
        "*.*",
        "a.*",
        "*.com*",
        "com",
        "127.0.0.1",
        "*.0.0.1",
        "*.0x1",
        "a..b",
        "[ab].com",
        "a?.com",
        "a.b:x",
        "http://a.b",
    ],
)
def test_everything_else_is_no_pattern(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a pattern|an address"):
        parse_pattern(text)


labels = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
tops = st.from_regex(r"[a-z]{2,6}", fullmatch=True)


@given(st.lists(labels, min_size=1, max_size=5), tops, st.data())
def test_a_pattern_allows_the_hosts_it_was_made_of_and_none_longer(
    names: list[str], top: str, data: st.DataObject
) -> None:
    """Invariant: stars for any labels but the last still allow the host, and never one with another number of labels."""
    starred = data.draw(st.lists(st.booleans(), min_size=len(names), max_size=len(names)))
    pattern = parse_pattern(
        ".".join(["*" if star else name for star, name in zip(starred, names, strict=True)] + [top])
    )
    host = ".".join([*names, top])
    assert pattern.allows(host, 443)
    assert not pattern.allows(f"a.{host}", 443)
    assert not pattern.allows(f"{host}.example", 443)
    assert pattern.is_exact is not any(starred)


@given(st.text(alphabet="aZ09.-_:@%[]/\\ *x\u00e9\n", max_size=20))
def test_a_host_that_is_read_holds_nothing_that_could_end_it(text: str) -> None:
    """Invariant: what is read spells the text in lower case, from letters, digits, dots, dashes and one colon."""
    host = read_host(text)
    if host is not None:
        assert host.authority == text.lower()
        assert set(host.name) <= set("az09.-_x")
        assert all(host.name.split("."))


@pytest.mark.parametrize(
    ("text", "url"),
    [
        (INDEX, f"https://{INDEX}"),
        (f"https://{INDEX}/", f"https://{INDEX}"),
        ("http://127.0.0.1:5081", "http://127.0.0.1:5081"),
        ("localhost:5081", "https://localhost:5081"),
    ],
)
def test_an_index_is_a_host_or_a_url_and_https_unless_it_says_otherwise(text: str, url: str) -> None:
    assert server_url(text, scheme="https") == url
    assert server_url(url, scheme="https") == url


@pytest.mark.parametrize(
    "text", ["", "ftp://a.b", "a.b/c", "https://a.b/c", "https://u@a.b", "https://a.b?c", "https://"]
)
def test_everything_else_is_no_index(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        server_url(text, scheme="https")


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("https://vs.example.com", "https://vs.example.com"),
        ("https://vs.example.com/", "https://vs.example.com"),
        ("http://10.0.0.1:6343/a/b/", "http://10.0.0.1:6343/a/b"),
    ],
)
def test_a_public_url_may_have_a_path(text: str, url: str) -> None:
    assert public_url(text) == url
    assert public_url(url) == url


@pytest.mark.parametrize(
    "text", ["", "vs.example.com", "https://", "https://a.b/?x", 'https://a.b/"', "https://u@a.b", "ws://a.b"]
)
def test_everything_else_is_no_public_url(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        public_url(text)
