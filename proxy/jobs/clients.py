"""Collections of Chroma, Milvus and Pinecone as sources, and their complete points, each through its official client."""

from __future__ import annotations

import logging
import re
from base64 import b64decode
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar
from urllib.parse import urlsplit

import numpy as np
import orjson
from grpc import Call, RpcError

from vecsieve.adapters.chroma.write import FORM as CHROMA_FORM
from vecsieve.adapters.milvus.calls import DEFAULT_DATABASE
from vecsieve.adapters.milvus.fields import FieldType, Row
from vecsieve.adapters.pinecone.calls import index_of
from vecsieve.adapters.pinecone.rest_write import FORM as PINECONE_FORM
from vecsieve.adapters.writes import Form
from vecsieve.config.problems import masked

from .points import RestorablePoints
from .source import Access, ListedSource, Point, PointId, Shape, SourceError, Vectors, Whole

T = TypeVar("T")

_CHROMA_DISTANCES = {"l2": "Euclid", "cosine": "Cosine", "ip": "Dot"}
_IDS = 5000  # ids per page, which are small
_PARTS = ["embeddings", "documents", "metadatas"]
_MEMBERS = ("ids", "embeddings", "documents", "metadatas", "uris")  # as the client's `add` names them
_HEX = "[0-9a-f]"
_WRITTEN_DOWN = re.compile(rf"(?:([^/]+)/([^/]+)/)?({_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}})")
DOCUMENT = "document"  # the payload member that holds the document; one of the usual text fields


class ChromaSource(ListedSource, RestorablePoints):
    """The collection by its name in the default tenant and database, or in the write gate's spelling, `tenant/database/ID`. It is opened at
    the first request.
    """

    form: Form = CHROMA_FORM

    def __init__(self, access: Access, _fields: tuple[str, ...] | None = None) -> None:
        from chromadb.config import Settings
        from chromadb.errors import ChromaError
        from httpx import HTTPError

        super().__init__(access)
        self.refuse_vector_name("Chroma")
        self.errors = (ChromaError, HTTPError, ValueError)  # ValueError: no server answers
        parts = urlsplit(access.url)
        if parts.scheme not in {"http", "https"} or parts.hostname is None or parts.username is not None:
            raise SourceError("--url: wanted http(s)://host[:port]")
        headers = {} if access.api_key is None else {"x-chroma-token": access.api_key}
        is_tls = parts.scheme == "https"
        port = parts.port or (443 if is_tls else 8000)
        settings = Settings(
            anonymized_telemetry=False,
            chroma_api_impl="chromadb.api.fastapi.FastAPI",
            chroma_server_host=parts.hostname,
            chroma_server_http_port=port,
            chroma_server_ssl_enabled=is_tls,
            chroma_server_headers=headers,
        )
        written = _WRITTEN_DOWN.fullmatch(access.collection)
        where = {"tenant": written[1], "database": written[2]} if written is not None and written[1] else {}
        self._client: Any = self.ask(lambda: _bounded_client(access.timeout_seconds)(settings=settings, **where))
        name = access.collection if written is None else self._name_of(written[3])
        self._collection: Any = self.ask(lambda: self._client.get_collection(name))

    def _name_of(self, identifier: str) -> str:
        """The name of the collection with this id; a name may look like an id."""
        collections = self.ask(self._client.list_collections)
        return next((str(one.name) for one in collections if str(one.id) == identifier), identifier)

    def described(self) -> Shape:
        configuration: Mapping[str, Any] = self._collection.configuration or {}
        index = configuration.get("hnsw") or configuration.get("spann") or {}
        first = self.ask(lambda: self._collection.get(limit=1, include=["embeddings"]))["embeddings"]
        if first is None or not len(first):
            raise SourceError(f"collection {self.access.collection!r} has no points")
        return Shape(
            points=self.ask(self._collection.count),
            dimension=len(first[0]),
            distance=_CHROMA_DISTANCES.get(str(index.get("space")), "Euclid"),  # l2 is Chroma's own default
            vector_name="",
        )

    def listed(self) -> Iterator[list[PointId]]:
        start = 0
        while True:
            page = self.ask(partial(self._collection.get, limit=_IDS, offset=start, include=[]))["ids"]
            yield list(page)
            start += len(page)
            if len(page) < _IDS:
                return

    def fetched(self, ids: Sequence[PointId]) -> Iterable[Point]:
        reply = self.ask(lambda: self._collection.get(ids=list(map(str, ids)), include=_PARTS))
        return self._points(reply["ids"], reply["embeddings"], reply["documents"], reply["metadatas"])

    def nearest_to(self, vector: Vectors, count: int) -> list[Point]:
        query = np.asarray(vector, np.float32)
        reply = self.ask(lambda: self._collection.query(query_embeddings=[query], n_results=count, include=_PARTS))
        columns = (reply[name][0] for name in ("ids", "embeddings", "documents", "metadatas"))
        return list(self._points(*columns))

    def whole(self, ids: Sequence[PointId]) -> list[Whole]:
        reply = self.ask(lambda: self._collection.get(ids=list(map(str, ids)), include=[*_PARTS, "uris"]))
        columns = reply["ids"], reply["embeddings"], reply["documents"], reply["metadatas"]
        points = self._points(*columns)
        uris = reply["uris"] or [None] * len(reply["ids"])
        return [
            self.complete(point, dict(zip(_MEMBERS, (*parts, uri), strict=True)))
            for point, *parts, uri in zip(points, *columns, uris, strict=True)
        ]

    def delete(self, points: Sequence[Whole]) -> None:
        self.ask(lambda: self._collection.delete(ids=[str(point.id) for point in points]))

    def present(self, _partition: bytes, keys: Sequence[bytes]) -> frozenset[bytes]:
        ids = [orjson.loads(key) for key in keys]
        return frozenset(map(orjson.dumps, self.ask(lambda: self._collection.get(ids=ids, include=[]))["ids"]))

    def put(self, _partition: bytes, bodies: Sequence[bytes]) -> None:
        groups: defaultdict[tuple[str, ...], list[dict[str, Any]]] = defaultdict(list)
        for body in bodies:
            members = _record(body)
            groups[tuple(members)].append(members)
        for names, points in groups.items():  # the client takes a column for all points of a call or for none
            columns = {name: [point[name] for point in points] for name in names}
            self.ask(partial(self._collection.add, **columns))  # points that are already stored stay

    def stored(self, _partition: bytes, id_: PointId) -> bytes | None:
        return next((point.body for point in self.whole([id_])), None)

    def restore(self, _partition: bytes, body: bytes) -> None:
        """If a record is stored again, Chroma keeps its keys, except those that are null."""
        members = _record(body)
        (stored,) = self.ask(lambda: self._collection.get(ids=[members["ids"]], include=["metadatas"]))["metadatas"]
        metadata = members.get("metadatas") or {}
        removed = {key: None for key in stored or {} if key not in metadata}
        if removed or metadata:
            members["metadatas"] = {**metadata, **removed}
        columns = {name: [value] for name, value in members.items()}
        self.ask(lambda: self._collection.upsert(**columns))

    def delay(self, error: Exception) -> float | None:
        from chromadb.errors import RateLimitError

        return 0.0 if isinstance(error, RateLimitError) else None

    def close(self) -> None:
        self._client.close()

    def _points(self, ids: Any, vectors: Any, documents: Any, metadatas: Any) -> Iterator[Point]:
        for id_, vector, document, metadata in zip(ids, vectors, documents, metadatas, strict=True):
            payload = {**(metadata or {}), **({} if document is None else {DOCUMENT: document})}
            yield Point(id=id_, vector=self.vector_of(vector), payload=payload)


def _bounded_client(seconds: int) -> type[Any]:
    """Chroma's client over HTTP, whose requests have no timeout, with one for each request. The first request names the user."""
    from chromadb.api.client import Client

    class Bounded(Client):
        def get_user_identity(self) -> Any:
            server: Any = self._server
            server._session.timeout = seconds  # noqa: SLF001 - the client has no option for it
            return super().get_user_identity()

    return Bounded


def _record(body: bytes) -> dict[str, Any]:
    """The members of a record in the client's form."""
    members = {name: value for name, value in orjson.loads(body).items() if value is not None}
    if isinstance(packed := members.get("embeddings"), str):  # as clients send them
        members["embeddings"] = np.frombuffer(b64decode(packed), "<f4")
    return members


def _milvus_type(field: Mapping[str, Any]) -> FieldType:
    return FieldType(kind=int(field["type"]), element=int(field.get("element_type") or 0))


_MILVUS_DISTANCES = {"COSINE": "Cosine", "IP": "Dot", "L2": "Euclid"}


class MilvusSource(ListedSource, RestorablePoints):
    """``vector_name``: the vector field."""

    def __init__(self, access: Access, _fields: tuple[str, ...] | None = None) -> None:
        from pymilvus import DataType, MilvusClient
        from pymilvus.exceptions import MilvusException

        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # it logs every refusal with a traceback
        database, _, collection = access.collection.rpartition("/")  # the write gate's journal uses both names
        access = replace(access, collection=collection)
        super().__init__(access)
        self.errors = (MilvusException, RpcError)
        self._dense, self._number = DataType.FLOAT_VECTOR, DataType.INT64
        self._small, self._sparse = DataType.INT8_VECTOR, DataType.SPARSE_FLOAT_VECTOR
        kinds = ("BINARY_VECTOR", "FLOAT16_VECTOR", "BFLOAT16_VECTOR", "INT8_VECTOR", "SPARSE_FLOAT_VECTOR")
        self._bytes = {DataType[name] for name in kinds}
        self._is_restorable = False
        try:
            self._client = MilvusClient(
                uri=access.url,
                token=access.api_key or "",
                timeout=access.timeout_seconds,
                db_name="" if database == DEFAULT_DATABASE else database,
            )
        except MilvusException as error:
            raise self.explained(error) from None
        self._described: Mapping[str, Any] = self._call(self._client.describe_collection, access.collection)
        self._key = next(str(field["name"]) for field in self._described["fields"] if field.get("is_primary"))
        self._vectors = [str(field["name"]) for field in self._described["fields"] if "dim" in field.get("params", {})]
        self.form = Row(
            key=self._key, types={str(each["name"]): _milvus_type(each) for each in self._described["fields"]}
        )

    def described(self) -> Shape:
        collection = self.access.collection
        dense = {field["name"]: field for field in self._described["fields"] if field["type"] == self._dense}
        name = self.access.vector_name
        if name is None and len(dense) == 1:
            (name,) = dense
        if name not in dense:
            there = ", ".join(sorted(dense)) or "none"
            raise SourceError(f"collection {collection!r}: say with --vector which vector field; it has: {there}")
        indexes = self._call(self._client.list_indexes, collection, field_name=name)
        metric = self._call(self._client.describe_index, collection, indexes[0]) if indexes else {}
        return Shape(
            points=int(self._call(self._client.get_collection_stats, collection)["row_count"]),
            dimension=int(dense[name]["params"]["dim"]),
            distance=_MILVUS_DISTANCES.get(str(metric.get("metric_type")), "Cosine"),
            vector_name=str(name),
        )

    def listed(self) -> Iterator[list[PointId]]:
        collection = self.access.collection
        pages = self._call(self._client.query_iterator, collection, batch_size=_IDS, output_fields=[self._key])
        while page := self.ask(pages.next):
            yield [self._id(row[self._key]) for row in page]
        pages.close()

    def fetched(self, ids: Sequence[PointId]) -> Iterable[Point]:
        rows = self._call(self._client.get, self.access.collection, list(ids), output_fields=["*"])
        return [self._point(row) for row in rows]

    def nearest_to(self, vector: Vectors, count: int) -> list[Point]:
        (hits,) = self._call(
            self._client.search,
            self.access.collection,
            data=[vector.tolist()],
            anns_field=self.shape().vector_name,
            limit=count,
            output_fields=["*"],
        )
        return [self._point({self._key: hit[self._key], **hit["entity"]}) for hit in hits]

    def whole(self, ids: Sequence[PointId]) -> list[Whole]:
        self._refuse_what_cannot_be_restored()
        return [self.complete(self._point(row), row) for row in self._rows(ids, "*")]

    def delete(self, points: Sequence[Whole]) -> None:
        self._call(self._client.delete, self.access.collection, ids=[point.id for point in points])

    def present(self, _partition: bytes, keys: Sequence[bytes]) -> frozenset[bytes]:
        rows = self._rows([orjson.loads(key) for key in keys], self._key)
        return frozenset(orjson.dumps(row[self._key]) for row in rows)

    def put(self, partition: bytes, bodies: Sequence[bytes]) -> None:
        rows = [self._accepted(orjson.loads(body)) for body in bodies]
        named = orjson.loads(partition) if partition else None
        store = self._client.insert if self._described.get("auto_id") else self._client.upsert
        self._call(store, self.access.collection, rows, partition_name=named)

    def _accepted(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row in the client's form, from what was sent over REST, or over gRPC with bytes in Base64."""
        kinds = {str(field["name"]): field["type"] for field in self._described["fields"]}
        return {name: self._value(kinds.get(name), value) for name, value in row.items()}

    def _value(self, kind: object, value: Any) -> Any:
        if kind == self._number and isinstance(value, str):
            return int(value)
        if kind == self._sparse and isinstance(value, dict):
            return {int(index): weight for index, weight in value.items()}
        if kind in self._bytes and isinstance(value, str):
            packed = b64decode(value)
            return np.frombuffer(packed, np.int8) if kind == self._small else packed
        return value

    def stored(self, _partition: bytes, id_: PointId) -> bytes | None:
        """Without its vectors, some of which have no JSON."""
        for row in self._rows([id_], "*"):
            payload = {name: value for name, value in row.items() if not self.form.is_vector(name)}
            return orjson.dumps(payload, option=orjson.OPT_SERIALIZE_NUMPY, default=list)
        return None

    def close(self) -> None:
        self._client.close()

    def _rows(self, ids: Sequence[PointId], fields: str) -> list[dict[str, Any]]:
        """Includes rows that have just been written."""
        strong = {"output_fields": [fields], "consistency_level": "Strong"}
        return list(map(dict, self._call(self._client.get, self.access.collection, list(ids), **strong)))

    def _call(self, method: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """The client's own timeout is the connection's alone: a request without one waits for ever."""
        return self.ask(partial(method, *arguments, timeout=self.access.timeout_seconds, **options))

    def explained(self, error: Exception) -> SourceError:
        """The client passes on those errors of gRPC that it does not retry, such as that of a late answer."""
        text = f"{error.code().name}: {error.details()}" if isinstance(error, Call) else error
        return super().explained(Exception(text))

    def _refuse_what_cannot_be_restored(self) -> None:
        """Called before anything is deleted. Raises SourceError."""
        if self._is_restorable:
            return
        if self._described.get("auto_id"):
            raise SourceError(
                "--apply: the database makes the keys of this collection, so that undo could not restore them"
            )
        fields: Sequence[Mapping[str, Any]] = self._described["fields"]
        odd = sorted(str(each["name"]) for each in fields if each["type"] in self._bytes)
        if odd:
            raise SourceError(f"--apply: only float vectors can be journalled; this collection has {', '.join(odd)}")
        partitions = self._call(self._client.list_partitions, self.access.collection)
        if len(partitions) > 1 and not any(each.get("is_partition_key") for each in fields):
            raise SourceError("--apply: the collection has partitions, and Milvus does not say which one holds a point")
        self._is_restorable = True

    def _point(self, row: Mapping[str, Any]) -> Point:
        payload = {name: value for name, value in row.items() if name != self._key and name not in self._vectors}
        vector = self.vector_of(row.get(self.shape().vector_name))
        return Point(id=self._id(row[self._key]), vector=vector, payload=payload)

    def _id(self, key: object) -> PointId:
        if isinstance(key, int) and key < 0:
            raise SourceError(
                f"{masked(self.access.url)}: the key {key} is negative; wanted keys of 0 and above, or texts"
            )
        return key if isinstance(key, int) else str(key)


_PINECONE_DISTANCES = {"cosine": "Cosine", "dotproduct": "Dot", "euclidean": "Euclid"}
_FETCHED = 100  # ids of one fetch: they are part of the URL
DEFAULT_NAMESPACE = "__default__"


class PineconeSource(ListedSource, RestorablePoints):
    """The URL is the index's own host; only serverless indexes list their ids. ``collection``: the namespace; for the write gate's journal,
    whose partitions are namespaces, the index.
    """

    form = PINECONE_FORM

    def __init__(self, access: Access, _fields: tuple[str, ...] | None = None) -> None:
        from pinecone import Pinecone
        from pinecone.errors import PineconeError

        super().__init__(access)
        self.refuse_vector_name("Pinecone")
        self.errors = (PineconeError,)
        if access.api_key is None:
            raise SourceError("Pinecone requires a key: set PINECONE_API_KEY, or name a variable with --api-key-env")
        self._client = Pinecone(api_key=access.api_key, timeout=access.timeout_seconds)
        self._index: Any = self._client.index(host=access.url)
        self._namespace = "" if access.collection == DEFAULT_NAMESPACE else access.collection

    def described(self) -> Shape:
        stats = self.ask(self._index.describe_index_stats)
        statistics = stats.namespaces.get(self._namespace) or stats.namespaces.get(self.access.collection)
        if statistics is None:
            there = ", ".join(sorted(name or DEFAULT_NAMESPACE for name in stats.namespaces)) or "none"
            raise SourceError(f"the index has no namespace {self.access.collection!r}; it has: {there}")
        if not stats.dimension:
            raise SourceError("the index has no dense vectors; wanted an index of dense ones")
        return Shape(
            points=statistics.vector_count,
            dimension=stats.dimension,
            distance=_PINECONE_DISTANCES.get(str(stats.metric), "Cosine"),
            vector_name="",
        )

    def listed(self) -> Iterator[list[PointId]]:
        pages = iter(self._index.list(namespace=self._namespace))
        while (page := self.ask(lambda: next(pages, None))) is not None:
            yield [item.id for item in page.vectors]

    def fetched(self, ids: Sequence[PointId]) -> Iterable[Point]:
        return map(self._point, self._fetch(ids))

    def nearest_to(self, vector: Vectors, count: int) -> list[Point]:
        reply = self.ask(
            lambda: self._index.query(
                vector=vector.tolist(),
                top_k=count,
                namespace=self._namespace,
                include_values=True,
                include_metadata=True,
            )
        )
        return [self._point(each) for each in reply.matches]

    def whole(self, ids: Sequence[PointId]) -> list[Whole]:
        return [self.complete(self._point(each), _members(each)) for each in self._fetch(ids)]

    def delete(self, points: Sequence[Whole]) -> None:
        self.ask(lambda: self._index.delete(ids=[str(point.id) for point in points], namespace=self._namespace))

    def present(self, partition: bytes, keys: Sequence[bytes]) -> frozenset[bytes]:
        namespace = self._namespace_of(partition)
        return frozenset(orjson.dumps(each.id) for each in self._fetch([orjson.loads(key) for key in keys], namespace))

    def put(self, partition: bytes, bodies: Sequence[bytes]) -> None:
        vectors = [_vector(orjson.loads(body)) for body in bodies]
        namespace = self._namespace_of(partition)
        self.ask(lambda: self._index.upsert(vectors=vectors, namespace=namespace, show_progress=False))

    def _namespace_of(self, partition: bytes) -> str:
        """Raises SourceError if the points belong to another index."""
        if not partition:
            return self._namespace
        index, here = self.access.collection, index_of(self.access.url.partition("://")[2] or self.access.url)
        if index != here:
            raise SourceError(
                f"the points are of the index {index!r}, and --url is that of {here!r}: choose by --collection"
            )
        named = orjson.loads(partition)
        return "" if named in {None, DEFAULT_NAMESPACE} else str(named)

    def stored(self, partition: bytes, id_: PointId) -> bytes | None:
        vectors = self._fetch([id_], self._namespace_of(partition))
        return next((orjson.dumps(_members(vector)) for vector in vectors), None)

    def close(self) -> None:
        self._index.close()
        self._client.close()

    def _fetch(self, ids: Sequence[PointId], namespace: str | None = None) -> Iterator[Any]:
        """``namespace``: None for the collection's."""
        inside = self._namespace if namespace is None else namespace
        for start in range(0, len(ids), _FETCHED):
            batch = [str(each) for each in ids[start : start + _FETCHED]]
            yield from self.ask(partial(self._index.fetch, ids=batch, namespace=inside)).vectors.values()

    def _point(self, vector: Any) -> Point:
        return Point(id=vector.id, vector=self.vector_of(vector.values), payload=dict(vector.metadata or {}))


def _vector(vector: dict[str, Any]) -> dict[str, Any]:
    """A vector in the form of the client's `upsert`, from what was sent over REST: without empty members, in its spelling."""
    names = {"sparseValues": "sparse_values"}
    return {names.get(name, name): value for name, value in vector.items() if value not in (None, {}, [])}


def _members(vector: Any) -> dict[str, object]:
    """A vector in the form of the client's `upsert`, which refuses empty members."""
    sparse = getattr(vector, "sparse_values", None)
    members: dict[str, object] = {"id": vector.id}
    if vector.values is not None and len(vector.values):
        members["values"] = list(vector.values)
    if sparse is not None:
        members["sparse_values"] = {"indices": list(sparse.indices), "values": list(sparse.values)}
    if vector.metadata:
        members["metadata"] = dict(vector.metadata)
    return members
