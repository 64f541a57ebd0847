"""The table of RPCs against the service definitions the official client ships."""

from __future__ import annotations

import importlib

import pytest
from servers.qdrant.grpc_server import METHODS

# What the engine's binding or one process does not have.
NOT_SERVED = {
    "/qdrant.Points/CreateVectorName",
    "/qdrant.Points/DeleteVectorName",
    "/qdrant.Points/SearchMatrixPairs",
    "/qdrant.Points/SearchMatrixOffsets",
    "/qdrant.Collections/CollectionClusterInfo",
    "/qdrant.Collections/UpdateCollectionClusterSetup",
    "/qdrant.Collections/CreateShardKey",
    "/qdrant.Collections/DeleteShardKey",
    "/qdrant.Collections/ListShardKeys",
}


def defined() -> dict[str, tuple[str, str]]:
    found = {}
    for module in ("points_service_pb2", "collections_service_pb2"):
        services = importlib.import_module(f"qdrant_client.grpc.{module}").DESCRIPTOR.services_by_name.values()
        for service in services:
            for method in service.methods:
                path = f"/{service.full_name}/{method.name}"
                found[path] = (method.input_type.name, method.output_type.name)
    return found


@pytest.mark.parametrize("path", METHODS)
def test_a_method_takes_and_gives_the_messages_of_its_definition(path: str) -> None:
    assert (METHODS[path].request, METHODS[path].reply) == defined()[path]


def test_nothing_else_is_left_out() -> None:
    assert defined().keys() - METHODS.keys() <= NOT_SERVED
