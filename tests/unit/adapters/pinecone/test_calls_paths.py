from __future__ import annotations

import pytest

from vecsieve.adapters.contract import Operation, RequestHead
from vecsieve.adapters.pinecone.calls import classify, index_of

HOST = "docs-abc123.svc.aped-4627-b74a.pinecone.io"


def named(path: str, *, method: str = "POST", content_type: str = "application/json", host: str = HOST) -> str | None:
    operation = classify(RequestHead(method=method, path=path, content_type=content_type, host=host))
    return None if operation is None else operation.name


@pytest.mark.parametrize("version", ["", "2025-10", "2026-04", "2026-07", "2026-01.alpha"])
def test_documents_search_of_the_preview_is_left_alone_because_widening_would_answer_what_it_refuses(
    version: str,
) -> None:
    documents, *others = (
        classify(RequestHead(method="POST", path=path, host=HOST, version=version))
        for path in ("/namespaces/ns/documents/search", "/query", "/records/namespaces/ns/search")
    )
    assert (documents is None) is (version == "2026-01.alpha")
    assert None not in others


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/query", "query"),
        ("//query", "query"),
        ("/records/namespaces/ns/search", "records_search"),
        ("//records/namespaces/ns/search", "records_search"),
        ("/records/namespaces/a%2Fb%20c%25d/search", "records_search"),
        ("/records/namespaces/a/b%20c%d/search", "records_search"),
        ("/records/namespaces//search", "records_search"),
        ("/records/namespaces/%2E%2E/search", "records_search"),
        ("/records/namespaces/search/search", "records_search"),
        ("/records/namespaces/größe/search", "records_search"),
        ("/namespaces/ns/documents/search", "documents_search"),
        ("/namespaces/__default__/documents/search", "documents_search"),
        ("/namespaces/a%2Fb/documents/search", "documents_search"),
    ],
)
def test_each_ranked_search_is_named_in_every_form_that_clients_send(path: str, name: str) -> None:
    assert named(path) == name


@pytest.mark.parametrize(
    ("path", "partition"),
    [
        ("/query", ""),
        ("/records/namespaces/ns/search", "ns"),
        ("//records/namespaces/a%2Fb%20c%25d/search", "a%2Fb%20c%25d"),
        ("/records/namespaces/a/b%20c%d/search", "a/b%20c%d"),
        ("/records/namespaces//search", ""),
        ("/records/namespaces/search/search", "search"),
        ("/namespaces/ns/documents/search", "ns"),
    ],
)
def test_the_namespace_in_a_path_is_kept_as_it_is_spelled(path: str, partition: str) -> None:
    operation = classify(RequestHead(method="POST", path=path))
    assert operation is not None
    assert operation.partition == partition


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "query",
        "/query/",
        "/Query",
        "/query/x",
        "/x/query",
        "/VectorService/Query",
        "/vectors/fetch",
        "/vectors/upsert",
        "/describe_index_stats",
        "/records/namespaces/ns/upsert",
        "/records/namespaces/search",
        "/records/namespaces/ns/search/",
        "/records/namespaces/../search",
        "/records/namespaces/./search",
        "/records/search",
        "/namespaces/documents/search",
        "/namespaces/../documents/search",
        "/namespaces/ns/documents/fetch",
        "/namespaces/ns/search",
        "/namespaces",
        "/indexes",
        "/rerank",
        "/_i/docs-abc123.svc.pinecone.io/query",
        "/collections/docs/points/query",
    ],
)
def test_everything_else_goes_through(path: str) -> None:
    assert named(path) is None


@pytest.mark.parametrize("method", ["GET", "PUT", "HEAD", "OPTIONS", "post", ""])
def test_only_posts_are_searches(method: str) -> None:
    assert named("/query", method=method) is None


def test_only_json_is_read() -> None:
    assert named("/query", content_type="") == "query"
    assert named("/query", content_type="application/json; charset=utf-8") == "query"
    assert named("/records/namespaces/ns/search", content_type="application/x-ndjson") is None


@pytest.mark.parametrize(
    ("host", "index"),
    [
        (HOST, "docs-abc123"),
        (HOST + ":443", "docs-abc123"),
        ("docs-abc123.svc.private.aped-4627-b74a.pinecone.io", "docs-abc123"),
        ("", ""),
        ("localhost:5081", "localhost:5081"),
        ("127.0.0.1:5081", "127.0.0.1:5081"),
        ("[::1]:5081", "[::1]:5081"),
        ("[::ffff:1.2.3.4]", "[::ffff:1.2.3.4]"),
    ],
)
def test_an_index_is_called_by_what_tells_its_host_apart(host: str, index: str) -> None:
    operation = classify(RequestHead(method="POST", path="/query", host=host))
    assert operation == Operation(backend="pinecone", name="query", collection=index)


@pytest.mark.parametrize(
    ("host", "name"),
    [
        ("docs-abc.svc.x.pinecone.io", "docs-abc"),
        ("127.0.0.1:5081", "127.0.0.1:5081"),
        ("vs.example:6343/_i/docs-abc.svc.x.pinecone.io", "docs-abc"),
        ("vs.example/_i/vs2.example/_i/docs-abc.svc.x.pinecone.io", "docs-abc"),
        ("vs.example/_i/127.0.0.1:5081", "127.0.0.1:5081"),
        ("vs.example/_i/gateway.corp/pinecone/docs", "gateway.corp/pinecone/docs"),
        ("gateway.corp/pinecone/docs", "gateway.corp/pinecone/docs"),
        ("gateway.corp/_i/", "gateway.corp/_i/"),
    ],
)
def test_an_index_is_called_by_what_tells_it_from_others_behind_the_same_host(host: str, name: str) -> None:
    assert index_of(host) == name
