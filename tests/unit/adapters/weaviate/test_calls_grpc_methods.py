from __future__ import annotations

import pytest

from support.grpc.wire_fields import number_field
from vecsieve.adapters.contract import Operation, RequestHead
from vecsieve.adapters.weaviate.calls import PATH, UNARY, classify
from vecsieve.adapters.wire.protobuf import length_field

NAMED = length_field(1, b"Docs")
TENANT = length_field(10, "größe".encode())


def head(path: str = PATH, message: bytes = NAMED, method: str = "POST") -> RequestHead:
    return RequestHead(method=method, path=path, message=message)


def test_a_search_is_named_and_so_is_its_collection() -> None:
    assert classify(head()) == Operation(backend="weaviate", name="search", collection="Docs")


def test_a_tenant_stands_behind_its_collection() -> None:
    assert classify(head(message=TENANT + NAMED)) == Operation(
        backend="weaviate", name="search", collection="Docs/größe"
    )
    assert classify(head(message=NAMED + length_field(10, b""))) == classify(head())


@pytest.mark.parametrize(
    "path",
    [
        "/weaviate.v1.Weaviate/BatchObjects",
        "/weaviate.v1.Weaviate/Aggregate",
        "/weaviate.v1.Weaviate/search",
        "/weaviate.v0.Weaviate/Search",
        "/grpc.health.v1.Health/Check",
        "",
    ],
)
def test_everything_else_is_none_of_ours(path: str) -> None:
    assert classify(head(path)) is None


def test_only_a_post_is_a_call() -> None:
    assert classify(head(method="GET")) is None


@pytest.mark.parametrize("message", [b"", b"\xff", number_field(1, 1), NAMED * 2, length_field(1, b"\xff")])
def test_a_message_that_does_not_tell_its_collection_still_names_the_operation(message: bytes) -> None:
    assert classify(head(message=message)) == Operation(backend="weaviate", name="search", collection="")


def test_what_streams_is_not_taken_for_a_call_of_one_message() -> None:
    assert PATH in UNARY
    assert "/grpc.health.v1.Health/Check" in UNARY
    assert not any("Stream" in path for path in UNARY)
