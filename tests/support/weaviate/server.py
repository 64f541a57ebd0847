"""An emulator of Weaviate for tests: what its client asks when it connects, schema and tenants over REST, and over gRPC
BatchObjects, BatchDelete, which deletes nothing, health and Search, as support.weaviate.model knows it. It proves plumbing: it is no Weaviate.
"""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import numpy as np
from aiohttp import web
from google.protobuf.json_format import MessageToDict

from support.weaviate.graphql_queries import answered
from support.weaviate.messages import message_type
from support.weaviate.model import Collection, RefusalError, Stored

META = {"hostname": "http://[::]:8080", "modules": {}, "version": "1.39.0", "grpcMaxMessageSize": 104_858_000}
GRAPHQL = b'{"data":{"Get":{"Docs":[{"_additional":{"id":"x"},"text":"a  b"}]}}}\n'
_SERVICE = "/weaviate.v1.Weaviate/"
_SERVING = 1

Context = grpc.aio.ServicerContext[bytes, bytes]


@dataclass
class Weaviate:
    """``searches``: every SearchRequest that came, with its metadata, in order. ``requested``: every query of several searches, with its
    header fields. ``written``: every write. ``url``, ``grpc``: where it is.
    """

    collections: dict[str, Collection] = field(default_factory=dict)
    schema: dict[str, dict[str, Any]] = field(default_factory=dict)
    searches: list[bytes] = field(default_factory=list)
    metadata: list[dict[str, str]] = field(default_factory=list)
    requested: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    written: list[bytes] = field(default_factory=list)
    url: str = ""
    grpc: str = ""

    def app(self) -> web.Application:
        """The part over REST."""
        app = web.Application()
        app.router.add_get("/v1/.well-known/ready", _empty)
        app.router.add_get("/v1/.well-known/openid-configuration", _missing)
        app.router.add_get("/v1/meta", self._meta)
        app.router.add_post("/v1/schema", self._create)
        app.router.add_get("/v1/schema/{name}", self._describe)
        app.router.add_post("/v1/schema/{name}/tenants", self._tenants)
        app.router.add_post("/v1/graphql", self._graphql)
        app.router.add_get("/v1/objects", self._list)
        app.router.add_post("/v1/objects", self._store)
        app.router.add_post("/v1/batch/objects", self._store)
        app.router.add_route("*", "/v1/objects/{name}/{id}", self._one)
        return app

    async def _meta(self, _: web.Request) -> web.Response:
        return web.json_response(META)

    async def _create(self, request: web.Request) -> web.Response:
        described = await request.json()
        self.schema[described["class"]] = described
        self.collections[described["class"]] = Collection(
            name=described["class"],
            properties=tuple(prop["name"] for prop in described.get("properties", ())),
            named=tuple(described.get("vectorConfig", ())),
        )
        return web.json_response(described)

    async def _describe(self, request: web.Request) -> web.Response:
        described = self.schema.get(request.match_info["name"])
        return web.json_response(described) if described else web.Response(status=404)

    async def _graphql(self, request: web.Request) -> web.Response:
        """A query of searches near vectors; the same answer to any other."""
        query = (await request.json()).get("query", "")
        if ("nearVector" not in query and "where" not in query) or ":" not in query.partition("(")[0]:
            return web.Response(body=GRAPHQL, content_type="application/json")
        self.requested.append((query, dict(request.headers)))
        return web.json_response(answered(query, self.collections))

    async def _store(self, request: web.Request) -> web.Response:
        """One object, or a batch."""
        raw = await request.read()
        self.written.append(raw)
        body = json.loads(raw)
        objects = body.get("objects", [body])
        for one in objects:
            self.collections[one["class"]].store(
                Stored(
                    id=one["id"],
                    properties=one.get("properties") or {},
                    vector=one.get("vector"),
                    vectors=one.get("vectors") or {},
                    tenant=one.get("tenant") or "",
                )
            )
        written = [{**one, "result": {"status": "SUCCESS"}} for one in objects]
        return web.json_response(written if "objects" in body else body)

    async def _one(self, request: web.Request) -> web.Response:
        """Read or delete an object."""
        name, tenant = request.match_info["name"], request.query.get("tenant", "")
        collection = self.collections[name]
        matches = [one for one in collection.objects if (one.id, one.tenant) == (request.match_info["id"], tenant)]
        if not matches:
            return web.Response(status=404)
        if request.method == "DELETE":
            collection.objects.remove(matches[0])
            return web.Response(status=204)
        return web.json_response(_object_json(name, matches[0]))

    async def _list(self, request: web.Request) -> web.Response:
        """The objects of a collection by their ids, those after one."""
        name, after = request.query["class"], request.query.get("after", "")
        page_from = sorted((one for one in self.collections[name].objects if one.id > after), key=lambda one: one.id)
        page = page_from[: int(request.query["limit"])]
        return web.json_response({"objects": [_object_json(name, one) for one in page], "totalResults": len(page)})

    async def _tenants(self, request: web.Request) -> web.Response:
        return web.json_response(await request.json())

    async def play(self, method: str, context: Context) -> None:
        """One call."""
        message = await context.read()
        assert isinstance(message, bytes)
        if method == _SERVICE + "Search":
            self.metadata.append({key: str(value) for key, value in context.invocation_metadata() or ()})
            await context.write(await self._search(message, context))
        elif method == _SERVICE + "BatchObjects":
            self.written.append(message)
            self._insert(message)
            await context.write(b"")
        elif method == _SERVICE + "BatchDelete":
            self.written.append(message)  # reads do not show it
            await context.write(b"")
        elif method == "/grpc.health.v1.Health/Check":
            await context.write(message_type("HealthReply")(status=_SERVING).SerializeToString())
        else:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown method")

    async def _search(self, message: bytes, context: Context) -> bytes:
        self.searches.append(message)
        name = message_type("SearchRequest").FromString(message).collection
        collection = self.collections.get(name)
        words = f"could not find class {name} in schema"
        try:
            if collection is not None:
                return collection.answer(message)
        except RefusalError as refusal:
            words = str(refusal)
        await context.abort(grpc.StatusCode.UNKNOWN, words)
        return b""

    def _insert(self, message: bytes) -> None:
        for written in message_type("BatchObjectsRequest").FromString(message).objects:
            collection = self.collections[written.collection]
            collection.store(
                Stored(
                    id=written.uuid,
                    properties=_written(written.properties),
                    vector=None if collection.named else _numbers(written.vector_bytes),
                    # Of a collection with one named vector, the one without a name is that.
                    vectors={
                        getattr(one, "name", "") or collection.named[0]: _numbers(one.vector_bytes)
                        for one in (written.vectors or [written])
                        if collection.named and one.vector_bytes
                    },
                    tenant=written.tenant,
                )
            )


def _object_json(name: str, one: Stored) -> dict[str, Any]:
    optional = {"vector": one.vector, "vectors": one.vectors, "tenant": one.tenant}
    members = {"class": name, "id": one.id, "properties": one.properties}
    return {**members, **{member: value for member, value in optional.items() if value}}


def _written(properties: Any) -> dict[str, Any]:
    """A batch's properties: its numbers are of 64 bits, whole ones are integers here."""
    plain: dict[str, Any] = MessageToDict(properties.non_ref_properties)
    plain = {
        name: int(value) if isinstance(value, float) and value.is_integer() else value for name, value in plain.items()
    }
    plain = {name: _place(value) if isinstance(value, dict) else value for name, value in plain.items()}
    arrays = (
        *properties.int_array_properties,
        *properties.text_array_properties,
        *properties.boolean_array_properties,
    )
    numbers = properties.number_array_properties
    return {
        **plain,
        **{array.prop_name: list(array.values) for array in arrays},
        **{
            number.prop_name: list(number.values) or np.frombuffer(number.values_bytes, "<f8").tolist()
            for number in numbers
        },
        **{name: [] for name in properties.empty_list_props},
    }


def _place(value: dict[str, float]) -> dict[str, float]:
    """Its numbers are of 32 bits."""
    return {name: float(f"{np.float32(number):.8g}") for name, number in value.items()}


def _numbers(raw: bytes) -> Sequence[float]:
    numbers: list[float] = np.frombuffer(raw, "<f4").tolist()
    return numbers


async def _empty(_: web.Request) -> web.Response:
    return web.Response()


async def _missing(_: web.Request) -> web.Response:
    return web.Response(status=404)


class _Handlers(grpc.GenericRpcHandler):
    def __init__(self, server: Weaviate) -> None:
        self._server = server

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler[bytes, bytes]:
        method = handler_call_details.method

        async def play(_: object, context: Context) -> None:
            await self._server.play(method, context)

        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(play)
        return handler


@contextmanager
def weaviate() -> Iterator[Weaviate]:
    """The emulator in a thread of its own, for the block."""
    server, loop, ready = Weaviate(), asyncio.new_event_loop(), threading.Event()
    over = asyncio.Event()

    async def run() -> None:
        runner = web.AppRunner(server.app())
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
        answering = grpc.aio.server(handlers=(_Handlers(server),), options=[("grpc.so_reuseport", 0)])
        server.grpc = f"127.0.0.1:{answering.add_insecure_port('127.0.0.1:0')}"
        await answering.start()
        ready.set()
        await over.wait()
        await answering.stop(None)
        await runner.cleanup()

    thread = threading.Thread(target=loop.run_until_complete, args=(run(),), name="weaviate emulator")
    thread.start()
    try:
        assert ready.wait(10)
        yield server
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(10)
        loop.close()
