"""Which hosts may be named, how they are reached, and what a plain control plane may add."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.config.schema import PineconeSettings
from vecsieve.proxy.http.routes import MOST_NAMED, IndexHosts
from vecsieve.proxy.runtime.addresses import Origin

PUBLIC = Origin.of("https://api.pinecone.io")
PLAIN = Origin.of("http://127.0.0.1:5080")
INDEX = "docs-abc123.svc.aped-4627-b74a.pinecone.io"
PRIVATE = "docs-abc123.svc.private.aped-4627-b74a.pinecone.io"


def hosts(control_plane: Origin = PUBLIC, **own: object) -> IndexHosts:
    return IndexHosts(PineconeSettings.model_validate(own), control_plane)


@pytest.mark.parametrize("text", [INDEX, f"{INDEX}:443", INDEX.upper(), PRIVATE])
def test_hosts_of_the_service_are_reached_over_https(text: str) -> None:
    assert hosts().origin(text) == Origin("https", text.lower().removesuffix(":443"))


@pytest.mark.parametrize(
    "text",
    [
        *("evil.example", f"{INDEX}.evil.example", "pinecone.io", f"{INDEX}:8443", f"{INDEX}:80", f"{INDEX}."),
        *("127.0.0.1", "127.0.0.1:443", "127.1", "2130706433", "0x7f000001", "[::1]", "localhost", "169.254.169.254"),
        *(f"u@{INDEX}", f"u:p@{INDEX}", f"{INDEX}%2Fquery", f"a..{INDEX}", "", "127.0.0.1:5081"),
    ],
)
def test_every_other_host_is_refused(text: str) -> None:
    assert hosts().origin(text) is None


def test_a_port_or_a_name_may_be_configured() -> None:
    own = hosts(allowed_hosts=("*.example.com:8443", "pinned.example.org"))
    assert own.origin("a.example.com:8443") == Origin("https", "a.example.com:8443")
    assert own.origin("pinned.example.org") == Origin("https", "pinned.example.org")
    assert own.origin("a.example.com") is None
    assert own.origin(INDEX) is None


def test_what_the_settings_name_themselves_is_reached_as_they_say() -> None:
    own = hosts(PLAIN, index_host="http://127.0.0.1:5081")
    assert own.origin("127.0.0.1:5080") == PLAIN
    assert own.origin("127.0.0.1:5081") == Origin("http", "127.0.0.1:5081")
    assert own.origin("127.0.0.1:5082") is None


def test_what_stands_behind_a_port_is_named_in_the_settings_as_well() -> None:
    own = hosts(index_ports={8101: "http://127.0.0.1:5081", 8102: "https://index.corp"})
    assert own.origin("127.0.0.1:5081") == Origin("http", "127.0.0.1:5081")
    assert own.origin("index.corp") == Origin("https", "index.corp")
    assert all(own.may_be_private(name) for name in ("127.0.0.1", "index.corp"))
    assert own.path_of("http://127.0.0.1:5081") == "127.0.0.1:5081"
    assert own.path_of("http://index.corp") is None


def test_only_hosts_written_in_full_by_somebody_trusted_may_be_private() -> None:
    own = hosts(
        Origin.of("https://control.corp"),
        index_host="https://index.corp",
        allowed_hosts=("*.svc.*.pinecone.io", PRIVATE),
    )
    assert all(own.may_be_private(name) for name in ("control.corp", "index.corp", PRIVATE))
    assert not any(own.may_be_private(name) for name in (INDEX, "corp", "evil.example"))


@pytest.mark.parametrize("written", [INDEX, f"https://{INDEX}", f"{INDEX}:443", PRIVATE])
def test_a_host_of_the_service_becomes_a_path(written: str) -> None:
    path = hosts().path_of(written)
    assert path == written.removeprefix("https://")
    assert hosts().origin(path) is not None


@pytest.mark.parametrize(
    "written",
    [
        *(
            "evil.example",
            f"http://{INDEX}",
            f"ftp://{INDEX}",
            f"{INDEX}:8443",
            "127.0.0.1:5081",
            "http://127.0.0.1:5081",
        ),
        *("", "://", f"{INDEX}?a", f"{INDEX}#a", f"{INDEX} ", f"u@{INDEX}", f'{INDEX}/"', f"https://https://{INDEX}"),
    ],
)
def test_a_host_that_would_be_refused_keeps_its_name_and_teaches_nothing(written: str) -> None:
    own = hosts()
    assert own.path_of(written) is None
    assert own.origin("127.0.0.1:5081") is None


@pytest.mark.parametrize(
    ("written", "path", "origin"),
    [
        ("http://127.0.0.1:5081", "127.0.0.1:5081", Origin("http", "127.0.0.1:5081")),
        ("localhost:5081", "localhost:5081", Origin("http", "localhost:5081")),
        ("http://idx.localhost:5080", "idx.localhost:5080", Origin("http", "idx.localhost:5080")),
        ("https://idx.test:8443", "idx.test:8443", Origin("https", "idx.test:8443")),
        ("http://127.0.0.1:5081/i/docs", "127.0.0.1:5081/i/docs", Origin("http", "127.0.0.1:5081")),
        ("http://vs.test:1/_i/127.0.0.1:5081", "vs.test:1/_i/127.0.0.1:5081", Origin("http", "vs.test:1")),
        (INDEX, INDEX, Origin("https", INDEX)),
    ],
)
def test_a_plain_control_plane_is_believed(written: str, path: str, origin: Origin) -> None:
    own = hosts(PLAIN)
    host = path.partition("/")[0]
    if host != INDEX:
        assert own.origin(host) is None
    assert own.path_of(written) == path
    assert own.origin(host) == origin
    assert own.may_be_private(origin.host) is (host != INDEX)


def test_what_it_did_not_name_stays_refused() -> None:
    own = hosts(PLAIN)
    own.path_of("http://127.0.0.1:5081")
    assert own.origin("127.0.0.1:5082") is None
    assert own.origin("127.0.0.1") is None


def test_no_more_hosts_are_remembered_than_there_is_room_for_and_the_used_ones_stay() -> None:
    own = hosts(PLAIN)
    own.path_of("http://first.test:1")
    for number in range(MOST_NAMED):
        assert own.origin("first.test:1") is not None
        own.path_of(f"http://h{number}.test:1")
    assert own.origin("first.test:1") is not None
    assert own.origin("h0.test:1") is None
    assert own.origin(f"h{MOST_NAMED - 1}.test:1") is not None


@given(st.text(alphabet="aZ0.-:/@[]%\\?# " + "\u00e9", max_size=24), st.sampled_from([PUBLIC, PLAIN]))
def test_whatever_is_written_a_path_leads_back_to_it(written: str, control_plane: Origin) -> None:
    """Invariant: a host that became a path may be named, and its path holds nothing but a host and plain segments."""
    own = hosts(control_plane)
    path = own.path_of(written)
    if path is not None:
        host, _, rest = path.partition("/")
        assert own.origin(host) is not None
        assert not set(path) & set('@[]\\?# "')
        assert written.lower().endswith(f"{host}{path[len(host) :]}".lower())
        assert ":" not in rest
