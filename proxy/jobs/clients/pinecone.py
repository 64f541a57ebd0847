"""A namespace of Pinecone, through its official client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import orjson

from vecsieve.adapters.pinecone.calls import index_of
from vecsieve.adapters.pinecone.rest_write import FORM as PINECONE_FORM

from ..source import Access, DatabaseSource, Point, PointId, Points, Shape, SourceError, Vectors, Whole

_PINECONE_DISTANCES = {"cosine": "Cosine", "dotproduct": "Dot", "euclidean": "Euclid"}
_FETCHED = 100  # ids of one fetch: they are part of the URL
DEFAULT_NAMESPACE = "__default__"


class PineconeSource(DatabaseSource, Points):
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

    def nearest(self, vectors: Vectors, count: int) -> Iterable[list[Point]]:
        parts = {"namespace": self._namespace, "include_values": True, "include_metadata": True}
        for row in vectors.tolist():
            reply = self.ask(partial(self._index.query, vector=row, top_k=count, **parts))
            yield [self._point(each) for each in reply.matches]

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
