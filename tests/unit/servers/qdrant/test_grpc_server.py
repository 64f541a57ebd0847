"""The gRPC listener behaves as the real server's: compression by what the client takes, messages of any size, its own port."""

from __future__ import annotations

import asyncio
import importlib
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from grpc.aio import insecure_channel
from servers.qdrant.grpc_messages import messages, said, to_rest
from servers.qdrant.grpc_server import METHODS, authority, code_of, details_of, trailers_of
from servers.qdrant.limits import RateExceededError
from servers.qdrant.server import QdrantServer, start

from support.embedded import embedded_server, exchange
from support.streams import serving
from vecsieve.config.addresses import Address
from vecsieve.proxy.demo.embedded import fields
from vecsieve.proxy.demo.embedded.fields import RefusalError
from vecsieve.proxy.demo.embedded.rest import ABOUT

PROGRAM = Path(__file__).resolve().parents[3] / "servers" / "qdrant"
UNLIMITED = ("grpc.max_receive_message_length", -1)
IDENTITY_ONLY = ("grpc.compression_enabled_algorithms_bitset", 1)


class Counted:
    """A TCP relay that counts what the server sent."""

    def __init__(self) -> None:
        self.received = 0
        self.port = 0

    @asynccontextmanager
    async def to(self, port: int) -> AsyncIterator[None]:
        async with serving(partial(self._relay, port)) as self.port:
            yield

    async def _relay(self, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            await asyncio.gather(self._copy(reader, far_writer, False), self._copy(far_reader, writer, True))
        finally:
            far_writer.transport.abort()

    async def _copy(self, source: asyncio.StreamReader, target: asyncio.StreamWriter, counts: bool) -> None:
        while piece := await source.read(65_536):
            self.received += len(piece) if counts else 0
            target.write(piece)
        target.close()


def port_of(server: QdrantServer) -> int:
    assert server.grpc_url is not None
    return int(server.grpc_url.rsplit(":", 1)[1])


async def asked(channel: grpc.aio.Channel, path: str, body: bytes = b"") -> bytes:
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(path)
    return await call(body, timeout=20)


async def listed(port: int, *options: tuple[str, int]) -> bytes:
    async with insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
        return await asked(channel, "/qdrant.Collections/List")


async def test_answers_are_compressed_for_those_who_take_it_and_for_no_one_else() -> None:
    name = "n" * 200
    async with embedded_server(with_grpc=True) as server:
        settings = {"vectors": {"size": 2, "distance": "Dot"}}
        await asyncio.to_thread(exchange, server.url, "PUT", f"/collections/{name}", settings)
        sizes = []
        for options in ((), (IDENTITY_ONLY,)):
            counted = Counted()
            async with counted.to(port_of(server)):
                reply = await listed(counted.port, *options)
                assert messages().ListCollectionsResponse.FromString(reply).collections[0].name == name
            sizes.append(counted.received)
    assert sizes[1] - sizes[0] > 100


async def test_a_message_may_be_larger_than_grpcs_usual_limit() -> None:
    text = "".join(chr(97 + number % 26) for number in range(6_000_000))
    async with embedded_server(with_grpc=True) as server:
        settings = {"vectors": {"size": 2, "distance": "Dot"}}
        await asyncio.to_thread(exchange, server.url, "PUT", "/collections/c", settings)
        message = messages().UpsertPoints(collection_name="c", wait=True)
        point = message.points.add(id={"num": 1}, vectors={"vector": {"data": [1, 2]}})
        point.payload["text"].string_value = text
        wanted = messages().GetPoints(collection_name="c", ids=[{"num": 1}], with_payload={"enable": True})
        async with insecure_channel(f"127.0.0.1:{port_of(server)}", options=(UNLIMITED,)) as channel:
            await asked(channel, "/qdrant.Points/Upsert", message.SerializeToString())
            reply = await asked(channel, "/qdrant.Points/Get", wanted.SerializeToString())
        assert messages().GetResponse.FromString(reply).result[0].payload["text"].string_value == text


async def test_a_taken_port_is_an_error_and_lets_go_of_everything(tmp_path: Path) -> None:
    async with embedded_server(with_grpc=True) as server:
        taken = Address("127.0.0.1", port_of(server))
        with pytest.raises(OSError, match=rf"cannot listen on 127\.0\.0\.1:{taken.port} for gRPC"):
            await start(host="127.0.0.1", port=0, path=tmp_path, grpc_address=taken)
        async with embedded_server(tmp_path) as later:
            assert later.grpc_url is None


async def test_a_closed_server_takes_no_more_calls() -> None:
    async with embedded_server(with_grpc=True) as server:
        port = port_of(server)
        await listed(port)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await listed(port)
    assert caught.value.code() is grpc.StatusCode.UNAVAILABLE


async def test_ipv6_listens_and_says_so_in_brackets() -> None:
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("this machine has no IPv6 loopback")
    server = await start(host="::1", port=0, grpc_address=Address("::1", 0))
    try:
        assert server.grpc_url == f"http://{authority(Address('::1', port_of(server)))}"
        async with insecure_channel(server.grpc_url.removeprefix("http://")) as channel:
            assert await asked(channel, "/qdrant.Qdrant/HealthCheck")
    finally:
        await server.close()


def test_the_process_says_where_both_listen() -> None:
    command = (sys.executable, str(PROGRAM), "--grpc-listen", "127.0.0.1:0")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url, grpc_url = (process.stdout.readline().strip().rpartition(" ")[2] for _ in range(2))
            assert url != grpc_url
            with grpc.insecure_channel(grpc_url.removeprefix("http://")) as channel:
                call: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary("/qdrant.Qdrant/HealthCheck")
                assert call(b"", timeout=60)
            process.terminate()
            assert process.wait(60) == 0
        finally:
            process.kill()


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


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (fields.bad_input("x"), grpc.StatusCode.INVALID_ARGUMENT),
        (fields.bad_request("x"), grpc.StatusCode.INVALID_ARGUMENT),
        (fields.bad_format("x"), grpc.StatusCode.INVALID_ARGUMENT),
        (fields.bad_value("limit", "x"), grpc.StatusCode.INVALID_ARGUMENT),
        (RefusalError(401, "x"), grpc.StatusCode.UNAUTHENTICATED),
        (RefusalError(403, "x"), grpc.StatusCode.PERMISSION_DENIED),
        (fields.no_collection("x"), grpc.StatusCode.NOT_FOUND),
        (fields.conflict("x"), grpc.StatusCode.ALREADY_EXISTS),
        (RefusalError(429, "x"), grpc.StatusCode.RESOURCE_EXHAUSTED),
        (fields.service_error("x"), grpc.StatusCode.INTERNAL),
        (fields.not_served("x"), grpc.StatusCode.UNIMPLEMENTED),
    ],
)
def test_each_kind_of_mistake_has_its_code(refusal: RefusalError, code: grpc.StatusCode) -> None:
    assert code_of(refusal) is code


def test_the_words_are_those_of_rest() -> None:
    assert details_of(fields.no_collection("c")) == "Not found: Collection `c` doesn't exist!"
    assert details_of(fields.bad_input("Format error in JSON body: x")) == "Wrong input: Format error in JSON body: x"


@pytest.mark.parametrize("where", ["JSON body", "path parameters", "query parameters"])
def test_a_message_has_neither_json_nor_path_nor_query(where: str) -> None:
    refusal = fields.bad_value("limit", "value 0 invalid", where=where)
    assert details_of(refusal) == "Validation error in body: [limit: value 0 invalid]"
    assert details_of(fields.bad_format("missing field `limit`")) == "missing field `limit`"


def test_the_time_to_wait_is_a_trailer_and_no_time_is_none() -> None:
    assert trailers_of(RateExceededError("x", 7)) == (("retry-after", "7"),)
    assert trailers_of(RateExceededError("x")) == ()
    assert trailers_of(RefusalError(429, "x")) == ()
