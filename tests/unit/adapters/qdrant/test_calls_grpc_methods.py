from __future__ import annotations

import pytest
from qdrant_client.grpc import points_service_pb2

from support.grpc.wire_fields import number_field
from vecsieve.adapters.contract import Operation, RequestHead
from vecsieve.adapters.qdrant.calls import METHODS, ROUTES, classify_grpc
from vecsieve.adapters.wire.protobuf import length_field

NAMED = length_field(1, "größe".encode())


def head(path: str, message: bytes = NAMED, method: str = "POST") -> RequestHead:
    return RequestHead(method=method, path=path, message=message)


def test_every_ranked_method_has_the_name_of_its_rest_endpoint() -> None:
    assert sorted(METHODS.values()) == sorted(ROUTES.values())
    for path, name in METHODS.items():
        assert classify_grpc(head(path)) == Operation(backend="qdrant", name=name, collection="größe")


def test_the_methods_are_those_of_the_service() -> None:
    service = points_service_pb2.DESCRIPTOR.services_by_name["Points"]
    ours = {path.rpartition("/")[2] for path in METHODS}
    assert ours <= {method.name for method in service.methods}
    assert {path.rpartition("/")[0] for path in METHODS} == {f"/{service.full_name}"}


@pytest.mark.parametrize(
    "path",
    [
        "/qdrant.Points/QueryGroups",
        "/qdrant.Points/SearchGroups",
        "/qdrant.Points/Scroll",
        "/qdrant.Points/Upsert",
        "/qdrant.Points/query",
        "/qdrant.Points/Query/",
        "qdrant.Points/Query",
        "/qdrant.PointsInternal/Query",
        "",
    ],
)
def test_everything_else_is_none_of_ours(path: str) -> None:
    assert classify_grpc(head(path)) is None


@pytest.mark.parametrize(
    "message", [b"", b"\xff", number_field(1, 1), NAMED * 2, length_field(1, b"\xff"), b"\x0a\x09"]
)
def test_a_message_that_does_not_tell_its_collection_still_names_the_operation(message: bytes) -> None:
    found = classify_grpc(head("/qdrant.Points/Search", message))
    assert found == Operation(backend="qdrant", name="search", collection="")
