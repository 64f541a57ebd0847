"""The databases that prove.killed_gate ends and begins again: how each is started on its data, one write, and everything that is stored.

Qdrant is the embedded engine, Chroma the real server. Milvus is Milvus Lite, written to over gRPC. Pinecone, Weaviate, OpenSearch and Elasticsearch
are emulators, whose data is kept over restarts; with WEAVIATE_SERVER Weaviate is the real server.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Protocol
from urllib.parse import urlencode

import grpc
import pymilvus

from prove import kept_servers
from prove.planted_points import SIZE, Made
from support.milvus.messages import message_type
from support.milvus.server import connected
from support.network.ports import free_port, free_ports
from support.process import real_servers, stack
from support.process.forked import TESTS
from vecsieve.proxy.demo.backends import COLLECTIONS

STORED, REFUSED, UNAVAILABLE = (200, 201), 409, 503
PAGE = 1000
START_SECONDS = 60.0
KEY = "key"


class Database(Protocol):
    """``url``: the server's own, the same in every life. ``settings``: of a proxy before it, as variables;
    ``listeners``: the addresses that this proxy prints. ``environment``: of `vecsieve undo`. ``is_old_at_once``: reads show what was written at once, where
    the gate waits ten minutes for that.
    """

    backend: str
    is_old_at_once: bool
    url: str
    port: int
    listeners: int

    def start(self) -> None:
        """On the data of the life before."""

    def end(self) -> None:
        """By SIGTERM."""

    def settings(self, upstream: str) -> Mapping[str, str]: ...

    def environment(self) -> Mapping[str, str]: ...

    def create(self, name: str) -> None: ...

    def upsert(self, url: str, name: str, points: Sequence[Made]) -> int:
        """The status of HTTP, also where the transport has another: one of STORED, REFUSED or that of a failure. Raises OSError and HTTPException."""

    def everything(self, name: str) -> Iterator[tuple[int, str]]:
        """Number and whole content of each point, all in one spelling."""

    def finds(self, name: str, point: Made) -> bool:
        """Whether the database itself finds another point of the same words near this one. An approximate index may not."""

    def number_of(self, identifier: object) -> int:
        """Of a point's id."""


class Process:
    """A server that is ended by SIGTERM. ``ready``: begins a line that it prints, or is the path of an answer with status 200."""

    def __init__(self, command: Sequence[str], *, environment: Mapping[str, str] | None = None) -> None:
        self._output = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        self._process = subprocess.Popen(
            command, stdout=self._output, stderr=subprocess.STDOUT, env=environment, start_new_session=True
        )

    def wait_until_it_says(self, word: str) -> None:
        until = time.monotonic() + START_SECONDS
        while word not in self.stated():
            assert self._process.poll() is None, self.stated()
            assert time.monotonic() < until, self.stated()
            time.sleep(0.02)

    def wait_until_it_answers(self, url: str, path: str) -> None:
        until = time.monotonic() + START_SECONDS
        while True:
            assert self._process.poll() is None, self.stated()
            try:
                if stack.exchange(url, "GET", path).status == 200:
                    return
            except OSError:
                assert time.monotonic() < until, self.stated()
            time.sleep(0.02)

    def stated(self) -> str:
        # Not by reading: the server writes where the file, which it shares, was read to.
        written = os.pread(self._output.fileno(), os.fstat(self._output.fileno()).st_size, 0)
        return written.decode(errors="replace")[-2000:]

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._output.close()


class _Plain(ABC):
    """What most have in common."""

    backend: str
    is_old_at_once = False
    listeners = 2
    _process: Process | stack.Command

    def __init__(self, folder: Path) -> None:
        self.folder = folder / self.backend
        self.folder.mkdir()
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.start()

    @abstractmethod
    def start(self) -> None:
        """Begin, with the data of the last time."""

    def end(self) -> None:
        self._process.close()

    def settings(self, upstream: str) -> Mapping[str, str]:
        return {"VECSIEVE_UPSTREAM_URL": upstream}

    def environment(self) -> Mapping[str, str]:
        return {}

    def finds(self, _name: str, _point: Made) -> bool:
        return True

    def number_of(self, identifier: object) -> int:
        return int(str(identifier))

    def requested(
        self, method: str, target: str, body: object = None, *, headers: Mapping[str, str] | None = None
    ) -> Any:
        """The JSON of a successful answer."""
        sent = None if body is None else json.dumps(body).encode()
        answer = stack.exchange(self.url, method, target, sent, headers)
        assert answer.status in {200, 201}, (target, answer.status, answer.body[:500])
        return json.loads(answer.body, parse_float=str) if answer.body else None


def _spelled(point: object) -> str:
    return json.dumps(point, sort_keys=True)


class Qdrant(_Plain):
    backend = "qdrant"

    def start(self) -> None:
        arguments = ("--listen", f"127.0.0.1:{self.port}", "--path", str(self.folder))
        self._process = stack.Command(arguments, {"PYTHONPATH": str(TESTS)}, module="servers.qdrant")
        self._process.addresses(1)

    def create(self, name: str) -> None:
        self.requested("PUT", f"/collections/{name}", {"vectors": {"size": SIZE, "distance": "Cosine"}})

    def upsert(self, url: str, name: str, points: Sequence[Made]) -> int:
        records = [{"id": p.number, "vector": p.vector, "payload": {"text": p.text, "tags": [p.tag]}} for p in points]
        body = json.dumps({"points": records}).encode()
        return stack.exchange(url, "PUT", f"/collections/{name}/points?wait=true", body).status

    def everything(self, name: str) -> Iterator[tuple[int, str]]:
        offset: object = None
        while True:
            query = {"limit": PAGE, "offset": offset, "with_payload": True, "with_vector": True}
            page = self.requested("POST", f"/collections/{name}/points/scroll", query)["result"]
            yield from ((point["id"], _spelled(point)) for point in page["points"])
            if (offset := page["next_page_offset"]) is None:
                return


class Chroma(_Plain):
    """Of the space l2: of `cosine` the server gives back other last bits of vectors than it was given."""

    backend = "chroma"

    def start(self) -> None:
        program = str(Path(sys.executable).with_name("chroma"))
        self._process = Process(
            [program, "run", "--host", "127.0.0.1", "--port", str(self.port), "--path", str(self.folder)]
        )
        self._process.wait_until_it_answers(self.url, "/api/v2/heartbeat")

    def create(self, name: str) -> None:
        self.requested("POST", COLLECTIONS, {"name": name, "configuration": {"hnsw": {"space": "l2"}}})
        self._paths[name] = f"{COLLECTIONS}/{self.requested('GET', f'{COLLECTIONS}/{name}')['id']}"

    @cached_property
    def _paths(self) -> dict[str, str]:
        return {}

    def upsert(self, url: str, name: str, points: Sequence[Made]) -> int:
        columns = {
            "ids": [str(p.number) for p in points],
            "embeddings": [p.vector for p in points],
            "documents": [p.text for p in points],
            "metadatas": [{"tag": p.tag} for p in points],
        }
        return stack.exchange(url, "POST", f"{self._paths[name]}/upsert", json.dumps(columns).encode()).status

    def finds(self, name: str, point: Made) -> bool:
        """Of 4,214 points, written one by one over eight restarts, its index does not return four for their own vectors."""
        query = {"query_embeddings": [point.vector], "n_results": 10, "include": ["documents"]}
        answer = self.requested("POST", f"{self._paths[name]}/query", query)
        near = zip(answer["ids"][0], answer["documents"][0], strict=True)
        return any(int(identifier) != point.number and text.lower() == point.text.lower() for identifier, text in near)

    def everything(self, name: str) -> Iterator[tuple[int, str]]:
        include = ["embeddings", "documents", "metadatas", "uris"]
        for start in range(0, self.requested("GET", f"{self._paths[name]}/count"), PAGE):
            query = {"limit": PAGE, "offset": start, "include": include}
            page = self.requested("POST", f"{self._paths[name]}/get", query)
            columns = [page[column] or [None] * len(page["ids"]) for column in include]
            for identifier, *values in zip(page["ids"], *columns, strict=True):
                yield int(identifier), _spelled(values)


class Pinecone(_Plain):
    backend = "pinecone"
    is_old_at_once = True
    _HEADERS: Mapping[str, str] = {"Api-Key": KEY, "X-Pinecone-Api-Version": "2025-10"}

    def start(self) -> None:
        self._process = _kept(self)

    def settings(self, upstream: str) -> Mapping[str, str]:
        control = (self.folder / "control").read_text()
        return {"VECSIEVE_UPSTREAM_URL": control, "VECSIEVE_PINECONE_INDEX_HOST": upstream}

    def environment(self) -> Mapping[str, str]:
        return {"PINECONE_API_KEY": KEY}

    def create(self, name: str) -> None:
        """A namespace is made by its first write; the only index with the first one."""
        control = (self.folder / "control").read_text()
        if json.loads(stack.exchange(control, "GET", "/indexes", headers=self._HEADERS).body)["indexes"]:
            return
        spec = {"serverless": {"cloud": "aws", "region": "us-east-1"}}
        body = json.dumps({"name": "only", "dimension": SIZE, "metric": "cosine", "spec": spec}).encode()
        assert stack.exchange(control, "POST", "/indexes", body, self._HEADERS).status == 201

    def upsert(self, url: str, name: str, points: Sequence[Made]) -> int:
        vectors = [
            {"id": str(p.number), "values": p.vector, "metadata": {"text": p.text, "tags": [str(p.tag)], "n": p.tag}}
            for p in points
        ]
        body = json.dumps({"vectors": vectors, "namespace": name}).encode()
        return stack.exchange(url, "POST", "/vectors/upsert", body, self._HEADERS).status

    def everything(self, name: str) -> Iterator[tuple[int, str]]:
        token: dict[str, str] = {}
        while True:
            query = urlencode({"namespace": name, "limit": 100, **token})
            page = self.requested("GET", f"/vectors/list?{query}", headers=self._HEADERS)
            ids = [vector["id"] for vector in page["vectors"]]
            query = urlencode({"namespace": name, "ids": ids}, doseq=True)
            records = self.requested("GET", f"/vectors/fetch?{query}", headers=self._HEADERS)["vectors"] if ids else {}
            yield from ((int(identifier), _spelled(records[identifier])) for identifier in ids)
            token = {"paginationToken": page.get("pagination", {}).get("next", "")}
            if not token["paginationToken"]:
                return


class Weaviate(_Plain):
    """Collections have names that begin with a capital."""

    backend = "weaviate"
    listeners = 3  # that of gRPC is its own

    @cached_property
    def _ports(self) -> Sequence[int]:
        return free_ports(real_servers.WEAVIATE_PORTS + 1)

    def start(self) -> None:
        if (program := real_servers.program(real_servers.WEAVIATE)) is None:
            self._process = _kept(self)
            return
        command, environment = real_servers.weaviate_command(program, self.port, self._ports[:-1], str(self.folder))
        self._process = Process(command, environment={**os.environ, **environment})
        self._process.wait_until_it_answers(self.url, "/v1/.well-known/ready")

    def settings(self, upstream: str) -> Mapping[str, str]:
        return {**super().settings(upstream), "VECSIEVE_GRPC_LISTEN": f"127.0.0.1:{self._ports[-1]}"}

    def create(self, name: str) -> None:
        properties = [{"name": "text", "dataType": ["text"]}, {"name": "tag", "dataType": ["int"]}]
        schema = {"class": name.capitalize(), "vectorizer": "none", "properties": properties}
        self.requested("POST", "/v1/schema", schema)

    def upsert(self, url: str, name: str, points: Sequence[Made]) -> int:
        objects = [
            {
                "class": name.capitalize(),
                "id": str(uuid.UUID(int=p.number)),
                "vector": p.vector,
                "properties": {"text": p.text, "tag": p.tag},
            }
            for p in points
        ]
        answer = stack.exchange(url, "POST", "/v1/batch/objects", json.dumps({"objects": objects}).encode())
        if answer.status in STORED and any(one["result"].get("errors") for one in json.loads(answer.body)):
            return UNAVAILABLE
        return answer.status

    def everything(self, name: str) -> Iterator[tuple[int, str]]:
        after = ""
        while True:
            query = urlencode({"class": name.capitalize(), "limit": 100, "after": after, "include": "vector"})
            page = self.requested("GET", f"/v1/objects?{query}")["objects"]
            for hit in page:
                fields = {name: hit.get(name) for name in ("id", "properties", "vector")}
                yield self.number_of(hit["id"]), _spelled(fields)
            if not page:
                return
            after = page[-1]["id"]

    def number_of(self, identifier: object) -> int:
        return uuid.UUID(str(identifier)).int


class Milvus(_Plain):
    """Upserts over gRPC without the official client, which repeats calls of its own accord."""

    backend = "milvus"
    _INT64, _VARCHAR, _JSON, _FLOATS = 5, 21, 23, 101

    def start(self) -> None:
        self._process = _kept(self)

    def create(self, name: str) -> None:
        client, kinds = connected(self.url), pymilvus.DataType
        schema = client.create_schema(auto_id=False, enable_dynamic_field=True)
        schema.add_field("id", kinds.INT64, is_primary=True)
        schema.add_field("vec", kinds.FLOAT_VECTOR, dim=SIZE)
        schema.add_field("text", kinds.VARCHAR, max_length=500)
        index = client.prepare_index_params()
        index.add_index("vec", metric_type="COSINE", index_type="FLAT")
        client.create_collection(name, schema=schema, index_params=index, consistency_level="Strong")

    def upsert(self, url: str, name: str, points: Sequence[Made]) -> int:
        rows = [json.dumps({"tags": [p.tag]}).encode() for p in points]
        numbers = [value for p in points for value in p.vector]
        columns = [
            {"field_name": "id", "type": self._INT64, "scalars": {"long_data": {"data": [p.number for p in points]}}},
            {"field_name": "vec", "type": self._FLOATS, "vectors": {"dim": SIZE, "float_vector": {"data": numbers}}},
            {
                "field_name": "text",
                "type": self._VARCHAR,
                "scalars": {"string_data": {"data": [p.text for p in points]}},
            },
            {"field_name": "$meta", "type": self._JSON, "is_dynamic": True, "scalars": {"json_data": {"data": rows}}},
        ]
        sent = message_type("WriteRequest")(collection_name=name, fields_data=columns, num_rows=len(points))
        # A connection for each call, as over HTTP: none is shared, and none waits before it connects again.
        with grpc.insecure_channel(url.removeprefix("http://"), [("grpc.use_local_subchannel_pool", 1)]) as channel:
            call: Any = channel.unary_unary("/milvus.proto.milvus.MilvusService/Upsert")
            try:
                body = call(sent.SerializeToString(), timeout=30)
            except grpc.RpcError as error:
                return REFUSED if error.code() is grpc.StatusCode.ALREADY_EXISTS else UNAVAILABLE
        status = message_type("MutationResult").FromString(body).status
        return UNAVAILABLE if status.code or status.error_code else STORED[0]

    def everything(self, name: str) -> Iterator[tuple[int, str]]:
        client = connected(self.url)
        every = client.query(name, filter="id >= 0", output_fields=["id"], consistency_level="Strong")
        for start in range(0, max((row["id"] for row in every), default=0) + 1, PAGE):
            inside = f"id >= {start} and id < {start + PAGE}"
            for row in client.query(name, filter=inside, output_fields=["*"], consistency_level="Strong"):
                fields = {key: [float(v) for v in value] if key == "vec" else value for key, value in row.items()}
                yield row["id"], json.dumps(fields, sort_keys=True, default=repr)


class OpenSearch(_Plain):
    """One document by its path, several as a batch."""

    backend = "opensearch"
    vector: ClassVar[Mapping[str, object]] = {
        "type": "knn_vector",
        "dimension": SIZE,
        "method": {"name": "hnsw", "space_type": "cosinesimil", "engine": "lucene"},
    }

    def start(self) -> None:
        self._process = _kept(self)

    def create(self, name: str) -> None:
        members = {"vec": self.vector, "text": {"type": "text"}, "tags": {"type": "long"}}
        self.requested("PUT", f"/{name}", {"settings": {"knn": True}, "mappings": {"properties": members}})

    def upsert(self, url: str, name: str, points: Sequence[Made]) -> int:
        sources = [json.dumps({"text": p.text, "tags": [p.tag], "vec": p.vector}).encode() for p in points]
        if len(points) == 1:
            return stack.exchange(url, "PUT", f"/{name}/_doc/{points[0].number}", sources[0]).status
        actions = [b'{"index":{"_id":"%d"}}' % p.number for p in points]
        body = b"".join([b"%s\n%s\n" % pair for pair in zip(actions, sources, strict=True)])
        answer = stack.exchange(url, "POST", f"/{name}/_bulk", body)
        is_whole = answer.status != 200 or not json.loads(answer.body)["errors"]
        return answer.status if is_whole else UNAVAILABLE

    def everything(self, name: str) -> Iterator[tuple[int, str]]:
        after: dict[str, object] = {}
        while True:
            search = {"size": PAGE, "sort": [{"_id": "asc"}], "_source": ["*", "vec"], **after}
            hits = self.requested("POST", f"/{name}/_search", search)["hits"]["hits"]
            yield from ((int(hit["_id"]), _spelled(hit["_source"])) for hit in hits)
            if len(hits) < PAGE:
                return
            after = {"search_after": hits[-1]["sort"]}


class Elasticsearch(OpenSearch):
    backend = "elasticsearch"
    vector: ClassVar = {"type": "dense_vector", "dims": SIZE, "index": True, "similarity": "cosine"}


def _kept(database: _Plain) -> Process:
    """A server of prove.kept_servers, once it listens."""
    command = [sys.executable, "-m", kept_servers.__name__, database.backend, str(database.folder), str(database.port)]
    path = os.pathsep.join(filter(None, (str(TESTS), os.environ.get("PYTHONPATH"))))
    process = Process(command, environment={**os.environ, "PYTHONPATH": path})
    process.wait_until_it_says(kept_servers.LISTENING)
    return process


DATABASES: Mapping[str, Callable[[Path], Database]] = {
    kind.backend: kind for kind in (Qdrant, Chroma, Pinecone, Milvus, Weaviate, OpenSearch, Elasticsearch)
}
