"""Which host a path leads to, and that nothing of the path is lost on the way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.pinecone.calls import OF_AN_INDEX, OF_THE_CONTROL_PLANE, RULES
from vecsieve.config.schema import PineconeSettings
from vecsieve.proxy.http.headers import Target, read_target
from vecsieve.proxy.http.routes import MOST_NAMED, IndexHosts, prefix_of, route
from vecsieve.proxy.runtime.addresses import Origin
from vecsieve.proxy.search.errors import Trouble

FIXED = Origin("https", "fixed.svc.x.pinecone.io")
NAMED = Origin("https", "docs-1.svc.x.pinecone.io")
HOSTS = {"docs-1.svc.x.pinecone.io": NAMED}


def routed(raw: str, index: Origin | None = None) -> Target | Trouble:
    target = read_target(raw)
    assert target is not None
    return route(target, index, HOSTS.get, RULES)


@pytest.mark.parametrize(
    "rest",
    [
        *("/query", "//query", "/query/", "/", "/?", "/query?a=b?c"),
        *(
            "/records/namespaces//search",
            "/records/namespaces/a%2Fb%20c%25d/search",
            "/records/namespaces/%2E%2E/search",
        ),
        *("/vectors/fetch?ids=b+c&ids=b%20c&ids=/_i/x", "/indexes", "/_i/docs-1.svc.x.pinecone.io/query", "/a/../b"),
    ],
)
@pytest.mark.parametrize("slashes", ["/", "//"])
def test_a_named_host_gets_the_rest_of_the_path_byte_for_byte(rest: str, slashes: str) -> None:
    prefix = "/_i/docs-1.svc.x.pinecone.io" if rest.startswith("/_i/") else ""
    expected = Target(rest, rest.split("?", 1)[0], NAMED, prefix)
    assert routed(f"{slashes}_i/docs-1.svc.x.pinecone.io{rest}") == expected


@pytest.mark.parametrize(
    ("path", "prefix"),
    [
        ("/query", ""),
        ("//query", ""),
        ("/a/b/query", "/a/b"),
        ("/a//b//query", "/a//b"),
        ("/a/vectors/upsert", "/a"),
        ("/a/records/namespaces/query/search", "/a"),
        ("/a/namespaces/n/documents/search", "/a"),
        ("/_i/docs.example/query", "/_i/docs.example"),
        ("/_i/127.0.0.1:80/_i/docs/query", "/_i/127.0.0.1:80/_i/docs"),
        ("/_i/query/query", "/_i/query"),
        ("/_i/query", ""),
        ("/records/namespaces/a/b/query", ""),
        ("/a/b", ""),
        ("/indexes", ""),
        ("/", ""),
        ("/a/../query", ""),
        ("/a/%2E./query", ""),
        ("/query/..", ""),
    ],
)
def test_what_stands_before_an_indexs_own_path_is_told_by_the_path_alone(path: str, prefix: str) -> None:
    assert prefix_of(path, RULES) == prefix


@given(st.text(alphabet="/_ia.%2equry", max_size=40))
def test_a_prefix_is_where_the_path_begins_and_nothing_of_an_index_is_in_it(rest: str) -> None:
    """For any path: the prefix begins it, and what follows begins with a part of an index whenever there is a prefix."""
    path = f"/{rest}"
    prefix = prefix_of(path, RULES)
    assert path.startswith(prefix)
    assert not prefix or path[len(prefix) :].lstrip("/").partition("/")[0] in OF_AN_INDEX


@pytest.mark.parametrize(("rest", "raw"), [("", "/"), ("?a=b", "/?a=b"), ("?", "/?")])
def test_a_named_host_without_a_path_is_asked_for_its_root(rest: str, raw: str) -> None:
    assert routed(f"/_i/docs-1.svc.x.pinecone.io{rest}") == Target(raw, "/", NAMED)


@pytest.mark.parametrize(
    "host",
    [
        *("other.svc.x.pinecone.io", "docs-1.svc.x.pinecone.io%2Fquery", "docs-1.svc.x.pinecone.io%2fquery"),
        *("docs-1.svc.x.pinecone.io.", "docs-1.svc.x.pinecone.io:8443", "u@docs-1.svc.x.pinecone.io", "127.0.0.1"),
        *("[::1]", "..", "docs-1.svc.x.pinecone.io\\", "docs-1.svc.x.pinecone.io#", "_i"),
    ],
)
def test_a_host_that_may_not_be_named_is_refused(host: str) -> None:
    assert routed(f"/_i/{host}/query", FIXED) is Trouble.HOST_REFUSED


@pytest.mark.parametrize(
    "raw", ["/_i", "/_i/", "//_i", "/_i//query", "/_i?a=b", "/_i/?/docs-1.svc.x.pinecone.io/query"]
)
def test_a_path_that_names_no_host_is_wrong(raw: str) -> None:
    assert routed(raw, FIXED) is Trouble.WRONG_PATH


@pytest.mark.parametrize("first", sorted(OF_AN_INDEX))
@pytest.mark.parametrize("form", ["/{}", "//{}", "/{}/a%2Fb//c", "/{}?x=/_i/y"])
def test_the_paths_of_an_index_go_to_the_fixed_one(first: str, form: str) -> None:
    raw = form.format(first)
    assert routed(raw, FIXED) == Target(raw, raw.split("?", 1)[0], FIXED)
    assert routed(raw) is Trouble.NO_INDEX


@pytest.mark.parametrize(
    "raw",
    [
        *(f"/{first}" for first in sorted(OF_THE_CONTROL_PLANE)),
        *(
            "/indexes/query",
            "/assistant/chat/query",
            "/",
            "/future/thing",
            "/indexes/_i/x",
            "//indexes",
            "/%5Fi/x/query",
        ),
        *("/queryx", "/future/queryx", "/future/query/deeper"),
    ],
)
def test_everything_else_goes_to_the_control_plane_as_it_is(raw: str) -> None:
    expected = routed(raw, FIXED)
    if raw == "/%5Fi/x/query":  # no name of ours, and it ends like a path of an index
        assert expected is Trouble.WRONG_PATH
    else:
        assert expected == read_target(raw)


@pytest.mark.parametrize(
    "raw",
    ["/docs-1/query", "/h/x//query", "/x/vectors/upsert", "/x/describe_index_stats", "/x/records/namespaces//search"],
)
def test_a_prefix_that_leads_nowhere_is_told_so(raw: str) -> None:
    assert routed(raw, FIXED) is Trouble.WRONG_PATH


paths = st.from_regex(r"/(_i|query|indexes|[a-z%/.?@:]{0,6})?[\x21-\x7e]{0,25}", fullmatch=True)


@given(paths, st.sampled_from([None, FIXED]))
def test_whatever_the_path_it_goes_to_a_host_that_was_agreed_on(raw: str, index: Origin | None) -> None:
    """Invariant: a target goes out with an agreed origin and as a tail of what came in, or not at all."""
    target = routed(raw, index)
    if isinstance(target, Target):
        assert target.origin in {None, index, NAMED}
        assert raw.endswith(target.raw) or target.raw == "/" + raw[-len(target.raw) + 1 :]
        assert read_target(target.raw) is not None
    else:
        assert target in {Trouble.HOST_REFUSED, Trouble.NO_INDEX, Trouble.WRONG_PATH}


@given(st.text(alphabet="abAB01.-_:%@[]/\\?#", max_size=30), paths)
def test_no_host_is_asked_for_but_the_one_segment(host: str, rest: str) -> None:
    """Invariant: what is judged as a host is exactly the segment behind /_i/, undecoded."""
    judged: list[str] = []

    def judge(text: str) -> Origin | None:
        judged.append(text)
        return NAMED

    target = read_target(f"/_i/{host}{rest}")
    assert target is not None
    result = route(target, None, judge, RULES)
    segment = target.path.split("/")[2]
    assert judged == ([segment] if segment else [])
    if segment:
        assert isinstance(result, Target)
        rest = target.raw[len(f"/_i/{segment}") :]
        assert result.raw == (rest if rest.startswith("/") else f"/{rest}")


# Which hosts may be named, how they are reached, and what a plain control plane may add.

PUBLIC = Origin.of("https://api.pinecone.io")
PLAIN = Origin.of("http://127.0.0.1:5080")
INDEX = "docs-abc123.svc.aped-4627-b74a.pinecone.io"
PRIVATE = "docs-abc123.svc.private.aped-4627-b74a.pinecone.io"


def hosts(control_plane: Origin = PUBLIC, **settings: object) -> IndexHosts:
    return IndexHosts(PineconeSettings.model_validate(settings), control_plane)


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
    index_hosts = hosts(allowed_hosts=("*.example.com:8443", "pinned.example.org"))
    assert index_hosts.origin("a.example.com:8443") == Origin("https", "a.example.com:8443")
    assert index_hosts.origin("pinned.example.org") == Origin("https", "pinned.example.org")
    assert index_hosts.origin("a.example.com") is None
    assert index_hosts.origin(INDEX) is None


def test_what_the_settings_name_themselves_is_reached_as_they_say() -> None:
    index_hosts = hosts(PLAIN, index_host="http://127.0.0.1:5081")
    assert index_hosts.origin("127.0.0.1:5080") == PLAIN
    assert index_hosts.origin("127.0.0.1:5081") == Origin("http", "127.0.0.1:5081")
    assert index_hosts.origin("127.0.0.1:5082") is None


def test_what_stands_behind_a_port_is_named_in_the_settings_as_well() -> None:
    index_hosts = hosts(index_ports={8101: "http://127.0.0.1:5081", 8102: "https://index.corp"})
    assert index_hosts.origin("127.0.0.1:5081") == Origin("http", "127.0.0.1:5081")
    assert index_hosts.origin("index.corp") == Origin("https", "index.corp")
    assert all(index_hosts.may_be_private(name) for name in ("127.0.0.1", "index.corp"))
    assert index_hosts.path_of("http://127.0.0.1:5081") == "127.0.0.1:5081"
    assert index_hosts.path_of("http://index.corp") is None


def test_only_hosts_written_in_full_by_somebody_trusted_may_be_private() -> None:
    index_hosts = hosts(
        Origin.of("https://control.corp"),
        index_host="https://index.corp",
        allowed_hosts=("*.svc.*.pinecone.io", PRIVATE),
    )
    assert all(index_hosts.may_be_private(name) for name in ("control.corp", "index.corp", PRIVATE))
    assert not any(index_hosts.may_be_private(name) for name in (INDEX, "corp", "evil.example"))


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
    index_hosts = hosts()
    assert index_hosts.path_of(written) is None
    assert index_hosts.origin("127.0.0.1:5081") is None


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
    index_hosts = hosts(PLAIN)
    host = path.partition("/")[0]
    if host != INDEX:
        assert index_hosts.origin(host) is None
    assert index_hosts.path_of(written) == path
    assert index_hosts.origin(host) == origin
    assert index_hosts.may_be_private(origin.host) is (host != INDEX)


def test_what_it_did_not_name_stays_refused() -> None:
    index_hosts = hosts(PLAIN)
    index_hosts.path_of("http://127.0.0.1:5081")
    assert index_hosts.origin("127.0.0.1:5082") is None
    assert index_hosts.origin("127.0.0.1") is None


def test_no_more_hosts_are_remembered_than_there_is_room_for_and_the_used_ones_stay() -> None:
    index_hosts = hosts(PLAIN)
    index_hosts.path_of("http://first.test:1")
    for number in range(MOST_NAMED):
        assert index_hosts.origin("first.test:1") is not None
        index_hosts.path_of(f"http://h{number}.test:1")
    assert index_hosts.origin("first.test:1") is not None
    assert index_hosts.origin("h0.test:1") is None
    assert index_hosts.origin(f"h{MOST_NAMED - 1}.test:1") is not None


@given(st.text(alphabet="aZ0.-:/@[]%\\?# " + "\u00e9", max_size=24), st.sampled_from([PUBLIC, PLAIN]))
def test_whatever_is_written_a_path_leads_back_to_it(written: str, control_plane: Origin) -> None:
    """Invariant: a host that became a path may be named, and its path holds nothing but a host and plain segments."""
    index_hosts = hosts(control_plane)
    path = index_hosts.path_of(written)
    if path is not None:
        host, _, rest = path.partition("/")
        assert index_hosts.origin(host) is not None
        assert not set(path) & set('@[]\\?# "')
        assert written.lower().endswith(f"{host}{path[len(host) :]}".lower())
        assert ":" not in rest
