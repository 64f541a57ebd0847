"""Which requests are searches, which change an index, and what errors look like."""

from __future__ import annotations

import json

import pytest

from support.backends.transports import REST, operation_of
from vecsieve.adapters.contract import RequestHead
from vecsieve.adapters.opensearch.calls import OpenSearchDialect, collection_of, reshaped

DIALECT = OpenSearchDialect()


@pytest.mark.parametrize(
    ("path", "collection"),
    [
        ("/docs/_search", "docs"),
        ("/a%20b,logs-*/_search", "a b,logs-*"),
        ("/%3Clogs-%7Bnow%2Fd%7D%3E/_search", "<logs-{now/d}>"),
        ("/eu:docs/_search", "eu:docs"),
        ("/.ds-docs/_search", ".ds-docs"),
        ("/_all/_search", "_all"),
        ("/_search", "_all"),
        ("/docs/_msearch", "docs"),
        ("/_msearch", ""),
    ],
)
@pytest.mark.parametrize("method", ["POST", "GET"])
@pytest.mark.parametrize("backend", ["opensearch", "elasticsearch"])
def test_the_collection_is_the_index_as_written(backend: str, method: str, path: str, collection: str) -> None:
    operation = operation_of(REST[backend].adapter(), RequestHead(method=method, path=path, query="pretty"))
    assert (operation.backend, operation.collection, operation.partition) == (backend, collection, "pretty")


@pytest.mark.parametrize(
    ("method", "path", "content_type"),
    [
        ("PUT", "/docs/_search", ""),
        ("POST", "/docs/type/_search", ""),
        ("POST", "/_plugins/_search", ""),
        ("POST", "/docs/_search/template", ""),
        ("POST", "/docs/_msearch/template", ""),
        ("POST", "/_search/scroll", ""),
        ("POST", "/docs/_search/point_in_time", ""),
        ("POST", "/docs/_async_search", ""),
        ("POST", "/_sql", ""),
        ("POST", "/_query", ""),
        ("POST", "/docs/_count", ""),
        ("POST", "/%ff/_search", ""),
        ("POST", "/../_search", ""),
        ("POST", "/docs/_search", "application/cbor"),
        ("POST", "/docs/_search", "application/x-ndjson"),
        ("POST", "/docs/_msearch", "text/plain"),
    ],
)
def test_any_other_request_is_no_search(method: str, path: str, content_type: str) -> None:
    head = RequestHead(method=method, path=path, content_type=content_type)
    assert REST["opensearch"].adapter().classify(head) is None


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        ("/docs/_search", "application/json; charset=utf-8"),
        ("/docs/_search", "application/vnd.elasticsearch+json; compatible-with=9"),
        ("/docs/_msearch", "application/x-ndjson"),
        ("/docs/_msearch", "application/vnd.elasticsearch+x-ndjson;compatible-with=8"),
    ],
)
def test_the_content_types_of_clients_are_known(path: str, content_type: str) -> None:
    head = RequestHead(method="POST", path=path, content_type=content_type)
    assert REST["elasticsearch"].adapter().classify(head) is not None


@pytest.mark.parametrize(
    ("line", "is_touched"),
    [
        ("DELETE /docs", True),
        ("PUT /docs", True),
        ("PUT /docs/_mapping", True),
        ("POST /_aliases", True),
        ("POST /_reindex", True),
        ("POST /docs/_close", True),
        ("POST /docs/_from_a_later_version", True),
        ("POST /_snapshot/r/s/_restore", True),
        ("GET /docs/_mapping", False),
        ("POST /docs/_search", False),
        ("POST /_bulk", False),
        ("PUT /docs/_doc/a%2Fb", False),
        ("DELETE /docs/_doc/1", False),
        ("POST /docs/_update/1", False),
        ("POST /docs/_delete_by_query", False),
        ("POST /docs/_pit", False),
        ("POST /_search/scroll", False),
        ("POST /_query", False),
    ],
)
def test_requests_that_change_an_index_unseen(line: str, *, is_touched: bool) -> None:
    method, path = line.split(" ")
    assert (reshaped(RequestHead(method=method, path=path)) is not None) == is_touched


@pytest.mark.parametrize(
    ("path", "index"), [("/docs/_count", "docs"), ("/a%20b/_doc/1", "a b"), ("/_bulk", "_bulk"), ("/", ""), ("*", "")]
)
def test_other_requests_name_their_index_in_the_same_place(path: str, index: str) -> None:
    assert collection_of(RequestHead(method="GET", path=path)) == index


def test_an_error_has_the_shape_of_the_servers() -> None:
    answer = DIALECT.error(503, 'no "database"')
    reason = {"type": "service_unavailable_exception", "reason": 'no "database"'}
    assert json.loads(answer.body) == {"error": {"root_cause": [reason], **reason}, "status": 503}


@pytest.mark.parametrize(
    ("status", "reason", "limit"),
    [
        (
            400,
            "Result window is too large, from + size must be less than or equal to: [500] but was [640]. See the",
            500,
        ),
        (
            500,
            "Result window is too large, from + size must be less than or equal to: [500] but was [640]. See the",
            500,
        ),
        (400, "[num_candidates] cannot exceed [10000]", None),
        (
            404,
            "Result window is too large, from + size must be less than or equal to: [500] but was [640]. See the",
            None,
        ),
    ],
)
def test_a_smaller_window_is_read_from_the_refusal(status: int, reason: str, limit: int | None) -> None:
    body = json.dumps({"error": {"root_cause": [{"type": "x", "reason": reason}], "reason": "all shards failed"}})
    assert DIALECT.refused_limit(status, body.encode()) == limit
