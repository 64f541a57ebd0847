"""A collection of Qdrant, over REST: the official client would parse the points into objects, and their own bytes are needed."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

import msgspec
import numpy as np
import orjson

from vecsieve.adapters.writes import PLAIN, Form
from vecsieve.config.problems import one_line

from ..rest import Rest
from ..source import Access, Point, PointId, Points, Shape, Source, SourceError, Vectors, Whole, mark_of

_IDS = 10_000  # per page: ids alone are small
_MOST_NAMED = 20  # collections that an error lists
_PORT = 6333  # of a URL without one, as in Qdrant's clients


class _Record(msgspec.Struct):
    id: msgspec.Raw
    payload: msgspec.Raw = msgspec.Raw(b"null")
    vector: msgspec.Raw = msgspec.Raw(b"{}")
    shard_key: msgspec.Raw = msgspec.Raw(b"null")

    def point(self, name: str) -> Point:
        """With the vector of this name, if it is a dense one."""
        vectors = orjson.loads(bytes(self.vector))
        if isinstance(vectors, dict):
            vectors = vectors.get(name)
        is_dense = isinstance(vectors, list) and not any(isinstance(vector, list) for vector in vectors[:1])
        return Point(
            id=orjson.loads(bytes(self.id)),
            vector=np.asarray(vectors, np.float32) if is_dense else None,
            payload=json.loads(bytes(self.payload)) or {},
        )

    @property
    def partition(self) -> bytes:
        return b"" if bytes(self.shard_key) == b"null" else bytes(self.shard_key)

    @property
    def body(self) -> bytes:
        parts = bytes(self.id), bytes(self.payload), bytes(self.vector)
        return b'{"id":%s,"payload":%s,"vector":%s}' % parts


class _Records(msgspec.Struct):
    result: list[_Record]


class _Page(msgspec.Struct):
    points: list[_Record]
    next_page_offset: int | str | None = None


class _Scrolled(msgspec.Struct):
    result: _Page


class _Pools(msgspec.Struct):
    result: list[_Page]


class _Parameters(msgspec.Struct):
    vectors: dict[str, Any] | None = None


class _Configuration(msgspec.Struct):
    params: _Parameters


class _Info(msgspec.Struct):
    config: _Configuration
    points_count: int | None = None


class _Described(msgspec.Struct):
    result: _Info


T = TypeVar("T")


class Qdrant(Source, Points):
    form: Form = PLAIN

    def __init__(self, access: Access) -> None:
        super().__init__(access)
        self._server = with_port(access.url)
        self._path = f"/collections/{quote(access.collection, safe='')}"
        key = {} if access.api_key is None else {"api-key": access.api_key}
        self._rest = Rest(access, self._server, key, self._names)
        # Everything if a field has dots: Qdrant reads them only as a path, but a key may contain dots.
        fields = access.payload_fields
        is_whole = fields is None or any("." in field for field in fields)
        self._payload: bool | list[str] = True if is_whole else list(fields or ())

    def described(self) -> Shape:
        info = self._requested(_Described, "GET", self._path).result
        return shape_of(
            info.config.params.vectors,
            requested=self.access.vector_name,
            collection=self.access.collection,
            points=info.points_count or 0,
        )

    def listed(self) -> Iterator[list[PointId]]:
        after: PointId | None = None
        while True:
            request = {"limit": _IDS, "offset": after, "with_payload": False, "with_vector": False}
            page = self._requested(_Scrolled, "POST", f"{self._path}/points/scroll", request).result
            yield [orjson.loads(bytes(record.id)) for record in page.points]
            after = page.next_page_offset
            if after is None:
                return

    def fetched(self, ids: Sequence[PointId]) -> Iterable[Point]:
        name = self.shape().vector_name
        return [record.point(name) for record in self._records(ids, self._selection(name))]

    def nearest(self, vectors: Vectors, count: int) -> Iterable[list[Point]]:
        name = self.shape().vector_name
        using = {"using": name} if name else {}
        searches = [{"query": row, "limit": count, **using, **self._selection(name)} for row in vectors]
        pools = self._requested(_Pools, "POST", f"{self._path}/points/query/batch", {"searches": searches})
        return [[record.point(name) for record in pool.points] for pool in pools.result]

    def whole(self, ids: Sequence[PointId]) -> list[Whole]:
        return [
            Whole(
                id=(point := record.point(self.access.vector_name or "")).id,
                key=bytes(record.id),
                partition=record.partition,
                body=record.body,
                mark=mark_of(point.vector, point.payload),
            )
            for record in self._records(ids, {"with_payload": True, "with_vector": True})
        ]

    def delete(self, points: Sequence[Whole]) -> None:
        groups: defaultdict[bytes, list[bytes]] = defaultdict(list)
        for point in points:
            groups[point.partition].append(point.key)
        for partition, keys in groups.items():
            body = b'{"points":[%s]%s}' % (b",".join(keys), _shard_key(partition))
            self._rest.sent("POST", f"{self._path}/points/delete?wait=true", body)

    def present(self, partition: bytes, keys: Sequence[bytes]) -> frozenset[bytes]:
        body = b'{"ids":[%s],"with_payload":false,"with_vector":false%s}' % (b",".join(keys), _shard_key(partition))
        answer = self._rest.sent("POST", f"{self._path}/points", body)
        return frozenset(bytes(record.id) for record in self._decoded(_Records, answer).result)

    def put(self, partition: bytes, bodies: Sequence[bytes]) -> None:
        body = b'{"points":[%s]%s}' % (b",".join(bodies), _shard_key(partition))
        self._rest.sent("PUT", f"{self._path}/points?wait=true", body)

    def _records(self, ids: Sequence[PointId], what: Mapping[str, object]) -> list[_Record]:
        return self._requested(_Records, "POST", f"{self._path}/points", {"ids": list(ids), **what}).result

    def _selection(self, name: str) -> Mapping[str, object]:
        """What is read of a point. True for the unnamed vector: old servers do not accept its name "" in a list."""
        return {"with_payload": self._payload, "with_vector": [name] if name else True}

    def _names(self) -> list[str]:
        """The collections that this key may list."""
        try:
            listed = orjson.loads(self._rest.sent("GET", "/collections", missing=b""))["result"]["collections"]
        except (SourceError, ValueError, KeyError, TypeError):
            return []
        return sorted(str(collection.get("name")) for collection in listed)[:_MOST_NAMED]

    def _requested(self, kind: type[T], method: str, target: str, body: object = None) -> T:
        content = b"" if body is None else orjson.dumps(body, option=orjson.OPT_SERIALIZE_NUMPY)
        return self._decoded(kind, self._rest.sent(method, target, content))

    def _decoded(self, kind: type[T], answer: bytes) -> T:
        try:
            return msgspec.json.decode(answer, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise self._rest.strange(one_line(str(error))) from None


def with_port(url: str) -> str:
    parts = urlsplit(url.rstrip("/"))
    try:
        port = parts.port
    except ValueError:
        port = None  # a request names the fault
    return parts._replace(netloc=parts.netloc if port is not None else f"{parts.netloc}:{_PORT}").geturl()


def shape_of(vectors: Mapping[str, Any] | None, *, requested: str | None, collection: str, points: int) -> Shape:
    """The shape with the dense vector ``requested``; None: the unnamed one, or the only one.

    ``vectors``: as the server describes those that are not sparse: one, or several by name. Raises SourceError with the names there are.
    """
    declared: Mapping[str, Any] = {"": vectors} if vectors and isinstance(vectors.get("size"), int) else vectors or {}
    if not declared:
        raise SourceError(f"collection {collection!r} has only sparse vectors; wanted a dense one")
    names = sorted(name for name, params in declared.items() if not params.get("multivector_config"))
    if not names:
        raise SourceError(f"collection {collection!r} has only multivectors; wanted one dense vector a point")
    there = ", ".join(name or '"" (unnamed)' for name in names)
    if requested is None and len(names) > 1 and "" not in names:
        raise SourceError(f"collection {collection!r} has several vectors; say which with --vector: {there}")
    name = names[0] if requested is None else requested  # sorted: the unnamed one first
    if name in declared and name not in names:
        raise SourceError(f"vector {name!r} of {collection!r} holds several vectors a point; wanted one of: {there}")
    if name not in names:
        raise SourceError(f"collection {collection!r} has no dense vector {name!r}; it has: {there}")
    chosen = declared[name]
    return Shape(points=points, dimension=chosen["size"], distance=chosen["distance"], vector_name=name)


def _shard_key(partition: bytes) -> bytes:
    return b',"shard_key":' + partition if partition else b""
