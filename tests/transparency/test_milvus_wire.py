"""Milvus on the wire: questions with the caller's own credentials, refusals inside successes, and REST beside gRPC."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc
import numpy as np
import pytest
from aiohttp import ClientSession, web

from support.grpc.calls import Pairs, ask
from support.grpc.upstream import Arrived, Context, GrpcUpstream, Script, grpc_upstream
from support.milvus.bodies import group
from support.milvus.messages import message_type, pairs
from support.network.http_scripts import on_the_loop
from support.process.running import Running, running

SERVICE = "/milvus.proto.milvus.MilvusService/"
TOP_K, ROWS = 4, 40
# Each direction three times in a row.
VECTORS = np.repeat(np.eye(16, dtype="<f4"), 3, axis=0)[:ROWS] + np.float32(0.01)


def search(topk: int = TOP_K, **params: str) -> bytes:
    message = message_type("SearchRequest")(collection_name="docs", nq=1)
    message.output_fields.append("text")
    message.placeholder_group = group(101, [VECTORS[0].tobytes()])
    pairs(message.search_params, topk=topk, **params)
    raw: bytes = message.SerializeToString()
    return raw


def search_reply(raw: bytes, largest: int = 10_000) -> bytes:
    """What the server answers: the first rows in order, or that this is too many."""
    request = message_type("SearchRequest").FromString(raw)
    topk = next(int(pair.value) for pair in request.search_params if pair.key == "topk")
    reply = message_type("SearchResults")()
    reply.status.SetInParent()
    if topk > largest:
        reply.status.code = 65535
        reply.status.reason = f"topk [{topk}] is invalid, top k should be in range [1, {largest}], but got {topk}"
        refusal: bytes = reply.SerializeToString()
        return refusal
    data, count = reply.results, min(topk, ROWS)
    data.num_queries, data.top_k = 1, count
    for name in request.output_fields:
        column = data.fields_data.add(field_name=name)
        if name == "vec":
            column.vectors.dim = 16
            column.vectors.float_vector.data.extend(VECTORS[:count].ravel().tolist())
        else:
            column.scalars.string_data.data.extend(chr(97 + row // 3) * 40 for row in range(count))
    data.scores.extend(1 - row / 100 for row in range(count))
    data.ids.int_id.data.extend(range(count))
    data.topks.append(count)
    data.output_fields.extend(request.output_fields)
    raw_reply: bytes = reply.SerializeToString()
    return raw_reply


def description() -> bytes:
    message = message_type("DescribeCollectionResponse")(collectionID=1)
    message.schema.fields.add(name="vec", data_type=101, fieldID=100)
    message.schema.fields.add(name="text", data_type=21, fieldID=101)
    raw: bytes = message.SerializeToString()
    return raw


def answering(largest: int = 10_000) -> Script:
    async def play(call: Arrived, context: Context) -> None:
        message = await call.read(context)
        assert message is not None
        await context.write(search_reply(message, largest))

    return play


async def describing(call: Arrived, context: Context) -> None:
    await call.read(context)
    await context.write(description())


async def denying(call: Arrived, context: Context) -> None:
    await call.read(context)
    context.set_code(grpc.StatusCode.PERMISSION_DENIED)


@asynccontextmanager
async def fronted(largest: int = 10_000, describe: Script = describing) -> AsyncIterator[tuple[GrpcUpstream, Running]]:
    async with (
        grpc_upstream(Search=answering(largest), DescribeCollection=describe) as upstream,
        running(f"http://{upstream.address}", backend="milvus", mode="on") as proxy,
    ):
        yield upstream, proxy


async def ids(proxy: Running, message: bytes, metadata: Pairs = ()) -> list[int]:
    seen = await ask(f"127.0.0.1:{proxy.port}", "unary_unary", [message], method=SERVICE + "Search", metadata=metadata)
    assert seen.code is grpc.StatusCode.OK
    return list(message_type("SearchResults").FromString(seen.messages[0]).results.ids.int_id.data)


def methods(upstream: GrpcUpstream) -> list[str]:
    return [call.method.removeprefix(SERVICE) for call in upstream.calls]


async def test_the_collection_is_asked_about_once_with_the_callers_own_metadata() -> None:
    metadata: Pairs = (("authorization", "c2VjcmV0"), ("dbname", "mine"), ("client-request-id", "7"))
    async with fronted() as (upstream, proxy):
        assert await ids(proxy, search(), metadata) == [0, 3, 6, 9]
        assert await ids(proxy, search(), metadata) == [0, 3, 6, 9]
        assert methods(upstream) == ["DescribeCollection", "Search", "Search"]
        for call in upstream.calls:
            assert set(metadata) <= set(call.metadata)
        assert proxy.failed_open() == {}


async def test_rules_match_database_and_collection() -> None:
    async with (
        grpc_upstream(Search=answering(), DescribeCollection=describing) as upstream,
        running(
            f"http://{upstream.address}",
            backend="milvus",
            mode="on",
            rules=({"collection": "mine/docs", "policy": {"fetch": {"floor": TOP_K, "cap": TOP_K}}},),
        ) as proxy,
    ):
        assert await ids(proxy, search(), (("dbname", "mine"),)) == [0, 1, 2, 3]
        assert await ids(proxy, search()) == [0, 3, 6, 9]


async def test_who_may_not_describe_is_answered_plainly_unless_the_request_says_all() -> None:
    async with fronted(describe=denying) as (upstream, proxy):
        assert await ids(proxy, search()) == [0, 1, 2, 3]
        assert await ids(proxy, search()) == [0, 1, 2, 3]
        assert methods(upstream) == ["DescribeCollection", "Search", "Search"], "the refusal is remembered"
        assert await ids(proxy, search(anns_field="vec")) == [0, 3, 6, 9]


async def test_a_limit_refused_inside_a_success_is_answered_by_the_original_and_remembered() -> None:
    async with fronted(largest=12) as (upstream, proxy):
        assert await ids(proxy, search()) == [0, 1, 2, 3]
        assert proxy.failed_open() == {"overfetch_status": 1.0}
        assert await ids(proxy, search()) == [0, 3, 6, 9]
        assert proxy.failed_open() == {"overfetch_status": 1.0}
        assert methods(upstream) == ["DescribeCollection", "Search", "Search", "Search"]


async def test_the_servers_own_refusal_reaches_the_client() -> None:
    async with fronted(largest=3) as (_, proxy):
        address = f"127.0.0.1:{proxy.port}"
        seen = await ask(address, "unary_unary", [search()], method=SERVICE + "Search")
        assert seen.messages == (search_reply(search(), 3),)


@asynccontextmanager
async def rest_server() -> AsyncIterator[tuple[str, list[tuple[str, dict[str, str]]]]]:
    """Version 1, as the real server writes it. What came: targets and header fields."""
    came: list[tuple[str, dict[str, str]]] = []

    async def answer(request: web.Request) -> web.Response:
        came.append((request.path_qs, dict(request.headers)))
        if request.path == "/v1/vector/collections/describe":
            fields = [{"name": "id", "type": "Int64"}, {"name": "vec", "type": "FloatVector(16)"}]
            return web.json_response({"code": 200, "data": {"enableDynamicField": False, "fields": fields}})
        assert request.path == "/v1/vector/search"
        body = json.loads(await request.read())
        rows: list[dict[str, Any]] = []
        for row in range(min(body["limit"], ROWS)):
            made: dict[str, Any] = {"distance": 1 - row / 100, "id": str(row)}
            if "vec" in body.get("outputFields", []):
                made["vec"] = VECTORS[row].tolist()
            rows.append(made)
        return web.json_response(
            {"code": 200, "data": rows}, dumps=lambda value: json.dumps(value, separators=(",", ":"))
        )

    async with on_the_loop(answer) as url:
        yield url, came


async def test_a_search_that_is_refused_with_status_200_is_no_fallback_in_any_mode() -> None:
    refusal = {
        "code": 1100,
        "message": "fail to search: vector dimension mismatch, expected vector size(byte) 64, actual 32",
    }
    described = {"code": 0, "data": {"fields": [{"name": "id", "type": "Int64", "primaryKey": True}, {"name": "vec", "type": "FloatVector"}]}}  # fmt: skip
    body = {"collectionName": "docs", "data": [VECTORS[0].tolist()], "annsField": "vec", "limit": TOP_K}
    async with answering_paths({"collections/describe": described, "entities/search": refusal}) as url:
        for mode in ("on", "shadow"):
            async with running(url, backend="milvus", mode=mode) as proxy, ClientSession() as session:
                target = f"http://127.0.0.1:{proxy.port}/v2/vectordb/entities/search"
                async with session.post(target, json=body) as answer:
                    assert await answer.json() == refusal
                await proxy.process.shadow.settled()
                assert proxy.failed_open() == {}
                assert not proxy.process.shadow.rows
                assert proxy.count("bypass_total", backend="milvus", reason="refused") == 1


@asynccontextmanager
async def answering_paths(answers: dict[str, object]) -> AsyncIterator[str]:
    """The URL of a server that has one answer for each path of version 2."""

    async def answer(request: web.Request) -> web.Response:
        return web.json_response(answers[request.path.removeprefix("/v2/vectordb/")])

    async with on_the_loop(answer) as url:
        yield url


@pytest.mark.parametrize(("mode", "expected"), [("on", ["0", "3", "6", "9"]), ("off", ["0", "1", "2", "3"])])
async def test_searches_over_rest_come_in_on_the_same_port(mode: str, expected: list[str]) -> None:
    async with (
        rest_server() as (url, came),
        running(url, backend="milvus", mode=mode) as proxy,
        ClientSession() as session,
    ):
        body = {"collectionName": "docs", "vector": VECTORS[0].tolist(), "limit": TOP_K}
        headers = {"Authorization": "Bearer root:secret"}
        for _ in range(2):
            async with session.post(
                f"http://127.0.0.1:{proxy.port}/v1/vector/search", json=body, headers=headers
            ) as answer:
                document = await answer.json()
            assert [row["id"] for row in document["data"]] == expected
            assert all(row.keys() == {"distance", "id"} for row in document["data"])
        searched = ["/v1/vector/search"] * 2
        assert [target for target, _ in came] == (
            ["/v1/vector/collections/describe?collectionName=docs", *searched] if mode == "on" else searched
        )
        assert all(fields["Authorization"] == "Bearer root:secret" for _, fields in came)
        assert "Content-Type" not in came[0][1] or mode == "off"
