"""The write gate of Weaviate over gRPC, whose reads go over REST: whatever becomes of them, the client's batch goes out once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from support.grpc.calls import Pairs, Seen, ask
from support.grpc.raw import framed, raw_call
from support.grpc.upstream import Arrived, Context, GrpcUpstream, grpc_upstream
from support.network.http_scripts import on_the_loop
from support.process.running import Running, running, until
from support.weaviate.messages import message_type, packed

SERVICE = "/weaviate.v1.Weaviate/"
SCHEMA: Any = {
    "class": "Docs",
    "vectorIndexConfig": {"distance": "cosine"},
    "properties": [{"name": name, "dataType": ["text"]} for name in ("text", "_vecsieve")],
}
NEAR: Any = {
    "data": {"Get": {"a0": [{"text": "it has all the same words", "_additional": {"id": "b", "distance": 0.01}}]}}
}
STORED = b"\x0d\x00\x00\x80\x3e"
KEY = (
    ("authorization", "Bearer sesame"),
    ("x-cluster", "c"),
    ("accept", "none"),
    ("x-token-bin", b"\0"),
    ("x-vecsieve-mode", "off"),
)
Came = list[tuple[str, Mapping[str, str]]]


def batch() -> bytes:
    made = message_type("BatchObjectsRequest")()
    properties = {"non_ref_properties": {"text": "it has all the same words"}}
    made.objects.add(uuid="a", collection="Docs", vector_bytes=packed([1, 0.5]), properties=properties)
    return bytes(made.SerializeToString())


async def stores(call: Arrived, context: Context) -> None:
    while await call.read(context) is not None:
        await context.write(STORED)


@asynccontextmanager
async def gated(
    near: Any = NEAR, *, schema: Any = SCHEMA, status: int = 200, **write: object
) -> AsyncIterator[tuple[GrpcUpstream, Came, Running]]:
    """What came over gRPC and over REST, and the proxy before a server with these answers."""
    came: Came = []

    async def answer(request: web.Request) -> web.Response:
        came.append((f"{request.method} {request.path}", dict(request.headers)))
        return web.json_response(schema if request.method == "GET" else near, status=status)

    async with on_the_loop(answer) as url, grpc_upstream(BatchObjects=stores, BatchStream=stores) as upstream:
        settings = {"listen": "127.0.0.1:0", "upstream": upstream.address}
        async with running(url, backend="weaviate", grpc=settings, policy={"write": write}) as proxy:
            yield upstream, came, proxy


async def send(
    proxy: Running, *, method: str = "BatchObjects", shape: str = "unary_unary", metadata: Pairs = ()
) -> Seen:
    return await ask(f"127.0.0.1:{proxy.grpc_port}", shape, (batch(),), method=SERVICE + method, metadata=metadata)


async def counted(proxy: Running, outcome: str) -> float:
    return await until(lambda: proxy.count("writes_total", backend="weaviate", outcome=outcome))


async def test_a_copy_gets_a_note_and_the_reads_have_the_credentials_of_the_call_and_no_other_metadata() -> None:
    async with gated(mode="annotate") as (upstream, came, proxy):
        assert (await send(proxy, metadata=KEY)).messages == (STORED,)
        ((message,),) = [call.messages for call in upstream.calls]
        (stored,) = message_type("BatchObjectsRequest").FromString(message).objects
        note = '{"duplicate_of":"b","similarity":0.9900,"tier":"exact"}'
        assert stored.properties.non_ref_properties["_vecsieve"] == note
        assert [what for what, _ in came] == ["GET /v1/schema/Docs"] * 2 + ["POST /v1/graphql"]
        for _, headers in came:
            assert (headers["Authorization"], headers["x-cluster"]) == ("Bearer sesame", "c")
            assert not {"accept", "x-token-bin", "user-agent", "x-vecsieve-mode"} & {name.lower() for name in headers}


@pytest.mark.parametrize("value", [b"a\r\nx-other: 1", "é".encode()])
async def test_metadata_that_cannot_be_passed_on_reach_nobody(value: bytes) -> None:
    async with gated(mode="annotate") as (upstream, came, proxy):
        path = (SERVICE + "BatchObjects").encode()
        reply = await raw_call(proxy.grpc_port, [(b"authorization", value)], framed(batch()), path=path)
        assert reply.is_reset or reply.last(b"grpc-status") not in {None, b"0"}
        assert (upstream.calls, came) == ([], [])


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "an error": ({"near": {"data": {"Get": {"a0": None}}, "errors": [{"message": "no"}]}}, "refused"),
    "another answer": ({"near": {"data": {"Get": {}}}}, "failed"),
    "no description": ({"schema": {}}, "unsupported"),
    "forbidden": ({"status": 403}, "unsupported"),
}


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.parametrize("mode", ["annotate", "observe"])
async def test_a_fault_of_the_reads_is_never_the_writes(name: str, mode: str) -> None:
    options, outcome = FAULTS[name]
    async with gated(mode=mode, **options) as (upstream, _, proxy):
        assert (await send(proxy)).messages == (STORED,)
        assert await counted(proxy, outcome) == 1
        assert [call.messages for call in upstream.calls] == [[batch()]]


@pytest.mark.parametrize("mode", ["annotate", "off"])
async def test_a_stream_of_batches_passes_unread_and_is_counted(mode: str) -> None:
    async with gated(mode=mode) as (upstream, came, proxy):
        seen = await send(proxy, method="BatchStream", shape="stream_stream")
        assert seen.messages == (STORED,)
        assert [call.messages for call in upstream.calls] == [[batch()]]
        assert came == []
        assert proxy.count("writes_total", backend="weaviate", outcome="unsupported") == (mode == "annotate")


STORED_COPY: Any = {"class": "Docs", "id": "b", "vector": [1, 0.5]}


class Objects:
    """A server over REST and gRPC with one object, near which every other is. ``properties``: of that object. ``deleted``: its targets."""

    def __init__(self, properties: object) -> None:
        self.properties = properties
        self.deleted: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        if request.path.startswith("/v1/schema"):
            return web.json_response(SCHEMA)
        if request.method == "DELETE":
            self.deleted.append(request.path)
            return web.Response(status=204)
        if request.method == "GET":
            return web.json_response({**STORED_COPY, "properties": self.properties})
        is_near = "nearVector" in await request.text()
        return web.json_response(NEAR if is_near else {"data": {"Get": {"a0": []}}})


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"_vecsieve": "kept"}, {"text": "it has all the same words", "_vecsieve": "kept"}),
        # A property that the server does not describe, such as one that was removed, and one of another type.
        ({"gone": "a"}, None),
        ({"_vecsieve": 5}, None),
    ],
)
async def test_an_object_gets_what_its_properties_hold_and_is_stored_as_it_came_where_they_do_not(
    tmp_path: Path, more: dict[str, Any], expected: dict[str, Any] | None
) -> None:
    """The copy stays beside it then, and the write counts as unsupported."""
    server = Objects({"text": "it has all the same words", **more})
    async with on_the_loop(server.answer) as url, grpc_upstream(BatchObjects=stores) as upstream:
        settings: dict[str, Any] = {
            "grpc": {"listen": "127.0.0.1:0", "upstream": upstream.address},
            "policy": {"write": {"mode": "merge", "merge": "merge"}},
            "journal": {"path": str(tmp_path / "j.db")},
        }
        async with running(url, backend="weaviate", **settings) as proxy:
            assert (await send(proxy)).messages == (STORED,)
            ((message,),) = [call.messages for call in upstream.calls]
            assert proxy.count("writes_total", backend="weaviate", outcome="unsupported") == (expected is None)
            assert len(server.deleted) == (expected is not None)
    if expected is None:
        assert message == batch()
        return
    (stored,) = message_type("BatchObjectsRequest").FromString(message).objects
    assert dict(stored.properties.non_ref_properties) == expected
