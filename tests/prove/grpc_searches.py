"""Two collections for the gRPC database: a tiny one, and one of usual vectors; the searches for them, and what they find."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from bench.bodies import query_reply as rest_reply
from bench.pools import Sample, sample
from qdrant_client import grpc as pb
from qdrant_client.conversions.conversion import json_to_value
from qdrant_client.grpc import points_pb2

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


TINY, LARGE = ("c", 8, 4), ("large", 200, 768)  # name, points, dimensions
TOP_K, CANDIDATES = 10, 30


@lru_cache(maxsize=2)
def _pool(points: int, dimensions: int) -> Sample:
    return sample(points, dimensions, seed=dimensions)


def query(collection: tuple[str, int, int], *, limit: int, with_vectors: bool = False) -> bytes:
    """A search message, as a client words it or as the proxy widens it."""
    name, points, dimensions = collection
    nearest = pb.VectorInput(dense=pb.DenseVector(data=_pool(points, dimensions).query.tolist()))
    message: Any = pb.QueryPoints(collection_name=name, limit=limit, query=pb.Query(nearest=nearest))
    message.with_vectors.enable = with_vectors
    message.with_payload.enable = True
    return cast(bytes, message.SerializeToString())


def write_rankings(file: Path) -> None:
    """What the database is to find."""
    file.write_text(json.dumps({ranking[0]: _ranking(*ranking[1:]) for ranking in (TINY, LARGE)}), encoding="ascii")


def _ranking(points: int, dimensions: int) -> list[tuple[str, str]]:
    pool = _pool(points, dimensions)
    reply: Any = pb.QueryResponse.FromString(query_reply(pool, rest_reply(pool, seed=dimensions)))
    made = []
    for point in reply.result:
        whole = point.SerializeToString()
        point.ClearField("vectors")
        made.append((point.SerializeToString().hex(), whole.hex()))
    return made
