"""With one upstream a target is what it was, and only the prefix decides what is matched; heads are read once."""

from __future__ import annotations

from typing import cast

import pytest

from vecsieve.adapters.backends import BACKENDS
from vecsieve.adapters.contract import Adapter, Operation, RequestHead
from vecsieve.proxy.http.headers import Target, read_target
from vecsieve.proxy.http.routes import (
    MOST_REMEMBERED,
    REMEMBERED_CHARACTERS,
    Heads,
    OneUpstream,
    Routes,
)
from vecsieve.proxy.search.collections.learned import LONGEST_NAME

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
        self.asked: list[RequestHead] = []
        self._adapter = QDRANT.rest.adapter()

    def classify(self, head: RequestHead) -> Operation | None:
        self.asked.append(head)
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
    assert len(counting.asked) == 1
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
    assert len(counting.asked) == 2


def test_a_target_with_a_query_string_which_may_hold_a_key_is_not_kept() -> None:
    read, counting = heads()
    for target in (SEARCH + "?api-key=secret", SEARCH + "/" + "x" * REMEMBERED_CHARACTERS):
        for _ in range(2):
            read.read("POST", target, JSON, None)
    assert len(counting.asked) == 4
    assert not read._known


@pytest.mark.parametrize(("length", "is_search"), [(LONGEST_NAME, True), (LONGEST_NAME + 1, False)])
def test_a_search_of_a_collection_that_cannot_exist_is_passed_through(length: int, is_search: bool) -> None:
    read, _ = heads()
    found = read.read("POST", f"/collections/{'x' * length}/points/query", JSON, None)
    assert (found.search is not None) == is_search


def test_heads_are_not_kept_without_bound() -> None:
    read, _ = heads()
    for number in range(MOST_REMEMBERED + 10):
        read.read("GET", f"/collections/a/points/{number}", {}, None)
    assert 0 < len(read._known) <= MOST_REMEMBERED


def test_what_is_no_path_or_lies_elsewhere_is_none_of_ours() -> None:
    read, _ = heads()
    found = read.read("OPTIONS", "*", {}, None)
    assert (found.target, found.is_routed, found.trouble) == (Target("*", "*"), False, None)
    elsewhere, _ = heads(OneUpstream("/db", None))
    found = elsewhere.read("GET", "/other", {}, None)
    assert (found.target, found.is_routed, found.trouble) == (Target("/other", "/other"), False, None)


def test_where_a_target_may_lead_elsewhere_it_is_read_each_time() -> None:
    class Moving(OneUpstream):
        is_fixed = False

    read, counting = heads(Moving("", None))
    for _ in range(3):
        read.read("POST", SEARCH, JSON, None)
    assert len(counting.asked) == 3


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
    found, matched = route
    assert matched == path
    assert found.raw == replacement + path + ("?x" if sent == "/vs?x" else sent[len(target.path) :])
    assert found.sibling("/x") == f"{replacement}/x"


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
    assert [(head.path, head.query) for head in counting.asked] == [(SEARCH, "a=%20b?c")]
