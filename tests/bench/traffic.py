"""The requests of the benchmarks: the store's questions, as a client words them and as VecSieve widens them, over both transports."""

from __future__ import annotations

from typing import Any, cast

import orjson
from qdrant_client.grpc import points_pb2

from bench.contenders import Database
from bench.database import POOL
from bench.grpc_database import QUERY
from bench.load import Order, Request, Script, ask
from bench.store import Store

TOP_K = 10
WARM_QUESTIONS = 200  # few enough that a warm-up meets all their points
LEAST_WARM_ROUNDS, MOST_WARM_ROUNDS = 7, 15
SETTLED = 0.9

# The stubs are generated at import and have no types.
_stubs = cast(Any, points_pb2)


def searches(
    store: Store, kind: str, *, widened: bool = False, is_grpc: bool = False, order: Order = "turn", questions: int = 0
) -> Script:
    """A search of 10 for each of the first questions, or of 50 with vectors. ``kind``: of pools (bench.database)."""
    collection = f"{kind}{store.vectors.shape[1]}"
    vectors = store.questions[: questions or WARM_QUESTIONS].tolist()
    limit = POOL if widened else TOP_K
    made = [
        call(collection, vector, limit=limit, with_vectors=widened)
        if is_grpc
        else post(collection, vector, limit=limit, with_vectors=widened)
        for vector in vectors
    ]
    return Script(requests=made, order=order)


def warm(script: Script, port: int, upstream: Database) -> None:
    """Ask every question again and again until the database sends no less than the round before: what can be known is known."""
    before = float("inf")
    for number in range(MOST_WARM_ROUNDS):
        begun = upstream.moved()["bytes"]
        ask(script, port, count=len(script.requests), seed=number)
        moved = upstream.moved()["bytes"] - begun
        if number >= LEAST_WARM_ROUNDS and moved > SETTLED * before:
            return
        before = moved


def post(collection: str, question: list[float], *, limit: int, with_vectors: bool) -> Request:
    """As the official Python client sends it for query_points."""
    body = {"query": {"nearest": question}, "limit": limit, "with_vector": with_vectors, "with_payload": True}
    return Request(method="POST", path=f"/collections/{collection}/points/query", body=orjson.dumps(body))


def call(collection: str, question: list[float], *, limit: int, with_vectors: bool) -> Request:
    """The same as a message."""
    message = _stubs.QueryPoints(collection_name=collection, limit=limit)
    message.query.nearest.dense.data.extend(question)
    message.with_payload.enable = True
    message.with_vectors.enable = with_vectors
    return Request(method="POST", path=QUERY, body=message.SerializeToString(), is_grpc=True)
