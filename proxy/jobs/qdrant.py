"""A Qdrant collection as a source: read through the official client, one request at a time, at a limited rate."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from vecsieve.config.problems import masked, one_line

from ..selection.geometry import NOISE
from .source import (
    Access,
    Pace,
    Point,
    PointId,
    Shape,
    SourceError,
    Vectors,
    measured,
    patiently,
)


def known_errors() -> tuple[type[Exception], ...]:
    """The official client's exceptions for failed requests."""
    from qdrant_client.common.client_exceptions import QdrantException
    from qdrant_client.http.exceptions import ApiException

    return ApiException, QdrantException


def explained(error: Exception, *, url: str, collection: str, names: Callable[[], tuple[str, ...]]) -> SourceError:
    """One line for an operator. It may quote the error's body, but no key. ``names``: lists the collections."""
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    if isinstance(error, ResponseHandlingException):
        why = _why_unreachable(error.source)
        if why is not None:
            return SourceError(f"Cannot reach {url} ({why}). Is the URL right? (--backend says which database it is.)")
        seen = one_line(f"{type(error.source).__name__}: {error.source}")
        return SourceError(f"{url} does not answer as Qdrant does: {seen}. (--backend says which database it is.)")
    if not isinstance(error, UnexpectedResponse):
        return SourceError(f"{url}: too many requests for the database's own limit; a lower --rate may pass")
    status = error.status_code or 0
    if status in {401, 403}:
        return SourceError(
            f"{url} refused to show collection {collection!r} (status {status}); wanted a key that may read it, "
            "in the environment variable that --api-key-env names"
        )
    if status == 404:
        there = ", ".join(names()) or "none that this key may see"
        return SourceError(f"{url} has no collection {collection!r}; it has: {there}")
    return SourceError(f"{url} answered with status {status}: {_message(error.content)}")


def _why_unreachable(error: Exception) -> str | None:
    """In words, if no connection was made; None if there was one."""
    kind = type(error).__name__  # from httpx, which only the official client needs
    if kind in {"ConnectTimeout", "ReadTimeout", "WriteTimeout", "PoolTimeout"}:
        return "no answer in time"
    if kind != "ConnectError":
        return None
    number = re.search(r"Errno (-?\d+)\]", str(error))
    if number is None:
        return one_line(str(error)) or "no connection"
    return os.strerror(int(number[1])).lower() if int(number[1]) > 0 else "the name is unknown"


def _message(content: bytes) -> str:
    try:
        message = json.loads(content)["status"]["error"]
    except (ValueError, KeyError, TypeError):
        message = content.decode("utf-8", "replace")
    return one_line(str(message))


T = TypeVar("T")

_MOST_NAMED = 20  # collections that an error lists


class QdrantSource:
    """One collection of one server. ``payload_fields``: the fields to read at least, None for all. The default port of a URL is 6333, as in
    the client. Raises SourceError for an invalid URL.
    """

    def __init__(self, access: Access, payload_fields: tuple[str, ...] | None = None) -> None:
        from qdrant_client import QdrantClient

        # As a header: with the argument api_key the client warns about plain HTTP on every start.
        headers = {} if access.api_key is None else {"api-key": access.api_key}
        try:
            self._client = QdrantClient(
                url=access.url, timeout=access.timeout_seconds, check_compatibility=False, headers=headers
            )
        except ValueError:
            raise SourceError(f"--url: wanted http(s)://host[:port], saw {masked(access.url)}") from None
        self._url = str(masked(access.url))
        self._collection = access.collection
        self._requested_name = access.vector_name
        self._pace = Pace(access.requests_per_second)
        # Everything if a field has dots: Qdrant reads them only as a path, but a key may contain dots.
        is_whole = payload_fields is None or any("." in field for field in payload_fields)
        self._payload: bool | list[str] = True if is_whole else list(payload_fields or ())
        self._shape: Shape | None = None

    def shape(self) -> Shape:
        if self._shape is None:
            info = self._ask(lambda: self._client.get_collection(self._collection))
            self._shape = shape_of(
                info.config.params.vectors,
                requested=self._requested_name,
                collection=self._collection,
                points=info.points_count or 0,
            )
        return self._shape

    def ids(self, *, after: PointId | None, page: int) -> tuple[list[PointId], PointId | None]:
        records, following = self._ask(
            lambda: self._client.scroll(
                self._collection, limit=page, offset=after, with_payload=False, with_vectors=False
            )
        )
        return [_plain_id(record.id) for record in records], None if following is None else _plain_id(following)

    def read(self, ids: Sequence[PointId]) -> list[Point]:
        selector = self._selector()
        records = self._ask(
            lambda: self._client.retrieve(
                self._collection, list(ids), with_payload=self._payload, with_vectors=selector
            )
        )
        points_by_id = {point.id: point for point in map(self._point, records)}
        return [points_by_id[each] for each in ids if each in points_by_id]

    def neighbours(self, vectors: Vectors, *, count: int) -> list[list[tuple[Point, float]]]:
        answers = self._queried(vectors, count, with_payload=self._payload, with_vector=self._selector())
        pools = [[self._point(scored) for scored in answer] for answer in answers]
        return [
            measured(vector, pool, magnitude=self.shape().magnitude)
            for vector, pool in zip(vectors, pools, strict=True)
        ]

    def nearest(self, vectors: Vectors, *, count: int) -> list[list[tuple[PointId, float]]]:
        """As ``neighbours``, with ids and distances only: for cosine the distance follows from the score, without the vector."""
        from qdrant_client import models

        shape = self.shape()
        if shape.distance != "Cosine":
            return [[(point.id, far) for point, far in pool] for pool in self.neighbours(vectors, count=count)]
        exact = models.SearchParams(quantization=models.QuantizationSearchParams(rescore=True))
        answers = self._queried(vectors, count, params=exact)
        return [[(_plain_id(each.id), _distance(each.score)) for each in answer] for answer in answers]

    def close(self) -> None:
        self._client.close()

    def _queried(self, vectors: Vectors, count: int, **what: Any) -> list[list[Any]]:
        """The client's scored points for each row of ``vectors``. ``what``: further members of each request."""
        from qdrant_client import models

        name = self.shape().vector_name or None
        requests = [models.QueryRequest(query=row.tolist(), using=name, limit=count, **what) for row in vectors]
        answers = self._ask(lambda: self._client.query_batch_points(self._collection, requests))
        return [answer.points for answer in answers]

    def _selector(self) -> bool | list[str]:
        """True for the unnamed vector: old servers do not accept its name "" in a list."""
        name = self.shape().vector_name
        return [name] if name else True

    def _point(self, record: Any) -> Point:
        """``record``: the client's Record or ScoredPoint."""
        shape = self.shape()
        vectors: object = record.vector
        if isinstance(vectors, Mapping):
            vectors = vectors.get(shape.vector_name)
        vector = np.asarray(vectors, np.float32) if isinstance(vectors, list) else None
        if vector is not None and vector.shape != (shape.dimension,):
            vector = None
        return Point(id=_plain_id(record.id), vector=vector, payload=record.payload or {})

    def _ask(self, request: Callable[[], T]) -> T:
        try:
            return patiently(request, known_errors(), _delay, self._pace)
        except known_errors() as error:
            raise explained(error, url=self._url, collection=self._collection, names=self._names) from None

    def _names(self) -> tuple[str, ...]:
        """The collections that this key may list."""
        try:
            collections = self._client.get_collections().collections
        except known_errors():
            return ()
        return tuple(sorted(each.name for each in collections))[:_MOST_NAMED]


def shape_of(vectors: Any, *, requested: str | None, collection: str, points: int) -> Shape:
    """The shape with the dense vector ``requested``; None: the unnamed one, or the only one.

    ``vectors``: from the client's collection info, without sparse ones: VectorParams, one or by name, or None. Raises SourceError with
    the names there are.
    """
    declared: Mapping[str, Any] = (
        {} if vectors is None else dict(vectors) if isinstance(vectors, Mapping) else {"": vectors}
    )
    if not declared:
        raise SourceError(f"collection {collection!r} has only sparse vectors; wanted a dense one")
    names = tuple(sorted(name for name, each in declared.items() if each.multivector_config is None))
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
    return Shape(points=points, dimension=chosen.size, distance=chosen.distance.value, vector_name=name)


def _delay(error: Exception) -> float | None:
    from qdrant_client.common.client_exceptions import ResourceExhaustedResponse
    from qdrant_client.http.exceptions import UnexpectedResponse

    if isinstance(error, ResourceExhaustedResponse):
        return float(error.retry_after_s)
    return 0.0 if isinstance(error, UnexpectedResponse) and error.status_code == 429 else None


def _distance(score: float) -> float:
    """Of a cosine score; below float32's precision it is zero, as in selection/geometry.py."""
    distance = min(1.0 - score, 2.0)
    return 0.0 if distance < NOISE else distance


def _plain_id(value: object) -> PointId:
    """UUIDs become text, in whichever form the client has them."""
    return value if isinstance(value, int) else str(value)
