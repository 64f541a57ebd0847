"""With one upstream a target is what it was, and only the prefix decides what is matched; heads are read once."""

from __future__ import annotations

import json
from typing import cast

import pytest

from vecsieve.adapters.backends import BACKENDS
from vecsieve.adapters.contract import Adapter, Operation, RequestHead
from vecsieve.adapters.pinecone.calls import RULES
from vecsieve.config.schema import Settings
from vecsieve.proxy.http.headers import RawHeaders, Target, read_target
from vecsieve.proxy.http.routes import (
    MOST_REMEMBERED,
    REMEMBERED_CHARACTERS,
    Heads,
    IndexRoutes,
    OneUpstream,
    Routes,
    at_port,
    public_url_of,
)
from vecsieve.proxy.runtime.addresses import Origin
from vecsieve.proxy.search.collections.learned import LONGEST_NAME
from vecsieve.proxy.search.errors import Trouble

QDRANT = BACKENDS["qdrant"]

TARGET = Target("/db//collections/x/points/search/?a", "/db//collections/x/points/search/")


def test_a_target_goes_where_everything_goes() -> None:
    one = OneUpstream("", None)
    assert one.find(TARGET, None) == (TARGET, "/db/collections/x/points/search")
    assert one.may_be_private is None
    assert one.editing("GET", (), TARGET) is None


class Counting:
    """Counts what the adapter is asked."""

    def __init__(self) -> None:
        self.requested: list[RequestHead] = []
        self._adapter = QDRANT.rest.adapter()

    def classify(self, head: RequestHead) -> Operation | None:
        self.requested.append(head)
        return self._adapter.classify(head)

    def __getattr__(self, name: str) -> object:
        return getattr(self._adapter, name)


JSON = {"Content-Type": "application/json"}
SEARCH = "/collections/a%20b/points/query"


def heads(routes: Routes | None = None) -> tuple[Heads, Counting]:
    counting = Counting()
    return Heads(OneUpstream("", None) if routes is None else routes, cast(Adapter, counting), QDRANT), counting


def test_a_head_that_was_read_before_is_not_read_again() -> None:
    read, counting = heads()
    first = read.read("POST", SEARCH, JSON, None)
    assert read.read("POST", SEARCH, dict(JSON), None) is first
    assert len(counting.requested) == 1
    assert first.search == Operation(backend="qdrant", name="query", collection="a b")
    assert (first.collection, first.target.raw) == ("a b", SEARCH)


@pytest.mark.parametrize(
    ("method", "target", "fields"),
    [("PUT", SEARCH, JSON), ("POST", SEARCH + "/batch", JSON), ("POST", SEARCH, {"Content-Type": "text/csv"})],
)
def test_every_part_of_a_head_that_decides_is_looked_at(method: str, target: str, fields: dict[str, str]) -> None:
    read, counting = heads()
    first = read.read("POST", SEARCH, JSON, None)
    other = read.read(method, target, fields, None)
    assert other.search != first.search
    assert len(counting.requested) == 2


def test_a_target_with_a_query_string_which_may_hold_a_key_is_not_kept() -> None:
    read, counting = heads()
    for target in (SEARCH + "?api-key=secret", SEARCH + "/" + "x" * REMEMBERED_CHARACTERS):
        for _ in range(2):
            read.read("POST", target, JSON, None)
    assert len(counting.requested) == 4
    assert not read._known


@pytest.mark.parametrize(("length", "is_search"), [(LONGEST_NAME, True), (LONGEST_NAME + 1, False)])
def test_a_search_of_a_collection_that_cannot_exist_is_passed_through(length: int, is_search: bool) -> None:
    read, _ = heads()
    head_read = read.read("POST", f"/collections/{'x' * length}/points/query", JSON, None)
    assert (head_read.search is not None) == is_search


def test_heads_are_not_kept_without_bound() -> None:
    read, _ = heads()
    for number in range(MOST_REMEMBERED + 10):
        read.read("GET", f"/collections/a/points/{number}", {}, None)
    assert 0 < len(read._known) <= MOST_REMEMBERED


def test_what_is_no_path_or_lies_elsewhere_is_none_of_ours() -> None:
    read, _ = heads()
    head_read = read.read("OPTIONS", "*", {}, None)
    assert (head_read.target, head_read.is_routed, head_read.trouble) == (Target("*", "*"), False, None)
    elsewhere, _ = heads(OneUpstream("/db", None))
    head_read = elsewhere.read("GET", "/other", {}, None)
    assert (head_read.target, head_read.is_routed, head_read.trouble) == (Target("/other", "/other"), False, None)


def test_where_a_target_may_lead_elsewhere_it_is_read_each_time() -> None:
    class Moving(OneUpstream):
        is_fixed = False

    read, counting = heads(Moving("", None))
    for _ in range(3):
        read.read("POST", SEARCH, JSON, None)
    assert len(counting.requested) == 3


@pytest.mark.parametrize(
    ("prefix", "replacement", "sent", "path"),
    [
        ("", "/qdrant", "/collections/c?a=1", "/collections/c"),
        ("", "/qdrant", "/", "/"),
        ("/vs", "/qdrant", "/vs/collections/c?a=1", "/collections/c"),
        ("/vs", "/qdrant", "/vs?x", "/"),
        ("/vs", "/qdrant", "/collections/c", "/collections/c"),
        ("/vs", "/qdrant", "/vsx/collections", "/vsx/collections"),
        ("/vs", "", "/vs/collections/c", "/collections/c"),
        ("/vs", "", "/vs", "/"),
    ],
)
def test_a_path_of_the_upstream_stands_in_the_place_of_the_clients_prefix(
    prefix: str, replacement: str, sent: str, path: str
) -> None:
    one = OneUpstream(prefix, replacement)
    target = read_target(sent)
    assert target is not None
    route = one.find(target, None)
    assert isinstance(route, tuple)
    sent_to, matched = route
    assert matched == path
    assert sent_to.raw == replacement + path + ("?x" if sent == "/vs?x" else sent[len(target.path) :])
    assert sent_to.sibling("/x") == f"{replacement}/x"


@pytest.mark.parametrize(
    ("routes", "path", "is_noted"),
    [
        (OneUpstream("", None), f"/qdrant{SEARCH}", True),
        (OneUpstream("", None), f"/a/b{SEARCH}/batch", True),
        (OneUpstream("/qdrant", None), SEARCH, True),
        (OneUpstream("/qdrant", None), f"/other{SEARCH}", True),
        (OneUpstream("/qdrant", None), f"/qdrant{SEARCH}", False),
        (OneUpstream("", None), SEARCH, False),
        (OneUpstream("", None), "/collections/a/points/scroll", False),
        (OneUpstream("", None), "/collections/points/query/points/delete", False),
        (OneUpstream("", None), "/metrics", False),
    ],
)
def test_searches_under_an_unknown_prefix_are_noted_once(
    routes: Routes, path: str, is_noted: bool, caplog: pytest.LogCaptureFixture
) -> None:
    read, _ = heads(routes)
    for query in ("", "?a", "?b"):
        read.read("POST", path + query, JSON, None)
    assert ["upstream.path_prefix" in record.getMessage() for record in caplog.records] == [True] * is_noted


def test_signed_searches_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    read, _ = heads()
    read.warn_of_signatures()
    read.warn_of_signatures()
    assert ["AWS SigV4" in record.getMessage() for record in caplog.records] == [True]


def test_the_adapter_is_given_the_query_string() -> None:
    read, counting = heads()
    read.read("POST", f"{SEARCH}?a=%20b?c", JSON, None)
    assert [(head.path, head.query) for head in counting.requested] == [(SEARCH, "a=%20b?c")]


# The routes of Pinecone put together: what is matched, and where its answers lead.

INDEX = "docs-abc123.svc.aped-4627-b74a.pinecone.io"
HOST: RawHeaders = ((b"Host", b"127.0.0.1:6343"),)


def routes(**settings: object) -> IndexRoutes:
    return routes_of(Settings.model_validate({"backend": "pinecone", "pinecone": settings}))


def routes_of(settings: Settings) -> IndexRoutes:
    assert settings.indexes is not None
    return IndexRoutes(settings, settings.indexes, RULES)


def changed(
    index_routes: IndexRoutes, headers: RawHeaders, body: bytes, method: str = "GET", path: str = "/indexes/docs"
) -> bytes:
    target = read_target(path)
    assert target is not None
    editing = index_routes.editing(method, headers, target)
    return body if editing is None else editing.change(body)


def described(host: str) -> bytes:
    return json.dumps({"name": "docs", "host": host}).encode()


@pytest.mark.parametrize(
    ("path", "matched"),
    [
        ("/query", "/query"),
        ("//query", "/query"),
        ("/query/", "/query/"),
        ("/records/namespaces//search", "/records/namespaces//search"),
        ("///", "/"),
    ],
)
def test_only_leading_slashes_are_merged_for_matching(path: str, matched: str) -> None:
    named = f"/_i/{INDEX}{path}"
    route = routes().find(Target(named, named), None)
    assert isinstance(route, tuple)
    assert route[1] == matched


def test_what_stands_before_an_indexs_own_path_is_not_matched_and_goes_on() -> None:
    raw = f"/_i/{INDEX}/gateway/docs//query?a"
    route = routes().find(Target(raw, raw.partition("?")[0]), None)
    assert isinstance(route, tuple)
    sent_to, matched = route
    assert sent_to == Target("/gateway/docs//query?a", "/gateway/docs//query", Origin("https", INDEX), "/gateway/docs")
    assert matched == "/query"
    assert sent_to.sibling("/vectors/fetch?ids=a") == "/gateway/docs/vectors/fetch?ids=a"


def test_a_target_is_found_at_its_index_behind_its_port_and_at_the_control_plane() -> None:
    index_routes, port_index = routes(), Origin("https", "fixed.svc.x.pinecone.io")
    assert index_routes.find(Target("/query", "/query"), port_index) == (
        Target("/query", "/query", port_index),
        "/query",
    )
    assert index_routes.find(Target("/query", "/query"), None) is Trouble.NO_INDEX
    named = f"/_i/{INDEX}/query"
    for index in (port_index, None):
        assert index_routes.find(Target(named, named), index) == (
            Target("/query", "/query", Origin("https", INDEX)),
            "/query",
        )
        assert index_routes.find(Target("/indexes", "/indexes"), index) == (Target("/indexes", "/indexes"), "/indexes")


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/indexes"),
        ("POST", "/indexes"),
        ("GET", "/indexes/docs"),
        ("GET", "/indexes/docs/"),
        ("GET", "//indexes/docs"),
        ("GET", "/indexes?limit=3"),
        ("PATCH", "/indexes/docs"),
        ("POST", "/indexes/create-for-model"),
    ],
)
def test_descriptions_lead_to_where_the_client_found_us(method: str, path: str) -> None:
    expected = described(f"http://127.0.0.1:6343/_i/{INDEX}")
    assert changed(routes(), HOST, described(INDEX), method, path) == expected


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("DELETE", "/indexes/docs"),
        ("HEAD", "/indexes/docs"),
        ("OPTIONS", "/indexes"),
        ("GET", "/indexes/docs/backups"),
        ("GET", "/collections"),
        ("GET", "/assistant/assistants"),
        ("GET", "/assistant/indexes"),
        ("GET", "/"),
    ],
)
def test_nothing_else_is_looked_into(method: str, path: str) -> None:
    target = read_target(path)
    assert target is not None
    assert routes().editing(method, HOST, target) is None


def test_an_index_that_has_such_a_path_is_not_the_control_plane() -> None:
    assert routes().editing("GET", HOST, Target("/indexes", "/indexes", Origin("https", INDEX))) is None


def test_a_public_url_beats_the_host_the_client_used() -> None:
    index_routes = routes(public_url="https://vs.example.com/pc/")
    assert changed(index_routes, HOST, described(INDEX)) == described(f"https://vs.example.com/pc/_i/{INDEX}")
    assert changed(index_routes, (), described(INDEX)) == described(f"https://vs.example.com/pc/_i/{INDEX}")


def test_a_host_that_would_be_refused_here_stays_so_that_the_client_still_works() -> None:
    assert changed(routes(), HOST, described("idx.elsewhere.example")) == described("idx.elsewhere.example")


PORTS = {8101: INDEX, 8102: "http://127.0.0.1:5082"}


@pytest.mark.parametrize(
    ("form", "expected"), [("port_url", "http://127.0.0.1:8101"), ("port_authority", "127.0.0.1:8101")]
)
@pytest.mark.parametrize("written", [INDEX, f"https://{INDEX}", f"{INDEX}:443", f"https://{INDEX}/", INDEX.upper()])
def test_an_index_with_a_port_of_its_own_is_told_of_by_that_port(form: str, expected: str, written: str) -> None:
    index_routes = routes(index_ports=PORTS, public_form=form)
    assert changed(index_routes, HOST, described(written)) == described(expected)


@pytest.mark.parametrize("form", ["port_url", "port_authority"])
def test_an_index_without_a_port_is_told_of_by_path(form: str) -> None:
    index_routes, other = routes(index_ports=PORTS, public_form=form), INDEX.replace("docs", "other")
    assert changed(index_routes, HOST, described(other)) == described(f"http://127.0.0.1:6343/_i/{other}")
    deeper = f"https://{INDEX}/deeper"
    assert changed(index_routes, HOST, described(deeper)) == described(f"http://127.0.0.1:6343/_i/{INDEX}/deeper")
    assert changed(index_routes, HOST, described("idx.elsewhere.example")) == described("idx.elsewhere.example")


def test_a_plain_index_that_the_settings_name_is_told_of_by_its_port_as_it_is_written() -> None:
    index_routes = routes(index_ports=PORTS, public_form="port_url")
    assert changed(index_routes, HOST, described("http://127.0.0.1:5082")) == described("http://127.0.0.1:8102")
    assert changed(index_routes, HOST, described("https://127.0.0.1:5082")) == described("https://127.0.0.1:5082")


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("http://127.0.0.1:6343", "http://127.0.0.1:8101"),
        ("https://vs.example.com", "https://vs.example.com:8101"),
        ("https://vs.example.com:443/pc", "https://vs.example.com:8101"),
        ("http://[::1]", "http://[::1]:8101"),
        ("http://[::1]:6343", "http://[::1]:8101"),
    ],
)
def test_another_port_of_our_url_keeps_scheme_and_host(base: str, url: str) -> None:
    assert at_port(base, 8101, with_scheme=True) == url
    assert at_port(base, 8101, with_scheme=False) == url.partition("://")[2]


def test_the_port_is_added_to_the_public_host_and_to_a_gateways_scheme() -> None:
    index_routes = routes(index_ports=PORTS, public_form="port_url", public_url="https://vs.example.com/pc")
    assert changed(index_routes, HOST, described(INDEX)) == described("https://vs.example.com:8101")
    index_routes = routes(index_ports=PORTS, public_form="port_url")
    tls_headers = ((b"Host", b"vs.local"), (b"X-Forwarded-Proto", b"https"))
    assert changed(index_routes, tls_headers, described(INDEX)) == described("https://vs.local:8101")


@pytest.mark.parametrize(
    ("host", "url"),
    [
        (b"127.0.0.1:6343", "http://127.0.0.1:6343"),
        (b"vecsieve", "http://vecsieve"),
        (b"[::1]:6343", "http://[::1]:6343"),
        (b"user:pw@vs.local:80", "http://vs.local:80"),
    ],
)
def test_the_clients_host_is_our_url_without_any_credentials(host: bytes, url: str) -> None:
    assert public_url_of(((b"hOST", host),), over_tls=False) == url


@pytest.mark.parametrize("host", [b"", b"a b", b'a"b', b"a/b", b"a\\b", b"a:b", b"a:1:2", b"[::1", b"\xc3\xa9", b"a@"])
def test_an_odd_host_is_not_repeated(host: bytes) -> None:
    assert public_url_of(((b"Host", host),), over_tls=False) is None
    assert changed(routes(), ((b"Host", host),), described(INDEX)) == described(INDEX)


@pytest.mark.parametrize(
    ("forwarded", "scheme"),
    [
        (b"https", "https"),
        (b"HTTPS , http", "https"),
        (b"http", "http"),
        (b"http, https", "http"),
        (b"x", "http"),
        (b"", "http"),
    ],
)
def test_a_client_behind_a_tls_gateway_is_not_told_to_speak_in_the_clear(forwarded: bytes, scheme: str) -> None:
    headers = ((b"Host", b"vs.example.com"), (b"X-Forwarded-Proto", forwarded), (b"X-Forwarded-Host", b"evil.example"))
    assert public_url_of(headers, over_tls=False) == f"{scheme}://vs.example.com"


def test_without_a_host_or_with_two_there_is_no_url_of_ours() -> None:
    assert public_url_of((), over_tls=False) is None
    assert public_url_of(((b"Host", b"a"), (b"host", b"b")), over_tls=False) is None


@pytest.mark.parametrize("forwarded", [(), ((b"X-Forwarded-Proto", b"http"),)])
@pytest.mark.parametrize(
    ("form", "docs"), [("path", f"https://vs.local:6343/_i/{INDEX}"), ("port_url", "https://vs.local:8101")]
)
def test_ports_of_ours_that_speak_tls_are_told_of_with_https(form: str, docs: str, forwarded: RawHeaders) -> None:
    settings = {"index_ports": {8101: INDEX} if form != "path" else {}, "public_form": form}
    tls = {"certificate": "leaf.pem", "key": "leaf.key"}
    served = routes_of(Settings.model_validate({"backend": "pinecone", "pinecone": settings, "tls": tls}))
    headers = ((b"Host", b"vs.local:6343"), *forwarded)
    assert changed(served, headers, described(INDEX)) == described(docs)
