"""A Qdrant collection as a job reads it: the official client, one request after the other, nothing ever written."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Protocol, Self, TypeVar

import numpy as np

from vecsieve.config.problems import masked, one_line
from vecsieve.proxy.jobs.source import Point, PointId, Shape, SourceError, Vectors, choose
from vecsieve.proxy.selection.geometry import NOISE, across, rows_of

# What the official client raised, as one line an operator can act on. Bodies of errors are quoted, keys never are.


def known_errors() -> tuple[type[Exception], ...]:
    """What a request of the official client may raise for reasons outside this program."""
    from qdrant_client.common.client_exceptions import QdrantException
    from qdrant_client.http.exceptions import ApiException

    return ApiException, QdrantException


def explained(error: Exception, *, url: str, collection: str, names: Callable[[], tuple[str, ...]]) -> SourceError:
    """Say what it means. ``names``: asks for the collections there are, where that helps."""
    from qdrant_client.http.exceptions import ResponseHandlingException, UnexpectedResponse

    if isinstance(error, ResponseHandlingException):
        return SourceError(f"{url} does not answer as Qdrant does: {_kind(error.source)}")
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
    return SourceError(f"{url} answered with status {status}: {_said(error.content)}")


def _kind(source: object) -> str:
    """The kind of failure and its words, which name addresses and times, never headers."""
    return one_line(f"{type(source).__name__}: {source}")


def _said(content: bytes) -> str:
    """Qdrant's own words when the body has them."""
    try:
        said = json.loads(content)["status"]["error"]
    except (ValueError, KeyError, TypeError):
        said = content.decode("utf-8", "replace")
    return one_line(str(said))


# How fast a job may ask: at most so many requests a second, evenly spread, so that a live database hardly notices.


class Pace:
    """Call ``wait`` before each request. ``requests_per_second``: above zero; None: no limit.

    Evenly spread instead of a bucket that may be emptied at once: the burst is what a live database would feel.
    """

    __slots__ = ("_clock", "_interval_seconds", "_next", "_sleep")

    def __init__(
        self,
        requests_per_second: float | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._interval_seconds = 0.0 if requests_per_second is None else 1.0 / requests_per_second
        self._clock = clock
        self._sleep = sleep
        self._next = clock()

    def wait(self) -> None:
        """Return when the next request may go out. Time that was not used is not saved up."""
        now = self._clock()
        if now < self._next:
            self._sleep(self._next - now)
        self._next = max(self._next, now) + self._interval_seconds


T = TypeVar("T")

_MOST_NAMED = 20  # collections that an error lists; an operator with more looks elsewhere


class _Record(Protocol):
    """What the client's Record and ScoredPoint have in common."""

    @property
    def id(self) -> object: ...
    @property
    def vector(self) -> object: ...
    @property
    def payload(self) -> Mapping[str, object] | None: ...


class QdrantSource:
    """One collection of one server. ``vector_name``: None for the only dense vector there is.

    ``timeout_seconds``: of every single request. ``requests_per_second``: at most, evenly spread; None for no limit.
    ``payload_fields``: what is wanted of the payloads, None for all of it; more may come.
    A URL without a port means 6333, as it does for the client. Raises SourceError for a URL that is none.
    """

    def __init__(
        self,
        url: str,
        collection: str,
        *,
        vector_name: str | None,
        api_key: str | None,
        timeout_seconds: int,
        requests_per_second: float | None,
        payload_fields: tuple[str, ...] | None = None,
    ) -> None:
        from qdrant_client import QdrantClient

        # The key goes as a header: given as api_key, the client warns about plain HTTP on every start with a traceback's line.
        headers = {} if api_key is None else {"api-key": api_key}
        try:
            self._client = QdrantClient(url=url, timeout=timeout_seconds, check_compatibility=False, headers=headers)
        except ValueError:
            raise SourceError(f"--url: wanted http(s)://host[:port], saw {_without_secrets(url)}") from None
        self._url = _without_secrets(url)
        self._collection = collection
        self._wanted_name = vector_name
        self._pace = Pace(requests_per_second)
        self._payload = _payload_selector(payload_fields)
        self._shape: Shape | None = None

    def shape(self) -> Shape:
        """See Source. Raises SourceError for a collection, or a vector, that is not there or not dense."""
        if self._shape is None:
            info = self._ask(lambda: self._client.get_collection(self._collection))
            dense = choose(info.config.params.vectors, wanted=self._wanted_name, collection=self._collection)
            self._shape = Shape(
                points=info.points_count or 0,
                dimension=dense.dimension,
                distance=dense.distance,
                vector_name=dense.name,
            )
        return self._shape

    def ids(self, *, after: PointId | None, page: int) -> tuple[list[PointId], PointId | None]:
        """See Source."""
        records, following = self._ask(
            lambda: self._client.scroll(
                self._collection, limit=page, offset=after, with_payload=False, with_vectors=False
            )
        )
        return [_plain_id(record.id) for record in records], _plain_id_or_none(following)

    def scroll(self, *, after: PointId | None, page: int) -> tuple[list[Point], PointId | None]:
        """See Source."""
        selector = self._selector()
        records, following = self._ask(
            lambda: self._client.scroll(
                self._collection, limit=page, offset=after, with_payload=self._payload, with_vectors=selector
            )
        )
        return [self._point(record) for record in records], _plain_id_or_none(following)

    def read(self, ids: Sequence[PointId]) -> list[Point]:
        """See Source."""
        selector = self._selector()
        records = self._ask(
            lambda: self._client.retrieve(
                self._collection, list(ids), with_payload=self._payload, with_vectors=selector
            )
        )
        found = {point.id: point for point in map(self._point, records)}
        return [found[each] for each in ids if each in found]

    def neighbours(self, vectors: Vectors, *, count: int) -> list[list[tuple[Point, float]]]:
        """See Source."""
        from qdrant_client import models

        name, selector = self.shape().vector_name, self._selector()
        requests = [
            models.QueryRequest(
                query=vector.tolist(), using=name or None, limit=count, with_payload=self._payload, with_vector=selector
            )
            for vector in vectors
        ]
        answers = self._ask(lambda: self._client.query_batch_points(self._collection, requests))
        pools = [[self._point(scored) for scored in answer.points] for answer in answers]
        return [self._measured(vector, pool) for vector, pool in zip(vectors, pools, strict=True)]

    def nearest(self, vectors: Vectors, *, count: int) -> list[list[tuple[PointId, float]]]:
        """As ``neighbours``, ids and distances alone: under cosine the score says the distance, and no vector need travel."""
        from qdrant_client import models

        shape = self.shape()
        if shape.distance != "Cosine":
            return [[(point.id, far) for point, far in pool] for pool in self.neighbours(vectors, count=count)]
        exact = models.SearchParams(quantization=models.QuantizationSearchParams(rescore=True))
        requests = [
            models.QueryRequest(query=vector.tolist(), using=shape.vector_name or None, limit=count, params=exact)
            for vector in vectors
        ]
        answers = self._ask(lambda: self._client.query_batch_points(self._collection, requests))
        return [[(_plain_id(each.id), _distance(each.score)) for each in answer.points] for answer in answers]

    def close(self) -> None:
        """Let go of the connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _measured(self, vector: Vectors, pool: list[Point]) -> list[tuple[Point, float]]:
        missing = np.zeros(len(vector), np.float32)  # a row of zeros is infinitely far from everything
        rows = np.stack([vector, *(missing if point.vector is None else point.vector for point in pool)])
        distances = across(rows_of(rows[:1]), rows_of(rows[1:]), magnitude=self.shape().magnitude)[0]
        return [(point, float(distance)) for point, distance in zip(pool, distances, strict=True)]

    def _selector(self) -> bool | list[str]:
        """True for the unnamed vector: old servers do not know its name "" in a list."""
        name = self.shape().vector_name
        return [name] if name else True

    def _point(self, record: _Record) -> Point:
        shape = self.shape()
        held: object = record.vector
        if isinstance(held, Mapping):
            held = held.get(shape.vector_name)
        vector = np.asarray(held, np.float32) if isinstance(held, list) else None
        if vector is not None and vector.shape != (shape.dimension,):
            vector = None
        return Point(id=_plain_id(record.id), vector=vector, payload=record.payload or {})

    def _ask(self, request: Callable[[], T]) -> T:
        self._pace.wait()
        try:
            return request()
        except known_errors() as error:
            raise explained(error, url=self._url, collection=self._collection, names=self._names) from None

    def _names(self) -> tuple[str, ...]:
        """The collections there are, as far as this key may see them."""
        try:
            found = self._client.get_collections().collections
        except known_errors():
            return ()
        return tuple(sorted(each.name for each in found))[:_MOST_NAMED]


def _distance(score: float) -> float:
    """A cosine score as a distance; what float32 cannot tell from zero is zero, as in selection/geometry.py."""
    distance = min(1.0 - score, 2.0)
    return 0.0 if distance < NOISE else distance


def _payload_selector(fields: tuple[str, ...] | None) -> bool | list[str]:
    """All of it where a field has dots: Qdrant reads those as a way inwards only, and a key may have dots itself."""
    return True if fields is None or any("." in field for field in fields) else list(fields)


def _plain_id(value: object) -> PointId:
    """Numbers stay numbers; UUIDs are text, whichever way the client holds them."""
    return value if isinstance(value, int) else str(value)


def _plain_id_or_none(value: object) -> PointId | None:
    return None if value is None else _plain_id(value)


def _without_secrets(url: str) -> str:
    return str(masked(url))
