"""A namespace of a Pinecone index as a source, and its points whole. The URL is the index's own host; only serverless indexes list their ids."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import orjson

from vecsieve.adapters.pinecone.calls import index_of
from vecsieve.adapters.pinecone.rest_write import FORM
from vecsieve.proxy.jobs.source import Access, ListedSource, Point, PointId, Shape, SourceError, Vectors, Whole

_DISTANCES = {"cosine": "Cosine", "dotproduct": "Dot", "euclidean": "Euclid"}
_FETCHED = 100  # ids of one fetch: they are in the URL
DEFAULT_NAMESPACE = "__default__"


class PineconeSource(ListedSource):
    """``collection``: the namespace; of what the write gate wrote down, whose partitions are namespaces, the index."""

    form = FORM

    def __init__(self, access: Access, _fields: tuple[str, ...] | None = None) -> None:
        from pinecone import Pinecone
        from pinecone.errors import PineconeError

        super().__init__(access)
        self.refuse_vector_name("Pinecone")
        self.errors = (PineconeError,)
        if access.api_key is None:
            raise SourceError("Pinecone wants a key: put it in PINECONE_API_KEY, or name a variable with --api-key-env")
        self._client = Pinecone(api_key=access.api_key, timeout=access.timeout_seconds)
        self._index: Any = self._client.index(host=access.url)
        self._namespace = "" if access.collection == DEFAULT_NAMESPACE else access.collection

    def described(self) -> Shape:
        stats = self.ask(self._index.describe_index_stats)
        held = stats.namespaces.get(self._namespace) or stats.namespaces.get(self.access.collection)
        if held is None:
            there = ", ".join(sorted(name or DEFAULT_NAMESPACE for name in stats.namespaces)) or "none"
            raise SourceError(f"the index has no namespace {self.access.collection!r}; it has: {there}")
        if not stats.dimension:
            raise SourceError("the index has no dense vectors; wanted an index of dense ones")
        return Shape(
            points=held.vector_count,
            dimension=stats.dimension,
            distance=_DISTANCES.get(str(stats.metric), "Cosine"),
            vector_name="",
        )

    def listed(self) -> Iterator[list[PointId]]:
        pages = iter(self._index.list(namespace=self._namespace))
        while (page := self.ask(lambda: next(pages, None))) is not None:
            yield [item.id for item in page.vectors]

    def fetched(self, ids: Sequence[PointId]) -> Iterable[Point]:
        return map(self._point, self._held(ids))

    def found(self, vector: Vectors, count: int) -> list[Point]:
        found = self.ask(
            lambda: self._index.query(
                vector=vector.tolist(),
                top_k=count,
                namespace=self._namespace,
                include_values=True,
                include_metadata=True,
            )
        )
        return [self._point(each) for each in found.matches]

    def whole(self, ids: Sequence[PointId]) -> list[Whole]:
        return [self.complete(self._point(each), _members(each)) for each in self._held(ids)]

    def delete(self, points: Sequence[Whole]) -> None:
        self.ask(lambda: self._index.delete(ids=[str(point.id) for point in points], namespace=self._namespace))

    def present(self, partition: bytes, keys: Sequence[bytes]) -> frozenset[bytes]:
        namespace = self._namespace_of(partition)
        return frozenset(orjson.dumps(each.id) for each in self._held([orjson.loads(key) for key in keys], namespace))

    def put(self, partition: bytes, bodies: Sequence[bytes]) -> None:
        vectors = [_accepted(orjson.loads(body)) for body in bodies]
        namespace = self._namespace_of(partition)
        self.ask(lambda: self._index.upsert(vectors=vectors, namespace=namespace, show_progress=False))

    def _namespace_of(self, partition: bytes) -> str:
        """Raises SourceError where the points are of another index."""
        if not partition:
            return self._namespace
        index, here = self.access.collection, index_of(self.access.url.partition("://")[2] or self.access.url)
        if index != here:
            raise SourceError(
                f"the points are of the index {index!r}, and --url is that of {here!r}: choose by --collection"
            )
        named = orjson.loads(partition)
        return "" if named in {None, DEFAULT_NAMESPACE} else str(named)

    def stored(self, partition: bytes, each: PointId) -> bytes | None:
        found = self._held([each], self._namespace_of(partition))
        return next((orjson.dumps(_members(vector)) for vector in found), None)

    def restore(self, partition: bytes, body: bytes) -> None:
        self.put(partition, [body])

    def close(self) -> None:
        self._index.close()
        self._client.close()

    def _held(self, ids: Sequence[PointId], namespace: str | None = None) -> Iterator[Any]:
        """``namespace``: None for the collection's."""
        inside = self._namespace if namespace is None else namespace
        for start in range(0, len(ids), _FETCHED):
            wanted = [str(each) for each in ids[start : start + _FETCHED]]
            yield from self.ask(partial(self._index.fetch, ids=wanted, namespace=inside)).vectors.values()

    def _point(self, each: Any) -> Point:
        return Point(id=each.id, vector=self.vector_of(each.values), payload=dict(each.metadata or {}))


def _accepted(vector: dict[str, Any]) -> dict[str, Any]:
    """As the client's `upsert` takes a vector, from what was sent over REST: without empty members, in its spelling."""
    names = {"sparseValues": "sparse_values"}
    return {names.get(name, name): value for name, value in vector.items() if value not in (None, {}, [])}


def _members(each: Any) -> dict[str, object]:
    """As the client's `upsert` takes a vector. Without the members that there are not: it refuses empty ones."""
    sparse = getattr(each, "sparse_values", None)
    found: dict[str, object] = {"id": each.id}
    if each.values is not None and len(each.values):
        found["values"] = list(each.values)
    if sparse is not None:
        found["sparse_values"] = {"indices": list(sparse.indices), "values": list(sparse.values)}
    if each.metadata:
        found["metadata"] = dict(each.metadata)
    return found
