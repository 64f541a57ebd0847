"""What the write gate must hold in front of every database and over both transports, whatever its reads bring.

Pinecone is not here: which index a request names depends on hosts; tests/clients have it with its emulator.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import pytest
from aiohttp import ClientSession, web
from qdrant_client import grpc as qdrant

from support.backends.writes import SCORE, Sample, samples
from support.grpc.calls import ask
from support.grpc.upstream import Arrived, Context, grpc_upstream
from support.milvus.messages import message_type as milvus
from support.network.http_scripts import on_the_loop
from support.process.running import Running, running
from vecsieve.adapters.backends import BACKENDS
from vecsieve.adapters.writes import WriteNeeds

SAMPLES = [sample for sample in samples() if not sample.name.startswith("pinecone")]
every_transport = pytest.mark.parametrize("sample", SAMPLES, ids=lambda sample: sample.name)
in_both_modes = pytest.mark.parametrize("mode", ["annotate", "observe"])
KEYS = {"qdrant": {"api-key": "s3cret"}}  # of the others: a token
TOKEN = {"authorization": "Bearer sesame"}
STORED = b'{"code":0,"data":{}}'  # whatever the database answers to a write, the client gets these bytes
NONSENSE = b"\xff{"


def described() -> dict[str, bytes]:
    """Descriptions of collections and of indexes, by the last parts of their paths."""
    fields: list[Any] = [{"name": "id", "type": "Int64", "primaryKey": True}, {"name": "vec", "type": "FloatVector"}]
    indexes = [{"fieldName": "vec", "indexName": "vec", "metricType": "COSINE"}]
    parameters = qdrant.VectorParams(size=2, distance=qdrant.Distance.Cosine)
    config = qdrant.CollectionParams(vectors_config=qdrant.VectorsConfig(params=parameters))
    info = qdrant.CollectionInfo(config=qdrant.CollectionConfig(params=config))
    columns = [{"name": "id", "is_primary_key": True, "data_type": 5}, {"name": "vec", "data_type": 101}]
    metric = {"field_name": "vec", "params": [{"key": "metric_type", "value": "COSINE"}]}
    documents: dict[str, object] = {
        "/collections/c": {"result": {"config": {"params": {"vectors": {"size": 21, "distance": "Cosine"}}}}},
        "/by-id/00000000-0000-0000-0000-00000000000c": {"configuration_json": {"hnsw": {"space": "cosine"}}},
        "/collections/describe": {
            "code": 0,
            "data": {"enableDynamicField": True, "fields": fields, "indexes": indexes},
        },
        "/schema/Docs": {
            "class": "Docs",
            "vectorIndexConfig": {"distance": "cosine"},
            "properties": [{"name": name, "dataType": ["text"]} for name in ("text", "_vecsieve")],
        },
    }
    documents["/docs"] = {
        "docs": {
            "mappings": {"properties": {"text": {"type": "text"}, "vec": {"type": "dense_vector"}}, "dynamic": False}
        }
    }
    return {
        **{path: json.dumps(document).encode() for path, document in documents.items()},
        "/qdrant.Collections/Get": qdrant.GetCollectionInfoResponse(result=info).SerializeToString(),
        "/DescribeCollection": milvus("DescribeCollectionResponse")(
            schema={"name": "c", "fields": columns, "enable_dynamic_field": True}
        ).SerializeToString(),
        "/DescribeIndex": milvus("DescribeIndexResponse")(index_descriptions=[metric]).SerializeToString(),
    }


DESCRIBED = described()


@dataclass
class Database:
    """Answers a sample's write, the reads about its collection, and, as ``fault`` has it, the query for its neighbours.

    ``came``: in order, the path, the client's credentials and the content. ``fault``: None, "silent", "refused" or "nonsense".
    """

    sample: Sample
    fault: str | None = None
    came: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)

    @property
    def key(self) -> dict[str, str]:
        """The client's credentials."""
        return KEYS.get(self.sample.write.backend, TOKEN)

    async def answer(self, path: str, head: Mapping[str, str], content: bytes) -> bytes | None:
        """None: refused."""
        self.came.append((path, {name: head[name] for name in self.key if name in head}, content))
        if path == self.sample.head.path:
            return STORED
        for name, description in DESCRIBED.items():
            if path.endswith(name):
                return description
        if self.fault == "silent":
            await asyncio.Event().wait()
        return {None: self.sample.answer, "nonsense": NONSENSE}.get(self.fault)

    async def over_http(self, request: web.Request) -> web.Response:
        answer = await self.answer(request.path, request.headers, await request.read())
        if answer is None:
            return web.Response(status=403, body=b"{}")
        return web.Response(body=answer, content_type="application/json")

    async def over_grpc(self, call: Arrived, context: Context) -> None:
        content = await call.read(context) or b""
        answer = await self.answer(call.method, {name: str(value) for name, value in call.metadata}, content)
        if answer is None:
            await context.abort(grpc.StatusCode.PERMISSION_DENIED, "no")
        else:
            await context.write(answer)

    def written(self) -> list[bytes]:
        return [content for path, _, content in self.came if path == self.sample.head.path]

    def reads(self) -> list[str]:
        return [path for path, _, _ in self.came if path != self.sample.head.path]


@dataclass
class Gate:
    database: Database
    proxy: Running

    async def send(self, body: bytes) -> bytes:
        """The write, by a client with credentials; what the client gets."""
        head = self.database.sample.head
        if self.database.sample.name.endswith("gRPC"):
            seen = await ask(
                f"127.0.0.1:{self.proxy.grpc_port}",
                "unary_unary",
                (body,),
                method=head.path,
                metadata=tuple(self.database.key.items()),
            )
            return b"".join(seen.messages)
        headers = {**self.database.key, "Content-Type": "application/json"}
        url = f"http://127.0.0.1:{self.proxy.port}{head.path}"
        async with ClientSession() as session, session.request(head.method, url, data=body, headers=headers) as reply:
            return await reply.read()

    async def counted(self, outcome: str) -> float:
        """After the answer, an observation may still be under way."""
        backend = self.database.sample.write.backend
        async with asyncio.timeout(20):
            while not (count := self.proxy.count("writes_total", backend=backend, outcome=outcome)):
                await asyncio.sleep(0.01)
        return count


@asynccontextmanager
async def gated(sample: Sample, *, fault: str | None = None, **write: object) -> AsyncIterator[Gate]:
    database = Database(sample, fault)
    methods = ("Upsert", "Get", "QueryBatch", "Insert", "DescribeCollection", "DescribeIndex", "Search", "BatchObjects")
    options: dict[str, Any] = {"backend": sample.write.backend, "policy": {"write": write}}
    scripts: dict[str, Any] = dict.fromkeys(methods, database.over_grpc)
    async with on_the_loop(database.over_http) as url, grpc_upstream(**scripts) as upstream:
        if BACKENDS[sample.write.backend].grpc is not None:
            options["grpc"] = {"listen": "127.0.0.1:0", "upstream": upstream.address}
        async with running(url, **options) as proxy:
            yield Gate(database, proxy)


@every_transport
async def test_off_adds_no_read_and_changes_no_byte(sample: Sample) -> None:
    async with gated(sample) as gate:
        assert await gate.send(sample.body) == STORED
        assert gate.database.came == [(sample.head.path, gate.database.key, sample.body)]


@every_transport
async def test_annotate_tells_what_a_copy_is_a_copy_of(sample: Sample) -> None:
    """Its reads have the client's credentials, and all that they learned of the collection is kept."""
    async with gated(sample, mode="annotate") as gate:
        assert await gate.send(sample.body) == STORED
        (body,) = gate.database.written()
        needs = WriteNeeds(vector_name=None, keys=("text", "_vecsieve"), most=9, known=sample.known)
        sent, stored = (sample.adapter.parse(sample.write, text, needs) for text in (sample.body, body))
        (text, note), (sent_text, _) = stored.fields[0], sent.fields[0]
        assert (stored.ids, stored.vectors.tolist(), text) == (sent.ids, sent.vectors.tolist(), sent_text)
        assert note is not None
        noted = json.loads(note)
        noted = json.loads(noted) if isinstance(noted, str) else noted
        assert (noted["tier"], round(noted["similarity"], 3)) == ("exact", round(SCORE, 3))
        assert all(credentials == gate.database.key for _, credentials, _ in gate.database.came)
        reads = gate.database.reads()
        assert await gate.send(sample.body) == STORED
        assert gate.database.reads()[len(reads) :] == reads[-1:]


FAULTS = {"silent": "late", "refused": "refused", "nonsense": "failed"}


@pytest.mark.parametrize("fault", FAULTS)
@in_both_modes
@every_transport
async def test_a_fault_of_the_query_for_neighbours_is_never_the_writes(sample: Sample, mode: str, fault: str) -> None:
    async with gated(sample, fault=fault, mode=mode, deadline_seconds=0.5 if fault == "silent" else 20.0) as gate:
        assert await gate.send(sample.body) == STORED
        assert await gate.counted(FAULTS[fault]) == 1
        assert gate.database.written() == [sample.body]


@every_transport
async def test_observe_sends_the_write_first_and_unchanged(sample: Sample) -> None:
    async with gated(sample, mode="observe") as gate:
        assert await gate.send(sample.body) == STORED
        assert await gate.counted("judged") == 1
        assert gate.proxy.count("write_copies_total", backend=sample.write.backend) == 1
        assert gate.database.came[0] == (sample.head.path, gate.database.key, sample.body)
        assert gate.database.written() == [sample.body]


@in_both_modes
@every_transport
async def test_a_write_that_is_not_read_is_sent_as_it_came_and_counted(sample: Sample, mode: str) -> None:
    body = NONSENSE + sample.body
    async with gated(sample, mode=mode) as gate:
        assert await gate.send(body) == STORED
        assert await gate.counted("unsupported") == 1
        assert gate.database.written() == [body]
