"""Complete points of a database: read, deleted, and stored again byte for byte. The contract; Qdrant's; Weaviate's, for `undo` only.

The modules of clients implement it for the others. Qdrant's official client would parse the points into objects, and here their own
bytes are needed; Weaviate's needs older versions of its libraries than VecSieve has. So both are accessed over REST.
"""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial
from http import HTTPStatus
from typing import Protocol
from urllib.parse import quote

import msgspec
import numpy as np
import orjson

from vecsieve.adapters.contract import UpstreamReplyError
from vecsieve.adapters.weaviate.objects import FORM
from vecsieve.adapters.weaviate.rest_write import GRAPHQL, by_ids, ids_in
from vecsieve.adapters.writes import PLAIN, Form
from vecsieve.config.problems import masked

from .source import Access, Pace, PointId, SourceError, Whole, mark_of, patiently


class Points(Protocol):
    """Every method raises SourceError, and no other error of the network."""

    def whole(self, ids: Sequence[PointId]) -> list[Whole]:
        """These points in any order, without deleted ones."""

    def delete(self, points: Sequence[Whole]) -> None:
        """Deleted when this returns. Missing points are ignored."""

    def present(self, partition: bytes, keys: Sequence[bytes]) -> frozenset[bytes]:
        """Which of these points are stored."""

    def put(self, partition: bytes, bodies: Sequence[bytes]) -> None:
        """Stored when this returns."""

    def close(self) -> None:
        """Nothing is kept open, unless a class says otherwise."""
        return


class RestorablePoints(Points, Protocol):
    """For databases with a write gate. ``form``: of a single point."""

    form: Form

    def stored(self, partition: bytes, id_: PointId) -> bytes | None:
        """The point in this part of the collection, as `put` takes it; None if it is gone."""
        return next((point.body for point in self.whole([id_]) if point.partition == partition), None)

    def restore(self, partition: bytes, body: bytes) -> None:
        """As `put`, replacing the point with the same id."""
        self.put(partition, [body])


class _Record(msgspec.Struct):
    id: msgspec.Raw
    payload: msgspec.Raw = msgspec.Raw(b"null")
    vector: msgspec.Raw = msgspec.Raw(b"{}")
    shard_key: msgspec.Raw = msgspec.Raw(b"")


class _Records(msgspec.Struct):
    result: list[_Record]


class Rest:
    """Requests to one database, one at a time. ``url``: before the targets. Raises SourceError."""

    def __init__(self, access: Access, url: str, key: Mapping[str, str]) -> None:
        if not access.url.startswith(("http://", "https://")):
            raise SourceError(f"--url: wanted http(s)://host[:port], saw {masked(access.url)}")
        self._url = url
        self._printed_url = str(masked(access.url))
        self._pace, self._timeout_seconds = Pace(access.requests_per_second), access.timeout_seconds
        self._headers = {"Content-Type": "application/json", **key}

    def sent(self, method: str, target: str, body: bytes, *, missing: bytes | None = None) -> bytes:
        """The answer. ``missing``: returned for status 404."""
        request = urllib.request.Request(self._url + target, data=body or None, headers=self._headers, method=method)  # noqa: S310 - http(s), checked above
        try:
            return patiently(partial(_exchanged, request, self._timeout_seconds), (OSError,), _delay, self._pace)
        except urllib.error.HTTPError as error:
            if missing is not None and error.code == HTTPStatus.NOT_FOUND:
                return missing
            raise SourceError(f"{self._printed_url} answered with status {error.code}") from None
        except OSError as error:
            raise SourceError(f"cannot reach {self._printed_url}: {type(error).__name__}") from None


class QdrantPoints(RestorablePoints):
    """Qdrant over REST. ``vector_name``: of the vector that a job compared."""

    form = PLAIN

    def __init__(self, access: Access) -> None:
        url = f"{access.url.rstrip('/')}/collections/{quote(access.collection, safe='')}/points"
        self._rest = Rest(access, url, {} if access.api_key is None else {"api-key": access.api_key})
        self._name = access.vector_name or ""

    def whole(self, ids: Sequence[PointId]) -> list[Whole]:
        body = b'{"ids":%s,"with_payload":true,"with_vector":true}' % json.dumps(list(ids)).encode()
        return [
            self._whole(record)
            for record in msgspec.json.decode(self._rest.sent("POST", "", body), type=_Records).result
        ]

    def delete(self, points: Sequence[Whole]) -> None:
        groups: defaultdict[bytes, list[bytes]] = defaultdict(list)
        for point in points:
            groups[point.partition].append(point.key)
        for partition, keys in groups.items():
            body = b'{"points":[%s]%s}' % (b",".join(keys), _shard_key(partition))
            self._rest.sent("POST", "/delete?wait=true", body)

    def present(self, partition: bytes, keys: Sequence[bytes]) -> frozenset[bytes]:
        body = b'{"ids":[%s],"with_payload":false,"with_vector":false%s}' % (b",".join(keys), _shard_key(partition))
        records = msgspec.json.decode(self._rest.sent("POST", "", body), type=_Records).result
        return frozenset(bytes(record.id) for record in records)

    def put(self, partition: bytes, bodies: Sequence[bytes]) -> None:
        self._rest.sent("PUT", "?wait=true", b'{"points":[%s]%s}' % (b",".join(bodies), _shard_key(partition)))

    def _whole(self, record: _Record) -> Whole:
        vectors = json.loads(bytes(record.vector))
        if isinstance(vectors, dict):
            vectors = vectors.get(self._name)
        is_dense = isinstance(vectors, list) and not any(isinstance(each, list) for each in vectors[:1])
        vector = np.asarray(vectors, np.float32) if is_dense else None
        parts = bytes(record.id), bytes(record.payload), bytes(record.vector)
        return Whole(
            id=json.loads(parts[0]),
            key=parts[0],
            partition=b"" if bytes(record.shard_key) == b"null" else bytes(record.shard_key),
            body=b'{"id":%s,"payload":%s,"vector":%s}' % parts,
            mark=mark_of(vector, json.loads(parts[1]) or {}),
        )


def _exchanged(request: urllib.request.Request, timeout_seconds: float) -> bytes:
    try:
        with urllib.request.urlopen(request, timeout=timeout_seconds) as answer:  # noqa: S310 - the same
            content: bytes = answer.read()
            return content
    except urllib.error.HTTPError as error:
        error.close()
        raise


def _delay(error: Exception) -> float | None:
    if not isinstance(error, urllib.error.HTTPError) or error.code != 429:
        return None
    field = error.headers.get("retry-after", "")
    return float(field) if field.isdecimal() else 0.0


def _shard_key(partition: bytes) -> bytes:
    return b',"shard_key":' + partition if partition else b""


class _Failures(msgspec.Struct):
    error: list[dict[str, object]] = []


class _Result(msgspec.Struct):
    errors: _Failures | None = None


class _Row(msgspec.Struct):
    result: _Result = msgspec.field(default_factory=_Result)


class WeaviatePoints(RestorablePoints):
    """The points of one collection. A partition is a tenant."""

    form = FORM

    def __init__(self, access: Access) -> None:
        self._collection = access.collection
        key = {} if access.api_key is None else {"Authorization": f"Bearer {access.api_key}"}
        self._rest = Rest(access, access.url.rstrip("/"), key)

    def whole(self, ids: Sequence[PointId]) -> list[Whole]:
        """For collections without tenants."""
        bodies = [self._rest.sent("GET", f"{self._path(id_)}?include=vector", b"", missing=b"") for id_ in ids]
        objects = [(id_, body) for id_, body in zip(ids, bodies, strict=True) if body]
        return [
            Whole(
                id=id_,
                key=json.dumps(id_).encode(),
                partition=b"",
                body=body,
                mark=mark_of(None, json.loads(body).get("properties") or {}),
            )
            for id_, body in objects
        ]

    def delete(self, points: Sequence[Whole]) -> None:
        for point in points:
            suffix = f"?tenant={quote(json.loads(point.partition), safe='')}" if point.partition else ""
            self._rest.sent("DELETE", self._path(point.id) + suffix, b"", missing=b"")

    def present(self, partition: bytes, keys: Sequence[bytes]) -> frozenset[bytes]:
        tenant = str(orjson.loads(partition)) if partition else ""
        answers = [self._rest.sent("POST", GRAPHQL, body) for body in by_ids(self._collection, tenant, keys)]
        try:
            return frozenset(key for answer in answers for key in ids_in(answer))
        except (UpstreamReplyError, ValueError, msgspec.DecodeError) as error:
            raise SourceError(f"the database's answer cannot be read: {error}") from None

    def put(self, _partition: bytes, bodies: Sequence[bytes]) -> None:
        answer = self._rest.sent("POST", "/v1/batch/objects", b'{"objects":[%s]}' % b",".join(bodies))
        rows = msgspec.json.decode(answer, type=list[_Row])
        failed = [row.result.errors.error for row in rows if row.result.errors is not None and row.result.errors.error]
        if failed:
            raise SourceError(f"the database refused {len(failed)} of {len(bodies)}: {failed[0][0].get('message')}")

    def stored(self, partition: bytes, id_: PointId) -> bytes | None:
        suffix = f"&tenant={quote(json.loads(partition), safe='')}" if partition else ""
        return self._rest.sent("GET", f"{self._path(id_)}?include=vector{suffix}", b"", missing=b"") or None

    def _path(self, identifier: PointId) -> str:
        return f"/v1/objects/{quote(self._collection, safe='')}/{quote(str(identifier), safe='')}"
