"""The official client over gRPC, and what a gRPC error says."""

from __future__ import annotations

import grpc
from qdrant_client import QdrantClient


def over_grpc(url: str, grpc_url: str) -> QdrantClient:
    """A client that asks at `grpc_url`. No version check: its thread outlives short tests, and its warning fails another."""
    return QdrantClient(
        url=url, grpc_port=int(grpc_url.rsplit(":", 1)[1]), prefer_grpc=True, timeout=30, check_compatibility=False
    )


def code_of(error: grpc.RpcError) -> grpc.StatusCode:
    assert isinstance(error, grpc.Call)
    return error.code()


def details_of(error: grpc.RpcError) -> str | None:
    assert isinstance(error, grpc.Call)
    return error.details()
