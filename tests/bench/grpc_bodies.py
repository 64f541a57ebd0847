"""The same replies as Qdrant's REST bodies, as its gRPC messages."""

from __future__ import annotations

import json
from typing import Any, cast

from qdrant_client.conversions.conversion import json_to_value
from qdrant_client.grpc import points_pb2

from bench.pools import Sample

# The stubs are generated at import and have no types.
_stubs = cast(Any, points_pb2)


def query_reply(sample: Sample, rest: bytes) -> bytes:
    """The reply with every candidate of the pool. ``rest``: the same reply's JSON, for all but the vectors."""
    message = _stubs.QueryResponse(time=0.001234567)
    for hit, vector in zip(json.loads(rest)["result"]["points"], sample.vectors, strict=True):
        point = message.result.add(version=hit["version"], score=hit["score"])
        point.id.num = hit["id"]
        for key, value in hit["payload"].items():
            point.payload[key].CopyFrom(json_to_value(value))
        point.vectors.vector.dense.data.extend(vector.tolist())
    return cast(bytes, message.SerializeToString())
