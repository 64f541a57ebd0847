"""Headers, keys, versions and refusals as the edge has them."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPConnection

import pytest
from servers.pinecone.rest import CONTROL, DATA, Edge, find_route

from support.embedded import Exchange, exchange
from support.emulated import EMBED, SERVERLESS, emulated

KEY = "pcsk_right"


@pytest.fixture(scope="module")
def places() -> Iterator[tuple[str, str]]:
    """The control plane and a filled integrated index."""
    with emulated(api_key=KEY) as running:
        body = {"name": "e", "cloud": "aws", "region": "us-east-1", "embed": {**EMBED, "dimension": 2}}
        made = exchange(running.url, "POST", "/indexes/create-for-model", body, headers=headers("2026-04"))
        assert made.status == 201, made.body
        host = made.json["host"]
        vectors = {"vectors": [{"id": "a", "values": [1, 0]}], "namespace": "ns"}
        assert exchange(host, "POST", "/vectors/upsert", vectors, headers=headers("2026-04")).status == 200
        yield running.url, host


def headers(version: str | None) -> dict[str, str]:
    return {"Api-Key": KEY, **({} if version is None else {"X-Pinecone-Api-Version": version})}


def send(url: str, method: str, path: str, body: object = None, version: str | None = "2026-04") -> Exchange:
    return exchange(url, method, path, body, headers=headers(version))


def test_a_query_carries_the_headers_of_the_edge(places: tuple[str, str]) -> None:
    answer = send(places[1], "POST", "/query", {"topK": 1, "vector": [1, 0], "namespace": "ns"})
    named = {name: value for name, value in answer.headers.items() if name not in {"date", "x-pinecone-request-id"}}
    assert named == {
        "content-type": "application/json",
        "content-length": str(len(answer.body)),
        "x-pinecone-request-latency-ms": "1",
        "x-pinecone-response-duration-ms": "2",
        "x-envoy-upstream-service-time": "2",
        "x-pinecone-max-indexed-lsn": "1",
        "grpc-status": "0",
        "server": "envoy",
    }
    assert set(answer.headers) - set(named) == {"date", "x-pinecone-request-id"}


def test_every_request_has_another_id(places: tuple[str, str]) -> None:
    seen = {send(places[0], "GET", "/indexes").headers["x-pinecone-request-id"] for _ in range(3)}
    assert len(seen) == 3


def test_documents_carry_no_request_id_and_refuse_by_name(places: tuple[str, str]) -> None:
    answer = send(places[1], "POST", "/namespaces/ns/documents/search", {}, version="2026-07")
    assert answer.status == 400
    assert answer.json["error"]["code"] == "INVALID_ARGUMENT"
    assert "x-pinecone-request-id" not in answer.headers
    alpha = send(places[1], "POST", "/namespaces/ns/documents/fetch", {}, version="2026-01.alpha")
    assert alpha.json["code"] == 3


def test_a_refusal_of_the_data_plane_carries_its_grpc_status(places: tuple[str, str]) -> None:
    answer = send(places[1], "POST", "/query", {"topK": 1, "vector": [1], "namespace": "ns"})
    assert (answer.status, answer.headers["grpc-status"]) == (400, "3")
    assert answer.body == (
        b'{"code":3,"message":"Vector dimension 1 does not match the dimension of the index 2","details":[]}'
    )


@pytest.mark.parametrize(("key", "reason"), [(None, "Missing API key"), ("pcsk_wrong", "Wrong API key")])
def test_a_key_that_is_missing_or_wrong_meets_plain_text(places: tuple[str, str], key: str | None, reason: str) -> None:
    for url in places:
        answer = exchange(url, "GET", "/indexes", headers={} if key is None else {"Api-Key": key})
        assert (answer.status, answer.body) == (401, b"Unauthorized")
        assert answer.headers["content-type"] == "text/plain"
        assert answer.headers["x-pinecone-auth-rejected-reason"] == reason


def test_an_emulator_without_a_key_takes_any_but_not_none() -> None:
    with emulated() as running:
        assert exchange(running.url, "GET", "/indexes", headers={"Api-Key": "anything"}).json == {"indexes": []}
        assert exchange(running.url, "GET", "/indexes").status == 401


def test_records_are_taken_with_201_and_no_body(places: tuple[str, str]) -> None:
    answer = send(places[1], "POST", "/records/namespaces/a%2Fb/upsert", b'{"_id":"a","text":"x"}\n')
    assert (answer.status, answer.body) == (201, b"")
    assert "content-type" not in answer.headers
    listed = send(places[1], "GET", "/namespaces").json["namespaces"]
    assert "a/b" in [one["name"] for one in listed]


def test_dots_in_a_path_are_a_name_and_not_a_way_up(places: tuple[str, str]) -> None:
    answer = send(places[1], "POST", "/records/namespaces/%2E%2E/search", {"query": {"top_k": 1, "id": "a"}})
    assert answer.json["result"] == {"hits": []}


def test_without_a_version_the_oldest_behaviour_answers(places: tuple[str, str]) -> None:
    described = send(places[0], "GET", "/indexes/e", version=None).json
    assert "vector_type" not in described
    assert "private_host" not in described
    assert send(places[1], "GET", "/describe_index_stats", version=None).status == 200
    assert send(places[1], "GET", "/describe_index_stats").status == 404


def test_a_version_sent_twice_counts_once(places: tuple[str, str]) -> None:
    connection = HTTPConnection(places[0].removeprefix("http://"), timeout=10)
    connection.putrequest("GET", "/indexes/e")
    for name, value in (("Api-Key", KEY), *[("X-Pinecone-Api-Version", "2026-07")] * 2):
        connection.putheader(name, value)
    connection.endheaders()
    assert b'"schema"' in connection.getresponse().read()
    connection.close()


def test_an_index_refuses_what_the_control_plane_serves(places: tuple[str, str]) -> None:
    body = {"name": "x", "dimension": 1, "spec": SERVERLESS}
    assert send(places[1], "POST", "/indexes", body).json["code"] == 5
    taken = send(places[0], "POST", "/indexes", {**body, "name": "e"})
    assert (taken.status, taken.json["error"]["code"]) == (409, "ALREADY_EXISTS")


@pytest.mark.parametrize("given", [None, ""])
def test_no_key_is_not_taken(given: str | None) -> None:
    assert Edge(None).rejected(given) == Edge("k").rejected(given) == "Missing API key"


def test_any_key_is_taken_unless_there_is_one() -> None:
    assert Edge(None).rejected("any") is None
    assert Edge("größe").rejected("größe") is None
    assert Edge("k").rejected("any") == "Wrong API key"


def test_every_answer_has_another_id_and_documents_have_none() -> None:
    edge = Edge(None)
    assert [edge.headers()["x-pinecone-request-id"] for _ in range(2)] == ["0000000000000001", "0000000000000002"]
    assert "x-pinecone-request-id" not in edge.headers(has_id=False)
    assert edge.headers()["x-pinecone-request-id"] == "0000000000000003"


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
