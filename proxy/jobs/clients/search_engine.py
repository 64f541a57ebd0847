"""An index of OpenSearch or Elasticsearch, over REST: both official clients would parse the documents, whose own bytes are needed.

Ids are listed from a point in time for each shard, in the order of its documents, by ``search_after``: that works in all versions of both products,
whose tie-breakers for several shards differ. A deletion names the sequence number that was read, so that no changed document is deleted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any
from urllib.parse import quote

import msgspec
import numpy as np
import orjson

from vecsieve.adapters.contract import MalformedReplyError
from vecsieve.adapters.opensearch.calls import OPENSEARCH
from vecsieve.adapters.opensearch.schema import SOURCE, Schema, SourceForm, read_schema
from vecsieve.adapters.opensearch.write import WRITES, stored_in
from vecsieve.config.problems import one_line

from ..rest import Rest
from ..source import Access, Point, PointId, Points, Shape, Source, SourceError, Vectors, Whole, key_of, mark_of

_IDS = 5000  # per page, which are small
_KEEP_ALIVE = "5m"
_DISTANCES = {
    "cosinesimil": "Cosine", "cosine": "Cosine", "dot_product": "Dot", "max_inner_product": "Dot", "innerproduct": "Dot",
    "l2": "Euclid", "l2_norm": "Euclid", "l1": "Manhattan",
}  # fmt: skip


class SearchEngine(Source, Points):
    """``collection``: the name of the index, or an alias of one. ``api_key``: of Elasticsearch; of OpenSearch the whole field `Authorization`."""

    def __init__(self, backend: str, access: Access) -> None:
        super().__init__(access)
        self._is_opensearch = backend == OPENSEARCH
        self._verbs = WRITES[backend]()
        scheme = "" if self._is_opensearch else "ApiKey "
        key = {} if access.api_key is None else {"Authorization": f"{scheme}{access.api_key}"}
        self._rest = Rest(access, access.url.rstrip("/"), key)
        self._path = f"/{quote(access.collection, safe='')}"

    @cached_property
    def _description(self) -> bytes:
        reply = self._rest.sent("GET", self._path, missing=b"")
        if not reply:
            raise SourceError(f"there is no index {self.access.collection!r}")
        return reply

    @cached_property
    def _schema(self) -> Schema:
        try:
            return read_schema(self._description)
        except MalformedReplyError:
            raise SourceError(f"collection {self.access.collection!r} is not one index") from None

    @property
    def form(self) -> SourceForm:  # type: ignore[override]  # - known when the index is described
        return SourceForm(paths=tuple(self._schema.vectors))

    def described(self) -> Shape:
        there = sorted(self._schema.vectors)
        name = self.access.vector_name or (there[0] if len(there) == 1 else "")
        if name not in self._schema.vectors:
            listed = ", ".join(there) or "none"
            raise SourceError(
                f"collection {self.access.collection!r}: say with --vector which vector field; it has: {listed}"
            )
        field = self._field(name)
        space = field.get("space_type") or field.get("method", {}).get("space_type") or field.get("similarity")
        default = "l2" if self._is_opensearch else "cosine"
        count = orjson.loads(self._rest.sent("GET", f"{self._path}/_count"))["count"]
        dimension = field.get("dimension") or field.get("dims") or 0
        return Shape(
            points=count, dimension=dimension, distance=_DISTANCES.get(space or default, "Euclid"), vector_name=name
        )

    def _field(self, path: str) -> Mapping[str, Any]:
        """The mapping of a vector."""
        (index,) = orjson.loads(self._description).values()
        mapping: Mapping[str, Any] = index["mappings"]
        for name in path.split("."):
            mapping = mapping["properties"][name]
        return mapping

    def listed(self) -> Iterator[list[PointId]]:
        """Of all that is stored now, if the key may refresh the index: a point in time shows no more than searches do."""
        with suppress(SourceError):
            self._rest.sent("POST", f"{self._path}/_refresh")
        (index,) = orjson.loads(self._description).values()
        for shard in range(int(index["settings"]["index"]["number_of_shards"])):
            yield from self._listed_of(shard)

    def _listed_of(self, shard: int) -> Iterator[list[PointId]]:
        path, name = ("/_search/point_in_time", "pit_id") if self._is_opensearch else ("/_pit", "id")
        opened = f"{self._path}{path}?keep_alive={_KEEP_ALIVE}&preference=_shards:{shard}"
        pit = orjson.loads(self._rest.sent("POST", opened))[name]
        after: Mapping[str, object] = {}
        try:
            while True:
                search = {"size": _IDS, "sort": ["_doc"], SOURCE: False, "track_total_hits": False, **after}
                search["pit"] = {"id": pit, "keep_alive": _KEEP_ALIVE}
                answer = orjson.loads(self._rest.sent("POST", "/_search", orjson.dumps(search)))
                if answer["timed_out"] or answer["_shards"]["failed"]:
                    raise SourceError(f"collection {self.access.collection!r}: a shard could not be read")
                pit, hits = answer.get("pit_id", pit), answer["hits"]["hits"]
                yield [hit["_id"] for hit in hits]
                if len(hits) < _IDS:
                    return
                after = {"search_after": hits[-1]["sort"]}
        finally:
            self._rest.sent("DELETE", path, orjson.dumps({name: [pit] if self._is_opensearch else pit}))

    def fetched(self, ids: Sequence[PointId]) -> Iterable[Point]:
        return [self._point(orjson.loads(key), body) for key, body in self._stored(list(map(key_of, ids))).items()]

    def nearest(self, vectors: Vectors, count: int) -> Iterable[list[Point]]:
        name = self.shape().vector_name
        for row in vectors.tolist():
            near = self._verbs.near(name, orjson.dumps(row), count, b"")
            body = b'{"size":%d,"_source":["*",%s],%s}' % (count, orjson.dumps(name), near)
            hits = orjson.loads(self._rest.sent("POST", f"{self._path}/_search", body))["hits"]["hits"]
            yield [self._point(hit["_id"], orjson.dumps(hit)) for hit in hits]

    def whole(self, ids: Sequence[PointId]) -> list[Whole]:
        if not self._schema.is_restorable:
            raise SourceError(
                "--apply: the index does not show its documents as they were written; undo could not restore them"
            )
        wholes = []
        for key, body in self._stored(list(map(key_of, ids))).items():
            point = self._point(orjson.loads(key), body)
            mark = mark_of(point.vector, point.payload)
            wholes.append(Whole(id=point.id, key=key, partition=b"", body=body, mark=mark))
        return wholes

    def delete(self, points: Sequence[Whole]) -> None:
        lines = []
        for point in points:
            numbers = orjson.loads(point.body)
            about = {"_id": point.id, "if_seq_no": numbers["_seq_no"], "if_primary_term": numbers["_primary_term"]}
            lines.append(orjson.dumps({"delete": about}) + b"\n")
        self._batch(lines, unless=(404, 409))

    def present(self, _partition: bytes, keys: Sequence[bytes]) -> frozenset[bytes]:
        return frozenset(self._read(keys, "_source=false"))

    def put(self, _partition: bytes, bodies: Sequence[bytes]) -> None:
        lines = []
        for body in bodies:
            single = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
            source = bytes(single[SOURCE]).replace(b"\n", b"")
            lines.append(b'{"index":{"_id":%s}}\n%s\n' % (bytes(single["_id"]), source))
        self._batch(lines)

    def stored(self, _partition: bytes, id_: PointId) -> bytes | None:
        return self._stored([key_of(id_)]).get(key_of(id_))

    def _stored(self, keys: Sequence[bytes]) -> Mapping[bytes, bytes]:
        """With all vectors, which newer servers leave out where they are not named."""
        vectors = ",".join([quote(path, safe="") for path in self._schema.vectors])
        return self._read(keys, f"_source_includes=*,{vectors}")

    def _read(self, keys: Sequence[bytes], selection: str) -> Mapping[bytes, bytes]:
        if not keys:
            return {}
        answer = self._rest.sent("POST", f"{self._path}/_mget?{selection}", b'{"ids":[%s]}' % b",".join(keys))
        try:
            return stored_in(answer, self._schema.index)
        except (ValueError, msgspec.DecodeError) as error:
            raise SourceError(f"collection {self.access.collection!r}: {one_line(str(error))}") from None

    def _batch(self, lines: Sequence[bytes], unless: tuple[int, ...] = ()) -> None:
        """``unless``: statuses of actions that are no failures. Raises SourceError."""
        answer = orjson.loads(self._rest.sent("POST", f"{self._path}/_bulk", b"".join(lines)))
        items = [item for operation in answer["items"] for item in operation.values()]
        failed = [item for item in items if item["status"] >= 400 and item["status"] not in unless]
        if failed:
            raise SourceError(f"the database refused {len(failed)} of {len(items)}: {failed[0]['error'].get('reason')}")

    def _point(self, id_: str, single: bytes) -> Point:
        source = orjson.loads(single)[SOURCE]
        vector: Any = source
        for name in self.shape().vector_name.split("."):
            vector = vector.get(name) if isinstance(vector, dict) else None
        is_dense = isinstance(vector, list) and not any(isinstance(element, list) for element in vector[:1])
        return Point(
            id=id_,
            vector=self.vector_of(np.asarray(vector, np.float32)) if is_dense else None,
            payload=self.form.payload_of({SOURCE: source}),
        )
