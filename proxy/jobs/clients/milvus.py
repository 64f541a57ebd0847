"""A collection of Milvus, through its official client."""

from __future__ import annotations

import logging
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
import orjson
from grpc import Call, RpcError

from vecsieve.adapters.milvus.calls import DEFAULT_DATABASE
from vecsieve.adapters.milvus.fields import FieldType, Row
from vecsieve.config.problems import masked, one_line

from ..source import Access, Pace, Point, PointId, Points, Shape, Source, SourceError, Vectors, Whole

T = TypeVar("T")
_IDS = 5000  # ids per page, which are small


_MILVUS_DISTANCES = {"COSINE": "Cosine", "IP": "Dot", "L2": "Euclid"}


class MilvusSource(Source, Points):
    """``vector_name``: the vector field."""

    def __init__(self, access: Access) -> None:
        from pymilvus import DataType, MilvusClient
        from pymilvus.exceptions import MilvusException

        logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # it logs every refusal with a traceback
        database, _, collection = access.collection.rpartition("/")  # the write gate's journal uses both names
        access = replace(access, collection=collection)
        super().__init__(access)
        self._pace, self._errors = Pace(access.requests_per_second), (MilvusException, RpcError)
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
            raise self._explained(error) from None
        self._described: Mapping[str, Any] = self._call(self._client.describe_collection, access.collection)
        self._key = next(str(field["name"]) for field in self._described["fields"] if field.get("is_primary"))
        self._vectors = [str(field["name"]) for field in self._described["fields"] if "dim" in field.get("params", {})]
        types = {
            str(field["name"]): FieldType(kind=int(field["type"]), element=int(field.get("element_type") or 0))
            for field in self._described["fields"]
        }
        self.form = Row(key=self._key, types=types)

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
        while page := self._sent(pages.next):
            yield [self._id(row[self._key]) for row in page]
        pages.close()

    def fetched(self, ids: Sequence[PointId]) -> Iterable[Point]:
        rows = self._call(self._client.get, self.access.collection, list(ids), output_fields=["*"])
        return [self._point(row) for row in rows]

    def nearest(self, vectors: Vectors, count: int) -> Iterable[list[Point]]:
        pools = self._call(
            self._client.search,
            self.access.collection,
            data=vectors.tolist(),
            anns_field=self.shape().vector_name,
            limit=count,
            output_fields=["*"],
        )
        return [[self._point({self._key: hit[self._key], **hit["entity"]}) for hit in hits] for hits in pools]

    def whole(self, ids: Sequence[PointId]) -> list[Whole]:
        self._refuse_what_cannot_be_restored()
        return [self.complete(self._point(row), row) for row in self._rows(ids, "*")]

    def delete(self, points: Sequence[Whole]) -> None:
        self._call(self._client.delete, self.access.collection, ids=[point.id for point in points])

    def present(self, _partition: bytes, keys: Sequence[bytes]) -> frozenset[bytes]:
        rows = self._rows([orjson.loads(key) for key in keys], self._key)
        return frozenset(orjson.dumps(row[self._key]) for row in rows)

    def put(self, partition: bytes, bodies: Sequence[bytes]) -> None:
        # Rows in the client's form, from what was sent over REST, or over gRPC with bytes in Base64.
        kinds = {str(field["name"]): field["type"] for field in self._described["fields"]}
        rows = [
            {name: self._value(kinds.get(name), value) for name, value in orjson.loads(body).items()} for body in bodies
        ]
        named = orjson.loads(partition) if partition else None
        store = self._client.insert if self._described.get("auto_id") else self._client.upsert
        self._call(store, self.access.collection, rows, partition_name=named)

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
        """Bytes are in Base64, as what was sent over gRPC."""
        options = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_NON_STR_KEYS
        return next((orjson.dumps(row, option=options, default=_json) for row in self._rows([id_], "*")), None)

    def close(self) -> None:
        self._client.close()

    def _rows(self, ids: Sequence[PointId], fields: str) -> list[dict[str, Any]]:
        """Includes rows that have just been written."""
        strong = {"output_fields": [fields], "consistency_level": "Strong"}
        return list(map(dict, self._call(self._client.get, self.access.collection, list(ids), **strong)))

    def _call(self, method: Callable[..., T], *arguments: Any, **options: Any) -> T:
        """The client's own timeout is the connection's alone: a request without one waits for ever."""
        return self._sent(partial(method, *arguments, timeout=self.access.timeout_seconds, **options))

    def _sent(self, request: Callable[[], T]) -> T:
        """Send one request at its turn; the client repeats late ones. Raises SourceError."""
        self._pace.wait()
        try:
            return request()
        except self._errors as error:
            raise self._explained(error) from None

    def _explained(self, error: Exception) -> SourceError:
        """One line for an operator, without the key. The client passes on those errors of gRPC that it does not retry, such as that of a late answer."""
        message = one_line(f"{error.code().name}: {error.details()}" if isinstance(error, Call) else str(error))
        where, key = f"{masked(self.access.url)}, collection {self.access.collection!r}", self.access.api_key
        return SourceError(f"{where}: {message.replace(key, '***') if key else message}")

    def _refuse_what_cannot_be_restored(self) -> None:
        """Called before anything is deleted. Raises SourceError."""
        if self._is_restorable:
            return
        if self._described.get("auto_id"):
            raise SourceError(
                "--apply: the database makes the keys of this collection, so that undo could not restore them"
            )
        fields: Sequence[Mapping[str, Any]] = self._described["fields"]
        odd = sorted(str(field["name"]) for field in fields if field["type"] in self._bytes)
        if odd:
            raise SourceError(f"--apply: only float vectors can be journalled; this collection has {', '.join(odd)}")
        partitions = self._call(self._client.list_partitions, self.access.collection)
        if len(partitions) > 1 and not any(field.get("is_partition_key") for field in fields):
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


def _json(value: Any) -> object:
    """A value of pymilvus that is not JSON: bytes, and the lists of protobuf."""
    return b64encode(value).decode() if isinstance(value, bytes) else list(value)
