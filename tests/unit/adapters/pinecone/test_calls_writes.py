"""What may change records, told by method and path: reads are known by name, all else is a write."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.contract import RequestHead, Touched
from vecsieve.adapters.pinecone.calls import classify, touched

HOST = "docs-abc123.svc.aped-4627-b74a.pinecone.io"


def head(method: str, path: str, host: str = HOST) -> RequestHead:
    return RequestHead(method=method, path=path, content_type="application/json", host=host)


@pytest.mark.parametrize(
    "path",
    [
        "/query",
        "//query",
        "/describe_index_stats",
        "/vectors/fetch_by_metadata",
        "/records/namespaces/a/search",
        "/records/namespaces//search",
        "/namespaces/a%2Fb/documents/search",
        "/namespaces/a/documents/fetch",
        "/namespaces/a/documents/list",
        "/embed",
        "/rerank",
    ],
)
def test_what_only_reads_touches_nothing(path: str) -> None:
    assert touched(head("POST", path)) is None


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_a_safe_method_touches_nothing(method: str) -> None:
    assert touched(head(method, "/vectors/upsert")) is None


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/vectors/upsert"),
        ("POST", "//vectors/upsert"),
        ("POST", "/vectors/update"),
        ("POST", "/vectors/delete"),
        ("POST", "/records/namespaces/a/upsert"),
        ("POST", "/namespaces/a/documents/upsert"),
        ("POST", "/namespaces/a/documents/delete"),
        ("DELETE", "/namespaces/a"),
        ("DELETE", "/query"),
        ("POST", "/bulk/imports"),
        ("BREW", "/vectors/list"),
        ("POST", "/namespaces/../vectors/upsert/documents/fetch"),
    ],
)
def test_everything_else_touches_its_whole_index(method: str, path: str) -> None:
    assert touched(head(method, path)) == Touched(collection="docs-abc123")


def test_the_name_is_the_one_that_searches_of_the_index_have() -> None:
    found = classify(head("POST", "/query"))
    written = touched(head("POST", "/vectors/upsert"))
    assert found is not None
    assert written is not None
    assert found.collection == written.collection


@pytest.mark.parametrize("method", ["DELETE", "POST", "PATCH"])
def test_a_change_to_the_control_plane_may_touch_any_index(method: str) -> None:
    assert touched(head(method, "/indexes/docs", host="")) == Touched(collection=None)


@given(method=st.text(max_size=9), path=st.text(max_size=60), host=st.text(max_size=30))
def test_any_request_is_told(method: str, path: str, host: str) -> None:
    """Invariant: total; what is not safe by its method and not known to read touches something."""
    found = touched(RequestHead(method=method, path=path, host=host))
    assert found is None or isinstance(found, Touched)
    if method not in {"GET", "HEAD", "OPTIONS", "POST"}:
        assert found is not None


@pytest.mark.parametrize("path", ["/a/call/of/tomorrow", "/", "//", "/pinecone/docs/of/tomorrow"])
def test_what_is_no_path_of_an_index_may_touch_any_of_those_behind_its_host(path: str) -> None:
    assert touched(head("POST", path)) == Touched(collection=None)
