"""The same requests and replies as Qdrant's REST bodies, as its gRPC messages."""

from __future__ import annotations

import json
from typing import Any, cast

from qdrant_client.conversions.conversion import json_to_value
from qdrant_client.grpc import points_pb2

from bench.pools import Sample

# The stubs are generated at import and have no types.
_stubs = cast(Any, points_pb2)


def query_request(collection: str, sample: Sample, *, limit: int) -> bytes:
    """The message that the official Python client sends for query_points."""
    message = _stubs.QueryPoints(collection_name=collection, limit=limit)
    message.query.nearest.dense.data.extend(sample.query.tolist())
    message.with_payload.enable = True
    message.with_vectors.enable = False
    return cast(bytes, message.SerializeToString())


def query_reply(sample: Sample, rest: bytes) -> bytes:
    """The reply with every candidate of the pool. ``rest``: the same reply's JSON, for all but the vectors."""
    message = _stubs.QueryResponse(time=0.001234567)
    for shown, vector in zip(json.loads(rest)["result"]["points"], sample.vectors, strict=True):
        point = message.result.add(version=shown["version"], score=shown["score"])
        point.id.num = shown["id"]
        for key, value in shown["payload"].items():
            point.payload[key].CopyFrom(json_to_value(value))
        point.vectors.vector.dense.data.extend(vector.tolist())
    return cast(bytes, message.SerializeToString())


def shown(message: bytes) -> list[tuple[int, bool]]:
    """Of each point of a reply its number, and whether it has vectors."""
    reply = _stubs.QueryResponse.FromString(message)
    return [(point.id.num, point.HasField("vectors")) for point in reply.result]
