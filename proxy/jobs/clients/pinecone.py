"""A namespace of Pinecone, over REST."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import orjson

from vecsieve.adapters.pinecone.calls import index_of
from vecsieve.adapters.pinecone.rest_write import FORM
from vecsieve.adapters.writes import Form

from ..rest import Rest
from ..source import Access, Point, PointId, Points, Shape, Source, SourceError, Vectors, Whole

_DISTANCES = {"cosine": "Cosine", "dotproduct": "Dot", "euclidean": "Euclid"}
_FETCHED = 100  # ids of one fetch: they are part of the URL
DEFAULT_NAMESPACE = "__default__"


class PineconeSource(Source, Points):
    """The URL is the index's own host; only serverless indexes list their ids. ``collection``: the namespace; for the write gate's journal,
    whose partitions are namespaces, the index.
    """

    form: Form = FORM

    def __init__(self, access: Access) -> None:
        url = access.url.rstrip("/") if "://" in access.url else f"https://{access.url}"
        super().__init__(replace(access, url=url))
        self.refuse_vector_name("Pinecone")
        if access.api_key is None:
            raise SourceError("Pinecone requires a key: set PINECONE_API_KEY, or name a variable with --api-key-env")
        self._rest = Rest(self.access, url, {"Api-Key": access.api_key, "X-Pinecone-Api-Version": "2025-10"})
        self._namespace = "" if access.collection == DEFAULT_NAMESPACE else access.collection

    def described(self) -> Shape:
        stats = self._requested("/describe_index_stats", {})
        namespaces = stats.get("namespaces") or {}
        statistics = namespaces.get(self._namespace) or namespaces.get(self.access.collection)
        if statistics is None:
            there = ", ".join(sorted(name or DEFAULT_NAMESPACE for name in namespaces)) or "none"
            raise SourceError(f"the index has no namespace {self.access.collection!r}; it has: {there}")
        if not stats.get("dimension"):
            raise SourceError("the index has no dense vectors; wanted an index of dense ones")
        return Shape(
            points=statistics["vectorCount"],
            dimension=stats["dimension"],
            distance=_DISTANCES.get(str(stats.get("metric")), "Cosine"),
            vector_name="",
        )

    def listed(self) -> Iterator[list[PointId]]:
        token = None
        while True:
            page = self._got("/vectors/list", self._namespace, paginationToken=token)
            yield [item["id"] for item in page.get("vectors") or []]
            token = (page.get("pagination") or {}).get("next")
            if not token:
                return

    def fetched(self, ids: Sequence[PointId]) -> Iterable[Point]:
        return map(self._point, self._fetch(ids, self._namespace))

    def nearest(self, vectors: Vectors, count: int) -> Iterable[list[Point]]:
        parts = {"topK": count, "namespace": self._namespace, "includeValues": True, "includeMetadata": True}
        for row in vectors:
            yield list(map(self._point, self._requested("/query", {"vector": row, **parts})["matches"]))

    def whole(self, ids: Sequence[PointId]) -> list[Whole]:
        return [self.complete(self._point(vector), _filled(vector)) for vector in self._fetch(ids, self._namespace)]

    def delete(self, points: Sequence[Whole]) -> None:
        self._requested("/vectors/delete", {"ids": [point.id for point in points], "namespace": self._namespace})

    def present(self, partition: bytes, keys: Sequence[bytes]) -> frozenset[bytes]:
        vectors = self._fetch([orjson.loads(key) for key in keys], self._namespace_of(partition))
        return frozenset(orjson.dumps(vector["id"]) for vector in vectors)

    def put(self, partition: bytes, bodies: Sequence[bytes]) -> None:
        vectors = [_filled(orjson.loads(body)) for body in bodies]
        self._requested("/vectors/upsert", {"vectors": vectors, "namespace": self._namespace_of(partition)})

    def stored(self, partition: bytes, id_: PointId) -> bytes | None:
        vectors = self._fetch([id_], self._namespace_of(partition))
        return next((orjson.dumps(_filled(vector)) for vector in vectors), None)

    def _namespace_of(self, partition: bytes) -> str:
        """Raises SourceError if the points belong to another index."""
        if not partition:
            return self._namespace
        index, here = self.access.collection, index_of(self.access.url.partition("://")[2])
        if index != here:
            raise SourceError(
                f"the points are of the index {index!r}, and --url is that of {here!r}: choose by --collection"
            )
        named = orjson.loads(partition)
        return "" if named in {None, DEFAULT_NAMESPACE} else str(named)

    def _fetch(self, ids: Sequence[PointId], namespace: str) -> Iterator[Mapping[str, Any]]:
        for start in range(0, len(ids), _FETCHED):
            yield from self._got("/vectors/fetch", namespace, ids=ids[start : start + _FETCHED])["vectors"].values()

    def _got(self, path: str, namespace: str, **query: object) -> Any:
        named = {name: value for name, value in {**query, "namespace": namespace}.items() if value}
        return self._rest.json("GET", f"{path}?{urlencode(named, doseq=True)}")

    def _requested(self, path: str, body: Mapping[str, object]) -> Any:
        return self._rest.json("POST", path, body)

    def _point(self, vector: Mapping[str, Any]) -> Point:
        return Point(id=vector["id"], vector=self.vector_of(vector.get("values")), payload=vector.get("metadata") or {})


def _filled(vector: Mapping[str, Any]) -> dict[str, Any]:
    """Without the score of a match and empty members, which an upsert refuses."""
    return {name: value for name, value in vector.items() if value not in (None, {}, [])}
