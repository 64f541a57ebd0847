"""The gRPC shell: older RPCs answer as REST does, and what cannot be answered is told as the server tells it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import numpy as np
import pytest
from servers.qdrant.grpc_messages import messages, said, to_rest
from servers.qdrant.grpc_server import METHODS
from servers.qdrant.server import QdrantServer

from support.embedded import embedded_server, exchange
from vecsieve.proxy.demo.embedded.rest import ABOUT

SETTINGS = {"vectors": {"size": 2, "distance": "Dot"}, "sparse_vectors": {"sp": {}}}
POINTS = [
    {"id": n, "vector": {"": [n, 1], "sp": {"indices": [n % 3], "values": [n]}}, "payload": {"g": n % 2}}
    for n in range(1, 9)
]


class Caller:
    """Raw calls on one channel, next to the REST interface of the same server."""

    def __init__(self, server: QdrantServer, channel: grpc.aio.Channel) -> None:
        self._server = server
        self._channel = channel

    async def raw(self, path: str, body: bytes, **metadata: str) -> bytes:
        given = tuple((name.replace("_", "-"), value) for name, value in metadata.items())
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(path)
        return await call(body, metadata=given, timeout=20)

    async def ask(self, path: str, **fields: Any) -> Any:
        method = METHODS[path]
        message = getattr(messages(), method.request)(collection_name="c", **fields)
        return getattr(messages(), method.reply).FromString(await self.raw(path, message.SerializeToString()))

    async def rest(self, path: str, body: object, verb: str = "POST") -> Any:
        answer = await asyncio.to_thread(exchange, self._server.url, verb, path, body)
        assert answer.status == 200, answer.body
        return single(answer.json["result"])


@asynccontextmanager
async def caller(*, api_key: str | None = None) -> AsyncIterator[Caller]:
    async with embedded_server(api_key=api_key, with_grpc=True) as server:
        assert server.grpc_url is not None
        async with grpc.aio.insecure_channel(server.grpc_url.removeprefix("http://")) as channel:
            yield Caller(server, channel)


@asynccontextmanager
async def filled() -> AsyncIterator[Caller]:
    async with caller() as asked:
        await asked.rest("/collections/c", SETTINGS, "PUT")
        await asked.rest("/collections/c/points?wait=true", {"points": POINTS}, "PUT")
        yield asked


def single(value: Any) -> Any:
    """JSON with its floats as float32: REST prints the shortest digits of one, a message holds it."""
    if isinstance(value, dict):
        return {name: single(item) for name, item in value.items()}
    if isinstance(value, list):
        return [single(item) for item in value]
    return float(np.float32(value)) if isinstance(value, float) else value


def shown(points: Any) -> list[dict[str, Any]]:
    return [
        {name: value for name, value in said(to_rest().convert_scored_point(point)).items() if value != {}}
        for point in points
    ]


SELECTED = {"with_payload": {"enable": True}, "with_vectors": {"enable": True}}
SELECTED_REST = {"with_payload": True, "with_vector": True}
PAIR = {"positive": {"id": {"num": 1}}, "negative": {"vector": {"data": [0, 1]}}}
LEGACY: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
    ("Search", "search", {"vector": [1, 2], "score_threshold": 4.5}, {"vector": [1, 2], "score_threshold": 4.5}),
    (
        "Search",
        "search",
        {"vector": [1], "sparse_indices": {"data": [2]}, "vector_name": "sp", "offset": 1},
        {"vector": {"name": "sp", "vector": {"indices": [2], "values": [1]}}, "offset": 1},
    ),
    (
        "Recommend",
        "recommend",
        {"positive": [{"num": 1}], "negative_vectors": [{"data": [1, 0]}], "strategy": 1},
        {"positive": [1], "negative": [[1, 0]], "strategy": "best_score"},
    ),
    (
        "Discover",
        "discover",
        {"target": {"single": {"id": {"num": 4}}}, "context": [PAIR]},
        {"target": 4, "context": [{"positive": 1, "negative": [0, 1]}]},
    ),
]


@pytest.mark.parametrize(("name", "path", "fields", "body"), LEGACY)
async def test_the_older_searches_answer_as_over_rest(
    name: str, path: str, fields: dict[str, Any], body: dict[str, Any]
) -> None:
    fields, body = {**fields, **SELECTED, "limit": 3}, {**body, **SELECTED_REST, "limit": 3}
    async with filled() as asked:
        reply = await asked.ask(f"/qdrant.Points/{name}", **fields)
        expected = await asked.rest(f"/collections/c/points/{path}", body)
        assert shown(reply.result) == expected != []
        batch = {f"{name.lower()}_points": [{**fields, "collection_name": "c"}] * 2}
        several = await asked.ask(f"/qdrant.Points/{name}Batch", **batch)
        assert [shown(answer.result) for answer in several.result] == [expected, expected]
        assert reply.time > 0


@pytest.mark.parametrize(("name", "path", "fields", "body"), [LEGACY[0], LEGACY[2]])
async def test_the_older_groups_answer_as_over_rest(
    name: str, path: str, fields: dict[str, Any], body: dict[str, Any]
) -> None:
    asked_for = {"group_by": "g", "group_size": 2, "limit": 2}
    async with filled() as asked:
        reply = await asked.ask(f"/qdrant.Points/{name}Groups", **fields, **SELECTED, **asked_for)
        expected = await asked.rest(f"/collections/c/points/{path}/groups", {**body, **SELECTED_REST, **asked_for})
        groups = [
            {"hits": shown(group.hits), "id": to_rest().convert_group_id(group.id)} for group in reply.result.groups
        ]
        assert groups == expected["groups"] != []


async def refused(asked: Caller, path: str, body: bytes = b"", **metadata: str) -> tuple[grpc.StatusCode, str | None]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await asked.raw(path, body, **metadata)
    return caught.value.code(), caught.value.details()


async def test_what_is_no_message_or_lacks_what_it_must_have_is_told_so() -> None:
    empty_condition = messages().CountPoints(collection_name="c", filter={"must": [{}]}).SerializeToString()
    async with filled() as asked:
        code, words = await refused(asked, "/qdrant.Points/Query", b"\x0a\xff")
        assert (code, words) == (grpc.StatusCode.INTERNAL, "failed to decode Protobuf message: QueryPoints")
        code, words = await refused(asked, "/qdrant.Points/Count", empty_condition)
        assert (code, words) == (grpc.StatusCode.INVALID_ARGUMENT, "invalid Condition model: ")
        code, words = await refused(asked, "/qdrant.Points/Count")
        assert (code, words) == (grpc.StatusCode.NOT_FOUND, "Not found: Collection `` doesn't exist!")


@pytest.mark.parametrize(
    "path", ["/qdrant.Collections/CollectionClusterInfo", "/qdrant.Nothing/Else", "/grpc.health.v1.Health"]
)
async def test_what_is_not_served_is_unimplemented(path: str) -> None:
    async with caller() as asked:
        assert (await refused(asked, path))[0] is grpc.StatusCode.UNIMPLEMENTED


async def test_the_key_opens_everything_and_health_needs_none() -> None:
    async with caller(api_key="s3cret") as asked:
        missing = await refused(asked, "/qdrant.Collections/List")
        wrong = await refused(asked, "/qdrant.Collections/List", api_key="x")
        assert missing == (
            grpc.StatusCode.UNAUTHENTICATED,
            "Must provide an API key or an Authorization bearer token",
        )
        assert wrong == (grpc.StatusCode.UNAUTHENTICATED, "Invalid API key or JWT")
        for given in ({"api_key": "s3cret"}, {"authorization": "Bearer s3cret"}):
            assert await asked.raw("/qdrant.Collections/List", b"", **given)
        about = messages().HealthCheckReply.FromString(await asked.raw("/qdrant.Qdrant/HealthCheck", b""))
        assert (about.title, about.version) == (ABOUT["title"], ABOUT["version"])
        # HealthCheckResponse { status = 1: SERVING }
        assert await asked.raw("/grpc.health.v1.Health/Check", b"") == b"\x08\x01"
