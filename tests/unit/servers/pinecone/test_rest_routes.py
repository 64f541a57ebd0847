""""""

from __future__ import annotations

import pytest
from servers.pinecone.rest import CONTROL, DATA, find_route

NEWEST = "2026-07"


def data(method: str, path: str, version: str = NEWEST) -> tuple[str, dict[str, str]] | None:
    found = find_route(DATA, method, path, version)
    return None if found is None else (f"{found[0].__module__.rpartition('.')[2]}.{found[0].__name__}", found[1])


@pytest.mark.parametrize("route", DATA, ids=lambda route: f"{route.method} {route.path}")
def test_every_data_path_leads_to_its_own_call(route: object) -> None:
    assert isinstance(route, type(DATA[0]))
    version = "2024-07" if (route.method, route.path) == ("GET", "/describe_index_stats") else NEWEST
    path = route.path.replace("{namespace}", "ns")
    found = find_route(DATA, route.method, path, version)
    assert found is not None
    assert found[0] is route.verb


@pytest.mark.parametrize(
    ("path", "namespace"),
    [
        ("/records/namespaces/a%2Fb%20c%25d/search", "a/b c%d"),
        ("/records/namespaces//search", ""),
        ("/records/namespaces/%2E%2E/search", ".."),
        ("//records/namespaces/ns/search", "ns"),
    ],
)
def test_a_namespace_is_decoded_after_the_path_is_split(path: str, namespace: str) -> None:
    assert data("POST", path) == ("records.search", {"namespace": namespace})


@pytest.mark.parametrize(
    ("method", "path", "version"),
    [
        ("GET", "/query", NEWEST),
        ("POST", "/query/", NEWEST),
        ("POST", "/records/namespaces/a/b/search", NEWEST),
        ("GET", "/describe_index_stats", "2024-10"),
        ("GET", "/namespaces", "2025-01"),
        ("POST", "/namespaces", "2025-04"),
        ("POST", "/vectors/fetch_by_metadata", "2025-04"),
        ("POST", "/records/namespaces/ns/search", "2024-10"),
        ("POST", "/namespaces/ns/documents/search", "2026-04"),
    ],
)
def test_a_path_the_version_does_not_have_leads_nowhere(method: str, path: str, version: str) -> None:
    assert data(method, path, version) is None


def test_a_doubled_slash_in_front_is_one() -> None:
    assert data("POST", "//query") == ("queries.query", {})


@pytest.mark.parametrize("route", CONTROL, ids=lambda route: f"{route.method} {route.path}")
def test_every_control_path_leads_to_its_own_call(route: object) -> None:
    assert isinstance(route, type(CONTROL[0]))
    found = find_route(CONTROL, route.method, route.path.replace("{index}", "movies"), NEWEST)
    assert found is not None
    assert found[0] is route.verb
    assert found[1] == ({"index": "movies"} if "{index}" in route.path else {})
