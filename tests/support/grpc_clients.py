"""The official client over gRPC, and what a gRPC error says."""

from __future__ import annotations

import grpc
from qdrant_client import QdrantClient


def over_grpc(url: str, grpc_url: str) -> QdrantClient:
    """A client that asks at `grpc_url`; the version check of its constructor goes to `url`."""
    return QdrantClient(url=url, grpc_port=int(grpc_url.rsplit(":", 1)[1]), prefer_grpc=True, timeout=30)


def code_of(error: grpc.RpcError) -> grpc.StatusCode:
    assert isinstance(error, grpc.Call)
    return error.code()


def details_of(error: grpc.RpcError) -> str | None:
    assert isinstance(error, grpc.Call)
    return error.details()
