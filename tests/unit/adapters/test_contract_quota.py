"""What each backend says when too much was asked for in a while, and what only looks like it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.transports import GRPC, REST
from vecsieve.adapters.backends import Transport
from vecsieve.adapters.base import GrpcDialect, RestDialect, is_oversized
from vecsieve.adapters.contract import RequestHead

LIMITED = b"rate limit exceeded[rate=0.1]"


@pytest.mark.parametrize("backend", REST)
@pytest.mark.parametrize(("status", "expected"), [(429, True), (200, False), (400, False), (413, False), (503, False)])
def test_over_http_429_says_so_whatever_the_body(backend: str, status: int, expected: bool) -> None:
    assert REST[backend].dialect().is_quota(status, b"") is expected


@pytest.mark.parametrize("backend", GRPC)
@pytest.mark.parametrize(("code", "expected"), [(8, True), (0, False), (2, False), (3, False), (14, False)])
def test_over_grpc_resource_exhausted_says_so(backend: str, code: int, expected: bool) -> None:
    assert GRPC[backend].dialect().is_quota(code, b"words") is expected


@pytest.mark.parametrize(
    "words",
    [
        b"grpc: received message larger than max (5000000 vs. 4194304)",
        b"gRPC message exceeds maximum size 4194304: 5000000",
    ],
)
def test_a_message_too_long_for_one_of_the_ends_is_nobodys_quota(words: bytes) -> None:
    assert is_oversized(8, words)
    assert not GrpcDialect().is_quota(8, words)
    assert not is_oversized(2, words)


def test_weaviate_says_it_in_words() -> None:
    dialect = GRPC["weaviate"].dialect()
    assert dialect.is_quota(2, b"explorer: 429 Too many requests")
    assert not dialect.is_quota(0, b"429 Too many requests")


def milvus_status(code: int, reason: bytes, *, field: int = 3) -> bytes:
    inner = bytes([field << 3, code, 2 << 3 | 2, len(reason)]) + reason
    return bytes([1 << 3 | 2, len(inner)]) + inner


@pytest.mark.parametrize("field", [1, 3])
@pytest.mark.parametrize(
    ("code", "reason", "expected"),
    [
        (8, LIMITED, True),
        (9, b"quota exceeded[reason=memory]", True),
        (49, b"request is rejected by grpc RateLimiter middleware, please retry later", True),
        (8, b"invalid topk", False),
        (0, LIMITED, False),
    ],
)
def test_milvus_says_it_in_the_status_of_a_success(code: int, reason: bytes, expected: bool, field: int) -> None:
    message = milvus_status(code, reason, field=field)
    assert GRPC["milvus"].dialect().is_quota_in_success(message) is expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b'{"code":8,"message":"' + LIMITED + b'"}', True),
        (b'{ "code": 1807, "message": "request is rejected by grpc RateLimiter middleware" }', True),
        (b'{"code":0,"cost":1,"data":[{"text":"rate limit exceeded"}]}', False),
        (b'{"code":0,"message":"rate limit exceeded"}', False),
        (b'{"code":1100,"message":"field \\"rate\\" not found","more":"rate limit exceeded"}', False),
        (b"", False),
    ],
)
def test_milvus_says_it_over_rest_with_status_200(body: bytes, expected: bool) -> None:
    assert REST["milvus"].dialect().is_quota_in_success(body) is expected


@pytest.mark.parametrize("status", [3, 400, 422, 500])
@given(body=st.binary(max_size=80) | st.text(st.characters(exclude_categories=["Cs"])).map(str.encode))
def test_any_refusal_shows_a_limit_or_an_unknown_vector_by_the_servers_words_alone(status: int, body: bytes) -> None:
    """Total: other words are evidence of nothing, and no dialect fails at them."""
    for dialect in (transport.dialect() for table in (REST, GRPC) for transport in table.values()):
        assert dialect.refused_limit(status, body) is None
        assert not dialect.names_unknown_vector(status, body)


@given(data=st.binary(max_size=200))
def test_any_bytes_are_judged_without_an_exception(data: bytes) -> None:
    """Total: whatever a database sends as a success, every dialect says yes or no, and only Milvus ever says yes."""
    for table in (REST, GRPC):
        for backend, transport in table.items():
            is_quota = transport.dialect().is_quota_in_success(data)
            assert backend == "milvus" or not is_quota


@given(status=st.integers(100, 599))
def test_no_other_status_says_so(status: int) -> None:
    """Only 429 does."""
    assert RestDialect().is_quota(status, b"") is (status == 429)


@pytest.mark.parametrize(
    ("path", "collection"),
    [
        ("/collections/c/points/scroll", "c"),
        ("//collections/a%20b/points/", "a b"),
        ("/collections/c", "c"),
        ("/collections", ""),
        ("/collections/%ff", ""),
        ("/", ""),
        ("/telemetry/x", ""),
    ],
)
def test_qdrants_paths_name_their_collection(path: str, collection: str) -> None:
    assert REST["qdrant"].collection_of(RequestHead(method="POST", path=path)) == collection


def test_qdrants_calls_name_their_collection_in_the_message() -> None:
    named = GRPC["qdrant"].collection_of
    message = b"\x0a\x01c"
    assert named(RequestHead(method="POST", path="/qdrant.Points/Scroll", message=message)) == "c"
    assert named(RequestHead(method="POST", path="/qdrant.Collections/Get", message=message)) == ""
    assert named(RequestHead(method="POST", path="/qdrant.Points/Scroll", message=b"\x0a\x09c")) == ""


@pytest.mark.parametrize("table", [REST, GRPC])
def test_pinecones_index_is_its_host(table: dict[str, Transport]) -> None:
    named = table["pinecone"].collection_of
    host = "docs-abc123.svc.aped-4627-b74a.pinecone.io"
    assert named(RequestHead(method="GET", path="/vectors/list", host=host)) == "docs-abc123"
    assert named(RequestHead(method="GET", path="/indexes")) == ""


def test_elsewhere_nobody_can_tell() -> None:
    assert (
        REST["chroma"].collection_of(RequestHead(method="GET", path="/api/v2/tenants/t/databases/d/collections/1/get"))
        == ""
    )
