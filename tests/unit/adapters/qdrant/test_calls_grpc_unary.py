"""What is taken for a call of one message each way is one, by the official client's own description."""

from __future__ import annotations

from qdrant_client.grpc import collections_service_pb2, points_service_pb2, qdrant_pb2, snapshots_service_pb2

from vecsieve.adapters.qdrant.calls import METHODS, UNARY

MODULES = (points_service_pb2, collections_service_pb2, snapshots_service_pb2, qdrant_pb2)


def described() -> dict[str, bool]:
    """Every method of the client, and whether it streams."""
    return {
        f"/{service.full_name}/{method.name}": method.client_streaming or method.server_streaming
        for module in MODULES
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }


def test_every_method_is_one_of_the_client_and_none_streams() -> None:
    known = described()
    own = {path for path in UNARY if path.startswith("/qdrant.")}
    assert own <= known.keys()
    assert not [path for path in own if known[path]]


def test_a_method_that_a_newer_client_has_is_noticed() -> None:
    assert {path for path, streams in described().items() if not streams} <= UNARY


def test_every_search_is_among_them() -> None:
    assert set(METHODS) <= UNARY
